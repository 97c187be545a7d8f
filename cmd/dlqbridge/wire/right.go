package wire

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dlqbridge/dlqbridge"
)

// Right is the IAM action that a refused call needed, such as
// sqs:ReceiveMessage; empty if the error names no call.
func Right(err error) string {
	call, ok := errors.AsType[*smithy.OperationError](err)
	if !ok {
		return ""
	}
	// Batches need the right of the single call, as SQS documents; DynamoDB's
	// batches have rights of their own.
	action := call.Operation()
	if call.Service() == "SQS" {
		action = strings.TrimSuffix(action, "Batch")
	}
	return strings.ToLower(call.Service()) + ":" + action
}

// MissingTable says that a call of DynamoDB found no table of the name.
func MissingTable(err error) bool {
	_, missing := errors.AsType[*types.ResourceNotFoundException](err)
	return missing
}

// Absent says that the named record, job or payload is not there, in a table
// that is: where the table is missing, nothing is known of what it would hold.
func Absent(err error) bool {
	return errors.Is(err, dlqbridge.ErrNotFound) && !MissingTable(err)
}
