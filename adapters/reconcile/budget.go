package reconcile

import (
	"sync"
	"time"
)

// budget is a token bucket. Half of the calls of a minute may come at once, the
// other half trickles in, so that no 60 seconds see more than all of them: 600
// a minute are at most 300 at once and 5 a second.
type budget struct {
	mu     sync.Mutex
	burst  float64
	refill float64 // tokens per minute
	tokens float64
	last   time.Time
}

func newBudget(perMinute int) *budget {
	burst := max(perMinute/2, 1)
	refill := max(perMinute-burst, 1) // one a minute: the next comes when that one's minute is over
	return &budget{burst: float64(burst), refill: float64(refill), tokens: float64(burst)}
}

// take takes one call's token if there is one. A clock that goes back gives none.
func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.last); b.last.IsZero() || passed > 0 {
		if !b.last.IsZero() {
			b.tokens = min(b.burst, b.tokens+b.refill*passed.Minutes())
		}
		b.last = now
	}
	// A hair below one is one: many small refills add up to 0.9999….
	if b.tokens < 1-1e-9 {
		return false
	}
	b.tokens = max(b.tokens-1, 0)
	return true
}
