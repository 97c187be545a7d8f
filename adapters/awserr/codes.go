package awserr

import (
	"fmt"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Sources, all read on 2026-11-30: "Amazon SQS API Reference", pages "Common
// errors" and the errors of each action; "Amazon DynamoDB Developer Guide",
// page "Error handling with DynamoDB"; "AWS General Reference", "Common error
// types"; and the codes in the SDK's models.

// codes gives the meaning of a code as canonical spells it.
var codes = map[string]error{
	"QueueDoesNotExist":      dlqbridge.ErrNotFound,
	"NonExistentQueue":       dlqbridge.ErrNotFound,
	"ResourceNotFound":       dlqbridge.ErrNotFound,
	"TableNotFound":          dlqbridge.ErrNotFound,
	"IndexNotFound":          dlqbridge.ErrNotFound,
	"BackupNotFound":         dlqbridge.ErrNotFound,
	"PolicyNotFound":         dlqbridge.ErrNotFound,
	"ReceiptHandleIsInvalid": dlqbridge.ErrNotFound, // the receive it names is no more
	"MessageNotInflight":     dlqbridge.ErrNotFound, // likewise
	"NoSuchEntity":           dlqbridge.ErrNotFound,

	"QueueNameExists":     dlqbridge.ErrExists,
	"QueueAlreadyExists":  dlqbridge.ErrExists,
	"TableAlreadyExists":  dlqbridge.ErrExists,
	"EntityAlreadyExists": dlqbridge.ErrExists,

	"ConditionalCheckFailed":      dlqbridge.ErrConflict,
	"DuplicateItem":               dlqbridge.ErrConflict,
	"IdempotentParameterMismatch": dlqbridge.ErrConflict,
	"ResourceInUse":               dlqbridge.ErrConflict,
	"TableInUse":                  dlqbridge.ErrConflict,

	"Throttling":                      dlqbridge.ErrThrottled,
	"Throttled":                       dlqbridge.ErrThrottled,
	"ThrottlingError":                 dlqbridge.ErrThrottled, // a reason of TransactionCanceledException
	"RequestThrottled":                dlqbridge.ErrThrottled,
	"RequestLimitExceeded":            dlqbridge.ErrThrottled,
	"ProvisionedThroughputExceeded":   dlqbridge.ErrThrottled,
	"TooManyRequests":                 dlqbridge.ErrThrottled,
	"BandwidthLimitExceeded":          dlqbridge.ErrThrottled,
	"LimitExceeded":                   dlqbridge.ErrThrottled,
	"SlowDown":                        dlqbridge.ErrThrottled,
	"OverLimit":                       dlqbridge.ErrThrottled,
	"PriorRequestNotComplete":         dlqbridge.ErrThrottled,
	"KmsThrottled":                    dlqbridge.ErrThrottled,
	"KmsThrottling":                   dlqbridge.ErrThrottled,
	"PurgeQueueInProgress":            dlqbridge.ErrThrottled,
	"QueueDeletedRecently":            dlqbridge.ErrThrottled, // it can be made again after a minute
	"TransactionConflict":             dlqbridge.ErrThrottled, // another transaction is under way, this one was refused
	"ReplicatedWriteConflict":         dlqbridge.ErrThrottled, // likewise in another region
	"TransactionInProgress":           dlqbridge.ErrUnclear,   // ours, with this token: its end is not known yet
	"RequestTimeout":                  dlqbridge.ErrUnclear,
	"InternalError":                   dlqbridge.ErrUnclear,
	"InternalFailure":                 dlqbridge.ErrUnclear,
	"InternalServerError":             dlqbridge.ErrUnclear,
	"ServiceUnavailable":              dlqbridge.ErrUnclear,
	"ItemCollectionSizeLimitExceeded": dlqbridge.ErrTooLarge,
	"BatchRequestTooLong":             dlqbridge.ErrTooLarge,
	"MessageTooLong":                  dlqbridge.ErrTooLarge,
	"RequestEntityTooLarge":           dlqbridge.ErrTooLarge,
	"RequestTooLarge":                 dlqbridge.ErrTooLarge,
	"AccessDenied":                    dlqbridge.ErrDenied,
	"NotAuthorized":                   dlqbridge.ErrDenied,
	"UnauthorizedOperation":           dlqbridge.ErrDenied,
	"Unauthorized":                    dlqbridge.ErrDenied,
	"Forbidden":                       dlqbridge.ErrDenied,
	"OptInRequired":                   dlqbridge.ErrDenied,
	"SubscriptionRequired":            dlqbridge.ErrDenied,
	"InvalidSecurity":                 dlqbridge.ErrDenied, // the queue wants HTTPS and signature version 4
	"ExpiredToken":                    dlqbridge.ErrCredentials,
	"TokenRefreshRequired":            dlqbridge.ErrCredentials,
	"RequestExpired":                  dlqbridge.ErrCredentials,
	"RequestTimeTooSkewed":            dlqbridge.ErrCredentials, // the SDK corrects the clock for the next try
	"UnrecognizedClient":              dlqbridge.ErrCredentials,
	"InvalidClientTokenId":            dlqbridge.ErrCredentials,
	"InvalidAccessKeyId":              dlqbridge.ErrCredentials,
	"InvalidSignature":                dlqbridge.ErrCredentials,
	"SignatureDoesNotMatch":           dlqbridge.ErrCredentials,
	"IncompleteSignature":             dlqbridge.ErrCredentials,
	"MissingAuthenticationToken":      dlqbridge.ErrCredentials,
	"AuthFailure":                     dlqbridge.ErrCredentials,
	"Validation":                      dlqbridge.ErrInvalid,
	"ValidationError":                 dlqbridge.ErrInvalid,
	"Serialization":                   dlqbridge.ErrInvalid,
	"InvalidMessageContents":          dlqbridge.ErrInvalid,
	"InvalidParameterValue":           dlqbridge.ErrInvalid,
	"InvalidParameterCombination":     dlqbridge.ErrInvalid,
	"InvalidParameter":                dlqbridge.ErrInvalid,
	"InvalidAttributeName":            dlqbridge.ErrInvalid,
	"InvalidAttributeValue":           dlqbridge.ErrInvalid,
	"InvalidAddress":                  dlqbridge.ErrInvalid,
	"InvalidIdFormat":                 dlqbridge.ErrInvalid,
	"InvalidAction":                   dlqbridge.ErrInvalid,
	"InvalidBatchEntryId":             dlqbridge.ErrInvalid,
	"BatchEntryIdsNotDistinct":        dlqbridge.ErrInvalid,
	"EmptyBatchRequest":               dlqbridge.ErrInvalid,
	"TooManyEntriesInBatchRequest":    dlqbridge.ErrInvalid,
	"MissingParameter":                dlqbridge.ErrInvalid,
	"MissingRequiredParameter":        dlqbridge.ErrInvalid,
	"MissingAction":                   dlqbridge.ErrInvalid,
	"MalformedQueryString":            dlqbridge.ErrInvalid,
	"UnsupportedOperation":            dlqbridge.ErrInvalid,
	"UnknownOperation":                dlqbridge.ErrInvalid,
}

// canonical brings the spellings of one code together: the JSON protocol's
// "com.amazonaws.sqs#QueueDoesNotExist", the Query protocol's
// "AWS.SimpleQueueService.NonExistentQueue" and "KMS.DisabledException", with
// or without "Exception" at the end.
func canonical(code string) string {
	if _, shape, ok := strings.Cut(code, "#"); ok {
		code = shape
	}
	code, _, _ = strings.Cut(code, ":") // restJSON: a link may follow
	code, _, _ = strings.Cut(code, ";") // x-amzn-query-error: the fault follows
	code = strings.TrimPrefix(code, "AWS.SimpleQueueService.")
	if kms, ok := strings.CutPrefix(code, "KMS."); ok {
		code = "Kms" + kms
	}
	return strings.TrimSuffix(code, "Exception")
}

// byCode is the meaning of a service's code, nil if it is not known. The
// message is asked only where one code has two meanings.
func byCode(code, message string) error {
	name := canonical(code)
	m, known := codes[name]
	switch {
	case known && m == dlqbridge.ErrInvalid && tooLong(message): //nolint:errorlint // one of our own sentinels, not wrapped
		return dlqbridge.ErrTooLarge
	case known:
		return m
	case strings.HasPrefix(name, "Kms"):
		// The key is disabled, gone or not ours: for the caller a matter of
		// rights, and not that the queue does not exist.
		return dlqbridge.ErrDenied
	case strings.HasPrefix(name, "AccessDenied"), strings.HasPrefix(name, "AllAccessDisabled"):
		return dlqbridge.ErrDenied
	case strings.HasPrefix(name, "ExpiredToken"):
		return dlqbridge.ErrCredentials
	}
	return nil
}

// tooLong recognises the two size limits that have no code of their own: a
// message over its queue's MaximumMessageSize, and an item over 400 KB.
func tooLong(message string) bool {
	return strings.Contains(message, "must be shorter than") || strings.Contains(message, "Item size")
}

// EntryError is one entry of a batch that the service refused while it took
// others. Its text leaves out parameter values.
type EntryError struct {
	Code, Message string
	// SenderFault: the entry itself is to blame.
	SenderFault bool
}

// Error implements error.
func (e *EntryError) Error() string {
	if m := clean(e.Message); m != "" {
		return e.Code + ": " + m
	}
	return e.Code
}

// Entry is the meaning of a failed entry of an SQS batch. Such an entry was
// surely not carried out (pages "SendMessageBatch", Failed: "each message that
// can't be enqueued", and likewise for delete and visibility; read
// 2026-11-30), so what would be unclear for a whole request is ErrUnavailable.
func Entry(code, message string, senderFault bool) error {
	cause := &EntryError{Code: code, Message: message, SenderFault: senderFault}
	m := byCode(code, message)
	switch {
	case m == dlqbridge.ErrUnclear, m == nil && !senderFault: //nolint:errorlint // one of our own sentinels, not wrapped
		m = dlqbridge.ErrUnavailable
	case m == nil:
		m = dlqbridge.ErrInvalid
	case m == dlqbridge.ErrCredentials: //nolint:errorlint // one of our own sentinels, not wrapped
		return &wrapped{meaning: m, cause: cause, text: m.Error() + ": " + code}
	}
	return fmt.Errorf("%w: %w", m, cause)
}
