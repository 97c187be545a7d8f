package gcppubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Each code has one meaning; whether the request reached a connection decides
// only where the code leaves it open.
func TestMeanings(t *testing.T) {
	lost, never := dlqbridge.ErrUnclear, dlqbridge.ErrUnavailable
	for _, tt := range []struct {
		err          error
		sent, unsent error
	}{
		{status.Error(codes.NotFound, ""), dlqbridge.ErrNotFound, dlqbridge.ErrNotFound},
		{status.Error(codes.AlreadyExists, ""), dlqbridge.ErrExists, dlqbridge.ErrExists},
		{status.Error(codes.PermissionDenied, ""), dlqbridge.ErrDenied, dlqbridge.ErrDenied},
		{status.Error(codes.Unauthenticated, ""), dlqbridge.ErrCredentials, dlqbridge.ErrCredentials},
		{status.Error(codes.ResourceExhausted, "Quota exceeded"), dlqbridge.ErrThrottled, dlqbridge.ErrThrottled},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), lost, lost},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (5 vs. 4)"), dlqbridge.ErrTooLarge, dlqbridge.ErrTooLarge},
		{status.Error(codes.InvalidArgument, ""), dlqbridge.ErrInvalid, dlqbridge.ErrInvalid},
		{status.Error(codes.FailedPrecondition, ""), dlqbridge.ErrInvalid, dlqbridge.ErrInvalid},
		{status.Error(codes.Unimplemented, ""), dlqbridge.ErrInvalid, dlqbridge.ErrInvalid},
		{status.Error(codes.Unavailable, ""), lost, never},
		{status.Error(codes.DeadlineExceeded, ""), lost, never},
		{status.Error(codes.Canceled, ""), lost, never},
		{status.Error(codes.Internal, ""), lost, never},
		{status.Error(codes.Internal, "grpc: error while marshaling: string field contains invalid UTF-8"), lost, dlqbridge.ErrInvalid},
		{status.Error(codes.Aborted, ""), lost, never},
		{status.Error(codes.Unknown, ""), lost, never},
		{context.DeadlineExceeded, lost, never},
		{errors.New("anything"), lost, never},
	} {
		for sent, want := range map[bool]error{true: tt.sent, false: tt.unsent} {
			got := wrap(tt.err, sent)
			if !errors.Is(got, want) || !errors.Is(got, tt.err) {
				t.Errorf("%v, sent %v: got %v, want %v with its cause", tt.err, sent, got, want)
			}
			if again := wrap(fmt.Errorf("again: %w", tt.err), sent); !errors.Is(again, want) {
				t.Errorf("%v wrapped, sent %v: got %v, want %v", tt.err, sent, again, want)
			}
		}
	}
	if wrap(nil, true) != nil {
		t.Error("no error has become one")
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct{ name, project, want string }{
		{"orders", "acme", "projects/acme/topics/orders"},
		{"projects/other/topics/orders", "acme", "projects/other/topics/orders"},
		{"orders", "", ""},
		{"projects/acme/subscriptions/orders", "acme", ""},
		{"projects/acme/topics", "acme", ""},
		{"projects//topics/orders", "acme", ""},
		{"projects/acme/topics/orders/more", "acme", ""},
		{"googorders", "acme", ""},
		{"ab", "acme", ""},
		{"1orders", "acme", ""},
	} {
		got, err := fullName(tt.name, tt.project, topicKind)
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("%q in %q: got %q and %v", tt.name, tt.project, got, err)
		}
	}
}

// A letter first, 3 to 255 characters; a project may begin with a digit and has at
// most 100. A line's end is none of them.
func TestCharactersOfNames(t *testing.T) {
	for name, want := range map[string]bool{
		"abc": true, "a-_.~+%9": true, "Z" + strings.Repeat("x", 254): true,
		"": false, "ab": false, "9bc": false, "-bc": false, "a b": false, "abc\n": false, "a:c": false, "äbc": false, "ab@": false, "ab[": false, "ab`": false,
		"Z" + strings.Repeat("x", 255): false,
	} {
		if got := isResourceID(name); got != want {
			t.Errorf("resource %q: %v", name, got)
		}
	}
	for name, want := range map[string]bool{
		"a": true, "9": true, "example.com:my-project": true, strings.Repeat("x", 100): true,
		"": false, "-a": false, ":a": false, "a_b": false, "a/b": false, "a\n": false, strings.Repeat("x", 101): false,
	} {
		if got := isProjectID(name); got != want {
			t.Errorf("project %q: %v", name, got)
		}
	}
}

// A call whose answer was lost is tried again only where it may be made twice,
// and credentials are never waited for.
func TestWhatIsTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		err    error
		policy func(retry.Policy) retry.Policy
		want   int
	}{
		{dlqbridge.ErrThrottled, surely, DefaultTries},
		{dlqbridge.ErrUnavailable, repeatable, DefaultTries},
		{dlqbridge.ErrUnclear, surely, 1},
		{dlqbridge.ErrUnclear, repeatable, DefaultTries},
		{dlqbridge.ErrCredentials, repeatable, 1},
		{dlqbridge.ErrDenied, repeatable, 1},
	} {
		tries := 0
		p := tt.policy(retry.Policy{Wait: func(context.Context, time.Duration) error { return nil }})
		if err := retry.Do(t.Context(), p, func(context.Context) error { tries++; return tt.err }); !errors.Is(err, tt.err) || tries != tt.want {
			t.Errorf("%v: %d tries, want %d; %v", tt.err, tries, tt.want, err)
		}
	}
}
