package gcppubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlqbridge/dlqbridge"
)

// ErrReceiveOver is a letter whose receive is over: its acknowledgement
// deadline has passed. Nothing was done with it; it comes again with a new
// receipt. Its meaning is dlqbridge.ErrNotFound.
var ErrReceiveOver = fmt.Errorf("%w: the receive of this letter is over", dlqbridge.ErrNotFound)

// ErrHeldBack is a message that was not sent because an earlier one of its
// ordering key was not, or may not have been: it must not overtake. It comes
// with the meaning ErrUnavailable where the earlier one can be tried again,
// else with ErrConflict.
var ErrHeldBack = errors.New("held back behind an earlier message of its ordering key")

// wrapped is fmt.Errorf("%w: %w", meaning, cause) with a text that is safe to
// show: without the service's words where those may quote the message.
type wrapped struct {
	meaning, cause error
	text           string
}

// Error implements error.
func (w *wrapped) Error() string { return w.text }

// Unwrap gives errors.Is and errors.As the meaning and the cause.
func (w *wrapped) Unwrap() []error { return []error{w.meaning, w.cause} }

// wrap adds the root's meaning to the error of one call. Sent says whether the
// request reached a connection: what did not was surely not carried out.
func wrap(err error, sent bool) error {
	if err == nil {
		return nil
	}
	s := statusOf(err)
	meaning := meaningOf(s, sent)
	text := fmt.Sprintf("%v: %s", meaning, s.Code())
	if reason := reasonOf(s); reason != "" {
		text += " (" + reason + ")"
	}
	// The service explains a refused message by quoting it (attribute names,
	// values, ordering keys, ack ids), so its words stay in the cause.
	if s.Code() != codes.InvalidArgument && s.Message() != "" {
		text += ": " + dlqbridge.CutText(s.Message(), 300)
	}
	return &wrapped{meaning, err, text}
}

// statusOf reads the status of an error of the client; the context's own
// errors have one too.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, err.Error())
	}
	return status.New(codes.Unknown, err.Error())
}

// meaningOf goes by the codes (page "Pub/Sub error codes", read 2026-11-30).
// ErrThrottled and ErrUnavailable say that nothing was carried out, so what is
// not understood is ErrUnclear.
func meaningOf(s *status.Status, sent bool) error {
	switch s.Code() {
	case codes.NotFound:
		return dlqbridge.ErrNotFound
	case codes.AlreadyExists:
		return dlqbridge.ErrExists
	case codes.PermissionDenied:
		return dlqbridge.ErrDenied
	case codes.Unauthenticated:
		return dlqbridge.ErrCredentials
	case codes.ResourceExhausted:
		switch {
		case strings.Contains(s.Message(), "grpc: received message larger than max"):
			return dlqbridge.ErrUnclear // it was carried out; we could not take the answer
		case strings.Contains(s.Message(), "trying to send message larger than max"):
			return dlqbridge.ErrTooLarge
		}
		return dlqbridge.ErrThrottled // a quota
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return dlqbridge.ErrInvalid
	case codes.Internal:
		// Our own side of the connection refuses to encode what is no UTF-8.
		if !sent && strings.Contains(s.Message(), "error while marshaling") {
			return dlqbridge.ErrInvalid
		}
	}
	if !sent {
		return dlqbridge.ErrUnavailable
	}
	return dlqbridge.ErrUnclear
}

// reasonOf is the machine-readable reason of an answer, empty if there is none.
func reasonOf(s *status.Status) string {
	if info := infoOf(s); info != nil {
		return info.GetReason()
	}
	return ""
}

func infoOf(s *status.Status) *errdetails.ErrorInfo {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}
