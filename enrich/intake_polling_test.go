package enrich_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// C50: an empty answer is not an empty queue.
func TestC50EmptyAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(500)...)
		w.die()
		for i := range 40 {
			w.fault(localstack.Fault{Service: "sqs", Operation: "ReceiveMessage", Do: localstack.DoEmpty, Skip: 2 * min(i, 1)})
		}
		w.ForgetRequests()
		counts := w.drain()
		if counts.Letters != 500 || w.depth(w.dlq) != 0 {
			t.Errorf("counts %+v, %d left", counts, w.depth(w.dlq))
		}
		for _, r := range w.requests("sqs", "ReceiveMessage") {
			if r["WaitTimeSeconds"].(float64) < 1 {
				t.Fatalf("short poll: %v", r)
			}
		}
	})
}

// C51: a table that is down for thirteen hours; letters are held for twelve at
// most, let go, and stored once afterwards.
func TestC51TwelveHoursInHand(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(10)...)
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Do: localstack.DoThrottle, Times: -1})
		seen := &watch{}
		o := w.options(w.ports())
		o.Observer = seen
		in, err := enrich.NewIntake(o)
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			if err := in.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(13 * time.Hour) // virtual
		if n := seen.count(enrich.EventReceived); n > 30 {
			t.Errorf("received %d times for 10 letters in 13 h", n)
		}
		if n := seen.count(enrich.EventDeleted); n > 0 {
			t.Errorf("%d deleted while nothing was stored", n)
		}
		w.ClearFaults()
		time.Sleep(10 * time.Minute)
		stop()
		done.Wait()
		if c := in.Counts(); c.Records != 10 || w.depth(w.dlq) != 0 {
			t.Errorf("counts %+v, %d left", c, w.depth(w.dlq))
		}
	})
}

// C52: deletes that are refused because the handle has expired.
func TestC52ExpiredHandles(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(10)...)
		w.die()
		w.fault(localstack.Fault{
			Service: "sqs", Operation: "DeleteMessageBatch", Do: localstack.DoFailEntries, Code: "ReceiptHandleIsInvalid", SenderFault: true,
			Entries: localstack.Entries{Positions: []int{1, 5, 7}},
		})
		counts := w.drain()
		if want := (enrich.Counts{Letters: 10, Records: 10, Arrivals: 10, Duplicates: 3}); counts != want || w.depth(w.dlq) != 0 {
			t.Errorf("counts: got %+v, want %+v; %d left", counts, want, w.depth(w.dlq))
		}
		for key, c := range w.cases() {
			wantVerbs(t, c, dlqbridge.VerbReceive)
			if c.Control.Arrivals != 1 {
				t.Errorf("%s: %d arrivals", key, c.Control.Arrivals)
			}
		}
	})
}

// stuck is a place at its in-flight limit.
type stuck struct {
	dlqbridge.DeadLetters
	err error
}

func (d stuck) Receive(ctx context.Context, _ int, wait time.Duration) ([]dlqbridge.Letter, error) {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return nil, d.err
}

func (stuck) Depth(context.Context) (dlqbridge.Depth, error) {
	return dlqbridge.Depth{Visible: 50_000, InFlight: 120_000, InFlightLimit: 120_000}, nil
}

// C53: the in-flight limit is not an empty queue.
func TestC53StuckIsNotDone(t *testing.T) {
	for name, err := range map[string]error{"empty answers": nil, "an error": dlqbridge.ErrThrottled} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				p := w.ports()
				p.letters = stuck{p.letters, err}
				seen := &watch{}
				o := w.options(p)
				o.Observer = seen
				if _, err := w.intake(o); !errors.Is(err, dlqbridge.ErrUnavailable) || !strings.Contains(err.Error(), "50000 messages are visible") {
					t.Errorf("got %v", err)
				}
				if n := seen.count(enrich.EventStuck); n != 1 {
					t.Errorf("%d events", n)
				}
				in, err := enrich.NewIntake(o)
				must(t, err)
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
				defer stop()
				must(t, in.Run(ctx))
				if n := seen.count(enrich.EventStuck); n != 2 {
					t.Errorf("service: %d events, want one more", n)
				}
			})
		})
	}
}

// C54: while the table throttles for a minute, letters wait in hand.
func TestC54ThrottledTableIsNoHotLoop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(20)...)
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Do: localstack.DoThrottle, Times: -1})
		seen := &watch{}
		o := w.options(w.ports())
		o.Observer = seen
		time.AfterFunc(time.Minute, w.ClearFaults)
		counts, err := w.intake(o)
		must(t, err)
		if want := (enrich.Counts{Letters: 20, Records: 20, Arrivals: 20}); counts != want {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
		if n := seen.count(enrich.EventReceived); n > 25 {
			t.Errorf("received %d times for 20 letters", n)
		}
		for key, c := range w.cases() {
			if n := *c.Context(c.History[0].Context).Deliveries; n > 3 {
				t.Errorf("%s: %d deliveries", key, n)
			}
		}
	})
}

// C55: stopping finishes what is in hand and gives the rest back; after ten
// restarts under load nothing is lost and nothing is there twice.
func TestC55StopAndGoOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(200)...)
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Operation: "BatchWriteItem", Do: localstack.DoDelay, Ms: 300, Times: -1})
		for range 10 {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			in, err := enrich.NewIntake(w.options(w.ports()))
			must(t, err)
			must(t, in.Run(ctx))
			stop()
			// Everything that was received was finished or given back: nothing is hidden.
			if d, err := w.letters().Depth(t.Context()); err != nil || d.InFlight != 0 {
				t.Fatalf("in flight after the stop: %+v, %v", d, err)
			}
		}
		counts := w.drain()
		if counts.Duplicates != 0 || len(w.cases()) != 200 || w.depth(w.dlq) != 0 {
			t.Errorf("counts %+v, %d records, %d left", counts, len(w.cases()), w.depth(w.dlq))
		}
	})
	inWorld(t, func(t *testing.T, w *world) { // a table that is down does not hold the stop
		w.send(tasks(10)...)
		w.die()
		w.fault(localstack.Fault{Service: "dynamodb", Do: localstack.DoThrottle, Times: -1})
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		in, err := enrich.NewIntake(w.options(w.ports()))
		must(t, err)
		began := time.Now()
		must(t, in.Run(ctx))
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("stopping took %s", took)
		}
		if d, err := w.letters().Depth(t.Context()); err != nil || d.Visible != 10 {
			t.Errorf("given back: %+v, %v", d, err)
		}
	})
}
