package gocdk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"gocloud.dev/pubsub"

	"github.com/dlqbridge/dlqbridge"
)

// DeadLetters is one dead-letter place behind a URL.
type DeadLetters struct {
	o     Options
	place string

	mu           sync.Mutex
	subscription *pubsub.Subscription // nil after a permanent error, until the next Receive
	generation   int                  // counts subscriptions
	last         int                  // number of the last letter
	held         map[int]*delivery
	swept        time.Time
}

var _ dlqbridge.DeadLetters = (*DeadLetters)(nil)

// Open opens the URL. Most drivers ask the broker only with the first Receive.
func Open(ctx context.Context, o Options) (*DeadLetters, error) {
	o, place, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &DeadLetters{o: o, place: place, held: map[int]*delivery{}}
	_, _, err = d.current(ctx)
	return d, err
}

// WeakAcknowledgement says in a sentence what Delete does not promise here.
func (d *DeadLetters) WeakAcknowledgement() string {
	return "acknowledgements are made in the background and not confirmed: a failed one shows with a later receive, and the letter comes again"
}

// Place implements dlqbridge.DeadLetters: the URL without credentials.
func (d *DeadLetters) Place() string { return d.place }

// current is the subscription, opened anew if the last one has failed.
func (d *DeadLetters) current(ctx context.Context) (*pubsub.Subscription, int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.subscription == nil {
		// What the library opens lives for longer than this call.
		s, err := d.o.Mux.OpenSubscription(context.WithoutCancel(ctx), d.o.URL)
		if err != nil {
			return nil, 0, openError(err, d.o.URL, d.place)
		}
		d.subscription = s
		d.generation++
	}
	return d.subscription, d.generation, nil
}

// closeWithin bounds the end of a failed subscription.
const closeWithin = 5 * time.Second

// failed forgets a subscription that gives nothing more. Its letters are lost to
// us and come again: an acknowledgement could not be sent any more.
func (d *DeadLetters) failed(ctx context.Context, generation int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	d.mu.Lock()
	s := d.subscription
	if s == nil || d.generation != generation {
		d.mu.Unlock()
		return // another receiver has seen it first
	}
	d.subscription = nil
	over := d.held
	d.held = map[int]*delivery{}
	d.mu.Unlock()
	// Only frees what it holds: its error is the one we have seen.
	_ = s.Shutdown(ctx)
	// Nothing is sent any more; the library only wants to be told.
	giveBack(over)
}

func giveBack(held map[int]*delivery) {
	for _, h := range held {
		if h.message != nil && h.message.Nackable() {
			h.message.Nack()
		}
	}
}

// Close ends the subscription: pending acknowledgements are sent, and letters
// still in hand are given back, where the driver can.
func (d *DeadLetters) Close(ctx context.Context) error {
	d.mu.Lock()
	s := d.subscription
	d.subscription = nil
	giveBack(d.held)
	clear(d.held)
	d.mu.Unlock()
	if s == nil {
		return nil
	}
	if err := s.Shutdown(ctx); err != nil {
		return fmt.Errorf("close %s: %w", d.place, wrap(err, dlqbridge.ErrUnclear))
	}
	return nil
}

// Receive implements dlqbridge.DeadLetters. An acknowledgement that failed in
// the background is among its errors.
func (d *DeadLetters) Receive(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("receive from %s: %w: not begun: %w", d.place, dlqbridge.ErrUnavailable, err)
	}
	s, generation, err := d.current(ctx)
	if err != nil {
		return nil, err
	}
	var letters []dlqbridge.Letter
	for wait = max(wait, d.o.Gather); len(letters) < limit; wait = d.o.Gather {
		waiting, cancel := context.WithTimeout(ctx, wait)
		m, err := s.Receive(waiting)
		over := waiting.Err() != nil
		cancel()
		switch {
		case err == nil:
			letters = append(letters, d.letter(m, generation))
			continue
		case over && ctx.Err() == nil, len(letters) > 0:
			// Time is up; or what is in hand goes first, and a permanent error
			// is there again next time.
			return letters, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("receive from %s: %w", d.place, ctx.Err())
		}
		d.failed(ctx, generation)
		return nil, fmt.Errorf("receive from %s: %w", d.place, wrap(err, dlqbridge.ErrUnclear))
	}
	return letters, nil
}

// letter takes a message into our hands.
func (d *DeadLetters) letter(m *pubsub.Message, generation int) dlqbridge.Letter {
	now := d.o.Now().UTC()
	l := dlqbridge.Letter{
		Provider:   Provider,
		Place:      d.place,
		Payload:    dlqbridge.Payload{Body: m.Body},
		System:     map[string]string{"loggable_id": m.LoggableID},
		ReceivedAt: now,
	}
	for name, value := range m.Metadata {
		l.Payload.Attributes = append(l.Payload.Attributes, dlqbridge.Attribute{Name: name, Type: typeString, Value: []byte(value)})
	}
	l.Payload.Normalize()
	// LoggableID is no identity: drivers number deliveries of one connection.
	sum := sha256.Sum256(l.Payload.Encode())
	l.MessageID = "content-" + hex.EncodeToString(sum[:16])
	if d.o.Describe != nil {
		d.o.Describe(m, &l)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	if generation == d.generation {
		d.held[d.last] = &delivery{message: m, at: now}
	}
	d.sweep(now)
	l.Receipt = receipt{generation, d.last, now}.String()
	return l
}

// errNoDepth is the answer about counters.
var errNoDepth = errors.New("the Go CDK has no counters")

// Depth implements dlqbridge.DeadLetters: the library cannot say, and zero
// would say empty.
func (d *DeadLetters) Depth(context.Context) (dlqbridge.Depth, error) {
	return dlqbridge.Depth{}, fmt.Errorf("depth of %s: %w: %w", d.place, dlqbridge.ErrInvalid, errNoDepth)
}
