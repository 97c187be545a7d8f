package wire

import (
	"context"
	"fmt"
	"slices"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/adapters/gocdk"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

// Letters opens a route's dead-letter place. Its error names route and place.
func (b *Bridge) Letters(ctx context.Context, r config.Route) (letters dlqbridge.DeadLetters, err error) {
	switch {
	case r.PubSub != nil:
		letters, err = b.subscription(ctx, *r.PubSub)
	case r.URL != nil:
		var opened *gocdk.DeadLetters
		if opened, err = gocdk.Open(ctx, gocdk.Options{URL: r.URL.DeadLetter, Now: b.Now}); err == nil {
			b.onClose(opened.Close)
			letters = uncounted{opened}
		}
	default:
		letters, err = awssqs.Open(ctx, b.Queue(r.SQS.DeadLetterQueue))
	}
	if err != nil {
		return nil, fmt.Errorf("route %s: dead-letter %s: %w", r.Name, r.DeadLetterPlace(), err)
	}
	return letters, nil
}

// uncounted is a place of the Go CDK, which has no counters: intake then goes
// by a longer silence instead.
type uncounted struct{ *gocdk.DeadLetters }

// Depth implements dlqbridge.DeadLetters.
func (uncounted) Depth(context.Context) (dlqbridge.Depth, error) {
	return dlqbridge.Depth{Unknown: true}, nil
}

// Source is the URN of a route's source; empty where each letter's own source
// decides. It is asked for once.
func (b *Bridge) Source(ctx context.Context, r config.Route) (string, error) {
	b.mu.Lock()
	known, ok := b.sources[r.Name]
	b.mu.Unlock()
	if ok {
		return known.urn, nil
	}
	var found source
	var err error
	switch {
	case r.PubSub != nil:
		found, err = b.consumer(ctx, *r.PubSub)
	case r.URL != nil:
		found.urn, err = b.targetURN(ctx, *r.URL)
	case r.SQS.SourceQueue != "":
		found.urn, err = b.queueURN(ctx, r.SQS.SourceQueue)
	}
	if err != nil {
		return "", fmt.Errorf("route %s: source %s: %w", r.Name, r.SourcePlace(), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sources[r.Name] = found
	return found.urn, nil
}

// source is what is known about where a route's work belongs.
type source struct {
	// urn is the one source; empty where each letter's own decides.
	urn string
	// all are, on Pub/Sub, the subscriptions whose letters the route brings.
	all []string
}

func (b *Bridge) queueURN(ctx context.Context, queue string) (string, error) {
	d, err := b.Destination(ctx, queue)
	if err != nil {
		return "", err
	}
	facts, err := d.Facts(ctx)
	if err != nil {
		return "", err
	}
	b.keep(facts.URN, d)
	return facts.URN, nil
}

// Destination opens a queue to send to, once per process.
func (b *Bridge) Destination(ctx context.Context, queue string) (dlqbridge.Destination, error) {
	return b.once(queue, func() (dlqbridge.Destination, error) { return awssqs.OpenDestination(ctx, b.Queue(queue)) })
}

// targetURN opens the target of a route by URL.
func (b *Bridge) targetURN(ctx context.Context, u config.URL) (string, error) {
	d, err := b.once(u.Target, func() (dlqbridge.Destination, error) {
		d, err := gocdk.OpenDestination(ctx, gocdk.Options{URL: u.Target, MaxBytes: u.MaxBytes, MaxAttributes: u.MaxAttributes, Now: b.Now})
		if err == nil {
			b.onClose(d.Close)
		}
		return d, err
	})
	if err != nil {
		return "", err
	}
	facts, err := d.Facts(ctx)
	if err != nil {
		return "", err
	}
	b.keep(facts.URN, d)
	return facts.URN, nil
}

// destinationOf opens what a URN names, for a route; where several routes lead
// there, route is empty. Only configuration says which broker it is.
func (b *Bridge) destinationOf(ctx context.Context, route, urn string) (dlqbridge.Destination, error) {
	leads := func(r config.Route) bool {
		return (route == "" || r.Name == route) && (r.SQS != nil || leadsTo(r, urn))
	}
	i := slices.IndexFunc(b.Config.Routes, leads)
	if i < 0 {
		// A job that was frozen under another configuration.
		return nil, fmt.Errorf("%w: no route of the configuration leads to %s", dlqbridge.ErrNotFound, urn)
	}
	switch r := b.Config.Routes[i]; {
	case r.PubSub != nil:
		return b.topic(ctx, urn)
	case r.URL != nil:
		if _, err := b.targetURN(ctx, *r.URL); err != nil {
			return nil, err
		}
	}
	return b.Destination(ctx, urn)
}

// once opens a destination the first time that it is asked for.
func (b *Bridge) once(name string, open func() (dlqbridge.Destination, error)) (dlqbridge.Destination, error) {
	b.mu.Lock()
	d, ok := b.destinations[name]
	b.mu.Unlock()
	if ok {
		return d, nil
	}
	d, err := open()
	if err != nil {
		return nil, err
	}
	return b.keep(name, d), nil
}

// keep remembers a destination under a name and returns the one that is there.
func (b *Bridge) keep(name string, d dlqbridge.Destination) dlqbridge.Destination {
	b.mu.Lock()
	defer b.mu.Unlock()
	if have, ok := b.destinations[name]; ok {
		return have
	}
	b.destinations[name] = d
	return d
}
