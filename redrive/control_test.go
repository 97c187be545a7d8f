package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// slowly makes a run of 50 a second in batches of five.
func slowly(_ *process, o *redrive.Options) {
	o.Rate, o.Burst = dlqbridge.Rate{Count: 50, Per: time.Second}, 10
}

// during starts a run and calls f after d; it returns what the run returned.
func during(ctx context.Context, t *testing.T, w *world, d time.Duration, f func(job string)) redrive.Result {
	t.Helper()
	_, c := w.start(t, slowly)
	type answer struct {
		res redrive.Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		res, err := c.Run(ctx, request())
		done <- answer{res, err}
	}()
	time.Sleep(d)
	w.mu.Lock()
	job := w.leases[orders].Job
	w.mu.Unlock()
	f(job)
	a := <-done
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.res
}

// Pause and continue from another machine; within one batch.
func TestPauseAndContinue(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(200)
		_, operator := w.start(t, slowly)
		var before int
		res := during(ctx, t, w, 2*time.Second, func(job string) {
			before = len(w.queues[orders].all())
			if _, err := operator.Pause(ctx, job, bob, "the dashboards are red"); err != nil {
				t.Fatal(err)
			}
		})
		if res.State != dlqbridge.JobPaused || !strings.Contains(res.Reason, "the dashboards are red") || !strings.Contains(res.Reason, "bob") {
			t.Errorf("%s: %s", res.State, res.Reason)
		}
		if late := res.Sent - before; late > 10 {
			t.Errorf("%d were sent after the pause", late)
		}
		if n := w.count(dlqbridge.StatusAuthorized); n+res.Sent != 200 {
			t.Errorf("%d sent, %d authorised", res.Sent, n)
		}
		if _, err := operator.Pause(ctx, res.Job, bob, ""); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("a second pause: %v", err)
		}
		again, err := operator.Continue(ctx, res.Job, bob, "green again")
		if err != nil || again.Sent != 200 || again.State != dlqbridge.JobDone || again.Job != res.Job {
			t.Errorf("%+v, %v", again, err)
		}
		for body, n := range w.queues[orders].bodies() {
			if n != 1 {
				t.Errorf("%s: %d", body, n)
			}
		}
		job := w.jobs[res.Job]
		if job.Sent != 200 || job.Selected != 200 || job.Ended.IsZero() {
			t.Errorf("%+v", job)
		}
	})
}

// C47: cancel at half; sent and remaining are all, and the rest can be sent later.
func TestCancel(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(200)
		_, operator := w.start(t, slowly)
		res := during(ctx, t, w, 2*time.Second, func(job string) {
			if _, err := operator.Cancel(ctx, job, bob, "wrong fix"); err != nil {
				t.Fatal(err)
			}
		})
		if res.State != dlqbridge.JobCancelled || res.Sent == 0 || res.Sent > 150 {
			t.Errorf("%+v", res.State)
		}
		if n := w.count(dlqbridge.StatusAuthorized); n != 0 {
			t.Errorf("%d are still authorised", n)
		}
		if n := w.count(dlqbridge.StatusFixValidated); n+res.Sent != 200 {
			t.Errorf("%d sent, %d wait", res.Sent, n)
		}
		if _, err := operator.Continue(ctx, res.Job, bob, ""); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("a cancelled job goes on: %v", err)
		}
		again, err := operator.Run(ctx, request())
		if err != nil || again.Sent+res.Sent != 200 {
			t.Errorf("%+v, %v", again.Sent, err)
		}
	})
}

// A hold stops within one batch and only what it names.
func TestAHoldTakesEffectWhileAJobRuns(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		for i := range 200 {
			w.add(fmt.Sprintf("r_%03d", i), func(c *dlqbridge.Control, _ *dlqbridge.Payload) {
				if i%2 == 1 {
					c.Tenant = "umbrella"
				}
			})
		}
		var before time.Time
		res := during(ctx, t, w, 2*time.Second, func(string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.holds = append(w.holds, dlqbridge.Hold{ID: "h1", Tenant: "umbrella", Reason: "they called"})
			before = time.Now()
		})
		late := 0
		for _, a := range w.queues[orders].all() {
			var n int
			if _, err := fmt.Sscanf(string(a.out.Payload.Body), "body of r_%d", &n); err == nil && n%2 == 1 && a.at.After(before) {
				late++
			}
		}
		if late > 5 {
			t.Errorf("%d were sent although held", late)
		}
		held := 0
		for _, r := range reasons(res.Excluded) {
			if r == dlqbridge.ExcludeHeld {
				held++
			}
		}
		if held == 0 || held+res.Sent != 200 {
			t.Errorf("%d held, %d sent", held, res.Sent)
		}
	})
}

// SIGTERM: stop claiming, finish what is under way, leave a job that continues.
func TestInterruptedAndContinued(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(100)
		w.queues[orders].latency = func() (time.Duration, time.Duration) { return 300 * time.Millisecond, 300 * time.Millisecond }
		term, stop := context.WithCancel(ctx)
		res := during(term, t, w, time.Second+50*time.Millisecond, func(string) { stop() })
		if res.State != dlqbridge.JobPaused || res.Sent == 0 || res.Sent == 100 || res.Outcomes[dlqbridge.OutcomeInDoubt] > 0 {
			t.Fatalf("%+v", res)
		}
		if n := w.count(dlqbridge.StatusAuthorized); n+res.Sent != 100 {
			t.Errorf("%d sent, %d authorised", res.Sent, n)
		}
		if l := w.leases[orders]; !l.Until.IsZero() || len(l.Batches) > 0 {
			t.Errorf("%+v", l)
		}
		_, c := w.start(t, nil)
		start := time.Now()
		again, err := c.Continue(ctx, res.Job, alice, "")
		if err != nil || again.Sent != 100 || again.State != dlqbridge.JobDone {
			t.Errorf("%+v, %v", again, err)
		}
		if took := time.Since(start); took > 9*time.Second {
			t.Errorf("a clean stop needs no waiting: %s", took)
		}
	})
}

// Authorisations run out after their time.
func TestAuthorisationsRunOut(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(20)
		term, stop := context.WithCancel(ctx)
		res := during(term, t, w, 100*time.Millisecond, func(string) { stop() })
		time.Sleep(25 * time.Hour)
		_, c := w.start(t, nil)
		plan, err := c.Plan(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		old := 0
		for _, r := range reasons(plan.Excluded) {
			if r == dlqbridge.ExcludeNotAuthorized {
				old++
			}
		}
		if old != 20-res.Sent || old == 0 {
			t.Errorf("%d sent, %d too old", res.Sent, old)
		}
		again, err := c.Continue(ctx, res.Job, alice, "")
		if err != nil || again.Sent != res.Sent || again.Excluded.Len() != 20-res.Sent {
			t.Errorf("%+v, %v", again, err)
		}
		if n := w.count(dlqbridge.StatusAuthorized); n != 0 {
			t.Errorf("%d are still authorised", n)
		}
	})
}

// C46: whatever a worker strips, the number of sends is on the record.
func TestBackAndForthEnds(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.add("r_1", nil)
		policy := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
		policy.AutoAuthorize = true
		w.knows["r_1"] = knowledge{policy: &policy}
		var last redrive.Result
		for range 6 {
			_, c := w.start(t, nil) // another process each time
			r := redrive.Request{Cause: dlqbridge.CauseTimeout, Policy: true}
			early, err := c.Run(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if w.control("r_1").Redrives < 3 && reasons(early.Excluded)["r_1"] != dlqbridge.ExcludeNotBefore {
				t.Errorf("policy did not wait for the back-off: %+v", early)
			}
			time.Sleep(time.Hour)
			if last, err = c.Run(ctx, r); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			if n := w.controls["r_1"]; n.Claim != nil { // the worker fails again, without any attribute
				n.Version++
				n.Status, n.Claim, n.Authorized, n.LastSeen = dlqbridge.StatusClassified, nil, nil, time.Now()
				n.Recurrences++
				w.controls["r_1"] = n
			}
			w.mu.Unlock()
		}
		if got := len(w.queues[orders].all()); got != 3 {
			t.Errorf("sent %d times", got)
		}
		if reasons(last.Excluded)["r_1"] != dlqbridge.ExcludeBudgetExhausted {
			t.Errorf("%+v", last)
		}
		_, c := w.start(t, nil)
		bulk, err := c.Run(ctx, request())
		if err != nil || reasons(bulk.Excluded)["r_1"] != dlqbridge.ExcludeBudgetExhausted {
			t.Errorf("a bulk run with a fix: %+v, %v", bulk, err)
		}
		// A person may authorise this one record; then it is sent.
		note := dlqbridge.Note{Name: "n1", At: time.Now(), Actor: alice, Verb: dlqbridge.VerbAuthorize, Reason: "looked at it", Fix: deploy}
		j := w.judge(redrive.Ask{Control: w.control("r_1"), Note: &note})
		if x := redrive.MayAuthorize(w.control("r_1"), j, redrive.Asking{Actor: alice, Single: true, Now: time.Now()}); x != nil {
			t.Fatalf("%+v", x)
		}
		w.keep("r_1", note)
		w.keep("r_1", j.Context)
		if err := w.move(redrive.Grant(w.control("r_1"), j, note, time.Now())); err != nil {
			t.Fatal(err)
		}
		one, err := c.Run(ctx, request())
		if err != nil || one.Sent != 1 {
			t.Errorf("%+v, %v", one, err)
		}
	})
}

func TestPolicySendsOnlyWhatItCanRecognise(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		policy := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
		policy.AutoAuthorize = true
		full := func(p *dlqbridge.Payload) {
			for i := range 9 {
				p.Attributes = append(p.Attributes, dlqbridge.Attribute{Name: strconv.Itoa(i), Type: "String", Value: []byte("v")})
			}
		}
		w.add("r_plain", nil)
		w.add("r_nameless", func(c *dlqbridge.Control, _ *dlqbridge.Payload) { c.TaskID = "" })
		w.add("r_full", func(_ *dlqbridge.Control, p *dlqbridge.Payload) { full(p) })
		w.add("r_full_nameless", func(c *dlqbridge.Control, p *dlqbridge.Payload) { c.TaskID = ""; full(p) })
		w.add("r_linked", func(c *dlqbridge.Control, _ *dlqbridge.Payload) { c.Previous = "r_plain" })
		for id := range w.controls {
			w.knows[id] = knowledge{policy: &policy}
		}
		time.Sleep(2 * time.Hour)
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, redrive.Request{Cause: dlqbridge.CauseTimeout, Policy: true})
		if err != nil || res.Sent != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		want := map[string]dlqbridge.ExcludeReason{"r_nameless": "not_authorized", "r_full_nameless": "not_authorized", "r_linked": "not_authorized"}
		if diff := cmp.Diff(want, reasons(res.Excluded)); diff != "" {
			t.Error(diff)
		}
		if by := w.history["r_plain"][1].By; by != "policy:default@1" {
			t.Errorf("authorised by %s", by)
		}
	})
}

func TestTwoPeople(t *testing.T) {
	osUser := dlqbridge.Actor{Name: "carol"}
	for _, tt := range []struct {
		name      string
		approvers []string
		asking    dlqbridge.Actor
		want      bool
	}{
		{"nobody else", nil, alice, false},
		{"the same twice", []string{alice.Name}, alice, false},
		{"two", []string{bob.Name}, alice, true},
		{"an OS user is no second", []string{bob.Name}, osUser, false},
		{"two before an OS user", []string{bob.Name, alice.Name}, osUser, true},
		{"policy is nobody", []string{bob.Name}, redrive.PolicyActor, false},
	} {
		if got := redrive.Approved(tt.approvers, tt.asking); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// A person gives a record to somebody while its send is tried again: the claim
// is still the job's, and nothing is left behind.
func TestAnOwnerMayChangeWhileASendIsTriedAgain(t *testing.T) {
	for _, taken := range []bool{true, false} {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			w.add("r_1", nil)
			tries := 0
			w.queues[orders].fault = func(dlqbridge.Outgoing) error {
				if tries++; tries == 1 || !taken {
					w.mu.Lock()
					defer w.mu.Unlock()
					c := w.controls["r_1"]
					c.Version++
					c.Owner = fmt.Sprintf("team-%d", tries)
					c.Move = dlqbridge.Move{Version: c.Version, At: time.Now(), By: "bob", Verb: dlqbridge.VerbAssign, From: c.Status, To: c.Status}
					w.controls["r_1"] = c
					return dlqbridge.ErrThrottled
				}
				return nil
			}
			_, c := w.start(t, nil)
			res, err := c.Run(ctx, request())
			if err != nil {
				t.Fatal(err)
			}
			got := w.control("r_1")
			if taken && (res.Sent != 1 || got.Owner != "team-1") {
				t.Errorf("%+v, %+v", res, got)
			}
			if !taken && (res.State != dlqbridge.JobFailed || got.Status != dlqbridge.StatusAuthorized || got.Redrives != 0 || got.Owner != "team-10") {
				t.Errorf("%+v, %+v", res, got)
			}
		})
	}
}

// A claim that could not be taken back is found by the next run.
func TestAClaimLeftBehindIsTakenBack(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(3)
		refuse := true
		_, c := w.start(t, func(p *process, o *redrive.Options) {
			o.Tries = 2
			p.fault = func(op string) error {
				switch {
				case refuse && op == "send":
					return dlqbridge.ErrThrottled
				case refuse && op == "move" && p.counted("send") > 0:
					return dlqbridge.ErrThrottled
				}
				return nil
			}
		})
		res, err := c.Run(ctx, request())
		if err != nil || res.State != dlqbridge.JobFailed || w.control("r_00000").Claim == nil {
			t.Fatalf("%+v, %v", res, err)
		}
		refuse = false
		time.Sleep(time.Minute)
		again, err := c.Run(ctx, request())
		if err != nil || again.Sent != 3 {
			t.Errorf("%+v, %v", again, err)
		}
		if s := w.sends["r_00000"][1]; s.N != 1 || w.control("r_00000").Redrives != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A clean end whose last member is through counts as done, not as interrupted.
func TestAStopThatComesTooLate(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(3)
		term, stop := context.WithCancel(ctx)
		w.queues[orders].latency = func() (time.Duration, time.Duration) { return time.Second, 0 }
		res := during(term, t, w, 500*time.Millisecond, func(string) { stop() })
		if res.State != dlqbridge.JobDone || res.Sent != 3 {
			t.Errorf("%+v", res)
		}
	})
}
