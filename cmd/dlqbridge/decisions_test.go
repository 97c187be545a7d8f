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
	// section names the sentence of the contract.
	section, name string
	route         string
	facts         row // agent.ctx, besides v and task
	header        row // nil: no header
	steps         map[string]row
	worker        bool // the worker sent the letter to the dead-letter queue itself
	old           bool // first sent a day ago
	unavailable   bool // the ledger cannot be asked
	want          decided
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

// decisions is every row of CONTRACT 5 and 7, black-box: ledger rows in,
// decision out.
func decisions(now time.Time) []decisionCase {
	charge := "step#0003#charge"
	covered := with(intent, row{"checkpoint": row{"ref": "ck-9", "step_id": "0003#charge", "run_id": "run-1"}})
	receipt := step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"})
	return []decisionCase{
		// Section 5, ledger rows.
		{section: "5", name: "no ledger entry at all is silence", route: "ledger", facts: timeout, want: unknown()},
		{section: "5", name: "no step row, header without intent_before_call", route: "ledger", facts: timeout, header: careless, want: unknown()},
		{section: "5", name: "no step row, header with intent_before_call", route: "ledger", facts: timeout, header: intent, want: retry},
		{section: "5", name: "planned with intent_before_call", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("planned", nil)}, want: retry},
		{section: "5", name: "planned without intent_before_call", route: "ledger", facts: timeout, header: careless, steps: map[string]row{charge: step("planned", nil)}, want: unknown()},
		{section: "5", name: "started", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("started", nil)}, want: unknown()},
		{section: "5", name: "ambiguous", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("ambiguous", nil)}, want: unknown()},
		{section: "5", name: "succeeded without receipt", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("succeeded", nil)}, want: unknown()},
		{section: "5", name: "failed_transient", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("failed_transient", nil)}, want: unknown()},
		{section: "5", name: "failed_permanent", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("failed_permanent", nil)}, want: unknown()},
		{section: "5", name: "failed, and the tool asserts that nothing changed", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("failed_permanent", row{"effect": "none"})}, want: retry},
		{section: "5", name: "receipt", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: receipt}, want: undo},
		{section: "5", name: "already_exists", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("already_exists", nil)}, want: undo},
		{section: "5", name: "a status that nobody knows", route: "ledger", facts: timeout, header: intent, steps: map[string]row{charge: step("burning", nil)}, want: unknown()},
		{section: "5", name: "a step that changes nothing is not folded", route: "ledger", facts: timeout, header: intent, steps: map[string]row{"step#0001#read": step("started", row{"effect_class": "none"})}, want: retry},
		{section: "5", name: "confirmed in one run, planned in another", route: "ledger", facts: timeout, header: intent, steps: map[string]row{
			"run#run-1#0003#charge": receipt, "run#run-2#0003#charge": step("planned", row{"run_id": "run-2"}),
		}, want: undo},
		{section: "5", name: "confirmed in one step, unknown in another", route: "ledger", facts: timeout, header: intent, steps: map[string]row{
			charge: receipt, "step#0004#mail": step("started", nil),
		}, want: unknown()},
		{section: "5", name: "a run may still be going: lease", route: "ledger", facts: timeout, header: with(intent, row{"status": "running", "lease_until": now.Add(time.Hour)}), want: unknown()},
		{section: "5", name: "a run may still be going: no lease, within max_run", route: "ledger", facts: timeout, header: with(intent, row{"status": "running", "updated_at": now}), want: unknown()},
		{section: "5", name: "a run whose lease is over is not going", route: "ledger", facts: timeout, header: with(intent, row{"status": "running", "lease_until": now.Add(-time.Hour), "updated_at": now.Add(-2 * time.Hour)}), want: retry},
		{section: "5", name: "a run beyond max_run is not going", route: "ledger", facts: timeout, header: with(intent, row{"status": "running", "updated_at": now.Add(-time.Hour)}), want: retry},
		{section: "5", name: "a store that cannot be asked", route: "ledger", facts: timeout, header: intent, unavailable: true, want: unknown()},
		// Section 5, declarations.
		{section: "5", name: "mutating without any store", route: "silent", facts: timeout, want: unknown()},
		{section: "5", name: "effects none", route: "none", facts: timeout, want: decided{"none_confirmed", "none_confirmed", "retry", "classified", "retryable", true}},
		{section: "5", name: "effects none is voided by a mutating finding", route: "none", facts: timeout, header: intent, steps: map[string]row{charge: step("started", nil)}, want: unknown()},
		{section: "5", name: "effects idempotent, key, inside the window", route: "idem", facts: with(timeout, row{"idem": "k-1"}), want: decided{"unknown", "unknown", "retry", "classified", "retryable", true}},
		{section: "5", name: "effects idempotent without a key", route: "idem", facts: timeout, want: unknown()},
		{section: "5", name: "effects idempotent, outside the window", route: "idem", facts: with(timeout, row{"idem": "k-2"}), old: true, want: unknown()},
		{
			section: "5", name: "effects idempotent, confirmed: repeating is safe", route: "idem", facts: with(timeout, row{"idem": "k-3"}), header: intent, steps: map[string]row{charge: receipt},
			want: decided{"confirmed", "confirmed", "retry", "classified", "retryable", true},
		},
		// Section 5, a worker's word.
		{section: "5", name: "a trusted worker about its only run", route: "trust", facts: with(timeout, row{"effect": "none_confirmed", "run": "run-1", "n": 1}), worker: true, want: retry},
		{section: "5", name: "a trusted worker, but other runs may have been", route: "trust", facts: with(timeout, row{"effect": "none_confirmed", "run": "run-3", "n": 3}), worker: true, want: unknown()},
		{section: "5", name: "a worker's word on a letter that the broker moved", route: "trust", facts: with(timeout, row{"effect": "none_confirmed", "run": "run-1", "n": 1}), want: unknown()},
		{section: "5", name: "a worker's word on a route that trusts none", route: "silent", facts: with(timeout, row{"effect": "none_confirmed", "run": "run-1", "n": 1}), worker: true, want: unknown()},
		// Section 7, in its order.
		{
			section: "7.0", name: "a store shows that the task completed", route: "ledger", facts: timeout, header: with(intent, row{"status": "completed"}), steps: map[string]row{charge: receipt},
			want: decided{"confirmed", "confirmed", "none", "completed", "task_completed", false},
		},
		{section: "7.1", name: "critical", route: "ledger", facts: cause("critical"), header: intent, want: decided{"none_confirmed", "none_confirmed", "human_review", "incident_open", "critical", false}},
		{section: "7.2", name: "unknown beats expired", route: "ledger", facts: with(timeout, row{"vu": now.Add(-time.Hour).Format(time.RFC3339)}), want: unknown()},
		{section: "7.3", name: "confirmed beats expired", route: "ledger", facts: with(timeout, row{"vu": now.Add(-time.Hour).Format(time.RFC3339)}), header: intent, steps: map[string]row{charge: receipt}, want: undo},
		{
			section: "7.4", name: "past valid_until", route: "ledger", facts: with(timeout, row{"vu": now.Add(-time.Hour).Format(time.RFC3339)}), header: intent,
			want: decided{"none_confirmed", "none_confirmed", "reject", "awaiting_operational_decision", "expired", false},
		},
		{
			section: "7.5", name: "checkpoint on a route with a resume contract", route: "resume", facts: timeout, header: covered, steps: map[string]row{charge: receipt},
			want: decided{"confirmed", "none_confirmed", "resume", "classified", "checkpoint", false},
		},
		{section: "7.5", name: "a checkpoint does not cover what came after it", route: "resume", facts: timeout, header: covered, steps: map[string]row{charge: receipt, "step#0004#mail": step("started", row{"step_id": "0004#mail"})}, want: unknown()},
		{
			section: "7.6", name: "covered, but no resume possible", route: "ledger", facts: timeout, header: covered, steps: map[string]row{charge: receipt},
			want: decided{"confirmed", "none_confirmed", "human_review", "under_investigation", "covered_effect_without_resume", false},
		},
		{section: "7.7", name: "retryable", route: "ledger", facts: timeout, header: intent, want: retry},
		{
			section: "7.8", name: "retryable, but the budget is used up", route: "ledger", facts: cause("dependency_unavailable"), header: intent,
			want: decided{"none_confirmed", "none_confirmed", "repair", "classified", "fixable", false},
		},
		{section: "7.8", name: "permission", route: "ledger", facts: cause("permission"), header: intent, want: decided{"none_confirmed", "none_confirmed", "repair", "awaiting_technical_owner", "fixable", false}},
		{section: "7.8", name: "invalid input", route: "ledger", facts: cause("invalid_input"), header: intent, want: decided{"none_confirmed", "none_confirmed", "repair", "awaiting_input_correction", "fixable", false}},
		{section: "7.8", name: "output contract", route: "ledger", facts: cause("output_contract"), header: intent, want: decided{"none_confirmed", "none_confirmed", "repair", "awaiting_technical_owner", "fixable", false}},
		{section: "7.8", name: "policy limit", route: "ledger", facts: cause("policy_limit"), header: intent, want: decided{"none_confirmed", "none_confirmed", "repair", "awaiting_operational_decision", "fixable", false}},
		{
			section: "7.8", name: "not none_confirmed, but repeating is safe and nothing patched", route: "idem", facts: with(cause("permission"), row{"idem": "k-4"}),
			want: decided{"unknown", "unknown", "repair", "awaiting_technical_owner", "fixable", true},
		},
		{section: "7.9", name: "unclassified", route: "ledger", facts: row{"type": "bill"}, header: intent, want: decided{"none_confirmed", "none_confirmed", "human_review", "under_investigation", "unclassified", false}},
		{section: "7.10", name: "business rule", route: "ledger", facts: cause("business_rule"), header: intent, want: decided{"none_confirmed", "none_confirmed", "reject", "awaiting_operational_decision", "nobody_can_fix", false}},
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
				t.Errorf("section %s, %s:\n got %+v\nwant %+v", c.section, c.name, got, c.want)
			}
		}
	})
}
