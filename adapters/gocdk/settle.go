package gocdk

import (
	"context"
	"fmt"
	"time"

	"gocloud.dev/pubsub"

	"github.com/dlqbridge/dlqbridge"
)

// delivery is a letter in our hands, or one that was given back.
type delivery struct {
	message *pubsub.Message // nil once given back
	at      time.Time
}

const (
	// For keepFor a letter in hand is remembered that nobody
	// settles: longer than any broker's timeout that we know of.
	keepFor = 12 * time.Hour
	// Every sweepEvery those that are older are looked for.
	sweepEvery = time.Minute
)

// sweep forgets what is older than keepFor. The caller holds the lock.
func (d *DeadLetters) sweep(now time.Time) {
	if now.Sub(d.swept) < sweepEvery {
		return
	}
	d.swept = now
	for n, h := range d.held {
		if now.Sub(h.at) > keepFor {
			delete(d.held, n)
		}
	}
}

// receipt names a delivery: of which subscription, its number, and when.
type receipt struct {
	generation, number int
	at                 time.Time
}

// String writes the receipt as readReceipt reads it.
func (r receipt) String() string {
	return fmt.Sprintf("%d.%d.%d", r.generation, r.number, r.at.UnixMilli())
}

func readReceipt(text string) (r receipt, err error) {
	var ms int64
	if n, err := fmt.Sscanf(text, "%d.%d.%d", &r.generation, &r.number, &ms); n != 3 || err != nil {
		return r, fmt.Errorf("%w: not a receipt of this adapter", dlqbridge.ErrInvalid)
	}
	r.at = time.UnixMilli(ms)
	return r, nil
}

// Delete implements dlqbridge.DeadLetters, weakly: nil says that the library
// has been told.
func (d *DeadLetters) Delete(ctx context.Context, letters []dlqbridge.Letter) []error {
	// By now each letter is durable elsewhere; one whose acknowledgement fails
	// or dies with the process comes again and is recognised.
	return d.settle(ctx, "delete", letters, func(n int, h *delivery) error {
		if h.message == nil {
			return ErrReceiveOver
		}
		h.message.Ack()
		delete(d.held, n)
		return nil
	})
}

// Hide implements dlqbridge.DeadLetters for 0 where the driver can give back;
// anything else is ErrInvalid.
func (d *DeadLetters) Hide(ctx context.Context, letters []dlqbridge.Letter, by time.Duration) []error {
	return d.settle(ctx, "hide", letters, func(_ int, h *delivery) error {
		switch {
		case h.message == nil:
			return ErrReceiveOver
		case by > 0:
			return fmt.Errorf("%w: the Go CDK cannot hide a letter for longer", dlqbridge.ErrInvalid)
		case !h.message.Nackable():
			return fmt.Errorf("%w: this driver cannot give a letter back", dlqbridge.ErrInvalid)
		}
		h.message.Nack()
		h.message = nil
		return nil
	})
}

// settle does something to each letter in hand. One that is no longer there,
// but was of this subscription, has been deleted.
func (d *DeadLetters) settle(ctx context.Context, verb string, letters []dlqbridge.Letter, do func(n int, h *delivery) error) []error {
	results := make([]error, len(letters))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, l := range letters {
		if err := d.settleOne(ctx, l.Receipt, do); err != nil {
			results[i] = fmt.Errorf("%s letter %s of %s: %w", verb, l.MessageID, d.place, err)
		}
	}
	return results
}

func (d *DeadLetters) settleOne(ctx context.Context, text string, do func(n int, h *delivery) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: not begun: %w", dlqbridge.ErrUnavailable, err)
	}
	r, err := readReceipt(text)
	if err != nil {
		return err
	}
	if d.subscription == nil || r.generation != d.generation || d.o.Now().Sub(r.at) > keepFor {
		return ErrReceiveOver
	}
	if h, ok := d.held[r.number]; ok {
		return do(r.number, h)
	}
	return nil
}
