package gcppubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/iterator"

	"github.com/dlqbridge/dlqbridge"
)

// Destination is one topic that work is sent back to, on behalf of one
// consumer's subscription if Options name it.
type Destination struct {
	o            Options
	topic        string
	subscription string // the consumer's, full; empty if nobody's in particular
	to           string // its short name
	// receivers is how many subscriptions the topic had when last asked.
	receivers atomic.Int64
}

var _ dlqbridge.Destination = (*Destination)(nil)

// OpenDestination finds a topic to send to: dlqbridge.ErrNotFound, ErrDenied.
func OpenDestination(ctx context.Context, o Options) (*Destination, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Destination{o: o}
	if d.topic, err = o.topic(); err != nil {
		return nil, err
	}
	if o.Subscription != "" {
		if d.subscription, err = o.subscription(); err != nil {
			return nil, err
		}
		d.to = shortName(d.subscription)
	}
	if _, err := d.Facts(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// Facts implements dlqbridge.Destination; it asks the service each time. The
// redelivery settings are those of the topic's only subscription, else of the
// consumer's; they are unknown if that one may not be read or is gone.
func (d *Destination) Facts(ctx context.Context) (dlqbridge.DestinationFacts, error) {
	names, err := subscribers(ctx, d.o, d.topic)
	if err != nil {
		return dlqbridge.DestinationFacts{}, fmt.Errorf("facts of %s: %w", d.topic, err)
	}
	d.receivers.Store(int64(len(names)))
	facts := d.limits()
	facts.Receivers = names
	consumer := d.subscription
	if len(names) == 1 {
		consumer = names[0]
	}
	if consumer == "" {
		return facts, nil
	}
	config, err := getSubscription(ctx, d.o, consumer)
	switch {
	case errors.Is(err, dlqbridge.ErrNotFound), errors.Is(err, dlqbridge.ErrDenied):
		return facts, nil
	case err != nil:
		return dlqbridge.DestinationFacts{}, fmt.Errorf("facts of %s: look at %s: %w", d.topic, consumer, err)
	}
	facts.DeadLetterPlace, facts.MaxReceives = deadLetterPolicy(config)
	facts.Visibility = redelivery(config, facts.MaxReceives)
	return facts, nil
}

// limits are those of every topic.
func (d *Destination) limits() dlqbridge.DestinationFacts {
	return dlqbridge.DestinationFacts{
		URN:           d.topic,
		Ordered:       true, // whoever set an ordering key wants its order kept
		MaxBytes:      MaxMessageBytes,
		BatchBytes:    MaxRequestBytes,
		BatchCount:    MaxRequestMessages,
		MaxAttributes: MaxAttributes,
	}
}

// subscribers lists the subscriptions of a topic, sorted; none is an empty
// list. Detached ones are not in it, they get nothing.
func subscribers(ctx context.Context, o Options, topic string) ([]string, error) {
	names, err := ask(ctx, o, &pubsubpb.ListTopicSubscriptionsRequest{Topic: topic, PageSize: listPage},
		func(ctx context.Context, in *pubsubpb.ListTopicSubscriptionsRequest, options ...gax.CallOption) ([]string, error) {
			names := []string{}
			pages := o.Client.topics.ListTopicSubscriptions(ctx, in, options...)
			for {
				name, err := pages.Next()
				switch {
				case errors.Is(err, iterator.Done):
					return names, nil
				case err != nil:
					return nil, err
				}
				names = append(names, name)
			}
		})
	slices.Sort(names)
	return names, err
}

// deadLetterPolicy is where failures go and after how many attempts; zero
// where there is no policy.
func deadLetterPolicy(config *pubsubpb.Subscription) (topic string, attempts int) {
	policy := config.GetDeadLetterPolicy()
	if policy == nil || policy.GetDeadLetterTopic() == "" {
		return "", 0
	}
	if attempts = int(policy.GetMaxDeliveryAttempts()); attempts == 0 {
		attempts = DefaultMaxAttempts
	}
	return policy.GetDeadLetterTopic(), attempts
}

// redelivery is how long one failed attempt takes on average until the next
// one: the acknowledgement deadline and the retry policy's backoff, which
// doubles from its minimum to its maximum. Worked: deadline 60 s, backoff from
// 10 to 600 s, 5 attempts: 60 + (10 + 20 + 40 + 80) / 5 = 90 s.
func redelivery(config *pubsubpb.Subscription, attempts int) time.Duration {
	deadline := time.Duration(config.GetAckDeadlineSeconds()) * time.Second
	policy := config.GetRetryPolicy()
	if policy == nil || attempts < 1 {
		return deadline
	}
	backoff, most := defaultBackoffMin, defaultBackoffMax
	if policy.GetMinimumBackoff() != nil {
		backoff = policy.GetMinimumBackoff().AsDuration()
	}
	if policy.GetMaximumBackoff() != nil {
		most = policy.GetMaximumBackoff().AsDuration()
	}
	var sum time.Duration
	for range attempts - 1 {
		sum += min(backoff, most)
		backoff = min(2*backoff, most)
	}
	return deadline + sum/time.Duration(attempts)
}
