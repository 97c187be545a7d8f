package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

var charge = ledger.StepSpec{ID: "0003#charge", Tool: "charge_card", Dependency: "payments", Input: map[string]any{"cents": 4200}}

// card counts its calls and answers as it is told.
type card struct {
	calls  atomic.Int32
	answer func(n int32, c ledger.Call) (ledger.Result, error)
}

func (c *card) call(_ context.Context, call ledger.Call) (ledger.Result, error) {
	n := c.calls.Add(1)
	if c.answer != nil {
		return c.answer(n, call)
	}
	return ledger.Result{Receipt: "ch_1"}, nil
}

func failing(err error) *card {
	return &card{answer: func(int32, ledger.Call) (ledger.Result, error) { return ledger.Result{}, err }}
}

func TestRunToCompletion(t *testing.T) {
	w := newWorld(t)
	k := w.kit()
	r := w.begin(k, ledger.Task{ID: "t1", Type: "order", Tenant: "acme", IdempotencyKey: "o-1"})
	if got := w.ask("t1").RunningUntil; !got.Equal(w.clock.Now().Add(ledger.DefaultLease)) {
		t.Errorf("running until %s while the lease stands", got)
	}
	c := &card{}
	got, err := r.Step(t.Context(), charge, c.call)
	if err != nil || got.Receipt != "ch_1" || got.Reused {
		t.Fatalf("step: %+v, %v", got, err)
	}
	if err := r.AddCost("0.1"); err != nil {
		t.Fatal(err)
	}
	if err := r.AddCost("0.2"); err != nil {
		t.Fatal(err)
	}
	if err := r.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := w.ask("t1")
	if a.Completed == nil || a.Completed.Run != r.ID() || !a.RunningUntil.IsZero() {
		t.Errorf("testimony of a completed task: %+v", a)
	}
	if a.Task.CostUSD != "0.3" || a.Task.Tenant != "acme" || a.Runs != 1 {
		t.Errorf("task: %+v, runs %d", a.Task, a.Runs)
	}
	if f := w.fold("t1"); f.State != dlqbridge.EffectConfirmed {
		t.Errorf("fold: %+v", f)
	}
	if _, err := k.Begin(t.Context(), ledger.Task{ID: "t1"}); !errors.Is(err, ledger.ErrCompleted) || !ledger.Acknowledge(err) {
		t.Errorf("begin of a completed task: %v", err)
	}
}

func TestReceiptsAreReused(t *testing.T) {
	w := newWorld(t)
	k := w.kit()
	c := &card{}
	r := w.begin(k, ledger.Task{ID: "t1"})
	if _, err := r.Step(t.Context(), charge, c.call); err != nil {
		t.Fatal(err)
	}
	r.Close(t.Context())
	r = w.begin(k, ledger.Task{ID: "t1"})
	got, err := r.Step(t.Context(), charge, c.call)
	if err != nil || got.Receipt != "ch_1" || !got.Reused || c.calls.Load() != 1 {
		t.Errorf("again: %+v, %v, %d calls", got, err, c.calls.Load())
	}
	other := charge
	other.Input = map[string]any{"cents": 9900}
	if _, err := r.Step(t.Context(), other, c.call); !errors.Is(err, ledger.ErrInputMismatch) || c.calls.Load() != 1 {
		t.Errorf("another input: %v, %d calls", err, c.calls.Load())
	}
	sameKey := ledger.StepSpec{ID: "0004#charge", Tool: "charge_card", Input: 1, IdempotencyKey: "t1:0003#charge"}
	if _, err := r.Step(t.Context(), sameKey, c.call); !errors.Is(err, ledger.ErrInputMismatch) {
		t.Errorf("the key with another input: %v", err)
	}
}

func TestWhatMayBeCalledAgain(t *testing.T) {
	down := errors.New("connection refused")
	for _, tc := range []struct {
		name  string
		class ledger.EffectClass
		err   error
		// within one run, and by the next run
		calls, more int32
		effect      dlqbridge.Effect // after the first run
	}{
		{"mutating, transient", ledger.EffectMutating, ledger.Transient(down), 1, 0, dlqbridge.EffectUnknown},
		{"mutating, transient, nothing changed", ledger.EffectMutating, ledger.NothingChanged(ledger.Transient(down)), 4, 1, dlqbridge.EffectNone},
		{"mutating, permanent", ledger.EffectMutating, ledger.Permanent(down), 1, 0, dlqbridge.EffectUnknown},
		{"mutating, permanent, nothing changed", ledger.EffectMutating, ledger.Permanent(ledger.NothingChanged(down)), 1, 1, dlqbridge.EffectNone},
		{"mutating, nothing changed", ledger.EffectMutating, ledger.NothingChanged(down), 1, 1, dlqbridge.EffectNone},
		{"mutating, unmarked", ledger.EffectMutating, down, 1, 0, dlqbridge.EffectUnknown},
		{"idempotent, transient", ledger.EffectIdempotent, ledger.Transient(down), 4, 1, dlqbridge.EffectUnknown},
		{"idempotent, permanent", ledger.EffectIdempotent, ledger.Permanent(down), 1, 1, dlqbridge.EffectUnknown},
		{"idempotent, unmarked", ledger.EffectIdempotent, down, 1, 1, dlqbridge.EffectUnknown},
		{"free, transient", ledger.EffectFree, ledger.Transient(down), 4, 1, dlqbridge.EffectNone},
		{"free, unmarked", ledger.EffectFree, down, 1, 1, dlqbridge.EffectNone},
		{"both marks: permanent wins", ledger.EffectFree, ledger.Permanent(ledger.Transient(down)), 1, 1, dlqbridge.EffectNone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			k := w.kit(func(o *ledger.Options) { o.Backoff = ledger.Backoff{Tries: 4, Base: 1, Max: 1} })
			spec := charge
			spec.Class = tc.class
			c := failing(tc.err)
			r := w.begin(k, ledger.Task{ID: "t1"})
			_, err := r.Step(t.Context(), spec, c.call)
			if !errors.Is(err, down) || c.calls.Load() != tc.calls {
				t.Fatalf("step: %v after %d calls, want %d", err, c.calls.Load(), tc.calls)
			}
			step, _ := errors.AsType[*ledger.StepError](err)
			if step == nil || step.Effect != tc.effect {
				t.Errorf("step error: %+v, want effect %s", step, tc.effect)
			}
			if err := r.Fail(t.Context(), ledger.FailureOf(err)); err != nil {
				t.Fatal(err)
			}
			if f := w.fold("t1"); f.State != tc.effect {
				t.Errorf("fold: %+v, want %s", f, tc.effect)
			}
			r = w.begin(k, ledger.Task{ID: "t1"})
			good := &card{}
			_, err = r.Step(t.Context(), spec, good.call)
			if good.calls.Load() != tc.more {
				t.Errorf("the next run called %d times, want %d", good.calls.Load(), tc.more)
			}
			if tc.more == 0 && !errors.Is(err, ledger.ErrAmbiguous) || tc.more == 1 && err != nil {
				t.Errorf("the next run: %v", err)
			}
			if tc.more == 0 {
				if err := r.Complete(t.Context()); !errors.Is(err, ledger.ErrAmbiguous) {
					t.Errorf("complete with a step in doubt: %v", err)
				}
			}
		})
	}
}

func TestALaterCallNeverClearsAnEarlierDoubt(t *testing.T) {
	w := newWorld(t)
	k := w.kit(func(o *ledger.Options) { o.Backoff = ledger.Backoff{Tries: 3, Base: 1, Max: 1} })
	spec := charge
	spec.Class = ledger.EffectIdempotent
	c := &card{answer: func(n int32, _ ledger.Call) (ledger.Result, error) {
		if n == 1 {
			return ledger.Result{}, ledger.Transient(errors.New("timeout"))
		}
		return ledger.Result{}, ledger.NothingChanged(ledger.Transient(errors.New("refused")))
	}}
	r := w.begin(k, ledger.Task{ID: "t1"})
	if _, err := r.Step(t.Context(), spec, c.call); err == nil || c.calls.Load() != 3 {
		t.Fatalf("%v after %d calls", err, c.calls.Load())
	}
	if got := r.Effect(); got != dlqbridge.EffectUnknown {
		t.Errorf("the run's own statement: %s", got)
	}
	if f := w.fold("t1"); f.State != dlqbridge.EffectUnknown {
		t.Errorf("fold: %+v; the first call may have taken effect", f)
	}
}

func TestAClassMadeMilderDoesNotClearADoubt(t *testing.T) {
	for _, class := range []ledger.EffectClass{ledger.EffectFree, ledger.EffectIdempotent} {
		w := newWorld(t)
		k := w.kit()
		r := w.begin(k, ledger.Task{ID: "t1"})
		if _, err := r.Step(t.Context(), charge, failing(errors.New("cut")).call); err == nil {
			t.Fatal("no error")
		}
		r.Close(t.Context())
		r = w.begin(k, ledger.Task{ID: "t1"})
		spec, c := charge, &card{}
		spec.Class = class
		if _, err := r.Step(t.Context(), spec, c.call); !errors.Is(err, ledger.ErrAmbiguous) || c.calls.Load() != 0 {
			t.Errorf("%s: %v, %d calls", class, err, c.calls.Load())
		}
		if f := w.fold("t1"); f.State != dlqbridge.EffectUnknown {
			t.Errorf("%s: fold %+v", class, f)
		}
	}
}

func TestCheckComesBeforeAnythingIsWritten(t *testing.T) {
	w := newWorld(t)
	r := w.begin(w.kit(), ledger.Task{ID: "t1"})
	spec, c := charge, &card{}
	spec.Check = func(context.Context) error {
		return ledger.WithCause(errors.New("over the limit"), dlqbridge.CausePolicyLimit, "E_LIMIT")
	}
	_, err := r.Step(t.Context(), spec, c.call)
	e := ledger.FailureOf(err)
	if c.calls.Load() != 0 || e.Class != "policy_limit" || e.Code != "E_LIMIT" || e.Phase != ledger.PhaseBefore || e.Step != spec.ID {
		t.Errorf("%d calls, %+v", c.calls.Load(), e)
	}
	if w.row("t1", "step#0003#charge") != nil {
		t.Error("a row was written")
	}
	if f := w.fold("t1"); f.State != dlqbridge.EffectNone {
		t.Errorf("fold: %+v", f)
	}
}

// What a worker says around a step's error goes before what the step says
// itself, but nobody can talk a doubt away.
func TestTheOutermostCauseWins(t *testing.T) {
	w := newWorld(t)
	r := w.begin(w.kit(), ledger.Task{ID: "t1"})
	spec := charge
	spec.Check = func(context.Context) error { return errors.New("declined") }
	_, err := r.Step(t.Context(), spec, (&card{}).call)
	e := ledger.FailureOf(ledger.WithCause(fmt.Errorf("the order: %w", err), dlqbridge.CauseBusinessRule, "DECLINED"))
	if e.Class != "business_rule" || e.Code != "DECLINED" || e.Step != spec.ID {
		t.Errorf("%+v", e)
	}
	doubt := &ledger.StepError{Step: "a", Cause: dlqbridge.CauseAmbiguousEffect, Code: "ETIMEDOUT", Effect: dlqbridge.EffectUnknown, Err: errors.New("timeout")}
	if e := ledger.FailureOf(ledger.WithCause(doubt, dlqbridge.CauseTimeout, "E1")); e.Class != "ambiguous_effect" || e.Code != "ETIMEDOUT" {
		t.Errorf("%+v", e)
	}
}

func TestAlreadyExistsIsConfirmed(t *testing.T) {
	w := newWorld(t)
	r := w.begin(w.kit(), ledger.Task{ID: "t1"})
	c := &card{answer: func(int32, ledger.Call) (ledger.Result, error) { return ledger.AlreadyExists(""), nil }}
	if got, err := r.Step(t.Context(), charge, c.call); err != nil || !got.Exists {
		t.Fatalf("%+v %v", got, err)
	}
	if f := w.fold("t1"); f.State != dlqbridge.EffectConfirmed {
		t.Errorf("fold: %+v", f)
	}
	r.Close(t.Context())
	r = w.begin(w.kit(), ledger.Task{ID: "t1"})
	if got, err := r.Step(t.Context(), charge, c.call); err != nil || !got.Reused || c.calls.Load() != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestTwoDeliveriesAtOnceCallOnce(t *testing.T) {
	w := newWorld(t)
	k := w.kit()
	for i := range 200 {
		task := ledger.Task{ID: "t" + time.Duration(i).String()}
		c := &card{}
		deliver := func() {
			r, err := k.Begin(t.Context(), task)
			if err != nil {
				return
			}
			defer r.Close(t.Context())
			if _, err := r.Step(t.Context(), charge, c.call); err == nil {
				_ = r.Complete(t.Context())
			}
		}
		var both sync.WaitGroup
		both.Go(deliver)
		both.Go(deliver)
		both.Wait()
		if n := c.calls.Load(); n != 1 {
			t.Fatalf("delivery %d: %d calls", i, n)
		}
	}
}

// Two runs that both believe in their lease: the row alone must hold.
func TestTwoRunsAtOnceCallOnce(t *testing.T) {
	w := newWorld(t)
	early, late := w.kit(), w.kitAhead()
	for i := range 100 {
		task := ledger.Task{ID: "t" + time.Duration(i).String()}
		if i%2 == 1 { // the step has a row already
			r := w.begin(early, task)
			if _, err := r.Step(t.Context(), charge, failing(ledger.NothingChanged(errors.New("declined"))).call); err == nil {
				t.Fatal("no error")
			}
			r.Close(t.Context())
		}
		c := &card{}
		runs := []*ledger.Run{w.begin(early, task), w.begin(late, task)}
		var both sync.WaitGroup
		for _, r := range runs {
			both.Go(func() { _, _ = r.Step(t.Context(), charge, c.call) })
		}
		both.Wait()
		if n := c.calls.Load(); n != 1 {
			t.Fatalf("round %d: %d calls", i, n)
		}
	}
}

// kitAhead is a kit whose clock is an hour ahead, so it sees every lease as over.
func (w *world) kitAhead() *ledger.Kit {
	return w.kit(func(o *ledger.Options) {
		o.Now = func() time.Time { return w.clock.Now().Add(time.Hour) }
	})
}

// What a run that lost its lease learns about its own call must not be written
// over the call of the run that took over.
func TestALateOutcomeDoesNotSpeakForAnotherCall(t *testing.T) {
	w := newWorld(t)
	spec := charge
	spec.Class = ledger.EffectIdempotent
	old, taker := w.begin(w.kit(), ledger.Task{ID: "t1"}), (*ledger.Run)(nil)
	began, goOn, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	_, err := old.Step(t.Context(), spec, func(context.Context, ledger.Call) (ledger.Result, error) {
		taker = w.begin(w.kitAhead(), ledger.Task{ID: "t1"})
		go func() {
			defer close(done)
			_, _ = taker.Step(context.Background(), spec, func(context.Context, ledger.Call) (ledger.Result, error) {
				close(began)
				<-goOn
				return ledger.Result{}, ledger.NothingChanged(errors.New("refused"))
			})
		}()
		<-began
		return ledger.Result{}, ledger.NothingChanged(errors.New("refused"))
	})
	if !errors.Is(err, ledger.ErrNotSaved) {
		t.Errorf("the late outcome: %v", err)
	}
	if f := w.fold("t1"); f.State != dlqbridge.EffectUnknown {
		t.Errorf("fold: %+v while a call is under way", f)
	}
	close(goOn)
	<-done
	// Each of the two knows of its own call only that nothing changed, and the
	// second began while nobody knew of the first.
	if f := w.fold("t1"); f.State != dlqbridge.EffectUnknown {
		t.Errorf("fold: %+v", f)
	}
}

// The process dies inside the call, before or after it takes effect.
func TestDyingInsideTheCall(t *testing.T) {
	for _, class := range []ledger.EffectClass{ledger.EffectMutating, ledger.EffectIdempotent} {
		w := newWorld(t)
		spec := charge
		spec.Class = class
		r := w.begin(w.kit(), ledger.Task{ID: "t1"})
		func() {
			defer func() { _ = recover() }()
			_, _ = r.Step(t.Context(), spec, func(context.Context, ledger.Call) (ledger.Result, error) { panic("killed") })
		}()
		if f := w.fold("t1"); f.State != dlqbridge.EffectUnknown {
			t.Errorf("%s: fold %+v", class, f)
		}
		w.clock.advance(2 * ledger.DefaultLease)
		c := &card{}
		_, err := w.begin(w.kit(), ledger.Task{ID: "t1"}).Step(t.Context(), spec, c.call)
		if class == ledger.EffectMutating && (!errors.Is(err, ledger.ErrAmbiguous) || c.calls.Load() != 0) {
			t.Errorf("%s: %v, %d calls", class, err, c.calls.Load())
		}
		if class == ledger.EffectIdempotent && (err != nil || c.calls.Load() != 1) {
			t.Errorf("%s: %v, %d calls", class, err, c.calls.Load())
		}
	}
}

func TestOneGoroutineAtATimePerStep(t *testing.T) {
	w := newWorld(t)
	r := w.begin(w.kit(), ledger.Task{ID: "t1"})
	_, err := r.Step(t.Context(), charge, func(ctx context.Context, _ ledger.Call) (ledger.Result, error) {
		if _, err := r.Step(ctx, charge, (&card{}).call); err == nil {
			t.Error("the step was called while it was under way")
		}
		return ledger.Result{Receipt: "ch_1"}, nil
	})
	if err != nil {
		t.Error(err)
	}
}
