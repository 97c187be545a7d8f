// Package jsonspan says where values stand in the bytes of valid JSON, for code
// that opens one level without reading those below, and copies what it does not
// change. JSON that is not valid makes it panic or answer nonsense.
package jsonspan

// Blanks is the position of the first byte from at that is no white space.
func Blanks(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r') {
		at++
	}
	return at
}

// End is the position behind the value that begins at at.
func End(raw []byte, at int) int {
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
