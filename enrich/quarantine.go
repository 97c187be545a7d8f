package enrich

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// strip leaves of a parcel what must be storable whatever the letter holds: its
// bytes, the transport's own facts, and an identity that no sender's text is
// part of.
func (p *parcel) strip() {
	a := bare(p.letter)
	a.System, a.Trace = nil, ""
	p.arrival = a
	p.unit = unit{identity: dlqbridge.IdentityMessage, source: p.unit.source, key: "bare:" + a.Key}
	p.episode, p.previous, p.returned, p.resolved = 0, "", nil, true
	p.record, p.put, p.bare, p.err = p.unit.id(0), "", true, nil
}

// stripped is the judgement of a letter that was stored bare.
func (j Judgement) stripped() Judgement {
	j.Decision = dlqbridge.Decision{Action: dlqbridge.ActionHumanReview, Status: dlqbridge.StatusUnderInvestigation, Why: WhyBare}
	j.Context.Reason = "This letter could not be stored with what it carries; only its bytes are kept. Somebody must look at them."
	return j
}

// fatal says whether an error is about us and not about the letter.
func fatal(err error) bool {
	return errors.Is(err, dlqbridge.ErrDenied) || errors.Is(err, dlqbridge.ErrNotFound) || errors.Is(err, dlqbridge.ErrCredentials)
}

// firstRefusals is how many refusals, of different letters or of one again and
// again, mean that the store refuses everything while it has never accepted a
// letter; manyRefusals is how many different letters in a row must be refused
// by one that has.
const (
	firstRefusals = 3
	manyRefusals  = 30
)

// refused ends a run whose writes are all refused: rights, a table or
// credentials are missing, and no letter is to blame. One letter that is
// refused among others that are not stays where it is and stops nobody.
func (r *reading) refused(open, failed []*parcel) error {
	for _, p := range failed {
		if !fatal(p.err) {
			return nil
		}
	}
	if len(failed) == 0 || len(open) > 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = missing("store letters of", r.letters.Place(), failed[0].err)
	for _, p := range failed {
		if !r.stored || !r.unstored.knows(p.arrival.Key) {
			r.refusals++
		}
	}
	if r.refusals < firstRefusals || r.stored && r.refusals < manyRefusals {
		return nil
	}
	return r.refusal
}

// accepted notes that the store takes letters.
func (r *reading) accepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored, r.refusals, r.refusal = true, 0, nil
}

// quarantine leaves a letter where it is that nothing could be written for. It
// is hidden with a growing back-off, so that it neither blocks others nor comes
// in a hot loop, and counted.
func (r *reading) quarantine(ctx context.Context, p *parcel) {
	d, first := r.unstored.add(p.arrival.Key, p.letter.Deliveries, r.in.o.Now())
	if first {
		r.log.LogAttrs(ctx, slog.LevelError, "letter could not be stored and stays in the queue",
			slog.String("letter_id", p.arrival.MessageID), slog.String("reason", p.err.Error()))
	}
	r.observe(Event{Kind: EventUnstored, N: 1})
	// Not hidden, or dead before that: it comes again after the place's own
	// visibility timeout, which is a back-off too.
	r.hide(ctx, p.all(), d)
}

// delete removes the letters of parcels that are done. A record reflects each
// of them by now; one that cannot be deleted comes again, is recognised and
// deleted then. Without the right to delete it would come again for ever, so
// that ends the run.
func (r *reading) delete(ctx context.Context, all []*parcel) error {
	letters := make([]dlqbridge.Letter, 0, len(all))
	for _, p := range all {
		if p.done {
			letters = append(letters, p.all()...)
			r.unstored.forget(p.arrival.Key)
		}
	}
	if len(letters) == 0 {
		return nil
	}
	r.accepted()
	failed, denied := 0, 0
	var reason error
	for _, err := range r.letters.Delete(ctx, letters) {
		if err != nil {
			failed++
			reason = err
		}
		if errors.Is(err, dlqbridge.ErrDenied) {
			denied++
		}
	}
	r.observe(Event{Kind: EventDeleted, N: len(letters) - failed})
	if failed > 0 {
		r.log.LogAttrs(ctx, slog.LevelWarn, "stored letters not deleted, they come again and are recognised",
			slog.Int("letters", failed), slog.String("reason", reason.Error()))
		r.observe(Event{Kind: EventDeleteFailed, N: failed})
	}
	if denied == len(letters) {
		return fmt.Errorf("delete %d stored letters: %w", denied, reason)
	}
	return nil
}

// all is the letter with its copies, the newest handle last.
func (p *parcel) all() []dlqbridge.Letter {
	return append([]dlqbridge.Letter{p.letter}, p.copies...)
}

// withoutLost lets go of letters whose time in hand is over.
func (r *reading) withoutLost(open []*parcel) []*parcel {
	var kept []*parcel
	for _, p := range open {
		if !p.lost.Load() {
			kept = append(kept, p)
		}
	}
	if n := len(open) - len(kept); n > 0 {
		r.observe(Event{Kind: EventLost, N: n})
	}
	return kept
}

// giveBackWithin bounds the last call for letters in hand.
const giveBackWithin = 5 * time.Second

// giveBack makes letters visible at once. It has a time of its own, since the
// time for finishing may be over.
func (r *reading) giveBack(ctx context.Context, open []*parcel) {
	var letters []dlqbridge.Letter
	for _, p := range open {
		letters = append(letters, p.all()...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackWithin)
	defer cancel()
	r.hide(ctx, letters, 0)
}

// hide changes when letters come again; where it fails they come after the
// place's own timeout, so the error needs no more than a line.
func (r *reading) hide(ctx context.Context, letters []dlqbridge.Letter, d time.Duration) {
	if len(letters) == 0 {
		return
	}
	if err := errors.Join(r.letters.Hide(ctx, letters, d)...); err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "hide failed", slog.Int("letters", len(letters)), slog.String("reason", err.Error()))
	}
}
