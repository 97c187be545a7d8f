package enrich

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

const (
	// KeepAfter is when a batch that is not done is kept in hand for the first
	// time: well before the 30 s for which SQS hides letters by default. A batch
	// that is done sooner costs no call. On a place that hides for longer the
	// letters come back sooner if the process dies, which loses nothing.
	keepAfter = 10 * time.Second
	// KeepFirst doubles up to keepLast, and each extension is made when a third
	// of the one before has passed: a long outage costs few calls, and after a
	// crash letters come again within minutes.
	keepFirst = 45 * time.Second
	keepLast  = 6 * time.Minute
	// KeepCall bounds one extension, so that a dead network cannot pile them up.
	keepCall = 10 * time.Second
)

// keeper extends the time in hand of letters that are not stored yet. The
// adapter caps the sum at what the provider allows (twelve hours on SQS); after
// that, or when the handle is no longer good, the letter is lost to us: let go,
// never deleted, and received again later.
type keeper struct {
	letters dlqbridge.DeadLetters
	ctx     context.Context //nolint:containedctx // of the timer's own calls, which nobody passes one to

	mu    sync.Mutex
	open  []*parcel
	by    time.Duration // the next extension's length
	timer *time.Timer
}

// keep begins to keep parcels. The timer's function runs on a goroutine of its
// own, which release and stop wait for by the mutex.
func keep(ctx context.Context, letters dlqbridge.DeadLetters, open []*parcel) *keeper {
	k := &keeper{letters: letters, ctx: ctx, open: open, by: keepFirst}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(keepAfter, k.extend)
	return k
}

func (k *keeper) extend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.open) == 0 || k.ctx.Err() != nil {
		return
	}
	var letters []dlqbridge.Letter
	for _, p := range k.open {
		letters = append(letters, p.letter)
	}
	ctx, cancel := context.WithTimeout(k.ctx, keepCall)
	defer cancel()
	// Dying before or after this call only moves the time at which the letters
	// come again.
	for i, err := range k.letters.Hide(ctx, letters, k.by) {
		if errors.Is(err, dlqbridge.ErrNotFound) {
			k.open[i].lost.Store(true)
		}
	}
	k.timer.Reset(k.by / 3)
	k.by = min(2*k.by, keepLast)
}

// set says which parcels are still to be kept.
func (k *keeper) set(open []*parcel) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = open
}

// stop ends keeping; no call is under way when it returns.
func (k *keeper) stop() {
	k.set(nil)
	k.timer.Stop()
}
