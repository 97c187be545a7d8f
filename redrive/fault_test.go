package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// C02: seven of ten succeed, two fail for now, one for good.
func TestEachEntryHasItsOwnAnswer(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(10)
		tries := map[string]int{}
		w.queues[orders].fault = func(o dlqbridge.Outgoing) error {
			body := string(o.Payload.Body)
			tries[body]++
			switch {
			case strings.HasSuffix(body, "3"), strings.HasSuffix(body, "5"):
				if tries[body] == 1 {
					return dlqbridge.ErrThrottled
				}
			case strings.HasSuffix(body, "7"):
				return fmt.Errorf("%w: InvalidMessageContents", dlqbridge.ErrInvalid)
			}
			return nil
		}
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 9 || res.Outcomes[dlqbridge.OutcomeRefused] != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		for body, n := range tries {
			want := 1
			if strings.HasSuffix(body, "3") || strings.HasSuffix(body, "5") {
				want = 2
			}
			if n != want {
				t.Errorf("%s was tried %d times, want %d", body, n, want)
			}
		}
		refused := w.control("r_00007")
		if refused.Status != dlqbridge.StatusAwaitingTechnicalOwner || refused.Redrives != 0 || !strings.Contains(refused.Move.Why, "InvalidMessageContents") {
			t.Errorf("%+v", refused)
		}
		if w.sends["r_00003"][1].Tries != 2 || w.control("r_00003").Redrives != 1 {
			t.Error("a repetition is another redrive")
		}
	})
}

// C04: twelve records of 200 KiB to a queue that takes 1 MiB in one request.
func TestBatchesAreCutByBytes(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		for i := range 12 {
			w.add(fmt.Sprintf("r_%02d", i), func(_ *dlqbridge.Control, p *dlqbridge.Payload) {
				p.Body = []byte(strings.Repeat(string(rune('a'+i)), 200<<10))
			})
		}
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 12 || len(w.queues[orders].bodies()) != 12 {
			t.Fatalf("%+v, %v", res, err)
		}
		for _, n := range w.queues[orders].requests {
			if n > 1<<20 {
				t.Errorf("a request of %d bytes", n)
			}
		}
	})
}

// C05: the queue's own limit counts, not a number in the code.
func TestTooLargeIsRefusedBeforeTheClaim(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.queues[orders].facts.MaxBytes = 1024
		w.add("r_big", func(_ *dlqbridge.Control, p *dlqbridge.Payload) { p.Body, p.Attributes = make([]byte, 1025), nil })
		w.add("r_small", nil)
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		x := whole(res.Excluded)[0]
		if x.ID != "r_big" || x.Reason != dlqbridge.ExcludeTooLarge || !strings.Contains(x.Detail, "1024") {
			t.Errorf("%+v", x)
		}
		if c := w.control("r_big"); c.Redrives != 0 || c.Status != dlqbridge.StatusAuthorized {
			t.Errorf("%+v", c)
		}
	})
}

// C65: the index still shows what was sent a moment ago.
func TestAnOldIndexSelectsNothingTwice(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(5)
		for _, c := range w.controls {
			w.index = append(w.index, c)
		}
		_, c := w.start(t, nil)
		if res, err := c.Run(ctx, request()); err != nil || res.Sent != 5 {
			t.Fatalf("%+v, %v", res, err)
		}
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 0 || res.Selected != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if got := len(w.queues[orders].all()); got != 5 {
			t.Errorf("%d messages", got)
		}
	})
}

// C75: the credentials expire in the middle and are renewed five seconds later.
func TestCredentialsAreRenewed(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(60)
		var mu sync.Mutex
		var expired time.Time
		p, c := w.start(t, func(p *process, o *redrive.Options) {
			o.Burst = 10
			p.fault = func(string) error {
				mu.Lock()
				defer mu.Unlock()
				if expired.IsZero() && p.counted("send") > 4 {
					expired = time.Now()
				}
				if !expired.IsZero() && time.Since(expired) < 5*time.Second {
					return dlqbridge.ErrCredentials
				}
				return nil
			}
		})
		_ = p
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 60 || res.State != dlqbridge.JobDone {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

// C75: they are not; it ends in bounded time, nothing counts as failed, and the
// rest is sent by the next run.
func TestCredentialsStayAway(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(60)
		away := true
		_, c := w.start(t, func(p *process, o *redrive.Options) {
			o.Burst = 10
			p.fault = func(op string) error {
				if away && op == "send" && p.counted("send") > 4 {
					return dlqbridge.ErrCredentials
				}
				return nil
			}
		})
		start := time.Now()
		res, err := c.Run(ctx, request())
		if err != nil || res.State != dlqbridge.JobFailed || res.Clean() {
			t.Fatalf("%+v, %v", res, err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it took %s", took)
		}
		if n := w.count(dlqbridge.StatusAuthorized); n+res.Sent != 60 {
			t.Errorf("%d sent, %d authorised", res.Sent, n)
		}
		away = false
		again, err := c.Run(ctx, request())
		if err != nil || again.Sent+res.Sent != 60 {
			t.Errorf("%+v, %v", again, err)
		}
		for body, n := range w.queues[orders].bodies() {
			if n != 1 {
				t.Errorf("%s: %d", body, n)
			}
		}
	})
}

// C76: a missing queue is permanent for every record, access denied for the run.
func TestTheTargetCannotBeUsed(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			w.addMany(40)
			_, c := w.start(t, func(p *process, o *redrive.Options) {
				o.Burst = 10
				p.fault = func(op string) error {
					if op == "send" && p.counted("send") > 2 {
						w.queues[orders].mu.Lock()
						defer w.queues[orders].mu.Unlock()
						w.queues[orders].missing = true
					}
					return nil
				}
			})
			res, err := c.Run(ctx, request())
			if err != nil || res.State != dlqbridge.JobFailed {
				t.Fatalf("%+v, %v", res, err)
			}
			missing := 0
			for _, r := range reasons(res.Excluded) {
				if r == dlqbridge.ExcludeTargetMissing {
					missing++
				}
			}
			if res.Sent+missing != 40 || missing == 0 || res.Excluded.Len() != missing {
				t.Errorf("%d sent, %d missing, %d excluded", res.Sent, missing, res.Excluded.Len())
			}
			if n := w.count(dlqbridge.StatusAuthorized); n != missing {
				t.Errorf("%d can be sent later, want %d", n, missing)
			}
		})
	})
	t.Run("denied", func(t *testing.T) {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			w.addMany(40)
			p, c := w.start(t, func(p *process, o *redrive.Options) {
				o.Burst, o.AtOnce = 10, 5
				p.fault = func(op string) error {
					if op == "send" {
						return fmt.Errorf("%w: sqs:SendMessage", dlqbridge.ErrDenied)
					}
					return nil
				}
			})
			res, err := c.Run(ctx, request())
			if err != nil || res.State != dlqbridge.JobFailed || !strings.Contains(res.Reason, "sqs:SendMessage") {
				t.Fatalf("%+v, %v", res, err)
			}
			if p.counted("send") != 1 {
				t.Errorf("%d tries", p.counted("send"))
			}
			if n := w.count(dlqbridge.StatusAuthorized); n != 40 {
				t.Errorf("%d are authorised", n)
			}
		})
	})
}

// A lost answer on a standard queue is a doubt, not a failure and not a second send.
func TestALostAnswerIsADoubt(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(3)
		w.queues[orders].lose = func(o dlqbridge.Outgoing) bool { return strings.HasSuffix(string(o.Payload.Body), "1") }
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 2 || res.Outcomes[dlqbridge.OutcomeInDoubt] != 1 || res.Clean() {
			t.Fatalf("%+v, %v", res, err)
		}
		d := w.control("r_00001")
		if d.Status != dlqbridge.StatusRedriving || w.sends["r_00001"][1].Outcome != dlqbridge.OutcomeInDoubt {
			t.Errorf("%+v, %+v", d, w.sends["r_00001"][1])
		}
		if got := w.queues[orders].bodies()["body of r_00001"]; got != 1 {
			t.Errorf("sent %d times", got)
		}
	})
}

// C66: a destination that never answers: it ends in bounded time, in doubt.
func TestASilentDestination(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(3)
		dest := hangs{sender{&process{w: w}, w.queues[orders]}}
		_, c := w.start(t, func(_ *process, o *redrive.Options) {
			o.Destination = func(context.Context, string, string) (dlqbridge.Destination, error) { return dest, nil }
		})
		start := time.Now()
		res, err := c.Run(ctx, request())
		if err != nil || res.Outcomes[dlqbridge.OutcomeInDoubt] != 3 {
			t.Fatalf("%+v, %v", res, err)
		}
		if took := time.Since(start); took > redrive.DefaultSendDeadline+time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

type hangs struct{ sender }

func (h hangs) Send(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	<-ctx.Done()
	out := make([]dlqbridge.SendResult, len(batch))
	for i := range out {
		out[i].Err = fmt.Errorf("%w: %w", dlqbridge.ErrUnclear, ctx.Err())
	}
	return out
}

// C59: writes whose answers are lost, every one of them.
func TestLostAnswersOfWrites(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(20)
		var n atomic.Int32
		_, c := w.start(t, func(p *process, o *redrive.Options) {
			p.late = func(op string) error {
				if op == "move" || op == "put" || op == "keep" || op == "move-job" {
					if n.Add(1)%2 == 0 {
						return dlqbridge.ErrUnclear
					}
				}
				return nil
			}
		})
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 20 || !res.Clean() || w.jobs[res.Job].State != dlqbridge.JobDone {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

// I5: what the stores say is read again at claim time; an effect that became
// unknown after the authorisation is not sent, and the authorisation lapses.
func TestTheGateReadsTheStoresAgain(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(3)
		_, c := w.start(t, func(p *process, o *redrive.Options) {
			p.fault = func(op string) error {
				if op == "create-job" { // between authorisation and gate
					w.mu.Lock()
					defer w.mu.Unlock()
					w.knows["r_00001"] = knowledge{effect: dlqbridge.EffectUnknown}
					w.knows["r_00002"] = knowledge{completed: &dlqbridge.Completion{Store: "ledger", Run: "run-9"}}
				}
				return nil
			}
		})
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		want := map[string]dlqbridge.ExcludeReason{"r_00001": "effect_unknown", "r_00002": "closed"}
		if diff := cmp.Diff(want, reasons(res.Excluded)); diff != "" {
			t.Error(diff)
		}
		if c := w.control("r_00001"); c.Status != dlqbridge.StatusUnderInvestigation || c.Authorized != nil {
			t.Errorf("%+v", c)
		}
		if c := w.control("r_00002"); c.Status != dlqbridge.StatusCompleted || c.ClosedAt.IsZero() {
			t.Errorf("%+v", c)
		}
	})
}

func TestUnknownRecordsAreNamed(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		_, c := w.start(t, nil)
		r := request()
		r.IDs = []string{"r_none"}
		if _, err := c.Run(ctx, r); !errors.Is(err, dlqbridge.ErrNotFound) || !strings.Contains(err.Error(), "r_none") {
			t.Errorf("%v", err)
		}
		r = request()
		r.Cause = ""
		if _, err := c.Plan(ctx, r); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}
