package awsdynamodb_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
)

type tableItem = map[string]types.AttributeValue

// table reads a whole table, as somebody with the console would.
func (b *bench) table(tb testing.TB, name string) []tableItem {
	tb.Helper()
	var all []tableItem
	in := &dynamodb.ScanInput{TableName: aws.String(name), ConsistentRead: aws.Bool(true)}
	for {
		out, err := b.client.Scan(tb.Context(), in)
		must(tb, err)
		all = append(all, out.Items...)
		if len(out.LastEvaluatedKey) == 0 {
			return all
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func (b *bench) item(tb testing.TB, table, pk, sk string) tableItem {
	tb.Helper()
	out, err := b.client.GetItem(tb.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: primary(pk, sk), ConsistentRead: aws.Bool(true)})
	must(tb, err)
	return out.Item
}

func (b *bench) drop(tb testing.TB, table, pk, sk string) {
	tb.Helper()
	_, err := b.client.DeleteItem(tb.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: primary(pk, sk)})
	must(tb, err)
}

// graft copies an item over another one.
func (b *bench) graft(tb testing.TB, table, pk, from, to string) {
	tb.Helper()
	it := b.item(tb, table, pk, from)
	it["sk"] = &types.AttributeValueMemberS{Value: to}
	_, err := b.client.PutItem(tb.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: it})
	must(tb, err)
}

// tapped is a client whose calls a test sees and changes.
type tapped struct {
	awsdynamodb.Client
	update func(*dynamodb.UpdateItemInput)
	query  func(*dynamodb.QueryOutput)
}

func (c tapped) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if c.update != nil {
		c.update(in)
	}
	return c.Client.UpdateItem(ctx, in, o...)
}

func (c tapped) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := c.Client.Query(ctx, in, o...)
	if err == nil && c.query != nil {
		c.query(out)
	}
	return out, err
}

func primary(pk, sk string) tableItem {
	return tableItem{"pk": &types.AttributeValueMemberS{Value: pk}, "sk": &types.AttributeValueMemberS{Value: sk}}
}

func textAt(it tableItem, name string) string {
	if s, ok := it[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func numberAt(it tableItem, name string) string {
	if n, ok := it[name].(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return ""
}
