package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

// PubSub is the client of Pub/Sub, connected when the first route needs it: a
// configuration without such routes needs no Google credentials.
func (b *Bridge) PubSub(ctx context.Context) (*gcppubsub.Client, error) {
	b.connecting.Lock()
	defer b.connecting.Unlock()
	if b.google != nil {
		return b.google, nil
	}
	// The connections outlive the call that was the first to need them.
	client, err := b.connect(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	b.google = client
	b.onClose(func(context.Context) error {
		// A connection that was handed in is shared by both of its halves, and
		// the second finds it closed.
		if err := client.Close(); status.Code(err) != codes.Canceled {
			return err
		}
		return nil
	})
	return client, nil
}

// PubSubOptions are those of a route's places for the adapter.
func (b *Bridge) PubSubOptions(ctx context.Context, p config.PubSub) (gcppubsub.Options, error) {
	client, err := b.PubSub(ctx)
	return gcppubsub.Options{Client: client, Project: p.Project, Now: b.Now}, err
}

func (b *Bridge) subscription(ctx context.Context, p config.PubSub) (*gcppubsub.DeadLetters, error) {
	o, err := b.PubSubOptions(ctx, p)
	if err != nil {
		return nil, err
	}
	o.Subscription = p.DeadLetterSubscription
	return gcppubsub.Open(ctx, o)
}

// manySubscribers bounds the subscriptions that are looked at one by one to
// find the consumer; a topic with more needs its name in the route.
const manySubscribers = 50

// consumer finds whose failures a route brings: the subscription that it
// names, else those of the source topic that dead-letter into the topic behind
// the dead-letter subscription. Letters of others are never sent there.
func (b *Bridge) consumer(ctx context.Context, p config.PubSub) (source, error) {
	if p.SourceSubscription != "" {
		urn := p.Full("subscriptions", p.SourceSubscription)
		return source{urn, []string{urn}}, nil
	}
	all, err := b.Consumers(ctx, p)
	if errors.Is(err, dlqbridge.ErrDenied) {
		return source{}, fmt.Errorf("find the consumer whose failures arrive here (source_subscription names it): %w", err)
	}
	if err != nil || len(all) != 1 {
		return source{"", all}, err
	}
	return source{all[0], all}, nil
}

// Consumers are the subscriptions of a route's source topic that dead-letter
// into where the route reads. Those that may not be looked at are not in it.
func (b *Bridge) Consumers(ctx context.Context, p config.PubSub) ([]string, error) {
	o, err := b.PubSubOptions(ctx, p)
	if err != nil {
		return nil, err
	}
	o.Subscription = p.DeadLetterSubscription
	dead, err := gcppubsub.InspectSubscription(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Subscription, o.Topic = "", p.SourceTopic
	topic, err := gcppubsub.InspectTopic(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(topic.Receivers) > manySubscribers {
		return nil, fmt.Errorf("%w: %s has %d subscriptions, name the consumer's as source_subscription", dlqbridge.ErrInvalid, topic.Name, len(topic.Receivers))
	}
	consumers := []string{}
	for _, name := range topic.Receivers {
		o.Subscription = name
		s, err := gcppubsub.InspectSubscription(ctx, o)
		switch {
		case errors.Is(err, dlqbridge.ErrNotFound), errors.Is(err, dlqbridge.ErrDenied):
		case err != nil:
			return nil, err
		case s.DeadLetterTopic != "" && s.DeadLetterTopic == dead.Topic:
			consumers = append(consumers, name)
		}
	}
	return consumers, nil
}

// topic opens a topic to send to, once per process.
func (b *Bridge) topic(ctx context.Context, name string) (dlqbridge.Destination, error) {
	return b.once(name, func() (dlqbridge.Destination, error) {
		client, err := b.PubSub(ctx)
		if err != nil {
			return nil, err
		}
		t := &topic{o: gcppubsub.Options{Client: client, Topic: name, Now: b.Now}, lines: map[string]*gcppubsub.Destination{}}
		consumers := map[string]bool{}
		for _, r := range b.Config.Routes {
			if slices.Contains(topicsAside(r), name) {
				t.fanOut = t.fanOut || r.PubSub.FanOut == config.FanOutAccept
			}
			if r.PubSub == nil || r.Target() != name {
				continue
			}
			t.fanOut = t.fanOut || r.PubSub.FanOut == config.FanOutAccept || r.PubSub.RedriveTopic != ""
			b.mu.Lock()
			consumers[b.sources[r.Name].urn] = true
			b.mu.Unlock()
		}
		first := t.o
		if len(consumers) == 1 {
			for c := range consumers {
				first.Subscription = c // its redelivery settings are the facts
			}
		}
		t.Destination, err = gcppubsub.OpenDestination(ctx, first)
		return t, err
	})
}

// topic is a destination that work of several consumers may go back to. Each
// message carries the name of the one it is meant for, put there by redrive
// from the record's source, so that filters can keep it from the others.
type topic struct {
	*gcppubsub.Destination // for the facts

	o gcppubsub.Options
	// fanOut: some route leads here that is fine with several receivers.
	fanOut bool

	mu    sync.Mutex
	seen  []string                          // the receivers when last asked
	lines map[string]*gcppubsub.Destination // by consumer
}

// Facts implements dlqbridge.Destination.
func (t *topic) Facts(ctx context.Context) (dlqbridge.DestinationFacts, error) {
	f, err := t.Destination.Facts(ctx)
	if err == nil {
		t.mu.Lock()
		t.seen = f.Receivers
		t.mu.Unlock()
	}
	return f, err
}

// Send implements dlqbridge.Destination. A plan has left out what others would
// get a copy of; a job that is continued has no new plan, so this is the last
// door (C45).
func (t *topic) Send(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	results := make([]dlqbridge.SendResult, len(batch))
	t.mu.Lock()
	seen := t.seen
	t.mu.Unlock()
	byConsumer := map[string][]int{}
	for i, o := range batch {
		to, _ := o.Payload.Attribute(dlqbridge.MarkToName)
		byConsumer[string(to.Value)] = append(byConsumer[string(to.Value)], i)
	}
	if len(seen) > 1 && !t.fanOut {
		for i := range results {
			results[i].Err = fmt.Errorf("%w: %s would each get a copy", dlqbridge.ErrInvalid, strings.Join(seen, ", "))
		}
		return results
	}
	var sending sync.WaitGroup
	for to, positions := range byConsumer {
		sending.Go(func() {
			part := make([]dlqbridge.Outgoing, len(positions))
			for k, i := range positions {
				part[k] = batch[i]
			}
			d, err := t.line(ctx, to)
			if err != nil {
				for _, i := range positions {
					results[i].Err = fmt.Errorf("%w: nothing was sent: %w", dlqbridge.ErrUnavailable, err)
				}
				return
			}
			for k, r := range d.Send(ctx, part) {
				results[positions[k]] = r
			}
		})
	}
	sending.Wait()
	return results
}

// line is the topic on behalf of one consumer, by its short name.
func (t *topic) line(ctx context.Context, to string) (*gcppubsub.Destination, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d, ok := t.lines[to]; ok {
		return d, nil
	}
	o := t.o
	if to != "" {
		// Only the short name goes along, in the topic's own project for want of
		// another.
		o.Subscription, o.Project = to, projectOf(o.Topic)
	}
	d, err := gcppubsub.OpenDestination(ctx, o)
	if err == nil {
		t.lines[to] = d
	}
	return d, err
}

// projectOf is the project in a full name.
func projectOf(name string) string {
	parts := strings.Split(name, "/")
	return parts[min(1, len(parts)-1)]
}

// assumedSources are those of a Pub/Sub route that could not be asked for.
func assumedSources(p config.PubSub) source {
	urn := p.Full("subscriptions", p.SourceSubscription)
	return source{urn, slices.DeleteFunc([]string{urn}, func(s string) bool { return s == "" })}
}
