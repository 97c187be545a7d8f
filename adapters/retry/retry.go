// Package retry makes calls again that failed for now, by what an error means
// in the words of the root package. Each adapter puts its provider's errors into
// those words first; so the loop, its waits and its budgets are one piece. It is
// no adapter itself and knows no SDK, so the rule that adapters never import one
// another stands.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Defaults of Policy, each with its reason.
const (
	// DefaultTries with the waits below is some 11 s at most, 6 s on average:
	// longer than a table's split or a queue's blip, shorter than the default
	// visibility timeout of a queue (30 s), so that letters in hand are kept.
	DefaultTries = 8
	DefaultBase  = 100 * time.Millisecond
	DefaultMax   = 5 * time.Second
	// DefaultCredentialsFor is how long new credentials are waited for: those
	// who rotate a file write it within seconds.
	DefaultCredentialsFor = 30 * time.Second
	credentialsBase       = time.Second // doubles up to DefaultMax
)

// Policy says how a call is tried again. The zero value is a good one.
type Policy struct {
	// Tries is how often a throttled or unavailable call is made in all; 0
	// means DefaultTries, 1 means once.
	Tries int
	// Base is the ceiling of the first wait; it doubles up to Max. Each wait is
	// a random share of its ceiling (full jitter). Worked: with the defaults
	// the ceilings are 100, 200, 400, 800 ms, 1.6, 3.2, 5 s.
	Base, Max time.Duration
	// CredentialsFor is how long ErrCredentials is waited out, by the sum of
	// the waits: 0 means DefaultCredentialsFor, negative means not at all.
	// Worked: 1, 2, 4, 5, 5, 5, 5, 5 s, then no more.
	CredentialsFor time.Duration
	// Renew is called before a call is tried again after ErrCredentials, to
	// make the provider forget what it has; nil is fine.
	Renew func()
	// Repeatable: making the call twice is the same as once, so a lost answer
	// (ErrUnclear) is tried again like a throttled one.
	Repeatable bool
	// Wait waits for d or until ctx is done; nil means a timer. Tests need no
	// real time with their own.
	Wait func(ctx context.Context, d time.Duration) error
	// Random is a number in [0,1); nil means math/rand/v2.
	Random func() float64
}

// Do calls do until it succeeds, fails for good, or the policy is used up,
// and returns the last error. Once an answer of a call that is not Repeatable
// was lost, it is not called again. When ctx ends while waiting, the last
// error is returned together with the context's.
func Do(ctx context.Context, p Policy, do func(context.Context) error) error {
	return Each(ctx, p, 1, func(ctx context.Context, _ []int) []error {
		return []error{do(ctx)}
	})[0]
}

// Each is Do for a batch of n: do is called with the positions that
// are still to be done, ascending, and answers in their order. Only those
// whose error may be tried again are called again; none of them stands for
// the others. The answer is by position, for all n.
func Each(ctx context.Context, p Policy, n int, do func(ctx context.Context, positions []int) []error) []error {
	results := make([]error, n)
	pending := make([]int, n)
	for i := range pending {
		pending[i] = i
	}
	w := waits{policy: p.withDefaults()}
	for len(pending) > 0 {
		for i, err := range do(ctx, pending) {
			results[pending[i]] = err
		}
		var again []int
		var credentials bool
		for _, i := range pending {
			if p.again(results[i]) {
				again = append(again, i)
				credentials = credentials || errors.Is(results[i], dlqbridge.ErrCredentials)
			}
		}
		pending = again
		if len(pending) == 0 || ctx.Err() != nil {
			break
		}
		d, more := w.next(credentials)
		if !more {
			break
		}
		if err := w.policy.Wait(ctx, d); err != nil {
			for _, i := range pending {
				results[i] = stoppedError{results[i], err}
			}
			break
		}
		if credentials && p.Renew != nil {
			p.Renew()
		}
	}
	return results
}

// stoppedError is the last error of a call whose next try the context ended.
type stoppedError struct{ last, context error }

// Error implements error.
func (e stoppedError) Error() string {
	return e.last.Error() + "; not tried again: " + e.context.Error()
}

// Unwrap keeps the last error's meaning and the context's.
func (e stoppedError) Unwrap() []error { return []error{e.last, e.context} }

// again says whether the policy allows another try after err.
func (p Policy) again(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, dlqbridge.ErrUnclear):
		// A context's error in here is one of a call's own deadline: that the
		// caller's context lives on, Each has seen to.
		return p.Repeatable
	case errors.Is(err, dlqbridge.ErrCredentials):
		return p.CredentialsFor >= 0
	}
	return dlqbridge.Retryable(err)
}

func (p Policy) withDefaults() Policy {
	if p.Tries == 0 {
		p.Tries = DefaultTries
	}
	if p.Base == 0 {
		p.Base = DefaultBase
	}
	if p.Max == 0 {
		p.Max = DefaultMax
	}
	if p.CredentialsFor == 0 {
		p.CredentialsFor = DefaultCredentialsFor
	}
	if p.Wait == nil {
		p.Wait = wait
	}
	if p.Random == nil {
		p.Random = rand.Float64
	}
	return p
}

// waits counts the two budgets of one call: tries, and time for credentials.
// Waiting for credentials uses no tries, so that what follows has them all.
type waits struct {
	policy        Policy
	failed        int
	renewals      int
	forCredential time.Duration
}

// next is how long to wait before the next try; more is false when there is none.
func (w *waits) next(credentials bool) (d time.Duration, more bool) {
	p := w.policy
	if credentials {
		if w.forCredential >= p.CredentialsFor {
			return 0, false
		}
		// No jitter below the ceiling: the budget is a time, and it must be
		// long enough for whoever writes the new ones.
		d = min(doubled(credentialsBase, w.renewals, DefaultMax), p.CredentialsFor-w.forCredential)
		w.renewals++
		w.forCredential += d
		return d, true
	}
	w.failed++
	if w.failed >= p.Tries {
		return 0, false
	}
	return time.Duration(p.Random() * float64(doubled(p.Base, w.failed-1, p.Max))), true
}

// doubled is base, doubled times times, at most limit.
func doubled(base time.Duration, times int, limit time.Duration) time.Duration {
	for range times {
		if base >= limit {
			break
		}
		base *= 2
	}
	return min(base, limit)
}

// wait is the Wait of a Policy that has none.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
