package check

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

func putAction(table string, item record, condition string) types.TransactWriteItem {
	p := &types.Put{TableName: &table, Item: item.item(), ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	if condition != "" {
		p.ConditionExpression = &condition
	}
	return types.TransactWriteItem{Put: p}
}

func updateAction(table string, key record, expression string, values record) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &table, Key: key.item(), UpdateExpression: &expression, ExpressionAttributeValues: values.item(),
	}}
}

func (db tableBench) transact(t *testing.T, token string, actions ...types.TransactWriteItem) error {
	t.Helper()
	in := &dynamodb.TransactWriteItemsInput{TransactItems: actions}
	if token != "" {
		in.ClientRequestToken = &token
	}
	_, err := db.TransactWriteItems(t.Context(), in)
	return err
}

func transactionRows(t *testing.T, h Harness, db tableBench) {
	h.row(t, "a transaction writes in two tables", func(t *testing.T) {
		one, two := db.table(t, letters), db.table(t, shape{hash: "id:S"})
		db.put(t, one, record{"pk": "old", "sk": 1}, record{"pk": "c", "sk": 1, "n": 1})
		err := db.transact(t, "",
			putAction(one, record{"pk": "a", "sk": 1}, "attribute_not_exists(pk)"),
			updateAction(one, record{"pk": "c", "sk": 1}, "ADD n :one", record{":one": 1}),
			types.TransactWriteItem{Delete: &types.Delete{TableName: &one, Key: record{"pk": "old", "sk": 1}.item()}},
			types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
				TableName: &two, Key: record{"id": "guard"}.item(), ConditionExpression: aws.String("attribute_not_exists(id)"),
			}},
			putAction(two, record{"id": "x"}, ""))
		if err != nil {
			t.Fatal(err)
		}
		out, err := db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: &one, Key: record{"pk": "c", "sk": 1}.item()}},
			{Get: &types.Get{TableName: &one, Key: record{"pk": "old", "sk": 1}.item()}},
			{Get: &types.Get{TableName: &two, Key: record{"id": "x"}.item()}},
			{Get: &types.Get{TableName: &two, Key: record{"id": "guard"}.item()}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var got []record
		for _, r := range out.Responses {
			got = append(got, plainItem(r.Item))
		}
		if diff := cmp.Diff([]record{{"pk": "c", "sk": 1, "n": 2}, nil, {"id": "x"}, nil}, got); diff != "" {
			t.Errorf("items (-want +got):\n%s", diff)
		}
	})
	h.row(t, "a cancelled transaction gives reasons in order and writes nothing", func(t *testing.T) {
		table := db.table(t, letters)
		old := record{"pk": "b", "sk": 1, "body": "text"}
		db.put(t, table, old)
		err := db.transact(t, "",
			putAction(table, record{"pk": "a", "sk": 1}, ""),
			putAction(table, record{"pk": "b", "sk": 1}, "attribute_not_exists(pk)"),
			updateAction(table, record{"pk": "c", "sk": 1}, "SET v = :one", record{":one": 1}))
		cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		var codes []string
		for _, r := range cancelled.CancellationReasons {
			codes = append(codes, aws.ToString(r.Code))
		}
		if diff := cmp.Diff([]string{"None", "ConditionalCheckFailed", "None"}, codes); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(old, plainItem(cancelled.CancellationReasons[1].Item)); diff != "" {
			t.Errorf("old item (-want +got):\n%s", diff)
		}
		for _, pk := range []string{"a", "c"} {
			if got := db.get(t, table, record{"pk": pk, "sk": 1}); got != nil {
				t.Errorf("the cancelled transaction wrote %v", got)
			}
		}
	})
	h.row(t, "a fault in stored data cancels", func(t *testing.T) {
		table := db.table(t, letters)
		db.put(t, table, record{"pk": "b", "sk": 1, "body": "text"})
		err := db.transact(t, "", updateAction(table, record{"pk": "b", "sk": 1}, "SET body = body + :one", record{":one": 1}))
		cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
		if !ok || aws.ToString(cancelled.CancellationReasons[0].Code) != "ValidationError" {
			t.Errorf("got %v", err)
		}
	})
	h.row(t, "a token makes a repeat harmless", func(t *testing.T) {
		table := db.table(t, letters)
		action := updateAction(table, record{"pk": "a", "sk": 1}, "ADD n :one", record{":one": 1})
		for range 3 {
			if err := db.transact(t, "token-1-"+table, action); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(record{"pk": "a", "sk": 1, "n": 1}, db.get(t, table, record{"pk": "a", "sk": 1})); diff != "" {
			t.Errorf("after three sends (-want +got):\n%s", diff)
		}
		other := updateAction(table, record{"pk": "a", "sk": 1}, "ADD n :one", record{":one": 2})
		wantCode(t, db.transact(t, "token-1-"+table, other), "IdempotentParameterMismatchException")
	})
	h.row(t, "refuses a transaction that names an item twice", func(t *testing.T) {
		table := db.table(t, letters)
		err := db.transact(t, "", putAction(table, record{"pk": "a", "sk": 1}, ""), updateAction(table, record{"pk": "a", "sk": 1}, "ADD n :one", record{":one": 1}))
		wantCode(t, err, validationCode)
	})
}

// parallelRows ask for what only shows when many write at once.
func parallelRows(t *testing.T, h Harness, db tableBench) {
	const writers = 16
	each := func(f func(i int)) {
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() { f(i) })
		}
		all.Wait()
	}
	h.row(t, "of parallel conditional puts one wins", func(t *testing.T) {
		table := db.table(t, letters)
		for round := range 10 {
			var won atomic.Int32
			each(func(i int) {
				_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{
					TableName: &table, Item: record{"pk": "a", "sk": round, "writer": i}.item(), ConditionExpression: aws.String("attribute_not_exists(pk)"),
				})
				switch {
				case err == nil:
					won.Add(1)
				case code(err) != conditionCode:
					t.Error(err)
				}
			})
			if won.Load() != 1 {
				t.Errorf("round %d: %d winners", round, won.Load())
			}
		}
	})
	h.row(t, "parallel ADD loses nothing", func(t *testing.T) {
		table := db.table(t, letters)
		each(func(i int) {
			for range 10 {
				_, err := db.UpdateItem(t.Context(), update(table, record{"pk": "a", "sk": 1}, "ADD n :one, writers :me", record{":one": 1, ":me": nums{strconv.Itoa(i)}}))
				if err != nil {
					t.Error(err)
				}
			}
		})
		got := db.get(t, table, record{"pk": "a", "sk": 1})
		if writersSeen, _ := got["writers"].(nums); got["n"] != 10*writers || len(writersSeen) != writers {
			t.Errorf("got %v, want %d from %d writers", got, 10*writers, writers)
		}
	})
	h.row(t, "parallel transactions lose nothing", func(t *testing.T) {
		one, two := db.table(t, letters), db.table(t, letters)
		each(func(i int) {
			a, b := one, two
			if i%2 == 1 {
				a, b = b, a
			}
			for range 5 {
				for {
					err := db.transact(t, "", updateAction(a, record{"pk": "x", "sk": 1}, "ADD n :one", record{":one": 1}),
						updateAction(b, record{"pk": "x", "sk": 1}, "ADD n :one", record{":one": 1}))
					if err == nil {
						break
					}
					if code(err) != "TransactionCanceledException" { // a conflict: once more
						t.Error(err)
						return
					}
				}
			}
		})
		for _, table := range []string{one, two} {
			if diff := cmp.Diff(record{"pk": "x", "sk": 1, "n": 5 * writers}, db.get(t, table, record{"pk": "x", "sk": 1})); diff != "" {
				t.Errorf("counter (-want +got):\n%s", diff)
			}
		}
	})
}
