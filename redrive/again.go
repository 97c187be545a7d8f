package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// maxBackoff bounds the wait between two tries of one call.
const maxBackoff = 5 * time.Second

// clock is the time as it is stored: UTC, in milliseconds, so that what is
// written and read back compares equal.
func (c *Controller) clock() time.Time { return c.o.Now().UTC().Truncate(time.Millisecond) }

// backoff is the wait after try number n (1 for the first): with the defaults
// 100 ms, 200 ms, … 5 s, about 20 s in all for ten tries.
func (c *Controller) backoff(n int) time.Duration {
	d := c.o.Backoff
	for range n - 1 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return min(d, maxBackoff)
}

// pause waits for d; false is the end of ctx.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// again calls fn until it succeeds, fails for good, or was tried often enough.
// The adapters try throttled calls again by themselves; this is for outages and
// for credentials that are about to be renewed.
func (c *Controller) again(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if err == nil || !dlqbridge.Retryable(err) || try >= c.o.Tries || !pause(ctx, c.backoff(try)) {
			return err
		}
	}
}

// finishing is the context of work that must be brought to an end although the
// caller wants to stop: bounded, because a lease does not wait.
func (c *Controller) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 2*c.o.Lease)
}

// move writes moves and answers by position. A lost answer, or a failed
// condition after an adapter's own repetition, is settled by reading back: if
// the record stands where we wanted it, by our own entry, the move was made.
func (c *Controller) move(ctx context.Context, steps []dlqbridge.Step) []error {
	out := make([]error, len(steps))
	todo := make([]int, len(steps))
	for i := range todo {
		todo[i] = i
	}
	for try := 1; len(todo) > 0; try++ {
		now := make([]dlqbridge.Step, len(todo))
		for k, i := range todo {
			now[k] = steps[i]
		}
		var doubtful []int
		for k, err := range byPosition(c.o.Controls.Move(ctx, now), len(now)) {
			out[todo[k]] = err
			if err != nil && !errors.Is(err, dlqbridge.ErrInvalid) && !errors.Is(err, dlqbridge.ErrDenied) && !errors.Is(err, dlqbridge.ErrNotFound) {
				doubtful = append(doubtful, todo[k])
			}
		}
		if len(doubtful) == 0 {
			return out
		}
		ids := make([]string, len(doubtful))
		for k, i := range doubtful {
			ids[k] = steps[i].From.ID
		}
		found, err := c.o.Controls.Read(ctx, ids)
		todo = nil
		for _, i := range doubtful {
			have, ok := found[steps[i].From.ID]
			switch {
			case err != nil: // nothing learned; out[i] says what went wrong before
				todo = append(todo, i)
			case ok && have.Version == steps[i].To.Version && sameMove(have.Move, steps[i].To.Move):
				out[i] = nil
			case ok && have.Version == steps[i].From.Version && !errors.Is(out[i], dlqbridge.ErrConflict):
				todo = append(todo, i)
			default:
				out[i] = fmt.Errorf("move %s: %w", steps[i].From.ID, dlqbridge.ErrConflict)
			}
		}
		if len(todo) > 0 && (try >= c.o.Tries || !pause(ctx, c.backoff(try))) {
			return out
		}
	}
	return out
}

func sameMove(a, b dlqbridge.Move) bool {
	return a.At.Equal(b.At) && a.By == b.By && a.Verb == b.Verb && a.To == b.To && a.Job == b.Job && a.N == b.N && a.Note == b.Note
}

// put makes evidence durable and answers by position.
func (c *Controller) put(ctx context.Context, items []dlqbridge.Evidence) []error {
	out := make([]error, len(items))
	todo := make([]int, len(items))
	for i := range todo {
		todo[i] = i
	}
	for try := 1; len(todo) > 0; try++ {
		now := make([]dlqbridge.Evidence, len(todo))
		for k, i := range todo {
			now[k] = items[i]
		}
		var failed []int
		for k, err := range byPosition(c.o.Evidence.Put(ctx, now), len(now)) {
			out[todo[k]] = err
			// Writing evidence again writes the same, so a lost answer may be tried too.
			if err != nil && (dlqbridge.Retryable(err) || errors.Is(err, dlqbridge.ErrUnclear)) {
				failed = append(failed, todo[k])
			}
		}
		if todo = failed; len(todo) > 0 && (try >= c.o.Tries || !pause(ctx, c.backoff(try))) {
			return out
		}
	}
	return out
}

// byPosition guards against an adapter that answers for fewer than it was asked.
func byPosition(errs []error, n int) []error {
	for len(errs) < n {
		errs = append(errs, dlqbridge.ErrUnclear)
	}
	return errs[:n]
}

// read reads control items, tried again where that may help.
func (c *Controller) read(ctx context.Context, ids []string) (map[string]dlqbridge.Control, error) {
	var out map[string]dlqbridge.Control
	err := c.again(ctx, func() (err error) {
		out, err = c.o.Controls.Read(ctx, ids)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %d records: %w", len(ids), err)
	}
	return out, nil
}

// notes reads the notes of the sends of these numbers, without those that
// are none of their record's claim: nothing of that is noted yet.
func (c *Controller) notes(ctx context.Context, controls map[string]dlqbridge.Control, ns map[string]int) (map[string]dlqbridge.Send, error) {
	notes, err := c.sends(ctx, ns)
	maps.DeleteFunc(notes, func(id string, s dlqbridge.Send) bool { return controls[id].Outdated(s) })
	return notes, err
}

// claimNotes are the notes of the sends that records are claimed for.
func (c *Controller) claimNotes(ctx context.Context, controls map[string]dlqbridge.Control) (map[string]dlqbridge.Send, error) {
	ns := map[string]int{}
	for id, ctl := range controls {
		if ctl.Claim != nil {
			ns[id] = ctl.Claim.N
		}
	}
	return c.notes(ctx, controls, ns)
}

// sends reads the notes of the numbers in ns, tried again where that may help.
func (c *Controller) sends(ctx context.Context, ns map[string]int) (map[string]dlqbridge.Send, error) {
	if len(ns) == 0 {
		return nil, nil
	}
	var out map[string]dlqbridge.Send
	err := c.again(ctx, func() (err error) {
		out, err = c.o.Cases.Sends(ctx, ns)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read notes of %d sends: %w", len(ns), err)
	}
	return out, nil
}
