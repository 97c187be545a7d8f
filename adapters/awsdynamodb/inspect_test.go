package awsdynamodb_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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
