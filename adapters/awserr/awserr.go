// Package awserr is the one place that says what an error of the AWS SDK
// means ([Wrap], [Entry]). The adapters for SQS and DynamoDB and the ledger share
// it; it is no adapter itself, so the rule that adapters never import one another
// stands. How calls are tried again is package retry's.
//
// # Meanings
//
// ErrThrottled and ErrUnavailable say that the call was surely not carried
// out. So they are given only where the service itself refused, or where the
// connection was never made. Everything that is not understood is ErrUnclear.
//
// Wrap judges the attempt it is shown. The SDK's own retries hide earlier
// attempts, one of which may have been carried out and lost its answer. So
// clients of calls that must not be repeated switch those retries off
// (aws.NopRetryer) and try again by package retry.
//
// # Secrets
//
// The texts of wrapped errors never hold parameter values, which may be a
// message's attribute or group, and never the service's explanation of a bad
// signature, which quotes the session token's header.
package awserr

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dlqbridge/dlqbridge"
)

// Wrap adds the root's meaning to an error of an AWS client: both are found by
// errors.Is and errors.As. Nil stays nil, and what has a meaning keeps it. The
// context's own errors stay recognisable beside ErrUnclear, because a request
// may have been under way.
func Wrap(err error) error {
	if err == nil || hasMeaning(err) {
		return err
	}
	meaning := meaningOf(err)
	return &wrapped{meaning: meaning, cause: err, text: meaning.Error() + ": " + describe(err, meaning)}
}

// wrapped is fmt.Errorf("%w: %w", meaning, cause) with a text that is safe to show.
type wrapped struct {
	meaning, cause error
	text           string
}

// Error implements error.
func (w *wrapped) Error() string { return w.text }

// Unwrap gives errors.Is and errors.As the meaning and the cause.
func (w *wrapped) Unwrap() []error { return []error{w.meaning, w.cause} }

var meanings = []error{
	dlqbridge.ErrNotFound, dlqbridge.ErrExists, dlqbridge.ErrConflict, dlqbridge.ErrThrottled, dlqbridge.ErrUnavailable,
	dlqbridge.ErrCredentials, dlqbridge.ErrDenied, dlqbridge.ErrTooLarge, dlqbridge.ErrInvalid, dlqbridge.ErrUnclear,
}

func hasMeaning(err error) bool {
	for _, m := range meanings {
		if errors.Is(err, m) {
			return true
		}
	}
	return false
}

// meaningOf goes from what is sure to what is not.
func meaningOf(err error) error {
	switch {
	case withoutCredentials(err):
		// Asked before the codes: the cause may be a refusal by STS, which is
		// about getting credentials and not about the call, which was never sent.
		return dlqbridge.ErrCredentials
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return dlqbridge.ErrUnclear
	}
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return cancellation(cancelled)
	}
	status := statusOf(err)
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		if m := byCode(api.ErrorCode(), api.ErrorMessage()); m != nil {
			return m
		}
	}
	if m := byStatus(status); m != nil {
		return m
	}
	if status == 0 {
		if m := neverSent(err); m != nil {
			return m
		}
	}
	return dlqbridge.ErrUnclear
}

// withoutCredentials recognises a call that never left because no credentials
// could be got. The SDK has no type for it, only this prefix of the step that
// asks the provider.
func withoutCredentials(err error) bool {
	op, ok := errors.AsType[*smithy.OperationError](err)
	if !ok || op.Err == nil {
		return false
	}
	return strings.Contains(op.Err.Error(), "get identity: ") && statusOf(err) == 0 && !isContext(err)
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// statusOf is the HTTP status of the answer, 0 if there was none.
func statusOf(err error) int {
	answered, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err)
	if !ok {
		return 0
	}
	return answered.HTTPStatusCode()
}

// byStatus judges an answer whose code says nothing: a 4xx is a refusal, of a
// proxy's too. A 5xx may have come after the call was carried out (page
// "Error handling with DynamoDB": a write that got a 500 may have succeeded).
func byStatus(status int) error {
	switch {
	case status == http.StatusRequestTimeout:
		return dlqbridge.ErrUnclear
	case status == http.StatusTooManyRequests:
		return dlqbridge.ErrThrottled
	case status == http.StatusRequestEntityTooLarge:
		return dlqbridge.ErrTooLarge
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return dlqbridge.ErrDenied
	case status >= 400 && status < 500:
		return dlqbridge.ErrInvalid
	}
	return nil
}

// neverSent recognises what failed before the request was written.
func neverSent(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "dial" || op.Op == "proxyconnect") {
		return dlqbridge.ErrUnavailable
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return dlqbridge.ErrUnavailable
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return dlqbridge.ErrUnavailable
	}
	if _, ok := errors.AsType[*smithy.SerializationError](err); ok {
		return dlqbridge.ErrInvalid
	}
	if _, ok := errors.AsType[*smithy.InvalidParamsError](err); ok {
		return dlqbridge.ErrInvalid
	}
	if _, ok := errors.AsType[smithy.InvalidParamsError](err); ok {
		return dlqbridge.ErrInvalid
	}
	// No region, or an address that is none: the SDK has no type for these.
	if op, ok := errors.AsType[*smithy.OperationError](err); ok && op.Err != nil &&
		strings.Contains(op.Err.Error(), "resolve service endpoint") {
		return dlqbridge.ErrInvalid
	}
	return nil
}

// cancellation is the meaning of a transaction that was surely not carried
// out. A failed condition decides over everything else: trying the same again
// cannot help.
func cancellation(err *types.TransactionCanceledException) error {
	worst := dlqbridge.ErrThrottled
	for _, reason := range err.CancellationReasons {
		if reason.Code == nil || *reason.Code == "None" {
			continue
		}
		message := ""
		if reason.Message != nil {
			message = *reason.Message
		}
		switch m := byCode(*reason.Code, message); {
		case errors.Is(m, dlqbridge.ErrConflict):
			return m
		case m == nil:
			worst = dlqbridge.ErrInvalid
		case !errors.Is(m, dlqbridge.ErrThrottled):
			worst = m
		}
	}
	return worst
}
