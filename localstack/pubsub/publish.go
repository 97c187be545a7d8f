package pubsub

import (
	"context"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Limits of publishing (page "Quotas and limits", resource limits). A request
// as a whole may have 10 MiB, which is where the service's own refusal draws
// the line; the data of a message has the documented 10 MB.
const (
	maxRequestBytes     = 10 << 20
	maxDataBytes        = 10_000_000
	maxRequestMessages  = 1000
	maxAttributes       = 100
	maxAttributeKey     = 256
	maxAttributeValue   = 1024
	maxOrderingKeyBytes = 1024
	reservedPrefix      = "goog"
)

// message is a published message, the same one in all subscriptions.
type message struct {
	proto     *pubsubpb.PubsubMessage // never changed
	number    uint64
	size      int
	published time.Time
}

// Publish implements pubsubpb.PublisherServer. One bad message fails the whole
// request, and nothing of it is published.
func (s *Service) Publish(_ context.Context, in *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	if err := checkName(in.GetTopic(), topicKind); err != nil {
		return nil, err
	}
	if err := checkPublish(in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tick()
	t, exists := s.topics[in.GetTopic()]
	if !exists {
		return nil, notFound(in.GetTopic())
	}
	s.sweep(now)
	out := &pubsubpb.PublishResponse{MessageIds: make([]string, len(in.GetMessages()))}
	for i, m := range in.GetMessages() {
		out.MessageIds[i] = s.publish(t, m, now)
	}
	return out, nil
}

// publish gives a message its ID and puts it into the subscriptions.
func (s *Service) publish(t *topic, in *pubsubpb.PubsubMessage, now time.Time) string {
	s.messages++
	m := &message{
		proto: &pubsubpb.PubsubMessage{
			Data: in.GetData(), Attributes: in.GetAttributes(), OrderingKey: in.GetOrderingKey(),
			MessageId:   strconv.FormatUint(s.firstID+s.messages, 10),
			PublishTime: timestamppb.New(now),
		},
		number:    s.messages,
		published: now,
	}
	m.size = proto.Size(m.proto)
	for _, sub := range t.subscriptions {
		if sub.match(m.proto.GetAttributes()) {
			sub.add(m)
		}
	}
	if t.retention() > 0 {
		t.expire(now)
		t.retained = append(t.retained, m)
	}
	return m.proto.GetMessageId()
}

func checkPublish(in *pubsubpb.PublishRequest) error {
	if size := proto.Size(in); size > maxRequestBytes {
		return invalid("Request payload size exceeds the limit: %d bytes.", maxRequestBytes)
	}
	if len(in.ProtoReflect().GetUnknown()) > 0 {
		return unserved("a field of PublishRequest that it does not know")
	}
	switch n := len(in.GetMessages()); {
	case n == 0:
		return invalid("The value for message_count is too small. You passed 0 in the request, but the minimum value is 1.")
	case n > maxRequestMessages:
		return invalid("The value for message_count is too large. You passed %d in the request, but the maximum value is %d.", n, maxRequestMessages)
	}
	for _, m := range in.GetMessages() {
		if m.GetOrderingKey() != in.GetMessages()[0].GetOrderingKey() {
			return status.Error(codes.FailedPrecondition,
				"In a single publish request, all messages must have no ordering key or they must all have the same ordering key.")
		}
		if err := checkMessage(m); err != nil {
			return err
		}
	}
	return nil
}

func checkMessage(m *pubsubpb.PubsubMessage) error {
	switch {
	case len(m.GetData()) == 0 && len(m.GetAttributes()) == 0:
		// The proto, PubsubMessage.data.
		return invalid("One or more messages in the publish request is empty. Each message must contain either non-empty data, or at least one attribute.")
	case len(m.GetData()) > maxDataBytes:
		return invalid("The data of a message has %d bytes; at most %d are allowed.", len(m.GetData()), maxDataBytes)
	case m.GetMessageId() != "" || m.GetPublishTime() != nil:
		// The proto: "must not be populated by the publisher".
		return invalid("The message_id and publish_time of a message must not be set in a publish request.")
	case len(m.GetOrderingKey()) > maxOrderingKeyBytes:
		return invalid("The ordering key has %d bytes; at most %d are allowed.", len(m.GetOrderingKey()), maxOrderingKeyBytes)
	case len(m.GetAttributes()) > maxAttributes:
		return invalid("The message has %d attributes; at most %d are allowed.", len(m.GetAttributes()), maxAttributes)
	case len(m.ProtoReflect().GetUnknown()) > 0:
		return unserved("a field of PubsubMessage that it does not know")
	}
	for key, value := range m.GetAttributes() {
		switch {
		case key == "":
			return invalid("An attribute key must not be empty.")
		case len(key) > maxAttributeKey:
			return invalid("The attribute key has %d bytes; at most %d are allowed.", len(key), maxAttributeKey)
		case len(value) > maxAttributeValue:
			return invalid("The value of the attribute %q has %d bytes; at most %d are allowed.", key, len(value), maxAttributeValue)
		case strings.HasPrefix(key, reservedPrefix):
			// Page "Use attributes to publish a message": keys must not start
			// with goog. So neither goods nor CloudPubSub… is refused.
			return invalid("The attribute key %q must not start with %q.", key, reservedPrefix)
		}
	}
	return nil
}
