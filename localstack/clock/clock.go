// Package clock is the local cloud's idea of time: the base clock (the real
// one, or the virtual one inside testing/synctest) plus whatever the control
// interface has advanced it by. Waits end early when the clock is advanced, so
// a visibility timeout of twelve hours passes as soon as somebody says so.
package clock

import (
	"context"
	"sync"
	"time"
)

// Clock tells the cloud's time. The zero value is not usable; see New.
// All methods may be called concurrently.
type Clock struct {
	base func() time.Time

	mu     sync.Mutex
	offset time.Duration
	moved  chan struct{} // closed and replaced by each Advance
}

// New returns a clock over base; nil means time.Now.
func New(base func() time.Time) *Clock {
	if base == nil {
		base = time.Now //nolint:forbidigo // this is where the time comes from
	}
	return &Clock{base: base, moved: make(chan struct{})}
}

// Now is the cloud's time in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base().UTC().Add(c.offset)
}

// Advance moves the clock forward by d (a negative d is ignored: the cloud's
// time never runs backwards) and wakes every Wait.
func (c *Clock) Advance(d time.Duration) {
	if d <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
	close(c.moved)
	c.moved = make(chan struct{})
}

// Wait returns nil when the clock reaches until (at once if it has), or when
// wake delivers or is closed (nil never does); it returns ctx's error if ctx
// ends first. Callers look at their state again after each return.
func (c *Clock) Wait(ctx context.Context, until time.Time, wake <-chan struct{}) error {
	for {
		c.mu.Lock()
		left := until.Sub(c.base().UTC().Add(c.offset))
		moved := c.moved
		c.mu.Unlock()
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-moved:
		case <-wake:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}
