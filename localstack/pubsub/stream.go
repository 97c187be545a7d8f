package pubsub

import (
	"errors"
	"io"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/status"
)

// What one answer on a stream holds at most: little enough that several
// streams share a burst, and that clients with small buffers can take it.
const (
	maxStreamMessages = 100
	maxStreamBytes    = 3 << 20
)

// streamRest is how long a stream sleeps when nothing happens.
const streamRest = time.Hour

// stream is an open streaming pull. The service's lock protects it.
type stream struct {
	sub      *subscription
	waiter   *waiter
	holder   *holder
	deadline time.Duration
	// Flow control: what it may have outstanding (zero: any number) and has.
	mostMessages, mostBytes int64
	messages, bytes         int

	answers []*pubsubpb.StreamingPullResponse // to keep-alives and to acknowledgements
	closed  bool                              // nothing more may be delivered on it
	ended   bool                              // the client has no more to say
	err     error                             // why it is to end
}

// StreamingPull implements pubsubpb.SubscriberServer.
func (s *Service) StreamingPull(server pubsubpb.Subscriber_StreamingPullServer) error {
	first, err := server.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return invalid("A streaming pull needs a first request.")
		}
		return err
	}
	if err := checkFirst(first); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.open(first)
	if err != nil {
		return err
	}
	defer st.close()
	// It ends with the stream, whose end makes Recv fail.
	go s.listen(st, server)
	for {
		if st.err == nil {
			st.err = st.sub.usable()
		}
		if st.err != nil {
			return st.err
		}
		now := s.tick()
		answers := st.answers
		st.answers = nil
		if got := st.take(now); len(got) > 0 {
			st.sub.active = now
			answers = append(answers, st.answer(st.sub.received(got)))
		}
		if len(answers) > 0 {
			if err := s.send(server, answers); err != nil {
				return err
			}
			continue
		}
		if st.ended {
			return nil
		}
		if err := s.sleep(server.Context(), st.waiter, now.Add(streamRest)); err != nil {
			return status.FromContextError(err).Err()
		}
	}
}

// send gives the lock away while it sends: a slow client must not stop others.
func (s *Service) send(server pubsubpb.Subscriber_StreamingPullServer, answers []*pubsubpb.StreamingPullResponse) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, answer := range answers {
		if err := server.Send(answer); err != nil {
			return err
		}
	}
	return nil
}

// open begins a stream.
func (s *Service) open(first *pubsubpb.StreamingPullRequest) (*stream, error) {
	now := s.tick()
	sub, err := s.consumable(first.GetSubscription(), now)
	if err != nil {
		return nil, err
	}
	st := &stream{
		sub: sub, waiter: s.enlist(sub), holder: &holder{},
		deadline:     time.Duration(first.GetStreamAckDeadlineSeconds()) * time.Second,
		mostMessages: first.GetMaxOutstandingMessages(), mostBytes: first.GetMaxOutstandingBytes(),
	}
	st.holder.stream = st
	sub.streams++
	st.hear(first, now)
	return st, nil
}

func (st *stream) close() {
	st.closed = true
	st.sub.streams--
	st.sub.active = st.sub.service.clock.Now()
	st.sub.service.dismiss(st.sub, st.waiter)
	// Lanes that waited for this stream are anybody's once what it has of them
	// is settled; until then their messages are in its client's hands.
}

// take gets what flow control lets through.
func (st *stream) take(now time.Time) []*delivery {
	if st.ended {
		return nil
	}
	most, bytes := maxStreamMessages, maxStreamBytes
	if st.mostMessages > 0 {
		most = min(most, int(st.mostMessages)-st.messages)
	}
	if st.mostBytes > 0 {
		bytes = min(bytes, int(st.mostBytes)-st.bytes)
	}
	if most <= 0 || bytes <= 0 {
		return nil // until something is acknowledged or given up
	}
	return st.sub.take(now, st.holder, most, bytes, st.deadline)
}

// answer is a response with what every response says.
func (st *stream) answer(messages []*pubsubpb.ReceivedMessage) *pubsubpb.StreamingPullResponse {
	return &pubsubpb.StreamingPullResponse{
		ReceivedMessages: messages,
		SubscriptionProperties: &pubsubpb.StreamingPullResponse_SubscriptionProperties{
			ExactlyOnceDeliveryEnabled: st.sub.config.GetEnableExactlyOnceDelivery(),
			MessageOrderingEnabled:     st.sub.config.GetEnableMessageOrdering(),
		},
	}
}

// listen hears what the client says until the stream ends.
func (s *Service) listen(st *stream, server pubsubpb.Subscriber_StreamingPullServer) {
	for {
		request, err := server.Recv()
		s.mu.Lock()
		switch {
		case st.closed:
		case err != nil:
			st.ended = true
			if !errors.Is(err, io.EOF) {
				st.err = err
			}
		default:
			if refusal := checkLater(request); refusal != nil {
				st.err = refusal
			} else {
				st.hear(request, s.tick())
			}
		}
		over := st.closed || st.ended || st.err != nil
		st.waiter.nudge()
		s.mu.Unlock()
		if over {
			return
		}
	}
}

// hear carries out a request on the stream.
func (st *stream) hear(request *pubsubpb.StreamingPullRequest, now time.Time) {
	sub := st.sub
	sub.active = now
	if seconds := request.GetStreamAckDeadlineSeconds(); seconds != 0 {
		st.deadline = time.Duration(seconds) * time.Second
	}
	all := append(append([]string{}, request.GetAckIds()...), request.GetModifyDeadlineAckIds()...)
	for _, id := range all {
		if _, ok := sub.key.number(id); !ok {
			// The proto: the stream is aborted.
			st.err = invalid("You have passed an invalid ack ID to the service (ack_id=%s).", id)
			return
		}
	}
	if len(all) == 0 {
		if request.GetSubscription() == "" {
			// A keep-alive; clients that hear nothing for 15 s open another stream.
			st.answers = append(st.answers, st.answer(nil))
		}
		return
	}
	answer := st.answer(nil)
	if ids := request.GetAckIds(); len(ids) > 0 {
		well, failed := sub.acknowledgeAll(ids)
		answer.AcknowledgeConfirmation = &pubsubpb.StreamingPullResponse_AcknowledgeConfirmation{AckIds: well}
		for id := range failed {
			answer.AcknowledgeConfirmation.InvalidAckIds = append(answer.AcknowledgeConfirmation.InvalidAckIds, id)
		}
	}
	if ids := request.GetModifyDeadlineAckIds(); len(ids) > 0 {
		confirmation := &pubsubpb.StreamingPullResponse_ModifyAckDeadlineConfirmation{}
		for i, id := range ids {
			if sub.modify(id, request.GetModifyDeadlineSeconds()[i], now) {
				confirmation.AckIds = append(confirmation.AckIds, id)
			} else {
				confirmation.InvalidAckIds = append(confirmation.InvalidAckIds, id)
			}
		}
		answer.ModifyAckDeadlineConfirmation = confirmation
	}
	if sub.config.GetEnableExactlyOnceDelivery() {
		st.answers = append(st.answers, answer)
	}
}

// checkFirst and checkLater check what the proto says of the first request of
// a stream and of the others (StreamingPullRequest).
func checkFirst(in *pubsubpb.StreamingPullRequest) error {
	if err := known(in); err != nil {
		return err
	}
	if in.GetSubscription() == "" {
		return invalid("The first request of a streaming pull must name the subscription.")
	}
	if seconds := in.GetStreamAckDeadlineSeconds(); seconds < minAckDeadline || seconds > maxAckDeadline {
		return invalid("Invalid stream ack deadline given (stream_ack_deadline_seconds=%d). It must be between %d and %d seconds.", seconds, minAckDeadline, maxAckDeadline)
	}
	return checkBoth(in)
}

func checkLater(in *pubsubpb.StreamingPullRequest) error {
	if err := known(in); err != nil {
		return err
	}
	switch {
	case in.GetSubscription() != "":
		return invalid("Only the first request of a streaming pull may name the subscription.")
	case in.GetMaxOutstandingMessages() != 0 || in.GetMaxOutstandingBytes() != 0:
		return invalid("Only the first request of a streaming pull may set flow control.")
	case in.GetProtocolVersion() != 0:
		return invalid("Only the first request of a streaming pull may set the protocol version.")
	case in.GetStreamAckDeadlineSeconds() != 0 && (in.GetStreamAckDeadlineSeconds() < minAckDeadline || in.GetStreamAckDeadlineSeconds() > maxAckDeadline):
		return invalid("Invalid stream ack deadline given (stream_ack_deadline_seconds=%d). It must be between %d and %d seconds.", in.GetStreamAckDeadlineSeconds(), minAckDeadline, maxAckDeadline)
	}
	return checkBoth(in)
}

func checkBoth(in *pubsubpb.StreamingPullRequest) error {
	if len(in.GetModifyDeadlineAckIds()) != len(in.GetModifyDeadlineSeconds()) {
		return invalid("There are %d modify_deadline_ack_ids and %d modify_deadline_seconds.", len(in.GetModifyDeadlineAckIds()), len(in.GetModifyDeadlineSeconds()))
	}
	for _, seconds := range in.GetModifyDeadlineSeconds() {
		if err := checkDeadline(seconds); err != nil {
			return err
		}
	}
	return nil
}
