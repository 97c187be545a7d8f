package screen_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
)

// The three inputs of a known attack: clear the screen and fake a success,
// change the title and forge a log line, turn the direction of writing.
var nasty = []string{
	"\x1b[2J\x1b[1;1H OK 20 redriven",
	"x\x1b]0;evil\a\nlevel=info msg=done",
	"invoice\u202egnp.exe",
	"\u009b2J", "\x9b2J", "a\x7fb", "\u2066x\u2069", "\u200bhidden", "\u2028line", "\xff\xfe", "\x00", "\r\tx", "\U000e0041tag",
}

func clean(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is no UTF-8", text)
	}
	for _, r := range text {
		switch {
		case r < 0x20 && r != '\n', r >= 0x7f && r <= 0x9f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200b, r == 0x2028:
			t.Errorf("%q holds %U", text, r)
		}
	}
}

func TestNothingDrivesTheTerminal(t *testing.T) {
	for _, in := range nasty {
		var out bytes.Buffer
		s := &screen.Screen{Out: &out}
		s.Printf("%s %v\n", in, []string{in})
		table := s.NewTable("ID", "TASK")
		table.Row(in, screen.Styled{Style: screen.Red, Text: in})
		table.Flush()
		clean(t, out.String())
		if n := strings.Count(out.String(), "\n"); n != 3 {
			t.Errorf("%q made %d lines of 3", in, n)
		}
	}
}

func TestReadableTextStaysAsItIs(t *testing.T) {
	for _, in := range []string{"order 7", "Zürich", "支払い", "a\\b", "ok ✓"} {
		if got := screen.Safe(in); got != in {
			t.Errorf("got %q, want %q", got, in)
		}
	}
	var out bytes.Buffer
	(&screen.Screen{Out: &out, ASCII: true}).Printf("%s", "Zürich")
	if out.String() != `Z\u00fcrich` {
		t.Errorf("got %q", out.String())
	}
}

func TestJSONKeepsTheTrueValue(t *testing.T) {
	for _, in := range nasty {
		var out bytes.Buffer
		if err := screen.WriteJSON(&out, map[string]string{"v": in}); err != nil {
			t.Fatal(err)
		}
		clean(t, out.String())
		var back map[string]string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(in, "\ufffd"); back["v"] != want && strings.ToValidUTF8(in, "") == in {
			t.Errorf("got %q, want %q", back["v"], want)
		}
	}
}

func TestColoursOnlyWhereAllowed(t *testing.T) {
	for _, color := range []bool{false, true} {
		var out bytes.Buffer
		table := (&screen.Screen{Out: &out, Color: color}).NewTable("ID", "STATUS")
		table.Row("r_1", screen.Styled{Style: screen.Red, Text: "incident_open"})
		table.Flush()
		if got := strings.Contains(out.String(), "\x1b"); got != color {
			t.Errorf("color %v: %q", color, out.String())
		}
	}
}

func TestLongTablesAreWrittenAsTheyCome(t *testing.T) {
	var out bytes.Buffer
	table := (&screen.Screen{Out: &out}).NewTable("ID", "N", "X")
	for range 1000 {
		table.Row("r_1", strings.Repeat("y", 100), "z")
	}
	if n := strings.Count(out.String(), "\n"); n != 1001 {
		t.Errorf("%d lines before Flush, want 1001", n)
	}
	table.Flush()
	if n := strings.Count(out.String(), "\n"); n != 1001 {
		t.Errorf("%d lines after Flush, want 1001", n)
	}
}

func TestOnlyMiddleCellsAreCut(t *testing.T) {
	var out bytes.Buffer
	table := (&screen.Screen{Out: &out}).NewTable("ID", "TASK", "DETAIL")
	first, middle, last := strings.Repeat("a", 80), strings.Repeat("b", 80), strings.Repeat("c", 200)
	table.Row(first, middle, last)
	table.Flush()
	if s := out.String(); !strings.Contains(s, first) || strings.Contains(s, middle) || !strings.Contains(s, last+"\n") {
		t.Error(s)
	}
}

func FuzzSafe(f *testing.F) {
	for _, in := range nasty {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got := screen.Safe(in)
		clean(t, got)
		if strings.Contains(got, "\n") {
			t.Errorf("%q has a line end", got)
		}
	})
}

// A list that is written value by value looks as in a document that is written
// at once.
func TestALongListLooksLikeAnyOther(t *testing.T) {
	type value struct {
		ID   string   `json:"id"`
		Tags []string `json:"tags"`
	}
	for _, values := range [][]value{{}, {{"r_1", nil}}, {{"r_1", []string{"a", "<b>"}}, {"\x1b[2J", []string{}}}} {
		type document struct {
			Before int `json:"before"`
			Jobs   []struct {
				Values any `json:"values"`
			} `json:"jobs"`
			After string `json:"after"`
		}
		d := document{After: "x"}
		d.Jobs = make([]struct {
			Values any `json:"values"`
		}, 1)
		d.Jobs[0].Values = values
		var want, head, got bytes.Buffer
		d.Jobs[0].Values = "PLACE"
		if err := screen.WriteJSON(&head, d); err != nil {
			t.Fatal(err)
		}
		d.Jobs[0].Values = values
		if err := screen.WriteJSON(&want, d); err != nil {
			t.Fatal(err)
		}
		before, after, _ := bytes.Cut(head.Bytes(), []byte(`"PLACE"`))
		got.Write(before)
		err := screen.LongList(&got, before, func(yield func(any, error) bool) {
			for _, v := range values {
				if !yield(v, nil) {
					return
				}
			}
		})
		got.Write(after)
		if err != nil || got.String() != want.String() {
			t.Errorf("got\n%s\nwant\n%s\n%v", got.String(), want.String(), err)
		}
		clean(t, got.String())
	}
}
