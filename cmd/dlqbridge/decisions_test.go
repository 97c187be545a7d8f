package main_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// Routes that differ in what their teams declare.
const declarations = `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - {name: ledger, sqs: {dead_letter_queue: ledger-dlq, source_queue: ledger}, stores: [message, ledger]}
  - {name: resume, sqs: {dead_letter_queue: resume-dlq, source_queue: resume}, stores: [message, ledger], resume: true}
  - {name: silent, sqs: {dead_letter_queue: silent-dlq, source_queue: silent}, stores: [message]}
  - {name: none, sqs: {dead_letter_queue: none-dlq, source_queue: none}, effects: none}
  - {name: idem, sqs: {dead_letter_queue: idem-dlq, source_queue: idem}, effects: idempotent, idempotency_window: 12h}
  - {name: trust, sqs: {dead_letter_queue: trust-dlq, source_queue: trust}, trust_worker: true, stores: [message]}
causes:
  dependency_unavailable: {redrive_budget: 0}
`

type row = map[string]any

// decisionCase is what a worker left behind, and what must follow.
type decisionCase struct {
	// table names what is held: the fold of effects (effect.go), or a
	// rule of Decide (decision.go) by its place.
	table, name string
	route       string
	facts       row // agent.ctx, besides v and task
	header      row // nil: no header
	steps       map[string]row
	worker      bool // the worker sent the letter to the dead-letter queue itself
	old         bool // first sent a day ago
	unavailable bool // the ledger cannot be asked
	want        decided
}

type decided struct {
	state, uncovered, action, status, rule string
	repeatSafe                             bool
}

// What often follows.
func unknown(status ...string) decided {
	return decided{"unknown", "unknown", "human_review", "under_investigation", "effect_unknown", false}
}

var (
	timeout  = row{"cause": "timeout", "code": "ETIMEDOUT", "type": "bill"}
	intent   = row{"intent_before_call": true, "status": "failed", "run_id": "run-1", "task_type": "bill"}
	careless = row{"status": "failed", "run_id": "run-1", "task_type": "bill"}
	retry    = decided{"none_confirmed", "none_confirmed", "retry", "classified", "retryable", false}
	undo     = decided{"confirmed", "confirmed", "compensate", "awaiting_operational_decision", "effect_confirmed", false}
)

func with(base, more row) row {
	out := row{}
	maps.Copy(out, base)
	maps.Copy(out, more)
	return out
}

func step(status string, more row) row {
	return with(row{"status": status, "run_id": "run-1", "tool": "charge_card"}, more)
}

func cause(c string) row { return row{"cause": c, "type": "bill"} }

// decisions is every row of the fold and every rule of Decide, black-box:
// ledger rows in, decision out.
func decisions(now time.Time) []decisionCase {
	charge := "step#0003#charge"
	covered := with(intent, row{"checkpoint": row{"ref": "ck-9", "step_id": "0003#charge", "run_id": "run-1"}})
	receipt := step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"})
	return []decisionCase{
		// The fold: ledger rows.
		{table: "fold", name: "no ledger entry at all is silence", route: "ledger", facts: timeout, want: unknown()},
		{table: "fold", name: "no step row, header without intent_before_call", route: "ledger", facts: timeout, header: careless, want: unknown()},
		{table: "fold", name: "no step row, header with intent_before_call", route: "ledger", facts: timeout, header: intent, want: retry},
		{table: "fold", name: "planned with intent_before_call", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("planned", nil)}, want: retry},
		{table: "fold", name: "planned without intent_before_call", route: "ledger", facts: timeout, header: careless, steps: map[string]row{charge: step("planned", nil)}, want: unknown()},
		{table: "fold", name: "started", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("started", nil)}, want: unknown()},
		{table: "fold", name: "ambiguous", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("ambiguous", nil)}, want: unknown()},
		{table: "fold", name: "succeeded without receipt", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("succeeded", nil)}, want: unknown()},
		{table: "fold", name: "failed_transient", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("failed_transient", nil)}, want: unknown()},
		{table: "fold", name: "failed_permanent", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("failed_permanent", nil)}, want: unknown()},
		{table: "fold", name: "failed, and the tool asserts that nothing changed", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("failed_permanent", row{"effect": "none"})}, want: retry},
		{table: "fold", name: "receipt", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: receipt}, want: undo},
		{table: "fold", name: "already_exists", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("already_exists", nil)}, want: undo},
		{table: "fold", name: "a status that nobody knows", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("burning", nil)}, want: unknown()},
		{table: "fold", name: "a step that changes nothing is not folded", route: "ledger", facts: timeout, header: intent, steps: map[string]row{"step#0001#read": step("started", row{"effect_class": "none"})}, want: retry},
		{table: "fold", name: "confirmed in one run, planned in another", route: "ledger", facts: timeout, header: intent, steps: map[string]row{
			"run#run-1#0003#charge": receipt, "run#run-2#0003#charge": step("planned", row{"run_id": "run-2"}),
		}, want: undo},
		{table: "fold", name: "confirmed in one step, unknown in another", route: "ledger", facts: timeout, header: intent, steps: map[string]row{
			charge: receipt, "step#0004#mail": step("started", nil),
		}, want: unknown()},
		{table: "fold", name: "a run may still be going: lease", route: "ledger", facts: timeout, header: with(intent, row{"status": "running", "lease_until": now.Add(time.Hour)}), want: unknown()},
		{table: "fold", name: "a run may still be going: no lease, within max_run", route: "ledger", facts: timeout, header: with(intent, row{"status": "running", "updated_at": now}), want: unknown()},
		{table: "fold", name: "a run whose lease is over is not going", route: "ledger", facts: timeout, header: with(intent, row{"status": "running", "lease_until": now.Add(-time.Hour), "updated_at": now.Add(-2 * time.Hour)}), want: retry},
		{table: "fold", name: "a run beyond max_run is not going", route: "ledger", facts: timeout, header: with(intent, row{"status": "running", "updated_at": now.Add(-time.Hour)}), want: retry},
		{table: "fold", name: "a store that cannot be asked", route: "ledger", facts: timeout, header: intent, unavailable: true, want: unknown()},
		// The fold: declarations.
		{table: "fold", name: "mutating without any store", route: "silent", facts: timeout, want: unknown()},
		{table: "fold", name: "effects none", route: "none", facts: timeout, want: decided{"none_confirmed", "none_confirmed", "retry", "classified", "retryable", true}},
		{table: "fold", name: "effects none is voided by a mutating finding", route: "none", facts: timeout, header: intent, steps: map[string]row{charge: step("started", nil)}, want: unknown()},
		{table: "fold", name: "effects idempotent, key, inside the window", route: "idem", facts: with(timeout, row{"idem": "k-1"}), want: decided{"unknown", "unknown", "retry", "classified", "retryable", true}},
		{table: "fold", name: "effects idempotent without a key", route: "idem", facts: timeout, want: unknown()},
		{table: "fold", name: "effects idempotent, outside the window", route: "idem", facts: with(timeout, row{"idem": "k-2"}), old: true, want: unknown()},
		{
			table: "fold", name: "effects idempotent, confirmed: repeating is safe", route: "idem", facts: with(timeout, row{"idem": "k-3"}), header: intent, steps: map[string]row{charge: receipt},
			want: decided{"confirmed", "confirmed", "retry", "classified", "retryable", true},
		},
		// The fold: a worker's word.
		{table: "fold", name: "a trusted worker about its only run", route: "trust", facts: with(timeout, row{"effect": "none_confirmed", "run": "run-1", "n": 1}), worker: true, want: retry},
		{table: "fold", name: "a trusted worker, but other runs may have been", route: "trust", facts: with(timeout, row{"effect": "none_confirmed", "run": "run-3", "n": 3}), worker: true, want: unknown()},
		{table: "fold", name: "a worker's word on a letter that the broker moved", route: "trust", facts: with(timeout, row{"effect": "none_confirmed", "run": "run-1", "n": 1}), want: unknown()},
		{table: "fold", name: "a worker's word on a route that trusts none", route: "silent", facts: with(timeout, row{"effect": "none_confirmed", "run": "run-1", "n": 1}), worker: true, want: unknown()},
		// The rules of Decide, in their order.
		{
			table: "rule 0", name: "a store shows that the task completed", route: "ledger", facts: timeout, header: with(intent, row{"status": "completed"}), steps: map[string]row{charge: receipt},
			want: decided{"confirmed", "confirmed", "none", "completed", "task_completed", false},
		},
		{table: "rule 1", name: "critical", route: "ledger", facts: cause("critical"), header: intent, want: decided{"none_confirmed", "none_confirmed", "human_review", "incident_open", "critical", false}},
		{table: "rule 2", name: "unknown beats expired", route: "ledger", facts: with(timeout, row{"vu": now.Add(-time.Hour).Format(time.RFC3339)}), want: unknown()},
		{table: "rule 3", name: "confirmed beats expired", route: "ledger", facts: with(timeout, row{"vu": now.Add(-time.Hour).Format(time.RFC3339)}), header: intent, steps: map[string]row{charge: receipt}, want: undo},
		{
			table: "rule 4", name: "past valid_until", route: "ledger", facts: with(timeout, row{"vu": now.Add(-time.Hour).Format(time.RFC3339)}), header: intent,
			want: decided{"none_confirmed", "none_confirmed", "reject", "awaiting_operational_decision", "expired", false},
		},
		{
			table: "rule 5", name: "checkpoint on a route with a resume contract", route: "resume", facts: timeout, header: covered, steps: map[string]row{charge: receipt},
			want: decided{"confirmed", "none_confirmed", "resume", "classified", "checkpoint", false},
		},
		{table: "rule 5", name: "a checkpoint does not cover what came after it", route: "resume", facts: timeout, header: covered, steps: map[string]row{charge: receipt, "step#0004#mail": step("started", row{"step_id": "0004#mail"})}, want: unknown()},
		{
			table: "rule 6", name: "covered, but no resume possible", route: "ledger", facts: timeout, header: covered, steps: map[string]row{charge: receipt},
			want: decided{"confirmed", "none_confirmed", "human_review", "under_investigation", "covered_effect_without_resume", false},
		},
		{table: "rule 7", name: "retryable", route: "ledger", facts: timeout, header: intent, want: retry},
		{
			table: "rule 8", name: "retryable, but the budget is used up", route: "ledger", facts: cause("dependency_unavailable"), header: intent,
			want: decided{"none_confirmed", "none_confirmed", "repair", "classified", "fixable", false},
		},
		{table: "rule 8", name: "permission", route: "ledger", facts: cause("permission"), header: intent, want: decided{"none_confirmed", "none_confirmed", "repair", "awaiting_technical_owner", "fixable", false}},
		{table: "rule 8", name: "invalid input", route: "ledger", facts: cause("invalid_input"), header: intent, want: decided{"none_confirmed", "none_confirmed", "repair", "awaiting_input_correction", "fixable", false}},
		{table: "rule 8", name: "output contract", route: "ledger", facts: cause("output_contract"), header: intent, want: decided{"none_confirmed", "none_confirmed", "repair", "awaiting_technical_owner", "fixable", false}},
		{table: "rule 8", name: "policy limit", route: "ledger", facts: cause("policy_limit"), header: intent, want: decided{"none_confirmed", "none_confirmed", "repair", "awaiting_operational_decision", "fixable", false}},
		{
			table: "rule 8", name: "not none_confirmed, but repeating is safe and nothing patched", route: "idem", facts: with(cause("permission"), row{"idem": "k-4"}),
			want: decided{"unknown", "unknown", "repair", "awaiting_technical_owner", "fixable", true},
		},
		{table: "rule 9", name: "unclassified", route: "ledger", facts: row{"type": "bill"}, header: intent, want: decided{"none_confirmed", "none_confirmed", "human_review", "under_investigation", "unclassified", false}},
		{table: "rule 10", name: "business rule", route: "ledger", facts: cause("business_rule"), header: intent, want: decided{"none_confirmed", "none_confirmed", "reject", "awaiting_operational_decision", "nobody_can_fix", false}},
	}
}

func TestDecisionsBlackBox(t *testing.T) {
	routes := []string{"ledger", "resume", "silent", "none", "idem", "trust"}
	inBubble(t, declarations, routes, func(b *bench) {
		cases := decisions(time.Now())
		task := func(i int) string { return fmt.Sprintf("task-%02d", i) }
		put := func(old bool) {
			for i, c := range cases {
				if c.old != old {
					continue
				}
				queue := c.route
				if c.worker {
					queue += "-dlq"
				}
				b.send(queue, fmt.Sprintf(`{"case":%d}`, i), with(row{"v": 1, "task": task(i)}, c.facts))
				if c.header != nil {
					b.ledger(task(i), "task", c.header)
				}
				for entry, s := range c.steps {
					b.ledger(task(i), entry, s)
				}
				if c.unavailable {
					if _, err := b.cloud.AddFault(localstack.Fault{Service: "dynamodb", Operation: "Query", Contains: task(i), Times: -1, Do: "error", Code: "InternalServerError", Status: 500}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		put(true)
		time.Sleep(24 * time.Hour) // virtual
		cases = decisions(time.Now())
		put(false)
		for _, r := range routes {
			b.die(r)
		}
		counts := document[struct{ Letters, Records, Unstored int }](b, 0, "intake", "--until-empty")
		if counts.Records != len(cases) || counts.Unstored != 0 {
			t.Fatalf("intake: %+v, want %d records", counts, len(cases))
		}
		ids := b.byTask()
		for i, c := range cases {
			r := b.show(ids[task(i)])
			got := decided{r.Effect.State, r.Effect.Uncovered, r.Decision.Action, r.Status, r.Decision.Rule, r.Effect.RepeatSafe}
			if got != c.want {
				t.Errorf("%s, %s:\n got %+v\nwant %+v", c.table, c.name, got, c.want)
			}
		}
		// Decided once more from what was stored, by the same rules, nothing changes.
		if d := document[policyTestDoc](b, 0, "policy", "test", "--since", "7d"); d.Tested != len(cases) || d.Changed != 0 || len(d.Changes) != 0 {
			t.Errorf("policy test by the same configuration: got %+v", d)
		}
	})
}
