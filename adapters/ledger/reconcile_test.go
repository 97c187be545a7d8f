package ledger_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// asking is the charge with an outside system that can be asked.
func asking(answer func(n int, c ledger.Call) (ledger.Answer, error)) (ledger.StepSpec, *int) {
	n := 0
	spec := charge
	spec.Settled = time.Minute
	spec.Reconcile = func(_ context.Context, c ledger.Call) (ledger.Answer, error) {
		n++
		return answer(n, c)
	}
	return spec, &n
}

func always(a ledger.Answer) func(int, ledger.Call) (ledger.Answer, error) {
	return func(int, ledger.Call) (ledger.Answer, error) { return a, nil }
}

// A call of an earlier run is in doubt; what the outside system says about it
// decides what the next run may do.
func TestWhatTheOutsideSystemSaysAboutAnEarlierCall(t *testing.T) {
	for _, tc := range []struct {
		name    string
		after   time.Duration // since the call began
		answer  func(int, ledger.Call) (ledger.Answer, error)
		calls   int32 // of the next run
		want    error
		text    string
		receipt string
		effect  dlqbridge.Effect
	}{
		{"done, at once", time.Second, always(ledger.Done("ch_9")), 0, nil, "", "ch_9", dlqbridge.EffectConfirmed},
		{"done, without a reference", time.Second, always(ledger.Done("")), 0, nil, "", "", dlqbridge.EffectConfirmed},
		{"not done, and settled", time.Hour, always(ledger.NotDone()), 1, nil, "", "ch_1", dlqbridge.EffectConfirmed},
		{"not done, too early", time.Second, always(ledger.NotDone()), 0, ledger.ErrAmbiguous, "is not believed before", "", dlqbridge.EffectUnknown},
		{"not done within what clocks differ", time.Minute + time.Second, always(ledger.NotDone()), 0, ledger.ErrAmbiguous, "is not believed before", "", dlqbridge.EffectUnknown},
		{"does not know", time.Hour, always(ledger.Answer{}), 0, ledger.ErrAmbiguous, "does not know", "", dlqbridge.EffectUnknown},
		{"cannot be asked", time.Hour, func(int, ledger.Call) (ledger.Answer, error) {
			return ledger.NotDone(), ledger.NothingChanged(errors.New("503"))
		}, 0, ledger.ErrAmbiguous, "asking the outside system failed: 503", "", dlqbridge.EffectUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			r := w.begin(w.kit(), ledger.Task{ID: "t1", IdempotencyKey: "o-1"})
			if _, err := r.Step(t.Context(), charge, failing(errors.New("cut")).call); !errors.Is(err, ledger.ErrAmbiguous) {
				t.Fatal(err)
			}
			r.Close(t.Context())
			w.clock.advance(tc.after)
			r = w.begin(w.kit(), ledger.Task{ID: "t1", IdempotencyKey: "o-1"})
			c := &card{}
			spec, asked := asking(func(n int, call ledger.Call) (ledger.Answer, error) {
				if call.IdempotencyKey != "o-1:0003#charge" || call.Attempt != 1 || call.InputHash == "" {
					t.Errorf("asked about %+v", call)
				}
				return tc.answer(n, call)
			})
			got, err := r.Step(t.Context(), spec, c.call)
			if !errors.Is(err, tc.want) || got.Receipt != tc.receipt || c.calls.Load() != tc.calls || *asked != 1 {
				t.Errorf("%+v, %v; %d calls, asked %d times", got, err, c.calls.Load(), *asked)
			}
			if err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want %s", err, tc.text)
			}
			if err != nil && ledger.FailureOf(err).Class != string(dlqbridge.CauseAmbiguousEffect) {
				t.Errorf("%+v", ledger.FailureOf(err))
			}
			if err := r.Complete(t.Context()); (err == nil) != (tc.want == nil) {
				t.Errorf("complete: %v", err)
			}
			if got := w.fold("t1").State; got != tc.effect {
				t.Errorf("folds to %s, want %s", got, tc.effect)
			}
		})
	}
}

// The call of this very run ends without an answer: it is looked up before the
// step gives up, and waited for where that is short.
func TestWhatTheOutsideSystemSaysAboutThisCall(t *testing.T) {
	for _, tc := range []struct {
		name    string
		settled time.Duration
		err     error
		answer  func(int, ledger.Call) (ledger.Answer, error)
		calls   int32
		asked   int
		ok      bool
		effect  dlqbridge.Effect
	}{
		{"done", time.Minute, errors.New("cut"), always(ledger.Done("ch_9")), 1, 1, true, dlqbridge.EffectConfirmed},
		{"not done yet, done after the wait", 5 * time.Second, errors.New("cut"), func(n int, _ ledger.Call) (ledger.Answer, error) {
			return []ledger.Answer{ledger.NotDone(), ledger.Done("ch_9")}[n-1], nil
		}, 1, 2, true, dlqbridge.EffectConfirmed},
		{"not done after the wait: nothing happened", 5 * time.Second, errors.New("cut"), always(ledger.NotDone()), 1, 2, false, dlqbridge.EffectNone},
		{"not done, and the error was transient: called again", 5 * time.Second, ledger.Transient(errors.New("cut")), always(ledger.NotDone()), 2, 2, true, dlqbridge.EffectConfirmed},
		{"not done, too long to wait for", time.Hour, ledger.Transient(errors.New("cut")), always(ledger.NotDone()), 1, 1, false, dlqbridge.EffectUnknown},
		{"does not know", time.Second, ledger.Transient(errors.New("cut")), always(ledger.Answer{}), 1, 1, false, dlqbridge.EffectUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := w.kit(func(o *ledger.Options) { o.Now = time.Now })
				r := w.begin(k, ledger.Task{ID: "t1"})
				c := &card{answer: func(n int32, _ ledger.Call) (ledger.Result, error) {
					if n == 1 {
						return ledger.Result{}, tc.err
					}
					return ledger.Result{Receipt: "ch_2"}, nil
				}}
				spec, asked := asking(tc.answer)
				spec.Settled = tc.settled
				got, err := r.Step(t.Context(), spec, c.call)
				if (err == nil) != tc.ok || got.Reused || c.calls.Load() != tc.calls || *asked != tc.asked {
					t.Errorf("%+v, %v; %d calls, asked %d times", got, err, c.calls.Load(), *asked)
				}
				if r.Effect() != tc.effect {
					t.Errorf("the run says %s", r.Effect())
				}
				r.Close(t.Context())
				w.clock.now = time.Now()
				if got := w.fold("t1").State; got != tc.effect {
					t.Errorf("folds to %s, want %s", got, tc.effect)
				}
			})
		})
	}
}

// Two runs ask at once and one of them begins the call anew: the other's answer
// is about a call that is no longer the row's.
func TestAnAnswerAboutAnEarlierCallDoesNotSpeakForALaterOne(t *testing.T) {
	w := newWorld(t)
	r := w.begin(w.kit(), ledger.Task{ID: "t1"})
	if _, err := r.Step(t.Context(), charge, failing(errors.New("cut")).call); err == nil {
		t.Fatal("no error")
	}
	r.Close(t.Context())
	w.clock.advance(time.Hour)
	slow, fast := w.begin(w.kit(), ledger.Task{ID: "t1"}), w.begin(w.kitAhead(), ledger.Task{ID: "t1"})
	c := &card{}
	began, done := make(chan struct{}), make(chan struct{})
	spec, _ := asking(func(int, ledger.Call) (ledger.Answer, error) {
		close(began)
		<-done
		return ledger.NotDone(), nil
	})
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := slow.Step(t.Context(), spec, c.call); err == nil {
			t.Error("the slow one called, too, or took the other's outcome under a lost lease")
		}
	})
	<-began
	quick, _ := asking(always(ledger.NotDone()))
	if _, err := fast.Step(t.Context(), quick, failing(errors.New("cut again")).call); !errors.Is(err, ledger.ErrAmbiguous) {
		t.Errorf("got %v", err)
	}
	close(done)
	both.Wait()
	if c.calls.Load() != 0 || w.fold("t1").State != dlqbridge.EffectUnknown {
		t.Errorf("%d calls, folds to %s", c.calls.Load(), w.fold("t1").State)
	}
}

// A step of a run that plain writers left has a row of its own, which nobody
// here may move: "not done" does not clear it, a receipt outweighs it.
func TestDoubtsOfPlainWritersStay(t *testing.T) {
	w := newWorld(t)
	w.put("t1", "run#r0#0003#charge", map[string]any{"run_id": "r0", "step_id": "0003#charge", "status": "started"})
	r := w.begin(w.kit(), ledger.Task{ID: "t1"})
	c := &card{}
	spec, asked := asking(always(ledger.NotDone()))
	if _, err := r.Step(t.Context(), spec, c.call); !errors.Is(err, ledger.ErrAmbiguous) || c.calls.Load() != 0 || *asked != 0 {
		t.Errorf("%v, %d calls, asked %d times", err, c.calls.Load(), *asked)
	}
}

func TestReconcileNeedsItsTime(t *testing.T) {
	w := newWorld(t)
	r := w.begin(w.kit(), ledger.Task{ID: "t1"})
	spec, _ := asking(always(ledger.NotDone()))
	spec.Settled = 0
	if _, err := r.Step(t.Context(), spec, (&card{}).call); !errors.Is(err, dlqbridge.ErrInvalid) || !strings.Contains(err.Error(), "Settled") {
		t.Errorf("got %v", err)
	}
}

// Killed at every point of asking: the outside system's book and the ledger
// never disagree, and no step is carried out twice.
func TestKilledAtEveryPointOfAsking(t *testing.T) {
	for _, how := range []fate{fateDieBefore, fateDieAfter, fateLoseAnswer, fateLoseCall} {
		for _, landed := range []bool{true, false} {
			for point := 1; ; point++ {
				reached := false
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					plain := w.kit(func(o *ledger.Options) { o.Now = time.Now })
					book := 0
					charge := charge
					charge.Settled = time.Minute
					charge.Reconcile = func(context.Context, ledger.Call) (ledger.Answer, error) {
						if book > 0 {
							return ledger.Done("ch_1"), nil
						}
						return ledger.NotDone(), nil
					}
					first := w.begin(plain, ledger.Task{ID: "t1"})
					cut := charge
					cut.Reconcile, cut.Settled = nil, 0
					if _, err := first.Step(t.Context(), cut, func(context.Context, ledger.Call) (ledger.Result, error) {
						if landed {
							book++
						}
						return ledger.Result{}, errors.New("cut")
					}); err == nil {
						t.Fatal("no error")
					}
					first.Close(t.Context())
					deliver := func(c ledger.Client) {
						defer func() {
							if p := recover(); p != nil && p != errDied { //nolint:errorlint // a panic value, thrown as it is
								panic(p)
							}
						}()
						k := w.kit(func(o *ledger.Options) { o.Client, o.Now = c, time.Now })
						r, err := k.Begin(t.Context(), ledger.Task{ID: "t1"})
						if err != nil {
							return
						}
						defer r.Close(t.Context())
						if _, err := r.Step(t.Context(), charge, func(context.Context, ledger.Call) (ledger.Result, error) {
							book++
							return ledger.Result{Receipt: "ch_1"}, nil
						}); err == nil {
							_ = r.Complete(t.Context())
						}
					}
					time.Sleep(time.Hour)
					deliver(&flakyClient{Client: w.client, decide: func(n int, _ string) fate {
						if n == point {
							reached = true
							return how
						}
						return fatePass
					}})
					for range 2 {
						time.Sleep(time.Hour)
						deliver(w.client)
					}
					w.clock.now = time.Now()
					if a := w.ask("t1"); book != 1 || a.Completed == nil || w.fold("t1").State != dlqbridge.EffectConfirmed {
						t.Errorf("fate %d at %d, landed %v: charged %d times, %+v", how, point, landed, book, a)
					}
				})
				if !reached {
					if point < 5 {
						t.Fatalf("only %d calls were made", point-1)
					}
					break
				}
			}
		}
	}
}

// Work past its time is not begun, whoever knows the time: the message or an
// earlier run's header. It is not acknowledged.
func TestWorkPastItsTimeIsNotBegun(t *testing.T) {
	w := newWorld(t)
	k := w.kit()
	until := w.clock.Now().Add(time.Hour)
	r := w.begin(k, ledger.Task{ID: "known", ValidUntil: until})
	r.Close(t.Context())
	w.clock.advance(time.Hour)
	w.begin(k, ledger.Task{ID: "known"}).Close(t.Context()) // at the very moment it still has sense
	w.clock.advance(time.Millisecond)
	for _, task := range []ledger.Task{{ID: "known"}, {ID: "new", ValidUntil: until}} {
		r, err := k.Begin(t.Context(), task)
		if !errors.Is(err, ledger.ErrExpired) || ledger.Acknowledge(err) || r != nil {
			t.Errorf("%s: %v, %v", task.ID, r, err)
		}
		if !strings.Contains(err.Error(), dlqbridge.FormatTime(until)) {
			t.Errorf("%v does not say when", err)
		}
	}
	if w.row("new", "task") != nil {
		t.Error("a task that was never begun has a header")
	}
	// A message that names a later time counts for itself.
	w.begin(k, ledger.Task{ID: "known", ValidUntil: until.Add(time.Hour)})
}

func TestDeadLetter(t *testing.T) {
	w := newWorld(t)
	r := w.begin(w.kit(), ledger.Task{ID: "t1", Type: "order", MessageID: "m1"})
	_, err := r.Step(t.Context(), charge, failing(ledger.Permanent(ledger.NothingChanged(errors.New("declined")))).call)
	sent := 0
	put := func(_ context.Context, f ledger.Facts) error {
		sent++
		if f.TaskID != "t1" || f.RunID != r.ID() || f.Effect != "none_confirmed" || f.Step != "0003#charge" || f.Tool != "charge_card" {
			t.Errorf("facts %+v", f)
		}
		if a := w.ask("t1"); a.Failure == nil || !a.RunningUntil.IsZero() {
			t.Errorf("the letter is sent before the ledger tells of the failure: %+v", a)
		}
		return nil
	}
	if err := r.DeadLetter(t.Context(), ledger.FailureOf(err), put); err != nil || sent != 1 {
		t.Errorf("%v, sent %d times", err, sent)
	}
	// The run is over: a second letter would be another's business.
	if err := r.DeadLetter(t.Context(), ledger.LastError{}, put); !errors.Is(err, ledger.ErrRunOver) || sent != 1 {
		t.Errorf("%v, sent %d times", err, sent)
	}
	// A send that fails leaves the message where it is.
	r = w.begin(w.kit(), ledger.Task{ID: "t1", MessageID: "m1"})
	down := errors.New("the queue is down")
	if err := r.DeadLetter(t.Context(), ledger.LastError{}, func(context.Context, ledger.Facts) error { return down }); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	// Without the lease nothing is sent.
	r = w.begin(w.kit(), ledger.Task{ID: "t1", MessageID: "m1"})
	w.begin(w.kitAhead(), ledger.Task{ID: "t1", MessageID: "m1"})
	if err := r.DeadLetter(t.Context(), ledger.LastError{}, put); !errors.Is(err, ledger.ErrLeaseLost) || sent != 1 {
		t.Errorf("%v, sent %d times", err, sent)
	}
}
