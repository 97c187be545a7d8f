package dynamodb

import "strings"

type tokenKind uint8

// The kinds of token in an expression.
const (
	tokenEnd    tokenKind = iota
	tokenWord             // an attribute name, a keyword or a function
	tokenName             // #placeholder
	tokenValue            // :placeholder
	tokenIndex            // a whole number
	tokenSymbol           // punctuation or a comparison
)

type token struct {
	kind tokenKind
	text string
	pos  int
}

// is tells whether the token is the keyword, whatever its case.
func (t token) is(keyword string) bool {
	return t.kind == tokenWord && strings.EqualFold(t.text, keyword)
}

func (t token) symbol(s string) bool { return t.kind == tokenSymbol && t.text == s }

// tokenize cuts an expression into tokens; the last one is tokenEnd. A
// character that belongs to no token becomes a symbol that no rule accepts, so
// that the parser words the refusal.
func tokenize(text string) []token {
	tokens := make([]token, 0, len(text)/3+2)
	for pos := 0; pos < len(text); {
		c := text[pos]
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			pos++
			continue
		}
		end := pos + 1
		kind := tokenSymbol
		switch {
		case isLetter(c), c == '_':
			kind = tokenWord
			end = wordEnd(text, end)
		case isDigit(c):
			kind = tokenIndex
			end = wordEnd(text, end)
		case c == '#' || c == ':':
			if end = wordEnd(text, end); end > pos+1 {
				kind = tokenName
				if c == ':' {
					kind = tokenValue
				}
			}
		case c == '<' && end < len(text) && (text[end] == '=' || text[end] == '>'),
			c == '>' && end < len(text) && text[end] == '=':
			end++
		}
		tokens = append(tokens, token{kind, text[pos:end], pos})
		pos = end
	}
	return append(tokens, token{tokenEnd, "<EOF>", len(text)})
}

func wordEnd(text string, pos int) int {
	for pos < len(text) && (isLetter(text[pos]) || isDigit(text[pos]) || text[pos] == '_') {
		pos++
	}
	return pos
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
