package gcppubsub

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Defaults of Policy: with these the waits are some 6 s at most, 3 s on
// average, which is longer than a blip of the service and far shorter than the
// lease of a letter in hand.
const (
	DefaultTries = 7
	DefaultBase  = 100 * time.Millisecond
	DefaultMax   = 5 * time.Second
)

// Policy says how calls are tried again that are safe to repeat; sends never
// are. The zero value is a good one.
type Policy struct {
	// Tries is how often a call is made in all; 0 means DefaultTries.
	Tries int
	// Base is the ceiling of the first wait; it doubles up to Max. Each wait is
	// a random share of its ceiling (full jitter). Worked: with the defaults
	// the ceilings are 100, 200, 400, 800 ms, 1.6 and 3.2 s.
	Base, Max time.Duration
	// Wait waits for d or until ctx is done; nil means a timer.
	Wait func(ctx context.Context, d time.Duration) error
	// Random is a number in [0,1); nil means math/rand/v2.
	Random func() float64
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
	if p.Wait == nil {
		p.Wait = wait
	}
	if p.Random == nil {
		p.Random = rand.Float64
	}
	return p
}

// retryEach calls do with the positions that are still to be done, and again
// with those that failed for now; none stands for the others. The answer is by
// position, for all n. When ctx ends while waiting, the last error stands.
func retryEach(ctx context.Context, p Policy, n int, again func(error) bool, do func(ctx context.Context, positions []int) []error) []error {
	p = p.withDefaults()
	results := make([]error, n)
	pending := make([]int, n)
	for i := range pending {
		pending[i] = i
	}
	ceiling := p.Base
	for try := 1; len(pending) > 0; try++ {
		for i, err := range do(ctx, pending) {
			results[pending[i]] = err
		}
		var rest []int
		for _, i := range pending {
			if results[i] != nil && again(results[i]) {
				rest = append(rest, i)
			}
		}
		pending = rest
		if len(pending) == 0 || try >= p.Tries || ctx.Err() != nil {
			break
		}
		if p.Wait(ctx, time.Duration(p.Random()*float64(ceiling))) != nil {
			break
		}
		ceiling = min(2*ceiling, p.Max)
	}
	return results
}

// repeatable is for calls that may be made twice: a lost answer is tried again
// too.
func repeatable(err error) bool { return surely(err) || errors.Is(err, dlqbridge.ErrUnclear) }

// surely is for calls whose lost answer is the caller's business.
func surely(err error) bool {
	return errors.Is(err, dlqbridge.ErrThrottled) || errors.Is(err, dlqbridge.ErrUnavailable)
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
