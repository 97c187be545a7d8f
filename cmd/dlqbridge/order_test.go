package main_test

import (
	"strings"
	"testing"
	"time"
)

const fifoRoute = `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - name: orders
    sqs: {dead_letter_queue: orders-dlq.fifo, source_queue: orders.fifo}
`

// On a FIFO queue one that cannot be sent holds up the later ones of its group,
// or is skipped; when a later one has completed, it is overtaken.
func TestAGroupOnTheLocalCloud(t *testing.T) {
	inBubble(t, fifoRoute, []string{"orders.fifo"}, func(b *bench) {
		for _, task := range []string{"t-1", "t-2", "t-3"} {
			b.send("orders.fifo", `{"task":"`+task+`"}`, row{"v": 1, "task": task, "type": "bill", "cause": "timeout", "code": "ETIMEDOUT"})
			if task != "t-2" { // of which nobody knows anything
				b.ledger(task, "task", intent)
			}
		}
		b.die("orders.fifo")
		b.ok("intake", "--until-empty")
		ids := b.byTask()
		plan := append([]string{"redrive", "plan", "--cause", "timeout"}, fixed...)
		is := func(want map[string]string, args ...string) {
			t.Helper()
			got := map[string]string{}
			for _, x := range document[planDoc](b, 0, append(plan, args...)...).Excluded {
				got[x.ID] = x.Reason
			}
			for task, reason := range want {
				if got[ids[task]] != reason {
					t.Errorf("%v: %s is %q, want %q", args, task, got[ids[task]], reason)
				}
			}
		}
		is(map[string]string{"t-1": "", "t-2": "effect_unknown", "t-3": "order_blocked"})
		is(map[string]string{"t-1": "", "t-2": "effect_unknown", "t-3": ""}, "--skip-undeliverable")
		text := b.ok(plan...).stdout
		for _, want := range []string{"each group keeps its order", "for 5m0s", "waits for " + ids["t-2"], "--skip-undeliverable"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not said in\n%s", want, text)
			}
		}
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if r := document[runDoc](b, 3, append(run, "--skip-undeliverable")...); r.Sent != 2 {
			t.Fatalf("%+v", r)
		}
		b.ledger("t-3", "task", with(intent, row{"status": "completed", "redrive_n": 1, "updated_at": time.Now(), "run_id": "run-2"}))
		b.ok("redrive", "observe")
		b.status("completed", ids["t-3"])
		b.ledger("t-2", "task", intent) // its worker says now that it did nothing
		is(map[string]string{"t-2": "overtaken"})
		if r := document[runDoc](b, 3, run...); r.Sent != 0 || len(r.Excluded) == 0 {
			t.Errorf("%+v", r)
		}
		is(map[string]string{"t-2": ""}, "--send-overtaken")
		file := b.file(b.ok(append(plan, "--send-overtaken", "-o", "json")...).stdout)
		if r := document[runDoc](b, 0, "redrive", "run", "--plan", file, "--reason", "it must go"); r.Sent != 1 {
			t.Errorf("%+v", r)
		}
	})
}
