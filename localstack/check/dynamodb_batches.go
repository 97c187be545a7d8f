package check

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

func puts(items ...record) []types.WriteRequest {
	var all []types.WriteRequest
	for _, item := range items {
		all = append(all, types.WriteRequest{PutRequest: &types.PutRequest{Item: item.item()}})
	}
	return all
}

func deletes(keys ...record) []types.WriteRequest {
	var all []types.WriteRequest
	for _, key := range keys {
		all = append(all, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key.item()}})
	}
	return all
}

func keys(all ...record) types.KeysAndAttributes {
	var k types.KeysAndAttributes
	for _, key := range all {
		k.Keys = append(k.Keys, key.item())
	}
	return k
}

func (db tableBench) batch(t *testing.T, requests map[string][]types.WriteRequest) error {
	t.Helper()
	out, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: requests})
	if err == nil && len(out.UnprocessedItems) > 0 {
		t.Errorf("unprocessed: %v", out.UnprocessedItems)
	}
	return err
}

func batchRows(t *testing.T, h Harness, db tableBench) {
	h.row(t, "a batch writes and deletes in two tables", func(t *testing.T) {
		one, two := db.table(t, letters), db.table(t, shape{hash: "id:S"})
		db.put(t, one, record{"pk": "old", "sk": 1})
		err := db.batch(t, map[string][]types.WriteRequest{
			one: append(puts(record{"pk": "a", "sk": 1}, record{"pk": "a", "sk": 2}), deletes(record{"pk": "old", "sk": 1}, record{"pk": "never", "sk": 1})...),
			two: puts(record{"id": "x", "v": 1}),
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			one: keys(record{"pk": "a", "sk": 1}, record{"pk": "a", "sk": 2}, record{"pk": "old", "sk": 1}), two: keys(record{"id": "x"}),
		}})
		if err != nil {
			t.Fatal(err)
		}
		got := sortKeys(out.Responses[one])
		slices.SortFunc(got, func(a, b any) int { return a.(int) - b.(int) })
		if diff := cmp.Diff([]any{1, 2}, got); diff != "" {
			t.Errorf("first table (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]record{{"id": "x", "v": 1}}, plainItems(out.Responses[two])); diff != "" {
			t.Errorf("second table (-want +got):\n%s", diff)
		}
	})
	h.row(t, "refuses repeated keys in a batch", func(t *testing.T) {
		table := db.table(t, letters)
		err := db.batch(t, map[string][]types.WriteRequest{table: append(puts(record{"pk": "a", "sk": 1}), deletes(record{"pk": "a", "sk": num("1.0")})...)})
		wantCode(t, err, validationCode)
		_, err = db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			table: keys(record{"pk": "a", "sk": 1}, record{"pk": "a", "sk": 1}),
		}})
		wantCode(t, err, validationCode)
		if got := db.get(t, table, record{"pk": "a", "sk": 1}); got != nil {
			t.Errorf("the refused batch wrote %v", got)
		}
	})
	h.row(t, "refuses 26 writes and 101 reads", func(t *testing.T) {
		table := db.table(t, letters)
		var many []record
		for i := range 101 {
			many = append(many, record{"pk": "a", "sk": i})
		}
		wantCode(t, db.batch(t, map[string][]types.WriteRequest{table: puts(many[:26]...)}), validationCode)
		_, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: keys(many...)}})
		wantCode(t, err, validationCode)
		if err := db.batch(t, map[string][]types.WriteRequest{table: puts(many[:25]...)}); err != nil {
			t.Errorf("25 writes: %v", err)
		}
	})
	h.row(t, "one bad entry refuses the whole batch", func(t *testing.T) {
		table := db.table(t, letters)
		wantCode(t, db.batch(t, map[string][]types.WriteRequest{table: puts(record{"pk": "a", "sk": 1}, record{"pk": "b"})}), validationCode)
		wantCode(t, db.batch(t, map[string][]types.WriteRequest{table: {}}), validationCode)
		wantCode(t, db.batch(t, map[string][]types.WriteRequest{}), validationCode)
		if got := db.get(t, table, record{"pk": "a", "sk": 1}); got != nil {
			t.Errorf("the refused batch wrote %v", got)
		}
	})
	h.row(t, "a batch of reads over 16 MB leaves the rest unprocessed", func(t *testing.T) {
		table := db.table(t, letters)
		want := types.KeysAndAttributes{}
		for i := range 45 {
			db.put(t, table, record{"pk": strconv.Itoa(i), "sk": i, "body": strings.Repeat("b", 400_000)})
			want.Keys = append(want.Keys, record{"pk": strconv.Itoa(i), "sk": i}.item())
		}
		seen := map[any]int{}
		ask := map[string]types.KeysAndAttributes{table: want}
		rounds := 0
		for ; len(ask) > 0 && rounds < 5; rounds++ {
			out, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: ask})
			if err != nil {
				t.Fatal(err)
			}
			for _, sk := range sortKeys(out.Responses[table]) {
				seen[sk]++
			}
			ask = out.UnprocessedKeys
		}
		if len(seen) != 45 || rounds != 2 {
			t.Errorf("%d items in %d rounds, want 45 in 2", len(seen), rounds)
		}
	})
}
