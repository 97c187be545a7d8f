package main_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"

	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// google reaches the local cloud's Pub/Sub as a producer and a consumer would.
type google struct {
	t             testing.TB
	topics        *pubsub.TopicAdminClient
	subscriptions *pubsub.SubscriptionAdminClient
}

func newGoogle(t testing.TB, cloud *localstack.Cloud) *google {
	t.Helper()
	return connectGoogle(t, cloud.PubSubOptions()...)
}

func connectGoogle(t testing.TB, options ...option.ClientOption) *google {
	t.Helper()
	topics, err := pubsub.NewTopicAdminClient(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	subscriptions, err := pubsub.NewSubscriptionAdminClient(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { topics.Close(); subscriptions.Close() })
	return &google{t, topics, subscriptions}
}

// servePubSub serves the cloud's Pub/Sub on a socket and returns its address.
func servePubSub(t testing.TB, cloud *localstack.Cloud) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go cloud.ServePubSub(l) //nolint:errcheck // it ends with the cloud
	return l.Addr().String()
}

func topicName(short string) string { return "projects/" + localstack.Project + "/topics/" + short }
func subscriptionName(short string) string {
	return "projects/" + localstack.Project + "/subscriptions/" + short
}

func (g *google) topic(short string) {
	g.t.Helper()
	if _, err := g.topics.CreateTopic(g.t.Context(), &pubsubpb.Topic{Name: topicName(short)}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *google) subscription(short, topic string, set func(*pubsubpb.Subscription)) {
	g.t.Helper()
	s := &pubsubpb.Subscription{Name: subscriptionName(short), Topic: topicName(topic), AckDeadlineSeconds: 60, ExpirationPolicy: &pubsubpb.ExpirationPolicy{}}
	if set != nil {
		set(s)
	}
	if _, err := g.subscriptions.CreateSubscription(g.t.Context(), s); err != nil {
		g.t.Fatal(err)
	}
}

// consumer makes a topic with one consumer of the same name whose failures go
// to name-dead, where they are kept.
func (g *google) consumer(name string, alter ...func(*pubsubpb.Subscription)) {
	g.t.Helper()
	g.topic(name)
	g.topic(name + "-dead")
	g.subscription(name+"-dead", name+"-dead", nil)
	g.subscription(name, name, func(s *pubsubpb.Subscription) {
		s.EnableMessageOrdering = true
		s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName(name + "-dead"), MaxDeliveryAttempts: 5}
		for _, a := range alter {
			a(s)
		}
	})
}

func unordered(s *pubsubpb.Subscription) { s.EnableMessageOrdering = false }

// publish publishes messages, one request for each ordering key, and returns
// their sums.
func (g *google) publish(topic string, messages ...*pubsubpb.PubsubMessage) map[string]int {
	g.t.Helper()
	sums, byKey := map[string]int{}, map[string][]*pubsubpb.PubsubMessage{}
	for _, m := range messages {
		sums[sumOfMessage(m)]++
		byKey[m.GetOrderingKey()] = append(byKey[m.GetOrderingKey()], m)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if _, err := g.topics.Publish(g.t.Context(), &pubsubpb.PublishRequest{Topic: topicName(topic), Messages: byKey[key]}); err != nil {
			g.t.Fatal(err)
		}
	}
	return sums
}

// pull takes what is there now, at once, with all the time that large messages
// need to arrive.
func (g *google) pull(subscription string) []*pubsubpb.ReceivedMessage {
	g.t.Helper()
	out, err := g.subscriptions.Pull(g.t.Context(), &pubsubpb.PullRequest{
		Subscription: subscriptionName(subscription), MaxMessages: 100, ReturnImmediately: true, //nolint:staticcheck // a test's look
	}, gax.WithRetry(nil))
	if err != nil {
		g.t.Fatal(err)
	}
	return out.GetReceivedMessages()
}

// die lets every message of a subscription fail until it is forwarded.
func (g *google) die(subscription string) {
	g.t.Helper()
	for {
		got := g.pull(subscription)
		if len(got) == 0 {
			return
		}
		g.settle(subscription, got, 0)
	}
}

// drain takes everything off a subscription: the sums without our own marks,
// and how often each mark was there.
func (g *google) drain(subscription string) (sums, marks map[string]int) {
	g.t.Helper()
	sums, marks = map[string]int{}, map[string]int{}
	for {
		got := g.pull(subscription)
		if len(got) == 0 {
			return sums, marks
		}
		for _, r := range got {
			m := r.GetMessage()
			marks[m.GetAttributes()["agent.redrive"]]++
			sums[sumWithoutMarks(m)]++
		}
		g.settle(subscription, got, -1)
	}
}

// settle gives messages back after so many seconds; -1 is for good.
func (g *google) settle(subscription string, got []*pubsubpb.ReceivedMessage, seconds int32) {
	g.t.Helper()
	var ids []string
	for _, r := range got {
		ids = append(ids, r.GetAckId())
	}
	var err error
	if seconds < 0 {
		err = g.subscriptions.Acknowledge(g.t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: subscriptionName(subscription), AckIds: ids})
	} else {
		err = g.subscriptions.ModifyAckDeadline(g.t.Context(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: subscriptionName(subscription), AckIds: ids, AckDeadlineSeconds: seconds})
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func sumWithoutMarks(m *pubsubpb.PubsubMessage) string {
	delete(m.GetAttributes(), "agent.redrive")
	delete(m.GetAttributes(), "agent.redrive.to")
	return sumOfMessage(m)
}

func sumOfMessage(m *pubsubpb.PubsubMessage) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", m.GetData(), m.GetOrderingKey())
	for _, n := range slices.Sorted(maps.Keys(m.GetAttributes())) {
		fmt.Fprintf(h, "%q %q", n, m.GetAttributes()[n])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// failed is one task of mixed kind whose worker says that it timed out.
func failed(i int) *pubsubpb.PubsubMessage {
	m := &pubsubpb.PubsubMessage{
		Data:       fmt.Appendf(nil, `{"invoice":%d}`, i),
		Attributes: map[string]string{"agent.v": "1", "agent.task.id": fmt.Sprintf("p-%04d", i), "agent.task.type": "bill", "agent.cause": "timeout", "agent.error.code": "ETIMEDOUT"},
	}
	switch i % 7 {
	case 1:
		m.Data = []byte{0xff, 0xfe, 0, byte(i)} // no UTF-8
	case 2:
		m.Data = nil // a message may be attributes alone
		m.Attributes["n"] = strconv.Itoa(i)
	case 3: // as many attributes as there may be: ours have no place
		for n := range 100 - len(m.Attributes) {
			m.Attributes[fmt.Sprintf("a%02d", n)] = strconv.Itoa(i)
		}
	case 4: // the longest name and value
		m.Attributes[strings.Repeat("n", 256)] = strings.Repeat("é", 512)
	case 5:
		m.OrderingKey = fmt.Sprintf("key-%d", i%3)
	case 6: // names that almost look like the service's, and what a terminal would obey
		m.Attributes["cloudPubSubDeadLetterSource"], m.Attributes["Goog"] = "mine", "\u202e\x1b[2J"
	}
	return m
}

// connect is how the program in this process reaches the cloud's Pub/Sub.
func connect(cloud *localstack.Cloud) func(context.Context) (*gcppubsub.Client, error) {
	return func(ctx context.Context) (*gcppubsub.Client, error) {
		return gcppubsub.NewClient(ctx, cloud.PubSubOptions()...)
	}
}
