package enrich

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// maxBody is the longest body that is looked into: Pub/Sub's largest message.
const maxBody = 10 << 20

// document is a JSON text that is opened only along the pointers asked for. The
// levels below stay bytes, so depth costs nothing and numbers keep their
// digits. A text that is not JSON, or nested deeper than the standard library
// reads (10,000 levels), is opaque: it has no values. It is never written.
type document struct {
	root  json.RawMessage
	top   node            // the root, opened
	nodes map[string]node // deeper ones, by path, opened when asked for
}

// node is one opened object or array.
type node struct {
	members  map[string]json.RawMessage
	elements []json.RawMessage
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// openDocument tolerates a byte order mark.
func openDocument(text []byte) *document {
	text = bytes.TrimLeft(bytes.TrimPrefix(text, byteOrderMark), " \t\r\n")
	if len(text) == 0 || len(text) > maxBody || text[0] != '{' && text[0] != '[' {
		return &document{}
	}
	return &document{root: text, top: opened(text)}
}

// object says whether the root is a JSON object.
func (d *document) object() bool { return d.top.members != nil }

// opened reads one level. An error leaves the node without values: opaque. A
// key that stands there twice has its last value, as most readers see it.
func opened(raw json.RawMessage) node {
	var n node
	switch raw[0] {
	case '{':
		if json.Unmarshal(raw, &n.members) != nil {
			return node{}
		}
	case '[':
		if json.Unmarshal(raw, &n.elements) != nil {
			return node{}
		}
	}
	return n
}

func (d *document) open(at string, raw json.RawMessage) node {
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
func (d *document) raw(path []string) json.RawMessage {
	if d.root == nil {
		return nil
	}
	raw, at := d.root, ""
	for i, segment := range path {
		n := d.open(at, raw)
		switch {
		case n.members != nil:
			raw = n.members[segment]
		case n.elements != nil:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(n.elements) {
				return nil
			}
			raw = n.elements[i]
		default:
			return nil
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

// found is a value with the bytes it was read from.
type found struct{ text, raw string }

// value returns the text or number at a pointer's segments; anything else is none.
func (d *document) value(path []string) (found, bool) { return scalar(d.raw(path)) }

// scalar reads a JSON string, or a number as its own digits.
func scalar(raw json.RawMessage) (found, bool) {
	if len(raw) == 0 {
		return found{}, false
	}
	switch c := raw[0]; {
	case c == '"':
		if simple := raw[1 : len(raw)-1]; bytes.IndexByte(simple, '\\') < 0 && utf8.Valid(simple) {
			return found{string(simple), string(simple)}, true
		}
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return found{}, false
		}
		return found{s, string(raw)}, true
	case c == '-' || c >= '0' && c <= '9':
		return found{string(raw), string(raw)}, true
	}
	return found{}, false
}

// attributeText returns an attribute that is text or a number; a binary one is none.
func attributeText(a dlqbridge.Attribute) (found, bool) {
	if strings.HasPrefix(a.Type, "Binary") {
		return found{}, false
	}
	text := string(a.Value)
	return found{text, text}, true
}
