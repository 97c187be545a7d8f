package gcppubsub_test

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/adaptertest"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func TestConformance(t *testing.T) {
	adaptertest.DeadLetters(t, harness(false))
	adaptertest.Destination(t, harness(false))
}

// The same holds with exactly-once delivery, where acknowledgements answer.
func TestConformanceExactlyOnce(t *testing.T) {
	adaptertest.DeadLetters(t, harness(true))
}

func BenchmarkConformance(b *testing.B) { adaptertest.Benchmark(b, harness(false)) }

// visibility is enough for Receive to leave a letter's deadline alone.
const visibility = 30 * time.Second

func harness(exactlyOnce bool) adaptertest.Harness {
	return adaptertest.Harness{
		New:        func(t testing.TB, ordered bool) *adaptertest.Setup { return setup(t, ordered, exactlyOnce) },
		Visibility: visibility,
		Differences: adaptertest.Differences{
			TextValues:        "attributes are strings of protocol buffers, which are UTF-8",
			OneType:           "attributes are strings",
			NoTrace:           "the trace header is SQS's; here it is an attribute like others",
			UnknownDeliveries: "a subscription without a dead-letter policy does not count; what was forwarded says how often its source tried",
			UnknownDepth:      "the API has no counters",
			NoEntryFaults:     "a publish is carried out or refused as a whole; failed ack ids are tested with exactly-once delivery",
		},
	}
}

// operations are the provider's by kind of call.
var operations = map[adaptertest.Call]string{
	adaptertest.Receive: "Pull", adaptertest.Delete: "Acknowledge", adaptertest.Hide: "ModifyAckDeadline",
	adaptertest.Depth: "GetSubscription", adaptertest.Facts: "ListTopicSubscriptions", adaptertest.Send: "Publish",
}

func setup(t testing.TB, ordered, exactlyOnce bool) *adaptertest.Setup {
	t.Helper()
	w := newWorld(t)
	w.topic("dead")
	w.subscription("dead-letters", "dead", func(s *pubsubpb.Subscription) {
		s.AckDeadlineSeconds = int32(visibility / time.Second)
		s.EnableExactlyOnceDelivery = exactlyOnce
	})
	w.topic("jobs")
	w.subscription("worker", "jobs", func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = ordered })
	dead, jobs := w.open("dead-letters"), w.destination("jobs", "")
	published := 0
	return &adaptertest.Setup{
		DeadLetters: dead,
		Destination: jobs,
		// As a worker publishes it itself; what the service forwards is tested
		// apart, it takes five rejections each.
		Put: func(t testing.TB, messages ...dlqbridge.Outgoing) {
			t.Helper()
			for _, m := range messages {
				w.publish("dead", &pubsubpb.PubsubMessage{Data: m.Payload.Body, OrderingKey: m.Payload.GroupKey, Attributes: nilIfNone(attributesOf(m.Payload))})
				published++
			}
		},
		Arrived: func(testing.TB) []dlqbridge.Outgoing { return w.consume("worker") },
		MissingPlace: func(ctx context.Context) error {
			o := w.options()
			o.Subscription = "nobody"
			_, err := gcppubsub.Open(ctx, o)
			return err
		},
		MissingDestination: func(ctx context.Context) error {
			w.topic("gone")
			gone := w.destination("gone", "")
			if err := w.topics.DeleteTopic(ctx, &pubsubpb.DeleteTopicRequest{Topic: topicName("gone")}); err != nil {
				return err
			}
			return send(ctx, gone, text("x", ""))[0]
		},
		Break: func(t testing.TB, f adaptertest.Fault) {
			t.Helper()
			w.fault(faultOf(f))
		},
		Requests: func(_ testing.TB, c adaptertest.Call) int {
			n := len(w.requests(operations[c]))
			if c == adaptertest.Send {
				n -= published // by us, through the same door
			}
			return n
		},
	}
}

func faultOf(f adaptertest.Fault) localstack.Fault {
	out := localstack.Fault{Operation: operations[f.Call], Times: f.Times}
	if out.Times == 0 {
		out.Times = -1
	}
	switch f.Do {
	case adaptertest.Denied:
		out.Do, out.Code, out.Message = localstack.DoError, "PERMISSION_DENIED", "User not authorized to perform this action."
	case adaptertest.Throttled:
		out.Do = localstack.DoThrottle
	case adaptertest.LostAnswer:
		out.Do = localstack.DoDropAfter
	case adaptertest.Silence:
		out.Do = localstack.DoBlackHole
	}
	return out
}

// consume takes everything as a consumer would.
func (w *world) consume(subscription string) []dlqbridge.Outgoing {
	w.t.Helper()
	var all []dlqbridge.Outgoing
	for {
		got := w.pull(subscription)
		if len(got) == 0 {
			return all
		}
		in := &pubsubpb.AcknowledgeRequest{Subscription: subscriptionName(subscription)}
		for _, m := range got {
			o := text("", m.GetMessage().GetOrderingKey())
			o.Payload.Body = m.GetMessage().GetData()
			for name, value := range m.GetMessage().GetAttributes() {
				o.Payload = o.Payload.With(dlqbridge.Attribute{Name: name, Type: "String", Value: []byte(value)})
			}
			all = append(all, o)
			in.AckIds = append(in.AckIds, m.GetAckId())
		}
		must(w.t, w.subscriptions.Acknowledge(w.t.Context(), in))
	}
}

func nilIfNone(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
