package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// cut makes pieces that each fit in one request, by count and by bytes (C04).
func cut(items []item, count int, facts dlqbridge.DestinationFacts) [][]item {
	var pieces [][]item
	var piece []item
	bytes := 0
	for _, it := range items {
		size := it.out.Size()
		if len(piece) > 0 && (len(piece) == count || facts.BatchBytes > 0 && bytes+size > facts.BatchBytes) {
			pieces = append(pieces, piece)
			piece, bytes = nil, 0
		}
		piece = append(piece, it)
		bytes += size
	}
	if len(piece) > 0 {
		pieces = append(pieces, piece)
	}
	return pieces
}

// send takes a piece through claim, journal, send and note, and returns the ids
// that were not sent for a reason of their own. When ctx ends nothing more is
// claimed; what is claimed by then is brought to an end.
//
// Crash before the request: the journalled batch has no note and is in doubt
// although nothing went out; only evidence or a person says so. Crash after it:
// the same. That is the price of never sending twice in silence.
func (r *runner) send(ctx context.Context, piece []item, admitted int) map[string]bool {
	failed := map[string]bool{}
	if ctx.Err() != nil {
		r.pace.withdraw(admitted)
		for _, it := range piece {
			failed[it.control.ID] = true
			r.leave(it.control.ID)
		}
		return failed
	}
	piece, lost := r.claim(ctx, piece)
	for _, x := range lost {
		failed[x.ID] = true
		r.exclude(x)
	}
	if len(piece) == 0 {
		r.pace.withdraw(admitted)
		return failed
	}
	release, err := r.due(ctx, len(piece), admitted)
	if err != nil {
		r.pace.withdraw(admitted)
		r.unclaim(ctx, piece, "the job stopped before it was sent")
		for _, it := range piece {
			failed[it.control.ID] = true
			r.leave(it.control.ID)
		}
		return failed
	}
	defer release()
	batch := dlqbridge.Batch{At: r.clock()}
	for _, it := range piece {
		batch.Members = append(batch.Members, dlqbridge.BatchMember{ID: it.control.ID, N: it.n})
	}
	id := dlqbridge.NewToken()
	if err := r.journal.open(id, batch); err != nil {
		// Whether or not the journal write took hold, this batch is not sent.
		r.pace.refund(len(piece))
		r.fail(err)
		r.unclaim(ctx, piece, "the job lost its lease before it was sent")
		return failed
	}
	d := delivery{runner: r, batch: batch, failed: failed}
	if d.deliver(ctx, piece) {
		r.journal.close(id)
	}
	return failed
}

// due waits for a place in the journal and for the pace. The place is free
// again when release is called.
func (r *runner) due(ctx context.Context, n, admitted int) (release func(), err error) {
	select {
	case r.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release = func() { <-r.places }
	if err := r.pace.reserve(ctx, n, admitted); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// delivery is one journalled batch on its way out.
type delivery struct {
	*runner
	batch   dlqbridge.Batch
	failed  map[string]bool
	unnoted int
}

// deliver sends until each message has an answer. It returns whether the batch
// may be taken out of the journal: everything is noted or released.
//
// A message that was surely not carried out is sent again under the same
// number: its journal entry still stands. One whose answer was lost is sent
// again only where a FIFO queue drops the copy.
func (d *delivery) deliver(ctx context.Context, piece []item) bool {
	for try := 1; len(piece) > 0; try++ {
		if try > 1 {
			var ok bool
			if piece, ok = d.before(ctx, piece, try); !ok {
				break
			}
		}
		deadline, err := d.journal.deadline()
		if err != nil {
			d.pace.refund(len(piece))
			d.fail(err)
			d.giveUp(ctx, piece, try-1, "the lease was lost before it was sent")
			break
		}
		piece = d.request(ctx, piece, try, deadline)
	}
	return d.unnoted == 0
}

// before is asked before each repetition: the pause, the pace, and once more
// job and holds. It returns what is still to be sent; false is nothing.
func (d *delivery) before(ctx context.Context, piece []item, try int) ([]item, bool) {
	if try > d.o.Tries {
		d.giveUp(ctx, piece, try-1, "the destination did not take it")
		d.stop(haltFailed, "the destination keeps refusing for now; what is left can be continued later")
		return nil, false
	}
	if !pause(ctx, d.backoff(try-1)) {
		d.giveUp(ctx, piece, try-1, "the job stopped before it was sent")
		return nil, false
	}
	ids := make([]string, len(piece))
	for i, it := range piece {
		ids[i] = it.control.ID
	}
	look, cancel := d.finishing(ctx)
	var view dlqbridge.View
	err := d.again(look, func() (err error) {
		view, err = d.o.Gate.Look(look, ids, d.job.ID)
		return err
	})
	cancel()
	if err == nil {
		err = d.jobMay(view.Job)
	}
	if err != nil {
		d.giveUp(ctx, piece, try-1, "the job stopped before it was sent")
		if !errors.Is(err, dlqbridge.ErrConflict) {
			d.fail(err)
		}
		return nil, false
	}
	var on, off []item
	for _, it := range piece {
		c, now := view.Controls[it.control.ID], d.clock()
		switch {
		case !sameClaim(c.Claim, it.control.Claim), c.Late != it.control.Late: // settled by a person, or another letter came
			off = append(off, it)
			d.exclude(dlqbridge.Exclusion{ID: it.control.ID, Reason: dlqbridge.ExcludeChanged, Detail: "somebody moved it meanwhile"})
		case held(c, view.Holds, d.job.Destination, now) != nil:
			off = append(off, it)
			d.exclude(*held(c, view.Holds, d.job.Destination, now))
		case it.unclear && (it.earlier == nil || it.resend == resendFIFO) && !d.dropsCopies(it, d.firstAt(it), now):
			off = append(off, it)
		default:
			on = append(on, it)
		}
	}
	d.giveUp(ctx, off, try-1, "not sent again")
	if len(on) == 0 {
		return nil, false
	}
	if err := d.pace.reserve(ctx, len(on), 0); err != nil {
		d.giveUp(ctx, on, try-1, "the job stopped before it was sent")
		return nil, false
	}
	return on, true
}

// giveUp ends what will not be sent (again) by this delivery: what was surely
// not sent is released, what may be out is in doubt.
func (d *delivery) giveUp(ctx context.Context, piece []item, tries int, why string) {
	var surely, doubtful []item
	for _, it := range piece {
		d.failed[it.control.ID] = true
		if it.unclear {
			doubtful = append(doubtful, it)
		} else {
			surely = append(surely, it)
			d.leave(it.control.ID)
		}
	}
	d.unclaim(ctx, surely, why)
	d.doubt(ctx, doubtful, tries, why)
}

func (d *delivery) doubt(ctx context.Context, items []item, tries int, why string) {
	ctx, cancel := d.finishing(ctx)
	defer cancel()
	for _, it := range items {
		d.failed[it.control.ID] = true
		d.count(dlqbridge.OutcomeInDoubt, it)
		s := d.sendNote(it, dlqbridge.OutcomeInDoubt, d.batch.At, "", tries, why)
		if err := d.noteDoubt(ctx, it.control, s); err != nil {
			d.unnoted++
			d.fail(fmt.Errorf("note redrive %d of %s: %w", it.n, it.control.ID, err))
		}
	}
}

// request makes exactly one request and deals with each answer by itself (C02).
// It returns what is to be sent again.
func (d *delivery) request(ctx context.Context, piece []item, try int, deadline time.Time) (again []item) {
	out := make([]dlqbridge.Outgoing, len(piece))
	for i, it := range piece {
		out[i] = it.out
	}
	// The request is not bound to ctx: a request cut off in the middle would
	// only make doubts. Its deadline lies inside the lease.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline.Sub(d.clock()))
	results := d.dest.Send(bounded, out)
	cancel()
	at := d.clock()

	var sent, doubtful []item
	var notes []dlqbridge.Send
	var refused []dlqbridge.Control
	refusals := map[string]string{}
	unclear := 0
	for i, it := range piece {
		res := dlqbridge.SendResult{Err: dlqbridge.ErrUnclear}
		if i < len(results) {
			res = results[i]
		}
		switch err := res.Err; {
		case err == nil:
			sent = append(sent, it)
			notes = append(notes, d.sendNote(it, dlqbridge.OutcomeSent, at, res.MessageID, try, it.resend))
		case errors.Is(err, dlqbridge.ErrUnclear):
			unclear++
			it.unclear = true
			if d.dropsCopies(it, d.firstAt(it), at) {
				again = append(again, it)
			} else {
				doubtful = append(doubtful, it)
			}
		case dlqbridge.Retryable(err):
			again = append(again, it)
		case errors.Is(err, dlqbridge.ErrNotFound), errors.Is(err, dlqbridge.ErrDenied):
			// Not this message's fault: it holds for all of them (C76).
			d.unusable(err)
			d.giveUp(ctx, []item{it}, try, "the destination cannot be used")
		case it.unclear: // refused now, but an earlier try may be out
			doubtful = append(doubtful, it)
		default:
			d.failed[it.control.ID] = true
			reason := dlqbridge.ExcludeRefused
			if errors.Is(err, dlqbridge.ErrTooLarge) {
				reason = dlqbridge.ExcludeTooLarge
			}
			d.exclude(dlqbridge.Exclusion{ID: it.control.ID, Reason: reason, Detail: err.Error()})
			d.count(dlqbridge.OutcomeRefused, it)
			refused = append(refused, it.control)
			refusals[it.control.ID] = "the destination refused it: " + err.Error()
		}
	}
	// What has an answer is no longer under way. A lost answer's message may
	// still be, until the deadline at the latest.
	d.pace.arrived(len(piece) - unclear)
	if unclear > 0 {
		time.AfterFunc(max(0, deadline.Sub(at)), func() { d.pace.arrived(unclear) })
	}
	unnoted := d.note(ctx, sent, notes)
	d.unnoted += len(unnoted)
	for _, it := range sent {
		d.count(dlqbridge.OutcomeSent, it)
		// Its group need not wait for what this batch still tries again.
		d.lineup.finished(it.control.ID, false)
	}
	moving, cancel := d.finishing(ctx)
	defer cancel()
	d.moveHeld(moving, refused, func(c dlqbridge.Control) dlqbridge.Step {
		return refuse(c, d.job.By.String(), refusals[c.ID], at)
	})
	d.doubt(ctx, doubtful, try, fmt.Sprintf("the answer of try %d was lost", try))
	return again
}

// firstAt is when a message was first journalled under its number.
func (d *delivery) firstAt(it item) time.Time {
	if it.earlier != nil {
		return it.earlier.At
	}
	return d.batch.At
}
