package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// A plan can be approved by a second person: who approves names its hash, and
// with it each member at the version that was planned. Whoever runs the plan is
// the first of the two. Who planned it is neither: a plan is a proposal, and
// anybody may make one. The approval stands in the note of each authorisation
// that was given on it, so that history says who the two were, and each later
// look at the record counts both.
//
// Crash before an approval is kept: there is none. After it: it waits for a run.

// SecondPersonError says that a run needs a plan that a second person approved.
type SecondPersonError struct {
	// Plan is the hash of the plan that lacks it; empty where there is no plan.
	Plan string
	Why  string
}

func (e *SecondPersonError) Error() string { return e.Why }

// Unwrap gives it a meaning.
func (e *SecondPersonError) Unwrap() error { return dlqbridge.ErrDenied }

// Approve keeps a person's approval of a plan as it stands. Approving again
// while an approval of the same person is valid changes nothing and returns it.
func (c *Controller) Approve(ctx context.Context, p Plan, by dlqbridge.Actor, reason string) (dlqbridge.Approval, error) {
	if err := p.Check(); err != nil {
		return dlqbridge.Approval{}, err
	}
	if err := c.belongs(p); err != nil {
		return dlqbridge.Approval{}, err
	}
	if !by.Authenticated {
		return dlqbridge.Approval{}, &SecondPersonError{Plan: p.Hash, Why: "the cloud does not say who you are, and a name that nobody has confirmed is no second person"}
	}
	if c.o.Approvals == nil {
		return dlqbridge.Approval{}, fmt.Errorf("approve plan %s: %w: approvals are kept nowhere", p.Hash, dlqbridge.ErrInvalid)
	}
	have, err := c.approvals(ctx, p.Hash)
	if err != nil {
		return dlqbridge.Approval{}, err
	}
	for _, a := range have {
		if a.By.Name == by.Name {
			return a, nil
		}
	}
	a := dlqbridge.Approval{Plan: p.Hash, By: by, At: c.clock(), Reason: dlqbridge.CutText(reason, dlqbridge.MaxReason)}
	if err := c.again(ctx, func() error { return c.o.Approvals.AddApproval(ctx, a) }); err != nil {
		return a, fmt.Errorf("approve plan %s: %w", p.Hash, err)
	}
	return a, nil
}

// ApprovedUntil is when an approval lapses, as an authorisation does.
func (c *Controller) ApprovedUntil(a dlqbridge.Approval) time.Time { return a.At.Add(c.o.AuthorizeTTL) }

// ApprovedBy are the approvals of a plan that count now, the newest first. It
// refuses the plans that a run refuses as a whole.
func (c *Controller) ApprovedBy(ctx context.Context, p Plan) ([]dlqbridge.Approval, error) {
	if err := errors.Join(p.Check(), c.belongs(p)); err != nil {
		return nil, err
	}
	return c.approvals(ctx, p.Hash)
}

// WhySecond says why a plan runs only after a second person approved it; empty
// where none is needed.
func (c *Controller) WhySecond(p Plan) string {
	switch {
	case p.Selected == 0:
		return ""
	case p.ForApproval:
		return "it was made for approval, so its records are authorised by two people"
	case c.wantsSecond(p.Selected):
		return fmt.Sprintf("it sends %d records, and from %d on (redrive.second_person_from) a second person approves the plan first", p.Selected, c.o.SecondPersonFrom)
	}
	return ""
}

// approvals are those of a plan that count now, the newest first.
func (c *Controller) approvals(ctx context.Context, plan string) ([]dlqbridge.Approval, error) {
	if c.o.Approvals == nil {
		return nil, nil
	}
	var all []dlqbridge.Approval
	if err := c.again(ctx, func() (err error) { all, err = c.o.Approvals.ListApprovals(ctx, plan); return err }); err != nil {
		return nil, fmt.Errorf("approvals of plan %s: %w", plan, err)
	}
	var out []dlqbridge.Approval
	for _, a := range slices.Backward(all) {
		if a.By.Authenticated && a.Plan == plan && !c.clock().After(c.ApprovedUntil(a)) {
			out = append(out, a)
		}
	}
	return out, nil
}

// second is the approval of a plan by somebody else than its runner; nil where
// there is none and none is needed.
func (c *Controller) second(ctx context.Context, p Plan, runner dlqbridge.Actor) (*dlqbridge.Approval, error) {
	have, err := c.approvals(ctx, p.Hash)
	if err != nil {
		return nil, err
	}
	needed := p.ForApproval || c.wantsSecond(p.Selected)
	if needed && !runner.Authenticated {
		return nil, &SecondPersonError{Plan: p.Hash, Why: "this plan is run by an authenticated person, and the cloud does not say who you are"}
	}
	for _, a := range have {
		if a.By.Name != runner.Name {
			return &a, nil
		}
	}
	switch {
	case !needed:
		return nil, nil
	case len(have) > 0:
		return nil, &SecondPersonError{Plan: p.Hash, Why: "you approved this plan yourself, so somebody else runs it or approves it too"}
	}
	return nil, &SecondPersonError{Plan: p.Hash, Why: fmt.Sprintf("nobody else has approved plan %s within %s", p.Hash, c.o.AuthorizeTTL)}
}

// wantsSecond says whether a run of that many records needs an approved plan.
func (c *Controller) wantsSecond(records int) bool {
	return c.o.SecondPersonFrom > 0 && records >= c.o.SecondPersonFrom
}

// mayGoAlone refuses a run without a plan of so many records that a second person
// must have agreed to it.
func (c *Controller) mayGoAlone(s *survey) error {
	n := 0
	for _, t := range s.targets {
		n += t.members.Len()
	}
	if !c.wantsSecond(n) {
		return nil
	}
	return &SecondPersonError{Why: fmt.Sprintf("it would send %d records, and from %d on a second person approves the plan first", n, c.o.SecondPersonFrom)}
}

// Two people who do not exist: a plan for approval is judged as if they stood
// behind it. Nothing of that is ever stored.
var (
	whoRuns     = dlqbridge.Actor{Name: "whoever runs the plan", Authenticated: true}
	whoApproves = dlqbridge.Actor{Name: "whoever approves the plan", Authenticated: true}
)
