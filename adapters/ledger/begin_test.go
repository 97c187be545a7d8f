package ledger_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

func mark(record string, n int) *dlqbridge.Mark {
	return &dlqbridge.Mark{Record: record, Job: "j_1", N: n, Action: "retry"}
}

// A delivery is begun and ends without an outcome, or is refused.
type delivery struct {
	message string
	mark    *dlqbridge.Mark
	want    error
}

func TestWhichDeliveriesMayRun(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []delivery
	}{
		{"first life: the broker delivers as often as it likes", []delivery{
			{"m1", nil, nil}, {"m1", nil, nil}, {"m2", nil, nil},
		}},
		{"a redrive, delivered again by the broker", []delivery{
			{"m1", nil, nil}, {"m2", mark("r_a", 1), nil}, {"m2", mark("r_a", 1), nil},
		}},
		{"a second copy of a redrive", []delivery{
			{"m1", nil, nil}, {"m2", mark("r_a", 1), nil}, {"m3", mark("r_a", 1), ledger.ErrDuplicate}, {"m2", mark("r_a", 1), nil},
		}},
		{"a stale copy after the next redrive", []delivery{
			{"m2", mark("r_a", 1), nil}, {"m3", mark("r_a", 2), nil}, {"m2", mark("r_a", 1), ledger.ErrDuplicate}, {"m3", mark("r_a", 2), nil},
		}},
		{"the next record of the task counts from 1 again", []delivery{
			{"m2", mark("r_a", 1), nil},
			{"m3", mark("r_a", 2), nil},
			{"m4", mark("r_b", 1), nil},
			{"m5", mark("r_b", 1), ledger.ErrDuplicate},
			{"m2", mark("r_a", 1), ledger.ErrDuplicate},
			{"m4", mark("r_b", 1), nil},
		}},
		{"a message without mark after a redrive, sent by hand", []delivery{
			{"m2", mark("r_a", 1), nil}, {"m9", nil, nil}, {"m3", mark("r_a", 1), ledger.ErrDuplicate},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			k := w.kit()
			for i, d := range tc.in {
				r, err := k.Begin(t.Context(), ledger.Task{ID: "t1", MessageID: d.message, Redrive: d.mark})
				if !errors.Is(err, d.want) {
					t.Fatalf("delivery %d: %v, want %v", i, err, d.want)
				}
				if d.want != nil && !ledger.Acknowledge(err) {
					t.Errorf("delivery %d: a copy that may never run must be acknowledged", i)
				}
				if r != nil {
					r.Close(t.Context())
				}
			}
		})
	}
}

func TestASecondCopyIsRefusedWhileTheFirstRuns(t *testing.T) {
	w := newWorld(t)
	k := w.kit()
	w.begin(k, ledger.Task{ID: "t1", MessageID: "m2", Redrive: mark("r_a", 1)})
	_, err := k.Begin(t.Context(), ledger.Task{ID: "t1", MessageID: "m2", Redrive: mark("r_a", 1)})
	busy, ok := errors.AsType[*ledger.BusyError](err)
	if !ok || !errors.Is(err, ledger.ErrBusy) || ledger.Acknowledge(err) || !busy.Until.Equal(w.clock.Now().Add(ledger.DefaultLease)) {
		t.Errorf("redelivery during the run: %v", err)
	}
	if _, err := k.Begin(t.Context(), ledger.Task{ID: "t1", MessageID: "m3", Redrive: mark("r_a", 1)}); !errors.Is(err, ledger.ErrDuplicate) {
		t.Errorf("copy during the run: %v", err)
	}
}

func TestBeginAfterAnotherLanguagesRun(t *testing.T) {
	w := newWorld(t)
	now := w.clock.Now()
	k := w.kit()
	w.put("running", "task", map[string]any{"status": "running", "run_id": "py-1", "updated_at": now.Add(-14 * time.Minute)})
	if _, err := k.Begin(t.Context(), ledger.Task{ID: "running"}); !errors.Is(err, ledger.ErrBusy) {
		t.Errorf("running without a lease: %v", err)
	}
	w.put("redriven", "task", map[string]any{"status": "failed", "run_id": "py-1", "redrive_n": number("2")})
	if _, err := k.Begin(t.Context(), ledger.Task{ID: "redriven", MessageID: "m", Redrive: mark("r_a", 2)}); !errors.Is(err, ledger.ErrRedriveRan) || ledger.Acknowledge(err) {
		t.Errorf("a number that was used: %v", err)
	}
	w.begin(k, ledger.Task{ID: "redriven", MessageID: "m", Redrive: mark("r_a", 3)})

	// Steps that were made without a promise are not covered by one given later.
	w.put("silent", "task", map[string]any{"status": "failed", "run_id": "py-1"})
	w.begin(k, ledger.Task{ID: "silent"}).Close(t.Context())
	if f := w.fold("silent"); f.State != dlqbridge.EffectUnknown {
		t.Errorf("fold: %+v, though an earlier run promised nothing", f)
	}
	// A header that a producer made before any run is no run.
	w.put("made", "task", map[string]any{"task_type": "order"})
	w.clock.advance(ledger.DefaultMaxRun)
	w.begin(k, ledger.Task{ID: "made"}).Close(t.Context())
	if f := w.fold("made"); f.State != dlqbridge.EffectNone {
		t.Errorf("fold: %+v", f)
	}
}

func TestAttemptLimitIsPerSend(t *testing.T) {
	w := newWorld(t)
	k := w.kit(func(o *ledger.Options) { o.MaxAttempts = 2 })
	first := ledger.Task{ID: "t1", MessageID: "m1"}
	again := ledger.Task{ID: "t1", MessageID: "m2", Redrive: mark("r_a", 1)}
	for _, task := range []ledger.Task{first, first, again, again} {
		r := w.begin(k, task)
		if err := r.Fail(t.Context(), ledger.LastError{Class: "timeout", Code: "ETIMEDOUT"}); err != nil {
			t.Fatal(err)
		}
		r.Close(t.Context())
		if task.Redrive == nil && w.ask("t1").Runs == 2 || w.ask("t1").Runs == 4 {
			if _, err := k.Begin(t.Context(), task); !errors.Is(err, ledger.ErrAttemptLimit) || ledger.Acknowledge(err) {
				t.Errorf("over the limit: %v", err)
			}
		}
	}
	a := w.ask("t1")
	if a.Runs != 4 || *a.Task.Attempts != 2 || *a.Task.MaxAttempts != 2 || len(a.Failure.Attempts) != 4 || a.SeenRedriveN != 1 {
		t.Errorf("runs %d, task %+v, failure %+v", a.Runs, a.Task, a.Failure)
	}
	// Numbers count per record: what this one saw proves nothing for another.
	other := w.reader().Ask(t.Context(), []dlqbridge.Question{{TaskID: "t1", Record: "r_b", Now: w.clock.Now()}})[0]
	if other.SeenRedriveN != 0 || other.SeenRun != "" {
		t.Errorf("another record's redrive %d was seen in run %s", other.SeenRedriveN, other.SeenRun)
	}
}

func TestBeginRefusesBadTasks(t *testing.T) {
	w := newWorld(t)
	for _, task := range []ledger.Task{
		{},
		{ID: string(make([]byte, 2049))},
		{ID: "t", Redrive: mark("r_a", 1)},
		{ID: "t", MessageID: "m", Redrive: mark("r_a", 0)},
		{ID: "t", MessageID: "m", Redrive: mark("", 1)},
	} {
		if _, err := w.kit().Begin(t.Context(), task); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("%.20s %+v: %v", task.ID, task.Redrive, err)
		}
	}
}

func TestTheLeaseIsKeptWhileTheRunLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := w.kit(func(o *ledger.Options) { o.Now = time.Now })
		r := w.begin(k, ledger.Task{ID: "t1"})
		time.Sleep(10 * ledger.DefaultLease)
		if _, err := k.Begin(t.Context(), ledger.Task{ID: "t1"}); !errors.Is(err, ledger.ErrBusy) {
			t.Errorf("begin during a long run: %v", err)
		}
		if err := r.AddCost("1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ledger.DefaultLease / 2)
		if got := text(w.row("t1", "task")["cost_usd"]); got != "1" {
			t.Errorf("cost %q after a renewal", got)
		}
		r.Close(t.Context())
		w.begin(k, ledger.Task{ID: "t1"}).Close(t.Context())
	})
}

func TestALeaseThatCannotBeRenewedEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		flaky := &flakyClient{Client: w.client}
		k := w.kit(func(o *ledger.Options) { o.Now, o.Client = time.Now, flaky })
		r := w.begin(k, ledger.Task{ID: "t1"})
		began := time.Now()
		_, err := r.Step(t.Context(), charge, func(ctx context.Context, _ ledger.Call) (ledger.Result, error) {
			flaky.set(func(int, string) fate { return fateRefuse })
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ledger.ErrLeaseLost) {
				t.Errorf("the call ended by %v", context.Cause(ctx))
			}
			if d := time.Since(began); d != ledger.DefaultLease {
				t.Errorf("the call ended after %s", d)
			}
			flaky.set(nil)
			return ledger.Result{Receipt: "ch_1"}, nil // it went through all the same
		})
		if err != nil {
			t.Errorf("the outcome of a call that was made: %v", err)
		}
		before := w.row("t1", "task")
		for what, err := range map[string]error{
			"complete":   r.Complete(t.Context()),
			"checkpoint": r.Checkpoint(t.Context(), "s3://c", "0003#charge"),
			"fail":       r.Fail(t.Context(), ledger.LastError{}),
		} {
			if !errors.Is(err, ledger.ErrLeaseLost) {
				t.Errorf("%s after the lease was lost: %v", what, err)
			}
		}
		next := charge
		next.ID = "0004#mail"
		c := &card{}
		if _, err := r.Step(t.Context(), next, c.call); !errors.Is(err, ledger.ErrLeaseLost) || c.calls.Load() != 0 {
			t.Errorf("a step after the lease was lost: %v", err)
		}
		r.Close(t.Context())
		if after := w.row("t1", "task"); text(after["token"]) != text(before["token"]) {
			t.Error("the header was written after the lease was lost")
		}
		if f := w.fold("t1"); f.State != dlqbridge.EffectConfirmed {
			t.Errorf("fold: %+v", f)
		}
	})
}

func TestATakenLeaseEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := w.kit(func(o *ledger.Options) { o.Now = time.Now })
		ahead := w.kit(func(o *ledger.Options) { o.Now = func() time.Time { return time.Now().Add(time.Hour) } })
		r := w.begin(k, ledger.Task{ID: "t1"})
		var taker *ledger.Run
		_, err := r.Step(t.Context(), charge, func(ctx context.Context, _ ledger.Call) (ledger.Result, error) {
			taker = w.begin(ahead, ledger.Task{ID: "t1"})
			c := &card{}
			if _, err := taker.Step(t.Context(), charge, c.call); !errors.Is(err, ledger.ErrAmbiguous) || c.calls.Load() != 0 {
				t.Errorf("the taker's step: %v", err)
			}
			if got := text(w.row("t1", "step#0003#charge")["status"]); got != "ambiguous" {
				t.Errorf("status %s", got)
			}
			<-ctx.Done()
			return ledger.Result{Receipt: "ch_1"}, nil
		})
		if err != nil {
			t.Errorf("the outcome: %v", err)
		}
		if err := r.Complete(t.Context()); !errors.Is(err, ledger.ErrLeaseLost) {
			t.Errorf("complete: %v", err)
		}
		// The late receipt ends the doubt.
		row := w.row("t1", "step#0003#charge")
		if text(row["receipt"]) != "ch_1" || text(row["status"]) != "succeeded" {
			t.Errorf("row: %v", row)
		}
		r.Close(t.Context())
		taker.Close(t.Context())
	})
}

func TestPlainFieldsOfTheHeaderSurvive(t *testing.T) {
	w := newWorld(t)
	w.put("t1", "task", map[string]any{"team_note": "ours", "origin_event": "evt-1", "run_id": "py", "status": "failed"})
	w.begin(w.kit(), ledger.Task{ID: "t1"}).Close(t.Context())
	row := w.row("t1", "task")
	if text(row["team_note"]) != "ours" || text(row["origin_event"]) != "evt-1" {
		t.Errorf("header: %v", row)
	}
	if _, ok := row["intent_before_call"].(*types.AttributeValueMemberBOOL); ok {
		t.Error("a promise was given for an earlier run")
	}
}

// A write of the header was carried out, and neither its answer nor the read
// back arrived: the run must recognise it later as its own.
func TestAWriteOfOursIsNotALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		flaky := &flakyClient{Client: w.client}
		r := w.begin(w.kit(func(o *ledger.Options) { o.Now, o.Client = time.Now, flaky }), ledger.Task{ID: "t1"})
		flaky.set(func(_ int, operation string) fate {
			if operation == "UpdateItem" {
				return fateLoseAnswer
			}
			return fateRefuse
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Checkpoint(ctx, "s3://1", "0001#a"); err == nil || errors.Is(err, ledger.ErrLeaseLost) {
			t.Errorf("checkpoint: %v", err)
		}
		flaky.set(nil)
		if err := r.Complete(t.Context()); err != nil {
			t.Errorf("complete: %v", err)
		}
		r.Close(t.Context())
	})
}
