package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// conclude writes the outcome down. The row must still speak of this call.
func (r *Run) conclude(ctx context.Context, row StepRow, result Result, callErr error) (StepRow, error) {
	c := change{
		set: item{
			"ended_at": str(dlqbridge.FormatTime(r.kit.now())), "receipt": some(dlqbridge.CutText(result.Receipt, maxReceipt)),
			"output_ref": some(result.OutputRef),
		},
		when:     item{"intent": str(row.Intent), "receipt": nil},
		markName: "intent", mark: row.Intent,
	}
	f := faultOf(callErr)
	status := StepSucceeded
	switch {
	case callErr == nil && result.Exists:
		status = StepAlreadyExists
	case callErr == nil:
	case f.permanent:
		status = StepFailedPermanent
	case f.transient:
		status = StepFailedTransient
	case f.unchanged:
		status = StepFailedPermanent
	default:
		status = StepAmbiguous
	}
	if callErr != nil {
		delete(c.set, "receipt")
		if f.unchanged && !row.Doubtful {
			c.set["effect"] = str("none")
		}
	}
	c.set["status"] = str(string(status))
	c.done = func(now item) bool { return now.text("status", maxText) == string(status) }
	row.Status, row.EndedAt, row.NothingChanged = status, r.kit.now(), c.set["effect"] != nil
	if callErr == nil {
		row.Receipt, row.HasReceipt, row.OutputRef = result.Receipt, result.Receipt != "", result.OutputRef
	}
	bounded, cancel := r.finishing(ctx)
	defer cancel()
	if _, err := r.kit.table.write(bounded, r.key, row.Entry, c); err != nil {
		return row, err
	}
	r.remember(row)
	return row, nil
}

// ended is the error of a step whose call failed.
func (r *Run) ended(w work, row StepRow, err error) error {
	effect := dlqbridge.EffectNone
	if row.unknown() {
		effect = dlqbridge.EffectUnknown
	}
	if effect == dlqbridge.EffectUnknown && w.Class == EffectMutating {
		return r.stop(w.failed(PhaseDuring, effect, fmt.Errorf("%w: %w", ErrAmbiguous, err)))
	}
	return w.failed(PhaseDuring, effect, err)
}

// lost is the error of a step whose outcome could not be written down.
func (r *Run) lost(w work, callErr, saveErr error) error {
	if w.Class == EffectFree {
		return w.failed(PhaseAfter, dlqbridge.EffectNone, fmt.Errorf("%w: %w", ErrNotSaved, errors.Join(saveErr, callErr)))
	}
	if callErr != nil {
		return r.stop(w.failed(PhaseAfter, dlqbridge.EffectUnknown, fmt.Errorf("%w: %w: %w; the call: %w", ErrAmbiguous, ErrNotSaved, saveErr, callErr)))
	}
	return r.stop(w.failed(PhaseAfter, dlqbridge.EffectUnknown, fmt.Errorf("%w: %w: %w", ErrAmbiguous, ErrNotSaved, saveErr)))
}

// stop notes that the task has a step in doubt, so that it cannot be completed.
func (r *Run) stop(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doubt == nil {
		r.doubt = err
	}
	return err
}

// failed words a step's error.
func (w work) failed(phase string, effect dlqbridge.Effect, err error) error {
	f := faultOf(err)
	e := &StepError{
		Step: w.ID, Tool: w.Tool, Dependency: w.Dependency, Phase: phase, Effect: effect,
		Cause: f.cause, Code: f.code, Transient: f.transient && !f.permanent, Err: err,
	}
	switch {
	case errors.Is(err, ErrAmbiguous):
		e.Cause = dlqbridge.CauseAmbiguousEffect
	case e.Cause == "" && e.Transient:
		e.Cause = dlqbridge.CauseDependencyUnavailable
	}
	return e
}
