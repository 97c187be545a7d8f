package awsdynamodb_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

func TestApprovalsAreKeptOncePerWord(t *testing.T) {
	b := open(t)
	have, err := b.ListApprovals(t.Context(), "hash")
	must(t, err)
	diff(t, "before the first", []dlqbridge.Approval(nil), have)
	ann := dlqbridge.Actor{Name: "arn:aws:iam::123456789012:user/ann", Authenticated: true}
	first := dlqbridge.Approval{Plan: "hash", By: ann, At: b.at(), Reason: "read"}
	must(t, b.AddApproval(t.Context(), first))
	must(t, b.AddApproval(t.Context(), first)) // its answer was lost
	other := first
	other.Reason = "not read"
	if err := b.AddApproval(t.Context(), other); !errors.Is(err, dlqbridge.ErrExists) {
		t.Errorf("replaced: %v", err)
	}
	later := first
	later.At = first.At.Add(time.Hour)
	must(t, b.AddApproval(t.Context(), later))
	must(t, b.AddApproval(t.Context(), dlqbridge.Approval{Plan: "another", By: ann, At: b.at()}))
	have, err = b.ListApprovals(t.Context(), "hash")
	must(t, err)
	diff(t, "kept", []dlqbridge.Approval{first, later}, have)
	if err := b.AddApproval(t.Context(), dlqbridge.Approval{By: ann, At: b.at()}); !errors.Is(err, dlqbridge.ErrInvalid) {
		t.Errorf("of no plan: %v", err)
	}
}
