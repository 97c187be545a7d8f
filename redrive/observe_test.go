package redrive_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// sent runs one record and returns a controller and the job.
func sent(ctx context.Context, t *testing.T, w *world) (*redrive.Controller, redrive.Result) {
	t.Helper()
	_, c := w.start(t, nil)
	res, err := c.Run(ctx, request())
	if err != nil {
		t.Fatal(err)
	}
	return c, res
}

func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		k      knowledge
		route  redrive.Route
		after  time.Duration
		status dlqbridge.Status
		why    string
	}{
		{"completed with its number", knowledge{completed: &dlqbridge.Completion{Store: "ledger", Run: "run-2", RedriveN: 1}}, redrive.Route{}, time.Second, "completed", "completed redrive 1"},
		{"completed after the send", knowledge{}, redrive.Route{}, time.Minute, "completed", "without its number"},
		{"nothing yet", knowledge{}, redrive.Route{}, 9 * time.Minute, "redriving", ""},
		{"nothing", knowledge{}, redrive.Route{}, 11 * time.Minute, "awaiting_operational_decision", "no outcome within 10m"},
		{"nothing, by absence", knowledge{}, redrive.Route{Absence: true}, 11 * time.Minute, "completed", "by absence"},
		{"nothing, a longer window", knowledge{}, redrive.Route{ObserveFor: time.Hour}, 11 * time.Minute, "redriving", ""},
		{"a run is going", knowledge{running: time.Now().Add(1000 * time.Hour), seenN: 1}, redrive.Route{}, 11 * time.Minute, "redriving", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				tt.route.Name = "orders"
				w.routes["orders"] = tt.route
				w.add("r_1", nil)
				c, _ := sent(ctx, t, w)
				if tt.name == "completed after the send" {
					tt.k.completed = &dlqbridge.Completion{Store: "ledger", Run: "run-2", At: time.Now().Add(40 * time.Second)}
				}
				w.knows["r_1"] = tt.k
				time.Sleep(tt.after)
				if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil {
					t.Fatal(err)
				}
				got := w.control("r_1")
				if got.Status != tt.status || !strings.Contains(got.Move.Why, tt.why) {
					t.Errorf("%s: %s", got.Status, got.Move.Why)
				}
				if got.Status != dlqbridge.StatusRedriving && (got.Claim != nil || got.Authorized != nil || got.Move.N != 1 || got.Move.Job == "") {
					t.Errorf("%+v", got)
				}
				if got.Status.Closed() == got.ClosedAt.IsZero() {
					t.Errorf("closed at %s", got.ClosedAt)
				}
			})
		})
	}
}

// A completion from before the send does not end the observation early.
func TestAnOldCompletionIsNoOutcomeYet(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.add("r_1", nil)
		before := time.Now()
		time.Sleep(time.Minute)
		c, _ := sent(ctx, t, w)
		w.knows["r_1"] = knowledge{completed: &dlqbridge.Completion{Store: "ledger", Run: "run-1", At: before}}
		time.Sleep(time.Minute)
		if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil || w.control("r_1").Status != dlqbridge.StatusRedriving {
			t.Errorf("%s, %v", w.control("r_1").Status, err)
		}
	})
}

// C62: a doubt is settled by a run that carried the number; without evidence it stays.
func TestDoubtsAreSettledByEvidence(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(2)
		w.queues[orders].lose = func(dlqbridge.Outgoing) bool { return true }
		c, _ := sent(ctx, t, w)
		w.knows["r_00001"] = knowledge{seenN: 1}
		time.Sleep(24 * time.Hour)
		seen, err := c.Observe(ctx, redrive.ObserveRequest{})
		if err != nil {
			t.Fatal(err)
		}
		want := redrive.Observed{
			Outcomes: map[dlqbridge.SendOutcome]int{dlqbridge.OutcomeSent: 1, dlqbridge.OutcomeUnconfirmed: 1}, Waiting: 1, InDoubt: 1,
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
		if s := w.sends["r_00001"][1]; s.Outcome != dlqbridge.OutcomeSent || !strings.Contains(s.Reason, "run-1") {
			t.Errorf("%+v", s)
		}
		if c := w.control("r_00000"); c.Status != dlqbridge.StatusRedriving {
			t.Errorf("a doubt without evidence became %s", c.Status)
		}
	})
}

// A doubt is sent again under its number where workers refuse a second run of
// it, and the record says so.
func TestADoubtIsSentAgainWhereWorkersRefuseCopies(t *testing.T) {
	doubtSentAgain(t, "refuse a second run", redrive.Route{Name: "orders", Kit: true}, knowledge{})
}

// And where repeating is declared safe. Without room for the mark nobody could
// tell the second copy, so such a message waits for a person.
func TestADoubtIsSentAgainWhereRepeatingIsSafe(t *testing.T) {
	doubtSentAgain(t, "declared safe", redrive.Route{Name: "orders"}, knowledge{repeatSafe: true})
}

func doubtSentAgain(t *testing.T, why string, route redrive.Route, all knowledge) {
	t.Helper()
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.routes["orders"] = route
		w.addMany(3)
		for _, id := range []string{"r_00000", "r_00001", "r_00002", "r_full"} {
			w.knows[id] = all
		}
		w.add("r_full", func(_ *dlqbridge.Control, p *dlqbridge.Payload) {
			for _, n := range "abcdefghi" {
				p.Attributes = append(p.Attributes, dlqbridge.Attribute{Name: string(n), Type: "String", Value: []byte("v")})
			}
		})
		w.queues[orders].lose = func(o dlqbridge.Outgoing) bool { return !strings.HasSuffix(string(o.Payload.Body), "0") }
		_, first := sent(ctx, t, w)
		w.queues[orders].lose = nil
		w.knows["r_00002"] = knowledge{running: time.Now().Add(time.Hour), repeatSafe: all.repeatSafe}
		time.Sleep(time.Hour / 2)
		c, again := sent(ctx, t, w)
		want := map[string]dlqbridge.ExcludeReason{"r_00000": "claimed", "r_00002": "still_running", "r_full": "in_doubt"}
		if diff := cmp.Diff(want, reasons(again.Excluded)); diff != "" {
			t.Error(diff)
		}
		var marks []string
		for _, a := range w.queues[orders].all() {
			if string(a.out.Payload.Body) == "body of r_00001" {
				marks = append(marks, a.mark)
			}
		}
		if len(marks) != 2 || marks[0] != marks[1] || !strings.Contains(marks[0], first.Job) {
			t.Errorf("marks %v", marks)
		}
		s := w.sends["r_00001"][1]
		if s.Outcome != dlqbridge.OutcomeSent || s.Tries != 2 || s.Job != first.Job || w.control("r_00001").Redrives != 1 {
			t.Errorf("%+v", s)
		}
		for job, want := range map[string]redrive.Tally{
			first.Job: {Counted: 4, Sent: 2, InDoubt: 2, Outcomes: map[dlqbridge.SendOutcome]int{"sent": 2, "in_doubt": 2}, Doubts: []string{"r_00002", "r_full"}},
			again.Job: {Counted: 2, Sent: 1, Outcomes: map[dlqbridge.SendOutcome]int{"sent": 1}},
		} {
			if got, err := c.Tally(ctx, job, redrive.MaxTally); err != nil || !cmp.Equal(got, want) {
				t.Errorf("%s: %+v, %v", job, got, err)
			}
		}
		if verb := w.control("r_00001").Move; verb.Verb != dlqbridge.VerbSettleSend || !strings.Contains(verb.Why, why) {
			t.Errorf("%+v", verb)
		}
		_ = c
	})
}

// glancer shows what stores know of outcomes alone; what it does not list it
// does not know.
type glancer map[string]redrive.Glance

func (g glancer) Glance(_ context.Context, asks []redrive.Ask) []redrive.Glance {
	out := make([]redrive.Glance, len(asks))
	for i, a := range asks {
		out[i] = g[a.Control.ID]
	}
	return out
}

// A glance settles what it proves, and leaves everything else to the judge.
func TestAGlanceSettlesOutcomes(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(6)
		w.queues[orders].lose = func(o dlqbridge.Outgoing) bool { return strings.HasSuffix(string(o.Payload.Body), "5") }
		sent(ctx, t, w)
		w.queues[orders].lose = nil
		by := func(n int) *dlqbridge.Completion {
			return &dlqbridge.Completion{Store: "ledger", Run: "run-2", RedriveN: n}
		}
		seen := glancer{
			"r_00000": {Known: true, Completed: by(1)},
			"r_00001": {Known: true},                   // not yet
			"r_00002": {Known: true, Completed: by(0)}, // of an earlier life: the judge decides
			"r_00003": {},                              // unknown: the judge knows
			"r_00004": {Known: true},                   // until its window ends
			"r_00005": {Known: true, Completed: by(1)}, // in doubt: the judge, who sees nothing
		}
		w.knows["r_00001"] = knowledge{completed: by(1)} // which nobody must ask about
		w.knows["r_00003"] = knowledge{completed: by(1)}
		asked := map[string]int{}
		_, c := w.start(t, func(p *process, o *redrive.Options) {
			o.Glance = seen
			o.Judge = judgeFunc(func(ctx context.Context, asks []redrive.Ask) []redrive.Judgement {
				for _, a := range asks {
					asked[a.Control.ID]++
				}
				return p.Judge(ctx, asks)
			})
		})
		effect := w.control("r_00000").Effect
		got, err := c.Observe(ctx, redrive.ObserveRequest{})
		if err != nil || got.Outcomes[dlqbridge.OutcomeCompleted] != 2 || got.Waiting != 4 || got.InDoubt != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		if diff := cmp.Diff(map[string]int{"r_00002": 1, "r_00003": 1, "r_00005": 1}, asked); diff != "" {
			t.Error("asked in full:", diff)
		}
		first := w.control("r_00000")
		if first.Status != dlqbridge.StatusCompleted || first.Move.Why != "ledger: run run-2 completed redrive 1" || first.Move.N != 1 || first.Effect != effect || first.Claim != nil {
			t.Errorf("%+v", first)
		}
		time.Sleep(11 * time.Minute)
		if got, err = c.Observe(ctx, redrive.ObserveRequest{}); err != nil || got.Outcomes[dlqbridge.OutcomeCompleted] != 1 || got.Outcomes[dlqbridge.OutcomeUnconfirmed] != 2 || got.InDoubt != 1 {
			t.Errorf("after the window: %+v, %v", got, err)
		}
	})
}

func TestWait(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(4)
		w.queues[orders].lose = func(o dlqbridge.Outgoing) bool { return strings.HasSuffix(string(o.Payload.Body), "3") }
		c, res := sent(ctx, t, w)
		go func() {
			time.Sleep(20 * time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, id := range []string{"r_00000", "r_00001"} {
				w.knows[id] = knowledge{completed: &dlqbridge.Completion{Store: "ledger", Run: "run", RedriveN: 1}}
			}
		}()
		res.Records.Add("r_00003")
		got, err := c.Wait(ctx, res.Records)
		if err != nil {
			t.Fatal(err)
		}
		want := map[dlqbridge.SendOutcome]int{dlqbridge.OutcomeCompleted: 2, dlqbridge.OutcomeUnconfirmed: 1, dlqbridge.OutcomeInDoubt: 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAutoWindow(t *testing.T) {
	for _, tt := range []struct {
		receives   int
		visibility time.Duration
		want       time.Duration
	}{{0, 0, 10 * time.Minute}, {3, 30 * time.Second, 10 * time.Minute}, {5, 15 * time.Minute, 75 * time.Minute}} {
		if got := redrive.AutoWindow(dlqbridge.DestinationFacts{MaxReceives: tt.receives, Visibility: tt.visibility}); got != tt.want {
			t.Errorf("%d × %s: %s", tt.receives, tt.visibility, got)
		}
	}
}
