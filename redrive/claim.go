package redrive

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// claim gives each record of a piece to the job, conditional on the version the
// gate saw, so that of any number of jobs and operators one wins (C61), and an
// index that lags behind selects nothing twice (C65).
//
// Crash before a claim: nothing happened. After it and before the journal: the
// claim names this job and stands in no journalled batch, so the adopter takes
// it back; nothing was sent.
func (r *runner) claim(ctx context.Context, piece []item) ([]item, []dlqbridge.Exclusion) {
	ctx, cancel := r.finishing(ctx) // a cut-off claim would be left to an adopter
	defer cancel()
	now := r.clock()
	// The claim may be adopted when the lease has ended; never "at once".
	until := later(r.journal.until(), now.Add(time.Second))
	steps := make([]dlqbridge.Step, len(piece))
	for i, it := range piece {
		if it.earlier != nil {
			steps[i] = reclaim(it.control, r.job, it.resend, until, now)
		} else {
			steps[i] = claim(it.control, r.job, until, now)
		}
	}
	var claimed []item
	var lost []dlqbridge.Exclusion
	for i, err := range r.move(ctx, steps) {
		switch {
		case err == nil:
			it := piece[i]
			it.control = steps[i].To
			claimed = append(claimed, it)
		case errors.Is(err, dlqbridge.ErrConflict):
			lost = append(lost, dlqbridge.Exclusion{ID: piece[i].control.ID, Reason: dlqbridge.ExcludeClaimed, Detail: "somebody else moved it first"})
		default:
			lost = append(lost, dlqbridge.Exclusion{ID: piece[i].control.ID, Reason: dlqbridge.ExcludeChanged, Detail: "it could not be claimed: " + err.Error()})
			r.fail(err)
		}
	}
	return claimed, lost
}

// unclaim takes back claims whose messages were surely not sent. A send in
// doubt that was to be repeated keeps its claim and its note: the doubt is as
// old as it was.
func (r *runner) unclaim(ctx context.Context, items []item, why string) {
	ctx, cancel := r.finishing(ctx)
	defer cancel()
	var held []dlqbridge.Control
	for _, it := range items {
		if it.earlier == nil {
			held = append(held, it.control)
		}
	}
	r.moveHeld(ctx, held, func(c dlqbridge.Control) dlqbridge.Step {
		return Unsend(c, dlqbridge.VerbRelease, r.job.By.String(), why, "", r.clock())
	})
}

// moveHeld moves records that this job has claimed. A person may have moved one
// meanwhile without touching the claim (a new owner, a late letter): then it is
// read and moved again, so that no claim is left behind. If one is, the lease
// is not given back but left to end, which makes the next holder look for it.
func (r *runner) moveHeld(ctx context.Context, held []dlqbridge.Control, to func(dlqbridge.Control) dlqbridge.Step) {
	for range r.o.Tries {
		if len(held) == 0 {
			return
		}
		steps := make([]dlqbridge.Step, len(held))
		for i, c := range held {
			steps[i] = to(c)
		}
		var again []dlqbridge.Control
		for i, err := range r.move(ctx, steps) {
			switch {
			case err == nil:
			case errors.Is(err, dlqbridge.ErrConflict):
				again = append(again, held[i])
			default:
				r.leftover(ctx, held[i].ID, err)
			}
		}
		ids := make([]string, len(again))
		for i, c := range again {
			ids[i] = c.ID
		}
		held = nil
		if len(ids) == 0 {
			return
		}
		now, err := r.read(ctx, ids)
		if err != nil {
			r.leftover(ctx, ids[0], err)
			return
		}
		for _, c := range again {
			if have, ok := now[c.ID]; ok && sameClaim(have.Claim, c.Claim) {
				held = append(held, have)
			}
		}
	}
	if len(held) > 0 {
		r.leftover(ctx, held[0].ID, dlqbridge.ErrConflict)
	}
}

// sameClaim says whether two claims are one. Job and number do not tell them
// apart: whoever takes a job over from a holder that sleeps frees its claims and
// claims the same records under the same number. The new claim ends later, since
// the old lease had ended by then. A holder that wakes up must find that the claim
// is no longer its own, or it would free what its successor has sent.
func sameClaim(a, b *dlqbridge.Claim) bool {
	return a != nil && b != nil && a.Job == b.Job && a.N == b.N && a.Until.UnixMilli() == b.Until.UnixMilli() // as exact as it is stored
}

// leftover notes that a claim stays behind.
func (r *runner) leftover(ctx context.Context, id string, err error) {
	r.o.Log.WarnContext(ctx, "a claim could not be taken back; the next job does it", slog.String("record", id), slog.Any("error", err))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
}
