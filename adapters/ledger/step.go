package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// StepSpec says what a step is about to do.
type StepSpec struct {
	// ID names the step, the same in every run; ids sort in order: 0003#charge.
	ID string
	// Tool and Dependency are for people and metrics.
	Tool, Dependency string
	// Class says what the tool may do outside; the zero value is EffectMutating.
	Class EffectClass
	// Input is what the tool is called with, as JSON; its hash tells a
	// repetition from another call. InputRef is where it is kept, if anywhere.
	Input    any
	InputRef string
	// IdempotencyKey overrides the key that is derived from task and step.
	IdempotencyKey string
	// Check validates schema, authorisation and limits before anything is
	// written; an error stops the step before its call. Nil checks nothing.
	Check func(ctx context.Context) error
	// Reconcile asks the outside system whether a call took effect whose end is
	// unknown, by the key that the call was given; it must only read. So a doubt
	// need not wait for a person: Done becomes the step's outcome, and after
	// NotDone the step may be begun again. Nil asks nobody.
	Reconcile func(ctx context.Context, c Call) (Answer, error)
	// Settled is how long after a call began the outside system surely shows what
	// it did, the tool's own time-out included. Required with Reconcile.
	Settled time.Duration
}

// Call is what a tool gets to know about its call.
type Call struct {
	// IdempotencyKey is the same at every try, in every run and redrive.
	IdempotencyKey string
	InputHash      string
	// Attempt counts the calls under this step, over all runs, from 1.
	Attempt int
}

// Result is how a step succeeded.
type Result struct {
	// Receipt is the outside system's own reference. Without one the ledger
	// cannot say that the effect is there: a tool that gets none returns
	// whatever it can be found by.
	Receipt string
	// OutputRef is where the output is kept, if anywhere.
	OutputRef string
	// Exists: the tool found the effect there already (see AlreadyExists).
	Exists bool
	// Reused: no call was made, this is the outcome of an earlier one.
	Reused bool
}

// AlreadyExists is the result of a call that found its effect in place.
func AlreadyExists(receipt string) Result { return Result{Receipt: receipt, Exists: true} }

// work is a step with what follows from it.
type work struct {
	StepSpec

	hash, key string
}

func (r *Run) prepare(spec StepSpec) (work, error) {
	if err := checkStepID(spec.ID); err != nil {
		return work{}, err
	}
	if spec.Reconcile != nil && spec.Settled <= 0 {
		return work{}, errSettled
	}
	spec.Class = classOf(string(spec.Class))
	hash, err := InputHash(spec.Input)
	if err != nil {
		return work{}, err
	}
	w := work{StepSpec: spec, hash: hash, key: spec.IdempotencyKey}
	if w.key == "" {
		business := r.task.IdempotencyKey
		if business == "" {
			business = r.key
		}
		w.key = business + ":" + spec.ID
	}
	return w, nil
}

func checkStepID(id string) error {
	if id == "" || len(EntryStep+id) > maxRangeKey {
		return fmt.Errorf("the step id has %d bytes, 1 to %d are possible", len(id), maxRangeKey-len(EntryStep))
	}
	return nil
}

// Step carries out one step, at most once where repeating it is not safe. It
// writes `started`, calls, and writes the outcome before it returns it. Errors
// are *StepError; those for which errors.Is(err, ErrAmbiguous) leave the
// effect in doubt.
//
// If the process dies before `started` is durable, nothing was called. If it
// dies after that and before the outcome is durable, the ledger says that
// nobody knows, and the step is not called again unless it is free of effects
// or idempotent.
//
// The call's context ends when the run's lease is lost. The outcome of a call
// that was made is written even then: it is true, whoever runs now, and the
// row takes it only while it still speaks of this very call.
func (r *Run) Step(ctx context.Context, spec StepSpec, call func(context.Context, Call) (Result, error)) (Result, error) {
	w, err := r.prepare(spec)
	if err != nil {
		return Result{}, w.failed(PhaseBefore, dlqbridge.EffectNone, fmt.Errorf("%w: %w", dlqbridge.ErrInvalid, err))
	}
	release, err := r.occupy(w.ID)
	if err != nil {
		return Result{}, w.failed(PhaseBefore, dlqbridge.EffectUnknown, err)
	}
	defer release()
	if w.Check != nil {
		if err := w.Check(ctx); err != nil {
			return Result{}, w.failed(PhaseBefore, r.effectOf(w.ID), err)
		}
	}
	b := r.kit.o.Backoff
	for try := 1; ; try++ {
		row, reused, err := r.intend(ctx, w)
		if err != nil || reused != nil {
			return value(reused), err
		}
		result, err := r.call(ctx, row, call)
		saved, saveErr := r.conclude(ctx, row, result, err)
		switch {
		case saveErr != nil:
			return result, r.lost(w, err, saveErr)
		case err == nil:
			return result, nil
		}
		saved, why := r.reconcile(ctx, w, saved)
		if saved.carriedOut() {
			found := saved.outcome()
			found.Reused = false // by this very call
			return found, nil
		}
		if why != "" {
			err = fmt.Errorf("%w; %s", err, why)
		}
		f := faultOf(err)
		again := f.transient && !f.permanent && try < b.Tries && (!saved.unknown() || w.Class == EffectIdempotent)
		if !again || r.wait(ctx, jitter(b, try)) != nil {
			return Result{}, r.ended(w, saved, err)
		}
	}
}

func value(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

// occupy keeps two goroutines of this run from calling one step at once.
func (r *Run) occupy(step string) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[step] {
		return nil, errors.New("the step is under way in this run")
	}
	r.active[step] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.active, step)
	}, nil
}

// intendTries bounds how often a step looks again after its row has moved.
const intendTries = 3

// intend writes `started`, or returns the outcome that is there already.
func (r *Run) intend(ctx context.Context, w work) (StepRow, *Result, error) {
	for range intendTries {
		v := consider(r.rowsOf(w.ID), w)
		if v.refusal == nil && v.reuse == nil {
			v.refusal = r.sameKey(w)
		}
		switch {
		case v.reuse != nil:
			return StepRow{}, v.reuse, nil
		case errors.Is(v.refusal, ErrAmbiguous):
			now, why := r.reconcile(ctx, w, v.own)
			if v.own.unknown() && !now.unknown() {
				continue
			}
			if why != "" {
				v.refusal = fmt.Errorf("%w; %s", v.refusal, why)
			}
			r.markAmbiguous(ctx, now)
			return StepRow{}, nil, r.stop(w.failed(PhaseDuring, dlqbridge.EffectUnknown, v.refusal))
		case v.refusal != nil:
			return StepRow{}, nil, w.failed(PhaseBefore, r.effectOf(w.ID), v.refusal)
		}
		if err := r.alive(); err != nil {
			return StepRow{}, nil, w.failed(PhaseBefore, r.effectOf(w.ID), err)
		}
		c := r.started(w, v)
		row, err := r.kit.table.write(ctx, r.key, EntryStep+w.ID, c)
		switch {
		case err == nil:
			begun := c.after(EntryStep + w.ID)
			r.remember(begun)
			return begun, nil, nil
		case !errors.Is(err, errRefused):
			// It may be there. Nothing was called, but the row may say started.
			return StepRow{}, nil, w.failed(PhaseBefore, dlqbridge.EffectUnknown, fmt.Errorf("write started: %w", err))
		}
		// Somebody else moves this task's steps: is the lease still ours?
		if row != nil {
			r.remember(row.step())
		}
		if err := r.write(ctx, item{}); err != nil {
			return StepRow{}, nil, w.failed(PhaseBefore, dlqbridge.EffectUnknown, err)
		}
	}
	return StepRow{}, nil, w.failed(PhaseBefore, dlqbridge.EffectUnknown, dlqbridge.ErrConflict)
}

// started is the write before the call. Its condition is the row's state as it
// was considered, so of two runs that both may call only one can.
func (r *Run) started(w work, v verdict) change {
	c := change{
		set: item{
			"step_id": str(w.ID), "run_id": str(r.id), "status": str(string(StepStarted)), "attempt": num(v.own.Attempt + 1),
			"input_hash": str(w.hash), "tool": some(w.Tool), "effect_class": str(string(w.Class)),
			"idempotency_key": str(w.key), "input_ref": some(w.InputRef), "trace_id": some(r.task.TraceID),
			"started_at": str(dlqbridge.FormatTime(r.kit.now())),
		},
		remove:   []string{"ended_at", "effect", "receipt", "output_ref"},
		markName: "intent", mark: newToken(),
		done: func(row item) bool { return row.text("status", maxText) == string(StepStarted) },
	}
	if v.doubtful || v.own.Doubtful {
		// From here on only a receipt ends the doubt: what a later call knows
		// about itself does not speak for the earlier one.
		c.set["doubtful"] = boolean(true)
	}
	c.when = item{KeyEntry: nil}
	if v.own.Entry != "" {
		c.when = item{"intent": some(v.own.Intent), "status": some(string(v.own.Status)), "run_id": some(v.own.RunID)}
	}
	return c
}

// call makes the call under a context that ends with the lease.
func (r *Run) call(ctx context.Context, row StepRow, call func(context.Context, Call) (Result, error)) (Result, error) {
	ctx, cancel := r.lived(ctx)
	defer cancel()
	result, err := call(ctx, Call{IdempotencyKey: row.IdempotencyKey, InputHash: row.InputHash, Attempt: row.Attempt})
	result.Reused = false
	return result, err
}

// lived is a context that ends with the lease.
func (r *Run) lived(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.life, func() { cancel(r.why()) })
	return ctx, func() { stop(); cancel(nil) }
}

// effectOf is what the rows say about one step.
func (r *Run) effectOf(step string) dlqbridge.Effect {
	effect := dlqbridge.EffectNone
	for _, s := range r.rowsOf(step) {
		switch {
		case s.unknown():
			return dlqbridge.EffectUnknown
		case s.carriedOut():
			effect = dlqbridge.EffectConfirmed
		}
	}
	return effect
}

// markAmbiguous gives the status its name for the people who read the row, and
// the time at which it was seen in doubt. `started` means the same to a fold,
// so failing to write it changes nothing.
func (r *Run) markAmbiguous(ctx context.Context, s StepRow) {
	if s.Status != StepStarted || s.Intent == "" || r.alive() != nil {
		return
	}
	c := change{
		set:      item{"status": str(string(StepAmbiguous)), "ended_at": str(dlqbridge.FormatTime(r.kit.now()))},
		when:     item{"intent": str(s.Intent), "status": str(string(StepStarted))},
		markName: "intent", mark: s.Intent,
		done: func(row item) bool { return row.text("status", maxText) == string(StepAmbiguous) },
	}
	if _, err := r.kit.table.write(ctx, r.key, s.Entry, c); err == nil {
		s.Status, s.EndedAt = StepAmbiguous, r.kit.now()
		r.remember(s)
	}
}

// after is the row as it is once the change is carried out, for rows that the
// change sets whole.
func (c change) after(entry string) StepRow {
	row := item{KeyEntry: str(entry), c.markName: str(c.mark)}
	for name, v := range c.set {
		if v != nil {
			row[name] = v
		}
	}
	return row.step()
}

// jitter is the wait after try number try.
func jitter(b Backoff, try int) time.Duration {
	ceiling := b.Base
	for range try - 1 {
		ceiling = min(2*ceiling, b.Max)
	}
	return time.Duration(rand.Float64() * float64(ceiling)) //nolint:gosec // spreads load, keeps no secret
}

// wait waits, unless the run or ctx ends before.
func (r *Run) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.life.Done():
		return r.why()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
