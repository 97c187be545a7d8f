// Package jsonspan says where values stand in the bytes of valid JSON, for code
// that opens one level without reading those below, and copies what it does not
// change. JSON that is not valid makes it panic or answer nonsense.
package jsonspan

import (
	"bytes"
	"encoding/json"
)

// Blanks is the position of the first byte from at that is no white space.
func Blanks[T string | []byte](raw T, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r') {
		at++
	}
	return at
}

// End is the position behind the value that begins at at.
func End[T string | []byte](raw T, at int) int {
	depth := 0
	for ; at < len(raw); at++ {
		switch raw[at] {
		case '"':
			for at++; raw[at] != '"'; at++ {
				if raw[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
			if depth < 0 { // the end of what stands around a number or a word
				return at
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue // inside a number or a word, which ends at one of the above
		}
		if depth == 0 {
			return at + 1
		}
	}
	return at
}

// Member is one member of an object, or one element of a list, with all that is
// written around it up to the comma or the end.
type Member struct {
	// Key is a member's name as it is written, nil in a list. It is in Lead, with
	// white space and the colon.
	Lead, Key, Value, Tail []byte
}

// Level goes through the members of an object, or the elements of a list, until
// do says no. Blank is what stands in it where it is empty.
func Level(raw []byte, do func(Member) bool) (blank []byte) {
	for at := 1; ; at++ {
		start := at
		at = Blanks(raw, at)
		if raw[at] == '}' || raw[at] == ']' {
			return raw[start:at]
		}
		var m Member
		if raw[0] == '{' {
			end := End(raw, at)
			m.Key = raw[at:end]
			at = Blanks(raw, Blanks(raw, end)+1) // past the colon
		}
		end := End(raw, at)
		m.Lead, m.Value = raw[start:at], raw[at:end]
		at = Blanks(raw, end)
		m.Tail = raw[end:at]
		if !do(m) || raw[at] != ',' {
			return nil
		}
	}
}

// Quote writes a text as JSON without needless escapes.
func Quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text always can
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
