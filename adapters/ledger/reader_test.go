package ledger_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

type row struct {
	entry  string
	fields map[string]any
}

func header(fields map[string]any) row {
	all := map[string]any{"status": "failed", "run_id": "r1", "intent_before_call": true}
	maps.Copy(all, fields)
	return row{"task", all}
}

func step(fields map[string]any) row {
	all := map[string]any{"run_id": "r1", "step_id": "0003#charge"}
	maps.Copy(all, fields)
	return row{"step#0003#charge", all}
}

// Every rule about the ledger: rows in, state out.
// A lease that nobody can read leaves the task in doubt, whatever the rest
// proves or the team declares: a run may be going.
func TestAnUnreadableLeaseIsADoubt(t *testing.T) {
	w := newWorld(t)
	declared := dlqbridge.Finding{Store: "route", Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofDeclared}
	for name, lease := range map[string]any{"text": "soon", "no zone": "2099-01-01 00:00:00", "epoch": number("4070908800"), "flag": true} {
		w.put(name, "task", map[string]any{"status": "running", "intent_before_call": true, "lease_until": lease, "updated_at": w.clock.Now().Add(-time.Hour)})
		got := dlqbridge.Fold(dlqbridge.FoldInput{Findings: append(w.ask(name).Findings, declared)})
		if got.State != dlqbridge.EffectUnknown {
			t.Errorf("%s: %s", name, got.State)
		}
		looked := dlqbridge.Finding{Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator, AsOf: w.clock.Now()}
		if got := dlqbridge.Fold(dlqbridge.FoldInput{Findings: append(w.ask(name).Findings, looked)}); got.State != dlqbridge.EffectNone {
			t.Errorf("%s, after a person has looked: %s", name, got.State)
		}
	}
	w.put("over", "task", map[string]any{"status": "failed", "intent_before_call": true, "lease_until": "soon"})
	if got := w.fold("over"); got.State != dlqbridge.EffectNone {
		t.Errorf("a run that is over: %s", got.State)
	}
}

func TestWhatRowsProve(t *testing.T) {
	const (
		none, confirmed, unknown = dlqbridge.EffectNone, dlqbridge.EffectConfirmed, dlqbridge.EffectUnknown
	)
	silent := header(map[string]any{"intent_before_call": false})
	for _, tc := range []struct {
		name string
		rows []row
		want dlqbridge.Effect
	}{
		{"silence", nil, unknown},
		{"header with intents, no row", []row{header(nil)}, none},
		{"header without intents, no row", []row{silent}, unknown},
		{"the promise as a text is none", []row{header(map[string]any{"intent_before_call": "true"})}, unknown},
		{"the promise as a number is none", []row{header(map[string]any{"intent_before_call": number("1")})}, unknown},
		{"planned", []row{header(nil), step(map[string]any{"status": "planned"})}, none},
		{"planned, without intents", []row{silent, step(map[string]any{"status": "planned"})}, unknown},
		{"started", []row{header(nil), step(map[string]any{"status": "started"})}, unknown},
		{"ambiguous", []row{header(nil), step(map[string]any{"status": "ambiguous"})}, unknown},
		{"succeeded without receipt", []row{header(nil), step(map[string]any{"status": "succeeded"})}, unknown},
		{"succeeded with an empty receipt", []row{header(nil), step(map[string]any{"status": "succeeded", "receipt": ""})}, unknown},
		{"succeeded with a null receipt", []row{header(nil), step(map[string]any{"status": "succeeded", "receipt": nil})}, unknown},
		{"succeeded with true as receipt", []row{header(nil), step(map[string]any{"status": "succeeded", "receipt": true})}, unknown},
		{"succeeded with receipt", []row{header(nil), step(map[string]any{"status": "succeeded", "receipt": "ch_1"})}, confirmed},
		{"receipt as a map", []row{header(nil), step(map[string]any{"status": "succeeded", "receipt": map[string]any{"id": "ch_1"}})}, confirmed},
		{"receipt as a number", []row{header(nil), step(map[string]any{"status": "succeeded", "receipt": number("77")})}, confirmed},
		{"a receipt, whatever the status", []row{header(nil), step(map[string]any{"status": "failed_permanent", "receipt": "ch_1", "effect": "none"})}, confirmed},
		{"already exists", []row{header(nil), step(map[string]any{"status": "already_exists"})}, confirmed},
		{"failed transiently", []row{header(nil), step(map[string]any{"status": "failed_transient"})}, unknown},
		{"failed permanently", []row{header(nil), step(map[string]any{"status": "failed_permanent"})}, unknown},
		{"failed transiently, nothing changed", []row{header(nil), step(map[string]any{"status": "failed_transient", "effect": "none"})}, none},
		{"failed permanently, nothing changed", []row{header(nil), step(map[string]any{"status": "failed_permanent", "effect": "none"})}, none},
		{"nothing changed, without intents", []row{silent, step(map[string]any{"status": "failed_permanent", "effect": "none"})}, unknown},
		{"started and effect none is a contradiction", []row{header(nil), step(map[string]any{"status": "started", "effect": "none"})}, unknown},
		{"effect of a wrong type", []row{header(nil), step(map[string]any{"status": "failed_permanent", "effect": false})}, unknown},
		{"a status nobody knows", []row{header(nil), step(map[string]any{"status": "in_flight"})}, unknown},
		{"no status", []row{header(nil), step(nil)}, unknown},
		{"a status of a wrong type", []row{header(nil), step(map[string]any{"status": true, "effect_class": "none"})}, unknown},
		{"started, free of effects", []row{header(nil), step(map[string]any{"status": "started", "effect_class": "none"})}, none},
		{"started, idempotent", []row{header(nil), step(map[string]any{"status": "started", "effect_class": "idempotent"})}, unknown},
		{"started, a class nobody knows", []row{header(nil), step(map[string]any{"status": "started", "effect_class": "harmless"})}, unknown},
		{"receipt without header", []row{step(map[string]any{"status": "succeeded", "receipt": "ch_1"})}, unknown},
		{"a row whose key nobody knows", []row{header(nil), {"steps#0003", map[string]any{"status": "planned"}}}, unknown},
		{"runs apart: one in doubt", []row{
			header(nil),
			{"run#a#0003#charge", map[string]any{"status": "started"}},
			{"run#b#0003#charge", map[string]any{"status": "failed_permanent", "effect": "none"}},
		}, unknown},
		{"runs apart: one confirmed, one never began", []row{
			header(nil), {"run#a#0003#charge", map[string]any{"status": "succeeded", "receipt": "ch_1"}}, {"run#b#0003#charge", map[string]any{"status": "planned"}},
		}, confirmed},
		{"one step confirmed, another in doubt", []row{
			header(nil), step(map[string]any{"status": "succeeded", "receipt": "ch_1"}), {"step#0004#mail", map[string]any{"status": "started"}},
		}, unknown},
		{"running without any time", []row{header(map[string]any{"status": "running"})}, unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			for _, r := range tc.rows {
				w.put("t1", r.entry, r.fields)
			}
			if f := w.fold("t1"); f.State != tc.want {
				t.Errorf("fold: %s, want %s; findings %+v", f.State, tc.want, w.ask("t1").Findings)
			}
		})
	}
}

func TestWhenFindingsSpeak(t *testing.T) {
	w := newWorld(t)
	now := w.clock.Now().Truncate(time.Second)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	for _, tc := range []struct {
		name   string
		header map[string]any
		step   map[string]any
		want   time.Time
	}{
		{"ended", nil, map[string]any{"status": "ambiguous", "started_at": ago(9), "ended_at": ago(8)}, ago(8)},
		{"begun, its run gave signs later", map[string]any{"updated_at": ago(5)}, map[string]any{"status": "started", "started_at": ago(9)}, ago(5)},
		{"begun by an earlier run", map[string]any{"updated_at": ago(5)}, map[string]any{"status": "started", "started_at": ago(9), "run_id": "r0"}, ago(9)},
		{"no time of its own", map[string]any{"updated_at": ago(5)}, map[string]any{"status": "started", "run_id": "r0"}, ago(5)},
		{"a malformed time is none", map[string]any{"updated_at": ago(5)}, map[string]any{"status": "ambiguous", "started_at": "yesterday", "ended_at": number("12")}, ago(5)},
		{"a time far in the future is none", nil, map[string]any{"status": "ambiguous", "started_at": ago(9), "ended_at": now.Add(time.Hour)}, ago(9)},
		{"nothing changed", nil, map[string]any{"status": "failed_permanent", "effect": "none", "ended_at": ago(8)}, ago(8)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.put(tc.name, "task", header(tc.header).fields)
			w.put(tc.name, "step#0003#charge", step(tc.step).fields)
			f := w.ask(tc.name).Findings[0]
			if !f.AsOf.Equal(tc.want) {
				t.Errorf("as of %s, want %s", f.AsOf, tc.want)
			}
		})
	}
}

// A row that was begun after an operator had looked is not settled by that look.
func TestAnEarlierLookDoesNotEndADoubt(t *testing.T) {
	w := newWorld(t)
	now := w.clock.Now()
	w.put("t1", "task", header(nil).fields)
	w.put("t1", "step#0003#charge", step(map[string]any{"status": "started", "started_at": now.Add(-time.Minute)}).fields)
	look := dlqbridge.Finding{Store: "operator", Step: "0003#charge", State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator}
	for ago, want := range map[time.Duration]dlqbridge.Effect{2 * time.Minute: dlqbridge.EffectUnknown, time.Second: dlqbridge.EffectNone} {
		look.AsOf = now.Add(-ago)
		in := dlqbridge.FoldInput{Findings: append(w.ask("t1").Findings, look), LastSend: now.Add(-time.Hour)}
		if got := dlqbridge.Fold(in).State; got != want {
			t.Errorf("looked %s ago: %s, want %s", ago, got, want)
		}
	}
}

func TestWholeTestimony(t *testing.T) {
	w := newWorld(t)
	now := w.clock.Now().Truncate(time.Second)
	yes := true
	w.put("pre/t1", "task", map[string]any{
		"status": "failed", "run_id": "r2", "redrive_n": "2", "intent_before_call": true, "task_type": "order", "tenant": "acme",
		"idempotency_key": "o-1", "agent_version": "1.4", "model_version": "m", "prompt_version": "p", "workflow_version": "w3", "policy_version": "9",
		"deadline": now, "valid_until": "soon", "cost_usd": number("0.42"), "origin_event": "evt", "expected_result": "paid", "trace_id": "abc",
		"updated_at": now.Add(-time.Minute), "later_field": []string{"x"},
		"last_error": map[string]any{
			"class": "PaymentDown", "code": "E503", "message": "no", "step": "0003#charge", "tool": "charge_card",
			"dependency": "payments", "retryable": true, "phase": "during_call",
		},
		"checkpoint": map[string]any{
			"ref": "s3://c", "step_id": "0002#v", "run_id": "r2", "workflow_version": "w3", "at": now.Add(-time.Hour), "lineage": []string{"r1", "r2"},
		},
	})
	w.put("pre/t1", "run#r1#0001#a", map[string]any{
		"status": "succeeded", "receipt": strings.Repeat("x", 5000), "tool": "a", "started_at": now.Add(-2 * time.Hour), "output_ref": "s3://o", "input_ref": "s3://i",
	})
	r := w.reader(func(o *ledger.ReaderOptions) {
		o.Routes = map[string]ledger.RouteOptions{"orders": {Prefix: "pre/"}}
	})
	got := r.Ask(t.Context(), []dlqbridge.Question{{Route: "orders", TaskID: "t1", Now: now}, {Route: "other", TaskID: "t1", Now: now}, {Route: "orders", Now: now}})
	receipt := strings.Repeat("x", 2048)
	want := dlqbridge.Testimony{
		Store: "ledger",
		Findings: []dlqbridge.Finding{
			{Store: "ledger", Step: "0001#a", Run: "r1", State: "confirmed", Proof: "receipt", AsOf: now.Add(-2 * time.Hour), Receipt: &receipt, Detail: "succeeded"},
			{Store: "ledger", Step: "*", State: "none_confirmed", Proof: "not_started", AsOf: now, Detail: "no other step was begun"},
		},
		Task: &dlqbridge.Task{
			TaskID: "t1", RunID: "r2", TaskType: "order", Tenant: "acme", IdempotencyKey: "o-1", Deadline: now, CostUSD: "0.42",
			Versions:    dlqbridge.Versions{Agent: "1.4", Model: "m", Prompt: "p", Workflow: "w3", Policy: "9"},
			OriginEvent: "evt", ExpectedResult: "paid", Tools: []string{"a"},
		},
		Failure: &dlqbridge.Failure{
			Phase: "during_call", Step: "0003#charge", Tool: "charge_card", Dependency: "payments", Code: "E503", Message: "PaymentDown: no",
			Retryable: &yes, Attempts: []dlqbridge.Attempt{{Run: "r2", At: now.Add(-time.Minute), Code: "E503"}},
		},
		Checkpoint:   &dlqbridge.Checkpoint{Ref: "s3://c", Step: "0002#v", Run: "r2", At: now.Add(-time.Hour), WorkflowVersion: "w3", Lineage: []string{"r1", "r2"}},
		FirstAttempt: now.Add(-2 * time.Hour), SeenRedriveN: 2, SeenRun: "r2", Runs: 2, TraceID: "abc",
		Artifacts: []dlqbridge.Artifact{{Kind: "input", Ref: "s3://i"}, {Kind: "output", Ref: "s3://o"}},
	}
	if d := cmp.Diff(want, got[0]); d != "" {
		t.Error(d)
	}
	for i, a := range got[1:] {
		if len(a.Findings) != 1 || a.Findings[0].State != "unknown" || a.Findings[0].Proof != "nothing_found" || a.Task != nil {
			t.Errorf("question %d: %+v", i+1, a)
		}
	}
}

func TestRunningUntil(t *testing.T) {
	w := newWorld(t)
	now := w.clock.Now().Truncate(time.Second)
	for _, tc := range []struct {
		name   string
		fields map[string]any
		want   time.Time
	}{
		{"lease", map[string]any{"status": "running", "lease_until": now.Add(time.Minute), "updated_at": now}, now.Add(time.Minute)},
		{"lease over", map[string]any{"status": "running", "lease_until": now.Add(-time.Minute)}, now.Add(-time.Minute)},
		{"no lease", map[string]any{"status": "running", "updated_at": now.Add(-time.Minute)}, now.Add(14 * time.Minute)},
		{"malformed lease", map[string]any{"status": "running", "lease_until": "later", "updated_at": now}, now.Add(15 * time.Minute)},
		{"a status nobody knows", map[string]any{"status": "working", "updated_at": now}, now.Add(15 * time.Minute)},
		{"failed", map[string]any{"status": "failed", "lease_until": now.Add(time.Minute), "updated_at": now}, time.Time{}},
		{"completed", map[string]any{"status": "completed", "updated_at": now}, time.Time{}},
	} {
		w.put(tc.name, "task", tc.fields)
		if got := w.ask(tc.name).RunningUntil; !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestAllPagesAreRead(t *testing.T) {
	w := newWorld(t)
	w.put("t1", "task", header(nil).fields)
	big := strings.Repeat("x", 300_000)
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		w.put("t1", "step#000"+id, map[string]any{"status": "succeeded", "receipt": "r", "note": big})
	}
	w.put("t1", "step#0009", map[string]any{"status": "started"})
	if f := w.fold("t1"); f.State != dlqbridge.EffectUnknown {
		t.Errorf("fold %+v: the last page was not read", f)
	}
}

type querier func(context.Context) (*dynamodb.QueryOutput, error)

func (q querier) Query(ctx context.Context, _ *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return q(ctx)
}

func refusing(code string) querier {
	return func(context.Context) (*dynamodb.QueryOutput, error) {
		return nil, &smithy.GenericAPIError{Code: code, Message: code}
	}
}

func TestAStoreThatCannotBeAskedSaysSo(t *testing.T) {
	for _, tc := range []struct {
		name string
		q    querier
		want string
	}{
		{"throttled", refusing("ThrottlingException"), "throttled"},
		{"denied", refusing("AccessDeniedException"), "denied: needs dynamodb:Query on table agent-ledger"},
		{"no table", refusing("ResourceNotFoundException"), "table agent-ledger does not exist"},
		{"wrong keys", refusing("ValidationException"), "table agent-ledger does not take the query: are its keys task_id and entry, both strings?"},
		{"unreachable", func(context.Context) (*dynamodb.QueryOutput, error) { return nil, errors.New("cut") }, "cannot be reached"},
		{"hangs", func(ctx context.Context) (*dynamodb.QueryOutput, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "no answer within 1m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := ledger.NewReader(ledger.ReaderOptions{Client: tc.q, Table: tableName, Timeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				got := r.Ask(t.Context(), []dlqbridge.Question{{TaskID: "t1", Now: time.Now()}})
				if want := (dlqbridge.Testimony{Store: "ledger", Unavailable: tc.want}); !cmp.Equal(want, got[0]) {
					t.Error(cmp.Diff(want, got[0]))
				}
			})
		})
	}
}
