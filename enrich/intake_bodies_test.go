package enrich_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge/enrich"
)

// C21, C28, C29, C30, C32, C33: whatever a body holds, its bytes are what the
// record keeps and would send, and nothing is put around them.
func TestC32BodiesAreKeptWhateverTheyHold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bodies := []string{
			"\uFEFF" + `{"task":"resize","task_id":17}`,
			`{"k":"\ud800"}`, `{"a":1,"a":2}`, `{"order_id":616581622363398142,"neg":-6221876622438591526}`,
			strings.Repeat(`{"x":`, 40) + "1" + strings.Repeat("}", 40),
			strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
			`{"metadata":{"encoding":"anNvbi9wbGFpbg==","k2":"djI="},"data":"eyJhIjoxfQ=="}`,
			`{"tool_calls":[{"function":{"name":"weather","arguments":"{\"city\": \"Par"}}],"finish_reason":"length"}`,
			inBase64(gzipped(t, `{"taskId":"t-1"}`)), notification(`{"taskId":"t-2"}`),
			`["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"b","s3Key":"k"}]`, "x",
		}
		left := map[[32]byte]bool{}
		for _, b := range bodies {
			w.send(message{body: b})
			left[sha256.Sum256([]byte(b))] = true
		}
		w.die()
		if counts := w.drain(); counts.Records != len(bodies) || counts.Unstored != 0 {
			t.Fatalf("counts: %+v", counts)
		}
		for _, c := range w.cases() {
			p, err := w.store.Payload(t.Context(), c.Control.ID, c.Control.Newest)
			must(t, err)
			if sum := sha256.Sum256(p.Body); !left[sum] || len(p.Attributes) != 0 {
				t.Errorf("%s keeps another body: %.80q, %d attributes", c.Control.ID, p.Body, len(p.Attributes))
			} else {
				delete(left, sum)
			}
		}
	})
}

// C34: hostile depth is stored like anything else, and the letters after it too.
func TestC34HostileDepthStopsNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(message{body: strings.Repeat("[", 400_000) + strings.Repeat("]", 400_000)},
			message{body: strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)})
		for range 10 {
			w.send(message{body: `{"order":7}`})
		}
		w.die()
		if counts := w.drain(); counts.Records != 12 || counts.Unstored != 0 {
			t.Errorf("counts: %+v", counts)
		}
	})
}

// C35, C36: a pointer is stored as a pointer, with the size that its sender
// declared. The object is not fetched, so no hiccup of its store can make a
// good letter poison; whether it is still there is said to be unknown.
func TestC35PointerIsKeptAndNotFetched(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(message{
			body:       `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"acme-large","s3Key":"gone"}]`,
			attributes: map[string]string{"ExtendedPayloadSize": "900000", "agent.task.id": "t-9"},
		})
		w.die()
		if counts := w.drain(); counts.Records != 1 || w.depth(w.dlq) != 0 {
			t.Fatalf("counts: %+v, %d letters left", counts, w.depth(w.dlq))
		}
		for _, c := range w.cases() {
			a := c.Arrivals[0]
			if a.Facts["pointer.bytes"] != "900000" || a.Facts["pointer.key"] != "gone" || !strings.Contains(a.Facts["payload"], "not fetched") {
				t.Errorf("facts: %v", a.Facts)
			}
			if r := c.Context(c.Control.Context).Restriction; !strings.Contains(r, "acme-large/gone") || !strings.Contains(r, "may be gone") {
				t.Errorf("no warning before a send: %q", r)
			}
		}
		if counts := w.drain(); counts.Records != 0 || counts.Letters != 0 {
			t.Errorf("a second run did something: %+v", counts)
		}
	})
}

// C37: sizes are bytes, and a payload larger than one item of the table is kept
// whole; the letter goes only after that.
func TestC37PayloadLargerThanAnItem(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		large := map[string]string{}
		for name, b := range map[string]string{
			"with attributes": strings.Repeat("a", 380_000), "three bytes each": strings.Repeat("€", 140_000), "two bytes each": strings.Repeat("é", 300_000),
			"nearly a megabyte": strings.Repeat("0123456789", 104_000),
		} {
			m := message{body: b, attributes: map[string]string{"name": name}}
			if name == "with attributes" {
				for _, a := range []string{"a", "b", "c", "d"} {
					m.attributes[a] = strings.Repeat(a, 10_000)
				}
			}
			w.send(m)
			large[name] = b
		}
		w.die()
		if counts := w.drain(); counts.Records != len(large) || counts.Unstored != 0 || w.depth(w.dlq) != 0 {
			t.Fatalf("counts: %+v", counts)
		}
		for _, c := range w.cases() {
			p, err := w.store.Payload(t.Context(), c.Control.ID, c.Control.Newest)
			must(t, err)
			name, _ := p.Attribute("name")
			if string(p.Body) != large[string(name.Value)] || c.Arrivals[0].PayloadBytes != p.Size() {
				t.Errorf("%s: %d bytes are kept, %d said", name.Value, p.Size(), c.Arrivals[0].PayloadBytes)
			}
			if shown := enrich.PreviewOf(p.Body); len(shown.Text) > enrich.MaxPreview || !shown.Cut {
				t.Errorf("%s: the preview has %d bytes, cut %v", name.Value, len(shown.Text), shown.Cut)
			}
		}
	})
}
