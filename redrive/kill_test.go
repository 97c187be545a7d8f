package redrive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// killKinds are the kinds of destination that differ in what a doubt means.
var killKinds = []struct {
	name  string
	fifo  bool
	setup func(w *world)
	// copies: a doubt is ended by sending again under the same number.
	copies bool
}{
	{"standard", false, func(*world) {}, false},
	{"kit", false, func(w *world) { w.routes["orders"] = redrive.Route{Name: "orders", Kit: true} }, true},
	{"repeat safe", false, func(w *world) {
		for id := range w.controls {
			w.knows[id] = knowledge{repeatSafe: true}
		}
	}, true},
	{"fifo", true, func(*world) {}, true},
	{"resume", false, resumeAll(""), false},
	{"resume elsewhere", false, resumeAll(resumes), false},
	{"resume elsewhere, fifo", true, resumeAll(resumes), true},
	{"compensate", false, compensateAll(false), false},
	{"compensate, idempotent", false, compensateAll(true), true},
	{"compensate, fifo", true, compensateAll(false), false},
	{"compensate, fifo, idempotent", true, compensateAll(true), true},
}

// compensateAll lets every record have an effect that a compensation can undo.
func compensateAll(idempotent bool) func(*world) {
	return func(w *world) {
		for id := range w.controls {
			w.knows[id] = knowledge{effect: dlqbridge.EffectConfirmed}
		}
		w.queues[compensations] = newQueue(compensations, w.queues[orders].facts.FIFO)
		w.home = compensations
		// That tasks' workers use the kit says nothing about who compensates.
		w.routes["orders"] = redrive.Route{Name: "orders", CompensateTo: compensations, CompensateIdempotent: idempotent, Kit: true}
	}
}

// resumeAll lets every record be resumed from a checkpoint of its own.
func resumeAll(to string) func(*world) {
	return func(w *world) {
		for id := range w.controls {
			w.knows[id] = knowledge{effect: dlqbridge.EffectConfirmed, uncovered: dlqbridge.EffectNone, checkpoint: "ck-" + id}
		}
		if to != "" {
			w.queues[to] = newQueue(to, w.queues[orders].facts.FIFO)
			w.routes["orders"], w.home = redrive.Route{Name: "orders", ResumeTo: to}, to
		}
	}
}

// A process is killed before and after each of its calls; the next run takes
// over. Nothing is lost, nothing is sent twice unless the copy is marked with
// the same number, and that only where repeating is safe; on FIFO the queue
// itself drops the copy (C62).
func TestKilledAnywhere(t *testing.T) {
	for _, kind := range killKinds {
		t.Run(kind.name, func(t *testing.T) {
			total := 0
			synctest.Test(t, func(t *testing.T) {
				p, _ := killRun(t, kind.fifo, kind.setup, 0, false, false)
				total = p.calls
			})
			var lost, unmarked, marked, doubts int
			for at := 1; at <= total; at++ {
				for _, after := range []bool{false, true} {
					for _, again := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) {
							_, w := killRun(t, kind.fifo, kind.setup, at, after, again)
							d := w.account(t, fmt.Sprintf("call %d, after %v, continue %v", at, after, again), nil)
							lost, unmarked, marked, doubts = lost+d.lost, unmarked+d.unmarked, marked+d.marked, doubts+d.doubts
						})
					}
				}
			}
			t.Logf("%s: killed at %d calls: lost %d, unmarked copies %d, marked copies %d, in doubt %d", kind.name, total, lost, unmarked, marked, doubts)
			if lost > 0 || unmarked > 0 {
				t.Error("something was lost or sent twice")
			}
			if marked > 0 && (kind.fifo || !kind.copies) {
				t.Error("copies where none may be")
			}
			if doubts > 0 && kind.copies {
				t.Error("a doubt was left although repeating is safe")
			}
		})
	}
}

// killRun runs until the kill and then, in a new process, again: a new run, or
// the old job continued where there is one.
func killRun(t *testing.T, fifo bool, setup func(*world), at int, after, again bool) (*process, *world) {
	w := newWorld()
	w.queues[orders] = newQueue(orders, fifo)
	for i := range 12 {
		w.add(fmt.Sprintf("r_%03d", i), func(_ *dlqbridge.Control, p *dlqbridge.Payload) {
			if fifo {
				p.GroupKey = string(rune('a' + i%3))
			}
		})
	}
	setup(w)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	small := func(_ *process, o *redrive.Options) { o.Burst = 8 }
	p, c := w.start(t, small)
	p.killAt, p.after, p.kill = at, after, cancel
	_, _ = c.Run(ctx, request())
	if at == 0 {
		return p, w
	}
	if !p.dead {
		return p, w // fewer calls this time: nothing to check
	}
	time.Sleep(time.Minute) // the dead holder's lease ends
	_, c = w.start(t, small)
	if again {
		for id, job := range w.jobs {
			if job.State != dlqbridge.JobDone {
				if _, err := c.Continue(t.Context(), id, alice, "go on"); err != nil {
					t.Fatalf("continue after call %d: %v", at, err)
				}
			}
		}
	}
	if _, err := c.Run(t.Context(), request()); err != nil {
		t.Fatalf("run after call %d: %v", at, err)
	}
	return p, w
}

// bodyOf is the body by which an arrival is counted: a compensation's is that of
// the record whose task it undoes.
func bodyOf(a arrival) string {
	var c redrive.Compensation
	if json.Unmarshal(a.out.Payload.Body, &c) == nil {
		return "body of " + c.Record
	}
	return string(a.out.Payload.Body)
}

type damage struct{ lost, unmarked, marked, doubts int }

// account checks each record against what arrived at the queue.
func (w *world) account(t *testing.T, what string, blocked map[string]dlqbridge.ExcludeReason) damage {
	t.Helper()
	var d damage
	arrived := w.queues[w.home].all()
	byBody := map[string][]arrival{}
	for _, a := range arrived {
		body := bodyOf(a)
		byBody[body] = append(byBody[body], a)
	}
	for id, c := range w.controls {
		copies := byBody["body of "+id]
		note := w.sends[id][c.Redrives]
		if blocked[id] == dlqbridge.ExcludeOrderBlocked && len(copies) == 0 && c.Status == dlqbridge.StatusAuthorized {
			continue // behind a doubt that outlived the queue's memory
		}
		switch {
		case len(copies) > 1:
			for _, a := range copies[1:] {
				if a.mark == "" || a.mark != copies[0].mark {
					d.unmarked++
					t.Errorf("%s: %s went out twice: %s, %s", what, id, copies[0].mark, a.mark)
				} else {
					d.marked++
				}
			}
		case len(copies) == 0 && c.Claim != nil && note.Outcome == dlqbridge.OutcomeInDoubt:
			// kept for a person
		case len(copies) == 0:
			d.lost++
			t.Errorf("%s: %s was never sent and is %s, note %+v", what, id, c.Status, note)
		}
		if c.Status != dlqbridge.StatusRedriving || c.Redrives != 1 {
			t.Errorf("%s: %s is %s with %d redrives", what, id, c.Status, c.Redrives)
		}
		if note.Outcome == dlqbridge.OutcomeInDoubt {
			d.doubts++
		}
		for v, m := range w.history[id] {
			if m.Version != v+1 {
				t.Errorf("%s: history of %s has a gap at %d", what, id, v+1)
			}
		}
	}
	if l := w.leases[w.home]; len(l.Batches) > 0 || !l.Until.IsZero() {
		t.Errorf("%s: the lease is left open: %+v", what, l)
	}
	return d
}

// C61: two processes and one more by id at the same moment, 100 times: each
// record is sent once, and the loser is told who holds the lease.
func TestTwoPeoplePressTheButton(t *testing.T) {
	for round := range 100 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			ids := w.addMany(7)
			var runs sync.WaitGroup
			rng := rand.New(rand.NewPCG(uint64(round), 1))
			for i := range 3 {
				delays := rng.Perm(5)
				runs.Go(func() {
					_, c := w.start(t, func(p *process, o *redrive.Options) {
						n := 0
						var mu sync.Mutex
						p.latency = func() time.Duration {
							mu.Lock()
							defer mu.Unlock()
							n++
							return time.Duration(delays[n%5]) * time.Millisecond
						}
						o.Burst = 4
					})
					r := request()
					if i == 2 {
						r.IDs = ids[3:4]
					}
					_, err := c.Run(t.Context(), r)
					if _, held := errors.AsType[*dlqbridge.LeaseHeldError](err); err != nil && !held {
						t.Error(err)
					}
				})
			}
			runs.Wait()
			_, c := w.start(t, nil)
			if _, err := c.Run(t.Context(), request()); err != nil {
				t.Error(err)
			}
			for _, id := range ids {
				if n := w.queues[orders].bodies()["body of "+id]; n != 1 {
					t.Errorf("round %d: %s was sent %d times", round, id, n)
				}
			}
		})
	}
}

// A holder that slept through its lease is fenced: it sends nothing any more.
func TestAnOldHolderThatWakesUpSendsNothing(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(40)
		var slept atomic.Bool
		old, c := w.start(t, func(p *process, o *redrive.Options) {
			o.Burst = 10
			p.fault = func(op string) error {
				if op == "keep" && p.counted("send") > 0 && slept.CompareAndSwap(false, true) {
					time.Sleep(2 * time.Minute) // a machine that was suspended
				}
				return nil
			}
		})
		_, next := w.start(t, func(_ *process, o *redrive.Options) { o.Burst = 10 })
		done := make(chan error)
		go func() {
			_, err := c.Run(ctx, request())
			done <- err
		}()
		time.Sleep(time.Minute)
		before := old.counted("send")
		if _, err := next.Run(ctx, request()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err == nil {
			t.Error("the old holder was not told")
		}
		if old.counted("send") != before {
			t.Error("the old holder sent after it was fenced")
		}
		for body, n := range w.queues[orders].bodies() {
			if n != 1 {
				t.Errorf("%s was sent %d times", body, n)
			}
		}
	})
}

// Nor does it take back what its successor has claimed and sent meanwhile, which
// is under the same job and number where the job was continued: that record would
// be sent once more by whoever comes next.
func TestAnOldHolderThatWakesUpTakesNothingBack(t *testing.T) {
	for asleep, copies := range map[string]int{
		"keep":  1, // claimed and not journalled
		"send":  1, // journalled, before the request
		"doubt": 2, // the answer was lost and that is not noted: its successor sends the second copy, under the same mark
	} {
		t.Run(asleep, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.addMany(3)
				if asleep != "keep" {
					w.routes["orders"] = redrive.Route{Name: "orders", Kit: true} // so that the successor sends what is in doubt
				}
				var wakes atomic.Pointer[time.Time]
				_, c := w.start(t, func(p *process, _ *redrive.Options) {
					p.fault = func(op string) error {
						falls := false
						if op == asleep && p.counted("move") > 1 { // authorised and claimed
							falls = wakes.CompareAndSwap(nil, new(time.Now().Add(5*time.Minute)))
						}
						if at := wakes.Load(); at != nil { // a machine that is suspended
							time.Sleep(time.Until(*at))
						}
						if falls && op == "send" {
							return dlqbridge.ErrThrottled // it wakes up to a refusal
						}
						return nil
					}
				})
				w.queues[orders].lose = func(dlqbridge.Outgoing) bool { return asleep == "doubt" && wakes.Load() == nil }
				_, next := w.start(t, nil)
				done := make(chan error)
				go func() {
					_, err := c.Run(ctx, request())
					done <- err
				}()
				time.Sleep(2 * time.Minute)
				res, err := next.Continue(ctx, w.control("r_00000").Move.Job, alice, "the other machine sleeps")
				if err != nil || res.Sent != 3 {
					t.Errorf("%+v, %v", res, err)
				}
				if err := <-done; err == nil && asleep != "doubt" { // whose work is done by then
					t.Error("the old holder was not told")
				}
				for _, id := range []string{"r_00000", "r_00001", "r_00002"} {
					if got := w.control(id); got.Status != dlqbridge.StatusRedriving || got.Claim == nil || got.Claim.N != 1 || w.sends[id][1].Outcome != dlqbridge.OutcomeSent {
						t.Errorf("%+v, %+v", got, w.sends[id])
					}
				}
				_, third := w.start(t, nil)
				if again, err := third.Run(ctx, request()); err != nil || again.Sent != 0 {
					t.Errorf("%+v, %v", again, err)
				}
				for body, n := range w.queues[orders].bodies() {
					if n != copies {
						t.Errorf("%s was sent %d times, want %d", body, n, copies)
					}
				}
			})
		})
	}
}

// C63: a lease is not taken over before it has ended.
func TestTakeoverWaitsForTheLease(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(3)
		p, c := w.start(t, nil)
		dying, kill := context.WithCancel(ctx)
		p.kill = kill
		p.fault = func(op string) error {
			if op == "send" {
				p.mu.Lock()
				p.dead = true
				p.mu.Unlock()
				kill()
				return errKilled
			}
			return nil
		}
		start := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.Run(dying, request())
		}()
		synctest.Wait()
		w.mu.Lock()
		lease := w.leases[orders]
		w.mu.Unlock()
		defer func() { <-ended }()
		_, next := w.start(t, nil)
		time.Sleep(time.Until(lease.Until.Add(-time.Second)))
		res, err := next.Run(ctx, request())
		if err != nil || res.Sent != 0 || reasons(res.Excluded)["r_00000"] != dlqbridge.ExcludeClaimed {
			t.Fatalf("%+v, %v", res, err)
		}
		w.add("r_new", nil) // with something to send the lease matters
		_, err = next.Run(ctx, request())
		held, ok := errors.AsType[*dlqbridge.LeaseHeldError](err)
		if !ok || held.Holder != "test" || !held.Until.Equal(lease.Until) {
			t.Fatalf("%v after %s", err, time.Since(start))
		}
		time.Sleep(2 * time.Second)
		if _, err := next.Run(ctx, request()); err != nil {
			t.Error(err)
		}
	})
}

// C63: a job died between claim and journal. Whoever continues it finds the claims
// by its members, without a new plan that would come across them.
func TestContinuingReleasesWhatWasClaimed(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(6)
		dying, kill := context.WithCancel(ctx)
		p, c := w.start(t, nil)
		p.kill = kill
		p.fault = func(op string) error {
			if op == "keep" && w.count(dlqbridge.StatusRedriving) > 0 {
				p.mu.Lock()
				p.dead = true
				p.mu.Unlock()
				kill()
				return errKilled
			}
			return nil
		}
		_, _ = c.Run(dying, request())
		if n := w.count(dlqbridge.StatusRedriving); n != 6 || len(w.queues[orders].all()) != 0 {
			t.Fatalf("%d claimed, %d sent", n, len(w.queues[orders].all()))
		}
		time.Sleep(time.Minute) // the lease ends
		_, next := w.start(t, nil)
		res, err := next.Continue(ctx, w.leases[orders].Job, alice, "go on")
		if err != nil || res.Sent != 6 || !res.Clean() {
			t.Errorf("%+v, %v", res, err)
		}
		for body, n := range w.queues[orders].bodies() {
			if n != 1 {
				t.Errorf("%s was sent %d times", body, n)
			}
		}
	})
}

// Killed again and again, also while taking over, and continued or run anew.
func TestKilledAgainAndAgain(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		kind := killKinds[rng.IntN(len(killKinds))]
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.queues[orders] = newQueue(orders, kind.fifo)
			for i := range 12 {
				w.add(fmt.Sprintf("r_%03d", i), func(_ *dlqbridge.Control, p *dlqbridge.Payload) {
					if kind.fifo {
						p.GroupKey = string(rune('a' + i%3))
					}
				})
			}
			kind.setup(w)
			small := func(_ *process, o *redrive.Options) { o.Burst = 8 }
			for range 1 + rng.IntN(4) {
				ctx, cancel := context.WithCancel(t.Context())
				p, c := w.start(t, small)
				p.killAt, p.after, p.kill = 1+rng.IntN(45), rng.IntN(2) == 0, cancel
				if id := w.leases[w.home].Job; id != "" && rng.IntN(2) == 0 {
					_, _ = c.Continue(ctx, id, alice, "")
				} else {
					_, _ = c.Run(ctx, request())
				}
				cancel()
				time.Sleep(time.Duration(rng.IntN(40)) * time.Second)
			}
			time.Sleep(31 * time.Second)
			_, c := w.start(t, small)
			res, err := c.Run(t.Context(), request())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			d := w.account(t, fmt.Sprintf("seed %d, %s", seed, kind.name), reasons(res.Excluded))
			if d.marked > 0 && (kind.fifo || !kind.copies) {
				t.Errorf("seed %d, %s: copies where none may be", seed, kind.name)
			}
		})
	}
}

// A holder whose clock is late believes in its lease a little too long. Its
// request may be under way when another one takes over; that one waits for the
// longest send before it judges the open batch.
func TestATakeoverWaitsForTheLongestSend(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.routes["orders"] = redrive.Route{Name: "orders", Kit: true}
		w.addMany(3)
		w.queues[orders].latency = func() (time.Duration, time.Duration) { return time.Second, 8 * time.Second }
		short := func(o *redrive.Options) { o.Lease, o.SendDeadline = 11*time.Second, 10*time.Second }
		_, late := w.start(t, func(_ *process, o *redrive.Options) {
			short(o)
			o.Now = func() time.Time { return time.Now().Add(-8 * time.Second) }
		})
		_, next := w.start(t, func(_ *process, o *redrive.Options) { short(o) })
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = late.Run(ctx, request())
		}()
		time.Sleep(3500 * time.Millisecond)
		if _, err := next.Run(ctx, request()); err != nil {
			t.Fatal(err)
		}
		<-done
		for body, n := range w.queues[orders].bodies() {
			if n != 1 {
				t.Errorf("%s was sent %d times", body, n)
			}
		}
		if s := w.sends["r_00000"][1]; s.Outcome != dlqbridge.OutcomeSent || s.Tries != 1 {
			t.Errorf("%+v", s)
		}
	})
}
