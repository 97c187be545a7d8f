// Package tabletest gives a test a table of its own on a local cloud of its own,
// in the shape that some other program keeps its state in.
package tabletest

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// Item is one item of a table.
type Item = map[string]types.AttributeValue

// New makes a table that holds the items, and a client that tries nothing again
// by itself. Both keys are texts; without a rangeKey the hash key is all.
func New(t testing.TB, table, hashKey, rangeKey string, items ...Item) (*localstack.Cloud, *dynamodb.Client) {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	client := dynamodb.NewFromConfig(cloud.AWSConfig(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	in := &dynamodb.CreateTableInput{TableName: &table, BillingMode: types.BillingModePayPerRequest}
	key := func(name string, role types.KeyType) { // the hash key comes first
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &name, KeyType: role})
	}
	key(hashKey, types.KeyTypeHash)
	if rangeKey != "" {
		key(rangeKey, types.KeyTypeRange)
	}
	if _, err := client.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it}); err != nil {
			t.Fatal(err)
		}
	}
	return cloud, client
}
