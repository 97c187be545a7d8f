package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// item is a member on its way from gate to note.
type item struct {
	control   dlqbridge.Control
	judgement Judgement
	out       dlqbridge.Outgoing
	marked    bool
	// n is the redrive number it goes out under.
	n int
	// earlier is the note of a send in doubt that is repeated; nil on a first send.
	earlier *dlqbridge.Send
	// resend says why repeating is safe.
	resend string
	// unclear: some try's answer was lost, so it may be out already.
	unclear bool
}

// action is the one by which it is sent; what is repeated stays what it was.
func (it item) action() dlqbridge.Action {
	if it.earlier != nil {
		return it.earlier.Action
	}
	return actionOf(it.control)
}

// gate looks once more at everything that decides whether a batch may go: the
// job, the holds, the control items and the stores, right before the claim (I5).
// It returns what may go, and what is left out and why.
//
// Crash before or after it: nothing happened. What it finds changed is written
// down (an authorisation lapses, a completed task is closed), which may be
// repeated. What changes between this look and the claim fails the claim's
// condition; what changes after the claim only the worker can see.
func (r *runner) gate(ctx context.Context, batch []queued) ([]item, []dlqbridge.Exclusion, error) {
	ids := make([]string, len(batch))
	for i, q := range batch {
		ids[i] = q.ID
	}
	var view dlqbridge.View
	if err := r.again(ctx, func() (err error) {
		view, err = r.o.Gate.Look(ctx, ids, r.job.ID)
		return err
	}); err != nil {
		return nil, nil, fmt.Errorf("look at the gate: %w", err)
	}
	if err := r.jobMay(view.Job); err != nil {
		return nil, nil, err
	}

	var left []dlqbridge.Exclusion
	var asks []Ask
	doubts := map[string]dlqbridge.Send{}
	notes, err := r.notesOfRedriving(ctx, view.Controls, ids)
	if err != nil {
		return nil, nil, err
	}
	for _, q := range batch {
		c, ok := view.Controls[q.ID]
		x, resend, done := r.standing(q.Member, c, ok, notes)
		switch {
		case done:
		case x != nil:
			left = append(left, *x)
		default:
			if x := held(c, view.Holds, r.job.Destination, r.clock()); x != nil {
				left = append(left, *x)
				continue
			}
			if x := r.mustWait(c.ID, r.policy, r.clock()); x != nil {
				r.closed.Store(true)
				left = append(left, *x)
				continue
			}
			if resend {
				doubts[c.ID] = notes[c.ID]
			}
			asks = append(asks, Ask{Control: c})
		}
	}
	if len(asks) == 0 {
		return nil, left, nil
	}
	var payloads map[string]dlqbridge.Payload
	var reading sync.WaitGroup
	reading.Go(func() { payloads, err = r.payloads(ctx, asks) })
	judgements := r.judge(ctx, asks)
	reading.Wait()
	if err != nil {
		return nil, nil, err
	}
	passed, err := r.overtaken(ctx, judgements, asks, payloads)
	if err != nil {
		return nil, nil, err
	}
	var items []item
	for i, j := range judgements {
		c := asks[i].Control
		if j.Err != nil {
			return nil, nil, fmt.Errorf("judge %s: %w", c.ID, j.Err)
		}
		p, ok := payloads[c.ID]
		if !ok && actionOf(c) != dlqbridge.ActionCompensate { // which carries nothing of it
			left = append(left, dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludePayloadExpired, Detail: "its payload is gone"})
			continue
		}
		if x := passed[c.ID]; x != nil {
			left = append(left, *x)
			continue
		}
		it, x, err := r.fit(ctx, c, j, p, doubts)
		switch {
		case err != nil:
			return nil, nil, err
		case x != nil:
			left = append(left, *x)
		default:
			items = append(items, it)
		}
	}
	return items, left, ctx.Err()
}

// jobMay stops the runner when an operator has moved the job.
func (r *runner) jobMay(job dlqbridge.Job) error {
	r.seenJob(job)
	switch job.State {
	case dlqbridge.JobRunning:
		return nil
	case dlqbridge.JobCancelled:
		r.stop(haltCancelled, job.Reason)
	case dlqbridge.JobPaused, dlqbridge.JobDone, dlqbridge.JobFailed:
		r.stop(haltPaused, job.Reason)
	}
	return fmt.Errorf("job %s is %s: %w", job.ID, job.State, dlqbridge.ErrConflict)
}

// notesOfRedriving reads the notes of those records that are being redriven
// already: of a job that goes on, or of sends in doubt.
func (r *runner) notesOfRedriving(ctx context.Context, controls map[string]dlqbridge.Control, ids []string) (map[string]dlqbridge.Send, error) {
	ns := map[string]int{}
	for _, id := range ids {
		if c := controls[id]; c.Redrives > 0 && c.Status != dlqbridge.StatusAuthorized {
			ns[id] = c.Redrives
		}
	}
	return r.notes(ctx, controls, ns)
}

// standing says where a member stands: excluded, to be sent again (resend), or
// done by this job already.
func (r *runner) standing(m dlqbridge.Member, c dlqbridge.Control, ok bool, notes map[string]dlqbridge.Send) (x *dlqbridge.Exclusion, resend, done bool) {
	no := func(reason dlqbridge.ExcludeReason, detail string) *dlqbridge.Exclusion {
		return &dlqbridge.Exclusion{ID: m.ID, Reason: reason, Detail: detail}
	}
	note, noted := notes[m.ID]
	switch {
	case !ok:
		return no(dlqbridge.ExcludeChanged, "the record is gone"), false, false
	case c.Claim != nil && noted && note.Outcome == dlqbridge.OutcomeInDoubt:
		return nil, true, false
	case noted && note.Job == r.job.ID:
		r.mu.Lock()
		r.already++
		r.actions[note.Action]++
		r.sent.Add(m.ID) // its outcome is waited for too
		if r.inStep != nil {
			r.inStep[m.ID] = true
		}
		r.mu.Unlock()
		return nil, false, true
	case c.Status.Closed():
		return no(dlqbridge.ExcludeClosed, string(c.Status)), false, false
	case c.Claim != nil:
		return no(dlqbridge.ExcludeClaimed, holder(c)), false, false
	case c.Status != dlqbridge.StatusAuthorized || c.Authorized == nil:
		return no(dlqbridge.ExcludeChanged, "no longer authorised, it is "+string(c.Status)), false, false
	case c.Version != m.Version && c.Authorized.At.After(grantedAt(r.job)):
		// Another version under the same authorisation is fine: a claim that was
		// taken back, a new owner. A newer authorisation is another decision.
		return no(dlqbridge.ExcludeChanged, "authorised anew after the selection was frozen"), false, false
	case c.Cause != r.job.Cause:
		return no(dlqbridge.ExcludeChanged, "its cause is "+string(c.Cause)+" now"), false, false
	}
	return nil, false, false
}

// held says whether a stop sign keeps a record back.
func held(c dlqbridge.Control, holds []dlqbridge.Hold, destination string, now time.Time) *dlqbridge.Exclusion {
	for _, h := range holds {
		if h.Stops(c, destination, now) {
			return &dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeHeld, Detail: fmt.Sprintf("hold %s: %s", h.ID, h.Reason)}
		}
	}
	return nil
}

// fit checks one record against its judgement and the destination and makes the
// message.
func (r *runner) fit(ctx context.Context, c dlqbridge.Control, j Judgement, p dlqbridge.Payload, doubts map[string]dlqbridge.Send) (item, *dlqbridge.Exclusion, error) {
	it := item{control: c, judgement: j, n: c.Redrives + 1}
	job, action := r.job.ID, actionOf(c)
	if note, ok := doubts[c.ID]; ok {
		it.earlier, it.n, it.unclear, job, action = &note, note.N, true, note.Job, note.Action
	}
	if to := r.leads(c, action); to != r.job.Destination {
		return it, &dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeChanged, Detail: fmt.Sprintf("its %s goes to %s now, this job sends to %s", action, to, r.job.Destination)}, nil
	}
	m := dlqbridge.Mark{Record: c.ID, Job: job, N: it.n, Action: action, Idem: j.Context.Task.IdempotencyKey}
	switch action { //nolint:exhaustive // the others send what came, as it came
	case dlqbridge.ActionResume:
		m.From = checkpoint(j)
	case dlqbridge.ActionCompensate:
		m.Idem = undoneKey(undone(c, j))
		p = compensation(c, j, m, r.facts.FIFO)
	}
	it.out = dlqbridge.Outgoing{TraceHeader: j.Arrival.Trace}
	var says dlqbridge.Mark
	it.out.Payload, says, it.marked = marked(producers(p, j.Arrival), m, c.Provider, r.reader(c), r.facts.MaxAttributes)
	if r.facts.FIFO {
		it.out.DedupID = fmt.Sprintf("%s.%d", c.ID, it.n)
	}
	if it.earlier != nil {
		why, x := r.mayResend(c, *it.earlier, j, r.facts, it.marked)
		it.resend = why
		if x != nil {
			return it, x, nil
		}
	} else if x, err := r.ground(ctx, c, j); x != nil || err != nil {
		return it, x, err
	}
	if action == dlqbridge.ActionResume && says.From != m.From {
		why := "no place for the mark, which names the checkpoint"
		if it.marked {
			why = fmt.Sprintf("its checkpoint's reference (%d bytes) has no place in the mark", len(m.From))
		}
		return it, &dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeMarkImpossible, Detail: why + ": without it the worker would begin anew"}, nil
	}
	switch byPolicy := c.Authorized != nil && strings.HasPrefix(c.Authorized.By, "policy:"); {
	case !it.marked && c.TaskID == "" && byPolicy:
		// Unmarked and without an id it could come back for ever as a new record.
		return it, &dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeMarkImpossible, Detail: "no place for the mark and no task id; a person may authorise it"}, nil
	case r.facts.MaxBytes > 0 && it.out.Size() > r.facts.MaxBytes:
		return it, &dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeTooLarge, Detail: fmt.Sprintf("%d bytes with its attributes, the queue takes %d", it.out.Size(), r.facts.MaxBytes)}, nil
	}
	return it, nil, nil
}

// ground checks that an authorisation still stands: young enough, and given on
// what the stores say now. One that does not is taken back.
func (r *runner) ground(ctx context.Context, c dlqbridge.Control, j Judgement) (*dlqbridge.Exclusion, error) {
	now := r.clock()
	if old := now.Sub(c.Authorized.At); old > r.o.AuthorizeTTL {
		r.lapse(ctx, Lapse(c, r.job.By.String(), "authorised "+dlqbridge.FormatTime(c.Authorized.At)+", which is too long ago", now))
		return &dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeNotAuthorized, Detail: fmt.Sprintf("the authorisation lapsed after %s", r.o.AuthorizeTTL)}, nil
	}
	x := unsendable(c, j, now)
	if x == nil && !stands(c, j) {
		x = &dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeChanged, Detail: "the ground of the authorisation has changed"}
	}
	if x == nil {
		return nil, nil
	}
	if err := r.putContext(ctx, c.ID, j); err != nil {
		return nil, err
	}
	if j.Decision.Status == dlqbridge.StatusCompleted && r.facts.Ordered {
		if err := r.passed(ctx, c, j, r.job.Destination, now); err != nil {
			return nil, err
		}
	}
	s := lapseJudged(c, j, r.job.By.String(), string(x.Reason)+" at the gate", now)
	if j.Decision.Status == dlqbridge.StatusCompleted {
		s = complete(c, j, dlqbridge.VerbComplete, r.job.By.String(), completedWhy(j), now)
	}
	if r.cancels(c, x) {
		s = r.expire(late{c, j})
	}
	r.lapse(ctx, s)
	return x, nil
}

// lapse writes a move whose failure changes nothing: the record is excluded
// anyway, and the next look says the same.
func (c *Controller) lapse(ctx context.Context, s dlqbridge.Step) {
	if err := c.move(ctx, []dlqbridge.Step{s})[0]; err != nil && !errors.Is(err, dlqbridge.ErrConflict) {
		c.o.Log.WarnContext(ctx, "an authorisation could not be taken back", slog.String("record", s.From.ID), slog.Any("error", err))
	}
}

func (c *Controller) putContext(ctx context.Context, id string, j Judgement) error {
	if err := c.put(ctx, []dlqbridge.Evidence{{Record: id, Item: j.Context}})[0]; err != nil {
		return fmt.Errorf("keep what was found about %s: %w", id, err)
	}
	return nil
}

// judge asks the judge, again where that may help, and guards against one that
// answers for fewer than it was asked.
func (c *Controller) judge(ctx context.Context, asks []Ask) []Judgement {
	if len(asks) == 0 {
		return nil
	}
	var out []Judgement
	_ = c.again(ctx, func() error {
		out = c.o.Judge.Judge(ctx, asks)
		for len(out) < len(asks) {
			out = append(out, Judgement{Err: dlqbridge.ErrUnclear})
		}
		for _, j := range out {
			if j.Err != nil && dlqbridge.Retryable(j.Err) {
				return j.Err
			}
		}
		return nil
	}) // what went wrong stands in each judgement
	return out[:len(asks)]
}

// payloads reads what would be sent. A payload that is gone is absent.
func (c *Controller) payloads(ctx context.Context, asks []Ask) (map[string]dlqbridge.Payload, error) {
	names := map[string]string{}
	for _, a := range asks {
		names[a.Control.ID] = a.Control.PayloadName()
	}
	var out map[string]dlqbridge.Payload
	if c.o.Payloads != nil {
		if err := c.again(ctx, func() (err error) {
			out, err = c.o.Payloads.Payloads(ctx, names)
			return err
		}); err != nil {
			return nil, fmt.Errorf("read %d payloads: %w", len(asks), err)
		}
		return out, nil
	}
	out = map[string]dlqbridge.Payload{}
	for id, name := range names {
		err := c.again(ctx, func() error {
			p, err := c.o.Cases.Payload(ctx, id, name)
			if err == nil {
				out[id] = p
			}
			return err
		})
		if err != nil && !errors.Is(err, dlqbridge.ErrNotFound) {
			return nil, fmt.Errorf("read the payload of %s: %w", id, err)
		}
	}
	return out, nil
}
