package dlqbridge

import (
	"context"
	"time"
)

// Provider is the broker a letter comes from.
type Provider string

// The brokers.
const (
	SQS    Provider = "sqs"
	PubSub Provider = "pubsub"
)

// Letter is one dead-lettered message exactly as the provider handed it over.
type Letter struct {
	Provider Provider
	// Place is the URN of the dead-letter place it was received from: a queue
	// ARN or a subscription's resource name.
	Place string
	// Source is the URN of where the work belongs as the transport states it
	// (SQS: DeadLetterQueueSourceArn); empty if the transport says nothing.
	// Nothing a sender can write ever ends up here.
	Source string
	// MessageID is the provider's id of this message.
	MessageID string
	// Payload is what the producer sent: body, user attributes, group key.
	Payload Payload
	// TraceHeader is SQS's AWSTraceHeader, empty if there is none.
	TraceHeader string
	// System holds the provider's own attributes as it spelled them.
	System map[string]string
	// Deliveries counts receives over all queues, this one included; on Pub/Sub
	// those that made its source give it up, since a dead-letter subscription
	// does not count. Nil is unknown.
	Deliveries *int
	// SentAt is when the provider first took the message (SQS standard: kept by
	// the move into the dead-letter queue; FIFO: renewed; Pub/Sub: the first
	// publishing, of which forwarded copies tell). Zero is unknown.
	SentAt time.Time
	// ReceivedAt is when this process got it.
	ReceivedAt time.Time
	// LostAt is when the provider would drop it; zero is unknown.
	LostAt time.Time
	// Receipt is the adapter's handle for this delivery; no other code reads it.
	Receipt string
}

// DeadLetters is one dead-letter place to read from. Calls may be concurrent;
// arguments are not kept after a call returns.
type DeadLetters interface {
	// Place is the URN of the place, known once the adapter is open.
	Place() string
	// Receive waits at most wait for letters and returns at most limit of them
	// (limit ≤ 10 is always accepted). No letters and no error is a normal
	// answer and does not prove the place empty. Each returned letter is
	// hidden from other receivers for the place's own visibility timeout.
	Receive(ctx context.Context, limit int, wait time.Duration) ([]Letter, error)
	// Delete removes letters for good and answers by position; nil is done.
	// Deleting twice is fine. The adapter tries throttled entries again itself.
	Delete(ctx context.Context, letters []Letter) []error
	// Hide hides letters for d from now, at most as long as the provider
	// allows from their receive; 0 gives them back at once. By position.
	Hide(ctx context.Context, letters []Letter, d time.Duration) []error
	// Depth reads the place's counters, which are approximate; a provider
	// without counters answers Depth.Unknown.
	Depth(ctx context.Context) (Depth, error)
}

// Depth is how many messages a place holds, by the provider's own counters.
type Depth struct {
	// Unknown: the provider has no counters to ask (Pub/Sub); all numbers are
	// zero and mean nothing. Only a longer silence shows that it is empty.
	Unknown                    bool
	Visible, InFlight, Delayed int64
	// InFlightLimit is the most the provider lets be in flight; 0 is unknown.
	InFlightLimit int64
}

// Total is every message in the place.
func (d Depth) Total() int64 { return d.Visible + d.InFlight + d.Delayed }

// Destination is where work is sent back to. Calls may be concurrent.
type Destination interface {
	// Facts asks the provider about the destination. ErrNotFound and ErrDenied
	// keep their meaning.
	Facts(ctx context.Context) (DestinationFacts, error)
	// Send sends a batch that Facts' limits allow (at most BatchCount messages
	// and BatchBytes bytes) in exactly one request and answers by position; a
	// provider that takes one ordering key per request (Pub/Sub) gets one for
	// each key. It tries nothing again, except what the provider is sure to
	// deduplicate.
	Send(ctx context.Context, batch []Outgoing) []SendResult
}

// DestinationFacts are the provider's limits and settings of one destination.
type DestinationFacts struct {
	URN  string
	FIFO bool
	// Ordered: messages with the same group key are delivered in order, so they
	// must be sent in order: FIFO queues, and Pub/Sub's ordering keys.
	Ordered bool
	// MaxBytes is the destination's own limit for one message, counted as
	// Outgoing.Size counts; BatchBytes and BatchCount are a request's.
	MaxBytes, BatchBytes, BatchCount int
	// MaxAttributes is how many attributes one message can carry.
	MaxAttributes int
	// Visibility and MaxReceives are the source's redelivery settings; 0 is unknown.
	Visibility  time.Duration
	MaxReceives int
	// DeadLetterPlace is where the source's failures go; empty if nowhere.
	DeadLetterPlace string
	// Receivers are the subscriptions that would each get a copy of what is
	// sent, by name; more than one is a fan-out. Nil where a message has one
	// place to be (SQS); empty where nobody would get it.
	Receivers []string
}

// Outgoing is one message to send.
type Outgoing struct {
	Payload     Payload
	TraceHeader string
	// DedupID is the FIFO deduplication id; empty on standard queues.
	DedupID string
}

// Size is what a message counts towards the provider's limits: the body and
// the names, type texts and values of its attributes, in bytes.
func (o Outgoing) Size() int { return o.Payload.Size() }

// SendResult is the answer for one message of a batch. Err nil is sent;
// ErrUnclear means nobody knows; any other error means surely not sent.
type SendResult struct {
	MessageID string
	Err       error
}
