package check_test

import (
	"testing"

	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/localstack/check"
)

func TestDynamoDBOfTheLocalCloud(t *testing.T) {
	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	check.DynamoDB(t, check.Harness{Config: cloud.AWSConfig(), Advance: cloud.Clock().Advance})
}
