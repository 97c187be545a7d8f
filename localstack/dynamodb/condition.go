package dynamodb

import "strings"

// condition is a parsed condition; holds decides it for an item (nil or empty
// when there is none). Mismatched types make a comparison false, not an error.
type condition interface{ holds(item Item) bool }

type (
	constant   bool
	both       struct{ a, b condition }
	either     struct{ a, b condition }
	negated    struct{ of condition }
	comparison struct {
		operator    string
		left, right operand
	}
	between    struct{ x, low, high operand }
	membership struct {
		x    operand
		list []operand
	}
	exists struct {
		where path
		want  bool
	}
	typeIs struct {
		x    operand
		kind string
	}
	beginsWith struct{ x, prefix operand }
	contains   struct{ x, part operand }
)

func (c constant) holds(Item) bool     { return bool(c) }
func (c both) holds(item Item) bool    { return c.a.holds(item) && c.b.holds(item) }
func (c either) holds(item Item) bool  { return c.a.holds(item) || c.b.holds(item) }
func (c negated) holds(item Item) bool { return !c.of.holds(item) }

func (c comparison) holds(item Item) bool {
	left, right := c.left.in(item), c.right.in(item)
	switch c.operator {
	case "=":
		return left != nil && right != nil && equal(left, right)
	case "<>":
		return left == nil || right == nil || !equal(left, right)
	}
	result, ok := order(left, right)
	if !ok {
		return false
	}
	switch c.operator {
	case "<":
		return result < 0
	case "<=":
		return result <= 0
	case ">":
		return result > 0
	}
	return result >= 0
}

func (c between) holds(item Item) bool {
	x := c.x.in(item)
	low, okLow := order(x, c.low.in(item))
	high, okHigh := order(x, c.high.in(item))
	return okLow && okHigh && low >= 0 && high <= 0
}

func (c membership) holds(item Item) bool {
	x := c.x.in(item)
	if x == nil {
		return false
	}
	for _, o := range c.list {
		if v := o.in(item); v != nil && equal(x, v) {
			return true
		}
	}
	return false
}

func (c exists) holds(item Item) bool { return (c.where.in(item) != nil) == c.want }

func (c typeIs) holds(item Item) bool {
	v := c.x.in(item)
	return v != nil && v.kind() == c.kind
}

func (c beginsWith) holds(item Item) bool {
	prefix := c.prefix.in(item)
	switch x := c.x.in(item).(type) {
	case stringValue:
		p, ok := prefix.(stringValue)
		return ok && strings.HasPrefix(string(x), string(p))
	case binaryValue:
		p, ok := prefix.(binaryValue)
		return ok && strings.HasPrefix(string(x), string(p))
	}
	return false
}

func (c contains) holds(item Item) bool {
	part := c.part.in(item)
	if part == nil {
		return false
	}
	switch x := c.x.in(item).(type) {
	case stringValue:
		p, ok := part.(stringValue)
		return ok && strings.Contains(string(x), string(p))
	case binaryValue:
		p, ok := part.(binaryValue)
		return ok && strings.Contains(string(x), string(p))
	case listValue:
		for _, e := range x {
			if equal(e, part) {
				return true
			}
		}
		return false
	default:
		return has(x, part)
	}
}
