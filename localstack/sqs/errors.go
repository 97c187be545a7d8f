package sqs

import (
	"fmt"
	"net/http"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// The error codes are those of the "Amazon SQS API Reference", page "Common
// errors" and the errors of each action, in the two spellings the service
// sends: the JSON protocol's shape name in the body and the older Query
// protocol's code in a header, from which SDKs that knew SQS before JSON take
// their code.
const (
	shapePrefix = "com.amazonaws.sqs#"
	queryPrefix = "AWS.SimpleQueueService."
)

// queryCodes gives the older spelling where it differs from the shape's name.
var queryCodes = map[string]string{
	"BatchEntryIdsNotDistinct":          queryPrefix + "BatchEntryIdsNotDistinct",
	"BatchRequestTooLong":               queryPrefix + "BatchRequestTooLong",
	"EmptyBatchRequest":                 queryPrefix + "EmptyBatchRequest",
	"InvalidBatchEntryId":               queryPrefix + "InvalidBatchEntryId",
	"MessageNotInflight":                queryPrefix + "MessageNotInflight",
	"PurgeQueueInProgress":              queryPrefix + "PurgeQueueInProgress",
	"QueueDeletedRecently":              queryPrefix + "QueueDeletedRecently",
	"QueueDoesNotExist":                 queryPrefix + "NonExistentQueue",
	"QueueNameExists":                   "QueueAlreadyExists",
	"TooManyEntriesInBatchRequest":      queryPrefix + "TooManyEntriesInBatchRequest",
	"UnsupportedOperation":              queryPrefix + "UnsupportedOperation",
	"InvalidParameterValueException":    invalidParameter,
	"MissingRequiredParameterException": missingParameter,
}

const (
	invalidParameter = "InvalidParameterValue"
	missingParameter = "MissingParameter"
)

// Refusal makes an SQS error with the given code, in either of its spellings.
// The status is 400 unless given otherwise.
func Refusal(status int, code, message string) *wire.Error {
	if status == 0 {
		status = http.StatusBadRequest
	}
	query, known := queryCodes[code]
	if !known {
		query = code
	}
	fault := "Sender"
	if status >= http.StatusInternalServerError {
		fault = "Receiver"
	}
	return &wire.Error{Status: status, Type: shapePrefix + code, QueryCode: query + ";" + fault, Message: message}
}

func refuse(code, format string, args ...any) *wire.Error {
	return Refusal(http.StatusBadRequest, code, fmt.Sprintf(format, args...))
}

func badValue(format string, args ...any) *wire.Error {
	return refuse("InvalidParameterValueException", format, args...)
}

func badParameter(value any, parameter, format string, args ...any) *wire.Error {
	return badValue("Value %v for parameter %s is invalid. Reason: %s", value, parameter, fmt.Sprintf(format, args...))
}

func missing(parameter string) *wire.Error {
	return refuse("MissingRequiredParameterException", "The request must contain the parameter %s.", parameter)
}

func noSuchQueue() *wire.Error {
	return refuse("QueueDoesNotExist", "The specified queue does not exist.")
}

// entryCode is how an entry of a batch names its error: the older spelling.
func entryCode(err *wire.Error) string {
	for i := range err.QueryCode {
		if err.QueryCode[i] == ';' {
			return err.QueryCode[:i]
		}
	}
	return err.QueryCode
}
