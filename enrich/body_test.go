package enrich

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzDocument compares with the standard library: the same texts are JSON, and
// each member has the same value.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"a":1}`, ` { "a" : [ 1 , {"b":"}"} ] , "c":null,"d":true , "e":-1.5e+7}`, `{"a":1,"a":2}`, `{"\u0061":"\"\\"}`, `[{"a":[]},"]",[[]],0]`,
		`{"a":1}x`, `{"a"}`, `{"":{"":""}}`, "{\"\xff\":\"\xff\"}", `{"a":"\ud800"}`, "\xEF\xBB\xBF{\"a\":1}", `{` + strings.Repeat(`"k":1,`, 60) + `"z":[2]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d := openDocument(in)
		clean := bytes.TrimPrefix(in, byteOrderMark)
		var members map[string]json.RawMessage
		if json.Unmarshal(clean, &members) == nil && members != nil {
			if !d.object() {
				t.Fatal("an object is opaque")
			}
			for key, want := range members {
				if got := d.raw([]string{key}); !bytes.Equal(got, want) {
					t.Fatalf("%q: got %q, want %q", key, got, want)
				}
				d.value([]string{key, "0", "a"})
			}
			return
		}
		var elements []json.RawMessage
		if json.Unmarshal(clean, &elements) == nil && elements != nil {
			if d.object() || len(d.top.members) != len(elements) {
				t.Fatalf("got %d elements, want %d", len(d.top.members), len(elements))
			}
			for i, want := range elements {
				if got := d.top.members[i].raw; !bytes.Equal(got, want) {
					t.Fatalf("%d: got %q, want %q", i, got, want)
				}
			}
			return
		}
		if d.root != nil {
			t.Fatalf("%q is no object and no array", in)
		}
	})
}

func TestLargeObjects(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"a":"first"`)
	for range 100_000 {
		b.WriteString(`,"x":1`)
	}
	b.WriteString(`,"a":"last"}`)
	if v, ok := openDocument([]byte(b.String())).value([]string{"a"}); !ok || v.text != "last" {
		t.Errorf("got %q", v.text)
	}
}
