package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// errLost says that the lease is no longer ours: nothing more may be sent.
var errLost = errors.New("the lease was lost")

// journal holds a destination's lease and writes down which batches are open.
// One goroutine writes; batches that come while a write is under way share the
// next one, so many cost one call.
//
// Crash before the write: the claims of the batch are in no journalled batch,
// so the adopter releases them; nothing was sent. Crash after it: the adopter
// finds the batch, and whatever of it has no note is in doubt.
//
// Each write is conditional on the lease's token. A holder that slept through
// its lease therefore cannot open a batch any more, and so cannot send.
type journal struct {
	c    *Controller
	pace *pace
	// lost is closed when the lease is gone.
	lost chan struct{}

	mu      sync.Mutex
	lease   dlqbridge.Lease // as last written; Batches as they should be
	waiting []chan error
	dirty   bool

	kick chan struct{}
	quit chan struct{}
	done chan struct{}
}

// take takes the lease of a destination and returns how the last holder left
// it. The journal keeps the last holder's open batches until they are settled,
// so that a crash during adoption loses none.
func (c *Controller) take(ctx context.Context, destination, job string) (*journal, dlqbridge.Lease, error) {
	l := dlqbridge.Lease{
		Destination: destination, Job: job, Holder: c.o.Holder, Token: dlqbridge.NewToken(),
		Until: c.clock().Add(c.o.Lease), SendDeadline: c.o.SendDeadline,
	}
	var previous dlqbridge.Lease
	err := c.again(ctx, func() (err error) {
		previous, err = c.o.Leases.Take(ctx, l)
		return err
	})
	if held, ok := errors.AsType[*dlqbridge.LeaseHeldError](err); ok {
		// Who is refused is told what to wait for, if that can be read.
		if its, err := c.o.Jobs.Job(ctx, held.Job); err == nil && its.State != dlqbridge.JobRunning {
			held.State = its.State
		}
	}
	if err != nil {
		return nil, previous, fmt.Errorf("take the lease of %s: %w", destination, err)
	}
	l.Batches = maps.Clone(previous.Batches)
	if l.Batches == nil {
		l.Batches = map[string]dlqbridge.Batch{}
	}
	l.NextFree = previous.NextFree
	return &journal{
		c: c, lease: l, lost: make(chan struct{}), dirty: len(l.Batches) > 0,
		kick: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}, previous, nil
}

// start begins to renew the lease, well before it ends.
func (j *journal) start(ctx context.Context) {
	go j.run(context.WithoutCancel(ctx))
}

func (j *journal) run(ctx context.Context) {
	defer close(j.done)
	every := j.c.o.Lease / 3
	t := time.NewTimer(every)
	defer t.Stop()
	for {
		select {
		case <-j.quit:
			return
		case <-j.kick:
		case <-t.C:
		}
		if err := j.write(ctx); err != nil {
			return
		}
		t.Reset(every)
	}
}

// write makes the journal's state durable and answers everybody who waits for it.
func (j *journal) write(ctx context.Context) error {
	j.mu.Lock()
	waiting := j.waiting
	j.waiting, j.dirty = nil, false
	l := j.lease
	l.Batches = maps.Clone(l.Batches)
	j.mu.Unlock()

	// The pace is read after the batches: their reservations are in it, so a
	// successor never sends faster than we were allowed to.
	if j.pace != nil {
		l.NextFree = j.pace.nextFree()
	}
	ends := l.Until
	err := j.keep(ctx, &l, ends)

	j.mu.Lock()
	if err == nil {
		j.lease.Until, j.lease.NextFree = l.Until, l.NextFree
	} else {
		close(j.lost)
		waiting = append(waiting, j.waiting...)
		j.waiting = nil
	}
	j.mu.Unlock()
	for _, w := range waiting {
		w <- err
	}
	return err
}

// keep writes the lease until it is written, taken over, or over. Writing the
// same state again is safe, so a lost answer is simply written again.
func (j *journal) keep(ctx context.Context, l *dlqbridge.Lease, ends time.Time) error {
	for try := 1; ; try++ {
		now := j.c.clock()
		left := ends.Sub(now)
		if left <= 0 {
			return fmt.Errorf("renew the lease of %s: %w", l.Destination, errLost)
		}
		l.Until = now.Add(j.c.o.Lease)
		bounded, cancel := context.WithTimeout(ctx, left)
		err := j.c.o.Leases.Keep(bounded, *l)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, dlqbridge.ErrConflict), errors.Is(err, dlqbridge.ErrDenied), errors.Is(err, dlqbridge.ErrNotFound):
			return fmt.Errorf("renew the lease of %s: %w: %w", l.Destination, errLost, err)
		}
		if !pause(ctx, min(j.c.backoff(try), max(0, ends.Sub(j.c.clock()))+time.Millisecond)) {
			return errLost
		}
	}
}

// open journals a batch and returns when it is durable. At most MaxOpenBatches
// are ever open, because each sender closes one before it opens the next.
func (j *journal) open(id string, b dlqbridge.Batch) error {
	j.mu.Lock()
	j.lease.Batches[id] = b
	j.mu.Unlock()
	if err := j.sync(); err != nil {
		j.close(id)
		return err
	}
	return nil
}

// sync returns when all that was asked so far is durable and the lease renewed.
func (j *journal) sync() error {
	w := make(chan error, 1)
	j.mu.Lock()
	select {
	case <-j.lost:
		j.mu.Unlock()
		return errLost
	default:
	}
	j.waiting = append(j.waiting, w)
	j.mu.Unlock()
	select {
	case j.kick <- struct{}{}:
	default:
	}
	return <-w
}

// close takes a batch out whose members are all noted or released. It goes with
// the next write; until then an adopter would see the notes.
func (j *journal) close(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.lease.Batches, id)
	j.dirty = true
}

// until is when the lease ends as last written.
func (j *journal) until() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lease.Until
}

// deadline gives a send its end, inside the lease. Where too little of the
// lease is left it is renewed first.
func (j *journal) deadline() (time.Time, error) {
	for range 2 {
		end := j.c.clock().Add(j.c.o.SendDeadline)
		if !end.After(j.until()) {
			return end, nil
		}
		if err := j.sync(); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, errLost
}

// abandon ends the renewing and lets the lease run out, so that the next holder
// looks for what was left behind.
func (j *journal) abandon(ctx context.Context) error {
	close(j.quit)
	<-j.done
	select {
	case <-j.lost:
		return nil
	default:
		return j.write(ctx) // closed batches, which would be doubts
	}
}

// release ends the renewing and gives the lease back. What is still open stays
// journalled for the next holder.
func (j *journal) release(ctx context.Context) error {
	if err := j.abandon(ctx); err != nil {
		return err
	}
	select {
	case <-j.lost:
		return nil
	default:
	}
	j.mu.Lock()
	l := j.lease
	j.mu.Unlock()
	if err := j.c.again(ctx, func() error { return j.c.o.Leases.Release(ctx, l) }); err != nil {
		return fmt.Errorf("release the lease of %s: %w", l.Destination, err)
	}
	return nil
}
