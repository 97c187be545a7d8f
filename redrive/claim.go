package redrive

import (
	"context"
	"errors"
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
// old as it was. What cannot be taken back now the next adopter takes back.
func (r *runner) unclaim(ctx context.Context, items []item, why string) {
	ctx, cancel := r.finishing(ctx)
	defer cancel()
	var steps []dlqbridge.Step
	for _, it := range items {
		if it.earlier == nil {
			steps = append(steps, Unsend(it.control, dlqbridge.VerbRelease, r.job.By.String(), why, "", r.clock()))
		}
	}
	for i, err := range r.move(ctx, steps) {
		if err != nil {
			r.o.Log.Warn("a claim could not be taken back", "record", steps[i].From.ID, "error", err)
		}
	}
}
