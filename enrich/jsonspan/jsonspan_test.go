package jsonspan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

var seeds = []string{
	`{"a":[1, -0.5e3,true , null,"\"]},\\"],"":{}}`, ` [ ] `, "\t\"\\u0022\"\r\n", `0`, ` false`, `[[[]],{"k":{"k":[{}]}}]`, `{"a" : 1 , "b": "x"}`,
}

// FuzzEnd: a value ends where the standard library says that it ends, whatever
// stands behind it.
func FuzzEnd(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			t.Skip("no JSON")
		}
		at := Blanks(raw, 0)
		want := at + len(bytes.TrimRight(raw[at:], " \t\r\n"))
		for _, behind := range []string{"", ",1", "]", "}", " ", "\n:"} {
			if got := End([]byte(string(raw[:want])+behind), at); got != want {
				t.Errorf("%q and %q: ends at %d, want %d", raw, behind, got, want)
			}
		}
	})
}

func TestBlanks(t *testing.T) {
	for text, want := range map[string]int{"": 0, "x": 0, " \t\r\nx ": 4, "  ": 2, "\u00a0x": 0} {
		if got := Blanks([]byte(text), 0); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if got := Blanks([]byte(strings.Repeat(" ", 9)+"x"), 4); got != 9 {
		t.Errorf("from the middle: got %d", got)
	}
}

// FuzzLevel: what stands on one level, written one after the other, is the whole.
func FuzzLevel(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = bytes.TrimSpace(raw)
		if !json.Valid(raw) || raw[0] != '{' && raw[0] != '[' {
			t.Skip("no object or list")
		}
		var parts [][]byte
		blank := Level(raw, func(m Member) bool {
			if !json.Valid(m.Value) || (m.Key != nil) != (raw[0] == '{') || m.Key != nil && !bytes.Contains(m.Lead, m.Key) {
				t.Errorf("%q: %q", raw, m)
			}
			parts = append(parts, bytes.Join([][]byte{m.Lead, m.Value, m.Tail}, nil))
			return true
		})
		again := append(append([]byte{raw[0]}, append(blank, bytes.Join(parts, []byte(","))...)...), raw[len(raw)-1])
		if !bytes.Equal(again, raw) {
			t.Errorf("%q came back as %q", raw, again)
		}
	})
}
