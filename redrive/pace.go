package redrive

import (
	"context"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// pace says when messages may go, so that in no window of length w the
// destination gets more than rate·w + burst of them, whatever the network does.
//
// It is GCRA with one addition. A bucket holds burst tokens; its level, what is
// used, drains at the rate and is kept as one time: free is when the bucket
// will have drained (level = (free − now) / interval). A message takes a token
// before it is sent. The addition: the level never drains below the number of
// messages under way. A delayed message may arrive as late as its answer, so
// until then its token cannot be given to another one.
//
// Why that is enough: the arrivals in a window [a, b] are those that were under
// way at a, at most level(a), and those sent inside it, at most
// burst − level(a) + rate·(b − a).
//
// Batches are at most half the burst, so the other half is slack: while the
// network takes less than burst/2 intervals, nothing is lost of the rate.
// Worked: 20/s and burst 10 send batches of 5 each 250 ms, and an answer may
// take 250 ms before the rate drops.
type pace struct {
	now      func() time.Time
	interval time.Duration
	burst    int

	mu       sync.Mutex
	free     time.Time
	underWay int
	// admitted are messages of batches that passed admit and not yet reserve.
	admitted int
	// changed is closed and replaced when waiting may have become shorter.
	changed chan struct{}
}

// lookahead is how long before its turn a batch may pass the gate: as long as
// gate and claim take, so that the rate is kept, and short, so that a hold
// takes effect within one batch.
const lookahead = 100 * time.Millisecond

// newPace goes on where the last holder of the lease stopped. After a takeover
// nobody knows what the dead one still has under way: no token is left.
func newPace(now func() time.Time, r dlqbridge.Rate, burst int, free time.Time, takeover bool) *pace {
	p := &pace{now: now, interval: r.Interval(), burst: max(1, burst), free: free, changed: make(chan struct{})}
	if takeover {
		p.free = later(p.free, now().Add(p.span(p.burst)))
	}
	return p
}

func (p *pace) span(n int) time.Duration { return time.Duration(n) * p.interval }

// batch is how many messages one request should carry at most.
func (p *pace) batch() int { return max(1, p.burst/2) }

// settle raises the level to what is under way. It is called before anything
// reads the level or lowers the number under way, which makes it exact.
func (p *pace) settle(now time.Time) {
	p.free = later(p.free, now)
	if p.underWay > 0 {
		p.free = later(p.free, now.Add(p.span(p.underWay)))
	}
}

// admit waits until n messages will be due soon, and counts them as coming. The
// caller then calls reserve or withdraw for each of them.
func (p *pace) admit(ctx context.Context, n int) error {
	return p.wait(ctx, func(now time.Time) time.Duration {
		due := p.free.Add(p.span(p.admitted+n-p.burst) - lookahead)
		if w := due.Sub(now); w > 0 {
			return w
		}
		p.admitted += n
		return 0
	})
}

// withdraw takes back n admitted messages that will not be sent.
func (p *pace) withdraw(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.admitted -= n
	p.wake()
}

// reserve waits until n messages may go and takes their tokens. They are under
// way until arrived or refund. Of them admit has counted so many as admitted says.
func (p *pace) reserve(ctx context.Context, n, admitted int) error {
	return p.wait(ctx, func(now time.Time) time.Duration {
		if w := p.free.Add(p.span(n - p.burst)).Sub(now); w > 0 {
			return w
		}
		p.free = p.free.Add(p.span(n))
		p.underWay += n
		p.admitted -= admitted
		return 0
	})
}

// arrived says that n messages are no longer under way.
func (p *pace) arrived(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.now())
	p.underWay -= n
	p.wake()
}

// refund gives back the tokens of n messages that were never handed over.
func (p *pace) refund(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.now())
	p.underWay -= n
	p.free = p.free.Add(-p.span(n))
	p.wake()
}

// nextFree is the state to journal.
func (p *pace) nextFree() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.now())
	return p.free
}

func (p *pace) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait calls try under the lock until it returns 0.
func (p *pace) wait(ctx context.Context, try func(now time.Time) time.Duration) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.mu.Lock()
		now := p.now()
		p.settle(now)
		w := try(now)
		changed := p.changed
		p.mu.Unlock()
		if w <= 0 {
			return nil
		}
		t := time.NewTimer(w)
		select {
		case <-t.C:
		case <-changed:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
