package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// PubSubHarness is one Pub/Sub endpoint under examination.
type PubSubHarness struct {
	// Options let a new client reach the endpoint.
	Options func() []option.ClientOption
	// Project is the project to work in.
	Project string
	// Advance moves the endpoint's clock; nil if it cannot, and then rows wait
	// where it takes seconds and are skipped where it takes longer.
	Advance func(time.Duration)
	// Settle returns when calls that were begun in the background wait inside
	// the endpoint, as synctest.Wait does; nil returns at once.
	Settle func()
	// Around runs a row with a harness made for it alone, such as a fresh
	// cloud; inBubble says that the row can do with virtual time, as those can
	// that use no Subscriber.Receive. Nil runs rows with this harness.
	Around func(t *testing.T, inBubble bool, row func(t *testing.T, h PubSubHarness))
	// Parallel runs rows beside each other, which shortens real waiting.
	Parallel bool
	// Known lists the endpoint's known faults by the name of the row, and why.
	Known map[string]string
}

// PubSub runs the check list for topics and subscriptions on an endpoint, a
// sub-test per row.
func PubSub(t *testing.T, h PubSubHarness) {
	rows := []map[string]func(*pubsubBench, *testing.T){
		pubsubTopicRows, pubsubSubscriptionRows, pubsubDeliveryRows, pubsubAckRows, pubsubDeadLetterRows,
		pubsubOrderRows, pubsubFilterRows, pubsubSeekRows, pubsubRefusalRows, pubsubStreamRows,
	}
	for _, group := range rows {
		h.run(t, group, true)
	}
	h.run(t, pubsubReceiveRows, false)
}

func (h PubSubHarness) run(t *testing.T, group map[string]func(*pubsubBench, *testing.T), inBubble bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(group)) {
		t.Run(name, func(t *testing.T) {
			if reason, known := h.Known[name]; known {
				t.Skipf("known fault of this endpoint: %s", reason)
			}
			if h.Parallel {
				t.Parallel()
			}
			row := func(t *testing.T, h PubSubHarness) { group[name](newPubSubBench(t, h), t) }
			if h.Around == nil {
				row(t, h)
				return
			}
			h.Around(t, inBubble, row)
		})
	}
}

// pubsubBench is an endpoint and the generated clients for it.
type pubsubBench struct {
	PubSubHarness
	topics *pubsub.TopicAdminClient
	subs   *pubsub.SubscriptionAdminClient
}

func newPubSubBench(t *testing.T, h PubSubHarness) *pubsubBench {
	t.Helper()
	// The clients outlive the test's context, which ends before its clean-up.
	ctx := context.WithoutCancel(t.Context())
	topics, err := pubsub.NewTopicAdminClient(ctx, h.Options()...)
	if err != nil {
		t.Fatalf("make a client of topics: %v", err)
	}
	subs, err := pubsub.NewSubscriptionAdminClient(ctx, h.Options()...)
	if err != nil {
		t.Fatalf("make a client of subscriptions: %v", err)
	}
	t.Cleanup(func() {
		topics.Close()
		subs.Close()
	})
	return &pubsubBench{h, topics, subs}
}

func (b *pubsubBench) topicName() string {
	return fmt.Sprintf("projects/%s/topics/check-%s-%d", b.Project, started, madeNames.Add(1))
}

func (b *pubsubBench) subName() string {
	return fmt.Sprintf("projects/%s/subscriptions/check-%s-%d", b.Project, started, madeNames.Add(1))
}

func (b *pubsubBench) topic(t *testing.T) string {
	t.Helper()
	made, err := b.topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: b.topicName()})
	if err != nil {
		t.Fatalf("create a topic: %v", err)
	}
	return made.GetName()
}

// sub makes a subscription of a topic, altered.
func (b *pubsubBench) sub(t *testing.T, topic string, alter func(*pubsubpb.Subscription)) string {
	t.Helper()
	in := &pubsubpb.Subscription{Name: b.subName(), Topic: topic}
	if alter != nil {
		alter(in)
	}
	made, err := b.subs.CreateSubscription(t.Context(), in)
	if err != nil {
		t.Fatalf("create a subscription: %v", err)
	}
	return made.GetName()
}

// both makes a topic and a subscription of it, altered.
func (b *pubsubBench) both(t *testing.T, alter func(*pubsubpb.Subscription)) (topic, sub string) {
	t.Helper()
	topic = b.topic(t)
	return topic, b.sub(t, topic, alter)
}

func (b *pubsubBench) publish(t *testing.T, topic string, messages ...*pubsubpb.PubsubMessage) []string {
	t.Helper()
	out, err := b.topics.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: messages})
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return out.GetMessageIds()
}

func text(body string) *pubsubpb.PubsubMessage { return &pubsubpb.PubsubMessage{Data: []byte(body)} }

func keyed(key, body string) *pubsubpb.PubsubMessage {
	return &pubsubpb.PubsubMessage{Data: []byte(body), OrderingKey: key}
}

// patience bounds a pull that ought to get something: long, because a judge on a
// busy machine may need it, and only a failure takes all of it.
const patience = 40 * time.Second

// pull pulls until it has so many messages, and fails if they do not come.
func (b *pubsubBench) pull(t *testing.T, sub string, want int) []*pubsubpb.ReceivedMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []*pubsubpb.ReceivedMessage
	for len(got) < want {
		out, err := b.subs.Pull(ctx, &pubsubpb.PullRequest{Subscription: sub, MaxMessages: int32(want - len(got))})
		if err != nil {
			t.Fatalf("pull: %v (after %d of %d messages)", err, len(got), want)
		}
		got = append(got, out.GetReceivedMessages()...)
	}
	return got
}

// look pulls once without waiting.
func (b *pubsubBench) look(t *testing.T, sub string) []*pubsubpb.ReceivedMessage {
	t.Helper()
	out, err := b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 100, ReturnImmediately: true}) //nolint:staticcheck // what is looked at
	if err != nil {
		t.Fatalf("look: %v", err)
	}
	return out.GetReceivedMessages()
}

func (b *pubsubBench) wantNone(t *testing.T, sub string) {
	t.Helper()
	if got := b.look(t, sub); len(got) != 0 {
		t.Errorf("got %q, want nothing", bodies(got))
	}
}

func (b *pubsubBench) ack(t *testing.T, sub string, got ...*pubsubpb.ReceivedMessage) {
	t.Helper()
	if err := b.subs.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: ackIDs(got)}); err != nil {
		t.Fatalf("acknowledge: %v", err)
	}
}

// modify moves deadlines; zero rejects.
func (b *pubsubBench) modify(t *testing.T, sub string, seconds int32, got ...*pubsubpb.ReceivedMessage) {
	t.Helper()
	err := b.subs.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: sub, AckIds: ackIDs(got), AckDeadlineSeconds: seconds})
	if err != nil {
		t.Fatalf("modify the deadline: %v", err)
	}
}

func ackIDs(got []*pubsubpb.ReceivedMessage) []string {
	ids := make([]string, len(got))
	for i, m := range got {
		ids[i] = m.GetAckId()
	}
	return ids
}

// bodies are the data of messages, cut to what can be shown.
func bodies(got []*pubsubpb.ReceivedMessage) []string {
	const shown = 40
	all := make([]string, len(got))
	for i, m := range got {
		data := m.GetMessage().GetData()
		all[i] = string(data[:min(len(data), shown)])
	}
	return all
}

func wantBodies(t *testing.T, got []*pubsubpb.ReceivedMessage, want ...string) {
	t.Helper()
	if !slices.Equal(bodies(got), want) {
		t.Errorf("got %q, want %q", bodies(got), want)
	}
}

func wantStatus(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// longestWait is for how long a row really waits where there is no clock.
const longestWait = 20 * time.Second

// pass lets time pass at the endpoint.
func (h PubSubHarness) pass(t *testing.T, d time.Duration) {
	t.Helper()
	switch {
	case h.Advance != nil:
		h.Advance(d)
	case d > longestWait:
		t.Skipf("needs a clock that can be moved by %v", d)
	default:
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.Context().Done():
		}
	}
}

func (h PubSubHarness) settle() {
	if h.Settle != nil {
		h.Settle()
	}
}

// numbered are the texts "0", "1", … of so many messages.
func numbered(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}
