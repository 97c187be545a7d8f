package ledger

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"
)

// Defaults of Options, each with its reason.
const (
	// DefaultLease bounds how long a crashed run blocks the next one. It is
	// renewed at a third, so that two renewals may fail.
	DefaultLease = time.Minute
	// DefaultFinish is how long the outcome of a call that was made is written
	// for, even while the worker is being stopped.
	DefaultFinish = 10 * time.Second
	// DefaultTries and the waits below outlive a dependency's blip and end
	// well before a lease or a visibility timeout would matter.
	DefaultTries       = 4
	DefaultBackoffBase = 500 * time.Millisecond
	DefaultBackoffMax  = 15 * time.Second
)

// Options are the choices of a Kit.
type Options struct {
	// Client and Table are required.
	Client Client
	Table  string
	// Owner says which process this is, for people; empty means host and pid.
	Owner string
	// Lease is how long a run is taken to be going after its last renewal; 0
	// means DefaultLease. Keep it at or under the queue's visibility timeout:
	// otherwise the broker redelivers a crashed run's message while the lease
	// still stands, and each refusal costs one of its deliveries.
	Lease time.Duration
	// MaxRun is how long a header that says running without a lease, written
	// by others, blocks a run after its last sign of life; 0 means DefaultMaxRun.
	MaxRun time.Duration
	// MaxAttempts is how many runs one send may have; 0 means that only the
	// broker's receive limit counts. A redrive is a new send.
	MaxAttempts int
	// Backoff is how transient failures are waited out.
	Backoff Backoff
	// Finish bounds writing down what happened; 0 means DefaultFinish.
	Finish time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Backoff is how a call that failed transiently is tried again: after a
// random share of Base, doubled with each try up to Max (full jitter).
type Backoff struct {
	// Tries is how often a call is made in all within one run; 0 means
	// DefaultTries.
	Tries int
	// Base and Max are the waits' ceilings; 0 means DefaultBackoffBase and
	// DefaultBackoffMax. Worked: 0.5, 1, 2 s.
	Base, Max time.Duration
}

// Kit begins runs of tasks. It may be used concurrently.
type Kit struct {
	o     Options
	table table
}

// NewKit returns a Kit; an error names the option that is missing or wrong.
func NewKit(o Options) (*Kit, error) {
	switch {
	case o.Client == nil:
		return nil, errors.New("ledger: Client is required")
	case o.Table == "":
		return nil, errors.New("ledger: Table is required")
	case o.Lease < 0 || o.MaxRun < 0 || o.Finish < 0 || o.Backoff.Base < 0 || o.Backoff.Max < 0:
		return nil, errors.New("ledger: Lease, MaxRun, Finish and the Backoff's times cannot be negative")
	case o.MaxAttempts < 0 || o.Backoff.Tries < 0:
		return nil, errors.New("ledger: MaxAttempts and Backoff.Tries cannot be negative")
	}
	if o.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		o.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	setDefault(&o.Lease, DefaultLease)
	setDefault(&o.MaxRun, DefaultMaxRun)
	setDefault(&o.Finish, DefaultFinish)
	setDefault(&o.Backoff.Base, DefaultBackoffBase)
	setDefault(&o.Backoff.Max, DefaultBackoffMax)
	if o.Backoff.Tries == 0 {
		o.Backoff.Tries = DefaultTries
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	return &Kit{o: o, table: table{client: o.Client, name: o.Table, retry: retryPolicy(o.Client)}}, nil
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}

func (k *Kit) now() time.Time { return k.o.Now().UTC() }

// newToken is a text that nobody else has.
func newToken() string { return rand.Text() }
