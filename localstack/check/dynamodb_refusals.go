package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
)

// refusalRows ask for what the real service refuses with a ValidationException.
func refusalRows(t *testing.T, h Harness, db tableBench) {
	puts := []struct {
		name string
		item record
	}{
		{"refuses an item without its key", record{"pk": "a"}},
		{"refuses a key of the wrong type", record{"pk": 1, "sk": 1}},
		{"refuses an empty key", record{"pk": "", "sk": 1}},
		{"refuses a key over 2,048 bytes", record{"pk": strings.Repeat("k", 2049), "sk": 1}},
		{"refuses an empty index key", record{"pk": "a", "sk": 1, "gk": ""}},
		{"refuses a NULL index key", record{"pk": "a", "sk": 1, "gk": nil}},
		{"refuses an index key of the wrong type", record{"pk": "a", "sk": 1, "gk": 42}},
		{"refuses a number of 39 digits", record{"pk": "a", "sk": 1, "v": num(strings.Repeat("1", 39))}},
		{"refuses a number that is too large", record{"pk": "a", "sk": 1, "v": num("1E126")}},
		{"refuses a number that is too small", record{"pk": "a", "sk": 1, "v": num("-1E-131")}},
		{"refuses a number that is none", record{"pk": "a", "sk": 1, "v": num("1x")}},
		{"refuses an empty number", record{"pk": "a", "sk": 1, "v": num("")}},
		{"refuses NaN and Infinity", record{"pk": "a", "sk": 1, "v": num("NaN")}},
		{"refuses an item over 409,600 bytes", record{"pk": "a", "sk": 1, "body": strings.Repeat("b", 409_600-10)}},
		{"refuses an item over 409,600 bytes counted in bytes", record{"pk": "a", "sk": 1, "body": strings.Repeat("世", 140_000)}},
		{"refuses an item that its names make too large", record{"pk": "a", "sk": 1, strings.Repeat("n", 60_000): strings.Repeat("b", 350_000)}},
		{"refuses attributes nested deeper than 32", record{"pk": "a", "sk": 1, "v": nested(33)}},
		{"refuses an empty set", record{"pk": "a", "sk": 1, "v": texts{}}},
		{"refuses a set with repeats", record{"pk": "a", "sk": 1, "v": nums{"1", "1.0"}}},
	}
	for _, c := range puts {
		h.row(t, c.name, func(t *testing.T) {
			table := db.table(t, shape{hash: "pk:S", sort: "sk:N", indexes: []indexShape{{name: "work", hash: "gk:S"}}})
			_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: c.item.item()})
			wantCode(t, err, validationCode)
		})
	}
	h.row(t, "takes what is just inside the limits", func(t *testing.T) {
		table := db.table(t, letters)
		// 2 + 1 and 2 + 2 bytes of keys, 4 of the name.
		db.put(t, table, record{"pk": "a", "sk": 1, "body": strings.Repeat("b", 409_600-11)}, record{"pk": "a", "sk": 2, "v": nested(32)},
			record{"pk": strings.Repeat("k", 2048), "sk": 3}, record{"pk": "a", "sk": 4, "v": num(strings.Repeat("9", 38))})
	})
	updateRefusals(t, h, db)
	keyRefusals(t, h, db)
}

// nested is a text inside so many maps.
func nested(levels int) any {
	var v any = "deep"
	for range levels {
		v = record{"m": v}
	}
	return v
}

func updateRefusals(t *testing.T, h Harness, db tableBench) {
	for _, c := range []struct {
		name, expression, condition string
		names                       map[string]string
		values                      record
	}{
		{name: "refuses an undefined value", expression: "SET v = :absent", values: nil},
		{name: "refuses an unused value", expression: "SET v = :one", values: record{":one": 1, ":spare": 2}},
		{name: "refuses an undefined name", expression: "SET #absent = :one", values: record{":one": 1}},
		{name: "refuses an unused name", expression: "SET v = :one", values: record{":one": 1}, names: map[string]string{"#spare": "x"}},
		{name: "refuses a placeholder that is none", expression: "SET v = :one", values: record{":one": 1}, names: map[string]string{"spare": "x"}},
		{name: "refuses a reserved word", expression: "SET status = :one", values: record{":one": 1}},
		{name: "refuses a reserved word in any case inside a path", expression: "SET v.NaMe = :one", values: record{":one": 1}},
		{name: "refuses a reserved word in a condition", expression: "SET v = :one", condition: "attribute_exists(ttl)", values: record{":one": 1}},
		{name: "refuses overlapping paths", expression: "SET m.x = :one REMOVE m", values: record{":one": 1}},
		{name: "refuses the same path twice", expression: "SET v = :one, v = :one", values: record{":one": 1}},
		{name: "refuses conflicting paths", expression: "SET m.x = :one, m[0] = :one", values: record{":one": 1}},
		{name: "refuses a section twice", expression: "SET v = :one SET w = :one", values: record{":one": 1}},
		{name: "refuses a syntax error", expression: "SET v = = :one", values: record{":one": 1}},
		{name: "refuses an empty expression", expression: " "},
		{name: "refuses an unknown function", expression: "SET v = no_such(:one)", values: record{":one": 1}},
		{name: "refuses a function in the wrong place", expression: "SET v = :one", condition: "list_append(l, :one)", values: record{":one": 1}},
		{name: "refuses a wrong number of operands", expression: "SET v = if_not_exists(v)"},
		{name: "refuses to update the key", expression: "SET sk = :one", values: record{":one": 1}},
		{name: "refuses a wrong literal in a sum", expression: "SET n = n + :text", values: record{":text": "x"}},
		{name: "refuses a stored text in a sum", expression: "SET n = body + :one", values: record{":one": 1}},
		{name: "refuses ADD of a text", expression: "ADD n :text", values: record{":text": "x"}},
		{name: "refuses ADD of a number to a text", expression: "ADD body :one", values: record{":one": 1}},
		{name: "refuses DELETE of a number", expression: "DELETE n :one", values: record{":one": 1}},
		{name: "refuses list_append of a text", expression: "SET l = list_append(l, :text)", values: record{":text": "x"}},
		{name: "refuses a path through what is not there", expression: "SET absent.x = :one", values: record{":one": 1}},
		{name: "refuses a value from what is not there", expression: "SET v = absent"},
		{name: "refuses a comparison with a literal that has no order", expression: "SET v = :one", condition: "n < :yes", values: record{":one": 1, ":yes": true}},
		{name: "refuses begins_with of a number", expression: "SET v = :one", condition: "begins_with(body, :one)", values: record{":one": 1}},
		{name: "refuses an unknown type name", expression: "SET v = :one", condition: "attribute_type(n, :t)", values: record{":one": 1, ":t": "NUMBER"}},
		{name: "refuses BETWEEN with its bounds exchanged", expression: "SET v = :one", condition: "n BETWEEN :two AND :one", values: record{":one": 1, ":two": 2}},
		{name: "refuses a value nested too deeply", expression: "SET v = :deep", values: record{":deep": nested(33)}},
		{name: "refuses an update to an empty index key", expression: "SET gk = :none", values: record{":none": ""}},
		{name: "refuses an update to an index key of the wrong type", expression: "SET gk = :one", values: record{":one": 1}},
		{name: "refuses an update that makes the item too large", expression: "SET body2 = :body", values: record{":body": strings.Repeat("b", 409_590)}},
		{name: "refuses a sum out of range", expression: "SET n = :big + :big", values: record{":big": num("9E125")}},
	} {
		h.row(t, c.name, func(t *testing.T) {
			table := db.table(t, shape{hash: "pk:S", sort: "sk:N", indexes: []indexShape{{name: "work", hash: "gk:S"}}})
			old := record{"pk": "a", "sk": 1, "n": 1, "body": "text", "l": list{1}, "m": record{"x": 1}, "gk": "x"}
			db.put(t, table, old)
			in := update(table, record{"pk": "a", "sk": 1}, c.expression, c.values)
			in.ExpressionAttributeNames = c.names
			if c.condition != "" {
				in.ConditionExpression = &c.condition
			}
			_, err := db.UpdateItem(t.Context(), in)
			wantCode(t, err, validationCode)
			if diff := cmp.Diff(old, db.get(t, table, record{"pk": "a", "sk": 1})); diff != "" {
				t.Errorf("the refused update changed the item (-want +got):\n%s", diff)
			}
		})
	}
}

func keyRefusals(t *testing.T, h Harness, db tableBench) {
	for i, key := range []record{{"pk": "a"}, {"pk": "a", "sk": "1"}, {"pk": "a", "sk": 1, "x": 1}, {"pk": "", "sk": 1}} {
		h.row(t, fmt.Sprintf("refuses a key that is not the table's (%d)", i+1), func(t *testing.T) {
			table := db.table(t, letters)
			_, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key.item()})
			wantCode(t, err, validationCode)
			_, err = db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: key.item()})
			wantCode(t, err, validationCode)
			_, err = db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: &table, Key: key.item()})
			wantCode(t, err, validationCode)
		})
	}
	h.row(t, "refuses values without an expression", func(t *testing.T) {
		table := db.table(t, letters)
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: &table, Item: record{"pk": "a", "sk": 1}.item(), ExpressionAttributeValues: record{":v": 1}.item(),
		})
		wantCode(t, err, validationCode)
		_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: &table, Item: record{"pk": "a", "sk": 1}.item(), ReturnValues: "ALL_NEW",
		})
		wantCode(t, err, validationCode)
	})
	h.row(t, "refuses overlapping projections", func(t *testing.T) {
		table := db.table(t, letters)
		_, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: &table, Key: record{"pk": "a", "sk": 1}.item(), ProjectionExpression: aws.String("m, m.x"),
		})
		wantCode(t, err, validationCode)
	})
}

// numberRows ask for exact decimals.
func numberRows(t *testing.T, h Harness, db tableBench) {
	h.row(t, "numbers are exact and come back in plain notation", func(t *testing.T) {
		table := db.table(t, letters)
		for sent, want := range map[string]string{
			"0.1": "0.1", "1.10": "1.1", "007": "7", "-0": "0", "1e3": "1000", "1.5E-7": "0.00000015", ".5": "0.5",
			"12345678901234567890123456789012345678": "12345678901234567890123456789012345678",
			"9007199254740993":                       "9007199254740993", "1E40": "1" + strings.Repeat("0", 40), "1E-130": "0." + strings.Repeat("0", 129) + "1",
			"-9.9999999999999999999999999999999999999E+125": "-" + strings.Repeat("9", 38) + strings.Repeat("0", 88),
			"0000000000000000000000000000000000000000001":   "1",
		} {
			db.put(t, table, record{"pk": "a", "sk": 1, "v": num(sent)})
			if got := fmt.Sprint(db.get(t, table, record{"pk": "a", "sk": 1})["v"]); got != want {
				t.Errorf("%s came back as %s, want %s", sent, got, want)
			}
		}
	})
	h.row(t, "sums are exact", func(t *testing.T) {
		table := db.table(t, letters)
		for _, c := range [][3]string{
			{"0.1", "0.2", "0.3"},
			{"9007199254740993", "1", "9007199254740994"},
			{"99999999999999999999999999999999999999", "-1", "99999999999999999999999999999999999998"},
			{"1", "-1.0", "0"},
			{"1E-20", "1", "1.00000000000000000001"},
		} {
			db.put(t, table, record{"pk": "a", "sk": 1, "v": num(c[0])})
			if _, err := db.UpdateItem(t.Context(), update(table, record{"pk": "a", "sk": 1}, "ADD v :d", record{":d": num(c[1])})); err != nil {
				t.Errorf("%s + %s: %v", c[0], c[1], err)
			}
			if got := fmt.Sprint(db.get(t, table, record{"pk": "a", "sk": 1})["v"]); got != c[2] {
				t.Errorf("%s + %s is %s, want %s", c[0], c[1], got, c[2])
			}
		}
	})
	h.row(t, "equal numbers are one key", func(t *testing.T) {
		table := db.table(t, letters)
		db.put(t, table, record{"pk": "a", "sk": num("1.0"), "v": 1}, record{"pk": "a", "sk": num("1e0"), "v": 2})
		if diff := cmp.Diff(record{"pk": "a", "sk": 1, "v": 2}, db.get(t, table, record{"pk": "a", "sk": num("1")})); diff != "" {
			t.Errorf("item (-want +got):\n%s", diff)
		}
	})
}
