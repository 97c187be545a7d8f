package dlqbridge

import (
	"errors"
	"fmt"
	"time"
)

// What an error means to the code that has to go on. Adapters wrap both the
// meaning and the cause: fmt.Errorf("%w: %w", ErrNotFound, err). Callers ask
// with errors.Is, never by text.
var (
	// ErrNotFound: the named queue, table, record or payload does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: it is there already; nothing was changed.
	ErrExists = errors.New("exists already")
	// ErrConflict: somebody else moved first; read again and decide again.
	ErrConflict = errors.New("changed meanwhile")
	// ErrThrottled: refused for now and surely not carried out; try again later.
	ErrThrottled = errors.New("throttled")
	// ErrUnavailable: the service could not be reached and the call was surely
	// not carried out; try again later.
	ErrUnavailable = errors.New("unavailable")
	// ErrCredentials: the caller's credentials are missing or expired; new ones
	// may appear, so a bounded number of tries makes sense.
	ErrCredentials = errors.New("credentials missing or expired")
	// ErrDenied: the caller may not do this; trying again does not help.
	ErrDenied = errors.New("denied")
	// ErrTooLarge: over a size limit of the service or of this queue.
	ErrTooLarge = errors.New("too large")
	// ErrInvalid: the service refuses this input for good.
	ErrInvalid = errors.New("invalid")
	// ErrUnclear: the answer was lost, so nobody knows whether the call was
	// carried out. Only a call that is safe to repeat may be tried again.
	ErrUnclear = errors.New("answer lost")
)

// Retryable says whether trying the same call again may help and cannot repeat
// an effect: the call was surely not carried out.
func Retryable(err error) bool {
	return errors.Is(err, ErrThrottled) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrCredentials)
}

// MoveError is the refusal of a move that the record's status does not allow.
type MoveError struct {
	ID     string
	Verb   Verb
	Status Status
	// Why is the sentence for the person: what is missing or what would be possible.
	Why string
}

func (e *MoveError) Error() string {
	return fmt.Sprintf("%s %s (status %s): %s", e.Verb, e.ID, e.Status, e.Why)
}

// LeaseHeldError says that another job is sending to this destination.
type LeaseHeldError struct {
	Destination, Job, Holder string
	Until                    time.Time
	// State is the job's where it no longer runs; its process has not given the
	// lease back, or has died. Empty is running, or unknown.
	State JobState
}

func (e *LeaseHeldError) Error() string {
	if e.State != "" {
		return fmt.Sprintf("destination %s was used by job %s (%s), which is %s, and stays its own until %s", e.Destination, e.Job, e.Holder, e.State, FormatTime(e.Until))
	}
	return fmt.Sprintf("destination %s is in use by job %s (%s) until %s", e.Destination, e.Job, e.Holder, FormatTime(e.Until))
}
