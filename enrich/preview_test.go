package enrich_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge/enrich"
)

func gzipped(t testing.TB, texts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, s := range texts { // each a member of its own
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(s))
		must(t, err, z.Close())
	}
	return b.Bytes()
}

func inBase64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// C18: a compressed body is opened for reading only, and what was left out is said.
func TestC18CompressedBodyIsReadAndKept(t *testing.T) {
	small := inBase64(gzipped(t, `{"taskId":"t-1","tenantId":"acme"}`))
	a := plain(t).Extract(sqsLetter(small, text("Content-Encoding", "gzip")))
	if a.Task.TaskID != "t-1" || a.Provenance["taskId"] != "gzip>body:/taskId" || !slices.Equal(a.Envelopes, []string{"gzip"}) {
		t.Errorf("got %+v, %v, %v", a.Task, a.Provenance, a.Envelopes)
	}
	if want := sqsLetter(small, text("Content-Encoding", "gzip")).Payload.Hash(); a.PayloadSHA256 != want {
		t.Error("the record keeps another body than the letter's")
	}
	large := inBase64(gzipped(t, `{"taskId":"t-1","x":"`+strings.Repeat("0123456789", 300_000)+`"}`))
	a = plain(t).Extract(sqsLetter(large))
	if a.Facts["gzip.shown"] == "" || a.Task.TaskID != "" {
		t.Errorf("3 MB: got %v, %+v", a.Facts, a.Task)
	}
	p := enrich.PreviewOf([]byte(large))
	if !p.Cut || len(p.Text) != enrich.MaxPreview || !strings.HasPrefix(p.Text, `{"taskId":"t-1"`) || len(p.How) != 1 {
		t.Errorf("preview: cut %v, %d bytes, how %v", p.Cut, len(p.Text), p.How)
	}
}

// C18: a body that unpacks to a gigabyte costs no more than the cap.
func TestC18BombCostsNoMoreThanTheCap(t *testing.T) {
	member := gzipped(t, strings.Repeat("\x00", 1<<20))
	bomb := bytes.Repeat(member, 1024)
	e := plain(t)
	for name, body := range map[string]string{"bytes": string(bomb), "base64": inBase64(bomb)} {
		l := sqsLetter(body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := e.Extract(l)
		p := enrich.PreviewOf(l.Payload.Body)
		runtime.ReadMemStats(&after)
		// The payload's own hash copies the body once; unpacking adds a few caps.
		if used := int(after.TotalAlloc - before.TotalAlloc); used > 3*len(body)+20*enrich.MaxPreview {
			t.Errorf("%s: %d bytes were used for a body of %d", name, used, len(body))
		}
		if !p.Cut || a.Facts["gzip.shown"] == "" {
			t.Errorf("%s: cut %v, facts %v", name, p.Cut, a.Facts)
		}
	}
}

// C17, C19, C21, C22: a preview shows what can be shown and says what it did.
func TestPreviewSaysWhatItDid(t *testing.T) {
	for name, c := range map[string]struct {
		body          string
		text, how     string
		cut, replaced bool
	}{
		"C17 looks like base64": {body: "SGVsbG8=", text: "SGVsbG8="},
		"C19 UTF-16":            {body: "\xFF\xFEa\x00", text: "a", how: "from UTF-16, little endian"},
		"C19 a lone byte":       {body: "a\xC3", text: "a\uFFFD", replaced: true},
		"C19 escaped surrogate": {body: `{"k":"\ud800"}`, text: `{"k":"\ud800"}`},
		"C19 repeated key":      {body: `{"a":1,"a":2}`, text: `{"a":1,"a":2}`},
		"C21 byte order mark":   {body: "\xEF\xBB\xBF{}", text: "{}", how: "without its byte order mark"},
		"C22 empty":             {},
		"base64 of JSON":        {body: inBase64([]byte(`{"a":1}`)), text: `{"a":1}`, how: "decoded from base64, a guess"},
		"gzip in bytes":         {body: string(gzipped(t, "x")), text: "x", how: "unpacked from gzip"},
		"gzip broken off":       {body: string(gzipped(t, "x")[:11]), text: strings.ToValidUTF8(string(gzipped(t, "x")[:11]), "\uFFFD"), replaced: true},
	} {
		p := enrich.PreviewOf([]byte(c.body))
		if p.Text != c.text || strings.Join(p.How, ", ") != c.how || p.Cut != c.cut || p.Replaced != c.replaced {
			t.Errorf("%s: got %+v", name, p)
		}
	}
}

// C20: a preview is cut on a character's border and says so.
func TestC20PreviewIsCutOnABorder(t *testing.T) {
	for _, tail := range []string{"😀", "€", "é", "🇪🇺"} {
		for n := enrich.MaxPreview - 10; n <= enrich.MaxPreview+2; n++ {
			body := strings.Repeat("a", n) + tail + tail
			p := enrich.PreviewOf([]byte(body))
			if !utf8.ValidString(p.Text) || len(p.Text) > enrich.MaxPreview || p.Replaced || p.Cut != (len(body) > enrich.MaxPreview) || !strings.HasPrefix(body, p.Text) {
				t.Fatalf("%d letters and %q: %d bytes, cut %v, replaced %v", n, tail, len(p.Text), p.Cut, p.Replaced)
			}
		}
	}
}

func FuzzPreview(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte("\xFF\xFEa\x00\x00\xd8"))
	f.Add(gzipped(f, strings.Repeat("x", 100_000)))
	f.Add([]byte(inBase64(gzipped(f, inBase64([]byte(`{"a":1}`))))))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		p := enrich.PreviewOf(body)
		if !utf8.ValidString(p.Text) || len(p.Text) > enrich.MaxPreview || !bytes.Equal(before, body) {
			t.Fatalf("%d bytes, valid %v", len(p.Text), utf8.ValidString(p.Text))
		}
	})
}
