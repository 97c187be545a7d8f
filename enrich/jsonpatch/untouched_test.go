package jsonpatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// strange is what a reader who is not careful brings back as something else.
var strange = []string{
	`"\ud800"`, `"\udfff"`, `"a\uDBFFb"`, `"\udc00\ud800"`, `["\ud800",{"\ud800":"\ud801"}]`, `{"\ud800":1,"\ud801":2}`,
	`{"a":1,"a":2}`, `{"k":{"a":1,"\u0061":2},"k":[]}`, `[{"":0,"":0}]`,
	`9007199254740993`, `1e400`, `-1E-400`, `1.0`, `1`, `1.10`, `-0`, `-0.0`, `1e2`, `1E+02`, `0.1000000000000000055511151231257827`, `1e99999999999999999999`,
	`"\u0041\/\u00e9é\u2028` + "\u2028" + `<&>\u0000"`, `"\ud83d\ude00"`, "{ }", "[\n]", `[ 1 ,2 ]`, "{\t\"a\" :\r\n1 }", `null`, `true`, `""`,
}

// Whatever a body holds, where the patch does not touch it each byte stays, by
// each operation and by a merge, in an object and in a list.
func TestWhatIsNotTouchedKeepsItsBytes(t *testing.T) {
	for _, s := range strange {
		for _, tt := range []struct{ patch, body, want string }{
			{`[{"op":"add","path":"/x","value":1}]`, `{"keep": %s}`, `{"keep": %s,"x": 1}`},
			{`[{"op":"add","path":"/x/1","value":1}]`, "{\"keep\":%s,\"x\":[0, 2]}\n", "{\"keep\":%s,\"x\":[0, 1, 2]}\n"},
			{`[{"op":"add","path":"/x/-","value":1}]`, `{"x":[%s]}`, `{"x":[%s,1]}`},
			{`[{"op":"replace","path":"/x/y","value":1}]`, "\xEF\xBB\xBF {\"x\" : {\"keep\" : %s , \"y\" : 0}}", "\xEF\xBB\xBF {\"x\" : {\"keep\" : %s , \"y\" : 1}}"},
			{`[{"op":"replace","path":"/0","value":1}]`, `[0, %s]`, `[1, %s]`},
			{`[{"op":"remove","path":"/x"}]`, `{"x":0,"keep":%s}`, `{"keep":%s}`},
			{`[{"op":"remove","path":"/1"}]`, "[\n  %s,\n  0\n]", "[\n  %s\n]"},
			{`[{"op":"move","from":"/x","path":"/y"}]`, `{"keep":%s,"x":0}`, `{"keep":%s,"y":0}`},
			{`[{"op":"move","from":"/x","path":"/y/z"}]`, `{"x":%s,"y":{}}`, `{"y":{"z":%s}}`},
			{`[{"op":"copy","from":"/x","path":"/y"}]`, `{"x":%s}`, `{"x":%[1]s,"y":%[1]s}`},
			{`[{"op":"test","path":"/x","value":0},{"op":"remove","path":"/x"}]`, `{"x":0,"keep":%s}`, `{"keep":%s}`},
			{`{"x":1,"y":{"z":null}}`, `{"keep":%s,"y":{"keep":%[1]s,"z":0}}`, `{"keep":%s,"y":{"keep":%[1]s},"x":1}`},
		} {
			body, want := fmt.Sprintf(tt.body, s), fmt.Sprintf(tt.want, s)
			if got := applied(t, tt.patch, body); got != want {
				t.Errorf("%s\nmakes of %s\n%s\nwant\n%s", tt.patch, body, got, want)
			}
		}
	}
}

// A body that is written in lines stays one.
func TestNewMembersStandAsTheirNeighboursDo(t *testing.T) {
	body := "{\n  \"a\": 1,\n  \"list\": [\n    1\n  ]\n}"
	want := "{\n  \"a\": 1,\n  \"list\": [\n    1,\n    2\n  ],\n  \"b\": {\"c\":[3]}\n}"
	patch := `[{"op":"add","path":"/list/-","value":2},{"op":"add","path":"/b","value":{ "c" : [ 3 ] }}]`
	if got := applied(t, patch, body); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is written by a patch is what stands in it: half of a character could
// only become something else, so the patch is refused with its place.
func TestAPatchIsWhollyText(t *testing.T) {
	for _, tt := range []struct{ patch, want string }{
		{`[{"op":"add","path":"/a","value":"\ud800"}]`, `line 1, column 34: the text at /0/value holds half of a character`},
		{"[\n {\"op\":\"add\",\"path\":\"/a\",\"value\":\n  {\"é\": [1, \"x\\uDC00\"]}}\n]", `line 3, column 13: the text at /0/value/é/1 holds half of a character`},
		{`[{"op":"test","path":"/a","value":{"\udfff":1}}]`, `line 1, column 36: a name at ` + "/0/value/\uFFFD" + ` holds half of a character`},
		{`[{"op":"remove","path":"/\ud800"}]`, `line 1, column 24: the text at /0/path holds half of a character`},
		{`[{"op":"move","path":"/a","from":"/\ud83d\ud83d\ude00"}]`, `line 1, column 34: the text at /0/from holds half of a character`},
		{`[{"op":"remove","path":"/a","comment":"\ud800"}]`, `line 1, column 39: the text at /0/comment holds half of a character`},
		{`{"a":{"b":["\ud800\ud800"]}}`, `line 1, column 12: the text at /a/b/0 holds half of a character`},
		{`{"a":1,"\ud800":1}`, `line 1, column 8: a name at ` + "/\uFFFD" + ` holds half of a character`},
		{"{\"a\":\n\"\xFF\"}", `line 2, column 2: it is not UTF-8`},
		{"{\"a\":\"\xED\xA0\x80\"}", `line 1, column 7: it is not UTF-8`},
		{"{\"a\":1,\n \"b\":}", `line 2, column 6: it is not JSON`},
		{`{"a":`, `line 1, column 5: it is not JSON`},
		{"{\"a\":1,\n\"a\":2}", `line 2, column 1: it names /a twice`},
	} {
		if p, err := Parse([]byte(tt.patch)); err == nil || !strings.Contains(err.Error(), "the patch cannot be used: "+tt.want) {
			t.Errorf("%s\ngot  %v, %v\nwant %s", tt.patch, p, err, tt.want)
		}
	}
	for _, patch := range []string{`{"a":"\ud83d\ude00"}`, `{"a":"\\ud800"}`, "{\"a\":\"\uFFFD\\ufffd\"}"} {
		if got := applied(t, patch, `{}`); got != patch {
			t.Errorf("%s became %s", patch, got)
		}
	}
}

// Positions of lists are as RFC 6901 has them, wherever a pointer names one; in
// an object the same texts are names.
func TestPositionsOfLists(t *testing.T) {
	const odd, end, beyond = "in a list a position is 0, or a number without sign and leading zeros", "in a list - stands for the end", "the list has no such position"
	uses := []struct{ name, patch string }{
		{"add", `[{"op":"add","path":"/l/%s","value":0}]`},
		{"add below", `[{"op":"add","path":"/l/%s/n","value":0}]`},
		{"replace", `[{"op":"replace","path":"/l/%s","value":0}]`},
		{"replace below", `[{"op":"replace","path":"/l/%s/k","value":0}]`},
		{"remove", `[{"op":"remove","path":"/l/%s"}]`},
		{"remove below", `[{"op":"remove","path":"/l/%s/k"}]`},
		{"test", `[{"op":"test","path":"/l/%s","value":{"k":1}},{"op":"remove","path":"/l"}]`},
		{"move from", `[{"op":"move","from":"/l/%s","path":"/x"}]`},
		{"move from below", `[{"op":"move","from":"/l/%s/k","path":"/x"}]`},
		{"move to", `[{"op":"move","from":"/y","path":"/l/%s"}]`},
		{"move to below", `[{"op":"move","from":"/y","path":"/l/%s/n"}]`},
		{"copy from", `[{"op":"copy","from":"/l/%s","path":"/x"}]`},
		{"copy to", `[{"op":"copy","from":"/y","path":"/l/%s"}]`},
		{"copy to below", `[{"op":"copy","from":"/y","path":"/l/%s/n"}]`},
	}
	putting := []string{"add", "move to", "copy to"}
	for _, use := range uses {
		for segment, why := range map[string]string{
			"0": "", "1": "", "2": beyond, "00": odd, "01": odd, "-0": odd, "-1": odd, "+1": odd, "1.0": odd, "1e0": odd, "1x": odd, "": odd, "٠": odd, "0x1": odd,
			"-": end, "99999999999999999999": beyond,
		} {
			if slices.Contains(putting, use.name) && (segment == "-" || segment == "2") {
				why = ""
			}
			patch := fmt.Sprintf(use.patch, segment)
			got := applied(t, patch, `{"l":[{"k":1},{"k":1}],"y":7}`)
			if refused := strings.Contains(got, "does not apply"); refused != (why != "") || !strings.Contains(got, why) {
				t.Errorf("%s: %s, want %q", patch, got, why)
			}
			body := fmt.Sprintf(`{"l":{"%s":{"k":1}},"y":7}`, segment)
			if got := applied(t, patch, body); strings.Contains(got, "does not apply") {
				t.Errorf("%s on %s: %s", patch, body, got)
			}
		}
	}
}

// RFC 6902, 4.6: numbers are equal if they are numerically, and none is rounded.
func TestNumbersAreComparedByValue(t *testing.T) {
	groups := [][]string{
		{"1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "0.01E0002", "1.00000000000000000000000"},
		{"100", "1e2", "1E+2", "100.00", "0.1e3", "10000e-2"},
		{"0", "-0", "0.0", "-0.0e5", "0e99999999999999999999"},
		{"-1.5", "-15e-1", "-1.50"},
		{"9007199254740993", "9007199254740993.0", "9007199254740.993e3"},
		{"9007199254740992"},
		{"9007199254740992.0000000000000000001"},
		{"1e400", "10e399", "0.1E401"},
		{"1e401"},
		{"1e-400", "0.1e-399"},
		{"1e-401"},
		{"1e99999999999999999", "10e99999999999999998"},
		{"1e99999999999999999999"},
		{"1e18446744073709551616"},
		{"0.1", "1e-1"},
		{"0.1000000000000000055511151231257827"},
		{"0.10000000000000001"},
		{"-1", "-1e0"},
		{"1.5"},
		{"2"},
		{"-100"},
	}
	for i, group := range groups {
		for j, others := range groups {
			for _, a := range group {
				for _, b := range others {
					patch := fmt.Sprintf(`[{"op":"test","path":"/a","value":[{"n":%s}]},{"op":"remove","path":"/a"}]`, b)
					if got := applied(t, patch, fmt.Sprintf(`{"a":[{"n":%s}]}`, a)) == "{}"; got != (i == j) {
						t.Errorf("%s and %s: equal %v", a, b, got)
					}
				}
			}
		}
	}
}
