package redrive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// in runs a test in a bubble of its own, where time is virtual.
func in(t *testing.T, f func(t *testing.T, ctx context.Context, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, t.Context(), newWorld()) })
}

func TestRunSendsWhatMayBeSent(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(25)
		p, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		if res.Sent != 25 || res.Selected != 25 || res.State != dlqbridge.JobDone || !res.Clean() {
			t.Errorf("result %+v", res)
		}
		for body, n := range w.queues[orders].bodies() {
			if n != 1 {
				t.Errorf("%s was sent %d times", body, n)
			}
		}
		if got := len(w.queues[orders].all()); got != 25 {
			t.Errorf("%d messages arrived", got)
		}
		c0 := w.control("r_00000")
		if c0.Status != dlqbridge.StatusRedriving || c0.Redrives != 1 || c0.Claim == nil || c0.Claim.Job != res.Job || c0.LastSend.IsZero() {
			t.Errorf("control %+v", c0)
		}
		var verbs []string
		for _, m := range w.history["r_00000"] {
			verbs = append(verbs, string(m.Verb)+" by "+m.By)
		}
		want := []string{"receive by intake", "authorize by " + alice.Name, "claim by " + alice.Name}
		if diff := cmp.Diff(want, verbs); diff != "" {
			t.Error(diff)
		}
		s := w.sends["r_00000"][1]
		if s.Outcome != dlqbridge.OutcomeSent || s.MessageID == "" || !s.Marked || s.Tries != 1 || s.Job != res.Job {
			t.Errorf("note %+v", s)
		}
		if l := w.leases[orders]; !l.Until.IsZero() || len(l.Batches) != 0 || l.NextFree.IsZero() {
			t.Errorf("lease %+v", l)
		}
		if p.counted("send") != 3 {
			t.Errorf("%d requests for 25 messages", p.counted("send"))
		}
	})
}

func TestTheMessageIsTheOriginalPlusOneMark(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		original := dlqbridge.Payload{
			Body:       []byte("\x00\xff any bytes"),
			Attributes: []dlqbridge.Attribute{{Name: "a", Type: "Number.int", Value: []byte("1")}, {Name: "z", Type: "Binary", Value: []byte{0, 1}}},
			GroupKey:   "fair",
		}
		w.add("r_1", func(_ *dlqbridge.Control, p *dlqbridge.Payload) { *p = original })
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		got := w.queues[orders].all()[0]
		if diff := cmp.Diff(original, got.out.Payload.Without(dlqbridge.MarkName)); diff != "" {
			t.Error(diff)
		}
		want := fmt.Sprintf(`{"rec":"r_1","job":"%s","n":1,"act":"retry","idem":"idem-r_1"}`, res.Job)
		if got.mark != want {
			t.Errorf("mark %s, want %s", got.mark, want)
		}
	})
}

// C11, C12: ten attributes leave no place for the mark; a second redrive
// replaces the first one's.
func TestMarkHasAPlaceOrIsLeftOut(t *testing.T) {
	attributes := func(n int, extra ...dlqbridge.Attribute) []dlqbridge.Attribute {
		for i := range n {
			extra = append(extra, dlqbridge.Attribute{Name: fmt.Sprintf("a%02d", i), Type: "String", Value: []byte("v")})
		}
		return extra
	}
	old := dlqbridge.Attribute{Name: dlqbridge.MarkName, Type: "String", Value: []byte(`{"rec":"r_1","n":1}`)}
	for _, tt := range []struct {
		name       string
		attributes []dlqbridge.Attribute
		marked     bool
		total      int
	}{
		{"eight", attributes(8), true, 9},
		{"nine", attributes(9), true, 10},
		{"ten", attributes(10), false, 10},
		{"nine and an old mark", attributes(9, old), true, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.add("r_1", func(_ *dlqbridge.Control, p *dlqbridge.Payload) { p.Attributes = tt.attributes })
				_, c := w.start(t, nil)
				if _, err := c.Run(ctx, request()); err != nil {
					t.Fatal(err)
				}
				got := w.queues[orders].all()[0]
				if len(got.out.Payload.Attributes) != tt.total || (got.mark != "") != tt.marked || got.mark == string(old.Value) {
					t.Errorf("%d attributes, mark %q", len(got.out.Payload.Attributes), got.mark)
				}
				if s := w.sends["r_1"][1]; s.Marked != tt.marked {
					t.Errorf("note says marked %v", s.Marked)
				}
			})
		})
	}
}

func TestMarkStaysUnderAKilobyte(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.add("r_1", nil)
		p, c := w.start(t, func(p *process, o *redrive.Options) {
			o.Judge = judgeFunc(func(ctx context.Context, asks []redrive.Ask) []redrive.Judgement {
				out := p.Judge(ctx, asks)
				out[0].Context.Task.IdempotencyKey = strings.Repeat("k", 1000)
				return out
			})
		})
		_ = p
		if _, err := c.Run(ctx, request()); err != nil {
			t.Fatal(err)
		}
		var m dlqbridge.Mark
		got := w.queues[orders].all()[0].mark
		if err := json.Unmarshal([]byte(got), &m); err != nil || m.Idem != "" || m.Record != "r_1" || len(got) > 1024 {
			t.Errorf("mark %s: %v", got, err)
		}
	})
}

type judgeFunc func(context.Context, []redrive.Ask) []redrive.Judgement

func (f judgeFunc) Judge(ctx context.Context, asks []redrive.Ask) []redrive.Judgement {
	return f(ctx, asks)
}

// A redrive asked for a cause that holds records that must not be sent sends
// none of them and says why of each.
func TestRunLeavesOutWhatMustNotBeSent(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.queues[refunds] = newQueue(refunds, false)
		w.routes["strict"] = redrive.Route{Name: "strict", Source: refunds}
		add := func(id string, k knowledge, change func(*dlqbridge.Control)) {
			w.add(id, func(c *dlqbridge.Control, _ *dlqbridge.Payload) {
				if change != nil {
					change(c)
				}
			})
			w.knows[id] = k
		}
		second := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
		second.SecondPerson = true
		add("ok", knowledge{}, nil)
		add("unknown", knowledge{effect: dlqbridge.EffectUnknown}, nil)
		add("unknown_but_safe", knowledge{effect: dlqbridge.EffectUnknown, repeatSafe: true}, nil)
		add("confirmed", knowledge{effect: dlqbridge.EffectConfirmed}, nil)
		add("running", knowledge{running: time.Now().Add(time.Hour)}, nil)
		add("completed", knowledge{completed: &dlqbridge.Completion{Store: "ledger", Run: "r9"}}, nil)
		add("expired", knowledge{expired: true}, nil)
		add("resume", knowledge{checkpoint: "ck"}, nil)
		add("second", knowledge{policy: &second}, nil)
		add("seconded", knowledge{policy: &second, approvers: []string{bob.Name}}, nil)
		add("conflict", knowledge{}, func(c *dlqbridge.Control) { c.Conflict = true })
		add("late", knowledge{}, func(c *dlqbridge.Control) { c.Late = true })
		add("budget", knowledge{}, func(c *dlqbridge.Control) { c.Redrives = 3 })
		add("mismatch", knowledge{}, func(c *dlqbridge.Control) { c.Route = "strict" })
		add("unconfigured", knowledge{}, func(c *dlqbridge.Control) { c.Route = "gone" })
		add("missing", knowledge{}, func(c *dlqbridge.Control) { c.Source = "arn:aws:sqs:us-east-1:000000000000:gone" })
		add("held", knowledge{}, func(c *dlqbridge.Control) { c.Tenant = "umbrella" })
		add("claimed", knowledge{}, func(c *dlqbridge.Control) {
			c.Status, c.Claim = dlqbridge.StatusRedriving, &dlqbridge.Claim{Job: "j_other", N: 1, Until: time.Now().Add(time.Minute)}
		})
		add("doubt", knowledge{}, func(c *dlqbridge.Control) {
			c.Status, c.Claim = dlqbridge.StatusRedriving, &dlqbridge.Claim{Job: "j_other", N: 1, Until: time.Now().Add(time.Minute)}
		})
		w.sends["claimed"] = map[int]dlqbridge.Send{1: {N: 1, Job: "j_other", Outcome: dlqbridge.OutcomeSent, At: time.Now()}}
		w.sends["doubt"] = map[int]dlqbridge.Send{1: {N: 1, Job: "j_other", Outcome: dlqbridge.OutcomeInDoubt, At: time.Now()}}
		w.holds = []dlqbridge.Hold{{ID: "h1", Tenant: "umbrella", Reason: "they asked"}}
		add("other_cause", knowledge{}, func(c *dlqbridge.Control) { c.Cause = dlqbridge.CausePermission })
		add("closed", knowledge{}, func(c *dlqbridge.Control) { c.Status = dlqbridge.StatusRejected })
		add("payload", knowledge{}, nil)
		delete(w.payloads, "payload/a-payload")

		_, c := w.start(t, nil)
		plan, err := c.Plan(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Run(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]dlqbridge.ExcludeReason{
			"unknown": "effect_unknown", "confirmed": "needs_compensation", "running": "still_running", "completed": "closed",
			"expired": "expired", "second": "needs_second_person", "conflict": "conflict", "late": "conflict",
			"budget": "budget_exhausted", "mismatch": "source_mismatch", "unconfigured": "target_missing", "missing": "target_missing",
			"held": "held", "claimed": "claimed", "doubt": "in_doubt", "payload": "payload_expired",
		}
		if diff := cmp.Diff(want, reasons(res.Excluded)); diff != "" {
			t.Error(diff)
		}
		if res.Excluded.Len() != len(want) {
			t.Errorf("%d exclusions, want each once: %v", res.Excluded.Len(), res.Excluded)
		}
		if diff := cmp.Diff(map[string]int{"body of ok": 1, "body of resume": 1, "body of unknown_but_safe": 1, "body of seconded": 1}, w.queues[orders].bodies()); diff != "" {
			t.Error(diff)
		}
		delete(want, "payload") // seen only at the gate
		if diff := cmp.Diff(want, reasons(plan.Excluded)); diff != "" {
			t.Errorf("plan: %s", diff)
		}
		if res.Clean() {
			t.Error("a run with exclusions is not clean")
		}
	})
}

func TestAFixIsNeededAndNotBelievedAsText(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.add("r_1", nil)
		_, c := w.start(t, nil)
		r := request()
		r.Fix = nil
		res, err := c.Run(ctx, r)
		if err != nil || res.Sent != 0 || reasons(res.Excluded)["r_1"] != dlqbridge.ExcludeNotAuthorized {
			t.Errorf("%+v, %v", res, err)
		}
		if res.Job != "" || w.control("r_1").Version != 1 {
			t.Error("a run that selects nothing leaves nothing")
		}
	})
}

func TestPlanChangesNothingAndHashesItsContent(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(5)
		p, c := w.start(t, nil)
		one, err := c.Plan(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		two, err := c.Plan(ctx, request())
		if err != nil || one.Hash != two.Hash || len(one.Hash) != 64 {
			t.Errorf("%s and %s, %v", one.Hash, two.Hash, err)
		}
		for _, op := range []string{"put", "move", "take", "keep", "create-job", "send"} {
			if p.counted(op) > 0 {
				t.Errorf("planning called %s", op)
			}
		}
		w.add("r_new", nil)
		three, _ := c.Plan(ctx, request())
		if three.Hash == one.Hash || three.Selected != 6 {
			t.Error("another selection hashes alike")
		}
	})
}

func TestDeadlinesGoFirst(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.add("r_1", nil)
		w.add("r_2", func(c *dlqbridge.Control, _ *dlqbridge.Payload) { c.Deadline = time.Now().Add(2 * time.Hour) })
		w.add("r_3", func(c *dlqbridge.Control, _ *dlqbridge.Payload) { c.Deadline = time.Now().Add(time.Hour) })
		_, c := w.start(t, nil)
		r := request()
		r.Max = 2
		plan, err := c.Plan(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range whole(plan.Jobs[0].Members) {
			ids = append(ids, m.ID)
		}
		if diff := cmp.Diff([]string{"r_3", "r_2"}, ids); diff != "" {
			t.Error(diff)
		}
	})
}

// C44: one dead-letter queue, two sources; each record goes home.
func TestSharedDeadLetterQueue(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.queues[refunds] = newQueue(refunds, false)
		for i := range 10 {
			w.add(fmt.Sprintf("r_%d", i), func(c *dlqbridge.Control, _ *dlqbridge.Payload) {
				if i%2 == 1 {
					c.Source = refunds
				}
			})
		}
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 10 || len(res.Jobs) != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		for _, q := range w.queues {
			if len(q.all()) != 5 {
				t.Errorf("%s got %d", q.facts.URN, len(q.all()))
			}
		}
	})
}

// On Pub/Sub the provider's dead-letter marks stay behind, and the subscription
// that the message is for goes along.
func TestMarksOnPubSub(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		const source = "projects/acme/subscriptions/invoices"
		w.queues[source] = newQueue(source, false)
		w.queues[source].facts.MaxAttributes = 100
		w.add("r_1", func(c *dlqbridge.Control, p *dlqbridge.Payload) {
			c.Provider, c.Source = dlqbridge.PubSub, source
			p.Attributes = append(p.Attributes,
				dlqbridge.Attribute{Name: "CloudPubSubDeadLetterSourceDeliveryCount", Type: "String", Value: []byte("5")},
				dlqbridge.Attribute{Name: dlqbridge.MarkToName, Type: "String", Value: []byte("old")})
		})
		sent(ctx, t, w)
		var names []string
		got := w.queues[source].all()[0].out.Payload
		for _, a := range got.Attributes {
			names = append(names, a.Name)
		}
		if diff := cmp.Diff([]string{dlqbridge.MarkName, dlqbridge.MarkToName, "k"}, names); diff != "" {
			t.Error(diff)
		}
		if to, _ := got.Attribute(dlqbridge.MarkToName); string(to.Value) != "invoices" {
			t.Errorf("to %s", to.Value)
		}
	})
}

// Whoever watches knows the job as soon as it exists and before it sends anything.
func TestAJobIsToldBeforeItSends(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(5)
		var first []string
		watched := func(_ *process, o *redrive.Options) {
			told := ""
			o.Progress = func(p redrive.Progress) {
				if p.Job == told {
					return
				}
				told = p.Job
				w.mu.Lock()
				_, exists := w.jobs[p.Job]
				w.mu.Unlock()
				first = append(first, fmt.Sprintf("exists %v, sends %d of %d, out %d", exists, p.Selected-p.Sent, p.Selected, len(w.queues[orders].all())))
			}
		}
		stop, cancel := context.WithCancel(ctx)
		_, c := w.start(t, func(p *process, o *redrive.Options) {
			watched(p, o)
			progress := o.Progress
			o.Progress = func(p redrive.Progress) { progress(p); cancel() }
		})
		res, err := c.Run(stop, request())
		if err != nil || res.State != dlqbridge.JobPaused {
			t.Fatalf("%+v, %v", res, err)
		}
		sent := len(w.queues[orders].all())
		_, c = w.start(t, watched)
		if res, err = c.Continue(ctx, res.Job, bob, "go on"); err != nil || res.Sent != 5 {
			t.Fatalf("%+v, %v", res, err)
		}
		if want := []string{"exists true, sends 5 of 5, out 0", fmt.Sprintf("exists true, sends %d of 5, out %d", 5-sent, sent)}; !slices.Equal(first, want) {
			t.Errorf("told %q, want %q", first, want)
		}
	})
}

// A job that ended while somebody looked is no abandoned one, and neither is one
// that somebody has continued since.
func TestLifeIsAskedOfTheJobToo(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(2)
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		ended := w.jobs[res.Job]
		w.mu.Unlock()
		seen := ended
		seen.State = dlqbridge.JobRunning // as it was read before it ended
		if life, err := c.Life(ctx, seen); err != nil || life.Abandoned {
			t.Errorf("ended: %+v, %v", life, err)
		}
		write := func(change func(*dlqbridge.Job)) {
			w.mu.Lock()
			defer w.mu.Unlock()
			job := ended
			change(&job)
			w.jobs[res.Job] = job
		}
		write(func(j *dlqbridge.Job) { j.State, j.Began = dlqbridge.JobRunning, time.Now() })
		if life, err := c.Life(ctx, seen); err != nil || life.Abandoned {
			t.Errorf("continued: %+v, %v", life, err)
		}
		write(func(j *dlqbridge.Job) { j.State = dlqbridge.JobRunning })
		if life, err := c.Life(ctx, seen); err != nil || !life.Abandoned {
			t.Errorf("died: %+v, %v", life, err)
		}
	})
}

// Two letters of one task, of which one names the tenant, are two records. One
// run does not send both, whichever is listed first.
func TestARunSendsNoTaskTwiceForWantOfATenant(t *testing.T) {
	for name, c := range map[string]struct {
		first, second, task string
		sent                int
	}{
		"the second names none":   {"acme", "", "t-1", 1},
		"the first names none":    {"", "acme", "t-1", 1},
		"two tenants are two":     {"acme", "globex", "t-1", 2},
		"tasks without an id":     {"acme", "", "", 2},
		"they are of other tasks": {"acme", "", "t-2", 2},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				w.add("r_1", func(k *dlqbridge.Control, _ *dlqbridge.Payload) { k.TaskID, k.Tenant = "t-1", c.first })
				w.add("r_2", func(k *dlqbridge.Control, _ *dlqbridge.Payload) { k.TaskID, k.Tenant = c.task, c.second })
				if c.task == "" {
					w.add("r_1", func(k *dlqbridge.Control, _ *dlqbridge.Payload) { k.TaskID, k.Tenant = "", c.first })
				}
				_, controller := w.start(t, nil)
				plan, err := controller.Plan(ctx, request())
				if err != nil {
					t.Fatal(err)
				}
				if plan.Selected != c.sent || plan.Excluded.Len() != 2-c.sent {
					t.Errorf("planned %d, excluded %+v", plan.Selected, plan.Excluded)
				}
				for x, err := range plan.Excluded.All() {
					if err != nil || x.Reason != dlqbridge.ExcludeConflict || !strings.Contains(x.Detail, "another record of task t-1") {
						t.Errorf("%+v, %v", x, err)
					}
				}
				if res, err := controller.Run(ctx, request()); err != nil || res.Sent != c.sent {
					t.Errorf("sent %+v, %v", res, err)
				}
			})
		})
	}
}
