package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// groups adds n records to each group, interleaved, and makes the queue FIFO.
func (w *world) groups(n int, groups ...string) {
	w.queues[orders] = newQueue(orders, true)
	i := 0
	for k := range n {
		for _, g := range groups {
			i++
			w.add(fmt.Sprintf("r_%04d", i), func(_ *dlqbridge.Control, p *dlqbridge.Payload) {
				p.GroupKey, p.Body = g, fmt.Appendf(nil, "%s%d", g, k+1)
			})
		}
	}
}

// byGroup lists what arrived in each group, in order.
func (q *queue) byGroup() map[string][]string {
	out := map[string][]string{}
	for _, a := range q.all() {
		out[a.out.Payload.GroupKey] = append(out[a.out.Payload.GroupKey], string(a.out.Payload.Body))
	}
	return out
}

// C38, C39: each message keeps its own group, in order, and gets a
// deduplication id of its own.
func TestGroupsKeepTheirOrder(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(10, "a", "b", "c")
		_, c := w.start(t, nil)
		if _, err := c.Run(ctx, request()); err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{}
		for _, g := range []string{"a", "b", "c"} {
			for k := range 10 {
				want[g] = append(want[g], fmt.Sprintf("%s%d", g, k+1))
			}
		}
		if diff := cmp.Diff(want, w.queues[orders].byGroup()); diff != "" {
			t.Error(diff)
		}
		for _, a := range w.queues[orders].all() {
			in := map[string]int{}
			if in[a.out.Payload.GroupKey]++; in[a.out.Payload.GroupKey] > 1 {
				t.Error("two of a group in one request")
			}
			if len(a.out.DedupID) < 5 || a.out.DedupID[len(a.out.DedupID)-2:] != ".1" {
				t.Errorf("deduplication id %q", a.out.DedupID)
			}
		}
	})
}

// C42: ordering keys of a topic keep their order over batches, though nothing
// there deduplicates; messages without a key wait for nobody.
func TestKeysKeepTheirOrder(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(12, "x", "")
		topic := newQueue(orders, false)
		topic.facts.Ordered = true
		w.queues[orders] = topic
		topic.latency = func() (before, after time.Duration) { return time.Duration(rand.Int64N(int64(time.Second))), 0 }
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 24 {
			t.Fatalf("%+v, %v", res, err)
		}
		var want []string
		for k := range 12 {
			want = append(want, fmt.Sprintf("x%d", k+1))
		}
		if diff := cmp.Diff(want, topic.byGroup()["x"]); diff != "" {
			t.Error(diff)
		}
		for _, a := range topic.all() {
			if a.out.DedupID != "" {
				t.Errorf("deduplication id %q on a topic", a.out.DedupID)
			}
		}
	})
}

// C40: a3 is refused for now; a4 and a5 wait for it, b goes on.
func TestLaterOnesOfAGroupWait(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(5, "a", "b")
		refusals := 0
		w.queues[orders].fault = func(o dlqbridge.Outgoing) error {
			if string(o.Payload.Body) == "a3" && refusals < 4 {
				refusals++
				return dlqbridge.ErrThrottled
			}
			return nil
		}
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 10 {
			t.Fatalf("%+v, %v", res, err)
		}
		var a3, b5 time.Time
		for _, a := range w.queues[orders].all() {
			switch string(a.out.Payload.Body) {
			case "a3":
				a3 = a.at
			case "b5":
				b5 = a.at
			}
		}
		if !b5.Before(a3) {
			t.Error("b waited for a")
		}
		want := map[string][]string{"a": {"a1", "a2", "a3", "a4", "a5"}, "b": {"b1", "b2", "b3", "b4", "b5"}}
		if diff := cmp.Diff(want, w.queues[orders].byGroup()); diff != "" {
			t.Error(diff)
		}
		if s := w.sends["r_0005"][1]; s.Tries != 5 {
			t.Errorf("note of a3: %+v", s)
		}
	})
}

// C40: a3 is refused for good; a4 and a5 are blocked by it and stay as they are.
func TestARefusedOneBlocksItsGroup(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(5, "a", "b")
		w.queues[orders].fault = func(o dlqbridge.Outgoing) error {
			if string(o.Payload.Body) == "a3" {
				return fmt.Errorf("%w: InvalidMessageContents", dlqbridge.ErrInvalid)
			}
			return nil
		}
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 7 {
			t.Fatalf("%+v, %v", res, err)
		}
		want := map[string]dlqbridge.ExcludeReason{"r_0005": "refused", "r_0007": "order_blocked", "r_0009": "order_blocked"}
		if diff := cmp.Diff(want, reasons(res.Excluded)); diff != "" {
			t.Error(diff)
		}
		if s := w.control("r_0005").Status; s != dlqbridge.StatusAwaitingTechnicalOwner {
			t.Errorf("a3 is %s", s)
		}
		if s := w.control("r_0007").Status; s != dlqbridge.StatusAuthorized {
			t.Errorf("a4 is %s", s)
		}
	})
}

// A lost answer on FIFO: sent again inside the window under the same id, and
// the queue drops the copy.
func TestALostAnswerOnFIFOIsSentAgain(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(3, "a", "b")
		lost := 0
		w.queues[orders].lose = func(o dlqbridge.Outgoing) bool {
			if string(o.Payload.Body) == "a1" && lost < 2 {
				lost++
				return true
			}
			return false
		}
		p, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 6 || res.Outcomes[dlqbridge.OutcomeInDoubt] != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		want := map[string][]string{"a": {"a1", "a2", "a3"}, "b": {"b1", "b2", "b3"}}
		if diff := cmp.Diff(want, w.queues[orders].byGroup()); diff != "" {
			t.Error(diff)
		}
		if s := w.sends["r_0001"][1]; s.Outcome != dlqbridge.OutcomeSent || s.Tries != 3 {
			t.Errorf("note %+v after %d requests", s, p.counted("send"))
		}
	})
}

// Outside the window the queue has forgotten the id: nothing is sent again.
func TestADoubtOnFIFOOutlivesItsWindow(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(2, "a")
		w.queues[orders].lose = func(o dlqbridge.Outgoing) bool { return string(o.Payload.Body) == "a1" }
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.Tries = 2 })
		res, err := c.Run(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		if res.Outcomes[dlqbridge.OutcomeInDoubt] != 1 || res.Clean() {
			t.Errorf("%+v", res)
		}
		if got := w.queues[orders].byGroup()["a"]; len(got) != 1 {
			t.Errorf("a2 overtook a doubt: %v", got)
		}
		time.Sleep(5 * time.Minute)
		w.queues[orders].lose = nil
		res, err = c.Run(ctx, request())
		if err != nil || reasons(res.Excluded)["r_0001"] != dlqbridge.ExcludeInDoubt {
			t.Errorf("%+v, %v", res, err)
		}
		if n := w.queues[orders].bodies()["a1"]; n != 1 {
			t.Errorf("a1 was sent %d times", n)
		}
	})
}

// An answer was lost and the repetition is refused: the first one may be out,
// so it is a doubt and not a refusal.
func TestARefusalAfterALostAnswerIsADoubt(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(2, "a")
		tries := 0
		w.queues[orders].fault = func(dlqbridge.Outgoing) error {
			if tries++; tries > 1 {
				return dlqbridge.ErrInvalid
			}
			return nil
		}
		w.queues[orders].lose = func(dlqbridge.Outgoing) bool { return true }
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil || res.Outcomes[dlqbridge.OutcomeInDoubt] != 1 || res.Outcomes[dlqbridge.OutcomeRefused] != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if c := w.control("r_0001"); c.Status != dlqbridge.StatusRedriving || c.Claim == nil {
			t.Errorf("%+v", c)
		}
	})
}

// unknown makes the stores know nothing about records.
func (w *world) unknown(ids ...string) {
	for _, id := range ids {
		w.knows[id] = knowledge{effect: dlqbridge.EffectUnknown}
	}
}

// C40: what a plan leaves out blocks the later ones of its group as well, unless
// a person says to skip it.
func TestOneThatCannotBePlannedBlocksItsGroup(t *testing.T) {
	for _, skip := range []bool{false, true} {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			w.groups(5, "a", "b")
			w.unknown("r_0005") // a3
			_, c := w.start(t, nil)
			r := request()
			r.SkipUndeliverable = skip
			plan, err := c.Plan(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			blocked := map[string]dlqbridge.ExcludeReason{"r_0005": "effect_unknown"}
			want := map[string][]string{"a": {"a1", "a2"}, "b": {"b1", "b2", "b3", "b4", "b5"}}
			if skip {
				want["a"] = []string{"a1", "a2", "a4", "a5"}
			} else {
				blocked["r_0007"], blocked["r_0009"] = "order_blocked", "order_blocked"
			}
			if diff := cmp.Diff(blocked, reasons(plan.Excluded)); diff != "" {
				t.Error(diff)
			}
			if !plan.Jobs[0].Ordered || plan.Jobs[0].DedupSeconds != 300 || plan.SkipUndeliverable != skip {
				t.Errorf("the plan says %+v", plan)
			}
			res, err := c.Run(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(blocked, reasons(res.Excluded)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want, w.queues[orders].byGroup()); diff != "" {
				t.Error(diff)
			}
			if s := w.control("r_0007").Status; !skip && s != dlqbridge.StatusClassified {
				t.Errorf("a4 is %s: it was not asked for", s)
			}
		})
	}
}

// An earlier one of another cause, or one that was not named, blocks too.
func TestWhatIsNotSelectedIsNotOvertaken(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(4, "a", "b")
		c3 := w.controls["r_0003"] // a2
		c3.Cause = dlqbridge.CauseInvalidInput
		w.controls["r_0003"] = c3
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]dlqbridge.ExcludeReason{"r_0005": "order_blocked", "r_0007": "order_blocked"}, reasons(res.Excluded)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string][]string{"a": {"a1"}, "b": {"b1", "b2", "b3", "b4"}}, w.queues[orders].byGroup()); diff != "" {
			t.Error(diff)
		}
		// It is sent by its own cause; what is sent holds up nobody.
		r := request()
		r.Cause = dlqbridge.CauseInvalidInput
		if res, err = c.Run(ctx, r); err != nil || res.Sent != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		r = request()
		r.IDs = []string{"r_0007"} // a4, without a3
		if res, err = c.Run(ctx, r); err != nil || res.Sent != 0 || reasons(res.Excluded)["r_0007"] != dlqbridge.ExcludeOrderBlocked {
			t.Errorf("%+v, %v", res, err)
		}
		if res, err = c.Run(ctx, request()); err != nil || res.Sent != 2 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// What changes between plan and run blocks its group too; a choice to skip
// stands in the plan.
func TestAChangedOneBlocksItsGroup(t *testing.T) {
	for _, skip := range []bool{false, true} {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			w.groups(4, "a", "b")
			_, c := w.start(t, nil)
			r := request()
			r.SkipUndeliverable = skip
			plan, err := c.Plan(ctx, r)
			if err != nil || plan.Selected != 8 {
				t.Fatalf("%+v, %v", plan, err)
			}
			w.touch("r_0003") // a2
			res, err := c.Run(ctx, planned(plan, alice))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]dlqbridge.ExcludeReason{"r_0003": "changed", "r_0005": "order_blocked", "r_0007": "order_blocked"}
			sent := []string{"a1"}
			if skip {
				want = map[string]dlqbridge.ExcludeReason{"r_0003": "changed"}
				sent = []string{"a1", "a3", "a4"}
			}
			if diff := cmp.Diff(want, reasons(res.Excluded)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(sent, w.queues[orders].byGroup()["a"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// One that somebody moves while a run authorises it blocks its group as well.
func TestOneThatIsMovedMeanwhileBlocksItsGroup(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(3, "a", "b")
		moved := false
		_, c := w.start(t, func(p *process, _ *redrive.Options) {
			p.fault = func(op string) error {
				if op == "move" && !moved {
					moved = true
					w.mu.Lock()
					defer w.mu.Unlock()
					w.touch("r_0003") // a2
				}
				return nil
			}
		})
		res, err := c.Run(ctx, request())
		if err != nil || res.Sent != 4 {
			t.Fatalf("%+v, %v", res, err)
		}
		if diff := cmp.Diff(map[string]dlqbridge.ExcludeReason{"r_0003": "claimed", "r_0005": "order_blocked"}, reasons(res.Excluded)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"a1"}, w.queues[orders].byGroup()["a"]); diff != "" {
			t.Error(diff)
		}
	})
}

// One that the queue refuses is skipped where a person said so.
func TestARefusedOneIsSkipped(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(4, "a")
		w.queues[orders].fault = func(o dlqbridge.Outgoing) error {
			if string(o.Payload.Body) == "a2" {
				return fmt.Errorf("%w: InvalidMessageContents", dlqbridge.ErrInvalid)
			}
			return nil
		}
		_, c := w.start(t, nil)
		r := request()
		r.SkipUndeliverable = true
		res, err := c.Run(ctx, r)
		if err != nil || res.Sent != 3 || res.Excluded.Len() != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		if diff := cmp.Diff([]string{"a1", "a3", "a4"}, w.queues[orders].byGroup()["a"]); diff != "" {
			t.Error(diff)
		}
	})
}

// What goes to another place has not gone yet, so a later one of its group waits
// for it at the source; a compensation is in nobody's group but its own.
func TestOrderOverTwoPlaces(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(2, "a", "b")
		w.queues[resumes], w.queues[compensations] = newQueue(resumes, true), newQueue(compensations, true)
		w.routes["orders"] = redrive.Route{Name: "orders", ResumeTo: resumes, CompensateTo: compensations}
		w.knows["r_0001"] = knowledge{checkpoint: "ck"} // of group a
		second := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
		second.SecondPerson = true
		w.knows["r_0002"] = knowledge{effect: dlqbridge.EffectConfirmed, policy: &second} // of group b
		w.knows["r_0004"] = knowledge{effect: dlqbridge.EffectConfirmed}                  // and so is this
		_, c := w.start(t, nil)
		res, err := c.Run(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]dlqbridge.ExcludeReason{"r_0002": dlqbridge.ExcludeNeedsSecondPerson, "r_0003": dlqbridge.ExcludeOrderBlocked}
		if diff := cmp.Diff(want, reasons(res.Excluded)); diff != "" {
			t.Error(diff)
		}
		if len(w.queues[resumes].all()) != 1 || len(w.queues[compensations].all()) != 1 {
			t.Errorf("sent %d", res.Sent)
		}
		// Once the resume is sent, the next one goes.
		if res, err = c.Run(ctx, request()); err != nil || res.Sent != 1 || w.queues[orders].bodies()["a2"] != 1 {
			t.Errorf("%v, %+v", err, res)
		}
	})
}

// What a job was not narrowed to goes nowhere, and yet nothing of its group
// goes before it.
func TestWhatANarrowedJobLeavesOutKeepsItsPlace(t *testing.T) {
	for _, skip := range []bool{false, true} {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			w.groups(2, "a", "b")
			w.charged(redrive.Route{})
			w.knows["r_0001"] = knowledge{effect: dlqbridge.EffectConfirmed} // a1 is to be compensated
			_, c := w.start(t, nil)
			r := request()
			r.Actions, r.SkipUndeliverable = []dlqbridge.Action{dlqbridge.ActionRetry}, skip
			res, err := c.Run(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]string{"b": {"b1", "b2"}}
			if skip {
				want["a"] = []string{"a2"}
			}
			if diff := cmp.Diff(want, w.queues[orders].byGroup()); diff != "" {
				t.Error(diff)
			}
			if n := len(w.queues[compensations].all()); n != 0 || w.control("r_0001").Version != 1 {
				t.Errorf("%d compensations, %+v", n, w.control("r_0001"))
			}
			var left []dlqbridge.Exclusion
			for x, err := range res.Excluded.All() {
				if err != nil {
					t.Fatal(err)
				}
				left = append(left, x)
			}
			if skip && len(left) > 0 || !skip && (len(left) != 1 || left[0].ID != "r_0003" || left[0].Reason != dlqbridge.ExcludeOrderBlocked) {
				t.Errorf("%+v", left)
			}
		})
	}
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.add("r_1", nil)
		_, c := w.start(t, nil)
		r := request()
		r.Actions = []dlqbridge.Action{dlqbridge.ActionReject}
		if _, err := c.Plan(ctx, r); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Error(err)
		}
	})
}
