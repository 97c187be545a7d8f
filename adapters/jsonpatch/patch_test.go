package jsonpatch

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
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
		{"no negative positions", `[{"op":"add","path":"/a/-1","value":1}]`, `{"a":[1]}`, `the patch does not apply: operation 1, add "/a/-1": the list has no such position`},
		{"it changes nothing", `[{"op":"replace","path":"/a","value":1}]`, `{"a":1}`, `the patch does not apply: it changes nothing`},
		{"no object is left", `[{"op":"replace","path":"","value":"x"}]`, `{"a":1}`, `the patch does not apply: operation 1, replace "": it cannot be carried out there`},
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
		{"a byte order mark stays", `{"x":1}`, "\xEF\xBB\xBF{}", "\xEF\xBB\xBF{\"x\":1}"},
		// What cannot be patched.
		{"no JSON", `{"x":1}`, `deadbeef0001`, "the body cannot be patched: it is not JSON"},
		{"no UTF-8", `{"x":1}`, "{\"a\":\"\xff\"}", "the body cannot be patched: it is not UTF-8"},
		{"a number", `{"x":1}`, `17`, "the body cannot be patched: it is neither a JSON object nor a list"},
		{"empty", `{"x":1}`, ``, "the body cannot be patched: it is not JSON"},
		{"two values", `{"x":1}`, `{} {}`, "the body cannot be patched: it is not JSON"},
		{"a name twice", `{"x":1}`, `{"a":{"b":1,"\u0062":2}}`, "the body cannot be patched: it names /a/b twice, and which of the two counts is not certain"},
		{"half a character in a name", `{"x":1}`, `{"\ud800":1}`, "the body cannot be patched: a name at /\uFFFD holds half of a character"},
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

// FuzzApply: whatever stands in patch and body, nothing breaks, what is changed
// is what the operations name, and the rest has its digits and its order.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`[{"op":"add","path":"/b","value":1}]`), []byte(`{"a":1.0}`))
	f.Add([]byte(`[{"op":"move","from":"/a/0","path":"/b/-"},{"op":"test","path":"/b/0","value":1e5}]`), []byte(`{"a":[1e5,2],"b":[]}`))
	f.Add([]byte(`{"a":{"b":null,"c":[null]}}`), []byte(`{"a":{"b":616581622363398142,"d":-0.0}}`))
	f.Add([]byte(`[{"op":"replace","path":"/~01/0","value":"<"}]`), []byte("{\"~1\":[\"\\ud800\"],\"\u2028\":1}"))
	f.Add([]byte(`[{"op":"copy","from":"/a","path":"/a/b"},{"op":"remove","path":"/a/b/b"}]`), []byte(`{"a":{"b":{"b":1}}}`))
	f.Fuzz(func(t *testing.T, patch, body []byte) {
		p, err := Parse(patch)
		if err != nil {
			return
		}
		out, err := p.Apply(body)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatal(err)
			}
			return
		}
		if len(Changes(trimmed(body), trimmed(out))) == 0 {
			t.Fatalf("%s makes %s of %s, and no change is seen", patch, out, body)
		}
		before, _ := read(trimmed(body))
		after, err := read(trimmed(out))
		if err != nil {
			t.Fatalf("%s makes %s of %s: %v", patch, out, body, err)
		}
		operations := p.operations
		if p.Form == dlqbridge.PatchMerge {
			operations = merging(nil, "", before, p.merge)
		}
		want := before
		for _, o := range operations {
			op, err := read(o.raw)
			if err != nil {
				t.Fatal(err)
			}
			var ok bool
			if want, ok = reference(want, op); !ok {
				t.Fatalf("%s fits %s, which it should not: %s", patch, body, out)
			}
		}
		if !want.equal(after) {
			t.Fatalf("%s makes of %s\n%s\nwant\n%s", patch, body, out, encode(want))
		}
	})
}

func trimmed(body []byte) []byte { _, text := cutMark(body); return text }

// reference carries one operation out on trees: RFC 6902 written a second time.
func reference(doc, o tree) (tree, bool) {
	field := func(name string) tree { v, _ := o.find(name); return v }
	path := segments(field("path").text)
	switch field("op").text {
	case "add":
		return set(doc, path, field("value"), false)
	case "replace":
		if _, ok := get(doc, path); !ok {
			return doc, false
		}
		return set(doc, path, field("value"), true)
	case "remove":
		return drop(doc, path)
	case "test":
		v, ok := get(doc, path)
		return doc, ok && same(v, field("value"))
	case "copy", "move":
		from := segments(field("from").text)
		v, ok := get(doc, from)
		if !ok {
			return doc, false
		}
		if field("op").text == "move" {
			if field("from").text == field("path").text {
				return doc, true
			}
			if doc, ok = drop(doc, from); !ok {
				return doc, false
			}
		}
		return set(doc, path, v, false)
	}
	return doc, false
}

func segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(pointer[1:], "/")
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	return parts
}

func position(s string, n int) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && i < n
}

func get(t tree, path []string) (tree, bool) {
	for _, s := range path {
		switch t.kind {
		case '{':
			v, ok := t.find(s)
			if !ok {
				return t, false
			}
			t = v
		case '[':
			i, ok := position(s, len(t.members))
			if !ok {
				return t, false
			}
			t = t.members[i].value
		default:
			return t, false
		}
	}
	return t, true
}

func set(t tree, path []string, v tree, instead bool) (tree, bool) {
	if len(path) == 0 {
		return v, true
	}
	members := append([]member{}, t.members...)
	last := len(path) == 1
	switch t.kind {
	case '{':
		for i, m := range members {
			if m.name != path[0] {
				continue
			}
			var ok bool
			if members[i].value, ok = set(m.value, path[1:], v, instead); !ok {
				return t, false
			}
			return tree{kind: '{', members: members}, true
		}
		return tree{kind: '{', members: append(members, member{path[0], v})}, last
	case '[':
		i, ok := position(path[0], len(members))
		switch {
		case last && path[0] == "-", last && path[0] == strconv.Itoa(len(members)):
			return tree{kind: '[', members: append(members, member{"", v})}, !instead
		case !ok:
			return t, false
		case last && !instead:
			members = append(members[:i], append([]member{{"", v}}, members[i:]...)...)
		default:
			if members[i].value, ok = set(members[i].value, path[1:], v, instead); !ok {
				return t, false
			}
		}
		return tree{kind: '[', members: members}, true
	}
	return t, false
}

func drop(t tree, path []string) (tree, bool) {
	if len(path) == 0 {
		return t, false
	}
	members := append([]member{}, t.members...)
	for i, m := range members {
		name := m.name
		if t.kind == '[' {
			name = strconv.Itoa(i)
		}
		if name != path[0] {
			continue
		}
		if len(path) == 1 {
			return tree{kind: t.kind, members: append(members[:i], members[i+1:]...)}, true
		}
		var ok bool
		members[i].value, ok = drop(m.value, path[1:])
		return tree{kind: t.kind, members: members}, ok
	}
	return t, false
}

// same compares as a test operation does: members in any order. Whether 1.0 is
// 1 is left to the library.
func same(a, b tree) bool {
	if a.kind == '0' && b.kind == '0' {
		return true
	}
	if a.kind != b.kind || a.text != b.text || len(a.members) != len(b.members) {
		return false
	}
	for i, m := range a.members {
		v := b.members[i].value
		if a.kind == '{' {
			var ok bool
			if v, ok = b.find(m.name); !ok {
				return false
			}
		}
		if !same(m.value, v) {
			return false
		}
	}
	return true
}
