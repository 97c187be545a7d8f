package dlqbridge

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPayloadRoundTrip(t *testing.T) {
	for _, p := range []Payload{
		{},
		{Body: []byte("hello"), GroupKey: "g"},
		{Body: []byte{0xff, 0xfe, 0}, Attributes: []Attribute{{"n", "Number.int", []byte("42")}, {"z", "Binary.protobuf", []byte{0, 1}}}},
		{Attributes: []Attribute{{"empty", "String", nil}}},
	} {
		got, err := DecodePayload(p.Encode())
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		if !bytes.Equal(got.Encode(), p.Encode()) || got.Hash() != p.Hash() {
			t.Errorf("got %+v, want %+v", got, p)
		}
	}
}

func TestPayloadHashIgnoresOnlyOurMark(t *testing.T) {
	p := Payload{Body: []byte("b"), Attributes: []Attribute{{"a", "String", []byte("1")}}}
	marked := p.With(Attribute{MarkName, "String", []byte("{}")}).With(Attribute{MarkToName, "String", []byte("billing")})
	if marked.Hash() != p.Hash() {
		t.Error("the mark changes the hash")
	}
	if len(p.Attributes) != 1 {
		t.Error("With changed its receiver")
	}
	for name, other := range map[string]Payload{
		"body":  {Body: []byte("c"), Attributes: p.Attributes},
		"group": {Body: p.Body, Attributes: p.Attributes, GroupKey: "g"},
		"type":  {Body: p.Body, Attributes: []Attribute{{"a", "String.x", []byte("1")}}},
		"value": {Body: p.Body, Attributes: []Attribute{{"a", "String", []byte("2")}}},
	} {
		if other.Hash() == p.Hash() {
			t.Errorf("a different %s hashes alike", name)
		}
	}
}

// Payloads may share their attributes, so With and Without never write into them.
func TestPayloadsThatShareAttributes(t *testing.T) {
	all := make([]Attribute, 2, 4) // room in which an append would write
	all[0], all[1] = Attribute{Name: "b"}, Attribute{Name: "c"}
	p := Payload{Attributes: all}
	first, second, without := p.With(Attribute{Name: "a"}), p.With(Attribute{Name: "z"}), p.Without("b")
	for what, got := range map[string]struct {
		p    Payload
		want string
	}{
		"the receiver": {p, "bc"}, "with a": {first, "abc"}, "with z": {second, "bcz"}, "without b": {without, "c"}, "without none": {p.Without("x"), "bc"},
	} {
		var names strings.Builder
		for _, a := range got.p.Attributes {
			names.WriteString(a.Name)
		}
		if names.String() != got.want {
			t.Errorf("%s has %q, want %q", what, names.String(), got.want)
		}
	}
}

func TestRecordIDKeepsFieldsApart(t *testing.T) {
	base := RecordID(IdentityTask, "src", "ten", "task", 0)
	if len(base) != 28 || !strings.HasPrefix(base, "r_") {
		t.Fatalf("id %q", base)
	}
	for name, other := range map[string]string{
		"moved border": RecordID(IdentityTask, "sr", "cten", "task", 0),
		"episode":      RecordID(IdentityTask, "src", "ten", "task", 1),
		"identity":     RecordID(IdentityMessage, "src", "ten", "task", 0),
		"tenant":       RecordID(IdentityTask, "src", "", "task", 0),
	} {
		if other == base {
			t.Errorf("%s gives the same id", name)
		}
	}
}

// C20: at every cut point of texts with long characters, what is left is valid
// and within the limit.
func TestCutTextStaysValid(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a", 1023) + "😀", strings.Repeat("€", 400), "x" + strings.Repeat("€", 400),
		"xy" + strings.Repeat("€", 400), strings.Repeat("🇧🇷", 200),
	} {
		for limit := range len(text) + 1 {
			got := CutText(text, limit)
			if len(got) > limit || !utf8.ValidString(got) || !strings.HasPrefix(text, got) {
				t.Fatalf("cut %d bytes of %q…: %q", limit, text[:8], got)
			}
		}
	}
}

func TestShortIsBoundedAndKeepsDifferences(t *testing.T) {
	long := strings.Repeat("é", 200)
	if got := Short(long + "1"); len(got) > 128 || got == Short(long+"2") || !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
	if got := Short("plain"); got != "plain" {
		t.Errorf("%q", got)
	}
}

func FuzzDecodePayload(f *testing.F) {
	f.Add(Payload{Body: []byte("b"), Attributes: []Attribute{{"a", "String", []byte("v")}}}.Encode())
	f.Add([]byte("dlqp1\x00\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePayload(b)
		if err == nil && !bytes.Equal(p.Encode(), b) {
			t.Errorf("%x decodes, but encodes as %x", b, p.Encode())
		}
	})
}
