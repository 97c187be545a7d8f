package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// note writes down what the broker answered, keyed by n: it is no move, so it
// needs no version and a slow note cannot overwrite a fast recurrence. It
// returns the items whose note is not durable.
//
// Crash before it: the journalled batch has no note, so the adopter writes
// in_doubt. After it and before the batch is taken out of the journal: the
// adopter sees the note.
func (r *runner) note(ctx context.Context, items []item, sends []dlqbridge.Send) (unnoted []item) {
	if len(items) == 0 {
		return nil
	}
	ctx, cancel := r.finishing(ctx)
	defer cancel()
	evidence := make([]dlqbridge.Evidence, len(items))
	for i, it := range items {
		evidence[i] = dlqbridge.Evidence{Record: it.control.ID, Item: sends[i]}
	}
	for i, err := range r.put(ctx, evidence) {
		if err != nil {
			unnoted = append(unnoted, items[i])
			r.fail(fmt.Errorf("note redrive %d of %s: %w", items[i].n, items[i].control.ID, err))
		}
	}
	return unnoted
}

// noteDoubt writes down that nobody knows whether a message went out, unless
// somebody knows better by now: where this holder slept, its successor may have
// sent under the same number and noted that.
func (c *Controller) noteDoubt(ctx context.Context, held dlqbridge.Control, s dlqbridge.Send) error {
	err := c.again(ctx, func() error { return c.o.Evidence.PutDoubt(ctx, held.ID, s) })
	if !errors.Is(err, dlqbridge.ErrExists) {
		return err
	}
	there, err := c.sends(ctx, map[string]int{held.ID: s.N})
	if err != nil {
		return err
	}
	if note, ok := there[held.ID]; ok && note.Outcome != dlqbridge.OutcomeInDoubt && !held.Outdated(note) {
		return nil
	}
	return c.putOne(ctx, held.ID, s)
}

// sendNote is the note of one send after that many requests of this runner.
func (r *runner) sendNote(it item, o dlqbridge.SendOutcome, at time.Time, messageID string, tries int, reason string) dlqbridge.Send {
	s := dlqbridge.Send{
		N: it.n, Job: it.control.Claim.Job, Action: actionOf(it.control), At: at, MessageID: messageID,
		Outcome: o, Marked: it.marked, Tries: tries, Reason: dlqbridge.CutText(reason, dlqbridge.MaxReason),
	}
	if it.earlier != nil {
		s.Tries += it.earlier.Tries
		if o == dlqbridge.OutcomeInDoubt {
			s.At = it.earlier.At // a FIFO queue's memory counts from the first
		}
	}
	return s
}
