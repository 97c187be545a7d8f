package gcppubsub

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// DeadLetters is one dead-letter subscription.
type DeadLetters struct {
	o    Options
	name string
	// config is the subscription's own, as last read.
	config atomic.Pointer[pubsubpb.Subscription]
}

var _ dlqbridge.DeadLetters = (*DeadLetters)(nil)

// Open finds a dead-letter subscription: dlqbridge.ErrNotFound, ErrDenied, and
// ErrInvalid for one that cannot be read from (it is detached from its topic,
// or delivers to somewhere else).
func Open(ctx context.Context, o Options) (*DeadLetters, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &DeadLetters{o: o}
	if d.name, err = o.subscription(); err != nil {
		return nil, err
	}
	config, err := getSubscription(ctx, o, d.name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.name, err)
	}
	switch {
	case config.GetDetached():
		return nil, fmt.Errorf("open %s: %w: it is detached from its topic and holds nothing", d.name, dlqbridge.ErrInvalid)
	case delivery(config) != "pull":
		return nil, fmt.Errorf("open %s: %w: it delivers by %s and cannot be pulled from", d.name, dlqbridge.ErrInvalid, delivery(config))
	}
	d.config.Store(config)
	return d, nil
}

func getSubscription(ctx context.Context, o Options, name string) (*pubsubpb.Subscription, error) {
	return ask(ctx, o, &pubsubpb.GetSubscriptionRequest{Subscription: name}, o.Client.subscriptions.GetSubscription)
}

// Place implements dlqbridge.DeadLetters: the subscription's full name.
func (d *DeadLetters) Place() string { return d.name }

// Receive implements dlqbridge.DeadLetters. It waits at least minPull, and
// whatever more is asked for. A pull that failed for now is tried again; one
// whose answer was lost is the caller's to repeat (ErrUnclear).
func (d *DeadLetters) Receive(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
	in := &pubsubpb.PullRequest{Subscription: d.name, MaxMessages: int32(min(max(limit, 1), maxPull))}
	var out *pubsubpb.PullResponse
	err := retry.Do(ctx, surely(d.o.Retry), func(ctx context.Context) (err error) {
		out, err = d.pull(ctx, in, max(wait, minPull))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", d.name, err)
	}
	return d.letters(ctx, out.GetReceivedMessages()), nil
}

// pull makes one pull. The service is told our deadline and may answer with
// nothing before it; that nothing came until then is no error. An answer that
// was on its way at that moment is lost: its letters come again.
func (d *DeadLetters) pull(ctx context.Context, in *pubsubpb.PullRequest, wait time.Duration) (*pubsubpb.PullResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	began := d.o.Now()
	out, err := call(bounded, d.o.CallTimeout+wait, in, d.o.Client.subscriptions.Pull)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, errors.Join(err, ctx.Err()) // the caller gave up
	case !errors.Is(err, dlqbridge.ErrUnclear):
		return nil, err
	case statusOf(err).Code() == codes.DeadlineExceeded, d.o.Now().Sub(began) >= wait:
		// The service tells of the deadline in its own words when it is the
		// first to see it.
		return &pubsubpb.PullResponse{}, nil
	}
	return nil, err
}

// letters makes sure of what was received and maps it.
func (d *DeadLetters) letters(ctx context.Context, received []*pubsubpb.ReceivedMessage) []dlqbridge.Letter {
	if len(received) == 0 {
		return nil
	}
	now := d.o.Now().UTC()
	config := d.config.Load()
	letters := make([]dlqbridge.Letter, 0, len(received))
	for _, m := range received {
		l := letterOf(m, d.name, retention(config))
		l.ReceivedAt = now
		letters = append(letters, l)
	}
	own := time.Duration(config.GetAckDeadlineSeconds()) * time.Second
	if own >= enoughLease && !config.GetEnableExactlyOnceDelivery() {
		return letters
	}
	// With exactly-once delivery the extension also says whether a letter is
	// really ours: one whose deadline passed on the way here could not be
	// acknowledged. Dying before or after this only moves the time at which
	// the letters come again.
	kept := letters[:0]
	for i, err := range d.Hide(ctx, letters, max(own, firstLease)) {
		if !errors.Is(err, ErrReceiveOver) {
			kept = append(kept, letters[i]) // at worst for the subscription's own deadline
		}
	}
	return kept
}

// Depth implements dlqbridge.DeadLetters: the API has no counters, so the
// depth is unknown. It learns the subscription's settings anew, from which
// letters' LostAt is counted.
func (d *DeadLetters) Depth(ctx context.Context) (dlqbridge.Depth, error) {
	config, err := getSubscription(ctx, d.o, d.name)
	if err != nil {
		return dlqbridge.Depth{}, fmt.Errorf("look at %s: %w", d.name, err)
	}
	d.config.Store(config)
	return dlqbridge.Depth{Unknown: true}, nil
}

// retention is how long a message is kept from its publishing: the
// subscription's own time, or the topic's if that is longer (the proto,
// Subscription.topic_message_retention_duration); 0 is unknown.
func retention(config *pubsubpb.Subscription) time.Duration {
	return max(config.GetMessageRetentionDuration().AsDuration(), config.GetTopicMessageRetentionDuration().AsDuration())
}

// delivery names how a subscription delivers.
func delivery(config *pubsubpb.Subscription) string {
	switch {
	case config.GetPushConfig().GetPushEndpoint() != "":
		return "push"
	case config.GetBigqueryConfig() != nil:
		return "bigquery"
	case config.GetCloudStorageConfig() != nil:
		return "cloud_storage"
	case config.GetBigtableConfig() != nil:
		return "bigtable"
	}
	return "pull"
}
