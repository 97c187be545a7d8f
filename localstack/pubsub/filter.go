package pubsub

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// compileFilter reads an expression of the filter language (page "Filter
// messages from a subscription"), which looks at attributes only:
//
//	attributes:name
//	attributes.name = "value"    attributes.name != "value"
//	hasPrefix(attributes.name, "value")
//
// joined by AND or OR, not both without parentheses, and negated by NOT or a
// minus. Names with other characters than letters, digits, dashes and
// underscores are in quotes. An empty filter lets everything through.
func compileFilter(text string) (func(map[string]string) bool, error) {
	if text == "" {
		return func(map[string]string) bool { return true }, nil
	}
	if len(text) > maxFilterBytes {
		return nil, invalid("Invalid filter given: it has %d bytes; at most %d are allowed.", len(text), maxFilterBytes)
	}
	p := &filterParser{rest: text}
	p.next()
	match := p.expression()
	if p.wrong == "" && p.token != "" {
		p.fail("unexpected " + p.token)
	}
	if p.wrong != "" {
		return nil, invalid("Invalid filter given (filter=%s): %s.", text, p.wrong)
	}
	return match, nil
}

type predicate = func(attributes map[string]string) bool

// filterParser reads a filter from left to right. After a mistake it reads on
// without meaning, and keeps the first one in wrong.
type filterParser struct {
	rest    string
	token   string // the current one: a word, a sign or, with its quotes, a text; empty at the end
	literal string // the text without quotes
	wrong   string
}

func (p *filterParser) fail(why string) {
	if p.wrong == "" {
		p.wrong = why
	}
	p.rest, p.token = "", ""
}

func (p *filterParser) next() {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	switch {
	case p.rest == "":
		p.token = ""
	case p.rest[0] == '"':
		p.text()
	case strings.HasPrefix(p.rest, "!="):
		p.cut(2)
	case strings.IndexByte("():=,.-", p.rest[0]) >= 0:
		p.cut(1)
	default:
		end := 0
		for end < len(p.rest) && wordByte(p.rest[end]) {
			end++
		}
		if end == 0 {
			r, _ := utf8.DecodeRuneInString(p.rest)
			p.fail("unexpected " + strconv.QuoteRune(r))
			return
		}
		p.cut(end)
	}
}

func (p *filterParser) cut(n int) { p.token, p.rest = p.rest[:n], p.rest[n:] }

// wordByte says whether a byte belongs to an unquoted name. A minus inside is
// part of it; one before it negates.
func wordByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// text reads a literal in quotes with its escapes: Unicode, hexadecimal and
// octal, as in Go.
func (p *filterParser) text() {
	rest := p.rest[1:]
	var literal strings.Builder
	for rest != "" && rest[0] != '"' {
		r, multibyte, tail, err := strconv.UnquoteChar(rest, '"')
		if err != nil {
			p.fail("a text with an escape that is none")
			return
		}
		if r < utf8.RuneSelf || multibyte {
			literal.WriteRune(r)
		} else {
			literal.WriteByte(byte(r))
		}
		rest = tail
	}
	if rest == "" {
		p.fail("a text without its closing quote")
		return
	}
	p.token, p.rest, p.literal = p.rest[:len(p.rest)-len(rest)+1], rest[1:], literal.String()
}

func (p *filterParser) expect(token string) {
	if p.token != token {
		p.unexpected("want " + token)
		return
	}
	p.next()
}

func (p *filterParser) unexpected(want string) {
	if p.token == "" {
		p.fail(want + " at the end")
	} else {
		p.fail(want + ", not " + p.token)
	}
}

func (p *filterParser) expression() predicate {
	match := p.term()
	joint := p.token
	for p.token == "AND" || p.token == "OR" {
		if p.token != joint {
			p.fail("AND and OR need parentheses")
			return match
		}
		p.next()
		left, right := match, p.term()
		if joint == "AND" {
			match = func(a map[string]string) bool { return left(a) && right(a) }
		} else {
			match = func(a map[string]string) bool { return left(a) || right(a) }
		}
	}
	return match
}

func (p *filterParser) term() predicate {
	switch p.token {
	case "NOT", "-":
		p.next()
		inner := p.term()
		return func(a map[string]string) bool { return !inner(a) }
	case "(":
		p.next()
		inner := p.expression()
		p.expect(")")
		return inner
	case "hasPrefix":
		p.next()
		p.expect("(")
		p.expect("attributes")
		p.expect(".")
		name := p.name()
		p.expect(",")
		prefix := p.value()
		p.expect(")")
		return func(a map[string]string) bool {
			value, has := a[name]
			return has && strings.HasPrefix(value, prefix)
		}
	case "attributes":
		p.next()
		return p.comparison()
	}
	p.unexpected("want attributes, hasPrefix, NOT or a parenthesis")
	return nil
}

func (p *filterParser) comparison() predicate {
	if p.token == ":" {
		p.next()
		name := p.name()
		return func(a map[string]string) bool { _, has := a[name]; return has }
	}
	p.expect(".")
	name := p.name()
	sign := p.token
	if sign != "=" && sign != "!=" {
		p.unexpected("want = or !=")
		return nil
	}
	p.next()
	want := p.value()
	if sign == "=" {
		return func(a map[string]string) bool { value, has := a[name]; return has && value == want }
	}
	// A message without the attribute is one whose attribute is not the value.
	return func(a map[string]string) bool { value, has := a[name]; return !has || value != want }
}

// name is a word or a text in quotes.
func (p *filterParser) name() string {
	if p.token != "" && p.token[0] == '"' {
		return p.value()
	}
	if p.token == "" || !wordByte(p.token[0]) {
		p.unexpected("want the name of an attribute")
		return ""
	}
	name := p.token
	p.next()
	return name
}

// value is a text in quotes.
func (p *filterParser) value() string {
	if p.token == "" || p.token[0] != '"' {
		p.unexpected("want a text in double quotes")
		return ""
	}
	literal := p.literal
	p.next()
	return literal
}
