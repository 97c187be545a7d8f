package dynamodb

import (
	"slices"
	"strings"
)

// parseCondition reads a condition, filter or key condition expression, and
// tells which top-level attributes it mentions.
func parseCondition(label, text string, binds *bindings) (c condition, attributes []string, err error) {
	c, err = parseExpression(label, text, binds, func(p *parser) condition {
		whole := p.disjunction()
		attributes = p.mentioned
		return whole
	})
	return c, attributes, err
}

// Precedence, loosest first: OR, AND, NOT, comparison (Developer Guide,
// "Condition and filter expressions", "Precedence in conditions").

func (p *parser) disjunction() condition {
	defer p.deeper()()
	left := p.conjunction()
	for p.takeWord("OR") {
		left = either{left, p.conjunction()}
	}
	return left
}

func (p *parser) conjunction() condition {
	left := p.negation()
	for p.takeWord("AND") {
		left = both{left, p.negation()}
	}
	return left
}

func (p *parser) negation() condition {
	if p.takeWord("NOT") {
		defer p.deeper()()
		return negated{p.negation()}
	}
	return p.test()
}

func (p *parser) test() condition {
	if p.peek().symbol("(") {
		return p.group()
	}
	if p.isCall() && p.peek().text != "size" {
		return p.predicate()
	}
	left := p.conditionOperand()
	switch t := p.peek(); {
	case p.takeWord("BETWEEN"):
		low := p.conditionOperand()
		if !p.takeWord("AND") {
			p.unexpected()
		}
		return p.between(left, low, p.conditionOperand())
	case p.takeWord("IN"):
		return p.membership(left)
	case t.kind == tokenSymbol && slices.Contains(comparators, t.text):
		p.at++
		return p.comparison(t.text, left, p.conditionOperand())
	}
	if _, ok := left.(sizeOf); ok && (p.peek().kind == tokenEnd || p.peek().symbol(")") || p.peek().is("AND") || p.peek().is("OR")) {
		p.wrong(functionRank, "The function is not allowed to be used this way in an expression; function: size")
		return constant(false)
	}
	p.unexpected()
	return nil
}

var comparators = []string{"=", "<>", "<", "<=", ">", ">="}

func (p *parser) group() condition {
	first := p.at
	p.must("(")
	inner := p.disjunction()
	last := p.at
	p.must(")")
	// ((a = b)) is refused, ((a = b) AND c = d) is not: redundant is a group
	// that begins and ends right inside this one.
	if p.closed == [2]int{first + 1, last - 1} {
		p.wrong(operandsRank, "The expression has redundant parentheses;")
	}
	p.closed = [2]int{first, last}
	return inner
}

// conditionOperand reads a path, a value, or size of one.
func (p *parser) conditionOperand() operand {
	defer p.deeper()()
	switch {
	case p.peek().kind == tokenValue:
		return p.value()
	case p.isCall():
		name, args := p.call(p.conditionOperand)
		if name != "size" || len(args) != 1 {
			p.wrong(functionRank, "The function is not allowed to be used this way in an expression; function: %s", name)
			return literal{name, nullValue{}}
		}
		p.operandKind("size", args[0], "S", "B", "SS", "NS", "BS", "L", "M")
		return sizeOf{args[0]}
	}
	return p.path()
}

// operandKind refuses a literal of a type that the operator cannot take; the
// type of a path is known only when the item is read.
func (p *parser) operandKind(operator string, o operand, kinds ...string) {
	l, ok := o.(literal)
	if !ok || slices.Contains(kinds, l.v.kind()) {
		return
	}
	kind := "operator"
	if _, isFunction := functions[operator]; isFunction || operator == "+" || operator == "-" {
		kind = "operator or function"
	}
	p.wrong(typeRank, "Incorrect operand type for operator or function; %s: %s, operand type: %s", kind, operator, l.v.kind())
}

// distinct refuses an operator whose operands are the same path.
func (p *parser) distinct(operator string, first operand, rest ...operand) {
	a, ok := first.(path)
	for _, o := range rest {
		if b, same := o.(path); ok && same && slices.Equal(a, b) {
			p.wrong(operandsRank, "The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s", operator, a)
		}
	}
}

func (p *parser) comparison(operator string, left, right operand) condition {
	p.distinct(operator, left, right)
	if operator != "=" && operator != "<>" {
		p.operandKind(operator, left, "S", "N", "B")
		p.operandKind(operator, right, "S", "N", "B")
	}
	return comparison{operator, left, right}
}

func (p *parser) between(x, low, high operand) condition {
	p.distinct("BETWEEN", x, low, high)
	for _, o := range []operand{x, low, high} {
		p.operandKind("BETWEEN", o, "S", "N", "B")
	}
	a, okA := low.(literal)
	b, okB := high.(literal)
	if okA && okB {
		switch result, ok := order(a.v, b.v); {
		case !ok:
			p.wrong(typeRank, "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s", shown(a.v), shown(b.v))
		case result > 0:
			p.wrong(typeRank, "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s", shown(a.v), shown(b.v))
		}
	}
	return between{x, low, high}
}

// shown is a value as messages about BETWEEN show it: {S:text}.
func shown(v Value) string {
	return strings.ReplaceAll(string(appendValue(nil, v)), `"`, "")
}

func (p *parser) membership(x operand) condition {
	p.must("(")
	var list []operand
	for {
		list = append(list, p.conditionOperand())
		if !p.take(",") {
			break
		}
	}
	p.must(")")
	p.distinct("IN", x, list...)
	// Developer Guide, "Condition and filter expressions": IN takes up to 100 values.
	if len(list) > 100 {
		p.wrong(operandsRank, "The IN operator is provided with too many operands; number of operands: %d", len(list))
	}
	return membership{x, list}
}

// predicate reads a function that is a condition by itself.
func (p *parser) predicate() condition {
	name, args := p.call(p.conditionOperand)
	if want, known := functions[name]; !known || len(args) != want {
		return constant(false) // already refused
	}
	switch name {
	case "attribute_exists", "attribute_not_exists":
		where, ok := args[0].(path)
		if !ok {
			p.wrong(operandsRank, "Operator or function requires a document path; operator or function: %s", name)
			return constant(false)
		}
		return exists{where, name == "attribute_exists"}
	case "attribute_type":
		p.operandKind(name, args[1], "S")
		l, ok := args[1].(literal)
		kind, isText := l.v.(stringValue)
		switch {
		case !ok:
			p.wrong(typeRank, "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: path")
		case isText && typeNames[string(kind)] == "":
			p.wrong(typeRank, "Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}", kind)
		}
		return typeIs{args[0], string(kind)}
	case "begins_with":
		p.distinct(name, args[0], args[1])
		p.operandKind(name, args[0], "S", "B")
		p.operandKind(name, args[1], "S", "B")
		return beginsWith{args[0], args[1]}
	case "contains":
		p.distinct(name, args[0], args[1])
		p.operandKind(name, args[0], "S", "B", "SS", "NS", "BS", "L")
		return contains{args[0], args[1]}
	}
	p.wrong(functionRank, "The function is not allowed in a condition expression; function: %s", name)
	return constant(false)
}
