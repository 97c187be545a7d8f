package main_test

import (
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
)

// died leaves what a killed process leaves: a job that says that it runs, and a
// lease that nobody renews.
func (b *bench) died(job string, ids ...string) {
	b.t.Helper()
	store, err := awsdynamodb.New(awsdynamodb.Options{Client: b.tables, Records: "dlqbridge-records", Payloads: "dlqbridge-payloads"})
	if err != nil {
		b.t.Fatal(err)
	}
	const orders = "arn:aws:sqs:us-east-1:000000000000:orders"
	if _, err := store.Take(b.t.Context(), dlqbridge.Lease{
		Destination: orders, Job: job, Holder: "ann@laptop", Token: "x", Until: time.Now().Add(30 * time.Second), SendDeadline: 10 * time.Second,
	}); err != nil {
		b.t.Fatal(err)
	}
	var members iter.Seq2[dlqbridge.Member, error] = func(yield func(dlqbridge.Member, error) bool) {
		for _, id := range ids {
			if !yield(dlqbridge.Member{ID: id, Version: 1}, nil) {
				return
			}
		}
	}
	if err := store.CreateJob(b.t.Context(), dlqbridge.Job{
		ID: job, Version: 1, State: dlqbridge.JobRunning, Cause: dlqbridge.CauseTimeout, Destination: orders, Route: "orders", Why: "fixed",
		Rate: dlqbridge.Rate{Count: 20, Per: time.Second}, Burst: 10, Created: time.Now(), Selected: len(ids),
		Doing: "canary step 1 of 1, observing until 23:59:59Z at the latest",
	}, members); err != nil {
		b.t.Fatal(err)
	}
}

type lifeDoc struct {
	ID, State    string
	Abandoned    *bool
	EstimatedEnd *string
}

// A cancelled job observes nothing any more, and whoever is refused because its
// dead process still has the destination is told so and until when.
func TestACancelledJobOfADeadProcess(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.tasks(intent, nil, "t-1")["t-1"]
		const job = "j_dead"
		b.died(job, id)
		until := dlqbridge.FormatTime(time.Now().Add(30 * time.Second))
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if c := b.want(1, run...); strings.Contains(c.stderr, "cancelled") || !strings.Contains(c.stderr, "redrive pause") {
			t.Error(c.stderr)
		}
		for _, args := range [][]string{{"cancel", job, "--reason", "its laptop is gone"}, {"status", job}} {
			if text := b.ok(append([]string{"redrive"}, args...)...).stdout; strings.Contains(text, "observing") {
				t.Errorf("%v: %s", args, text)
			}
		}
		if c := b.want(1, run...); !strings.Contains(c.stderr, "job j_dead (ann@laptop), which is cancelled") || !strings.Contains(c.stderr, until[:16]) || strings.Contains(c.stderr, "redrive pause") {
			t.Errorf("until %s: %s", until, c.stderr)
		}
		time.Sleep(time.Minute)
		b.ok(run...)
	})
}

// A job whose process died says for ever that it runs; who looks is told that
// nobody runs it, and what to type, and who follows it does not wait in vain.
func TestAJobWhoseProcessDiedIsSaidToBeAbandoned(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2")
		const job = "j_dead"
		b.died(job, ids["t-1"], ids["t-2"])
		lives := func(alive bool, state string) lifeDoc {
			t.Helper()
			listed := document[struct{ Jobs []lifeDoc }](b, 0, "redrive", "list").Jobs[0]
			shown := document[lifeDoc](b, 0, "redrive", "status", job)
			for name, d := range map[string]lifeDoc{"list": listed, "status": shown} {
				if d.Abandoned == nil || *d.Abandoned == alive || d.State != state {
					t.Errorf("%s: %+v", name, d)
				}
			}
			return shown
		}
		lives(true, "running") // its lease stands: it may be alive
		if text := b.ok("redrive", "status", job).stdout; strings.Contains(text, "nobody runs it") {
			t.Error(text)
		}
		time.Sleep(2 * time.Minute)
		if d := lives(false, "running"); d.EstimatedEnd != nil {
			t.Errorf("it will end at %s", *d.EstimatedEnd)
		}
		for _, args := range [][]string{{"status", job}, {"status", job, "--follow"}} {
			if text := b.ok(append([]string{"redrive"}, args...)...).stdout; !strings.Contains(text, job+"  running, but nobody runs it: its process died before 20") || !strings.Contains(text, "dlqbridge redrive continue "+job) {
				t.Errorf("%v: %s", args, text)
			}
		}
		if text := b.ok("redrive", "list").stdout; !strings.Contains(text, job+"  abandoned  timeout") || !strings.Contains(text, "dlqbridge redrive continue JOB") {
			t.Error(text)
		}
		b.ok("redrive", "cancel", job, "--reason", "its laptop is gone")
		lives(true, "cancelled")
		// Another one that runs meanwhile is alive, and the text says what it waits for.
		run := b.behind(append([]string{"redrive", "run", "--cause", "timeout", "--canary", "1"}, fixed...)...)
		time.Sleep(5 * time.Minute)
		living := document[struct{ Jobs []lifeDoc }](b, 0, "redrive", "list").Jobs[0]
		if living.ID == job || living.State != "running" || *living.Abandoned {
			t.Errorf("%+v", living)
		}
		b.ok("redrive", "pause", living.ID, "--reason", "lunch")
		if text := b.ok("redrive", "status", living.ID).stdout; !strings.Contains(text, "go on: dlqbridge redrive continue "+living.ID) || !strings.Contains(text, "redrive cancel "+living.ID) {
			t.Error(text)
		}
		run()
		b.want(0, "redrive", "continue", living.ID, "--reason", "back")
		if text := b.ok("redrive", "status", living.ID).stdout; !strings.Contains(text, "sent is not worked: ") || !strings.Contains(text, "redrive observe --job "+living.ID) {
			t.Error(text)
		}
		if text := b.ok("redrive", "list").stdout; !strings.Contains(text, "done is sent, not worked") || strings.Contains(text, "abandoned is") {
			t.Error(text)
		}
	})
}
