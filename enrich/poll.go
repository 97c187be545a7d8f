package enrich

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

const (
	// PollService is SQS's longest long poll: the fewest calls when idle.
	pollService = 20 * time.Second
	// PollOnce is short, so that an empty place is soon known to be empty.
	pollOnce = time.Second
	// EmptyPolls in a row and counters at zero mean an empty place: one empty
	// answer proves nothing, since a poll may ask some servers only.
	emptyPolls = 3
	// SilentFor is how long a place without counters must moreover have been
	// silent: over ten seconds, the shortest time in which a letter that somebody
	// else let go of comes again (Pub/Sub's default acknowledgement deadline).
	silentFor = 11 * time.Second
	// DepthEvery is how often an idle service reads the counters.
	depthEvery = time.Minute
	// ReceiveGrace is how long a stop waits for a receive that is under way:
	// cutting it off could leave letters in flight that nobody has.
	receiveGrace = time.Second
	// BackoffFirst and backoffLast bound the waits between tries.
	backoffFirst = time.Second
	backoffLast  = time.Minute
	// CredentialTries is how often missing credentials are waited for.
	credentialTries = 5
)

// reading is one place being read by its pollers.
type reading struct {
	in       *Intake
	enricher *Enricher
	letters  dlqbridge.DeadLetters
	route    string
	once     bool
	unstored unstored
	log      *slog.Logger

	mu       sync.Mutex
	empties  int       // empty receives in a row, over all pollers
	heard    time.Time // when letters were last in hand; at first, the begin
	busy     int       // pollers with letters in hand
	stored   bool      // some write was accepted in this run
	refusals int       // letters refused in a row since the last one accepted
	refusal  error     // the last one's reason
	done     bool      // the one-shot run has seen the place empty
	stuck    time.Time // since when it shows messages and gives none
	depthAt  time.Time // when the counters were last read
}

func newReading(in *Intake, p Place, once bool) *reading {
	route := p.Enricher.Route().Name
	return &reading{
		in: in, enricher: p.Enricher, letters: p.Letters, route: route, once: once, heard: in.o.Now(),
		log: in.o.Log.With(slog.String("route", route), slog.String("queue", p.Letters.Place())),
	}
}

// poll receives and handles letters until the run stops or, in a one-shot run,
// the place is empty. An error means that the place cannot be worked at all.
func (r *reading) poll(ctx, finish context.Context) error {
	pause := pollService
	if r.once {
		pause = pollOnce
	}
	failures := 0
	for ctx.Err() == nil && !r.isDone() {
		letters, err := r.receive(ctx, pause)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil //nolint:nilerr // the stop cut this receive off
		case err != nil:
			if failures++; !r.worthWaiting(err, failures) {
				return missing("receive from", r.letters.Place(), err)
			}
			r.log.LogAttrs(ctx, slog.LevelWarn, "receive failed", slog.Int("attempt", failures), slog.String("reason", err.Error()))
			if err := r.nothing(ctx, err); err != nil {
				return err
			}
			wait(ctx, backoff(failures))
		case len(letters) == 0:
			failures = 0
			if err := r.nothing(ctx, nil); err != nil {
				return err
			}
		default:
			failures = 0
			r.got(len(letters))
			err := r.handle(ctx, finish, letters)
			r.finished()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// receive takes one batch. It goes on for a moment when the run is stopped: see
// receiveGrace. Letters that come then are handled like all in hand.
func (r *reading) receive(ctx context.Context, pause time.Duration) ([]dlqbridge.Letter, error) {
	calling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	unhook := context.AfterFunc(ctx, func() {
		wait(calling, receiveGrace)
		cancel()
	})
	defer unhook()
	return r.letters.Receive(calling, batchLetters, pause)
}

// worthWaiting says whether a failed receive is tried again. Missing rights and
// a missing queue do not come back by waiting.
func (r *reading) worthWaiting(err error, failures int) bool {
	switch {
	case errors.Is(err, dlqbridge.ErrCredentials):
		return failures < credentialTries
	case errors.Is(err, dlqbridge.ErrDenied), errors.Is(err, dlqbridge.ErrNotFound), errors.Is(err, dlqbridge.ErrInvalid):
		return false
	}
	return true
}

// backoff doubles from backoffFirst to backoffLast, with a random half, so that
// pollers that failed together do not come back together.
func backoff(failures int) time.Duration {
	d := min(backoffFirst<<min(failures-1, 10), backoffLast)
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads waits, keeps no secret
}

func (r *reading) isDone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

func (r *reading) got(n int) {
	r.mu.Lock()
	r.empties, r.busy = 0, r.busy+1
	moving := !r.stuck.IsZero()
	r.stuck = time.Time{}
	r.mu.Unlock()
	if moving {
		r.observe(Event{Kind: EventMoving})
	}
	r.observe(Event{Kind: EventReceived, N: n})
}

func (r *reading) finished() {
	now := r.in.o.Now()
	r.mu.Lock()
	r.busy--
	r.heard = now
	r.mu.Unlock()
}

// nothing is an empty or failed receive. It reads the counters when they decide
// something, and ends a one-shot run that is over.
func (r *reading) nothing(ctx context.Context, cause error) error {
	now := r.in.o.Now()
	r.mu.Lock()
	r.empties++
	look := r.empties >= emptyPolls && r.busy == 0
	if !r.once {
		look = look && now.Sub(r.depthAt) >= depthEvery
	}
	if look {
		r.depthAt = now
	}
	r.mu.Unlock()
	if !look {
		return nil
	}
	depth, err := r.letters.Depth(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && r.worthWaiting(err, 1):
		r.log.LogAttrs(ctx, slog.LevelWarn, "depth unknown", slog.String("reason", err.Error()))
		return nil
	case err != nil:
		return missing("read the counters of", r.letters.Place(), err)
	}
	if !depth.Unknown {
		r.observe(Event{Kind: EventDepth, Depth: depth})
	}
	if r.over(depth, cause) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.stored {
			return r.refusal // too few letters to be sure before: none was ever accepted
		}
		return nil
	}
	return r.judgeStuck(ctx, now, depth, cause)
}

// over ends a one-shot run when nothing is left but what cannot be stored.
// Letters in flight that are not ours may come back, so they are waited for.
func (r *reading) over(depth dlqbridge.Depth, cause error) bool {
	if !r.once || cause != nil {
		return false
	}
	hidden := int64(r.unstored.hidden(r.in.o.Now()))
	left := depth.Visible + depth.Delayed
	// On a FIFO place a hidden letter blocks the rest of its group, which the
	// counters show as visible.
	blocked := hidden > 0 && isFIFO(r.letters.Place())
	if depth.InFlight > hidden || left > 0 && !blocked {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy > 0 || r.empties < emptyPolls { // somebody got letters meanwhile
		return false
	}
	if depth.Unknown && r.in.o.Now().Sub(r.heard) < silentFor {
		return false
	}
	r.done = true
	return true
}

// judgeStuck reports a place that shows messages and gives none: too many are
// in flight, which looks exactly like an empty place. A one-shot run gives up
// on it after a while, never as if it were done.
func (r *reading) judgeStuck(ctx context.Context, now time.Time, depth dlqbridge.Depth, cause error) error {
	if depth.Visible == 0 && cause == nil {
		return nil
	}
	r.mu.Lock()
	first := r.stuck.IsZero()
	if first {
		r.stuck = now
	}
	since := r.stuck
	r.mu.Unlock()
	if first {
		r.log.LogAttrs(ctx, slog.LevelWarn, "place gives nothing",
			slog.Int64("visible", depth.Visible), slog.Int64("in_flight", depth.InFlight), slog.Int64("in_flight_limit", depth.InFlightLimit))
		r.observe(Event{Kind: EventStuck, Depth: depth})
	}
	if r.once && now.Sub(since) >= r.in.o.StuckAfter {
		return missing("receive from", r.letters.Place(), errors.Join(
			fmt.Errorf("%w: nothing came for %s although %d messages are visible and %d in flight (limit %d)",
				dlqbridge.ErrUnavailable, now.Sub(since).Round(time.Second), depth.Visible, depth.InFlight, depth.InFlightLimit), cause))
	}
	return nil
}

func (r *reading) observe(e Event) {
	e.Route, e.Place = r.route, r.letters.Place()
	r.in.o.Observer.Observe(e)
}
