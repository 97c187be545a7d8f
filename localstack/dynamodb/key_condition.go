package dynamodb

// keyRange is what a key condition asks for: one partition, and maybe a part
// of it.
type keyRange struct {
	hash Value
	sort sortTest // operator empty: all of the partition
}

// sortTest is the condition on the sort key.
type sortTest struct {
	operator  string // =, <, <=, >, >=, BETWEEN or begins_with
	low, high Value
}

const keyLabel = "Invalid KeyConditionExpression: "

// keyTest is one condition on one attribute.
type keyTest struct {
	attribute string
	sortTest
}

// keyRangeOf turns a parsed key condition into a range of the schema's keys,
// or refuses what a key condition cannot say (Developer Guide, "Key condition
// expressions for the Query operation").
func keyRangeOf(c condition, keys schema) (keyRange, error) {
	tests, err := keyTests(c, nil)
	if err != nil {
		return keyRange{}, err
	}
	if len(tests) > 2 {
		return keyRange{}, invalid("Conditions can be of length 1 or 2 only")
	}
	byName := map[string]sortTest{}
	for _, t := range tests {
		if _, twice := byName[t.attribute]; twice {
			return keyRange{}, invalid("KeyConditionExpressions must only contain one condition per key")
		}
		byName[t.attribute] = t.sortTest
	}
	hash, ok := byName[keys.hash.name]
	switch {
	case !ok:
		return keyRange{}, invalid("Query condition missed key schema element: %s", keys.hash.name)
	case hash.operator != "=":
		return keyRange{}, invalid("Query key condition not supported")
	}
	found := keyRange{hash: hash.low}
	if len(tests) == 2 {
		if found.sort, ok = byName[keys.sort.name]; !ok || keys.sort.name == "" {
			return keyRange{}, invalid("Query condition missed key schema element: %s", keys.sort.name)
		}
	}
	return found, found.check(keys)
}

// check checks the values against the key's types.
func (k keyRange) check(keys schema) error {
	for _, v := range []struct {
		value Value
		part  keyPart
	}{{k.hash, keys.hash}, {k.sort.low, keys.sort}, {k.sort.high, keys.sort}} {
		switch {
		case v.value == nil:
		case v.value.kind() != v.part.kind:
			return invalidParameter("Condition parameter type does not match schema type")
		case v.value.kind() != "N" && v.value.size() == 0 && (v.part == keys.hash || k.sort.operator != "begins_with"):
			return emptyKey(v.value, "Key: "+v.part.name)
		}
	}
	if k.sort.operator == "begins_with" && keys.sort.kind == "N" {
		return invalidParameter("Condition parameter type does not match schema type")
	}
	return nil
}

// keyTests flattens the condition into single tests.
func keyTests(c condition, tests []keyTest) ([]keyTest, error) {
	refuse := func(operator string) ([]keyTest, error) {
		return nil, invalid(keyLabel+"Invalid operator used in KeyConditionExpression: %s", operator)
	}
	switch c := c.(type) {
	case both:
		tests, err := keyTests(c.a, tests)
		if err != nil {
			return nil, err
		}
		return keyTests(c.b, tests)
	case comparison:
		if c.operator == "<>" {
			return refuse(c.operator)
		}
		left, right, operator := c.left, c.right, c.operator
		if _, flipped := left.(literal); flipped {
			left, right, operator = right, left, mirrored[operator]
		}
		return oneTest(tests, operator, left, right, nil)
	case between:
		return oneTest(tests, "BETWEEN", c.x, c.low, c.high)
	case beginsWith:
		return oneTest(tests, "begins_with", c.x, c.prefix, nil)
	case either:
		return refuse("OR")
	case negated:
		return refuse("NOT")
	case membership:
		return refuse("IN")
	case exists:
		if c.want {
			return refuse("attribute_exists")
		}
		return refuse("attribute_not_exists")
	case typeIs:
		return refuse("attribute_type")
	case contains:
		return refuse("contains")
	}
	return refuse("size")
}

// mirrored is the operator with its operands exchanged.
var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

func oneTest(tests []keyTest, operator string, x, low, high operand) ([]keyTest, error) {
	where, ok := x.(path)
	if !ok {
		if _, size := x.(sizeOf); size {
			return nil, invalid(keyLabel + "Invalid operator used in KeyConditionExpression: size")
		}
		return nil, invalid(keyLabel + "Invalid condition in KeyConditionExpression: No key attribute specified")
	}
	if len(where) > 1 {
		return nil, invalid(keyLabel + "KeyConditionExpressions cannot have conditions on nested attributes")
	}
	test := keyTest{where[0].name, sortTest{operator: operator}}
	for _, bound := range []struct {
		from operand
		to   *Value
	}{{low, &test.low}, {high, &test.high}} {
		if bound.from == nil {
			continue
		}
		l, ok := bound.from.(literal)
		if !ok {
			return nil, invalid(keyLabel + "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
		}
		*bound.to = l.v
	}
	return append(tests, test), nil
}

// span is the range of row keys.
func (k keyRange) span(keys schema) span {
	partition := keys.partition(k.hash)
	all := prefixed(string(partition))
	with := func(v Value) string { return string(appendKey(append([]byte(nil), partition...), v)) }
	switch k.sort.operator {
	case "=":
		return prefixed(with(k.sort.low))
	case "<":
		return span{all.low, with(k.sort.low)}
	case "<=":
		return span{all.low, successor(with(k.sort.low))}
	case ">":
		return span{successor(with(k.sort.low)), all.high}
	case ">=":
		return span{with(k.sort.low), all.high}
	case "BETWEEN":
		return span{with(k.sort.low), successor(with(k.sort.high))}
	case "begins_with":
		prefix := ""
		switch v := k.sort.low.(type) {
		case stringValue:
			prefix = string(v)
		case binaryValue:
			prefix = string(v)
		}
		return prefixed(string(appendOpen(append([]byte(nil), partition...), prefix)))
	}
	return all
}
