package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Provider is what letters of this package name as their provider.
const Provider dlqbridge.Provider = "memory"

// Op names a request to the queue.
type Op string

// The requests.
const (
	OpReceive Op = "receive"
	OpDelete  Op = "delete"
	OpHide    Op = "hide"
	OpDepth   Op = "depth"
	OpFacts   Op = "facts"
	OpSend    Op = "send"
)

// Call is a request, or one entry of it, that is about to be carried out.
type Call struct {
	Op Op
	// Entry is the position in the batch; -1 stands for the request as a whole,
	// which is asked about first.
	Entry int
}

// Options describe a queue; the zero value is a standard queue with the limits
// of Amazon SQS.
type Options struct {
	// Place is the queue's URN; empty means "memory:queue".
	Place string
	// Source is what its letters say about where the work belongs.
	Source string
	// Provider is what its letters call their provider; empty means Provider.
	Provider dlqbridge.Provider
	// FIFO: in order within a group, repeats swallowed by deduplication id.
	FIFO bool
	// Visibility is how long a receive hides a letter; zero means 30 s.
	Visibility time.Duration
	// Retention is from a message's sending to its LostAt; zero means 4 days.
	// Nothing is ever dropped.
	Retention time.Duration
	// Limits: zero means 1 MiB, 1 MiB, 10 and 10.
	MaxBytes, BatchBytes, BatchCount, MaxAttributes int
	// MaxReceives and DeadLetterPlace are only stated in the facts.
	MaxReceives     int
	DeadLetterPlace string
	// Now tells the time; nil means time.Now.
	Now func() time.Time
	// Fault, if set, is asked before each request and then before each of its
	// entries. An error is the answer and nothing is done, except that after
	// dlqbridge.ErrUnclear everything is done and the answer lost. It may wait
	// for the context's end. Calls may be concurrent.
	Fault func(context.Context, Call) error
}

// Queue is one queue. Calls may be concurrent.
type Queue struct {
	o Options

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when there may be something to receive
	messages []*message    // in the order of sending
	last     int           // number of the last message
	dedup    map[string]sent
	requests map[Op]int
}

var (
	_ dlqbridge.DeadLetters = (*Queue)(nil)
	_ dlqbridge.Destination = (*Queue)(nil)
)

type message struct {
	id         string
	out        dlqbridge.Outgoing
	sentAt     time.Time
	deliveries int
	visibleAt  time.Time
}

// sent is what a deduplication id stands for.
type sent struct {
	id string
	at time.Time
}

// dedupWindow is how long a FIFO queue swallows repeats, as Amazon SQS does.
const dedupWindow = 5 * time.Minute

// New makes an empty queue.
func New(o Options) *Queue {
	or := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	or(&o.MaxBytes, 1<<20)
	or(&o.BatchBytes, 1<<20)
	or(&o.BatchCount, 10)
	or(&o.MaxAttributes, 10)
	if o.Place == "" {
		o.Place = "memory:queue"
	}
	if o.Provider == "" {
		o.Provider = Provider
	}
	if o.Visibility == 0 {
		o.Visibility = 30 * time.Second
	}
	if o.Retention == 0 {
		o.Retention = 4 * 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the clock where none was given
	}
	if o.Fault == nil {
		o.Fault = func(context.Context, Call) error { return nil }
	}
	return &Queue{o: o, changed: make(chan struct{}), dedup: map[string]sent{}, requests: map[Op]int{}}
}

// begin counts a request and says whether it goes on (err nil) and whether its
// answer gets lost.
func (q *Queue) begin(ctx context.Context, op Op) (lost, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: not begun: %w", dlqbridge.ErrUnavailable, err)
	}
	q.mu.Lock()
	q.requests[op]++
	q.mu.Unlock()
	switch err := q.o.Fault(ctx, Call{op, -1}); {
	case errors.Is(err, dlqbridge.ErrUnclear):
		return err, nil
	default:
		return nil, err
	}
}

// Requests is how many requests of that kind were made.
func (q *Queue) Requests(op Op) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.requests[op]
}

// Messages lists what the queue holds, received or not, oldest first.
func (q *Queue) Messages() []dlqbridge.Outgoing {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []dlqbridge.Outgoing
	for _, m := range q.messages {
		out = append(out, clone(m.out))
	}
	return out
}

// wake tells those who wait to look again. The caller holds the lock.
func (q *Queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// clone copies everything that a payload refers to.
func clone(o dlqbridge.Outgoing) dlqbridge.Outgoing {
	o.Payload.Body = bytes.Clone(o.Payload.Body)
	o.Payload.Attributes = slices.Clone(o.Payload.Attributes)
	for i, a := range o.Payload.Attributes {
		o.Payload.Attributes[i].Value = bytes.Clone(a.Value)
	}
	return o
}

// receipt names a delivery: the message and which of its deliveries it was.
func (m *message) receipt() string { return m.id + "/" + strconv.Itoa(m.deliveries) }
