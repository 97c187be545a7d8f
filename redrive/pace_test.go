package redrive_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// mostIn is the most arrivals in any window of that length.
func mostIn(arrived []arrival, window time.Duration) int {
	at := make([]time.Time, len(arrived))
	for i, a := range arrived {
		at[i] = a.at
	}
	slices.SortFunc(at, time.Time.Compare)
	most, from := 0, 0
	for i := range at {
		for at[i].Sub(at[from]) >= window {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// I10, C47: whatever the network does, no window of one second sees more than
// rate + burst at the destination.
func TestNoSecondGetsMoreThanRateAndBurst(t *testing.T) {
	for seed := range uint64(16) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			rate := []float64{5, 20, 50, 100, 400}[rng.IntN(5)]
			burst := []int{1, 2, 10, 40}[rng.IntN(4)]
			stall := []int{0, 150, 1500, 9000}[rng.IntN(4)] // milliseconds
			w := newWorld()
			w.addMany(min(400, int(rate*8)))
			w.queues[orders].latency = func() (before, after time.Duration) {
				d := func() time.Duration {
					if stall > 0 && rng.IntN(6) == 0 {
						return time.Duration(rng.IntN(stall)) * time.Millisecond / 2
					}
					return time.Duration(rng.IntN(5)) * time.Millisecond
				}
				return d(), d()
			}
			mu := make(chan struct{}, 1)
			inner := w.queues[orders].latency
			w.queues[orders].latency = func() (time.Duration, time.Duration) {
				mu <- struct{}{}
				defer func() { <-mu }()
				return inner()
			}
			_, c := w.start(t, func(_ *process, o *redrive.Options) {
				o.Rate, o.Burst = dlqbridge.Rate{Count: rate, Per: time.Second}, burst
			})
			// Two runs, the second at once after the first was stopped: the pace goes on.
			first, stop := context.WithTimeout(t.Context(), 3*time.Second)
			defer stop()
			if _, err := c.Run(first, request()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Run(t.Context(), request()); err != nil {
				t.Fatal(err)
			}
			limit := int(rate) + burst
			if got := mostIn(w.queues[orders].all(), time.Second); got > limit {
				t.Errorf("seed %d: %v/s burst %d stall %d ms: %d in one second, at most %d may", seed, rate, burst, stall, got, limit)
			}
		})
	}
}

// The rate is kept within 2 % over a minute while the network is fast.
func TestTheRateIsReached(t *testing.T) {
	for _, rate := range []float64{20, 120} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.addMany(int(rate * 65))
				w.queues[orders].latency = func() (time.Duration, time.Duration) { return 2 * time.Millisecond, 2 * time.Millisecond }
				_, c := w.start(t, func(p *process, o *redrive.Options) {
					o.Rate, o.Burst = dlqbridge.Rate{Count: rate, Per: time.Second}, 0
					p.latency = func() time.Duration { return 2 * time.Millisecond }
				})
				if _, err := c.Run(ctx, request()); err != nil {
					t.Fatal(err)
				}
				arrived := w.queues[orders].all()
				n := 0
				for _, a := range arrived {
					if a.at.Sub(arrived[0].at) < time.Minute {
						n++
					}
				}
				if want := rate * 60; float64(n) < want*0.98 || float64(n) > want*1.02 {
					t.Errorf("%d in a minute at %v/s", n, rate)
				}
				if got := mostIn(arrived, time.Second); got > int(rate)+max(10, int(rate/10)) {
					t.Errorf("%d in one second", got)
				}
			})
		})
	}
}

// After a takeover nobody knows what the dead one has under way: the bucket is empty.
func TestATakeoverStartsWithAnEmptyBucket(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(60)
		slow := func(_ *process, o *redrive.Options) {
			o.Rate, o.Burst = dlqbridge.Rate{Count: 2, Per: time.Second}, 20
			o.Lease, o.SendDeadline = 2*time.Second, time.Second
		}
		p, c := w.start(t, slow)
		dying, kill := context.WithCancel(ctx)
		p.kill = kill
		p.fault = func(op string) error {
			if op == "put" && p.counted("send") >= 2 {
				p.mu.Lock()
				p.dead = true
				p.mu.Unlock()
				kill()
				return errKilled
			}
			return nil
		}
		_, _ = c.Run(dying, request())
		time.Sleep(time.Hour) // what was journalled has long drained
		before := len(w.queues[orders].all())
		start := time.Now()
		_, next := w.start(t, slow)
		if _, err := next.Run(ctx, request()); err != nil {
			t.Fatal(err)
		}
		// Five seconds until a batch of ten is due at two a second.
		first := w.queues[orders].all()[before].at
		if waited := first.Sub(start); waited < 5*time.Second {
			t.Errorf("the first message went after %s", waited)
		}
	})
}

// C47: whoever starts many jobs one after the other gets no second burst.
func TestTheNextJobGoesOnWithThePace(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(40)
		for range 4 {
			_, c := w.start(t, func(_ *process, o *redrive.Options) { // a process of its own
				o.Rate, o.Burst = dlqbridge.Rate{Count: 2, Per: time.Second}, 10
			})
			r := request()
			r.Max = 10
			if res, err := c.Run(ctx, r); err != nil || res.Sent != 10 {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		if got := mostIn(w.queues[orders].all(), time.Second); got > 12 {
			t.Errorf("%d in one second, at most 12 may", got)
		}
	})
}
