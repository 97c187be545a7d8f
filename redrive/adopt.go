package redrive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// adopter takes over what the last holder of a lease left behind. Everything it
// does may be done again: a crash at any point leaves the rest to the next one.
type adopter struct {
	*Controller
	journal *journal
	dest    dlqbridge.DestinationFacts
	by      string
	// job is the job that takes over; its own open state is kept.
	job string
}

// clean says whether the last holder ended by itself and left nothing open.
func clean(l dlqbridge.Lease) bool {
	return l.Job == "" || l.Until.IsZero() && len(l.Batches) == 0
}

// adopt settles what the last holder left; changed says whether records were
// moved, so that a plan made before is out of date. Orphans are records of the
// destination that were seen with a claim and without a note: while we hold the
// lease nobody is about to send them.
func (a *adopter) adopt(ctx context.Context, last dlqbridge.Lease, orphans []dlqbridge.Member) (changed bool, err error) {
	open := map[string]bool{}
	if !clean(last) {
		if changed, err = a.settle(ctx, last, open); err != nil {
			return changed, err
		}
	}
	released, err := a.release(ctx, "", each(orphans), open)
	return changed || released > 0, err
}

// settle takes over from a holder that did not end by itself.
func (a *adopter) settle(ctx context.Context, last dlqbridge.Lease, open map[string]bool) (changed bool, err error) {
	a.o.Log.InfoContext(ctx, "taking over from a job that did not end",
		slog.String("destination", last.Destination), slog.String("job", last.Job), slog.Int("open_batches", len(last.Batches)))
	// A request of the dead holder may still be under way: its answer could
	// come, and be noted, until its deadline. Only then are open batches judged.
	wait := last.SendDeadline
	if wait <= 0 {
		wait = a.o.SendDeadline
	}
	if !pause(ctx, wait) {
		return false, ctx.Err()
	}
	for _, id := range slices.Sorted(maps.Keys(last.Batches)) {
		b := last.Batches[id]
		for _, m := range b.Members {
			open[m.ID] = true
		}
		if err := a.doubt(ctx, b); err != nil {
			return changed, err
		}
		// Crash before this: the next adopter sees the notes. After it: nothing is left.
		a.journal.close(id)
		changed = true
	}
	released, err := a.release(ctx, last.Job, a.o.Jobs.Members(ctx, last.Job, 0), open)
	if err != nil {
		return changed, err
	}
	if last.Job != a.job {
		if err := a.park(ctx, last.Job); err != nil {
			return true, err
		}
	}
	return changed || released > 0, nil
}

// doubt writes in_doubt for each member of an open batch that has no note.
func (a *adopter) doubt(ctx context.Context, b dlqbridge.Batch) error {
	ids, ns := []string{}, map[string]int{}
	for _, m := range b.Members {
		ids = append(ids, m.ID)
		ns[m.ID] = m.N
	}
	controls, err := a.read(ctx, ids)
	if err != nil {
		return err
	}
	notes, err := a.sends(ctx, ns)
	if err != nil {
		return err
	}
	for _, m := range b.Members {
		c, ok := controls[m.ID]
		if !ok || c.Claim == nil || c.Claim.N != m.N {
			continue // released, or its outcome is known already
		}
		note, noted := notes[m.ID]
		if noted && note.Outcome == dlqbridge.OutcomeSent && !note.At.Before(b.At) {
			continue
		}
		if err := a.writeDoubt(ctx, c, b.At, note, noted); err != nil {
			return err
		}
	}
	return nil
}

func (a *adopter) writeDoubt(ctx context.Context, c dlqbridge.Control, at time.Time, note dlqbridge.Send, noted bool) error {
	s := dlqbridge.Send{
		N: c.Claim.N, Job: c.Claim.Job, Action: actionOf(c), At: at, Outcome: dlqbridge.OutcomeInDoubt,
		Marked: a.couldMark(ctx, c), Tries: 1, Reason: "its sender ended before the answer was noted",
	}
	if noted {
		if note.Outcome == dlqbridge.OutcomeInDoubt && !c.Outdated(note) {
			// The first send under this number is what a FIFO queue's memory counts from.
			s.At, s.Tries = note.At, note.Tries+1
		}
		return a.putOne(ctx, c.ID, s)
	}
	err := a.again(ctx, func() error { return a.o.Evidence.PutDoubt(ctx, c.ID, s) })
	if errors.Is(err, dlqbridge.ErrExists) {
		return nil // the holder's own note came after we looked; it knows better
	}
	if err != nil {
		return fmt.Errorf("note the doubt about %s: %w", c.ID, err)
	}
	return nil
}

// couldMark says whether the message had a place for our mark.
func (a *adopter) couldMark(ctx context.Context, c dlqbridge.Control) bool {
	if actionOf(c) == dlqbridge.ActionCompensate {
		return true // a message of ours, with room for it
	}
	p, err := a.o.Cases.Payload(ctx, c.ID, c.PayloadName())
	if err != nil {
		return false // nobody relies on a mark that may not be there
	}
	// The provider's own marks are still in it: one that only fits without them
	// counts as unmarked, which is the careful side.
	_, _, ok := marked(p, dlqbridge.Mark{}, c.Provider, c.Source, a.dest.MaxAttributes)
	return ok
}

// release takes back claims that are in no journalled batch and have no note:
// they were never sent, because nothing is sent before it is journalled. With a
// job it looks at that job's claims only.
func (a *adopter) release(ctx context.Context, job string, members iter.Seq2[dlqbridge.Member, error], open map[string]bool) (int, error) {
	released := 0
	for chunk, err := range chunks(members, readChunk) {
		if err != nil {
			return released, fmt.Errorf("members of job %s: %w", job, err)
		}
		controls, err := a.read(ctx, idsOf(chunk))
		if err != nil {
			return released, err
		}
		var held []dlqbridge.Control
		ns := map[string]int{}
		for _, m := range chunk {
			c := controls[m.ID]
			if c.Claim != nil && (job == "" || c.Claim.Job == job) && !open[c.ID] {
				held = append(held, c)
				ns[c.ID] = c.Claim.N
			}
		}
		notes, err := a.notes(ctx, controls, ns)
		if err != nil {
			return released, err
		}
		var steps []dlqbridge.Step
		for _, c := range held {
			if note, ok := notes[c.ID]; ok && note.Outcome != dlqbridge.OutcomeRefused {
				continue
			}
			steps = append(steps, Unsend(c, dlqbridge.VerbRelease, a.by, "claimed by a job that ended before it sent", "", a.clock()))
		}
		for i, err := range a.move(ctx, steps) {
			switch {
			case err == nil:
				released++
			case errors.Is(err, dlqbridge.ErrConflict): // somebody else settled it
			default:
				return released, fmt.Errorf("release %s: %w", steps[i].From.ID, err)
			}
		}
	}
	return released, nil
}

// park says of a job whose process is gone that it no longer runs. That is for
// the eyes only: what may be sent is decided by lease and claims. What a
// cancelled job had not sent loses its authorisation, as its process would have
// seen to.
func (a *adopter) park(ctx context.Context, id string) error {
	job, err := a.o.Jobs.Job(ctx, id)
	switch {
	case errors.Is(err, dlqbridge.ErrNotFound): // it had selected nothing yet
		return nil
	case err != nil:
		return fmt.Errorf("job %s: %w", id, err)
	case job.State == dlqbridge.JobCancelled:
		return a.lapseAll(ctx, job, job.By, "was cancelled")
	case job.State != dlqbridge.JobRunning:
		return nil
	}
	job.Version++
	job.State, job.Reason = dlqbridge.JobPaused, "its process ended; continue sends what is left"
	job.Note(a.clock(), a.by, "its process ended; another job took its destination over")
	if err := a.o.Jobs.MoveJob(ctx, job); err != nil {
		a.o.Log.WarnContext(ctx, "a dead job could not be marked as paused", slog.String("job", id), slog.Any("error", err))
	}
	return nil
}

func (c *Controller) putOne(ctx context.Context, id string, s dlqbridge.Send) error {
	if err := c.put(ctx, []dlqbridge.Evidence{{Record: id, Item: s}})[0]; err != nil {
		return fmt.Errorf("note send %d of %s: %w", s.N, id, err)
	}
	return nil
}
