package check

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refuses checks that messages are refused, with a good one among them, and
// that nothing of the request is published.
func (b *pubsubBench) refuses(t *testing.T, what string, want codes.Code, messages ...*pubsubpb.PubsubMessage) {
	t.Helper()
	topic, sub := b.both(t, nil)
	_, err := b.topics.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: messages})
	wantStatus(t, what, err, want)
	b.wantNone(t, sub)
}

func attributed(attributes map[string]string) *pubsubpb.PubsubMessage {
	return &pubsubpb.PubsubMessage{Data: []byte("x"), Attributes: attributes}
}

func many(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("a%03d", i)] = "v"
	}
	return all
}

var pubsubRefusalRows = map[string]func(*pubsubBench, *testing.T){
	"an empty message is refused with its whole request": func(b *pubsubBench, t *testing.T) {
		b.refuses(t, "an empty message", codes.InvalidArgument, text("good"), &pubsubpb.PubsubMessage{})
		b.refuses(t, "a key is no content", codes.InvalidArgument, &pubsubpb.PubsubMessage{OrderingKey: "k"})
	},
	"a request without messages is refused": func(b *pubsubBench, t *testing.T) {
		b.refuses(t, "no messages", codes.InvalidArgument)
	},
	"1,000 messages are accepted, 1,001 refused": func(b *pubsubBench, t *testing.T) {
		messages := make([]*pubsubpb.PubsubMessage, 1001)
		for i := range messages {
			messages[i] = text("x")
		}
		b.publish(t, b.topic(t), messages[:1000]...)
		b.refuses(t, "1,001", codes.InvalidArgument, messages...)
	},
	"10 MB of data are accepted, more refused": func(b *pubsubBench, t *testing.T) {
		b.publish(t, b.topic(t), &pubsubpb.PubsubMessage{Data: make([]byte, 10_000_000)})
		b.refuses(t, "over 10 MB", codes.InvalidArgument, &pubsubpb.PubsubMessage{Data: make([]byte, 10_000_001)})
		b.refuses(t, "over 10 MiB in all", codes.InvalidArgument, &pubsubpb.PubsubMessage{Data: make([]byte, 6<<20)}, &pubsubpb.PubsubMessage{Data: make([]byte, 5<<20)})
	},
	"100 attributes are accepted, 101 refused": func(b *pubsubBench, t *testing.T) {
		b.publish(t, b.topic(t), attributed(many(100)))
		b.refuses(t, "101 attributes", codes.InvalidArgument, text("good"), attributed(many(101)))
	},
	"attribute names have 1 to 256 bytes": func(b *pubsubBench, t *testing.T) {
		b.publish(t, b.topic(t), attributed(map[string]string{strings.Repeat("ä", 128): "v"}))
		b.refuses(t, "257 bytes", codes.InvalidArgument, attributed(map[string]string{strings.Repeat("ä", 128) + "a": "v"}))
		b.refuses(t, "an empty name", codes.InvalidArgument, attributed(map[string]string{"": "v"}))
	},
	"attribute values have up to 1,024 bytes": func(b *pubsubBench, t *testing.T) {
		b.publish(t, b.topic(t), attributed(map[string]string{"a": strings.Repeat("ä", 512)}))
		b.refuses(t, "1,025 bytes", codes.InvalidArgument, attributed(map[string]string{"a": strings.Repeat("ä", 512) + "a"}))
	},
	"attribute names must not start with goog": func(b *pubsubBench, t *testing.T) {
		b.refuses(t, "googclient_deliveryattempt", codes.InvalidArgument, attributed(map[string]string{"googclient_deliveryattempt": "5"}))
		b.refuses(t, "goog", codes.InvalidArgument, attributed(map[string]string{"goog": "5"}))
		b.publish(t, b.topic(t), attributed(map[string]string{"Goog": "1", "go": "1", "agoog": "1", "CloudPubSubDeadLetterSourceDeliveryCount": "5"}))
	},
	"one request has one ordering key": func(b *pubsubBench, t *testing.T) {
		b.refuses(t, "two keys", codes.FailedPrecondition, keyed("a", "1"), keyed("b", "2"))
		b.refuses(t, "with and without", codes.FailedPrecondition, keyed("a", "1"), text("2"))
	},
	"an ordering key has up to 1,024 bytes": func(b *pubsubBench, t *testing.T) {
		b.publish(t, b.topic(t), keyed(strings.Repeat("k", 1024), "1"))
		b.refuses(t, "1,025 bytes", codes.InvalidArgument, keyed(strings.Repeat("k", 1025), "1"))
	},
	"the service gives IDs and times": func(b *pubsubBench, t *testing.T) {
		b.refuses(t, "an ID", codes.InvalidArgument, &pubsubpb.PubsubMessage{Data: []byte("x"), MessageId: "1"})
	},
}

// wantReasons checks what an error says about single ack IDs.
func wantReasons(t *testing.T, err error, want map[string]string) {
	t.Helper()
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			if !maps.Equal(info.GetMetadata(), want) {
				t.Errorf("got reasons %v, want %v", info.GetMetadata(), want)
			}
			return
		}
	}
	t.Errorf("got %v, without reasons", err)
}
