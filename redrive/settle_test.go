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
