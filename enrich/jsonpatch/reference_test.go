package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge/enrich/jsonspan"
)

// FuzzApply: whatever stands in patch and body, nothing breaks, what is changed
// is what the patch names, and all else has its bytes and its order.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`[{"op":"add","path":"/b","value":1}]`), []byte(`{"a":1.0}`))
	f.Add([]byte(`[{"op":"move","from":"/a/0","path":"/b/-"},{"op":"test","path":"/b/0","value":100e3}]`), []byte(`{"a":[1e5,2],"b":[]}`))
	f.Add([]byte(`{"a":{"b":null,"c":[null]}}`), []byte(`{"a":{"b":616581622363398142,"d":-0.0}}`))
	f.Add([]byte(`[{"op":"replace","path":"/~01/0","value":"<"}]`), []byte("{\"~1\":[\"\\ud800\"],\"\u2028\":1}"))
	f.Add([]byte(`[{"op":"copy","from":"/a","path":"/a/b"},{"op":"remove","path":"/a/b/b"}]`), []byte(`{"a":{"b":{"b":1}}}`))
	f.Add([]byte(`{"x":{"y":null},"z":{}}`), []byte(" {\n \"\\ud800\" : \"\\uDC00\" , \"\\ud801\":[ 1e400 , {\"k\":1,\"\\u006b\":2} ],\"x\":{ }\n}\t"))
	f.Add([]byte(`[{"op":"remove","path":"/1"},{"op":"add","path":"/00","value":{}}]`), []byte(`[9007199254740993,1.0,"\ud83d\ude00\/"]`))
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
		if len(Changes(body, out)) == 0 {
			t.Fatalf("%s makes %s of %s, and no change is seen", patch, out, body)
		}
		mark, text := cutMark(body)
		if !bytes.HasPrefix(out, mark) {
			t.Fatalf("%s takes the byte order mark of %s", patch, body)
		}
		want, ok := referencePatch(treeOf(t, text), treeOf(t, patch))
		if !ok {
			t.Fatalf("%s fits %s, which it should not: %s", patch, body, out)
		}
		if got := dense(t, out[len(mark):]); got != want.String() {
			t.Fatalf("%s makes of %s\n%s\nwant\n%s", patch, body, got, want)
		}
	})
}

func dense(t *testing.T, text []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out.String()
}

// Patches that mostly fit, on bodies full of what is easily lost: what applies
// and what is refused is the same by the reference, and so is each byte.
func TestRandomPatchesDoWhatTheReferenceDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(6902, 7386))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	names := []string{"a", "b", "0", "1", "00", "01", "-", "~", "/", ""}
	blank := func() string { return pick("", "", "", " ", "\n\t") }
	var value func(depth int, names, leaves []string) string
	value = func(depth int, names, leaves []string) string {
		kind := random.IntN(5)
		if depth == 0 || kind < 2 && depth < 4 {
			return pick(leaves...)
		}
		parts := make([]string, random.IntN(depth+1))
		for i := range parts {
			parts[i] = value(depth-1, names, leaves)
			if kind%2 == 0 {
				parts[i] = pick(names...) + blank() + ":" + blank() + parts[i]
			}
			parts[i] = blank() + parts[i] + blank()
		}
		text := strings.Join(parts, ",")
		if kind%2 == 0 {
			return "{" + text + blank() + "}"
		}
		return "[" + text + "]"
	}
	var plain, odd []string
	for _, name := range names {
		plain = append(plain, strconv.Quote(name))
	}
	odd = append(slices.Concat(plain, plain, plain), `"\u0061"`, `"\ud800"`, `"\udc00"`)
	leaves := append([]string{"1", "1.0", "10e-1", "2", `"x"`, `"\u0078"`, "null", "true"}, "9007199254740993", "1e400")
	pointer := func(at tree) string { // mostly to what is there
		var out strings.Builder
		for range random.IntN(4) {
			name := pick(names...)
			if n := len(at.members); n > 0 && random.IntN(8) > 0 {
				i := random.IntN(n)
				if name = at.members[i].name; at.kind == '[' {
					name = strconv.Itoa(i)
				}
				at = at.members[i].value
			}
			out.WriteString("/" + escape(name))
		}
		return string(jsonspan.Quote(out.String()))
	}
	fits, refused := 0, 0
	for range 10_000 {
		body := blank() + value(4, odd, append([]string{`"\ud800"`}, leaves...)) + blank()
		there := treeOf(t, []byte(body))
		patch := value(3, plain, leaves)
		if random.IntN(4) > 0 {
			operations := make([]string, 1+random.IntN(2))
			for i := range operations {
				operations[i] = fmt.Sprintf(`{"op":%q,"path":%s,"from":%s,"value":%s}`, pick("add", "remove", "replace", "move", "copy", "test"), pointer(there), pointer(there), value(2, plain, leaves))
			}
			patch = "[" + strings.Join(operations, ",") + "]"
		}
		p, err := Parse([]byte(patch))
		if err != nil {
			continue
		}
		want, ok := referencePatch(there, treeOf(t, []byte(patch)))
		ok = ok && (want.kind == '{' || want.kind == '[')
		out, err := p.Apply([]byte(body))
		switch {
		case err != nil && strings.Contains(err.Error(), "it changes nothing"):
			if !ok {
				t.Fatalf("%s on %s: %v, and by the reference it does not apply", patch, body, err)
			}
		case (err == nil) != ok:
			t.Fatalf("%s on %s: %q %v, by the reference %v %v", patch, body, out, err, want, ok)
		case ok:
			fits++
			if got := dense(t, out); got != want.String() {
				t.Fatalf("%s makes of %s\n%s\nwant\n%s", patch, body, got, want)
			}
		default:
			refused++
		}
	}
	if fits < 1_000 || refused < 1_000 {
		t.Errorf("%d fit and %d were refused, which proves little", fits, refused)
	}
}

// FuzzRead: a text says what the standard library reads in it, and what nobody
// changes is written as it was, opened or not.
func FuzzRead(f *testing.F) {
	f.Add([]byte(" {\"a\" : [ ] ,\"\\ud83d\\ude00\\/\\n\":\"\\ud800x\", \"b\":[1 , {} , { } ]}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		root, err := read(body)
		if err != nil {
			return
		}
		var every func(*value)
		every = func(v *value) {
			members := v.open()
			var plain string
			if v.kind == '"' {
				if err := json.Unmarshal(v.raw, &plain); err != nil {
					t.Fatalf("%s: %v", v.raw, err)
				}
				got := text(v.raw)
				if halves(string(v.raw)) == utf8.ValidString(got) || utf8.ValidString(got) && got != plain {
					t.Fatalf("%s says %q, read as %q", v.raw, plain, got)
				}
			}
			for i := range members {
				every(&members[i].value)
			}
			if v.holds() {
				v.raw = nil
			}
		}
		every(&root.value)
		if out := root.write(nil); !bytes.Equal(out, body) {
			t.Fatalf("%q is written as %q", body, out)
		}
	})
}

// tree is a JSON value read by the standard library, names and scalars as they
// are written: what is here is independent of what it is held against.
type tree struct {
	kind    byte
	raw     string
	members []branch
}

type branch struct {
	name, raw string // as it is read, and as it is written
	value     tree
}

// String is the value without white space.
func (t tree) String() string {
	if t.kind != '{' && t.kind != '[' {
		return t.raw
	}
	parts := make([]string, len(t.members))
	for i, b := range t.members {
		parts[i] = b.value.String()
		if t.kind == '{' {
			parts[i] = b.raw + ":" + parts[i]
		}
	}
	return string(t.kind) + strings.Join(parts, ",") + string(t.kind+2)
}

func treeOf(t *testing.T, text []byte) tree {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var read func() (tree, any)
	read = func() (tree, any) {
		from := d.InputOffset()
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		raw := strings.TrimLeft(string(text[from:d.InputOffset()]), " \t\r\n,:")
		open, ok := token.(json.Delim)
		if !ok {
			kind := raw[0]
			if strings.IndexByte("-0123456789", kind) >= 0 {
				kind = '0'
			}
			return tree{kind: kind, raw: raw}, token
		}
		out := tree{kind: byte(open)}
		for d.More() {
			var b branch
			if open == '{' {
				name, said := read()
				b.name, b.raw = said.(string), name.raw
				if halves(b.raw) {
					b.name = "\xFF" + b.raw // like no other
				}
			}
			b.value, _ = read()
			out.members = append(out.members, b)
		}
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		return out, nil
	}
	out, _ := read()
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return out
}

var (
	wholePair = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)
	half      = regexp.MustCompile(`(?i)\\ud[89a-f]`)
)

// halves says whether half of a character is written in a text.
func halves(raw string) bool {
	return half.MatchString(wholePair.ReplaceAllString(strings.ReplaceAll(raw, `\\`, "??"), ""))
}

func (t tree) find(name string) (at int, ok bool) {
	at = -1
	for i, b := range t.members {
		if b.name == name {
			if at >= 0 {
				return at, false
			}
			at = i
		}
	}
	return at, true
}

// referenceMerge is RFC 7386 written a second time.
func referenceMerge(doc, patch tree) (tree, bool) {
	if patch.kind != '{' {
		return patch, true
	}
	if doc.kind != '{' {
		doc = tree{kind: '{'}
	}
	out := tree{kind: '{', members: append([]branch{}, doc.members...)}
	for _, b := range patch.members {
		i, ok := out.find(b.name)
		if !ok {
			return doc, false
		}
		switch {
		case i < 0 && b.value.kind == 'n':
		case i < 0:
			b.value, _ = referenceMerge(tree{}, b.value)
			b.raw = string(jsonspan.Quote(b.name))
			out.members = append(out.members, b)
		case b.value.kind == 'n':
			out.members = append(out.members[:i], out.members[i+1:]...)
		default:
			if out.members[i].value, ok = referenceMerge(out.members[i].value, b.value); !ok {
				return doc, false
			}
		}
	}
	return out, true
}

// referencePatch applies a whole patch.
func referencePatch(doc, patch tree) (tree, bool) {
	if patch.kind == '{' {
		return referenceMerge(doc, patch)
	}
	ok := true
	for _, b := range patch.members {
		if doc, ok = reference(doc, b.value); !ok {
			break
		}
	}
	return doc, ok
}

// reference carries one operation out on trees: RFC 6902 written a second time.
func reference(doc, o tree) (tree, bool) {
	field := func(name string) tree {
		i, _ := o.find(name)
		return o.members[i].value
	}
	word := func(name string) string {
		var s string
		if json.Unmarshal([]byte(field(name).raw), &s) != nil {
			panic(name)
		}
		return s
	}
	path := referenceSegments(word("path"))
	switch word("op") {
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
		return doc, ok && alike(v, field("value"))
	case "copy", "move":
		from := referenceSegments(word("from"))
		v, ok := get(doc, from)
		if !ok {
			return doc, false
		}
		if word("op") == "move" {
			if word("from") == word("path") {
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

func referenceSegments(pointer string) []string {
	parts := strings.Split(pointer, "/")[1:]
	if pointer == "" {
		return nil
	}
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], "~1", "/"), "~0", "~")
	}
	return parts
}

// element is the position of a list that a segment names, if there is one.
func element(segment string, n int) (int, bool) {
	for i := range n {
		if strconv.Itoa(i) == segment {
			return i, true
		}
	}
	return 0, false
}

func child(t tree, segment string) (int, bool) {
	switch t.kind {
	case '{':
		i, ok := t.find(segment)
		return i, ok && i >= 0
	case '[':
		return element(segment, len(t.members))
	}
	return 0, false
}

func get(t tree, path []string) (tree, bool) {
	for _, s := range path {
		i, ok := child(t, s)
		if !ok {
			return t, false
		}
		t = t.members[i].value
	}
	return t, true
}

func set(t tree, path []string, v tree, instead bool) (tree, bool) {
	if len(path) == 0 {
		return v, true
	}
	out := tree{kind: t.kind, raw: t.raw, members: append([]branch{}, t.members...)}
	i, there := child(t, path[0])
	switch last := len(path) == 1; {
	case there && (!last || instead || t.kind == '{'):
		var ok bool
		out.members[i].value, ok = set(t.members[i].value, path[1:], v, instead)
		return out, ok
	case !last || instead:
		return t, false
	case t.kind == '{':
		_, once := t.find(path[0])
		out.members = append(out.members, branch{path[0], string(jsonspan.Quote(path[0])), v})
		return out, once
	case t.kind != '[':
		return t, false
	case there:
		out.members = append(out.members[:i], append([]branch{{value: v}}, out.members[i:]...)...)
		return out, true
	}
	out.members = append(out.members, branch{value: v})
	return out, path[0] == "-" || path[0] == strconv.Itoa(len(t.members))
}

func drop(t tree, path []string) (tree, bool) {
	if len(path) == 0 {
		return t, false
	}
	i, ok := child(t, path[0])
	if !ok {
		return t, false
	}
	out := tree{kind: t.kind, members: append([]branch{}, t.members...)}
	if len(path) == 1 {
		out.members = append(out.members[:i], out.members[i+1:]...)
		return out, true
	}
	out.members[i].value, ok = drop(t.members[i].value, path[1:])
	return out, ok
}

// alike compares as a test operation does: members in any order, and numbers by
// their value, as far as that can be computed with.
func alike(a, b tree) bool {
	if a.kind != b.kind || len(a.members) != len(b.members) {
		return false
	}
	switch a.kind {
	case '0':
		return a.raw == b.raw || alikeNumber(a.raw, b.raw)
	case '"':
		var s, t string
		if json.Unmarshal([]byte(a.raw), &s) != nil || json.Unmarshal([]byte(b.raw), &t) != nil {
			panic(a.raw)
		}
		return s == t && !halves(a.raw)
	}
	for i, m := range a.members {
		j := i
		if a.kind == '{' {
			if _, once := a.find(m.name); !once {
				return false
			}
			if j, _ = b.find(m.name); j < 0 {
				return false
			}
		}
		if !alike(m.value, b.members[j].value) {
			return false
		}
	}
	return true
}

var longExponent = regexp.MustCompile(`[eE][-+]?0*[1-9][0-9]{3,}$`)

func alikeNumber(a, b string) bool {
	if longExponent.MatchString(a) || longExponent.MatchString(b) {
		return true // left to the table of numbers
	}
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	return okX && okY && x.Cmp(y) == 0
}

// What is held against the production code must itself be able to fail.
func TestTheReferenceIsStrict(t *testing.T) {
	for _, tt := range []struct{ patch, body string }{
		{`{"op":"add","path":"/00","value":1}`, `[1]`},
		{`{"op":"remove","path":"/-"}`, `[1]`},
		{`{"op":"test","path":"/0","value":9007199254740992}`, `[9007199254740993]`},
		{`{"op":"test","path":"/0","value":"` + "\uFFFD" + `"}`, `["\ud800"]`},
		{`{"op":"add","path":"/a","value":1}`, `{"a":1,"a":1}`},
	} {
		if got, ok := reference(treeOf(t, []byte(tt.body)), treeOf(t, []byte(tt.patch))); ok {
			t.Errorf("%s makes %s of %s", tt.patch, got, tt.body)
		}
	}
	if got := treeOf(t, []byte("{ \"\\ud800\" : [1e5 , -0.0,{}]}")).String(); got != `{"\ud800":[1e5,-0.0,{}]}` {
		t.Error(got)
	}
}
