package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// What goes out again after a lost answer may be going out for the first time:
// what another run wrote into the ledger meanwhile holds it back as it would any
// send, although workers refuse a second run of the number and compensations are
// declared idempotent. A doubt about which nobody wrote anything is sent again.
func TestADoubtIsHeldBackByWhatAnotherRunWrote(t *testing.T) {
	const routes = `
routes:
  - name: orders
    sqs: {dead_letter_queue: orders-dlq, source_queue: orders}
    kit: true
    resume: true
    compensate_to: undo
    compensate_idempotent: true
`
	other := row{"run_id": "run-2"}
	charge := "step#0003#charge"
	mail := func(b *bench) {
		b.ledger("t-1", "step#0004#mail", with(step("succeeded", row{"receipt": "m_1", "step_id": "0004#mail"}), other))
	}
	cases := map[string]struct {
		// before is what the first life left; meanwhile is what another run writes.
		before, meanwhile func(b *bench, now time.Time)
		to, want          string
	}{
		"retry, nothing new": {nil, nil, "orders", ""},
		"retry, a step was begun": {nil, func(b *bench, now time.Time) {
			b.ledger("t-1", charge, with(step("started", row{"step_id": "0003#charge", "started_at": now.Format(time.RFC3339)}), other))
			b.ledger("t-1", "task", with(intent, other))
		}, "orders", "effect_unknown"},
		"retry, a step was done": {nil, func(b *bench, _ time.Time) {
			b.ledger("t-1", charge, with(step("succeeded", row{"receipt": "ch_2", "step_id": "0003#charge"}), other))
		}, "orders", "needs_compensation"},
		"resume, nothing new":          {func(b *bench, _ time.Time) { b.kept("t-1", "ck-1") }, nil, "orders", ""},
		"resume, a step beyond it":     {func(b *bench, _ time.Time) { b.kept("t-1", "ck-1") }, func(b *bench, _ time.Time) { mail(b) }, "orders", "needs_compensation"},
		"resume, a further checkpoint": {func(b *bench, _ time.Time) { b.kept("t-1", "ck-1") }, func(b *bench, _ time.Time) { b.kept("t-1", "ck-2") }, "orders", "in_doubt"},
		"compensation, nothing new":    {charged, nil, "undo", ""},
		"compensation, the task completed": {charged, func(b *bench, now time.Time) {
			b.ledger("t-1", "task", with(intent, row{"run_id": "run-2", "status": "completed", "updated_at": now.Format(time.RFC3339)}))
		}, "undo", "closed"},
		"compensation, a run is going": {charged, func(b *bench, now time.Time) {
			b.ledger("t-1", "task", with(intent, row{"run_id": "run-2", "status": "running", "lease_until": now.Add(time.Hour).Format(time.RFC3339)}))
		}, "undo", "still_running"},
		"compensation, a step was begun": {charged, func(b *bench, now time.Time) {
			b.ledger("t-1", "step#0004#mail", with(step("started", row{"step_id": "0004#mail", "started_at": now.Format(time.RFC3339)}), other))
		}, "undo", "effect_unknown"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, strings.Replace(oneRoute, "routes:\n  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, stores: [message, ledger]}\n", "", 1)+routes, []string{"orders", "undo"}, func(b *bench) {
				b.ledger("t-1", "task", intent)
				if c.before != nil {
					c.before(b, time.Now())
				}
				id := b.tasks(nil, nil, "t-1")["t-1"]
				if _, err := b.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: "SendMessageBatch", Times: 1, Do: "drop_before"}); err != nil {
					t.Fatal(err)
				}
				run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
				b.want(3, run...)
				if r := b.show(id); r.Status != "redriving" || r.Redrives[0].Outcome != "in_doubt" {
					t.Fatalf("no doubt: %+v", r)
				}
				time.Sleep(time.Minute) // virtual
				if c.meanwhile != nil {
					c.meanwhile(b, time.Now())
				}
				code := 3
				if c.want == "" {
					code = 0
				}
				got := document[runDoc](b, code, run...)
				sent := b.receive(c.to) != nil
				switch r := b.show(id); {
				case c.want == "":
					if !sent || got.Sent != 1 || r.Redrives[0].Outcome != "sent" {
						t.Errorf("run %+v, record %+v", got, r)
					}
				case sent || len(got.Excluded) != 1 || got.Excluded[0].Reason != c.want || r.Redrives[0].Outcome != "in_doubt":
					t.Errorf("sent %v, run %+v, record %+v", sent, got, r)
				}
			})
		})
	}
}

// charged writes what a worker leaves that charged and died.
func charged(b *bench, _ time.Time) {
	b.ledger("t-1", "step#0003#charge", step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"}))
}
