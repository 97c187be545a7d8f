package dynamodb

import (
	"fmt"
	"net/http"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// The service spells its refusals with two prefixes: its own and that of the
// framework it is built on. Clients cut at the '#', but a recording should
// look like the real one.
const (
	ownPrefix   = "com.amazonaws.dynamodb.v20120810#"
	coralPrefix = "com.amazon.coral.service#"
	validation  = "com.amazon.coral.validate#ValidationException"
)

// invalid is a ValidationException: the request itself is at fault.
func invalid(format string, args ...any) *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: validation, Message: fmt.Sprintf(format, args...)}
}

// invalidParameter is the ValidationException that the service introduces with
// "One or more parameter values were invalid".
func invalidParameter(format string, args ...any) *wire.Error {
	return invalid("One or more parameter values were invalid: "+format, args...)
}

// constraint is the ValidationException of a member that breaks the API
// model's own bounds (Amazon DynamoDB API Reference, "Common Errors").
func constraint(value, member, rule string) *wire.Error {
	return invalid("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", value, member, rule)
}

// required is the constraint of a member that must be there.
func required(member string) *wire.Error {
	return invalid("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", member)
}

// malformed is a SerializationException: the body is not what the API's JSON
// protocol allows at all.
func malformed(format string, args ...any) *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: coralPrefix + "SerializationException", Message: fmt.Sprintf(format, args...)}
}

// notServed refuses what the real service can do and the local cloud cannot.
// Silent acceptance would let a test pass without testing anything.
func notServed(what string) *wire.Error {
	return invalid("The local cloud does not serve %s", what)
}

// unknownOperation refuses an operation that is not served.
func unknownOperation(operation string) *wire.Error {
	return &wire.Error{
		Status: http.StatusBadRequest, Type: coralPrefix + "UnknownOperationException",
		Message: "The local cloud does not serve the operation " + operation,
	}
}

// noTable is the refusal of a data call on a table that is not there.
func noTable() *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: ownPrefix + "ResourceNotFoundException", Message: "Requested resource not found"}
}

// noNamedTable is the refusal of a table call on a table that is not there.
func noNamedTable(name string) *wire.Error {
	return &wire.Error{
		Status: http.StatusBadRequest, Type: ownPrefix + "ResourceNotFoundException",
		Message: "Requested resource not found: Table: " + name + " not found",
	}
}

// inUse is the refusal to create what exists or to change what is busy.
func inUse(message string) *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: ownPrefix + "ResourceInUseException", Message: message}
}

// conditionFailed is the refusal of a write whose condition is false. The old
// item rides along when the caller asked for it.
func conditionFailed(old Item) *wire.Error {
	e := &wire.Error{
		Status: http.StatusBadRequest, Type: ownPrefix + "ConditionalCheckFailedException",
		Message: "The conditional request failed",
	}
	if old != nil {
		e.Fields = map[string]any{"Item": old}
	}
	return e
}
