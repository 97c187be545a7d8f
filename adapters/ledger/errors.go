package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Why Begin refuses a run. [Acknowledge] says what to do with the message.
var (
	// ErrCompleted: the task is done.
	ErrCompleted = errors.New("the task is completed")
	// ErrBusy: another run of the task may be going; a *BusyError says until when.
	ErrBusy = errors.New("another run of the task may be going")
	// ErrDuplicate: this is another copy of a send that was run already, or a
	// copy of an older one.
	ErrDuplicate = errors.New("another copy of this redrive was run already")
	// ErrRedriveRan: a run without the kit has used this redrive number, and
	// nobody can tell whether by this message or by another copy.
	ErrRedriveRan = errors.New("this redrive number was run already")
	// ErrExpired: the task has lost its sense, so nothing of it may begin any more.
	ErrExpired = errors.New("the task is past its valid_until")
	// ErrAttemptLimit: the task has had all its attempts.
	ErrAttemptLimit = errors.New("the task has used up its attempts")
)

// Why a run or a step stops.
var (
	// ErrLeaseLost: the run is no longer the task's active one. Nothing more
	// may be begun; the message must not be acknowledged.
	ErrLeaseLost = errors.New("the run has lost its lease")
	// ErrRunOver: the run was completed, failed or closed before.
	ErrRunOver = errors.New("the run is over")
	// ErrAmbiguous: a call was begun and nobody knows whether it took effect.
	// It is not repeated; a person or the outside system must say.
	ErrAmbiguous = errors.New("nobody knows whether the step took effect")
	// ErrInputMismatch: the step has a receipt for another input, or its
	// idempotency key was used with one.
	ErrInputMismatch = errors.New("the step was carried out with another input")
	// ErrNotSaved: the call succeeded and its outcome could not be written
	// down, so that the ledger says that nobody knows.
	ErrNotSaved = errors.New("the outcome of the step could not be saved")
)

// BusyError is ErrBusy with what is known about the other run.
type BusyError struct {
	Run, Owner string
	// Until is when its lease ends if it is not renewed. A good worker makes
	// the message invisible until then; otherwise each refusal costs a delivery.
	Until time.Time
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("run %s (%s) may be going until %s", e.Run, e.Owner, dlqbridge.FormatTime(e.Until))
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Acknowledge says whether a message that Begin refused with err is to be
// acknowledged: its work is done, or is another copy's. All others must come
// back or be dead-lettered.
func Acknowledge(err error) bool {
	return errors.Is(err, ErrCompleted) || errors.Is(err, ErrDuplicate)
}

// fault is what a tool says about its error. The helpers below can be combined:
// NothingChanged(Transient(err)).
type fault struct {
	err       error
	transient bool
	permanent bool
	unchanged bool
	cause     dlqbridge.Cause
	code      string
}

// Error implements error.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap gives errors.Is and errors.As the tool's own error.
func (f *fault) Unwrap() error { return f.err }

// Transient marks an error that may be gone by itself: the call is made again,
// after a wait, with the same key, where repeating it is safe.
func Transient(err error) error { return &fault{err: err, transient: true} }

// Permanent marks an error that no further try will change.
func Permanent(err error) error { return &fault{err: err, permanent: true} }

// NothingChanged marks an error of which the tool itself knows that nothing
// changed outside: the request was refused, or never sent. It is a promise:
// on its word the call may be repeated and the task sent back.
func NothingChanged(err error) error { return &fault{err: err, unchanged: true} }

// WithCause names the cause of an error, one of dlqbridge.Causes, and its code.
func WithCause(err error, cause dlqbridge.Cause, code string) error {
	return &fault{err: err, cause: cause, code: code}
}

// faultOf gathers what all marks around an error say.
func faultOf(err error) fault {
	all := fault{err: err}
	for {
		f, ok := errors.AsType[*fault](err)
		if !ok {
			return all
		}
		all.transient = all.transient || f.transient
		all.permanent = all.permanent || f.permanent
		all.unchanged = all.unchanged || f.unchanged
		if all.cause == "" {
			all.cause = f.cause
		}
		if all.code == "" {
			all.code = f.code
		}
		err = f.err
	}
}

// StepError is how a step that did not succeed reports: where, and what is
// known of its effect.
type StepError struct {
	Step, Tool, Dependency string
	// Phase is one of PhaseBefore, PhaseDuring, PhaseAfter.
	Phase string
	// Effect is what is known about the step, this run and earlier ones.
	Effect dlqbridge.Effect
	Cause  dlqbridge.Cause
	Code   string
	// Transient: the error may be gone by itself.
	Transient bool
	Err       error
}

// Error implements error.
func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step, e.Err) }

// Unwrap gives errors.Is and errors.As what went wrong.
func (e *StepError) Unwrap() error { return e.Err }

// FailureOf puts an error into the words of the header's last_error. What
// WithCause says around a step's error goes before what the step's own error
// says; but an error that left the effect in doubt has the cause
// ambiguous_effect, whatever anybody calls it.
func FailureOf(err error) LastError {
	e, ok := errors.AsType[*StepError](err)
	if !ok {
		f := faultOf(err)
		return LastError{Class: string(f.cause), Code: f.code, Message: dlqbridge.CutText(err.Error(), maxText)}
	}
	cause, code := e.Cause, e.Code
	if f := faultOf(err); cause != dlqbridge.CauseAmbiguousEffect {
		cause, code = cmp.Or(f.cause, cause), cmp.Or(f.code, code)
	}
	retryable := e.Transient && e.Effect == dlqbridge.EffectNone
	return LastError{
		Class: string(cause), Code: code, Message: dlqbridge.CutText(e.Err.Error(), maxText),
		Step: e.Step, Tool: e.Tool, Dependency: e.Dependency, Retryable: &retryable, Phase: e.Phase,
	}
}
