package check_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// startSocket serves a fresh cloud on a real socket.
func startSocket(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts other programs")
	}
	cloud := localstack.New(localstack.Options{})
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(func() {
		server.Close()
		cloud.Close()
	})
	return server.URL
}

// awsEnvironment is what a foreign client needs to reach the cloud.
func awsEnvironment(url string) []string {
	return append(os.Environ(), "AWS_ENDPOINT_URL="+url, "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_PAGER=", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
}

func TestDynamoDBFromTheAWSCommandLine(t *testing.T) {
	url := startSocket(t)
	path, err := exec.LookPath("aws")
	if err != nil {
		t.Skip("needs aws: it is not installed")
	}
	aws := func(arguments ...string) (output map[string]any, stderr string, err error) {
		t.Helper()
		command := exec.CommandContext(t.Context(), path, append([]string{"dynamodb", "--endpoint-url", url, "--output", "json"}, arguments...)...)
		command.Env = awsEnvironment(url)
		var out, problem bytes.Buffer
		command.Stdout, command.Stderr = &out, &problem
		err = command.Run()
		if out.Len() > 0 {
			if err := json.Unmarshal(out.Bytes(), &output); err != nil {
				t.Fatalf("%v printed %s", arguments, out.String())
			}
		}
		return output, problem.String(), err
	}
	must := func(arguments ...string) map[string]any {
		t.Helper()
		output, stderr, err := aws(arguments...)
		if err != nil {
			t.Fatalf("%v: %v: %s", arguments, err, stderr)
		}
		return output
	}
	must("create-table", "--table-name", "letters", "--billing-mode", "PAY_PER_REQUEST",
		"--attribute-definitions", "AttributeName=pk,AttributeType=S", "--key-schema", "AttributeName=pk,KeyType=HASH")
	must("wait", "table-exists", "--table-name", "letters")
	must("put-item", "--table-name", "letters", "--item", `{"pk":{"S":"a"},"n":{"N":"12345678901234567890.5"}}`)
	got := must("get-item", "--table-name", "letters", "--key", `{"pk":{"S":"a"}}`)
	want := map[string]any{"Item": map[string]any{
		"pk": map[string]any{"S": "a"}, "n": map[string]any{"N": "12345678901234567890.5"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("item (-want +got):\n%s", diff)
	}
	_, stderr, err := aws("put-item", "--table-name", "letters", "--item", `{"pk":{"S":"a"}}`, "--condition-expression", "attribute_not_exists(pk)")
	if err == nil || !strings.Contains(stderr, "ConditionalCheckFailedException") {
		t.Errorf("the condition gave %v: %s", err, stderr)
	}
}

// botoScript uses the higher level of boto3, which makes requests of its own
// kind: decimals, batches, paginators.
const botoScript = `
from decimal import Decimal
import boto3
from boto3.dynamodb.conditions import Key, Attr
from botocore.exceptions import ClientError
db = boto3.resource("dynamodb")
t = db.create_table(TableName="letters", BillingMode="PAY_PER_REQUEST",
    AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "N"}],
    KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}])
t.wait_until_exists()
with t.batch_writer() as batch:
    for i in range(60):
        batch.put_item(Item={"pk": "a", "sk": i, "v": Decimal("0.1"), "even": i % 2 == 0, "tags": {"x", "y"}})
found = t.query(KeyConditionExpression=Key("pk").eq("a") & Key("sk").between(10, 19), FilterExpression=Attr("even").eq(True))
assert [int(i["sk"]) for i in found["Items"]] == [10, 12, 14, 16, 18], found
out = t.update_item(Key={"pk": "a", "sk": 1}, UpdateExpression="SET v = v + :d", ExpressionAttributeValues={":d": Decimal("0.2")}, ReturnValues="ALL_NEW")
assert out["Attributes"]["v"] == Decimal("0.3"), out
assert out["Attributes"]["tags"] == {"x", "y"}, out
pages = list(db.meta.client.get_paginator("scan").paginate(TableName="letters", PaginationConfig={"PageSize": 7}))
assert sum(len(p["Items"]) for p in pages) == 60, len(pages)
try:
    t.put_item(Item={"pk": "a", "sk": 1}, ConditionExpression=Attr("pk").not_exists())
    raise SystemExit("the condition held")
except ClientError as e:
    assert e.response["Error"]["Code"] == "ConditionalCheckFailedException", e
`

func TestDynamoDBFromPython(t *testing.T) {
	url := startSocket(t)
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3: it is not installed")
	}
	if exec.CommandContext(t.Context(), path, "-c", "import boto3").Run() != nil {
		t.Skip("needs boto3: python3 does not have it")
	}
	command := exec.CommandContext(t.Context(), path, "-c", botoScript)
	command.Env = awsEnvironment(url)
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
