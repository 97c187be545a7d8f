package dynamodb

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// maxNesting bounds the recursion of the expression parser; no expression of
// 4 KB that means anything comes near it.
const maxNesting = 300

// parser reads one expression. Rules are methods that return what they read;
// the first syntax error stops the parse, the first error of meaning (an
// undefined placeholder, a reserved word) is kept until the syntax is known to
// be right, because the service reports syntax first.
type parser struct {
	label     string // the member's name, for messages
	text      string
	tokens    []token
	at        int
	level     int
	binds     *bindings
	fault     *wire.Error
	faultRank rank
	closed    [2]int // first and last token of the group read last

	mentioned []string // the top-level attributes of all paths read
}

// syntaxError travels up by panic and is caught in parseExpression: grammar
// rules stay readable without an error test after each token.
type syntaxError struct{ err *wire.Error }

// parseExpression runs one rule over a whole expression.
func parseExpression[T any](label, text string, binds *bindings, rule func(*parser) T) (result T, err error) {
	switch {
	case strings.TrimSpace(text) == "":
		return result, invalid("Invalid %s: The expression can not be empty;", label)
	case len(text) > maxExpression:
		return result, invalid("Invalid %s: Expression size has exceeded the maximum allowed size; expression size: %d", label, len(text))
	}
	p := &parser{label: label, text: text, tokens: tokenize(text), binds: binds}
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(syntaxError)
			if !ok {
				panic(r)
			}
			err = s.err
		}
	}()
	result = rule(p)
	if p.peek().kind != tokenEnd {
		p.unexpected()
	}
	if p.fault != nil {
		return result, p.fault
	}
	return result, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

// after is the token behind the next one.
func (p *parser) after() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

// take consumes the symbol if it is next.
func (p *parser) take(symbol string) bool {
	if p.peek().symbol(symbol) {
		p.at++
		return true
	}
	return false
}

// takeWord consumes the keyword if it is next.
func (p *parser) takeWord(keyword string) bool {
	if p.peek().is(keyword) {
		p.at++
		return true
	}
	return false
}

func (p *parser) must(symbol string) {
	if !p.take(symbol) {
		p.unexpected()
	}
}

// unexpected stops the parse at the next token, shown with its neighbours.
func (p *parser) unexpected() {
	start := p.tokens[max(p.at-1, 0)].pos
	last := p.tokens[min(p.at+1, len(p.tokens)-1)]
	near := p.text[start:]
	if last.kind != tokenEnd {
		near = p.text[start : last.pos+len(last.text)]
	}
	panic(syntaxError{invalid(`Invalid %s: Syntax error; token: "%s", near: "%s"`, p.label, p.peek().text, strings.TrimSpace(near))})
}

// rank orders errors of meaning: of several the service reports the lowest,
// wherever it stands in the expression.
type rank uint8

const (
	reservedRank rank = iota
	functionRank
	sectionRank
	nameRank
	valueRank
	operandsRank
	pathRank
	typeRank
)

// wrong keeps the error of meaning with the lowest rank, and of those the first.
func (p *parser) wrong(r rank, format string, args ...any) {
	if p.fault == nil || r < p.faultRank {
		p.fault, p.faultRank = invalid("Invalid "+p.label+": "+format, args...), r
	}
}

// deeper guards each recursive rule; call the result when leaving it.
func (p *parser) deeper() func() {
	if p.level++; p.level > maxNesting {
		panic(syntaxError{invalid("Invalid %s: The expression is nested too deeply", p.label)})
	}
	return func() { p.level-- }
}

// path reads a document path: name { "." name | "[" index "]" }.
func (p *parser) path() path {
	where := path{{name: p.name()}}
	p.mentioned = append(p.mentioned, where[0].name)
	for {
		switch {
		case p.take("."):
			where = append(where, step{name: p.name()})
		case p.peek().symbol("["):
			p.at++
			t := p.next()
			index, err := strconv.Atoi(t.text)
			if t.kind != tokenIndex || err != nil {
				p.at--
				p.unexpected()
			}
			p.must("]")
			where = append(where, step{index: index})
		default:
			if len(where) > maxLevels+1 {
				p.wrong(operandsRank, "The document path has too many nesting elements; nesting elements: %d", len(where))
			}
			return where
		}
	}
}

// name reads an attribute name or the placeholder of one.
func (p *parser) name() string {
	switch t := p.peek(); t.kind {
	case tokenWord:
		// A name without placeholder starts with a letter (Developer Guide,
		// "Referring to item attributes when using expressions").
		if t.text[0] == '_' {
			p.unexpected()
		}
		p.at++
		if reserved(t.text) {
			p.wrong(reservedRank, "Attribute name is a reserved keyword; reserved keyword: %s", t.text)
		}
		return t.text
	case tokenName:
		p.at++
		name, ok := p.binds.names[t.text]
		switch {
		case !ok:
			p.wrong(nameRank, "An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
			return t.text
		case name == "":
			p.wrong(nameRank, "An expression attribute name must not be empty; attribute name: %s", t.text)
			return t.text
		}
		p.binds.usedNames[t.text] = true
		return name
	case tokenEnd, tokenValue, tokenIndex, tokenSymbol:
	}
	p.unexpected()
	return ""
}

// value reads a value placeholder.
func (p *parser) value() literal {
	t := p.next()
	v, ok := p.binds.values[t.text]
	if !ok {
		p.wrong(valueRank, "An expression attribute value used in expression is not defined; attribute value: %s", t.text)
		return literal{t.text, nullValue{}}
	}
	p.binds.usedValues[t.text] = true
	return literal{t.text, v}
}

// isCall tells whether a function call is next.
func (p *parser) isCall() bool {
	return p.peek().kind == tokenWord && p.after().symbol("(")
}

// call reads name "(" operand { "," operand } ")" and checks name and count.
func (p *parser) call(operand func() operand) (name string, args []operand) {
	name = p.next().text
	p.must("(")
	for {
		args = append(args, operand())
		if !p.take(",") {
			break
		}
	}
	p.must(")")
	want, known := functions[name]
	switch {
	case !known:
		p.wrong(functionRank, "Invalid function name; function: %s", name)
	case len(args) != want:
		p.wrong(operandsRank, "Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(args))
	}
	return name, args
}

// functions are all functions of the expression language and their operand
// counts; names are case-sensitive (Developer Guide, "Condition and filter
// expressions, operators, and functions").
var functions = map[string]int{
	"attribute_exists": 1, "attribute_not_exists": 1, "attribute_type": 2, "begins_with": 2,
	"contains": 2, "size": 1, "if_not_exists": 2, "list_append": 2,
}

// operand is something with a value: a path, a literal or a function's result.
type operand interface {
	// in is the operand's value for an item, or nil when it has none.
	in(item Item) Value
	// label is the operand as messages show it.
	label() string
}

func (p path) label() string { return p.String() }

// literal is a value placeholder with its value.
type literal struct {
	name string
	v    Value
}

func (l literal) in(Item) Value { return l.v }
func (l literal) label() string { return l.name }

// sizeOf is the function size.
type sizeOf struct{ of operand }

func (s sizeOf) label() string { return "size(" + s.of.label() + ")" }

func (s sizeOf) in(item Item) Value {
	switch v := s.of.in(item).(type) {
	case stringValue:
		return numberOf(utf8.RuneCountInString(string(v)))
	case binaryValue:
		return numberOf(len(v))
	case listValue:
		return numberOf(len(v))
	case Item:
		return numberOf(len(v))
	case stringsValue:
		return numberOf(len(v))
	case binaryValues:
		return numberOf(len(v))
	case numbersValue:
		return numberOf(len(v))
	}
	return nil // the other types have no size: comparisons with it are false
}
