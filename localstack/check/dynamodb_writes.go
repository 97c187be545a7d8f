package check

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

func writeRows(t *testing.T, h Harness, db tableBench) {
	h.row(t, "every attribute type comes back as it was", func(t *testing.T) {
		table := db.table(t, letters)
		want := record{
			"pk": "a", "sk": 1, "text": "héllo\n\"\\ \x01", "empty": "", "bytes": []byte{0, 255, 10}, "no_bytes": []byte{}, "yes": true, "no": false, "none": nil,
			"list": list{"a", 1, list{}, record{"deep": list{num("1.5")}}}, "map": record{"": "an empty name", "k": record{}},
			"texts": texts{"a", "b"}, "nums": nums{"1", "2.5"},
		}
		delete(want["map"].(record), "")
		db.put(t, table, want)
		if diff := cmp.Diff(want, db.get(t, table, record{"pk": "a", "sk": 1})); diff != "" {
			t.Errorf("item (-want +got):\n%s", diff)
		}
	})
	h.row(t, "a failed condition gives the old item when asked", func(t *testing.T) {
		table := db.table(t, letters)
		old := record{"pk": "a", "sk": 1, "owner": "first"}
		db.put(t, table, old)
		in := &dynamodb.PutItemInput{
			TableName: &table, Item: record{"pk": "a", "sk": 1, "owner": "second"}.item(),
			ConditionExpression: aws.String("attribute_not_exists(pk)"),
		}
		_, err := db.PutItem(t.Context(), in)
		failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
		if !ok || failed.Item != nil {
			t.Fatalf("unasked: got %v", err)
		}
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
		_, err = db.PutItem(t.Context(), in)
		failed, ok = errors.AsType[*types.ConditionalCheckFailedException](err)
		if !ok {
			t.Fatalf("asked: got %v", err)
		}
		if diff := cmp.Diff(old, plainItem(failed.Item)); diff != "" {
			t.Errorf("old item (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(old, db.get(t, table, record{"pk": "a", "sk": 1})); diff != "" {
			t.Errorf("a failed put changed the item (-want +got):\n%s", diff)
		}
	})
	h.row(t, "put and delete return the old item", func(t *testing.T) {
		table := db.table(t, letters)
		first := record{"pk": "a", "sk": 1, "v": 1}
		db.put(t, table, first)
		put, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: record{"pk": "a", "sk": 1, "w": 2}.item(), ReturnValues: "ALL_OLD"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, plainItem(put.Attributes)); diff != "" {
			t.Errorf("put (-want +got):\n%s", diff)
		}
		deleted, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: record{"pk": "a", "sk": 1}.item(), ReturnValues: "ALL_OLD"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record{"pk": "a", "sk": 1, "w": 2}, plainItem(deleted.Attributes)); diff != "" {
			t.Errorf("delete (-want +got):\n%s", diff)
		}
		again, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: record{"pk": "a", "sk": 1}.item(), ReturnValues: "ALL_OLD"})
		if err != nil || again.Attributes != nil {
			t.Errorf("deleting what is not there: %v, %v", again, err)
		}
	})
	for _, c := range updateCases {
		h.row(t, c.name, func(t *testing.T) {
			table := db.table(t, letters)
			key := record{"pk": "a", "sk": 1}
			if c.old != nil {
				db.put(t, table, withKey(c.old))
			}
			if _, err := db.UpdateItem(t.Context(), update(table, key, c.expression, c.values)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(withKey(c.want), db.get(t, table, key)); diff != "" {
				t.Errorf("item (-want +got):\n%s", diff)
			}
		})
	}
	h.row(t, "an update returns what it was asked for", func(t *testing.T) {
		table := db.table(t, letters)
		for _, c := range []struct {
			ask  types.ReturnValue
			want record
		}{
			{"NONE", nil},
			{"ALL_OLD", record{"pk": "a", "sk": 1, "v": 1, "map": record{"x": 1, "y": 2}}},
			{"UPDATED_OLD", record{"v": 1, "map": record{"x": 1}}},
			{"ALL_NEW", record{"pk": "a", "sk": 1, "v": 2, "map": record{"x": 5, "y": 2}}},
			{"UPDATED_NEW", record{"v": 2, "map": record{"x": 5}}},
		} {
			db.put(t, table, record{"pk": "a", "sk": 1, "v": 1, "map": record{"x": 1, "y": 2}})
			in := update(table, record{"pk": "a", "sk": 1}, "SET v = v + :one, #map.x = :five", record{":one": 1, ":five": 5})
			in.ExpressionAttributeNames = map[string]string{"#map": "map"}
			in.ReturnValues = c.ask
			out, err := db.UpdateItem(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, plainItem(out.Attributes)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.ask, diff)
			}
		}
	})
	h.row(t, "consumed capacity counts table and indexes", func(t *testing.T) {
		table := db.table(t, shape{hash: "pk:S", sort: "sk:N", indexes: []indexShape{{name: "work", hash: "gk:S"}}})
		out, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: &table, Item: record{"pk": "a", "sk": 1, "gk": "x", "body": strings.Repeat("b", 2500)}.item(),
			ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
		})
		if err != nil {
			t.Fatal(err)
		}
		c := out.ConsumedCapacity
		if *c.CapacityUnits != 6 || *c.Table.CapacityUnits != 3 || *c.GlobalSecondaryIndexes["work"].CapacityUnits != 3 {
			t.Errorf("put consumed %v, table %v, indexes %v, want 6, 3, 3", *c.CapacityUnits, *c.Table.CapacityUnits, c.GlobalSecondaryIndexes)
		}
		get, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: &table, Key: record{"pk": "a", "sk": 1}.item(), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			t.Fatal(err)
		}
		if *get.ConsumedCapacity.CapacityUnits != 0.5 || get.ConsumedCapacity.Table != nil {
			t.Errorf("get consumed %+v, want 0.5 in total", get.ConsumedCapacity)
		}
	})
}

// withKey is the record with the key that the rows use.
func withKey(r record) record {
	whole := record{"pk": "a", "sk": 1}
	maps.Copy(whole, r)
	return whole
}

var updateCases = []struct {
	name       string
	old        record
	expression string
	values     record
	want       record
}{
	{"an update creates the item", nil, "SET v = :v", record{":v": "x"}, record{"v": "x"}},
	{
		"SET reaches nested paths",
		record{"m": record{"l": list{1, record{"x": 1}}}},
		"SET m.l[1].x = :v, m.fresh = :w, m.l[9] = :v",
		record{":v": 2, ":w": "new"},
		record{"m": record{"l": list{1, record{"x": 2}, 2}, "fresh": "new"}},
	},
	{
		"REMOVE reaches nested paths and keeps the old indexes",
		record{"m": record{"l": list{0, 1, 2, 3}, "x": 1}, "y": 1},
		"REMOVE m.l[0], m.l[2], m.x, y, absent", nil,
		record{"m": record{"l": list{1, 3}}},
	},
	{
		"ADD sums numbers and unites sets",
		record{"n": 5, "s": texts{"a"}, "ns": nums{"1"}},
		"ADD n :n, s :s, ns :ns, fresh :n, fresh_set :s",
		record{":n": -7, ":s": texts{"a", "b"}, ":ns": nums{"2"}},
		record{"n": -2, "s": texts{"a", "b"}, "ns": nums{"1", "2"}, "fresh": -7, "fresh_set": texts{"a", "b"}},
	},
	{
		"DELETE takes elements and drops an empty set",
		record{"s": texts{"a", "b", "c"}, "gone": texts{"a"}},
		"DELETE s :s, gone :s, absent :s",
		record{":s": texts{"a", "c", "x"}},
		record{"s": texts{"b"}},
	},
	{
		"right-hand sides see the old item",
		record{"a1": 1, "b1": 2},
		"SET a1 = b1, b1 = a1, sum1 = a1 + b1 REMOVE absent", nil,
		record{"a1": 2, "b1": 1, "sum1": 3},
	},
	{
		"if_not_exists and list_append",
		record{"l": list{1}, "kept": "old"},
		"SET l = list_append(l, :two), kept = if_not_exists(kept, :x), fresh = if_not_exists(fresh, :x), n = if_not_exists(n, :zero) + :one, ll = list_append(if_not_exists(ll, :none), :two)",
		record{":two": list{2}, ":x": "new", ":zero": 0, ":one": 1, ":none": list{}},
		record{"l": list{1, 2}, "kept": "old", "fresh": "new", "n": 1, "ll": list{2}},
	},
	{
		"all four sections in any order and case",
		record{"r": 1, "d": texts{"x", "y"}},
		"delete d :x remove r set s1 = :v add n :one",
		record{":x": texts{"x"}, ":v": "v", ":one": 1},
		record{"d": texts{"y"}, "s1": "v", "n": 1},
	},
}
