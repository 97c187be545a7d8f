package sqs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

func TestHalvesOfSurrogatePairsAreRefused(t *testing.T) {
	for text, want := range map[string]bool{
		`"plain"`:              false,
		`"\u00e4\ud83d\ude00"`: false,
		`"\uD83D\uDE00"`:       false,
		`"\\ud83d"`:            false, // an escaped backslash, then letters
		`"\ud83d"`:             true,
		`"\ud83dx"`:            true,
		`"\ude00"`:             true,
		`"\ud83d\ud83d"`:       true,
		`"\ud83d\\ude00"`:      true,
		`"\UD83D"`:             false, // no escape either
		`"\ud8`:                false, // no escape at all; the decoder refuses it
	} {
		if got := loneSurrogate([]byte(text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// FuzzLoneSurrogate compares with what Go's decoder makes of the text: it
// turns each half into U+FFFD.
func FuzzLoneSurrogate(f *testing.F) {
	for _, seed := range []string{"d83d", "d83dde00", "0041d83d", "5c5cd83d", "0\x1000", "DeAd"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, hex string) {
		var text strings.Builder
		want := false
		var units []uint16
		for ; len(hex) >= 4; hex = hex[4:] {
			unit := hexUnit([]byte(`\u` + hex[:4]))
			if unit < 0 || unit == 0xFFFD {
				return
			}
			text.WriteString(`\u` + hex[:4])
			units = append(units, uint16(unit))
		}
		for _, r := range utf16.Decode(units) {
			want = want || r == 0xFFFD
		}
		quoted := `"` + text.String() + `"`
		var decoded string
		if json.Unmarshal([]byte(quoted), &decoded) != nil {
			t.Fatalf("made no JSON: %s", quoted)
		}
		if got := loneSurrogate([]byte(quoted)); got != want {
			t.Errorf("%s: got %v, want %v", quoted, got, want)
		}
	})
}

func FuzzReceiptHandles(f *testing.F) {
	q := newQueue("q", defaults(), time.Time{})
	m := &message{id: newID(), receipt: 7}
	q.byID[m.id] = m
	good := q.handle(m)
	f.Add(good)
	f.Add(good[1:])
	f.Add("")
	f.Add(good + "\n")
	f.Fuzz(func(t *testing.T, handle string) {
		found, current, refused := q.openHandle(handle)
		if (found != nil || current) && handle != good {
			t.Errorf("%q opens the message of %q", handle, good)
		}
		if handle == good && (found != m || !current || refused != nil) {
			t.Errorf("its own handle: got %v, %v, %v", found, current, refused)
		}
	})
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-0": true, "1.": true, ".5": true, "1e126": true, "1e127": false, "-1e128": true, "-1e129": false,
		"00000000000000000000000000000000000000000001": true, strings.Repeat("9", 38) + "000": true, strings.Repeat("9", 39): false,
		"1e-400": true, "1e99999": false, "": false, ".": false, "e1": false, "1_0": false, "٣": false,
	} {
		if got := isNumber(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
