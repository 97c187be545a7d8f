package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// late is a record whose work has lost its sense, as it was judged.
type late struct {
	control   dlqbridge.Control
	judgement Judgement
}

// cancels says whether policy closes what has expired on a record's route.
// An open incident is a person's to close.
func (c *Controller) cancels(ctl dlqbridge.Control, x *dlqbridge.Exclusion) bool {
	if x == nil || x.Reason != dlqbridge.ExcludeExpired || ctl.Claim != nil || ctl.Status == dlqbridge.StatusIncidentOpen {
		return false
	}
	route, ok := c.o.Route(ctl.Route)
	return ok && route.CancelExpired
}

// expire is the move that closes a record whose work has lost its sense. Its
// context must be durable before.
func (c *Controller) expire(l late) dlqbridge.Step {
	to, now := l.judgement.Applied, c.clock()
	to.Status, to.Action, to.Why = dlqbridge.StatusCancelledExpired, dlqbridge.ActionNone, dlqbridge.WhyExpired
	to.Authorized, to.ClosedAt, to.RecheckAt = nil, now, time.Time{}
	verb := dlqbridge.VerbRecheck
	if l.control.Status == dlqbridge.StatusAuthorized {
		verb = dlqbridge.VerbLapse
	}
	return step(l.control, to, dlqbridge.Move{
		At: now, By: PolicyActor.String(), Verb: verb, Why: "past valid_until; auto_cancel_expired", Context: l.judgement.Context.Name,
	})
}

// cancelExpired closes what a run has found expired, where policy may. Nothing
// is sent for it, so it needs no lease: somebody who moves one first wins.
//
// Crash at any point: what is closed is closed, the rest is found again.
func (c *Controller) cancelExpired(ctx context.Context, list List[dlqbridge.Member]) error {
	for chunk, err := range chunks(list.All(), readChunk) {
		if err != nil {
			return err
		}
		controls, err := c.read(ctx, idsOf(chunk))
		if err != nil {
			return err
		}
		var asks []Ask
		for _, m := range chunk {
			if ctl, ok := controls[m.ID]; ok && ctl.Version == m.Version {
				asks = append(asks, Ask{Control: ctl})
			}
		}
		var evidence []dlqbridge.Evidence
		var steps []dlqbridge.Step
		for i, j := range c.judge(ctx, asks) {
			ctl := asks[i].Control
			if j.Err != nil {
				return fmt.Errorf("judge %s: %w", ctl.ID, j.Err)
			}
			if c.cancels(ctl, unsendable(ctl, j, c.clock())) {
				evidence = append(evidence, dlqbridge.Evidence{Record: ctl.ID, Item: j.Context})
				steps = append(steps, c.expire(late{ctl, j}))
			}
		}
		for i, err := range c.put(ctx, evidence) {
			if err != nil {
				return fmt.Errorf("keep what was found about %s: %w", evidence[i].Record, err)
			}
		}
		for i, err := range c.move(ctx, steps) {
			if err != nil && !errors.Is(err, dlqbridge.ErrConflict) {
				return fmt.Errorf("close %s as expired: %w", steps[i].From.ID, err)
			}
		}
	}
	return nil
}
