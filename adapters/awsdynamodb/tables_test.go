package awsdynamodb_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func cloudOnly(t *testing.T) (*localstack.Cloud, *dynamodb.Client) {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	return cloud, dynamodb.NewFromConfig(cloud.AWSConfig(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
}

func inspect(t *testing.T, client *dynamodb.Client) string {
	t.Helper()
	problems, err := awsdynamodb.InspectTables(t.Context(), client, names)
	must(t, err)
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

func TestTablesAreMadeOnceAndInspected(t *testing.T) {
	_, client := cloudOnly(t)
	if got := inspect(t, client); strings.Count(got, "does not exist") != 3 {
		t.Errorf("got %q", got)
	}
	for range 2 {
		must(t, awsdynamodb.CreateTables(t.Context(), client, names))
		if got := inspect(t, client); got != "" {
			t.Errorf("got %q", got)
		}
	}
}

func TestATableWithOtherKeysIsNamedAndLeftAlone(t *testing.T) {
	_, client := cloudOnly(t)
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("records"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeN}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	must(t, err)
	err = awsdynamodb.CreateTables(t.Context(), client, names)
	want := "table records exists but its key is id N, want pk S, sk S; it lacks the index work (work_pk S, work_sk S); it lacks the index signature (sig_pk S, sig_sk S)"
	if !errors.Is(err, dlqbridge.ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if got := inspect(t, client); !strings.Contains(got, "table records: its key is id N") || !strings.Contains(got, "time to live is off") {
		t.Errorf("got %q", got)
	}
}

func TestOnlyAnEndpointThatDoesNotKnowBackupsIsForgiven(t *testing.T) {
	cloud, client := cloudOnly(t)
	fault := func(code string) {
		cloud.ClearFaults()
		for _, operation := range []string{"UpdateContinuousBackups", "DescribeContinuousBackups"} {
			_, err := cloud.AddFault(localstack.Fault{Service: "dynamodb", Operation: operation, Do: localstack.DoError, Code: code, Times: -1})
			must(t, err)
		}
	}
	fault("com.amazon.coral.service#UnknownOperationException")
	must(t, awsdynamodb.CreateTables(t.Context(), client, names))
	if got := inspect(t, client); got != "" {
		t.Errorf("got %q", got)
	}
	fault("AccessDeniedException")
	if err := awsdynamodb.CreateTables(t.Context(), client, names); !errors.Is(err, dlqbridge.ErrDenied) || !strings.Contains(err.Error(), "dynamodb:UpdateContinuousBackups") {
		t.Errorf("got %v, want ErrDenied", err)
	}
}

func TestOptionsThatCannotWorkAreNamed(t *testing.T) {
	_, client := cloudOnly(t)
	for name, o := range map[string]awsdynamodb.Options{
		"Client":           {Records: "r", Payloads: "p"},
		"Records":          {Client: client, Payloads: "p"},
		"Payloads":         {Client: client, Records: "r"},
		"Records and":      {Client: client, Records: "r", Payloads: "r"},
		"Shards":           {Client: client, Records: "r", Payloads: "p", Shards: 101},
		"retention":        {Client: client, Records: "r", Payloads: "p", RecordRetention: -1},
		"Concurrency is -": {Client: client, Records: "r", Payloads: "p", Concurrency: -1},
	} {
		if _, err := awsdynamodb.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
