package awserr

import (
	"errors"
	"regexp"
	"strings"
	"unicode"

	"github.com/aws/smithy-go"

	"github.com/dlqbridge/dlqbridge"
)

// maxText bounds a text from outside, in bytes.
const maxText = 400

// describe is the cause in a form that is safe to show: what was tried, the
// service's code, its request id, and its message where that cannot hold a
// secret.
func describe(err, meaning error) string {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || api.ErrorCode() == "" {
		return clean(err.Error())
	}
	var b strings.Builder
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		b.WriteString(op.ServiceID + " " + op.OperationName + ": ")
	}
	b.WriteString(clean(api.ErrorCode()))
	// About credentials the code says it all; the service's explanation of a
	// bad signature quotes the request's headers, session token included.
	if m := clean(api.ErrorMessage()); m != "" && !errors.Is(meaning, dlqbridge.ErrCredentials) {
		b.WriteString(": " + m)
	}
	if id, ok := errors.AsType[interface {
		error
		ServiceRequestID() string
	}](err); ok && id.ServiceRequestID() != "" {
		b.WriteString(" (request " + clean(id.ServiceRequestID()) + ")")
	}
	return b.String()
}

// Where the services quote a parameter's value in a message.
var (
	quotedValue  = regexp.MustCompile(`(?s)\bValue .*? (for parameter \S+ is invalid)`)
	quotedHandle = regexp.MustCompile(`(?s)(receipt handle) ".*?"`)
	quotedNumber = regexp.MustCompile(`(?s)(cannot be converted to a numeric value): .*`)
)

// clean takes parameter values out of a text, keeps it on one line and bounds it.
func clean(text string) string {
	text = quotedValue.ReplaceAllString(text, "a value $1")
	text = quotedHandle.ReplaceAllString(text, "$1")
	text = quotedNumber.ReplaceAllString(text, "$1")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(dlqbridge.CutText(text, maxText))
}
