package redrive_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// A job is told by its parts: what became of each canary step and each group of
// failures, how much of it succeeded, and how long that took.
func TestAJobStandsByItsParts(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		for i := range 10 {
			w.add(fmt.Sprintf("r_%04d", i), func(c *dlqbridge.Control, _ *dlqbridge.Payload) {
				c.FirstSeen = c.FirstSeen.Add(time.Duration(i) * time.Millisecond)
				if c.Signature = "sg_one"; i >= 8 {
					c.Signature = "sg_two"
				}
			})
		}
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.Canary = []int{2} })
		done := make(chan redrive.Result)
		go func() {
			res, err := c.Run(ctx, request())
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		time.Sleep(30 * time.Second)
		w.completes(w.ofJob(0, 2)...)
		res := <-done
		if res.Sent != 10 {
			t.Fatalf("%+v", res)
		}
		time.Sleep(time.Minute)
		w.completes(w.ofJob(2, 4)...)
		if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil {
			t.Fatal(err)
		}
		got, err := c.Standing(ctx, w.jobs[res.Job], redrive.MaxTally)
		if err != nil {
			t.Fatal(err)
		}
		part := func(step, size, completed, waiting int) redrive.Part {
			p := redrive.Part{Step: step, Size: size, Timed: completed}
			p.Tally = redrive.Tally{Counted: size, Sent: size, Outcomes: map[dlqbridge.SendOutcome]int{"completed": completed}}
			if waiting > 0 {
				p.Outcomes["sent"] = waiting
			}
			return p
		}
		same := cmp.Options{cmpopts.IgnoreUnexported(redrive.Part{}), cmpopts.IgnoreFields(redrive.Part{}, "Median", "P95")}
		if diff := cmp.Diff(redrive.Part{Size: 10, Timed: 4, Tally: part(0, 10, 4, 6).Tally}, got.Part, same); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]redrive.Part{part(1, 2, 2, 0), part(0, 8, 2, 6)}, got.Steps, same); diff != "" {
			t.Error(diff)
		}
		if len(got.Signatures) != 2 || got.Signatures[0].Signature != "sg_one" || got.Signatures[0].Size != 8 || got.Signatures[1].Size != 2 {
			t.Errorf("groups %+v", got.Signatures)
		}
		// Each look is up to fifteen seconds after what it sees.
		if m := got.Steps[0].Median; m < 30*time.Second || m > 46*time.Second {
			t.Errorf("the first step took %s", m)
		}
		if m := got.Steps[1].P95; m < time.Minute || m > 62*time.Second {
			t.Errorf("the rest took %s", m)
		}
		if share, known := got.Success(); !known || share != 1 {
			t.Errorf("success %v, %v", share, known)
		}
		// At the end of the observation the others are no success.
		time.Sleep(time.Hour)
		if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Standing(ctx, w.jobs[res.Job], redrive.MaxTally); err != nil {
			t.Fatal(err)
		}
		if share, _ := got.Success(); share != 0.4 || got.Outcomes["unconfirmed"] != 6 || got.Timed != 4 {
			t.Errorf("success %v of %+v", share, got.Part)
		}
	})
}

// ofJob are some members of the one job there is.
func (w *world) ofJob(from, to int) (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.jobs {
		for _, m := range w.members[id][from:to] {
			ids = append(ids, m.ID)
		}
	}
	return ids
}
