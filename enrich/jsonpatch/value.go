package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge/enrich/jsonspan"
)

// value is a JSON value as the bytes that it was written with. It is opened
// into members only where something goes through it. What is not changed is
// written back byte for byte, white space, spelling and all.
type value struct {
	kind byte    // '{', '[', '"', '0' for a number, 't', 'f', 'n'
	raw  []byte  // nil once something inside is changed
	in   *inside // nil as long as nobody has opened it, and of what holds nothing
}

// inside is an opened object or list.
type inside struct {
	members []member // of an object, or elements without name
	blank   []byte   // what stands in an empty one
}

// member is one with what is written around it.
type member struct {
	lead  []byte // white space, and of an object the name and its colon
	name  string
	value value
	tail  []byte // white space up to the comma or the end
}

// fault is what is wrong with a text, and where.
type fault struct {
	at  int
	why string
}

// Error says what.
func (f *fault) Error() string { return f.why }

// read reads one JSON text. It goes into no depth.
func read(text []byte) (member, error) {
	if !utf8.Valid(text) {
		at := 0
		for r, n := utf8.DecodeRune(text); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(text[at:]) {
			at += n
		}
		return member{}, &fault{at, "it is not UTF-8"}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil { // which only checks it
		at := len(text)
		if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = max(0, int(wrong.Offset)-1)
		}
		return member{}, &fault{at, "it is not JSON"}
	}
	from := jsonspan.Blanks(text, 0)
	end := jsonspan.End(text, from)
	return member{lead: text[:from], value: written(text[from:end]), tail: text[end:]}, nil
}

// written is the value that valid JSON stands for.
func written(raw []byte) value {
	kind := raw[0]
	if kind == '-' || kind >= '0' && kind <= '9' {
		kind = '0'
	}
	return value{kind: kind, raw: raw}
}

func (v *value) holds() bool { return v.kind == '{' || v.kind == '[' }

// walk goes through one level of what is written, without looking into the
// levels below, until do says no. Blank is what stands in it where it is empty.
func (v *value) walk(do func(member) bool) (blank []byte) {
	return jsonspan.Level(v.raw, func(s jsonspan.Member) bool {
		m := member{lead: s.Lead, value: written(s.Value), tail: s.Tail}
		if s.Key != nil {
			m.name = text(s.Key)
		}
		return do(m)
	})
}

// open splits one level into its members.
func (v *value) open() []member {
	if v.in != nil || !v.holds() {
		return v.members()
	}
	n := 0 // a list may have millions, so no room is left over
	v.walk(func(member) bool { n++; return true })
	v.in = &inside{members: make([]member, 0, n)}
	v.in.blank = v.walk(func(m member) bool { v.in.members = append(v.in.members, m); return true })
	return v.in.members
}

// members are those of a value that was opened.
func (v *value) members() []member {
	if v.in == nil {
		return nil
	}
	return v.in.members
}

// change is open for whoever changes something inside.
func (v *value) change() {
	v.open()
	v.raw = nil
}

// bytes is the value as it is to be written.
func (v *value) bytes() []byte {
	if v.raw != nil {
		return v.raw
	}
	return v.write(nil)
}

func (v *value) write(out []byte) []byte {
	if v.raw != nil {
		return append(out, v.raw...)
	}
	out = append(out, v.kind)
	if len(v.in.members) == 0 {
		out = append(out, v.in.blank...)
	}
	for i := range v.in.members {
		if i > 0 {
			out = append(out, ',')
		}
		out = v.in.members[i].write(out)
	}
	return append(out, v.kind+2) // both brackets stand two places before their end
}

func (m *member) write(out []byte) []byte {
	return append(m.value.write(append(out, m.lead...)), m.tail...)
}

// errTwice is a member that is asked for and stands there more than once: which
// of them counts is not certain.
var errTwice = errors.New("which of the two counts is not certain")

// find is the position of the member of a name, -1 without one.
func (v *value) find(name string) (int, error) {
	found := -1
	for i, m := range v.open() {
		switch {
		case m.name != name:
		case found >= 0:
			return found, errTwice
		default:
			found = i
		}
	}
	return found, nil
}

// text is the member of a name, if it is a text.
func (v *value) text(name string) (string, bool) {
	i, err := v.find(name)
	if i < 0 || err != nil || v.in.members[i].value.kind != '"' {
		return "", false
	}
	return text(v.in.members[i].value.raw), true
}

// insert puts a value before position i of a list, or behind all, with the
// white space of the one in whose place it comes.
func (v *value) insert(i int, name string, put value) {
	v.change()
	m := member{name: name, value: put}
	var front, behind []byte
	if n := len(v.in.members); n > 0 {
		beside := &v.in.members[min(i, n-1)]
		front = beside.lead[:jsonspan.Blanks(beside.lead, 0)]
		behind = beside.lead[len(bytes.TrimRight(beside.lead, " \t\r\n")):]
		if i == n {
			m.tail, beside.tail = beside.tail, nil
		}
	}
	m.lead = slices.Clone(front)
	if v.kind == '{' {
		m.lead = slices.Concat(front, jsonspan.Quote(name), []byte(":"), behind)
	}
	v.in.members = slices.Insert(v.in.members, i, m)
}

// remove takes the member at position i out.
func (v *value) remove(i int) {
	v.change()
	if m := v.in.members; i > 0 && i == len(m)-1 {
		m[i-1].tail = m[i].tail
	}
	v.in.members = slices.Delete(v.in.members, i, i+1)
}

// strict says where in a value something stands that might be read in two ways:
// a name twice, or half of a character. From is where the value begins.
func (v *value) strict(at string, from int) error {
	if v.kind == '"' && !utf8.ValidString(text(v.raw)) {
		return &fault{from, "the text at " + place(at) + " holds half of a character (\\ud800 to \\udfff stand for one in pairs only)"}
	}
	members := v.open()
	seen := make(map[string]bool, len(members))
	from++
	for i := range members {
		m := &members[i]
		below := at + "/" + strconv.Itoa(i)
		if v.kind == '{' {
			below = at + "/" + escape(m.name)
			name := from + jsonspan.Blanks(m.lead, 0)
			switch {
			case seen[m.name]:
				return &fault{name, "it names " + below + " twice, and " + errTwice.Error()}
			case !utf8.ValidString(m.name):
				return &fault{name, "a name at " + below + " holds half of a character"}
			}
			seen[m.name] = true
		}
		if err := m.value.strict(below, from+len(m.lead)); err != nil {
			return err
		}
		from += len(m.lead) + len(m.value.raw) + len(m.tail) + 1
	}
	return nil
}

// place names a pointer for people.
func place(at string) string {
	if at == "" {
		return "the top"
	}
	return at
}

// where names a position in a text as editors do.
func where(text []byte, at int) string {
	before := text[:min(at, len(text))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(line)+1)
}

// text is what a valid JSON text says. Half of a character, which only an
// escape can write, becomes three bytes that are no UTF-8 (those of WTF-8), so
// that it is like nothing else.
func text(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 {
			break
		}
		out = append(out, raw[:at]...)
		c := raw[at+1]
		raw = raw[at+2:]
		if plain := strings.IndexByte(`bfnrt`, c); plain >= 0 {
			c = "\b\f\n\r\t"[plain]
		}
		if c != 'u' {
			out = append(out, c)
			continue
		}
		r := unit(raw)
		raw = raw[4:]
		if utf16.IsSurrogate(r) && bytes.HasPrefix(raw, []byte(`\u`)) {
			if whole := utf16.DecodeRune(r, unit(raw[2:])); whole != utf8.RuneError {
				r, raw = whole, raw[6:]
			}
		}
		if utf16.IsSurrogate(r) {
			out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(append(out, raw...))
}

// unit is what the four digits of an escape say.
func unit(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 16) // they were checked with the rest
	return rune(n)
}

// compact is a value without white space between its parts.
func compact(v *value) json.RawMessage {
	var b bytes.Buffer
	_ = json.Compact(&b, v.bytes()) // it was read as JSON
	return b.Bytes()
}

// escape writes a name as part of a pointer (RFC 6901). Pointers are text.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(strings.ToValidUTF8(name, "\uFFFD"))
}
