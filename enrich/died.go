package enrich

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// WhyCompensation is the rule for a letter that is a compensation of ours that
// died. Nothing undoes an undoing by itself: a person must look.
const WhyCompensation dlqbridge.Why = "compensation_died"

// compensation is the mark of a compensation by its body, for one whose
// attributes somebody has stripped; nil if it is none.
func (x *extraction) compensation() *dlqbridge.Mark {
	var c struct {
		Kind, Record, Job, IdempotencyKey string
		N                                 int
	}
	// Most bodies need no reading to be known as none: JSON can write the kind
	// only as it is or with \u.
	body := x.letter.Payload.Body
	if !bytes.Contains(body, []byte(dlqbridge.CompensationKind)) && !bytes.Contains(body, []byte(`\u`)) ||
		json.Unmarshal(body, &c) != nil || c.Kind != dlqbridge.CompensationKind {
		return nil
	}
	text, err := json.Marshal(dlqbridge.Mark{Record: c.Record, Job: c.Job, N: c.N, Action: dlqbridge.ActionCompensate, Idem: c.IdempotencyKey})
	if err != nil {
		return nil
	}
	m, err := dlqbridge.ParseMark(text)
	if err != nil {
		return nil
	}
	return &m
}

// isCompensation says whether a letter is a compensation, as it says itself.
// Whoever forges that only has a person look at his own letter.
func isCompensation(a *dlqbridge.Arrival) bool {
	return a.Mark != nil && a.Mark.Action == dlqbridge.ActionCompensate
}

// died ends the redrive of the record whose compensation this letter is: it is
// a recurrence, and the letter becomes a record of its own. Only the claim's own
// job and number are believed, so that an old or a forged one ends nothing.
//
// Dying after this and before the letter's record is made leaves the letter where
// it is; it is received again and finds nothing left to end.
func (r *reading) died(ctx context.Context, p *parcel) error {
	m := p.arrival.Mark
	for range maxJoins {
		controls, err := r.in.o.Controls.Read(ctx, []string{m.Record})
		if err != nil {
			return fmt.Errorf("look up the record of a compensation: %w", err)
		}
		from, ok := controls[m.Record]
		if !ok || from.Claim == nil || from.Claim.Job != m.Job || from.Claim.N != m.N ||
			from.Authorized == nil || from.Authorized.Action != dlqbridge.ActionCompensate {
			return nil
		}
		to := from
		to.Version++
		to.Recurrences++
		to.Claim, to.Authorized = nil, nil
		to.Status = dlqbridge.StatusAwaitingOperationalDecision
		to.Move = dlqbridge.Move{
			Version: to.Version, At: saneTime(r.in.o.Now()), By: r.enricher.route.Policy, Verb: dlqbridge.VerbRecur,
			From: from.Status, To: to.Status, Why: "its compensation died: record " + p.record, Job: m.Job, N: m.N,
		}
		err = r.in.o.Controls.Move(ctx, []dlqbridge.Step{{From: from, To: to}})[0]
		switch {
		case err == nil:
			return nil
		case errors.Is(err, dlqbridge.ErrConflict):
			continue // somebody moved first: look again
		}
		return fmt.Errorf("end the compensation of record %s: %w", m.Record, err)
	}
	return fmt.Errorf("end the compensation of record %s: %w: %d times in a row", m.Record, dlqbridge.ErrConflict, maxJoins)
}
