package redrive_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// What a job's records say of it stays true when they go on: outcomes come,
// and the next job sends the same record again.
func TestTallyCountsTheRecords(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(5)
		c, res := sent(ctx, t, w)
		is := func(job string, limit int, want redrive.Tally) {
			t.Helper()
			got, err := c.Tally(ctx, job, limit)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Error(diff, err)
			}
		}
		is(res.Job, redrive.MaxTally, redrive.Tally{Counted: 5, Sent: 5, Outcomes: map[dlqbridge.SendOutcome]int{"sent": 5}})
		is(res.Job, 2, redrive.Tally{Counted: 2, Sent: 2, Outcomes: map[dlqbridge.SendOutcome]int{"sent": 2}})

		w.knows["r_00000"] = knowledge{completed: &dlqbridge.Completion{Store: "ledger", Run: "run-2", RedriveN: 1}}
		time.Sleep(11 * time.Minute)
		if _, err := c.Observe(ctx, redrive.ObserveRequest{}); err != nil {
			t.Fatal(err)
		}
		over := redrive.Tally{Counted: 5, Sent: 5, Outcomes: map[dlqbridge.SendOutcome]int{"completed": 1, "unconfirmed": 4}}
		is(res.Job, redrive.MaxTally, over)

		// The rest is sent once more, by another job.
		r := request()
		r.IDs = []string{"r_00001", "r_00002"}
		again, err := c.Run(ctx, r)
		if err != nil || again.Sent != 2 {
			t.Fatalf("%+v, %v", again, err)
		}
		is(res.Job, redrive.MaxTally, over)
		is(again.Job, redrive.MaxTally, redrive.Tally{Counted: 2, Sent: 2, Outcomes: map[dlqbridge.SendOutcome]int{"sent": 2}})
	})
}

// A job whose process died wrote nothing about itself; its records did.
func TestTallyAfterAKill(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(5)
		c, res := sent(ctx, t, w)
		j := w.jobs[res.Job]
		j.Sent = 0
		w.jobs[res.Job] = j
		ctl := w.control("r_00003")
		delete(w.sends, "r_00003") // claimed, and killed before the note
		if got, err := c.Tally(ctx, res.Job, redrive.MaxTally); err != nil || got.Sent != 4 || got.Counted != 5 || ctl.Claim == nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
