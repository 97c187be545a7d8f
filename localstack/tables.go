package localstack

import (
	"context"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// newDynamoDB stands in until the engine is there.
func newDynamoDB(*clock.Clock) wire.Service { return noTables{} }

type noTables struct{}

func (noTables) Name() string { return "dynamodb" }

func (noTables) Call(context.Context, string, []byte) ([]byte, error) {
	return nil, &wire.Error{Status: 400, Type: "com.amazon.coral.service#UnknownOperationException", Message: "The local cloud does not serve DynamoDB yet."}
}
