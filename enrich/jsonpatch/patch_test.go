package jsonpatch

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

func applied(t *testing.T, patch, body string) string {
	t.Helper()
	p, err := Parse([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Apply([]byte(body))
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func TestApply(t *testing.T) {
	for _, tt := range []struct{ name, patch, body, want string }{
		// RFC 6902, appendix A.
		{"add a member", `[{"op":"add","path":"/baz","value":"qux"}]`, `{"foo":"bar"}`, `{"foo":"bar","baz":"qux"}`},
		{"add an element", `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","baz"]}`, `{"foo":["bar","qux","baz"]}`},
		{"add at the end", `[{"op":"add","path":"/foo/-","value":["abc"]}]`, `{"foo":["bar"]}`, `{"foo":["bar",["abc"]]}`},
		{"remove a member", `[{"op":"remove","path":"/baz"}]`, `{"baz":"qux","foo":"bar"}`, `{"foo":"bar"}`},
		{"replace", `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"qux","foo":"bar"}`, `{"baz":"boo","foo":"bar"}`},
		{"move", `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`, `{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`, `{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`},
		{"copy", `[{"op":"copy","from":"/a","path":"/b"}]`, `{"a":[1]}`, `{"a":[1],"b":[1]}`},
		{"test, then change", `[{"op":"test","path":"/a","value":1},{"op":"replace","path":"/a","value":2}]`, `{"a":1}`, `{"a":2}`},
		{"escaped names", `[{"op":"replace","path":"/~01~1","value":2}]`, `{"~1/":1,"z":0}`, `{"~1/":2,"z":0}`},
		{"replace the whole", `[{"op":"replace","path":"","value":{"b":1}}]`, `{"a":1}`, `{"b":1}`},
		{"a test that fails", `[{"op":"test","path":"/a","value":"no"},{"op":"remove","path":"/a"}]`, `{"a":"secret"}`, `the patch does not apply: operation 1, test "/a": the value there is another one`},
		{"no parent", `[{"op":"add","path":"/a/b","value":1}]`, `{"q":1}`, `the patch does not apply: operation 1, add "/a/b": there is nothing`},
		{"nothing to remove", `[{"op":"add","path":"/x","value":1},{"op":"remove","path":"/gone"}]`, `{"q":1}`, `the patch does not apply: operation 2, remove "/gone": there is nothing`},
		{"a position beyond the end", `[{"op":"add","path":"/a/7","value":1}]`, `{"a":[1]}`, `the patch does not apply: operation 1, add "/a/7": the list has no such position`},
		{"no negative positions", `[{"op":"add","path":"/a/-1","value":1}]`, `{"a":[1]}`, `the patch does not apply: operation 1, add "/a/-1": in a list a position is 0, or a number without sign and leading zeros`},
		{"it changes nothing", `[{"op":"replace","path":"/a","value":1}]`, `{"a":1}`, `the patch does not apply: it changes nothing`},
		{"no object is left", `[{"op":"replace","path":"","value":"x"}]`, `{"a":1}`, `the patch does not apply: what it leaves is no JSON object or list`},
		// RFC 7386, appendix A, where the body is an object.
		{"merge: replace", `{"a":"c"}`, `{"a":"b"}`, `{"a":"c"}`},
		{"merge: add", `{"b":"c"}`, `{"a":"b"}`, `{"a":"b","b":"c"}`},
		{"merge: remove", `{"a":null}`, `{"a":"b","b":"c"}`, `{"b":"c"}`},
		{"merge: a list for a text", `{"a":["b"]}`, `{"a":"c"}`, `{"a":["b"]}`},
		{"merge: deep", `{"a":{"b":"d","c":null}}`, `{"a":{"b":"c"}}`, `{"a":{"b":"d"}}`},
		{"merge: lists are replaced", `{"a":[1]}`, `{"a":[{"b":"c"}]}`, `{"a":[1]}`},
		{"merge: nulls in lists stay", `{"a":[null,{"b":null}]}`, `{"a":1}`, `{"a":[null,{"b":null}]}`},
		{"merge: null where there is none", `{"a":{"bb":{"ccc":null}}}`, `{}`, `{"a":{"bb":{}}}`},
		{"merge: an explicit null stays", `{"a":1}`, `{"e":null}`, `{"e":null,"a":1}`},
		{"merge: order is that of the patch", `{"z":1,"y":2,"x":3,"w":4}`, `{"a":0}`, `{"a":0,"z":1,"y":2,"x":3,"w":4}`},
		{"merge: changes nothing", `{"a":1,"q":null}`, `{"a":1}`, `the patch does not apply: it changes nothing`},
		// What survives.
		{"big and odd numbers", `{"ok":true}`, `{"id":616581622363398142,"f":1.0,"e":1E400,"n":-0.0,"d":0.1000000000000000055511151231257827}`, `{"id":616581622363398142,"f":1.0,"e":1E400,"n":-0.0,"d":0.1000000000000000055511151231257827,"ok":true}`},
		{"numbers beside it", `[{"op":"replace","path":"/a/b","value":1.50}]`, `{"a":{"z":9007199254740993,"b":2,"c":1e2},"y":1}`, `{"a":{"z":9007199254740993,"b":1.50,"c":1e2},"y":1}`},
		{"order", `[{"op":"replace","path":"/m","value":0}]`, `{"z":1,"m":2,"a":{"y":1,"b":2}}`, `{"z":1,"m":0,"a":{"y":1,"b":2}}`},
		{"characters of HTML", `{"x":"<&>"}`, `{"a":"<b>&amp;\u003c"}`, `{"a":"<b>&amp;\u003c","x":"<&>"}`},
		{"other characters", `{"x":"é"}`, `{"a":"\ud83d\ude00 \u2028 é \u0000"}`, `{"a":"\ud83d\ude00 \u2028 é \u0000","x":"é"}`},
		{"half a character in a value", `{"x":1}`, `{"a":"\ud800"}`, `{"a":"\ud800","x":1}`},
		{"numbers of two values differ", `[{"op":"test","path":"/a","value":9007199254740992},{"op":"remove","path":"/a"}]`, `{"a":9007199254740993}`, `the patch does not apply: operation 1, test "/a": the value there is another one`},
		{"half a character is like no other", `[{"op":"test","path":"/a","value":"�"},{"op":"remove","path":"/a"}]`, `{"a":"\ud800"}`, `the patch does not apply: operation 1, test "/a": the value there is another one`},
		{"half a character is found by no name", "{\"\ufffd\":null,\"x\":1}", `{"\ud800":0}`, `{"\ud800":0,"x":1}`},
		{"a byte order mark stays", `{"x":1}`, "\xEF\xBB\xBF{}", "\xEF\xBB\xBF{\"x\":1}"},
		// What cannot be patched.
		{"no JSON", `{"x":1}`, `deadbeef0001`, "the body cannot be patched: it is not JSON"},
		{"no UTF-8", `{"x":1}`, "{\"a\":\"\xff\"}", "the body cannot be patched: it is not UTF-8"},
		{"a number", `{"x":1}`, `17`, "the body cannot be patched: it is neither a JSON object nor a list"},
		{"empty", `{"x":1}`, ``, "the body cannot be patched: it is not JSON"},
		{"two values", `{"x":1}`, `{} {}`, "the body cannot be patched: it is not JSON"},
		{"a name twice", `{"a":{"b":3}}`, `{"a":{"b":1,"\u0062":2}}`, "the body cannot be patched: it names /a/b twice, and which of the two counts is not certain"},
		{"a name twice on the way", `[{"op":"remove","path":"/a/b"}]`, `{"a":{"b":1},"a":{"b":1}}`, "the body cannot be patched: it names /a twice, and which of the two counts is not certain"},
		{"a name twice in what is tested", `[{"op":"test","path":"/a","value":{"b":1}},{"op":"remove","path":"/a"}]`, `{"a":{"b":1,"b":1}}`, "the body cannot be patched: a name stands twice in /a, and which of the two counts is not certain"},
		{"a name twice to be moved over", `[{"op":"move","from":"/x","path":"/b"}]`, `{"x":0,"b":1,"b":2}`, "the body cannot be patched: it names /b twice, and which of the two counts is not certain"},
		{"a merge into a list", `{"x":1}`, `[1]`, `{"x":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := applied(t, tt.patch, tt.body); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParseRefusesWhatIsNoPatch(t *testing.T) {
	for _, text := range []string{
		``, `17`, `"x"`, `null`, `[]`, `{}`, `{"a":1`, `[1]`, `[{}]`, `[{"op":"add"}]`, `[{"op":"add","path":"/a"}]`, `[{"op":"ADD","path":"/a","value":1}]`,
		`[{"op":"add","path":"a","value":1}]`, `[{"op":"add","path":"/~2","value":1}]`, `[{"op":"move","path":"/a"}]`, `[{"op":"copy","path":"/a","from":7}]`,
		`[{"op":"remove","path":""}]`, `{"a":1,"a":2}`, strings.Repeat(" ", MaxBytes) + "{}", `[{"op":"add","op":"remove","path":"/a","value":1}]`,
	} {
		if p, err := Parse([]byte(text)); err == nil || !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("%.40s: %+v %v", text, p, err)
		}
	}
	p, err := Parse([]byte(`[{"op":"add","path":"/a","value":null}]`))
	if err != nil || p.Form != dlqbridge.PatchJSON || len(p.SHA256) != 64 {
		t.Errorf("%+v %v", p, err)
	}
}

func TestChanges(t *testing.T) {
	got, err := json.Marshal(Changes(
		[]byte(`{"keep":1,"a":1.0,"gone":"x","list":[1,2,3],"deep":{"x~/":true}}`),
		[]byte(`{"keep":1,"a":1,"list":[1,5],"deep":{"x~/":null},"new":{"b":[]}}`)))
	want := `[{"op":"replace","path":"/a","before":1.0,"after":1},{"op":"remove","path":"/gone","before":"x"},` +
		`{"op":"replace","path":"/list/1","before":2,"after":5},{"op":"remove","path":"/list/2","before":3},` +
		`{"op":"replace","path":"/deep/x~0~1","before":true,"after":null},{"op":"add","path":"/new","after":{"b":[]}}]`
	if err != nil || string(got) != want {
		t.Errorf("got  %s %v\nwant %s", got, err, want)
	}
}

// A byte order mark, as some editors write one, hides no change; nor does a body
// that cannot be read, or a name that stands twice.
func TestChangesAreToldOfAnyBody(t *testing.T) {
	const mark = "\xEF\xBB\xBF"
	for _, tt := range []struct{ before, after, want string }{
		{mark + `{"a":1}`, mark + `{"a":2}`, `[{"op":"replace","path":"/a","before":1,"after":2}]`},
		{mark + `{"a":1}`, `{"a":2}`, `[{"op":"replace","path":"/a","before":1,"after":2}]`},
		{`{"a":1}`, mark + ` {"a": 1 }`, `[]`},
		{`{"a":"\u00e9","b":1}`, `{"b":1,"a":"é"}`, `[]`},
		{`{"a":1.0}`, `{"a":1}`, `[{"op":"replace","path":"/a","before":1.0,"after":1}]`},
		{`{"a":"\ud800"}`, `{"a":"\ud801"}`, `[{"op":"replace","path":"/a","before":"\ud800","after":"\ud801"}]`},
		{`{"a":"\ud800"}`, `{"a":"\uFFFD"}`, `[{"op":"replace","path":"/a","before":"\ud800","after":"\uFFFD"}]`},
		{`{"\ud800":1}`, `{"\ud801":1}`, `[{"op":"remove","path":"/` + "\uFFFD" + `","before":1},{"op":"add","path":"/` + "\uFFFD" + `","after":1}]`},
		{`{"x":{"a":1,"a":2},"y":0}`, `{"x":{"a":2,"a":2},"y":0}`, `[{"op":"replace","path":"/x","before":{"a":1,"a":2},"after":{"a":2,"a":2}}]`},
		{`{"x":{"a":1, "a":2},"y":0}`, `{"x":{"a":1,"a":2},"y":1}`, `[{"op":"replace","path":"/y","before":0,"after":1}]`},
		{`deadbeef`, `{"a": 1}`, `[{"op":"replace","path":"","after":{"a":1}}]`},
		{`{"a": 1}`, ``, `[{"op":"replace","path":"","before":{"a":1}}]`},
		{`deadbeef`, "\xFF", `[{"op":"replace","path":""}]`},
		{`deadbeef`, `deadbeef`, `[]`},
		{`{"a":1}`, `[1]`, `[{"op":"replace","path":"","before":{"a":1},"after":[1]}]`},
	} {
		if got, err := json.Marshal(Changes([]byte(tt.before), []byte(tt.after))); err != nil || string(got) != tt.want {
			t.Errorf("%q to %q\ngot  %s %v\nwant %s", tt.before, tt.after, got, err, tt.want)
		}
	}
}

func TestDeepBodiesCostNothingButTime(t *testing.T) {
	deep := strings.Repeat(`[`, 9_000) + strings.Repeat(`]`, 9_000)
	if got := applied(t, `{"x":1}`, `{"d":`+deep+`}`); got != `{"d":`+deep+`,"x":1}` {
		t.Errorf("%d bytes", len(got))
	}
	many := `[` + strings.TrimSuffix(strings.Repeat(`{"op":"copy","from":"/a","path":"/a/-"},`, 60), ",") + `]`
	if got := applied(t, many, `{"a":["`+strings.Repeat("x", 1000)+`"]}`); !strings.Contains(got, "it copies too much") {
		t.Errorf("%.100s", got)
	}
}

// What a sender wrote decides how much is opened: a list of nothing but digits
// costs no more than its elements do, once.
func TestLongListsAreOpenedOnce(t *testing.T) {
	body := []byte(`{"l":[` + strings.Repeat("1,", 200_000) + `1]}`)
	p, err := Parse([]byte(`[{"op":"replace","path":"/l/3","value":2}]`))
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := p.Apply(body)
	runtime.ReadMemStats(&after)
	if err != nil || len(out) != len(body) {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	if used := int(after.TotalAlloc - before.TotalAlloc); used > 150*len(body) {
		t.Errorf("%d bytes were used for a body of %d", used, len(body))
	}
}

// One patch is applied to many bodies at the same time.
func TestAPatchIsAppliedToManyAtOnce(t *testing.T) {
	for patch, want := range map[string]string{
		`[{"op":"test","path":"/a","value":{"b":[1]}},{"op":"add","path":"/c","value":{"d":{}}},{"op":"add","path":"/c/d/e","value":[]},{"op":"copy","from":"/c","path":"/a"}]`: `{"a":{"d":{"e":[]}},"c":{"d":{"e":[]}}}`,
		`{"a":{"b":null},"c":{"d":{"e":[],"f":null}}}`: `{"a":{},"c":{"d":{"e":[]}}}`,
	} {
		p, err := Parse([]byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if out, err := p.Apply([]byte(`{"a":{"b":[1.0]}}`)); err != nil || string(out) != want {
					t.Errorf("%s %v", out, err)
				}
			})
		}
		all.Wait()
	}
}
