package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// DynamoDB runs the rows for tables and items. Each row makes tables of its
// own, so that a shared endpoint can be examined and rows can be read alone.
//
// Of the rows that the local cloud must pass one day, none is absent. Streams,
// PartiQL, import and export have no rows: the local cloud refuses them.
func DynamoDB(t *testing.T, h Harness) {
	db := tableBench{dynamodb.NewFromConfig(h.Config)}
	tableRows(t, h, db)
	writeRows(t, h, db)
	conditionRows(t, h, db)
	refusalRows(t, h, db)
	numberRows(t, h, db)
	queryRows(t, h, db)
	indexRows(t, h, db)
	batchRows(t, h, db)
	transactionRows(t, h, db)
	parallelRows(t, h, db)
}

// tableBench is the client under which the rows work.
type tableBench struct{ *dynamodb.Client }

// record is an item in plain Go: string, int, num, []byte, bool, nil, list,
// record, texts and nums stand for the attribute types.
type (
	record map[string]any
	list   []any
	num    string   // a number with its exact digits
	texts  []string // a set
	nums   []string // a set
)

func value(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return &types.AttributeValueMemberS{Value: v}
	case int:
		return &types.AttributeValueMemberN{Value: strconv.Itoa(v)}
	case num:
		return &types.AttributeValueMemberN{Value: string(v)}
	case []byte:
		return &types.AttributeValueMemberB{Value: v}
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case nil:
		return &types.AttributeValueMemberNULL{Value: true}
	case list:
		all := make([]types.AttributeValue, len(v))
		for i, e := range v {
			all[i] = value(e)
		}
		return &types.AttributeValueMemberL{Value: all}
	case record:
		return &types.AttributeValueMemberM{Value: v.item()}
	case texts:
		return &types.AttributeValueMemberSS{Value: v}
	case nums:
		return &types.AttributeValueMemberNS{Value: v}
	}
	panic(fmt.Sprintf("no attribute type for %T", v))
}

func (r record) item() map[string]types.AttributeValue {
	if r == nil {
		return nil
	}
	item := make(map[string]types.AttributeValue, len(r))
	for name, v := range r {
		item[name] = value(v)
	}
	return item
}

// plain is the way back. Numbers that fit are int; sets come sorted.
func plain(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		if n, err := strconv.Atoi(v.Value); err == nil && strconv.Itoa(n) == v.Value {
			return n
		}
		return num(v.Value)
	case *types.AttributeValueMemberB:
		return v.Value
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberNULL:
		return nil
	case *types.AttributeValueMemberL:
		all := make(list, len(v.Value))
		for i, e := range v.Value {
			all[i] = plain(e)
		}
		return all
	case *types.AttributeValueMemberM:
		return plainItem(v.Value)
	case *types.AttributeValueMemberSS:
		return texts(slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberNS:
		return nums(slices.Sorted(slices.Values(v.Value)))
	}
	return fmt.Sprintf("%T", v)
}

func plainItem(item map[string]types.AttributeValue) record {
	if item == nil {
		return nil
	}
	r := record{}
	for name, v := range item {
		r[name] = plain(v)
	}
	return r
}

func plainItems(items []map[string]types.AttributeValue) []record {
	all := make([]record, len(items))
	for i, item := range items {
		all[i] = plainItem(item)
	}
	return all
}

// values are the one attribute of all items, in order.
func values(items []map[string]types.AttributeValue, name string) []any {
	var all []any
	for _, item := range items {
		all = append(all, plain(item[name]))
	}
	return all
}

// Tables have names of their own even where an earlier run left some behind.
var (
	tableCount  atomic.Int64
	tablePrefix = fmt.Sprintf("check-%08x", rand.Uint32())
)

// shape says which table a row needs: keys and index keys as "name:TYPE".
type shape struct {
	hash, sort string
	indexes    []indexShape
}

type indexShape struct {
	name, hash, sort string
	project          types.ProjectionType
	include          []string
}

// letters is the shape that most rows use.
var letters = shape{hash: "pk:S", sort: "sk:N"}

// table makes a table of the shape and removes it after the row.
func (db tableBench) table(t *testing.T, s shape) string {
	t.Helper()
	name := fmt.Sprintf("%s-%d", tablePrefix, tableCount.Add(1))
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest, KeySchema: keySchema(s.hash, s.sort)}
	defined := map[string]types.AttributeDefinition{}
	define(defined, s.hash, s.sort)
	for _, i := range s.indexes {
		define(defined, i.hash, i.sort)
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, i.index())
	}
	in.AttributeDefinitions = slices.Collect(maps.Values(defined))
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Fatalf("create table: %v", err)
	}
	db.active(t, name)
	t.Cleanup(func() {
		if _, err := db.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Errorf("delete table %s: %v", name, err)
		}
	})
	return name
}

// active waits until the table can be used.
func (db tableBench) active(t *testing.T, table string) {
	t.Helper()
	wait := dynamodb.NewTableExistsWaiter(db, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = pollEvery })
	if err := wait.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &table}, waitFor); err != nil {
		t.Fatalf("table %s: %v", table, err)
	}
}

func (i indexShape) index() types.GlobalSecondaryIndex {
	project := i.project
	if project == "" {
		project = types.ProjectionTypeAll
	}
	return types.GlobalSecondaryIndex{
		IndexName: aws.String(i.name), KeySchema: keySchema(i.hash, i.sort),
		Projection: &types.Projection{ProjectionType: project, NonKeyAttributes: i.include},
	}
}

func keySchema(hash, sort string) []types.KeySchemaElement {
	name, _, _ := strings.Cut(hash, ":")
	keys := []types.KeySchemaElement{{AttributeName: &name, KeyType: types.KeyTypeHash}}
	if sort != "" {
		name, _, _ := strings.Cut(sort, ":")
		keys = append(keys, types.KeySchemaElement{AttributeName: &name, KeyType: types.KeyTypeRange})
	}
	return keys
}

func define(defined map[string]types.AttributeDefinition, keys ...string) {
	for _, key := range keys {
		if name, kind, ok := strings.Cut(key, ":"); ok {
			defined[name] = types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeType(kind)}
		}
	}
}

// put writes items that must be accepted.
func (db tableBench) put(t *testing.T, table string, items ...record) {
	t.Helper()
	for _, r := range items {
		if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: r.item()}); err != nil {
			t.Fatalf("put %v: %v", r, err)
		}
	}
}

// get reads an item; nil when it is not there.
func (db tableBench) get(t *testing.T, table string, key record) record {
	t.Helper()
	out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key.item(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatalf("get %v: %v", key, err)
	}
	return plainItem(out.Item)
}

// update is an update of one item in short.
func update(table string, key record, expression string, placeholders record) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: &table, Key: key.item(), UpdateExpression: &expression, ExpressionAttributeValues: placeholders.item(),
	}
}

// code is the service's error code of a refusal, or "".
func code(err error) string {
	if refusal, ok := errors.AsType[smithy.APIError](err); ok {
		return refusal.ErrorCode()
	}
	return ""
}

// wantCode fails unless the call was refused with the code.
func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("got %v, want a %s", err, want)
	}
}

const (
	validationCode = "ValidationException"
	conditionCode  = "ConditionalCheckFailedException"
)

// The waiters of the SDK ask this often, for this long. The local cloud is
// ready when it is first asked.
const (
	pollEvery = 20 * time.Millisecond
	waitFor   = 30 * time.Second
)
