package gcppubsub_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// world is a local cloud with a source topic, its subscription, and a
// dead-letter topic with one, all in virtual time.
type world struct {
	*localstack.Cloud
	t             testing.TB
	client        *gcppubsub.Client
	subscriptions *pubsub.SubscriptionAdminClient
	topics        *pubsub.TopicAdminClient
}

// inWorld runs a test inside virtual time.
func inWorld(t *testing.T, do func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.topic("orders")
		w.topic("orders-dead")
		w.subscription("billing", "orders", func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("orders-dead"), MaxDeliveryAttempts: 5}
			s.AckDeadlineSeconds = 60
			s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(0), MaximumBackoff: durationpb.New(0)}
		})
		w.subscription("billing-dead", "orders-dead", nil)
		do(t, w)
	})
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{Cloud: localstack.New(localstack.Options{}), t: t}
	t.Cleanup(w.Close)
	options := []option.ClientOption{option.WithGRPCConn(w.PubSubConn()), option.WithTelemetryDisabled()}
	var err error
	w.subscriptions, err = pubsub.NewSubscriptionAdminClient(t.Context(), options...)
	must(t, err)
	w.topics, err = pubsub.NewTopicAdminClient(t.Context(), options...)
	must(t, err)
	w.client, err = gcppubsub.NewClient(t.Context(), option.WithGRPCConn(w.PubSubConn()), option.WithTelemetryDisabled())
	must(t, err)
	return w
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func topicName(short string) string { return "projects/" + localstack.Project + "/topics/" + short }
func subscriptionName(short string) string {
	return "projects/" + localstack.Project + "/subscriptions/" + short
}

func (w *world) topic(short string) {
	w.t.Helper()
	_, err := w.topics.CreateTopic(w.t.Context(), &pubsubpb.Topic{Name: topicName(short)})
	must(w.t, err)
}

func (w *world) subscription(short, topic string, set func(*pubsubpb.Subscription)) {
	w.t.Helper()
	s := &pubsubpb.Subscription{Name: subscriptionName(short), Topic: topicName(topic)}
	if set != nil {
		set(s)
	}
	_, err := w.subscriptions.CreateSubscription(w.t.Context(), s)
	must(w.t, err)
}

// options are those of every place; quick retries, since time is virtual.
func (w *world) options() gcppubsub.Options {
	return gcppubsub.Options{Client: w.client, Project: localstack.Project, Now: w.Clock().Now}
}

func (w *world) open(subscription string) *gcppubsub.DeadLetters {
	w.t.Helper()
	o := w.options()
	o.Subscription = subscription
	d, err := gcppubsub.Open(w.t.Context(), o)
	must(w.t, err)
	return d
}

func (w *world) destination(topic, consumer string) *gcppubsub.Destination {
	w.t.Helper()
	o := w.options()
	o.Topic, o.Subscription = topic, consumer
	d, err := gcppubsub.OpenDestination(w.t.Context(), o)
	must(w.t, err)
	return d
}

// publish makes a message come into being with the provider's own client.
func (w *world) publish(topic string, messages ...*pubsubpb.PubsubMessage) {
	w.t.Helper()
	for _, m := range messages {
		_, err := w.topics.Publish(w.t.Context(), &pubsubpb.PublishRequest{Topic: topicName(topic), Messages: []*pubsubpb.PubsubMessage{m}})
		must(w.t, err)
	}
}

// die rejects everything on the subscription until it is dead-lettered.
func (w *world) die(subscription string) {
	w.t.Helper()
	for {
		got := w.pull(subscription)
		if len(got) == 0 {
			return
		}
		in := &pubsubpb.ModifyAckDeadlineRequest{Subscription: subscriptionName(subscription)}
		for _, m := range got {
			in.AckIds = append(in.AckIds, m.GetAckId())
		}
		must(w.t, w.subscriptions.ModifyAckDeadline(w.t.Context(), in))
	}
}

// pull takes what is there, without acknowledging it.
func (w *world) pull(subscription string) []*pubsubpb.ReceivedMessage {
	w.t.Helper()
	out, err := w.subscriptions.Pull(w.t.Context(), &pubsubpb.PullRequest{
		Subscription: subscriptionName(subscription), MaxMessages: 1000, ReturnImmediately: true, //nolint:staticcheck // a test's look
	})
	must(w.t, err)
	return out.GetReceivedMessages()
}

// arrived lists the data that a subscription holds, in order.
func (w *world) arrived(subscription string) []string {
	w.t.Helper()
	var all []string
	for {
		got := w.pull(subscription)
		if len(got) == 0 {
			return all
		}
		in := &pubsubpb.AcknowledgeRequest{Subscription: subscriptionName(subscription)}
		for _, m := range got {
			all = append(all, string(m.GetMessage().GetData()))
			in.AckIds = append(in.AckIds, m.GetAckId())
		}
		must(w.t, w.subscriptions.Acknowledge(w.t.Context(), in))
	}
}

func (w *world) fault(f localstack.Fault) {
	w.t.Helper()
	f.Service = "pubsub"
	_, err := w.AddFault(f)
	must(w.t, err)
}

// requests are the bodies of the calls of an operation since the last look.
func (w *world) requests(operation string) []map[string]any {
	w.t.Helper()
	synctest.Wait() // a call is recorded when it ends, which may be after its caller gave up
	var out []map[string]any
	for _, r := range w.Requests("pubsub", 0) {
		if r.Operation == operation {
			var body map[string]any
			must(w.t, json.Unmarshal(r.Request, &body))
			out = append(out, body)
		}
	}
	return out
}

func receive(t testing.TB, d *gcppubsub.DeadLetters, n int) []dlqbridge.Letter {
	t.Helper()
	var all []dlqbridge.Letter
	for range n {
		letters, err := d.Receive(t.Context(), n, 5*time.Second)
		must(t, err)
		if all = append(all, letters...); len(all) >= n {
			break
		}
	}
	if len(all) != n {
		t.Fatalf("received %d letters, want %d", len(all), n)
	}
	return all
}

// text is a message of a body, a key and attributes by name and value.
func text(body, key string, attributes ...string) dlqbridge.Outgoing {
	o := dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: []byte(body), GroupKey: key}}
	for pair := range slices.Chunk(attributes, 2) {
		o.Payload.Attributes = append(o.Payload.Attributes, dlqbridge.Attribute{Name: pair[0], Type: "String", Value: []byte(pair[1])})
	}
	o.Payload.Normalize()
	return o
}

// attributesOf is a payload's attributes as a map.
func attributesOf(p dlqbridge.Payload) map[string]string {
	out := map[string]string{}
	for _, a := range p.Attributes {
		out[a.Name] = string(a.Value)
	}
	return out
}

func send(ctx context.Context, d *gcppubsub.Destination, batch ...dlqbridge.Outgoing) []error {
	errs := make([]error, 0, len(batch))
	for _, r := range d.Send(ctx, batch) {
		errs = append(errs, r.Err)
	}
	return errs
}

// meanings compares answers by position; nil wishes success, and of the
// meanings exactly one must be there.
func meanings(t testing.TB, what string, got []error, want ...error) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d answers, want %d", what, len(got), len(want))
	}
	for i, err := range got {
		if (err == nil) != (want[i] == nil) || !errors.Is(err, want[i]) {
			t.Errorf("%s, position %d: got %v, want %v", what, i, err, want[i])
		}
		if want[i] != nil && !dlqbridge.Retryable(want[i]) && dlqbridge.Retryable(err) {
			t.Errorf("%s, position %d: %v says that it can be tried again", what, i, err)
		}
	}
}

func equalMaps(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
