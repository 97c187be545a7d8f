package redrive_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// completes makes the ledger say that a record's last redrive completed.
func (w *world) completes(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.knows[id] = knowledge{completed: &dlqbridge.Completion{Store: "ledger", Run: "run-2", RedriveN: w.controls[id].Redrives}}
	}
}

// a2 is refused and skipped, a3 completes; then a2 is overtaken, and is sent
// only if a person asks for it. Older and other ones are not.
func TestWhatANewerOneReplacedIsNotSent(t *testing.T) {
	for _, asked := range []bool{false, true} {
		in(t, func(t *testing.T, ctx context.Context, w *world) {
			w.groups(4, "a", "b")
			broken := true
			w.queues[orders].fault = func(o dlqbridge.Outgoing) error {
				if string(o.Payload.Body) == "a2" && broken {
					return fmt.Errorf("%w: InvalidMessageContents", dlqbridge.ErrInvalid)
				}
				return nil
			}
			_, c := w.start(t, nil)
			r := request()
			r.SkipUndeliverable = true
			res, err := c.Run(ctx, r)
			if err != nil || res.Sent != 7 {
				t.Fatalf("%+v, %v", res, err)
			}
			w.completes("r_0005", "r_0001") // a3, and a1 after it
			for range 2 {
				if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil {
					t.Fatal(err)
				}
			}
			broken = false
			w.mu.Lock()
			a2 := w.controls["r_0003"]
			a2.Cause = dlqbridge.CauseTimeout
			w.controls["r_0003"] = a2
			w.mu.Unlock()
			r = request()
			r.SendOvertaken = asked
			plan, err := c.Plan(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			res, err = c.Run(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if asked {
				if plan.Selected != 1 || !plan.SendOvertaken || res.Sent != 1 || !w.jobs[res.Job].SendOvertaken {
					t.Errorf("asked for: %+v", res)
				}
				return
			}
			if plan.Selected != 0 || res.Sent != 0 || reasons(plan.Excluded)["r_0003"] != dlqbridge.ExcludeOvertaken || reasons(res.Excluded)["r_0003"] != dlqbridge.ExcludeOvertaken {
				t.Errorf("planned %+v, sent %+v", plan, res)
			}
			if s := w.control("r_0003").Status; s == dlqbridge.StatusAuthorized {
				t.Error("it was authorised")
			}
		})
	}
}

// What is overtaken between plan and run is found at the gate, holds up nobody,
// and blocks no later one of its group.
func TestTheGateFindsWhatIsOvertaken(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(4, "a", "b")
		_, c := w.start(t, nil)
		plan, err := c.Plan(ctx, request())
		if err != nil || plan.Selected != 8 {
			t.Fatalf("%+v, %v", plan, err)
		}
		// Elsewhere a2 completes meanwhile.
		w.done = map[dlqbridge.GroupKey]dlqbridge.GroupDone{
			{Destination: orders, Group: "a"}: {Record: "r_0003", Order: "00040003#" + dlqbridge.FormatTime(time.Time{}), At: time.Now()},
		}
		res, err := c.Run(ctx, planned(plan, alice))
		if err != nil || res.Sent != 7 {
			t.Fatalf("%+v, %v", res, err)
		}
		if diff := cmp.Diff(map[string]dlqbridge.ExcludeReason{"r_0001": "overtaken"}, reasons(res.Excluded)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"a2", "a3", "a4"}, w.queues[orders].byGroup()["a"]); diff != "" {
			t.Error(diff)
		}
	})
}

// Without order there is nothing to overtake, and nothing is asked or kept.
func TestNothingIsOvertakenWithoutOrder(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		for i := range 2 {
			w.add(fmt.Sprintf("r_%04d", i), func(_ *dlqbridge.Control, p *dlqbridge.Payload) { p.GroupKey = "tenant-17" })
		}
		p, c := w.start(t, nil)
		if _, err := c.Run(ctx, request()); err != nil {
			t.Fatal(err)
		}
		w.completes("r_0001")
		if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil {
			t.Fatal(err)
		}
		if p.counted("groups")+p.counted("done") > 0 || w.count(dlqbridge.StatusCompleted) != 1 {
			t.Errorf("%d asked, %d kept", p.counted("groups"), p.counted("done"))
		}
	})
}
