// Package wire is what the local cloud's services and its front door agree on:
// a service answers one operation at a time, and refuses with the real
// service's own error code.
package wire

import (
	"context"
	"fmt"
)

// Service is one AWS JSON service of the local cloud.
type Service interface {
	// Name is the service's short name in the control interface: "sqs", "dynamodb".
	Name() string
	// Call carries out one operation (the part of X-Amz-Target after the dot)
	// on a JSON request body and returns the JSON answer. A refusal is an
	// *Error; an operation the local cloud does not serve is refused too.
	// Calls may be concurrent; ctx ends when the client goes away.
	Call(ctx context.Context, operation string, request []byte) (response []byte, err error)
}

// Error is a refusal as the real service words it.
type Error struct {
	// Status is the HTTP status: 400 for the caller's mistakes, 500 or 503 for ours.
	Status int
	// Type is the value of "__type", with the service's own prefix, such as
	// "com.amazonaws.sqs#QueueDoesNotExist".
	Type string
	// QueryCode is the older spelling sent in the x-amzn-query-error header,
	// such as "AWS.SimpleQueueService.NonExistentQueue"; empty sends no header.
	QueryCode string
	// Message is the sentence that goes with it.
	Message string
	// Fields are further members of the error body: "Item" of a failed
	// condition, "CancellationReasons" of a cancelled transaction.
	Fields map[string]any
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Type, e.Message) }
