package pubsub

import (
	"context"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// PullWait is how long a pull waits for a first message before it answers with
// none (the proto says "a bounded amount of time").
const PullWait = 30 * time.Second

// What one answer holds at most. The service may always give fewer messages
// than were asked for.
const (
	maxPullMessages = 1000
	maxPullBytes    = 10 << 20
)

// maxAckBytes is the largest request of ack IDs (page "Quotas and limits").
const maxAckBytes = 512 << 10

// consumable finds a subscription that messages can be had from.
func (s *Service) consumable(name string, now time.Time) (*subscription, error) {
	sub, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if err := sub.usable(); err != nil {
		return nil, err
	}
	sub.active = now
	return sub, nil
}

// usable says why nothing can be had from the subscription.
func (sub *subscription) usable() error {
	switch {
	case sub.gone:
		return notFound(sub.name)
	case sub.config.GetDetached():
		// The proto, Subscription.detached.
		return status.Errorf(codes.FailedPrecondition, "Subscription is detached from its topic (resource=%s).", shortName(sub.name))
	}
	return nil
}

// Pull implements pubsubpb.SubscriberServer.
func (s *Service) Pull(ctx context.Context, in *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	if in.GetMaxMessages() <= 0 {
		return nil, invalid("The value for max_messages is too small. You passed %d in the request, but the minimum value is 1.", in.GetMaxMessages())
	}
	if err := known(in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tick()
	sub, err := s.consumable(in.GetSubscription(), now)
	if err != nil {
		return nil, err
	}
	w := s.enlist(sub)
	defer s.dismiss(sub, w)
	until := now.Add(PullWait)
	for {
		if err := sub.usable(); err != nil {
			return nil, err
		}
		deadline := time.Duration(sub.config.GetAckDeadlineSeconds()) * time.Second
		got := sub.take(now, &holder{}, min(int(in.GetMaxMessages()), maxPullMessages), maxPullBytes, deadline)
		// The proto: return_immediately is discouraged, and works.
		if len(got) > 0 || in.GetReturnImmediately() || !now.Before(until) { //nolint:staticcheck // deprecated, and served
			sub.active = now
			return &pubsubpb.PullResponse{ReceivedMessages: sub.received(got)}, nil
		}
		if err := s.sleep(ctx, w, until); err != nil {
			return nil, status.FromContextError(err).Err()
		}
		now = s.tick()
	}
}

// received words deliveries for the receiver.
func (sub *subscription) received(got []*delivery) []*pubsubpb.ReceivedMessage {
	out := make([]*pubsubpb.ReceivedMessage, len(got))
	for i, d := range got {
		out[i] = &pubsubpb.ReceivedMessage{AckId: sub.key.id(d.ack), Message: d.proto}
		if sub.config.GetDeadLetterPolicy() != nil {
			out[i].DeliveryAttempt = int32(d.attempts + 1)
		}
	}
	return out
}

// Acknowledge implements pubsubpb.SubscriberServer. An expired ack ID has no
// effect: the proto lets it have one, but nobody may count on it. Only
// exactly-once subscriptions say so.
func (s *Service) Acknowledge(_ context.Context, in *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	if err := checkAckIDs(in, in.GetAckIds()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tick()
	sub, err := s.find(in.GetSubscription())
	if err != nil {
		return nil, err
	}
	sub.active = now
	if err := sub.checkMalformed(in.GetAckIds()); err != nil {
		return nil, err
	}
	_, failed := sub.acknowledgeAll(in.GetAckIds())
	return sub.outcome(failed)
}

// ModifyAckDeadline implements pubsubpb.SubscriberServer. A deadline of zero
// is a rejection.
func (s *Service) ModifyAckDeadline(_ context.Context, in *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	if err := checkAckIDs(in, in.GetAckIds()); err != nil {
		return nil, err
	}
	if err := checkDeadline(in.GetAckDeadlineSeconds()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tick()
	sub, err := s.find(in.GetSubscription())
	if err != nil {
		return nil, err
	}
	sub.active = now
	if err := sub.checkMalformed(in.GetAckIds()); err != nil {
		return nil, err
	}
	failed := map[string]string{}
	for _, id := range in.GetAckIds() {
		if !sub.modify(id, in.GetAckDeadlineSeconds(), now) {
			failed[id] = InvalidAckID
		}
	}
	return sub.outcome(failed)
}

// checkAckIDs checks the form of a request about ack IDs.
func checkAckIDs(in proto.Message, ids []string) error {
	if len(ids) == 0 {
		return invalid("No ack ids specified.")
	}
	if proto.Size(in) > maxAckBytes {
		return invalid("Request payload size exceeds the limit: %d bytes.", maxAckBytes)
	}
	return known(in)
}

// checkMalformed refuses a request with an ID that was never one, whole.
func (sub *subscription) checkMalformed(ids []string) error {
	for _, id := range ids {
		if _, ok := sub.key.number(id); ok {
			continue
		}
		if sub.config.GetEnableExactlyOnceDelivery() {
			return RefuseAcks(map[string]string{id: InvalidAckID})
		}
		return invalid("You have passed an invalid ack ID to the service (ack_id=%s).", id)
	}
	return nil
}

func checkDeadline(seconds int32) error {
	if seconds < 0 || seconds > maxAckDeadline {
		return invalid("Invalid ack deadline given (ack_deadline_seconds=%d). It must be between 0 and %d seconds.", seconds, maxAckDeadline)
	}
	return nil
}

// acknowledgeAll acknowledges what is still in its receiver's hands.
func (sub *subscription) acknowledgeAll(ids []string) (well []string, failed map[string]string) {
	failed = map[string]string{}
	for _, id := range ids {
		ack, _ := sub.key.number(id)
		switch d := sub.held[ack]; {
		case d != nil:
			sub.acknowledge(d)
			well = append(well, id)
		case sub.done.has(ack):
			well = append(well, id)
		default:
			failed[id] = InvalidAckID
		}
	}
	return well, failed
}

// modify moves a deadline; false if the delivery is over already.
func (sub *subscription) modify(id string, seconds int32, now time.Time) bool {
	ack, _ := sub.key.number(id)
	d := sub.held[ack]
	switch {
	case d == nil:
		return false
	case seconds == 0:
		sub.fail(d, now)
	default:
		sub.service.start(&d.deadline, now.Add(time.Duration(seconds)*time.Second))
	}
	return true
}

// outcome answers a request about ack IDs: only with exactly once is there
// anything to be told about expired ones (page "Exactly-once delivery").
func (sub *subscription) outcome(failed map[string]string) (*emptypb.Empty, error) {
	if len(failed) > 0 && sub.config.GetEnableExactlyOnceDelivery() {
		return nil, RefuseAcks(failed)
	}
	return &emptypb.Empty{}, nil
}

// Content is the ID and the data of the message that an ack ID stands for, for
// those who look for a message in requests; nothing if the delivery is over.
// The receiver must not change the data.
func (s *Service) Content(subscription, ackID string) (messageID string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, exists := s.subscriptions[subscription]
	if !exists {
		return "", nil
	}
	ack, _ := sub.key.number(ackID)
	d := sub.held[ack]
	if d == nil {
		return "", nil
	}
	return d.proto.GetMessageId(), d.proto.GetData()
}
