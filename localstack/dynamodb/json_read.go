package dynamodb

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds the reader's recursion. An item of 32 levels takes two
// JSON levels for each; what is deeper is refused by its own rule, not here.
const maxJSONDepth = 500

// reader walks one JSON text without building a tree of it: callers say what
// they expect and get it typed. It exists because every call of the service
// passes here, and reflection would cost more than the write itself.
type reader struct {
	data  []byte
	pos   int
	level int
}

func (r *reader) unexpected() error {
	if r.pos >= len(r.data) {
		return malformed("Unexpected end of the request body")
	}
	return malformed("Unexpected character %q at byte %d of the request body", r.data[r.pos], r.pos)
}

// peek is the next byte that is not a space, or 0 at the end.
func (r *reader) peek() byte {
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

func (r *reader) expect(c byte) error {
	if r.peek() != c {
		return r.unexpected()
	}
	r.pos++
	return nil
}

// word consumes a literal such as null.
func (r *reader) word(w string) bool {
	if r.peek() != w[0] || r.pos+len(w) > len(r.data) || string(r.data[r.pos:r.pos+len(w)]) != w {
		return false
	}
	r.pos += len(w)
	return true
}

// null consumes a null; the JSON protocol reads it as "not set".
func (r *reader) null() bool { return r.word("null") }

// end refuses anything after the value.
func (r *reader) end() error {
	if r.peek() != 0 || r.pos < len(r.data) {
		return r.unexpected()
	}
	return nil
}

// object calls member for each name; member must consume the value.
func (r *reader) object(member func(name string) error) error {
	return r.sequence('{', '}', func() error {
		name, err := r.text()
		if err != nil {
			return err
		}
		if err := r.expect(':'); err != nil {
			return err
		}
		return member(name)
	})
}

// array calls element before each element; element must consume it.
func (r *reader) array(element func() error) error { return r.sequence('[', ']', element) }

func (r *reader) sequence(first, last byte, each func() error) error {
	if err := r.expect(first); err != nil {
		return err
	}
	if r.level++; r.level > maxJSONDepth {
		return malformed("The request body is nested too deeply")
	}
	defer func() { r.level-- }()
	if r.peek() == last {
		r.pos++
		return nil
	}
	for {
		if err := each(); err != nil {
			return err
		}
		switch r.peek() {
		case ',':
			r.pos++
		case last:
			r.pos++
			return nil
		default:
			return r.unexpected()
		}
	}
}

// text reads a string.
func (r *reader) text() (string, error) {
	if err := r.expect('"'); err != nil {
		return "", err
	}
	start := r.pos
	ascii := true
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; {
		case c == '"':
			s := r.data[start:r.pos]
			r.pos++
			if !ascii && !utf8.Valid(s) {
				return "", malformed("A string in the request body is not UTF-8")
			}
			return string(s), nil
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			return "", r.unexpected()
		case c >= utf8.RuneSelf:
			ascii = false
		}
		r.pos++
	}
	return "", r.unexpected()
}

// escaped reads on from the first backslash of a string.
func (r *reader) escaped(start int) (string, error) {
	out := append(make([]byte, 0, 2*(r.pos-start)+32), r.data[start:r.pos]...)
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		switch {
		case c == '"':
			r.pos++
			if !utf8.Valid(out) {
				return "", malformed("A string in the request body is not UTF-8")
			}
			return string(out), nil
		case c < ' ':
			return "", r.unexpected()
		case c != '\\':
			out = append(out, c)
			r.pos++
			continue
		}
		if r.pos+1 >= len(r.data) {
			break
		}
		r.pos += 2
		switch e := r.data[r.pos-1]; e {
		case '"', '\\', '/':
			out = append(out, e)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			unit, ok := r.hex()
			if !ok {
				return "", r.unexpected()
			}
			if utf16.IsSurrogate(unit) && r.word(`\u`) {
				low, ok := r.hex()
				if !ok {
					return "", r.unexpected()
				}
				unit = utf16.DecodeRune(unit, low)
			}
			out = utf8.AppendRune(out, unit)
		default:
			r.pos--
			return "", r.unexpected()
		}
	}
	r.pos = len(r.data)
	return "", r.unexpected()
}

func (r *reader) hex() (rune, bool) {
	if r.pos+4 > len(r.data) {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(r.data[r.pos:r.pos+4]), 16, 16)
	if err != nil {
		return 0, false
	}
	r.pos += 4
	return rune(unit), true
}

// boolean reads true or false.
func (r *reader) boolean() (bool, error) {
	switch {
	case r.word("true"):
		return true, nil
	case r.word("false"):
		return false, nil
	}
	return false, r.unexpected()
}

// integer reads a whole number.
func (r *reader) integer() (int, error) {
	r.peek()
	start := r.pos
	r.number()
	n, err := strconv.Atoi(string(r.data[start:r.pos]))
	if err != nil {
		r.pos = start
		return 0, r.unexpected()
	}
	return n, nil
}

func (r *reader) number() {
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			r.pos++
		default:
			return
		}
	}
}
