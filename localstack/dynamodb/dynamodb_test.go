package dynamodb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
	"github.com/dlqbridge/dlqbridge/localstack/dynamodb"
	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// direct hands the SDK's requests to the service without a socket.
type direct struct{ service wire.Service }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	status := http.StatusOK
	answer, err := d.service.Call(r.Context(), operation, body)
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		status = refusal.Status
		fields := map[string]any{"__type": refusal.Type, "message": refusal.Message}
		maps.Copy(fields, refusal.Fields)
		if answer, err = json.Marshal(fields); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader(answer)), Request: r,
	}, nil
}

// newClient is an SDK client of the service.
func newClient(s *dynamodb.Service) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://local.test"),
		HTTPClient:       &http.Client{Transport: direct{s}},
		RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}

func s(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func n(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }

// TestTheSDKWalksThroughAll is the first thing to look at when an SDK changes.
func TestTheSDKWalksThroughAll(t *testing.T) {
	ctx := t.Context()
	db := newClient(dynamodb.New(clock.New(nil)))
	_, err := db.CreateTable(ctx, &sdk.CreateTableInput{
		TableName: aws.String("letters"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: "S"},
			{AttributeName: aws.String("sk"), AttributeType: "N"},
			{AttributeName: aws.String("gk"), AttributeType: "S"},
		},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: "HASH"}, {AttributeName: aws.String("sk"), KeyType: "RANGE"}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("gsi"), Projection: &types.Projection{ProjectionType: "ALL"},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("gk"), KeyType: "HASH"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		_, err := db.PutItem(ctx, &sdk.PutItemInput{
			TableName: aws.String("letters"),
			Item:      map[string]types.AttributeValue{"pk": s("a"), "sk": n(string(rune('0' + i))), "gk": s("g"), "v": n("1")},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := db.UpdateItem(ctx, &sdk.UpdateItemInput{
		TableName: aws.String("letters"), Key: map[string]types.AttributeValue{"pk": s("a"), "sk": n("3")},
		UpdateExpression: aws.String("SET v = v + :one ADD w :one"), ConditionExpression: aws.String("v = :one AND attribute_exists(gk)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": n("1")}, ReturnValues: "ALL_NEW",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Attributes["v"].(*types.AttributeValueMemberN).Value; got != "2" {
		t.Errorf("v is %s, want 2", got)
	}
	q, err := db.Query(ctx, &sdk.QueryInput{
		TableName: aws.String("letters"), KeyConditionExpression: aws.String("pk = :p AND sk BETWEEN :a AND :b"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": s("a"), ":a": n("1"), ":b": n("3")},
	})
	if err != nil || q.Count != 3 {
		t.Errorf("query: %v, %v", q, err)
	}
	q, err = db.Query(ctx, &sdk.QueryInput{
		TableName: aws.String("letters"), IndexName: aws.String("gsi"), KeyConditionExpression: aws.String("gk = :p"), Limit: aws.Int32(2),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": s("g")},
	})
	if err != nil || q.Count != 2 || len(q.LastEvaluatedKey) != 3 {
		t.Errorf("index query: %v, %v", q, err)
	}
	sc, err := db.Scan(ctx, &sdk.ScanInput{
		TableName: aws.String("letters"), FilterExpression: aws.String("v > :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": n("1")},
	})
	if err != nil || sc.Count != 1 || sc.ScannedCount != 5 {
		t.Errorf("scan: %v, %v", sc, err)
	}
	_, err = db.BatchWriteItem(ctx, &sdk.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"letters": {
		{DeleteRequest: &types.DeleteRequest{Key: map[string]types.AttributeValue{"pk": s("a"), "sk": n("3")}}},
	}}})
	if err != nil {
		t.Error(err)
	}
	bg, err := db.BatchGetItem(ctx, &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"letters": {
		Keys: []map[string]types.AttributeValue{{"pk": s("a"), "sk": n("3")}, {"pk": s("a"), "sk": n("2")}},
	}}})
	if err != nil || len(bg.Responses["letters"]) != 1 {
		t.Errorf("batch get: %v, %v", bg, err)
	}
	_, err = db.PutItem(ctx, &sdk.PutItemInput{
		TableName: aws.String("letters"), ConditionExpression: aws.String("attribute_not_exists(pk)"),
		Item:                                map[string]types.AttributeValue{"pk": s("a"), "sk": n("1")},
		ReturnValuesOnConditionCheckFailure: "ALL_OLD",
	})
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok || len(failed.Item) != 4 {
		t.Errorf("conditional put: %v", err)
	}
}
