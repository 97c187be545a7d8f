package redrive_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// inFlight counts the records that are being redriven.
func (w *world) inFlight() int { return w.count(dlqbridge.StatusRedriving) }

// works completes what is sent, each message that long after it arrived, until
// stop is called. It returns how many were ever in flight at once.
func (w *world) works(after time.Duration) (stop func() (most int)) {
	quit, done := make(chan struct{}), make(chan struct{})
	most := 0
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(time.Second):
			}
			most = max(most, w.inFlight())
			for _, a := range w.queues[orders].all() {
				if time.Since(a.at) < after {
					continue
				}
				id := strings.TrimPrefix(string(a.out.Payload.Body), "body of ")
				w.mu.Lock()
				k := w.knows[id]
				k.completed = &dlqbridge.Completion{Store: "ledger", Run: "run-2", RedriveN: 1}
				w.knows[id] = k
				w.mu.Unlock()
			}
		}
	}()
	return func() int { close(quit); <-done; return most }
}

// With a bound, a job waits for outcomes and says so; each one that completes
// lets the next one go.
func TestInFlightAreThoseWithoutOutcome(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(10)
		doing := map[string]bool{}
		_, c := w.start(t, func(_ *process, o *redrive.Options) {
			o.MaxInFlight = 3
			o.Progress = func(p redrive.Progress) { doing[p.Doing] = true }
		})
		stop := w.works(20 * time.Second)
		res, err := c.Run(ctx, request())
		most := stop()
		if err != nil || res.Sent != 10 || res.State != dlqbridge.JobDone {
			t.Fatalf("%+v, %v", res, err)
		}
		if most != 3 {
			t.Errorf("%d in flight at once, want 3", most)
		}
		if !doing["waiting for outcomes: 3 in flight, at most 3"] || !doing[""] {
			t.Errorf("it said %v", doing)
		}
		if n := w.count(dlqbridge.StatusCompleted); n < 7 {
			t.Errorf("%d completed", n)
		}
	})
}

// Where nobody works, the end of the observation frees the seat.
func TestTheEndOfTheObservationFreesTheSeat(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(4)
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.MaxInFlight = 2 })
		began := time.Now()
		res, err := c.Run(ctx, request())
		took := time.Since(began)
		if err != nil || res.Sent != 4 || took < redrive.DefaultObserveFor || took > redrive.DefaultObserveFor+time.Minute {
			t.Fatalf("%+v, %v after %s", res, err, took)
		}
		if n := w.count(dlqbridge.StatusAwaitingOperationalDecision); n != 2 {
			t.Errorf("%d are unconfirmed, want the first 2", n)
		}
	})
}

// A doubt may need a person, so it keeps its seat no longer than an observation.
func TestADoubtKeepsItsSeatForAWhile(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(2)
		w.queues[orders].lose = func(o dlqbridge.Outgoing) bool { return string(o.Payload.Body) == "body of r_00000" }
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.MaxInFlight = 1 })
		began := time.Now()
		res, err := c.Run(ctx, request())
		if took := time.Since(began); err != nil || res.Sent != 1 || res.Outcomes[dlqbridge.OutcomeInDoubt] != 1 || took < redrive.DefaultObserveFor {
			t.Errorf("%+v, %v after %s", res, err, took)
		}
	})
}

// What was not sent needs no seat: refused messages hold nobody up.
func TestARefusedOneNeedsNoSeat(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(6)
		w.queues[orders].fault = func(o dlqbridge.Outgoing) error {
			if string(o.Payload.Body) != "body of r_00005" {
				return dlqbridge.ErrInvalid
			}
			return nil
		}
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.MaxInFlight = 2 })
		began := time.Now()
		res, err := c.Run(ctx, request())
		if took := time.Since(began); err != nil || res.Sent != 1 || res.Excluded.Len() != 5 || took > time.Minute {
			t.Errorf("%+v, %v after %s", res, err, took)
		}
	})
}

// A pause takes effect while the job waits, and whoever continues it counts what
// it has sent before.
func TestAWaitingJobIsPausedAndContinued(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(5)
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.MaxInFlight = 2 })
		var res redrive.Result
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			res, err = c.Run(ctx, request())
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		var job dlqbridge.Job
		w.mu.Lock()
		for _, j := range w.jobs {
			job = j
		}
		w.mu.Unlock()
		if job.Doing != "waiting for outcomes: 2 in flight, at most 2" {
			t.Errorf("the job says %q", job.Doing)
		}
		if _, err := c.Pause(ctx, job.ID, bob, "look first"); err != nil {
			t.Fatal(err)
		}
		<-done
		if err != nil || res.Sent != 2 || res.State != dlqbridge.JobPaused {
			t.Fatalf("%+v, %v", res, err)
		}
		stop := w.works(3 * time.Minute)
		res, err = c.Continue(ctx, job.ID, bob, "fine")
		if most := stop(); err != nil || res.Sent != 5 || most != 2 {
			t.Errorf("%+v, %v; %d in flight at once", res, err, most)
		}
	})
}

// Without a bound nothing waits for outcomes.
func TestWithoutABoundNothingWaits(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(1000)
		_, c := w.start(t, nil)
		began := time.Now()
		res, err := c.Run(ctx, request())
		if took := time.Since(began); err != nil || res.Sent != 1000 || took > time.Minute {
			t.Errorf("%d sent, %v after %s", res.Sent, err, took)
		}
	})
}
