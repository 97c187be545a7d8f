package check

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
)

// flow is a stream to a subscription.
type flow struct {
	pubsubpb.Subscriber_StreamingPullClient
	end context.CancelFunc
}

// stream opens a streaming pull, altered, that ends with the test.
func (b *pubsubBench) stream(t *testing.T, sub string, alter func(*pubsubpb.StreamingPullRequest)) flow {
	t.Helper()
	// An end for a row whose messages do not come.
	ctx, cancel := context.WithTimeout(t.Context(), 2*longestWait)
	t.Cleanup(cancel)
	s, err := b.subs.StreamingPull(ctx)
	if err != nil {
		t.Fatalf("open a stream: %v", err)
	}
	first := &pubsubpb.StreamingPullRequest{Subscription: sub, StreamAckDeadlineSeconds: 10}
	if alter != nil {
		alter(first)
	}
	if err := s.Send(first); err != nil {
		t.Fatalf("open a stream: %v", err)
	}
	return flow{s, cancel}
}

// next is the next answer with messages.
func (f flow) next(t *testing.T) *pubsubpb.StreamingPullResponse {
	t.Helper()
	for {
		got, err := f.Recv()
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		if len(got.GetReceivedMessages()) > 0 {
			return got
		}
	}
}

// collect gets so many messages.
func (f flow) collect(t *testing.T, want int) []*pubsubpb.ReceivedMessage {
	t.Helper()
	var all []*pubsubpb.ReceivedMessage
	for len(all) < want {
		all = append(all, f.next(t).GetReceivedMessages()...)
	}
	return all
}

func (f flow) say(t *testing.T, request *pubsubpb.StreamingPullRequest) {
	t.Helper()
	if err := f.Send(request); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// wantEnd reads until the stream ends, with the code.
func (f flow) wantEnd(t *testing.T, want codes.Code) {
	t.Helper()
	for {
		if _, err := f.Recv(); err != nil {
			wantStatus(t, "the end of the stream", err, want)
			return
		}
	}
}

var pubsubStreamRows = map[string]func(*pubsubBench, *testing.T){
	"a stream delivers and takes acknowledgements and rejections": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		s := b.stream(t, sub, nil)
		b.publish(t, topic, text("1"))
		got := s.collect(t, 1)
		wantBodies(t, got, "1")
		s.say(t, &pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: ackIDs(got), ModifyDeadlineSeconds: []int32{0}})
		got = s.collect(t, 1)
		wantBodies(t, got, "1")
		s.say(t, &pubsubpb.StreamingPullRequest{AckIds: ackIDs(got)})
		b.publish(t, topic, text("2"))
		wantBodies(t, s.collect(t, 1), "2")
		s.end()
		b.settle()
		b.pass(t, 11*time.Second)
		wantBodies(t, b.pull(t, sub, 1), "2")
		b.wantNone(t, sub)
	},
	"an acknowledgement by a call lets a stream that is held back go on": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		s := b.stream(t, sub, func(r *pubsubpb.StreamingPullRequest) { r.MaxOutstandingMessages = 2 })
		b.publish(t, topic, text("1"), text("2"), text("3"), text("4"), text("5"))
		seen := map[string]bool{}
		began := time.Now()
		for len(seen) < 5 {
			got := s.next(t).GetReceivedMessages()
			if len(got) > 2 {
				t.Fatalf("got %d messages at once, want no more than 2", len(got))
			}
			for _, m := range got {
				seen[string(m.GetMessage().GetData())] = true
			}
			b.ack(t, sub, got...)
		}
		if spent := time.Since(began); spent > 5*time.Second {
			t.Errorf("it took %v: the stream woke at a deadline, not at the acknowledgements", spent)
		}
	},
	"a stream is held back by bytes too, and let go by rejections": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		s := b.stream(t, sub, func(r *pubsubpb.StreamingPullRequest) { r.MaxOutstandingBytes = 1000 })
		b.publish(t, topic, &pubsubpb.PubsubMessage{Data: make([]byte, 2000)})
		b.publish(t, topic, &pubsubpb.PubsubMessage{Data: make([]byte, 2001)})
		first := s.next(t).GetReceivedMessages()
		if len(first) != 1 {
			t.Fatalf("got %d messages, want 1 beyond the limit", len(first))
		}
		b.modify(t, sub, 0, first...)
		if second := s.next(t).GetReceivedMessages(); len(second) != 1 {
			t.Fatalf("got %d messages, want 1", len(second))
		}
	},
	"a stream answers keep-alives and tells the subscription's properties": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery, s.EnableMessageOrdering = true, true })
		s := b.stream(t, sub, func(r *pubsubpb.StreamingPullRequest) { r.ProtocolVersion = 1 })
		s.say(t, &pubsubpb.StreamingPullRequest{})
		got, err := s.Recv()
		if err != nil || len(got.GetReceivedMessages()) != 0 {
			t.Fatalf("got %v, %v, want an answer to the keep-alive", got, err)
		}
		b.publish(t, topic, keyed("k", "x"))
		for _, response := range []*pubsubpb.StreamingPullResponse{got, s.next(t)} {
			if p := response.GetSubscriptionProperties(); !p.GetExactlyOnceDeliveryEnabled() || !p.GetMessageOrderingEnabled() {
				t.Errorf("got properties %v", p)
			}
		}
	},
	"messages die on a stream too": func(b *pubsubBench, t *testing.T) {
		topic, sub, dead := b.deadLettered(t, 5, nil)
		s := b.stream(t, sub, nil)
		b.publish(t, topic, text("doomed"))
		for attempt := range 5 {
			got := s.collect(t, 1)
			if got[0].GetDeliveryAttempt() != int32(attempt+1) {
				t.Errorf("got delivery attempt %d, want %d", got[0].GetDeliveryAttempt(), attempt+1)
			}
			s.say(t, &pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: ackIDs(got), ModifyDeadlineSeconds: []int32{0}})
		}
		letter := b.pull(t, dead, 1)
		wantBodies(t, letter, "doomed")
		if got := letter[0].GetMessage().GetAttributes()["CloudPubSubDeadLetterSourceDeliveryCount"]; got != "5" {
			t.Errorf("got %q deliveries, want 5", got)
		}
	},
	"a stream waits out missed deadlines": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		s := b.stream(t, sub, nil)
		b.publish(t, topic, text("slow"))
		s.collect(t, 1)
		wantBodies(t, s.collect(t, 1), "slow")
	},
	"the messages of a key go to one stream": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, ordered)
		s := b.stream(t, sub, nil)
		b.publish(t, topic, keyed("k", "1"))
		first := s.collect(t, 1)
		b.publish(t, topic, keyed("k", "2"), keyed("k", "3"))
		// The stream may have the next ones at once, a pull may not.
		wantBodies(t, s.collect(t, 2), "2", "3")
		b.wantNone(t, sub)
		s.say(t, &pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: ackIDs(first), ModifyDeadlineSeconds: []int32{0}})
		wantBodies(t, s.collect(t, 3), "1", "2", "3")
	},
	"a stream is refused what the service refuses": func(b *pubsubBench, t *testing.T) {
		_, sub := b.both(t, nil)
		b.stream(t, b.subName(), nil).wantEnd(t, codes.NotFound)
		b.stream(t, sub, func(r *pubsubpb.StreamingPullRequest) { r.StreamAckDeadlineSeconds = 9 }).wantEnd(t, codes.InvalidArgument)
		b.stream(t, "", nil).wantEnd(t, codes.InvalidArgument)
		for what, later := range map[string]*pubsubpb.StreamingPullRequest{
			"a malformed ack ID":    {AckIds: []string{"garbage"}},
			"lists that differ":     {ModifyDeadlineAckIds: []string{"a"}},
			"a negative deadline":   {ModifyDeadlineAckIds: []string{"a"}, ModifyDeadlineSeconds: []int32{-1}},
			"a second subscription": {Subscription: sub},
			"flow control again":    {MaxOutstandingMessages: 5},
		} {
			t.Log(what)
			s := b.stream(t, sub, nil)
			s.say(t, later)
			s.wantEnd(t, codes.InvalidArgument)
		}
	},
	"a stream ends with its subscription": func(b *pubsubBench, t *testing.T) {
		_, sub := b.both(t, nil)
		s := b.stream(t, sub, nil)
		b.settle()
		if err := b.subs.DeleteSubscription(t.Context(), &pubsubpb.DeleteSubscriptionRequest{Subscription: sub}); err != nil {
			t.Fatal(err)
		}
		s.wantEnd(t, codes.NotFound)
	},
	"a stream that the client closes ends well": func(b *pubsubBench, t *testing.T) {
		_, sub := b.both(t, nil)
		s := b.stream(t, sub, nil)
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := s.Recv(); err != nil {
				if err.Error() != "EOF" {
					t.Errorf("got %v, want the end", err)
				}
				return
			}
		}
	},
}
