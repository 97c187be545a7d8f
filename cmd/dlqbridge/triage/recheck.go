package triage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Recheck judges a record anew if its recheckAt is due, as the machine: nobody
// has looked, so whatever waits for a person goes on waiting. It says whether
// the record was moved; somebody else's move meanwhile is fine, since that has
// judged anew too.
func (m Mover) Recheck(ctx context.Context, id string) (bool, error) {
	c, err := m.Store.Case(ctx, id)
	if err != nil {
		return false, err
	}
	now := m.Now().UTC().Truncate(time.Millisecond)
	from := c.Control
	if from.RecheckAt.IsZero() || from.RecheckAt.After(now) || !dlqbridge.VerbRecheck.Allows(from.Status, from.Status) {
		return false, nil
	}
	j, err := m.Judge(ctx, c, nil)
	if err != nil {
		return false, err
	}
	to := j.Apply(from)
	if !dlqbridge.VerbRecheck.Allows(from.Status, to.Status) {
		return false, fmt.Errorf("recheck %s: it would lead from %s to %s", id, from.Status, to.Status)
	}
	to.Version = from.Version + 1
	to.Move = dlqbridge.Move{
		Version: to.Version, At: now, By: j.By, Verb: dlqbridge.VerbRecheck, From: from.Status, To: to.Status,
		Why: dlqbridge.CutText(string(j.Decision.Why), maxWhy), Context: j.Context.Name,
	}
	if err := m.Store.Put(ctx, []dlqbridge.Evidence{{Record: id, Item: j.Context}})[0]; err != nil {
		return false, fmt.Errorf("recheck %s: %w", id, err)
	}
	err = m.Store.Move(ctx, []dlqbridge.Step{{From: from, To: to}})[0]
	if errors.Is(err, dlqbridge.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("recheck %s: %w", id, err)
	}
	return true, nil
}
