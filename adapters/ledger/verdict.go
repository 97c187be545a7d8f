package ledger

import (
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// carriedOut says whether the row confirms the effect.
func (s StepRow) carriedOut() bool { return s.HasReceipt || s.Status == StepAlreadyExists }

// unknown says whether nobody knows if a call under this row took effect. It
// is the same judgement as that of the reader, for rows that promise intents.
func (s StepRow) unknown() bool {
	failed := s.Status == StepFailedTransient || s.Status == StepFailedPermanent
	switch {
	case s.Class == EffectFree && s.Unreadable == "", s.carriedOut():
		return false
	case s.Unreadable != "":
		return true
	}
	return s.Status != StepPlanned && (!failed || !s.NothingChanged)
}

// verdict is what the rows about a step say about calling it now.
type verdict struct {
	// reuse is the outcome that is there already; no call is made.
	reuse *Result
	// refusal says why the call must not be made.
	refusal error
	// doubtful: an earlier call may have taken effect, and making it again
	// with the same key is safe.
	doubtful bool
	// own is the row to be moved, the zero value if there is none.
	own StepRow
}

// consider judges a call by the rows of all runs. It is what stands between a
// redelivery and a second effect:
//
//   - a receipt for the same input is returned, for another input refused;
//   - an effect in doubt may be called into again only if both the row and the
//     worker say that the tool is idempotent, with the same key and input;
//   - what surely changed nothing may be begun again, with any input.
func consider(seen []StepRow, w work) verdict {
	var v verdict
	for _, s := range seen {
		if s.Entry == EntryStep+w.ID {
			v.own = s
		}
		same := s.InputHash == w.hash
		switch {
		case s.carriedOut() && !same:
			v.refusal = fmt.Errorf("%w: its receipt is for input %.12s, not %.12s", ErrInputMismatch, s.InputHash, w.hash)
			return v
		case s.carriedOut():
			v.reuse = new(s.outcome())
		case s.Class == EffectFree && s.Status == StepSucceeded && s.OutputRef != "" && same:
			v.reuse = &Result{OutputRef: s.OutputRef, Reused: true}
		case !s.unknown():
		case s.Class == EffectIdempotent && w.Class == EffectIdempotent && same && s.IdempotencyKey == w.key:
			v.doubtful = true
		default:
			v.refusal = fmt.Errorf("%w: %s in run %s", ErrAmbiguous, doubt(s), s.RunID)
		}
	}
	if v.reuse != nil {
		// Confirmed by one run: there is nothing to call, whatever another left.
		v.refusal = nil
	}
	return v
}

// sameKey finds a step of the tool that used the key with another input and
// may have taken effect. A tool that honours the key would answer with the
// other input's outcome.
func (r *Run) sameKey(w work) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rows := range r.steps {
		for _, s := range rows {
			if s.StepID != w.ID && s.IdempotencyKey == w.key && s.Tool == w.Tool && s.InputHash != w.hash && (s.carriedOut() || s.unknown()) {
				return fmt.Errorf("%w: step %s used the key with input %.12s", ErrInputMismatch, s.StepID, s.InputHash)
			}
		}
	}
	return nil
}

// Effect is what the ledger knows about the steps that this run has moved: a
// worker's statement about its own run, for a letter that it dead-letters itself.
func (r *Run) Effect() dlqbridge.Effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := dlqbridge.EffectNone
	for _, rows := range r.steps {
		for _, s := range rows {
			switch {
			case s.RunID != r.id:
			case s.unknown() || s.Doubtful && !s.carriedOut():
				return dlqbridge.EffectUnknown
			case s.carriedOut() && s.Class != EffectFree:
				state = dlqbridge.EffectConfirmed
			}
		}
	}
	return state
}
