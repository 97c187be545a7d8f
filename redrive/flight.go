package redrive

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// flight bounds how many of a job's messages are out without a known outcome,
// where somebody asked for a bound. A message has a seat from before its claim
// until its outcome is written down, whatever that is: completed, recurred, or
// the end of its observation. Without a bound there is no flight.
//
// While no seat is free the job looks at the outcomes by itself, one of those
// that wait for all of them, so that it goes on without `serve` beside it.
//
// Crash at any point: seats are in memory. Whoever goes on with the job first
// gives one to each message of it that is still being redriven.
type flight struct {
	limit int

	mu    sync.Mutex
	seats map[string]seat
	// looking: somebody looks at the outcomes for all that wait.
	looking bool
	// freed is closed and replaced when waiting may have become shorter.
	freed chan struct{}
}

// seat is a message's, by its record.
type seat struct {
	// out: it was sent, or may have been. Zero: it is on its way there.
	out time.Time
	// doubt: nobody knows whether it went out, so it may never have an outcome.
	doubt bool
}

// newFlight is nil where nothing is bounded.
func newFlight(limit int) *flight {
	if limit <= 0 {
		return nil
	}
	return &flight{limit: limit, seats: map[string]seat{}, freed: make(chan struct{})}
}

// wake lets those that wait look again.
func (f *flight) wake() {
	close(f.freed)
	f.freed = make(chan struct{})
}

// take gives each of the messages a seat if there are enough. Otherwise lead
// says that the caller is to look at the outcomes, and freed what to wait for
// while somebody else does.
func (f *flight) take(ids []string) (ok, lead bool, freed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	need := 0
	for _, id := range ids {
		if _, has := f.seats[id]; !has { // a doubt that is sent again has one
			need++
		}
	}
	if len(f.seats)+need <= f.limit || need == 0 {
		for _, id := range ids {
			if _, has := f.seats[id]; !has {
				f.seats[id] = seat{}
			}
		}
		return true, false, nil
	}
	lead = !f.looking
	f.looking = true
	return false, lead, f.freed
}

// led ends the lead.
func (f *flight) led() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looking = false
	f.wake()
}

// room says whether n seats are free, which messages are out, and what to wait for.
func (f *flight) room(n int) (room bool, out []string, freed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.seats {
		if !s.out.IsZero() {
			out = append(out, id)
		}
	}
	return len(f.seats)+n <= f.limit, out, f.freed
}

// sit says that a message went out, or may have.
func (f *flight) sit(id string, at time.Time, doubt bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seats[id] = seat{at, doubt}
}

// leave frees the seats of those messages that did not go out.
func (f *flight) leave(ids []string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if f.seats[id].out.IsZero() {
			delete(f.seats, id)
		}
	}
	f.wake()
}

// settle frees the seats of those messages whose outcome is known: they are not
// being redriven any more. A doubt that nothing settled ends with its
// observation, since it may need a person.
func (f *flight) settle(looked []string, redriving map[string]bool, now time.Time, window time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range looked {
		s := f.seats[id]
		if !redriving[id] || s.doubt && !now.Before(s.out.Add(window)) {
			delete(f.seats, id)
		}
	}
	f.wake()
}

// board waits until the messages have their seats; false is the end of ctx.
func (r *runner) board(ctx context.Context, ids []string) bool {
	for r.flight != nil {
		ok, lead, freed := r.flight.take(ids)
		switch {
		case ok:
			return true
		case lead:
			ok := r.awaitOutcomes(ctx, len(ids))
			r.flight.led()
			if !ok {
				return false
			}
		default:
			select {
			case <-freed:
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// seatEarlier gives seats to what the job sent before it was continued; false is
// the end of the job.
func (r *runner) seatEarlier(ctx context.Context) bool {
	if r.flight == nil || r.job.Version == 1 {
		return true
	}
	for chunk, err := range chunks(r.o.Jobs.Members(ctx, r.job.ID, 0), readChunk) {
		if err == nil {
			err = r.seat(ctx, idsOf(chunk))
		}
		if err != nil {
			if ctx.Err() == nil {
				r.fail(fmt.Errorf("count what is in flight: %w", err))
			}
			return false
		}
	}
	return true
}

// seat gives seats to those of the records that this job sent.
func (r *runner) seat(ctx context.Context, ids []string) error {
	controls, err := r.read(ctx, ids)
	if err != nil {
		return err
	}
	ns := map[string]int{}
	for id, c := range controls {
		if c.Claim != nil && (c.Claim.Job == r.job.ID || c.Move.Job == r.job.ID) {
			ns[id] = c.Claim.N
		}
	}
	notes, err := r.notes(ctx, controls, ns)
	if err != nil {
		return err
	}
	for id, note := range notes {
		r.flight.sit(id, note.At, note.Outcome == dlqbridge.OutcomeInDoubt)
	}
	return nil
}

// awaitOutcomes looks at what became of the messages that are out until n seats
// are free; false is the end of the job.
func (r *runner) awaitOutcomes(ctx context.Context, n int) bool {
	r.mu.Lock()
	before := r.doing
	r.mu.Unlock()
	defer func() { r.at(context.WithoutCancel(ctx), before) }()
	for d := time.Second; ; {
		room, out, freed := r.flight.room(n)
		if room {
			return true
		}
		if len(out) == 0 { // all of them are on their way out
			select {
			case <-freed:
				continue
			case <-ctx.Done():
				return false
			}
		}
		doing := fmt.Sprintf("waiting for outcomes: %d in flight, at most %d", len(out), r.flight.limit)
		if before != "" {
			doing = before + "; " + doing
		}
		r.at(ctx, doing)
		if !pause(ctx, d) || !r.mayWatch(ctx) {
			return false
		}
		if err := r.settleFlight(ctx, out); err != nil && !dlqbridge.Retryable(err) {
			r.watchFailed(ctx, err)
			return false
		}
		d = min(2*d, watchEvery)
	}
}

// settleFlight observes messages that are out and frees the seats of those that
// are not being redriven any more.
func (r *runner) settleFlight(ctx context.Context, out []string) error {
	if _, err := r.Observe(ctx, ObserveRequest{IDs: out}); err != nil {
		return err
	}
	redriving := map[string]bool{}
	for chunk, err := range chunks(each(out), readChunk) {
		if err != nil {
			return err
		}
		controls, err := r.read(ctx, chunk)
		if err != nil {
			return err
		}
		for id, c := range controls {
			redriving[id] = c.Claim != nil
		}
	}
	r.flight.settle(out, redriving, r.clock(), r.window())
	return nil
}

// window is how long an outcome of the job's messages is waited for at most.
func (r *runner) window() time.Duration {
	window := AutoWindow(r.facts)
	for _, name := range r.routes {
		if route, ok := r.o.Route(name); ok {
			window = max(window, route.ObserveFor)
		}
	}
	return window
}
