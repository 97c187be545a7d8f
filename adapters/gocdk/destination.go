package gocdk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unicode/utf8"

	"gocloud.dev/pubsub"

	"github.com/dlqbridge/dlqbridge"
)

// typeString is the type of every attribute: metadata is text.
const typeString = "String"

// Destination is one topic behind a URL.
type Destination struct {
	o     Options
	place string
	topic *pubsub.Topic
	// turn is held by the one send under way: the library would put messages
	// of several into one request, and then one answer speaks for all.
	turn chan struct{}
}

var _ dlqbridge.Destination = (*Destination)(nil)

// OpenDestination opens the URL. Most drivers ask the broker only with the
// first Send.
func OpenDestination(ctx context.Context, o Options) (*Destination, error) {
	o, place, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	topic, err := o.Mux.OpenTopic(context.WithoutCancel(ctx), o.URL)
	if err != nil {
		return nil, openError(err, o.URL, place)
	}
	return &Destination{o: o, place: place, topic: topic, turn: make(chan struct{}, 1)}, nil
}

// Close ends the connection after the send under way.
func (d *Destination) Close(ctx context.Context) error { return d.topic.Shutdown(ctx) }

// Facts implements dlqbridge.Destination. Nothing is asked: a destination that
// is missing or denied shows with the first Send.
func (d *Destination) Facts(ctx context.Context) (dlqbridge.DestinationFacts, error) {
	if err := ctx.Err(); err != nil {
		return dlqbridge.DestinationFacts{}, fmt.Errorf("facts of %s: %w: not begun: %w", d.place, dlqbridge.ErrUnavailable, err)
	}
	return dlqbridge.DestinationFacts{
		URN: d.place, MaxBytes: d.o.MaxBytes, BatchBytes: d.o.MaxBytes, BatchCount: 1, MaxAttributes: d.o.MaxAttributes,
	}, nil
}

// Send implements dlqbridge.Destination for batches of one. There are no
// message ids. The context alone bounds it.
func (d *Destination) Send(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	results := make([]dlqbridge.SendResult, len(batch))
	for i, o := range batch {
		var err error
		if len(batch) > 1 {
			err = refuse("a batch of %d messages, a request here carries one", len(batch))
		} else if err = d.check(o); err == nil {
			err = d.send(ctx, o)
		}
		if err != nil {
			results[i].Err = fmt.Errorf("send message %d of %d to %s: %w", i+1, len(batch), d.place, err)
		}
	}
	return results
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", dlqbridge.ErrInvalid, fmt.Errorf(format, args...))
}

// check refuses what could not go unchanged.
func (d *Destination) check(o dlqbridge.Outgoing) error {
	if n := o.Size(); d.o.MaxBytes > 0 && n > d.o.MaxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", dlqbridge.ErrTooLarge, n, d.o.MaxBytes)
	}
	if n := len(o.Payload.Attributes); d.o.MaxAttributes > 0 && n > d.o.MaxAttributes {
		return refuse("%d attributes, at most %d", n, d.o.MaxAttributes)
	}
	switch {
	case o.Payload.GroupKey != "":
		return refuse("a group key, which the Go CDK cannot send")
	case o.TraceHeader != "":
		return refuse("a trace header, which the Go CDK cannot send")
	}
	seen := map[string]bool{}
	for _, a := range o.Payload.Attributes {
		switch {
		case seen[a.Name]:
			return refuse("attribute %.80q is there twice", a.Name)
		case a.Type != typeString:
			return refuse("attribute %.80q has a type other than String, which the Go CDK cannot send", a.Name)
		case !utf8.ValidString(a.Name), !utf8.Valid(a.Value):
			return refuse("attribute %.80q is not UTF-8", a.Name)
		}
		seen[a.Name] = true
	}
	return nil
}

// fence lets a message pass to the broker once. The driver passes it, by the
// library's contract, before it sends, with each attempt.
type fence struct{ state atomic.Int32 }

const (
	fenceOpen   = iota // nothing was sent
	fencePassed        // an attempt was made
	fenceShut          // nothing was sent, and nothing will be
	fenceHit           // an attempt was made, and a second one was stopped
)

var errFence = errors.New("a second attempt of the same send was stopped")

func (f *fence) pass(func(any) bool) error {
	if f.state.CompareAndSwap(fenceOpen, fencePassed) {
		return nil
	}
	f.state.CompareAndSwap(fencePassed, fenceHit)
	return errFence
}

// shut says whether nothing was sent; then nothing can be any more.
func (f *fence) shut() bool { return f.state.CompareAndSwap(fenceOpen, fenceShut) }

// send makes the one attempt. The caller has journalled it: if the process dies
// from here on, the send is in doubt until evidence settles it.
func (d *Destination) send(ctx context.Context, o dlqbridge.Outgoing) error {
	if err := ctx.Err(); err != nil {
		return notBegun(err)
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return notBegun(ctx.Err())
	}
	var f fence
	// A copy: when the context ends first, the library goes on with it.
	m := &pubsub.Message{Body: append([]byte{}, o.Payload.Body...), BeforeSend: f.pass}
	for _, a := range o.Payload.Attributes {
		if m.Metadata == nil {
			m.Metadata = map[string]string{}
		}
		m.Metadata[a.Name] = string(a.Value)
	}
	err := d.topic.Send(ctx, m)
	switch {
	case err == nil:
		return nil
	case f.shut():
		return wrap(err, dlqbridge.ErrUnavailable)
	case f.state.Load() == fenceHit:
		// The library does not say what became of the first attempt.
		return fmt.Errorf("%w: %w", dlqbridge.ErrUnclear, err)
	}
	return wrap(err, dlqbridge.ErrUnclear)
}

func notBegun(err error) error {
	return fmt.Errorf("%w: not begun: %w", dlqbridge.ErrUnavailable, err)
}
