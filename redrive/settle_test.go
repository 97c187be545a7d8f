package redrive_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// heldBack loses a request before it arrives, lets the stores say something else
// and runs again: want is why nothing goes out then, empty is that it does.
func heldBack(ctx context.Context, t *testing.T, w *world, at string, now knowledge, want dlqbridge.ExcludeReason) {
	t.Helper()
	w.queues[at].fault = func(dlqbridge.Outgoing) error { return dlqbridge.ErrUnclear }
	_, c := w.start(t, nil)
	if res, err := c.Run(ctx, request()); err != nil || w.sends["r_1"][1].Outcome != dlqbridge.OutcomeInDoubt {
		t.Fatalf("%v, %+v", err, res)
	}
	w.queues[at].fault = nil
	w.knows["r_1"] = now
	plan, err := c.Plan(ctx, request())
	if err != nil || reasons(plan.Excluded)["r_1"] != want {
		t.Errorf("planned: %v, %+v", err, whole(plan.Excluded))
	}
	res, err := c.Run(ctx, request())
	if err != nil {
		t.Fatal(err)
	}
	sent, note := w.queues[at].all(), w.sends["r_1"][1]
	if want == "" {
		if len(sent) != 1 || note.Outcome != dlqbridge.OutcomeSent {
			t.Errorf("%d went out, note %+v, excluded %+v", len(sent), note, whole(res.Excluded))
		}
		return
	}
	if len(sent) != 0 || note.Outcome != dlqbridge.OutcomeInDoubt || reasons(res.Excluded)["r_1"] != want || w.control("r_1").Status != dlqbridge.StatusRedriving {
		t.Fatalf("%d went out, note %+v, excluded %+v", len(sent), note, whole(res.Excluded))
	}
	if d := whole(res.Excluded)[0].Detail; (want == dlqbridge.ExcludeEffectUnknown || want == dlqbridge.ExcludeNeedsCompensation) && !strings.Contains(d, "settle-send") {
		t.Errorf("it does not say what to do: %s", d)
	}
}

// A queue's memory and the workers stop a second run of a number. They do not
// stop the first one, so what another run may have done holds a doubt back, and
// only that: what is unknown because of the doubt itself does not.
func TestADoubtIsHeldBackByAnotherRun(t *testing.T) {
	const none, unknown, confirmed = dlqbridge.EffectNone, dlqbridge.EffectUnknown, dlqbridge.EffectConfirmed
	begun := knowledge{effect: confirmed, uncovered: none, checkpoint: "ck-1"}
	type turn struct {
		now  knowledge
		want dlqbridge.ExcludeReason
	}
	kinds := map[string]struct {
		before knowledge
		turns  map[string]turn
	}{
		"retry": {knowledge{}, map[string]turn{
			"nothing new":                   {knowledge{}, ""},
			"unknown by the doubt alone":    {knowledge{effect: unknown, unsent: none}, ""},
			"another run began a step":      {knowledge{effect: unknown}, dlqbridge.ExcludeEffectUnknown},
			"another run changed something": {knowledge{effect: confirmed}, dlqbridge.ExcludeNeedsCompensation},
			"and a checkpoint covers it":    {begun, dlqbridge.ExcludeNeedsCompensation},
			"repeating is safe":             {knowledge{effect: unknown, repeatSafe: true}, ""},
		}},
		"resume": {begun, map[string]turn{
			"nothing new":                {begun, ""},
			"unknown by the doubt alone": {knowledge{effect: confirmed, uncovered: unknown, unsent: none, checkpoint: "ck-1"}, ""},
			"unknown beyond it":          {knowledge{effect: confirmed, uncovered: unknown, checkpoint: "ck-1"}, dlqbridge.ExcludeEffectUnknown},
			"confirmed beyond it":        {knowledge{effect: confirmed, uncovered: confirmed, checkpoint: "ck-1"}, dlqbridge.ExcludeNeedsCompensation},
			"another checkpoint":         {knowledge{effect: confirmed, uncovered: none, checkpoint: "ck-2"}, dlqbridge.ExcludeInDoubt},
		}},
	}
	for kind, k := range kinds {
		for name, turn := range k.turns {
			for _, fifo := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, fifo %v", kind, name, fifo), func(t *testing.T) {
					in(t, func(t *testing.T, ctx context.Context, w *world) {
						w.routes["orders"] = redrive.Route{Name: "orders", Kit: !fifo}
						w.queues[orders] = newQueue(orders, fifo)
						w.add("r_1", nil)
						w.knows["r_1"] = k.before
						heldBack(ctx, t, w, orders, turn.now, turn.want)
					})
				})
			}
		}
	}
}

// What forbids a first compensation forbids one in doubt, which may be the first.
func TestACompensationInDoubtIsHeldBackLikeAFirstOne(t *testing.T) {
	const unknown, confirmed = dlqbridge.EffectUnknown, dlqbridge.EffectConfirmed
	charged := knowledge{effect: confirmed}
	completed, running, doubtful := charged, charged, charged
	for _, fifo := range []bool{false, true} {
		for name, want := range map[string]dlqbridge.ExcludeReason{
			"nothing new": "", "completed": dlqbridge.ExcludeClosed, "running": dlqbridge.ExcludeStillRunning, "another run began a step": dlqbridge.ExcludeEffectUnknown,
		} {
			t.Run(fmt.Sprintf("%s, fifo %v", name, fifo), func(t *testing.T) {
				in(t, func(t *testing.T, ctx context.Context, w *world) {
					completed.completed = &dlqbridge.Completion{Store: "ledger", Run: "run-2", At: time.Now()}
					running.running = time.Now().Add(24 * time.Hour)
					doubtful.unsent = unknown
					now := map[string]knowledge{"nothing new": charged, "completed": completed, "running": running, "another run began a step": doubtful}[name]
					w.queues[compensations] = newQueue(compensations, fifo)
					w.charged(redrive.Route{CompensateIdempotent: true}, "r_1")
					heldBack(ctx, t, w, compensations, now, want)
				})
			})
		}
	}
}

// A claim whose job died before it journalled anything is taken back and sent,
// also where its number was in doubt before and is settled since: the old note
// is no doubt about this claim. One that was journalled is in doubt from then on,
// which is what a FIFO queue's memory counts from.
func TestAnOldNoteIsNoDoubtAboutANewClaim(t *testing.T) {
	dead := func(w *world, since time.Time) {
		w.add("r_1", func(c *dlqbridge.Control, _ *dlqbridge.Payload) {
			c.Status, c.Redrives, c.LastSend = dlqbridge.StatusRedriving, 1, since
			c.Authorized = &dlqbridge.Authorization{By: "ann", At: since, Action: dlqbridge.ActionRetry}
			c.Claim = &dlqbridge.Claim{Job: "j_dead", N: 1, Until: since.Add(time.Second)}
		})
		w.sends["r_1"] = map[int]dlqbridge.Send{1: {N: 1, Job: "j_dead", Action: dlqbridge.ActionRetry, At: since.Add(-time.Hour), Outcome: dlqbridge.OutcomeInDoubt, Tries: 1}}
	}
	t.Run("not journalled", func(t *testing.T) {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			dead(w, time.Now())
			_, c := w.start(t, nil)
			res, err := c.Run(ctx, request())
			if note := w.sends["r_1"][1]; err != nil || len(w.queues[orders].all()) != 1 || note.Outcome != dlqbridge.OutcomeSent || note.Job == "j_dead" {
				t.Errorf("%v, note %+v, excluded %+v", err, note, whole(res.Excluded))
			}
		})
	})
	t.Run("journalled", func(t *testing.T) {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			now := time.Now()
			dead(w, now)
			w.leases[orders] = dlqbridge.Lease{
				Destination: orders, Job: "j_dead", Token: "dead", Until: now.Add(time.Second), SendDeadline: time.Second,
				Batches: map[string]dlqbridge.Batch{"b": {At: now.Add(time.Millisecond), Members: []dlqbridge.BatchMember{{ID: "r_1", N: 1}}}},
			}
			_, c := w.start(t, nil)
			time.Sleep(time.Minute) // virtual: its lease has ended
			res, err := c.Run(ctx, request())
			if note := w.sends["r_1"][1]; err != nil || len(w.queues[orders].all()) != 0 || note.Outcome != dlqbridge.OutcomeInDoubt || !note.At.Equal(now.Add(time.Millisecond)) || reasons(res.Excluded)["r_1"] != dlqbridge.ExcludeInDoubt {
				t.Errorf("%v, note %+v, excluded %+v", err, note, whole(res.Excluded))
			}
		})
	})
}
