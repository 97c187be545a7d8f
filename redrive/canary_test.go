package redrive_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// work is a worker and the intake behind it: half a minute after a message has
// arrived its task has completed, or has died and come back.
func (w *world) work(ctx context.Context, holds func(id string) bool) {
	done := map[string]int{}
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		for _, a := range w.queues[orders].all() {
			id := strings.TrimPrefix(string(a.out.Payload.Body), "body of ")
			if time.Since(a.at) < 30*time.Second || done[id+a.mark] > 0 {
				continue
			}
			w.mu.Lock()
			c := w.controls[id]
			switch {
			case c.Claim == nil: // a copy, or settled by somebody
			case holds(id):
				w.knows[id] = knowledge{completed: &dlqbridge.Completion{Store: "ledger", Run: "run-2", RedriveN: c.Claim.N}}
			default:
				to := c
				to.Version, to.Status, to.Claim, to.Authorized, to.Fix = c.Version+1, dlqbridge.StatusClassified, nil, nil, ""
				to.Recurrences++
				to.Move = dlqbridge.Move{Version: to.Version, At: time.Now(), By: "intake", Verb: dlqbridge.VerbRecur, From: c.Status, To: to.Status}
				if err := w.move(dlqbridge.Step{From: c, To: to}); err != nil {
					panic(err)
				}
			}
			w.mu.Unlock()
			done[id+a.mark]++
		}
	}
}

func withCanary(steps ...int) func(*process, *redrive.Options) {
	return func(_ *process, o *redrive.Options) { o.Canary = steps }
}

// working runs do while a worker works.
func working(t *testing.T, w *world, holds func(string) bool, do func(context.Context)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.work(ctx, holds)
	}()
	do(ctx)
	stop()
	<-done
}

var (
	all200 = func(string) bool { return true }
	none   = func(string) bool { return false }
)

func onlyJob(t *testing.T, w *world, id string) dlqbridge.Job {
	t.Helper()
	job, ok := w.jobs[id]
	if !ok {
		t.Fatalf("there is no job %q", id)
	}
	return job
}

func TestACanaryStopsWhereTheFixDoesNotHold(t *testing.T) {
	in(t, func(t *testing.T, _ context.Context, w *world) {
		ids := w.addMany(200)
		_, c := w.start(t, withCanary(1, 5, 25))
		working(t, w, none, func(ctx context.Context) {
			res, err := c.Run(ctx, request())
			if err != nil || res.Sent < 1 || res.Sent > 6 || res.State != dlqbridge.JobPaused || res.Clean() {
				t.Fatalf("%+v, %v", res, err)
			}
			job := onlyJob(t, w, res.Job)
			if !strings.Contains(job.Reason, "canary step 1 of 1,5,25: 1 of 1 came back") || job.Doing != "" {
				t.Errorf("the job says %q, doing %q", job.Reason, job.Doing)
			}
		})
		for _, id := range ids {
			if ctl := w.control(id); ctl.Authorized != nil || ctl.Claim != nil {
				t.Errorf("%s is still %s", id, ctl.Status)
			}
		}
		// After a real fix the same command completes all.
		_, c = w.start(t, withCanary(1, 5, 25))
		working(t, w, all200, func(ctx context.Context) {
			start := time.Now()
			res, err := c.Run(ctx, request())
			if err != nil || res.Sent != 200 || res.State != dlqbridge.JobDone {
				t.Fatalf("%+v, %v", res, err)
			}
			if took := time.Since(start); took < time.Minute {
				t.Errorf("two further steps of half a minute took %s", took)
			}
			if _, err := c.Wait(ctx, res.Records); err != nil {
				t.Error(err)
			}
		})
		if n := w.count(dlqbridge.StatusCompleted); n != 200 {
			t.Errorf("%d completed", n)
		}
		for body, n := range w.queues[orders].bodies() {
			if n > 2 {
				t.Errorf("%s went out %d times", body, n)
			}
		}
	})
}

// A person who has looked may go on: what was not sent is authorised in that
// person's name, and the step that paused the job does not pause it again.
func TestAPausedCanaryGoesOnForAReason(t *testing.T) {
	in(t, func(t *testing.T, _ context.Context, w *world) {
		w.addMany(30)
		_, c := w.start(t, withCanary(2, 5))
		odd := func(id string) bool { return id != "r_00000" }
		working(t, w, odd, func(ctx context.Context) {
			res, err := c.Run(ctx, request())
			if err != nil || res.State != dlqbridge.JobPaused || res.Sent != 2 {
				t.Fatalf("%+v, %v", res, err)
			}
			res, err = c.Continue(ctx, res.Job, bob, "r_00000 has a case of its own")
			if err != nil || res.State != dlqbridge.JobDone || res.Sent != 30 {
				t.Fatalf("%+v, %v", res, err)
			}
			job := onlyJob(t, w, res.Job)
			if job.Step != 2 || job.Lapsed {
				t.Errorf("%+v", job)
			}
		})
		if by := lastBy(w.history["r_00020"], dlqbridge.VerbAuthorize); by != bob.String() {
			t.Errorf("authorised by %s", by)
		}
		if n := len(w.queues[orders].all()); n != 30 {
			t.Errorf("%d messages", n)
		}
	})
}

func lastBy(history []dlqbridge.Move, v dlqbridge.Verb) string {
	for _, m := range slices.Backward(history) {
		if m.Verb == v {
			return m.By
		}
	}
	return ""
}

// Where no store speaks the end of the observation does.
func TestACanaryPassesByAbsence(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(20)
		_, c := w.start(t, withCanary(1, 5))
		start := time.Now()
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 20 || res.State != dlqbridge.JobDone {
			t.Fatalf("%+v, %v", res, err)
		}
		if took := time.Since(start); took < 20*time.Minute || took > 22*time.Minute {
			t.Errorf("two observations took %s", took)
		}
	})
}

func TestACanaryPausesWhereSendingFails(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(20)
		w.queues[orders].lose = func(dlqbridge.Outgoing) bool { return true }
		_, c := w.start(t, withCanary(2, 5))
		res, err := c.Run(ctx, request())
		if err != nil || res.State != dlqbridge.JobPaused || len(w.queues[orders].all()) != 2 || !strings.Contains(res.Reason, "in doubt") {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

func TestACanaryIsObservedUnderAnOperatorsEyes(t *testing.T) {
	for verb, want := range map[string]dlqbridge.JobState{"pause": dlqbridge.JobPaused, "cancel": dlqbridge.JobCancelled} {
		t.Run(verb, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.addMany(20)
				_, c := w.start(t, withCanary(1, 5))
				_, other := w.start(t, nil)
				done := make(chan redrive.Result)
				began := time.Now()
				go func() {
					res, err := c.Run(ctx, request())
					if err != nil {
						t.Error(err)
					}
					done <- res
				}()
				time.Sleep(time.Minute)
				w.mu.Lock()
				id := slices.Collect(maps.Keys(w.jobs))[0]
				doing := w.jobs[id].Doing
				w.mu.Unlock()
				if latest := began.Add(redrive.DefaultObserveFor + 15*time.Second).UTC().Format("15:04:05Z"); doing != "canary step 1 of 1,5, observing until "+latest+" at the latest" {
					t.Errorf("doing %q", doing)
				}
				var err error
				if verb == "pause" {
					_, err = other.Pause(ctx, id, bob, "wait")
				} else {
					_, err = other.Cancel(ctx, id, bob, "no")
				}
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				res := <-done
				if res.State != want || res.Sent != 1 || time.Since(start) > time.Minute {
					t.Errorf("%+v after %s", res, time.Since(start))
				}
				if verb == "pause" { // and on, with the same step observed to its end
					res, err := c.Continue(ctx, id, bob, "go on")
					if err != nil || res.State != dlqbridge.JobDone || res.Sent != 20 {
						t.Errorf("%+v, %v", res, err)
					}
				}
			})
		})
	}
}

// Each step takes its sample from as many tenants, types and signatures as it
// can, the most urgent of each.
func TestSamplesAreSpread(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		for i := range 60 {
			w.add(fmt.Sprintf("r_%03d", i), func(c *dlqbridge.Control, _ *dlqbridge.Payload) {
				c.FirstSeen = time.Now().Add(time.Duration(i) * time.Second)
				c.Tenant = map[bool]string{true: "big", false: fmt.Sprintf("small-%d", i%4)}[i < 40]
				c.TaskType = []string{"bill", "mail"}[i%2]
				c.Signature = fmt.Sprintf("sg_%d", i%3)
			})
		}
		w.add("r_999", func(c *dlqbridge.Control, _ *dlqbridge.Payload) {
			c.Deadline, c.Tenant = time.Now().Add(time.Hour), "big"
		})
		_, c := w.start(t, withCanary(1, 5))
		p, err := c.Plan(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		members := whole(p.Jobs[0].Members)
		if members[0].ID != "r_999" {
			t.Errorf("the nearest deadline is not first: %s", members[0].ID)
		}
		tenants, types, signatures := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, m := range members[1:6] {
			ctl := w.control(m.ID)
			tenants[ctl.Tenant], types[ctl.TaskType], signatures[ctl.Signature] = true, true, true
		}
		if len(tenants) != 5 || len(types) != 2 || len(signatures) != 3 {
			t.Errorf("a step of five has tenants %v, types %v, signatures %v", tenants, types, signatures)
		}
		if len(members) != 61 || members[6].ID > members[7].ID {
			t.Errorf("the rest lost its order: %v", members[6:])
		}
	})
}

// Killed before and after each call of a job with canary steps: nothing is
// lost, and nothing is sent twice unless marked and where it is safe.
func TestKilledAnywhereInACanary(t *testing.T) {
	for _, kind := range killKinds {
		t.Run(kind.name, func(t *testing.T) {
			total, stride := 0, 3 // looking at outcomes is most of the calls
			if testing.Short() {
				stride = 13
			}
			var d damage
			round := func(at int, after, again bool) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					w.queues[orders] = newQueue(orders, kind.fifo)
					for i := range 9 {
						w.add(fmt.Sprintf("r_%03d", i), func(_ *dlqbridge.Control, p *dlqbridge.Payload) {
							if kind.fifo {
								p.GroupKey = string(rune('a' + i%3))
							}
						})
					}
					kind.setup(w)
					for name, route := range w.routes {
						route.Absence = true
						w.routes[name] = route
					}
					setup := func(_ *process, o *redrive.Options) { o.Burst, o.Canary = 8, []int{1, 3} }
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					p, c := w.start(t, setup)
					p.killAt, p.after, p.kill = at, after, cancel
					_, _ = c.Run(ctx, request())
					if at == 0 {
						total = p.calls
					}
					time.Sleep(time.Minute)
					_, c = w.start(t, setup)
					for id, job := range w.jobs {
						if again && job.State != dlqbridge.JobDone {
							if _, err := c.Continue(t.Context(), id, alice, "go on"); err != nil {
								t.Fatalf("continue after call %d: %v", at, err)
							}
						}
					}
					if _, err := c.Run(t.Context(), request()); err != nil {
						t.Fatalf("run after call %d: %v", at, err)
					}
					w.accountCanary(t, fmt.Sprintf("call %d, after %v, continue %v", at, after, again), &d)
				})
			}
			round(0, false, false)
			for at := 1; at <= total; at += stride {
				for _, after := range []bool{false, true} {
					round(at, after, at%2 == 0)
				}
			}
			t.Logf("%s: killed at %d calls: lost %d, unmarked copies %d, marked copies %d, in doubt %d", kind.name, total, d.lost, d.unmarked, d.marked, d.doubts)
			// A canary outlives the queue's memory; a copy after that is fine only
			// where it is declared harmless.
			if d.marked > 0 && (kind.fifo && !strings.Contains(kind.name, "idempotent") || !kind.copies) {
				t.Error("copies where none may be")
			}
		})
	}
}

func (w *world) accountCanary(t *testing.T, what string, d *damage) {
	t.Helper()
	marks := map[string][]string{}
	for _, a := range w.queues[w.home].all() {
		body := bodyOf(a)
		marks[body] = append(marks[body], a.mark)
	}
	for id, c := range w.controls {
		copies, note := marks["body of "+id], w.sends[id][c.Redrives]
		doubt := c.Claim != nil && note.Outcome == dlqbridge.OutcomeInDoubt
		if doubt {
			d.doubts++
		}
		for i := 1; i < len(copies); i++ {
			if copies[i] == "" || copies[i] != copies[0] {
				d.unmarked++
				t.Errorf("%s: %s went out twice: %v", what, id, copies)
			} else {
				d.marked++
			}
		}
		blocked := c.Status == dlqbridge.StatusAuthorized && w.queues[w.home].facts.FIFO
		if len(copies) == 0 && !doubt && !blocked {
			d.lost++
			t.Errorf("%s: %s was never sent and is %s, note %+v", what, id, c.Status, note)
		}
	}
	if l := w.leases[w.home]; len(l.Batches) > 0 || !l.Until.IsZero() {
		t.Errorf("%s: the lease is left open: %+v", what, l)
	}
}
