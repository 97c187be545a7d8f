package awsdynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// AddApproval implements dlqbridge.Approvals. Each approval is an item of its
// own, written once: that it is not there yet is the condition.
func (s *Store) AddApproval(ctx context.Context, a dlqbridge.Approval) error {
	a.At = bounded(a.At).UTC()
	if err := s.addApproval(ctx, a); err != nil {
		return fmt.Errorf("keep the approval of plan %s: %w", a.Plan, err)
	}
	return nil
}

func (s *Store) addApproval(ctx context.Context, a dlqbridge.Approval) error {
	if a.Plan == "" || a.By.Name == "" {
		return fmt.Errorf("%w: it needs a plan's hash and who approves it", dlqbridge.ErrInvalid)
	}
	it, err := docItem(approvalKey(a), a)
	if err != nil {
		return fmt.Errorf("%w: encode it: %w", dlqbridge.ErrInvalid, err)
	}
	it[attrToken] = text(newToken())
	err = s.putIf(ctx, it, s.absent())
	if refused, ok := errors.AsType[*refusedError](err); ok {
		if textOf(refused.existing, attrDoc) == textOf(it, attrDoc) {
			return nil // said twice in one millisecond is said once
		}
		return s.explain(keyOf(it), dlqbridge.ErrExists, "they approved it in the same moment with other words")
	}
	return err
}

// ListApprovals implements dlqbridge.Approvals.
func (s *Store) ListApprovals(ctx context.Context, plan string) ([]dlqbridge.Approval, error) {
	var out []dlqbridge.Approval
	var failed error
	err := s.query(ctx, partition(s.records, approvalPK(plan), ""), func(it item) bool {
		var a dlqbridge.Approval
		if failed = decodeDoc(it, &a); failed != nil {
			return false
		}
		out = append(out, a)
		return true
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("read the approvals of plan %s: %w", plan, err)
	}
	return out, nil
}
