package dynamodb

import (
	"slices"
	"strings"
)

// update is a parsed update expression.
type update struct {
	sets    []setAction
	removes []path
	adds    []amount
	deletes []amount
}

// setAction sets the value at a path.
type setAction struct {
	where path
	to    operand
}

// amount is what ADD and DELETE add to or take from the value at a path.
type amount struct {
	where path
	by    Value
}

// paths are all the paths that the update touches.
func (u *update) paths() []path {
	all := slices.Clone(u.removes)
	for _, a := range u.sets {
		all = append(all, a.where)
	}
	for _, a := range slices.Concat(u.adds, u.deletes) {
		all = append(all, a.where)
	}
	return all
}

// parseUpdate reads an update expression.
func parseUpdate(text string, binds *bindings) (*update, error) {
	return parseExpression("UpdateExpression", text, binds, (*parser).update)
}

func (p *parser) update() *update {
	u := &update{}
	seen := map[string]bool{}
	for {
		section := strings.ToUpper(p.peek().text)
		var one func()
		switch {
		case p.takeWord("SET"):
			one = func() { u.sets = append(u.sets, p.setAction()) }
		case p.takeWord("REMOVE"):
			one = func() { u.removes = append(u.removes, p.path()) }
		case p.takeWord("ADD"):
			one = func() { u.adds = append(u.adds, p.amount("ADD", "N", "SS", "NS", "BS")) }
		case p.takeWord("DELETE"):
			one = func() { u.deletes = append(u.deletes, p.amount("DELETE", "SS", "NS", "BS")) }
		default:
			p.unexpected()
		}
		if seen[section] {
			p.wrong(sectionRank, `The "%s" section can only be used once in an update expression;`, section)
		}
		seen[section] = true
		for {
			one()
			if !p.take(",") {
				break
			}
		}
		if p.peek().kind == tokenEnd {
			p.apart(u.paths())
			return u
		}
	}
}

// apart refuses paths that lead through one another.
func (p *parser) apart(paths []path) {
	for i, a := range paths {
		for _, b := range paths[:i] {
			overlap, conflict := clash(b, a)
			how := "overlap"
			if conflict {
				how = "conflict"
			}
			if overlap || conflict {
				p.wrong(pathRank, "Two document paths %s with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", how, b, a)
			}
		}
	}
}

func (p *parser) setAction() setAction {
	where := p.path()
	p.must("=")
	left := p.updateOperand()
	for _, operator := range []string{"+", "-"} {
		if p.take(operator) {
			right := p.updateOperand()
			p.operandKind(operator, left, "N")
			p.operandKind(operator, right, "N")
			return setAction{where, arithmetic{left, right, operator == "-"}}
		}
	}
	return setAction{where, left}
}

func (p *parser) amount(operator string, kinds ...string) amount {
	where := p.path()
	if p.peek().kind != tokenValue {
		p.unexpected()
	}
	l := p.value()
	if _, given := p.binds.values[l.name]; given && !slices.Contains(kinds, l.v.kind()) {
		p.wrong(typeRank, "Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND", operator, typeNames[l.v.kind()], operator)
	}
	return amount{where, l.v}
}

// updateOperand reads a path, a value, or one of the two functions that give
// a new value.
func (p *parser) updateOperand() operand {
	defer p.deeper()()
	switch {
	case p.peek().kind == tokenValue:
		return p.value()
	case p.peek().symbol("("):
		p.at++
		inner := p.updateOperand()
		p.must(")")
		return inner
	case !p.isCall():
		return p.path()
	}
	name, args := p.call(p.updateOperand)
	if want, known := functions[name]; !known || len(args) != want {
		return literal{name, nullValue{}} // already refused
	}
	switch name {
	case "if_not_exists":
		where, ok := args[0].(path)
		if !ok {
			p.wrong(operandsRank, "Operator or function requires a document path; operator or function: if_not_exists")
		}
		return fallback{where, args[1]}
	case "list_append":
		p.operandKind(name, args[0], "L")
		p.operandKind(name, args[1], "L")
		return appended{args[0], args[1]}
	}
	p.wrong(functionRank, "The function is not allowed in an update expression; function: %s", name)
	return literal{name, nullValue{}}
}

// arithmetic is left + right or left - right.
type arithmetic struct {
	left, right operand
	minus       bool
}

// fallback is if_not_exists.
type fallback struct {
	where path
	other operand
}

// appended is list_append.
type appended struct{ first, second operand }

func (a arithmetic) label() string { return a.left.label() }
func (f fallback) label() string   { return f.where.label() }
func (a appended) label() string   { return a.first.label() }

// These three are computed by computed, which can refuse; in serves only the
// condition side of the operand interface.

func (a arithmetic) in(item Item) Value { v, _ := computed(a, item); return v }
func (f fallback) in(item Item) Value   { v, _ := computed(f, item); return v }
func (a appended) in(item Item) Value   { v, _ := computed(a, item); return v }
