package enrich

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// maxJoins bounds how often one letter meets a record that changed meanwhile
// before it waits like for a throttled store.
const maxJoins = 8

// join adds a letter to a record that exists. Seen is its control item as just
// read, nil if it was not. Each round looks at the record anew and makes one
// conditional move, so two intakes that hold the same letter, or two letters of
// one task, cannot both win.
func (r *reading) join(ctx context.Context, p *parcel, seen *dlqbridge.Control) error {
	if seen != nil && (seen.Newest == p.arrival.Key || seen.Move.Arrival == p.arrival.Key) {
		r.known(p, seen) // the most usual case needs no further read
		return nil
	}
	for range maxJoins {
		c, err := r.in.o.Cases.Case(ctx, p.record)
		if err != nil {
			return fmt.Errorf("read record %s: %w", p.record, err)
		}
		if c.Reflects(p.arrival.Key) {
			r.known(p, &c.Control)
			return nil
		}
		if c.Control.Status.Closed() {
			// Closed stays closed: a letter never changes such a record, it opens the
			// next one.
			return r.next(ctx, p, c.Control)
		}
		kind, to := r.step(ctx, p, c)
		if err := r.name(ctx, p, to); err != nil {
			return err
		}
		// Dying before this move leaves the letter where it is and evidence that
		// nobody names; dying after it, a letter that is recognised by its name.
		err = r.in.o.Controls.Move(ctx, []dlqbridge.Step{{From: c.Control, To: to.control}})[0]
		switch {
		case err == nil:
			r.moved(p, kind, &to.control)
			return nil
		case errors.Is(err, dlqbridge.ErrConflict):
			continue // somebody moved first: look again
		case errors.Is(err, dlqbridge.ErrUnclear):
			p.uncertain = true
		}
		return fmt.Errorf("add letter to record %s: %w", p.record, err)
	}
	return fmt.Errorf("add letter to record %s: %w: %d times in a row", p.record, dlqbridge.ErrConflict, maxJoins)
}

// target is where a letter takes a record, with the context that the move names.
type target struct {
	control dlqbridge.Control
	context *dlqbridge.Context
}

// step decides what a letter does to an open record: a recurrence ends the
// redrive that sent it; any other letter during a redrive is late; otherwise
// the record is judged anew with it.
func (r *reading) step(ctx context.Context, p *parcel, c dlqbridge.Case) (EventKind, target) {
	now := saneTime(r.in.o.Now())
	from := c.Control
	to := from
	to.Version++
	to.Arrivals++
	to.Newest = p.arrival.Key
	to.LastSeen, to.LostAt = p.at, p.arrival.LostAt
	move := dlqbridge.Move{
		Version: to.Version, At: now, By: r.enricher.route.Policy, Verb: dlqbridge.VerbReceive, From: from.Status, Arrival: p.arrival.Key,
	}
	kind := EventArrival
	back := returnOf(p, c)
	switch {
	case from.Claim != nil && back != nil && back.n == from.Claim.N:
		kind, move.Verb = EventRecurrence, dlqbridge.VerbRecur
		to.Claim, to.Authorized = nil, nil
	case from.Claim != nil || from.Status == dlqbridge.StatusRedriving:
		to.Late = true
		move.To, move.Why = to.Status, string(WhyLate)
		to.Move = move
		return EventLate, target{control: to}
	case back != nil:
		kind = EventRecurrence // its observation had ended without an outcome
	}
	if back != nil {
		to.Recurrences++
		move.Job, move.N = back.job, back.n
		// It went out, even if that was settled otherwise: its number is used.
		to.Redrives = max(to.Redrives, back.n)
		c.Control.Redrives = to.Redrives
	}
	j := r.enricher.Judge(ctx, now, []Subject{{Case: c, Arrival: &p.arrival, Payload: &p.letter.Payload, Deliveries: p.letter.Deliveries}})[0]
	to = j.Apply(to)
	move.To, move.Why, move.Context = to.Status, string(to.Why), to.Context
	to.Move = move
	return kind, target{control: to, context: &j.Context}
}

// name makes the context durable that the coming move names, and the letter's
// own evidence where that stands under another record.
func (r *reading) name(ctx context.Context, p *parcel, to target) error {
	var contexts map[*parcel]*dlqbridge.Context
	if to.context != nil {
		contexts = map[*parcel]*dlqbridge.Context{p: to.context}
	}
	r.putEvidence(ctx, []*parcel{p}, contexts)
	err := p.err
	p.err = nil
	return err
}

// next opens the record that continues a closed one.
func (r *reading) next(ctx context.Context, p *parcel, closed dlqbridge.Control) error {
	p.previous = closed.ID
	if p.unit.identity == closed.Identity && p.unit.id(closed.Episode) == closed.ID {
		p.episode = closed.Episode + 1
	} else {
		// It came back to this record by our mark or by its message id, and its own
		// identity is another: that one names the new record.
		p.episode = 0
	}
	p.record, p.returned = p.unit.id(p.episode), nil
	if p.record == closed.ID { // its own first record is the closed one
		p.episode++
		p.record = p.unit.id(p.episode)
	}
	r.store(ctx, []*parcel{p})
	return p.err
}

// returnOf says which send of the record this letter is the return of: by our
// mark or by the message id noted for it; nil if of none.
func returnOf(p *parcel, c dlqbridge.Case) *returned {
	if p.returned != nil {
		return p.returned
	}
	if m := p.arrival.Mark; m != nil && m.Record == c.Control.ID {
		if cl := c.Control.Claim; cl != nil && cl.Job == m.Job && cl.N == m.N {
			return &returned{m.Job, m.N}
		}
		for _, s := range c.Sends {
			if s.Job == m.Job && s.N == m.N {
				return &returned{m.Job, m.N}
			}
		}
	}
	for _, s := range c.Sends {
		if s.MessageID != "" && s.MessageID == p.arrival.MessageID {
			return &returned{s.Job, s.N}
		}
	}
	return nil
}
