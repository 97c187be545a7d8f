package dynamodb

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// readItem reads an item from its JSON.
func readItem(t testing.TB, text string) Item {
	t.Helper()
	item, err := (&reader{data: []byte(text)}).item()
	if err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	return item
}

const (
	sampleItem = `{"pk":{"S":"a"},"n":{"N":"7"},"t":{"S":"text"},"l":{"L":[{"N":"1"},{"M":{"x":{"N":"2"}}}]},
		"m":{"M":{"x":{"N":"1"},"y":{"L":[]}}},"ss":{"SS":["a","b"]},"ns":{"NS":["1","2"]},"b":{"B":"AAE="},"no":{"BOOL":false},"nil":{"NULL":true}}`
	sampleValues = `{":n":{"N":"1"},":s":{"S":"te"},":l":{"L":[{"N":"9"}]},":ss":{"SS":["b","c"]},":ns":{"NS":["2"]},":m":{"M":{"x":{"N":"1"}}},":b":{"B":"AA=="},":t":{"BOOL":true}}`
)

var sampleNames = map[string]string{"#n": "n", "#l": "l", "#m": "m", "#new": "new"}

// FuzzExpression feeds any text to every rule of the expression language: a
// text is refused with a ValidationException or works on an item without
// changing it, and never takes the service down.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		"SET n = n + :n, m.x = if_not_exists(m.q, :s), l[1].x = list_append(:l, l) REMOVE t, l[0] ADD ns :ns DELETE ss :ss",
		"n = :n AND NOT (t <> :s OR size(l) > :n) AND m.y[0] IN (:s, n)", "n BETWEEN :n AND :n", "attribute_type(#l, :s)", "contains(t, :s)",
		"begins_with(t, :s) or attribute_exists(l[1].x)", "n, m.x, l[0], l[1].x", "((n = :n))", "SET #new = #n", "a.b.c[0][1]", "SET", "l[99999999999999999999]",
		"pk = :s AND n < :n", "SET m = m REMOVE m.x", "((((((((((", "NOT NOT NOT n = :n", "\x00\xff", "SET n = :n SET n = :n", "size(size(n)) = :n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		item := readItem(t, sampleItem)
		bind := func() *bindings {
			b, err := newBindings(sampleNames, readValues(t, sampleValues), true, "")
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		check := func(err error) {
			if _, ok := errors.AsType[*wire.Error](err); err != nil && !ok {
				t.Errorf("%q: an error that is no refusal: %v", text, err)
			}
		}
		c, _, err := parseCondition("ConditionExpression", text, bind())
		if check(err); err == nil {
			c.holds(item)
			c.holds(nil)
			_, err := keyRangeOf(c, schema{keyPart{"pk", "S"}, keyPart{"n", "N"}})
			check(err)
		}
		p, err := parseProjection(text, bind())
		if check(err); err == nil {
			p.of(item)
		}
		u, err := parseUpdate(text, bind())
		if check(err); err != nil {
			return
		}
		fresh, err := u.apply(item)
		if check(err); err == nil {
			if again := readItem(t, string(appendItem(nil, fresh))); !equalItems(again, fresh) {
				t.Errorf("%q: %v does not come back from its JSON", text, fresh)
			}
		}
		if diff := cmp.Diff(sampleJSON(t), string(appendItem(nil, item))); diff != "" {
			t.Errorf("%q changed the old item (-want +got):\n%s", text, diff)
		}
	})
}

func sampleJSON(t testing.TB) string { return string(appendItem(nil, readItem(t, sampleItem))) }

// readValues reads placeholders.
func readValues(t testing.TB, text string) Item {
	t.Helper()
	values, err := (&reader{data: []byte(text)}).placeholders()
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestRefusalsAreWordedAsTheService pins the wording of the refusals that a
// person is likely to search for.
func TestRefusalsAreWordedAsTheService(t *testing.T) {
	s := newLetters(t)
	must(t, s, "PutItem", `{"TableName":"letters","Item":{"pk":{"S":"a"},"sk":{"N":"1"},"t":{"S":"x"},"gk":{"S":"w"}}}`)
	key := `"TableName":"letters","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}`
	one := `,"ExpressionAttributeValues":{":v":{"N":"1"}}`
	for _, c := range []struct{ operation, body, want string }{
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET status = :v"` + one + `}`, "Invalid UpdateExpression: Attribute name is a reserved keyword; reserved keyword: status"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = :x"` + one + `}`, "Invalid UpdateExpression: An expression attribute value used in expression is not defined; attribute value: :x"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET #a = :v"` + one + `}`, "Invalid UpdateExpression: An expression attribute name used in the document path is not defined; attribute name: #a"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"REMOVE a"` + one + `}`, "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = :v, a.b[1] = :v"` + one + `}`, "Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a, b, [1]]"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = = :v"` + one + `}`, `Invalid UpdateExpression: Syntax error; token: "=", near: "= = :v"`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET sk = :v"` + one + `}`, "One or more parameter values were invalid: Cannot update attribute sk. This attribute is part of the key"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET t = t + :v"` + one + `}`, "An operand in the update expression has an incorrect data type"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = b"}`, "The provided expression refers to an attribute that does not exist in the item"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a.b = :v"` + one + `}`, "The document path provided in the update expression is invalid for update"},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = :v","ExpressionAttributeValues":{":v":{"N":"1x"}}}`, "ExpressionAttributeValues contains invalid value: The parameter cannot be converted to a numeric value: 1x for key :v"},
		{"UpdateItem", `{` + key + `,"AttributeUpdates":{}}`, "The local cloud does not serve the legacy parameter AttributeUpdates; it has expressions"},
		{"PutItem", `{"TableName":"letters","Item":{"pk":{"S":"a"}}}`, "One or more parameter values were invalid: Missing the key sk in the item"},
		{"PutItem", `{"TableName":"letters","Item":{"pk":{"N":"1"},"sk":{"N":"1"}}}`, "One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N"},
		{"PutItem", `{"TableName":"letters","Item":{"pk":{"S":""},"sk":{"N":"1"}}}`, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
		{"PutItem", `{"TableName":"letters","Item":{"pk":{"S":"b"},"sk":{"N":"1"},"gk":{"N":"42"}}}`, "One or more parameter values were invalid: Type mismatch for Index Key gk Expected: S Actual: N IndexName: work"},
		{"PutItem", `{"TableName":"letters","Item":{"pk":{"S":"b"},"sk":{"N":"1"},"v":{}}}`, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"},
		{"GetItem", `{"TableName":"letters","Key":{"pk":{"S":"a"}}}`, "The provided key element does not match the schema"},
		{"GetItem", `{"TableName":"no-such","Key":{"pk":{"S":"a"}}}`, "Requested resource not found"},
		{"Query", `{"TableName":"letters","KeyConditionExpression":"sk = :v"` + one + `}`, "Query condition missed key schema element: pk"},
		{"Query", `{"TableName":"letters","KeyConditionExpression":"pk > :v"` + one + `}`, "Query key condition not supported"},
		{"Query", `{"TableName":"letters","IndexName":"no","KeyConditionExpression":"pk = :v"` + one + `}`, "The table does not have the specified index: no"},
		{"Query", `{"TableName":"letters","KeyConditionExpression":"pk = :v OR sk = :v"` + one + `}`, "Invalid KeyConditionExpression: Invalid operator used in KeyConditionExpression: OR"},
		{"Scan", `{"TableName":"letters","FilterExpression":"((t = :v))"` + one + `}`, "Invalid FilterExpression: The expression has redundant parentheses;"},
		{"ExecuteStatement", `{}`, "The local cloud does not serve the operation ExecuteStatement"},
	} {
		if got := refused(t, s, c.operation, c.body); got != c.want {
			t.Errorf("%s %s\n got %s\nwant %s", c.operation, c.body, got, c.want)
		}
	}
}

func TestReservedWordsAreComplete(t *testing.T) {
	if len(reservedWords) != 573 {
		t.Errorf("%d reserved words, the service has 573", len(reservedWords))
	}
	for _, word := range []string{"status", "Name", "TTL", "zone", "abort", "size"} {
		if !reserved(word) {
			t.Errorf("%s is not taken for reserved", word)
		}
	}
}
