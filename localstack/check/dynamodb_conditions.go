package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
)

// conditionRows ask the condition operators, each on values of the wrong type
// too: a mismatch makes a condition false, not an error.
func conditionRows(t *testing.T, h Harness, db tableBench) {
	item := record{
		"pk": "a", "sk": 1, "msg": "hello", "n": 7, "yes": true, "nought": nil, "l": list{1, "two", list{3}}, "m": record{"x": record{"y": 1}},
		"texts": texts{"a", "b"}, "nums": nums{"1", "2"}, "octets": []byte("bytes"),
	}
	values := record{
		":hello": "hello", ":he": "he", ":zz": "zz", ":seven": 7, ":seven0": num("7.00"), ":one": 1, ":ten": 10, ":two": "two", ":yes": true,
		":none": nil, ":l": list{1, "two", list{3}}, ":m": record{"x": record{"y": 1}}, ":texts": texts{"b", "a"}, ":S": "S", ":N": "N", ":a": "a",
		":raw": []byte("bytes"), ":by": []byte("by"), ":five": 5, ":three": 3, ":empty": "",
	}
	for _, c := range []struct {
		name        string
		true, false []string
	}{
		{
			"comparisons hold for one type only",
			[]string{
				"msg = :hello", "n = :seven0", "n <> :hello", "absent <> :hello", "n < :ten", "n <= :seven", "n > :one", "n >= :seven", "msg > :he",
				"yes = :yes", "nought = :none", "l = :l", "m = :m", "texts = :texts", "octets = :raw", "octets > :by", "absent <> absent2", ":one < n",
			},
			[]string{
				"msg = :seven", "absent = :hello", "absent = absent2", "msg < :seven", "n > :hello", "yes > :one", "absent < :one", "l = :texts", "nought = :one",
				"n <> :seven0", "msg <> :hello",
			},
		},
		{
			"BETWEEN and IN",
			[]string{"n BETWEEN :one AND :ten", "n between :seven and :seven0", "msg IN (:zz, :hello)", "n IN (:hello, :seven)", "yes IN (:yes)"},
			[]string{"msg BETWEEN :one AND :ten", "absent BETWEEN :one AND :ten", "n IN (:hello, :one)", "absent IN (:hello)", "n BETWEEN :one AND :five"},
		},
		{
			"functions on paths of every type",
			[]string{
				"attribute_exists(m.x.y)", "attribute_not_exists(m.x.z)", "attribute_not_exists(l[3])", "attribute_exists(nought)", "attribute_type(msg, :S)",
				"begins_with(msg, :he)", "begins_with(octets, :by)", "contains(msg, :he)", "contains(l, :two)", "contains(texts, :a)", "contains(nums, :one)",
				"begins_with(msg, :empty)",
			},
			[]string{
				"attribute_exists(msg.x)", "attribute_exists(l.x)", "attribute_exists(m[0])", "attribute_type(n, :S)", "attribute_type(absent, :S)",
				"begins_with(n, :he)", "begins_with(msg, :by)", "contains(n, :one)", "contains(texts, :one)", "contains(nums, :a)", "contains(absent, :a)",
			},
		},
		{
			"size of what has a size",
			[]string{"size(msg) = :five", "size(l) = :three", "size(m) = :one", "size(texts) < :three", "size(octets) >= :five", ":five = size(msg)"},
			[]string{"size(n) > :one", "size(yes) > :one", "size(absent) < :ten", "size(nought) < :ten"},
		},
		{
			"NOT binds before AND, AND before OR",
			[]string{
				"msg = :zz AND n = :one OR n = :seven", "NOT msg = :zz AND n = :seven", "n = :seven OR msg = :zz AND n = :one", "NOT (msg = :zz OR n = :one)",
				"(n = :one OR n = :seven) AND (msg = :hello)",
			},
			[]string{"NOT msg = :hello OR n = :one", "(n = :seven OR msg = :zz) AND n = :one", "NOT (n = :seven)"},
		},
	} {
		h.row(t, c.name, func(t *testing.T) {
			table := db.table(t, letters)
			db.put(t, table, item)
			for _, expression := range slices.Concat(c.true, c.false) {
				_, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
					TableName: &table, Key: record{"pk": "a", "sk": 1}.item(), ConditionExpression: &expression, ExpressionAttributeValues: mentioned(expression, values).item(),
				})
				switch holds := slices.Contains(c.true, expression); {
				case holds && err != nil:
					t.Errorf("%s: got %v, want it to hold", expression, err)
				case !holds && code(err) != conditionCode:
					t.Errorf("%s: got %v, want a failed condition", expression, err)
				}
				db.put(t, table, item)
			}
		})
	}
	h.row(t, "a condition on an item that is not there", func(t *testing.T) {
		table := db.table(t, letters)
		in := update(table, record{"pk": "a", "sk": 1}, "SET v = :one", record{":one": 1})
		in.ConditionExpression = aws.String("attribute_exists(pk)")
		_, err := db.UpdateItem(t.Context(), in)
		wantCode(t, err, conditionCode)
		if diff := cmp.Diff(record(nil), db.get(t, table, record{"pk": "a", "sk": 1})); diff != "" {
			t.Errorf("the refused update left something (-want +got):\n%s", diff)
		}
	})
}

// mentioned are the values whose placeholders the expression uses: the service
// refuses the others.
func mentioned(expression string, all record) record {
	words := strings.FieldsFunc(expression, func(r rune) bool { return strings.ContainsRune(" (),", r) })
	some := record{}
	for name, v := range all {
		if slices.Contains(words, name) {
			some[name] = v
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some
}
