package gcppubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Client holds the connections to the service that all places of a process
// share. It may be used concurrently.
type Client struct {
	subscriptions *pubsub.SubscriptionAdminClient
	topics        *pubsub.TopicAdminClient
}

// NewClient connects, lazily, with the default credentials (Application
// Default Credentials) unless options say otherwise. PUBSUB_EMULATOR_HOST is
// honoured: then there are no credentials and no encryption.
func NewClient(ctx context.Context, options ...option.ClientOption) (*Client, error) {
	subscriptions, err := pubsub.NewSubscriptionAdminClient(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to Pub/Sub: %w: %w", dlqbridge.ErrCredentials, err)
	}
	topics, err := pubsub.NewTopicAdminClient(ctx, options...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to Pub/Sub: %w: %w", dlqbridge.ErrCredentials, err), subscriptions.Close())
	}
	return &Client{subscriptions: subscriptions, topics: topics}, nil
}

// Close ends the connections; calls under way end with an error.
func (c *Client) Close() error {
	return errors.Join(c.subscriptions.Close(), c.topics.Close())
}

// Options say which place and how to talk to it.
type Options struct {
	// Client reaches the service. Required.
	Client *Client
	// Project is where short names belong.
	Project string
	// Subscription is, for Open and InspectSubscription, the dead-letter
	// subscription, and required. For OpenDestination it is the failed
	// consumer's subscription, for which the messages are meant, and may be
	// empty. A short name, or the full one (projects/P/subscriptions/S).
	Subscription string
	// Topic is, for OpenDestination and InspectTopic, the topic to send to;
	// required there. A short name, or the full one (projects/P/topics/T).
	Topic string
	// Retry is how calls are tried again that may be; the zero value is a good
	// one.
	Retry retry.Policy
	// CallTimeout bounds one request, besides what a receive waits for
	// messages; zero means DefaultCallTimeout.
	CallTimeout time.Duration
	// Now tells the time; nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() (Options, error) {
	if o.Client == nil {
		return o, fmt.Errorf("%w: Options.Client is not set", dlqbridge.ErrInvalid)
	}
	o.CallTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout)
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the clock where none was given
	}
	return o, nil
}

// subscription and topic are the full names of what the options say.
func (o Options) subscription() (string, error) {
	if o.Subscription == "" {
		return "", fmt.Errorf("%w: Options.Subscription is not set", dlqbridge.ErrInvalid)
	}
	return fullName(o.Subscription, o.Project, subscriptionKind)
}

func (o Options) topic() (string, error) {
	if o.Topic == "" {
		return "", fmt.Errorf("%w: Options.Topic is not set", dlqbridge.ErrInvalid)
	}
	return fullName(o.Topic, o.Project, topicKind)
}

// call makes one bounded request and gives its error a meaning.
//
// It is one attempt: the client's retries are off. The peer is set once the
// request has a connection; a call that ends without one was surely not
// carried out. Whatever gRPC itself repeats, it does so only for requests that
// the service has not seen.
func call[In, Out any](ctx context.Context, timeout time.Duration, in In, do func(context.Context, In, ...gax.CallOption) (Out, error)) (Out, error) {
	var zero Out
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("%w: not begun: %w", dlqbridge.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var reached peer.Peer
	out, err := do(ctx, in, gax.WithRetry(nil), gax.WithGRPCOptions(
		grpc.Peer(&reached),
		// A pull brings up to 10 MB and a little; a connection that was handed
		// in has gRPC's own limit of 4 MB.
		grpc.MaxCallRecvMsgSize(math.MaxInt32),
	))
	if err != nil {
		return zero, wrap(err, reached.Addr != nil)
	}
	return out, nil
}

// ask is call for requests that only read: they are tried again.
func ask[In, Out any](ctx context.Context, o Options, in In, do func(context.Context, In, ...gax.CallOption) (Out, error)) (out Out, err error) {
	err = retry.Do(ctx, repeatable(o.Retry), func(ctx context.Context) (err error) {
		out, err = call(ctx, o.CallTimeout, in, do)
		return err
	})
	return out, err
}
