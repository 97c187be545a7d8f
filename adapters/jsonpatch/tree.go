package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tree is a JSON value with its members in their order and numbers as written.
type tree struct {
	kind    byte // '{', '[', '"', '0' for a number, 't', 'f', 'n'
	text    string
	members []member // of an object, or elements without name
}

type member struct {
	name  string
	value tree
}

func (t tree) find(name string) (tree, bool) {
	for _, m := range t.members {
		if m.name == name {
			return m.value, true
		}
	}
	return tree{}, false
}

func (t tree) equal(o tree) bool {
	if t.kind != o.kind || t.text != o.text || len(t.members) != len(o.members) {
		return false
	}
	for i, m := range t.members {
		if m.name != o.members[i].name || !m.value.equal(o.members[i].value) {
			return false
		}
	}
	return true
}

// read reads one JSON text. It refuses what could come back as something else.
func read(body []byte) (tree, error) {
	switch {
	case !utf8.Valid(body):
		return tree{}, errors.New("it is not UTF-8")
	case !json.Valid(body):
		return tree{}, errors.New("it is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	r := reader{d: d, body: body}
	t, err := r.value("")
	if err != nil {
		return tree{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return tree{}, errors.New("something stands behind it")
	}
	return t, nil
}

type reader struct {
	d    *json.Decoder
	body []byte
}

func (r reader) value(at string) (tree, error) {
	token, err := r.d.Token()
	if err != nil {
		return tree{}, errors.New("it is not JSON")
	}
	switch v := token.(type) {
	case json.Delim:
		return r.inside(v, at)
	case string:
		return tree{kind: '"', text: v}, nil
	case json.Number:
		return tree{kind: '0', text: v.String()}, nil
	case bool:
		if v {
			return tree{kind: 't'}, nil
		}
		return tree{kind: 'f'}, nil
	}
	return tree{kind: 'n'}, nil
}

func (r reader) inside(open json.Delim, at string) (tree, error) {
	t := tree{kind: byte(open)}
	seen := map[string]bool{}
	for r.d.More() {
		var m member
		below := at + "/" + strconv.Itoa(len(t.members))
		if open == '{' {
			from := r.d.InputOffset()
			token, err := r.d.Token()
			if err != nil {
				return t, errors.New("it is not JSON")
			}
			m.name, _ = token.(string)
			below = at + "/" + escape(m.name)
			switch raw := r.body[from:r.d.InputOffset()]; {
			case seen[m.name]:
				return t, fmt.Errorf("it names %s twice, and which of the two counts is not certain", below)
			case strings.ContainsRune(m.name, utf8.RuneError) && !written(raw):
				return t, fmt.Errorf("a name at %s holds half of a character", below)
			}
			seen[m.name] = true
		}
		var err error
		if m.value, err = r.value(below); err != nil {
			return t, err
		}
		t.members = append(t.members, m)
	}
	_, err := r.d.Token() // the end
	return t, err
}

// written says whether the replacement character stands in a name itself, and
// not for half of a pair.
func written(raw []byte) bool {
	return !bytes.Contains(bytes.ToLower(raw), []byte(`\ud`))
}

// encode writes a value without needless escapes.
func encode(t tree) json.RawMessage { return appendTree(nil, t) }

func appendTree(out []byte, t tree) []byte {
	switch t.kind {
	case '{', '[':
		out = append(out, t.kind)
		for i, m := range t.members {
			if i > 0 {
				out = append(out, ',')
			}
			if t.kind == '{' {
				out = append(appendText(out, m.name), ':')
			}
			out = appendTree(out, m.value)
		}
		return append(out, t.kind+2) // both brackets stand two places before their end
	case '"':
		return appendText(out, t.text)
	case '0':
		return append(out, t.text...)
	case 't':
		return append(out, "true"...)
	case 'f':
		return append(out, "false"...)
	}
	return append(out, "null"...)
}

func appendText(out []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text always can
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// escape writes a name as part of a pointer (RFC 6901).
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
