package ledger_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

func (w *world) do(r *ledger.Run, id string, c *card) error {
	w.t.Helper()
	_, err := r.Step(w.t.Context(), ledger.StepSpec{ID: id, Tool: id, Input: id}, c.call)
	return err
}

func TestResumeFromACheckpoint(t *testing.T) {
	w := newWorld(t)
	k := w.kit()
	a := w.begin(k, ledger.Task{ID: "t1", Versions: dlqbridge.Versions{Workflow: "w3"}})
	if a.Resume() != nil {
		t.Error("a new task has a checkpoint")
	}
	if err := errors.Join(w.do(a, "0001#a", &card{}), w.do(a, "0002#b", &card{}), a.Checkpoint(t.Context(), "s3://2", "0002#b")); err != nil {
		t.Fatal(err)
	}
	a.Close(t.Context())

	b := w.begin(k, ledger.Task{ID: "t1"})
	from := b.Resume()
	if from == nil || from.Ref != "s3://2" || from.Step != "0002#b" || from.Run != a.ID() || from.WorkflowVersion != "w3" {
		t.Fatalf("resume: %+v", from)
	}
	if err := errors.Join(w.do(b, "0003#c", &card{}), b.Checkpoint(t.Context(), "s3://3", "0003#c")); err != nil {
		t.Fatal(err)
	}
	b.Close(t.Context())
	got := w.ask("t1")
	if !slices.Contains(got.Checkpoint.Lineage, a.ID()) || !slices.Contains(got.Checkpoint.Lineage, b.ID()) {
		t.Errorf("lineage %v, want %s and %s", got.Checkpoint.Lineage, a.ID(), b.ID())
	}
	if f := w.fold("t1"); f.State != dlqbridge.EffectConfirmed || f.Uncovered != dlqbridge.EffectNone {
		t.Errorf("fold: %+v", f)
	}
}

func TestALineageNeverCoversADoubt(t *testing.T) {
	w := newWorld(t)
	k := w.kit()
	a := w.begin(k, ledger.Task{ID: "t1"})
	if err := w.do(a, "0001#a", &card{}); err != nil {
		t.Fatal(err)
	}
	if err := w.do(a, "0002#b", failing(errors.New("cut"))); !errors.Is(err, ledger.ErrAmbiguous) {
		t.Fatal(err)
	}
	a.Close(t.Context())
	// The next run goes another way, around the step in doubt.
	b := w.begin(k, ledger.Task{ID: "t1"})
	if err := errors.Join(w.do(b, "0001#a", &card{}), w.do(b, "0003#c", &card{}), b.Checkpoint(t.Context(), "s3://3", "0003#c")); err != nil {
		t.Fatal(err)
	}
	b.Close(t.Context())
	if f := w.fold("t1"); f.Uncovered != dlqbridge.EffectUnknown {
		t.Errorf("fold: %+v; the checkpoint hides run a's doubt", f)
	}
}

func TestAResumeFromElsewhere(t *testing.T) {
	w := newWorld(t)
	m := mark("r_a", 1)
	m.From = "thread-7/checkpoint-3"
	if c := w.begin(w.kit(), ledger.Task{ID: "t1", MessageID: "m", Redrive: m}).Resume(); c == nil || c.Ref != m.From {
		t.Errorf("resume: %+v", c)
	}
}

// The mark's checkpoint was decided on; the ledger's goes before it only where
// a run of this very message has written it.
func TestAResumeGoesOnFromItsMark(t *testing.T) {
	w := newWorld(t)
	first := w.begin(w.kit(), ledger.Task{ID: "t1", MessageID: "m0"})
	if err := errors.Join(w.do(first, "0001#a", &card{}), first.Checkpoint(t.Context(), "s3://1", "0001#a")); err != nil {
		t.Fatal(err)
	}
	first.Close(t.Context())
	resumed := func(n int, message, from string) *ledger.Run {
		m := mark("r_a", n)
		m.Action, m.From = dlqbridge.ActionResume, from
		return w.begin(w.kit(), ledger.Task{ID: "t1", MessageID: message, Redrive: m})
	}
	known := resumed(1, "m1", "s3://1")
	if c := known.Resume(); c == nil || c.Step != "0001#a" {
		t.Errorf("the ledger knows it: %+v", c)
	}
	known.Close(t.Context())
	other := resumed(2, "m2", "thread-7/2")
	if c := other.Resume(); c == nil || c.Ref != "thread-7/2" || c.Step != "" {
		t.Errorf("the ledger has another: %+v", c)
	}
	if err := errors.Join(w.do(other, "0002#b", &card{}), other.Checkpoint(t.Context(), "thread-7/3", "0002#b")); err != nil {
		t.Fatal(err)
	}
	other.Close(t.Context())
	again := resumed(2, "m2", "thread-7/2") // the broker delivers it once more
	if c := again.Resume(); c == nil || c.Ref != "thread-7/3" {
		t.Errorf("its own progress is lost: %+v", c)
	}
	again.Close(t.Context())
	next := resumed(3, "m3", "thread-7/2")
	if c := next.Resume(); c == nil || c.Ref != "thread-7/2" {
		t.Errorf("another send's checkpoint goes before the mark's: %+v", c)
	}
	next.Close(t.Context())
}

func TestPlan(t *testing.T) {
	w := newWorld(t)
	k := w.kit()
	r := w.begin(k, ledger.Task{ID: "t1"})
	plan := []ledger.PlannedStep{{ID: "0001#a", Tool: "x"}, {ID: "0002#b"}}
	if err := r.Plan(t.Context(), plan...); err != nil {
		t.Fatal(err)
	}
	if f := w.fold("t1"); f.State != dlqbridge.EffectNone {
		t.Errorf("fold: %+v", f)
	}
	if err := w.do(r, "0001#a", &card{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Plan(t.Context(), plan...); err != nil {
		t.Fatal(err)
	}
	if got := text(w.row("t1", "step#0001#a")["status"]); got != "succeeded" {
		t.Errorf("a plan overwrote a step: %s", got)
	}
}

func TestFacts(t *testing.T) {
	w := newWorld(t)
	task := ledger.Task{ID: "t1", Type: "order", Tenant: "acme", IdempotencyKey: "o-1", Deadline: w.clock.Now(), MaxAttempts: 3}
	produced, err := task.Facts().Context()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(produced), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"v": 1.0, "task": "t1", "type": "order", "tenant": "acme", "idem": "o-1", "max": 3.0, "dl": dlqbridge.FormatTime(w.clock.Now()),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	r := w.begin(w.kit(), task)
	err = w.do(r, "0001#a", failing(ledger.WithCause(errors.New(strings.Repeat("é", 2000)), dlqbridge.CauseTimeout, "E1")))
	flat := r.Facts(ledger.FailureOf(err)).Attributes()
	for name, value := range map[string]string{
		"agent.v": "1", "agent.task.id": "t1", "agent.run.id": r.ID(), "agent.effect": "unknown", "agent.cause": "ambiguous_effect",
		"agent.error.code": "E1", "agent.step": "0001#a", "agent.attempt": "1", "agent.attempt.max": "3",
	} {
		if flat[name] != value {
			t.Errorf("%s = %q, want %q", name, flat[name], value)
		}
	}
	if n := len(flat["agent.error.message"]); n == 0 || n > 1024 {
		t.Errorf("the message has %d bytes", n)
	}
	if _, there := flat["agent.dependency"]; there {
		t.Error("an empty fact has an attribute")
	}
}

func TestParseMark(t *testing.T) {
	id := dlqbridge.RecordID(dlqbridge.IdentityTask, "s", "", "t", 0)
	want := &dlqbridge.Mark{Record: id, Job: "j", N: 2, Action: "resume", Idem: "k", From: "c"}
	got, err := ledger.ParseMark(`{"rec":"` + id + `","job":"j","n":2,"act":"resume","idem":"k","from":"c"}`)
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ledger.ParseMark(""); got != nil || err != nil {
		t.Errorf("no mark: %+v, %v", got, err)
	}
	if got, err := ledger.ParseMark(`{"rec":"r","n":1}`); got != nil || !errors.Is(err, dlqbridge.ErrInvalid) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestInputHash(t *testing.T) {
	same := []any{
		map[string]any{"a": 1, "b": []any{"x", 2.50, nil}, "c": "<é>"},
		json.RawMessage(`{"c":"<\u00e9>", "b":["x",2.5,null],"a":1.0}`),
	}
	var first string
	for _, input := range same {
		got, err := ledger.InputHash(input)
		if err != nil || len(got) != 64 || first != "" && got != first {
			t.Errorf("%v: %s, %v", input, got, err)
		}
		first = got
	}
	for _, bad := range []any{int64(9007199254740993), json.RawMessage(`{"id":123456789012345678901234567890}`), make(chan int)} {
		if got, err := ledger.InputHash(bad); err == nil {
			t.Errorf("%v: %s; another input has the same hash", bad, got)
		}
	}
	if a, err := ledger.InputHash(int64(9007199254740992)); err != nil || a == "" {
		t.Errorf("2**53: %v", err)
	}
	if _, err := ledger.InputHash(0); err != nil {
		t.Error(err)
	}
}

func TestCosts(t *testing.T) {
	w := newWorld(t)
	w.put("t1", "task", map[string]any{"cost_usd": "0.1", "status": "failed", "run_id": "r"})
	r := w.begin(w.kit(), ledger.Task{ID: "t1"})
	for _, bad := range []string{"", "-1", "1e9", "NaN", "1/3", "0x1", "1_0", strings.Repeat("1", 30)} {
		if r.AddCost(bad) == nil {
			t.Errorf("%q was added", bad)
		}
	}
	for range 3 {
		if err := r.AddCost("0.1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.ask("t1").Task.CostUSD; got != "0.4" {
		t.Errorf("cost %s", got)
	}
}
