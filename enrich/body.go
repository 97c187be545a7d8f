package enrich

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich/jsonspan"
)

// maxBody is the longest body that is looked into: Pub/Sub's largest message.
const maxBody = 10 << 20

// document is a JSON text that is opened only along the pointers asked for. The
// levels below stay bytes, so depth costs nothing and numbers keep their
// digits. A text that is not JSON, or nested deeper than the standard library
// reads (10,000 levels), is opaque: it has no values. It is never written.
type document struct {
	root  []byte
	top   node            // the root, opened
	nodes map[string]node // deeper ones, by path, opened when asked for
}

// node is one opened object or array.
type node struct {
	object  bool
	members []member       // of an object as written, or the elements of an array
	byKey   map[string]int // of a large object, its last member of each key
}

// member is one member of an object, or one element of an array without key.
type member struct{ key, raw []byte }

// manyMembers is from where on a map finds members faster than looking at all.
const manyMembers = 48

var byteOrderMark = []byte("\xEF\xBB\xBF")

// openDocument tolerates a byte order mark.
func openDocument(text []byte) *document {
	text = bytes.TrimLeft(bytes.TrimPrefix(text, byteOrderMark), " \t\r\n")
	if len(text) == 0 || len(text) > maxBody || text[0] != '{' && text[0] != '[' || !json.Valid(text) {
		return &document{}
	}
	return &document{root: text, top: opened(text)}
}

// object says whether the root is a JSON object.
func (d *document) object() bool { return d.top.object }

// opened splits one level of valid JSON without looking into the levels below.
func opened(raw []byte) node {
	n := node{object: raw[0] == '{'}
	if !n.object && raw[0] != '[' {
		return node{}
	}
	n.members = make([]member, 0, 16)
	jsonspan.Level(raw, func(s jsonspan.Member) bool {
		m := member{raw: s.Value}
		if n.object {
			m.key = said(s.Key)
		}
		n.members = append(n.members, m)
		return true
	})
	if n.object && len(n.members) >= manyMembers {
		n.byKey = make(map[string]int, len(n.members))
		for i, m := range n.members {
			n.byKey[string(m.key)] = i
		}
	}
	return n
}

// find returns an object's member; a key that stands there twice has its last
// value, as most readers see it.
func (n node) find(key string) []byte {
	if n.byKey != nil {
		if i, ok := n.byKey[key]; ok {
			return n.members[i].raw
		}
		return nil
	}
	for _, m := range slices.Backward(n.members) {
		if string(m.key) == key {
			return m.raw
		}
	}
	return nil
}

func (d *document) open(at string, raw []byte) node {
	if at == "" {
		return d.top
	}
	n, ok := d.nodes[at]
	if !ok {
		n = opened(raw)
		if d.nodes == nil {
			d.nodes = map[string]node{}
		}
		d.nodes[at] = n
	}
	return n
}

// raw returns the JSON at a pointer's segments, nil if there is none.
func (d *document) raw(path []string) []byte {
	if d.root == nil {
		return nil
	}
	raw, at := d.root, ""
	for i, segment := range path {
		n := d.open(at, raw)
		if n.object {
			raw = n.find(segment)
		} else {
			index, err := strconv.Atoi(segment)
			if err != nil || index < 0 || index >= len(n.members) {
				return nil
			}
			raw = n.members[index].raw
		}
		if raw == nil {
			return nil
		}
		if i < len(path)-1 {
			at += strconv.Itoa(len(segment)) + ":" + segment // no two paths have one key
		}
	}
	return raw
}

// members returns the members of the object, or the elements of the array, at a
// pointer's segments.
func (d *document) members(path []string) []member {
	if raw := d.raw(path); raw != nil {
		return opened(raw).members
	}
	return nil
}

// found is a value with the bytes it was read from.
type found struct{ text, raw string }

// value returns the text or number at a pointer's segments; anything else is none.
func (d *document) value(path []string) (found, bool) { return scalar(d.raw(path)) }

// scalar reads a JSON string, or a number as its own digits.
func scalar(raw []byte) (found, bool) {
	if len(raw) == 0 {
		return found{}, false
	}
	switch c := raw[0]; {
	case c == '"':
		s := string(raw)
		if verbatim(raw) {
			return found{s[1 : len(s)-1], s}, true
		}
		return found{text(raw), s}, true
	case c == '-' || c >= '0' && c <= '9':
		s := string(raw)
		return found{s, s}, true
	}
	return found{}, false
}

// text is what a valid JSON string says; what is no text in it is U+FFFD.
func text(raw []byte) string { return string(said(raw)) }

// said is text, and shares its bytes with raw where they say it as they stand.
func said(raw []byte) []byte {
	if verbatim(raw) {
		return raw[1 : len(raw)-1]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return []byte(s)
}

// verbatim says whether a JSON string stands for the very bytes between its quotes.
func verbatim(raw []byte) bool { return bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) }

// attributeText returns an attribute that is text or a number; a binary one is none.
func attributeText(a dlqbridge.Attribute) (found, bool) {
	if strings.HasPrefix(a.Type, "Binary") {
		return found{}, false
	}
	text := string(a.Value)
	return found{text, text}, true
}
