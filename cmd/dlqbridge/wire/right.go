package wire

import (
	"errors"
	"strings"

	"github.com/aws/smithy-go"
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
