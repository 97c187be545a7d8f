package check

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

var pubsubDeliveryRows = map[string]func(*pubsubBench, *testing.T){
	"a message is received with all it was published with": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		sent := &pubsubpb.PubsubMessage{
			Data:        []byte{0, 0xff, 0xfe, 'a', '\n'},
			Attributes:  map[string]string{"agent.task": "t1", "empty": "", "Grüße": "日本"},
			OrderingKey: "key",
		}
		ids := b.publish(t, topic, sent)
		got := b.pull(t, sub, 1)[0]
		m := got.GetMessage()
		if !bytes.Equal(m.GetData(), sent.GetData()) || m.GetOrderingKey() != "key" || m.GetMessageId() != ids[0] || m.GetPublishTime() == nil {
			t.Errorf("got %v", m)
		}
		if len(m.GetAttributes()) != 3 || m.GetAttributes()["agent.task"] != "t1" || m.GetAttributes()["Grüße"] != "日本" {
			t.Errorf("got attributes %v", m.GetAttributes())
		}
		if got.GetDeliveryAttempt() != 0 {
			t.Errorf("got delivery attempt %d without a dead-letter policy", got.GetDeliveryAttempt())
		}
		if other := b.publish(t, topic, sent); other[0] == ids[0] {
			t.Errorf("two messages have the ID %s", ids[0])
		}
	},
	"a message of attributes only is a message": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, &pubsubpb.PubsubMessage{Attributes: map[string]string{"a": "b"}})
		if got := b.pull(t, sub, 1); len(got[0].GetMessage().GetData()) != 0 || got[0].GetMessage().GetAttributes()["a"] != "b" {
			t.Errorf("got %v", got)
		}
	},
	"each subscription gets what is published after it was made": func(b *pubsubBench, t *testing.T) {
		topic, first := b.both(t, nil)
		b.publish(t, topic, text("early"))
		second := b.sub(t, topic, nil)
		b.publish(t, topic, text("late"))
		got := bodies(b.pull(t, first, 2))
		slices.Sort(got)
		if !slices.Equal(got, []string{"early", "late"}) {
			t.Errorf("got %q", got)
		}
		wantBodies(t, b.pull(t, second, 1), "late")
		b.wantNone(t, second)
	},
	"a pull waits for a message": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		got := make(chan []*pubsubpb.ReceivedMessage, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, _ := b.subs.Pull(ctx, &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 5})
			got <- out.GetReceivedMessages()
		}()
		b.settle()
		b.publish(t, topic, text("here"))
		wantBodies(t, <-got, "here")
	},
	"a pull gives no more than was asked for": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("a"), text("b"), text("c"))
		out, err := b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 2})
		if err != nil || len(out.GetReceivedMessages()) == 0 || len(out.GetReceivedMessages()) > 2 {
			t.Errorf("got %v, %v", out, err)
		}
		for _, n := range []int32{0, -1} {
			_, err := b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: n})
			wantStatus(t, "a pull of none", err, codes.InvalidArgument)
		}
	},
	"a message that is not acknowledged comes again after the deadline": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("again"))
		first := b.pull(t, sub, 1)[0]
		b.wantNone(t, sub)
		b.pass(t, 11*time.Second)
		second := b.pull(t, sub, 1)[0]
		if second.GetMessage().GetMessageId() != first.GetMessage().GetMessageId() {
			t.Errorf("got message %s, want %s", second.GetMessage().GetMessageId(), first.GetMessage().GetMessageId())
		}
	},
	"a waiting pull gets a message when its deadline is missed": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("again"))
		b.pull(t, sub, 1)
		began := time.Now()
		out, err := b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 1})
		if err != nil || len(out.GetReceivedMessages()) != 1 {
			t.Fatalf("got %v, %v", out, err)
		}
		if spent := time.Since(began); spent < 8*time.Second || spent > 25*time.Second {
			t.Errorf("it came after %v, want 10s", spent)
		}
	},
	"messages are kept as long as the retention says": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(10 * time.Minute) })
		b.publish(t, topic, text("old"))
		b.pass(t, 9*time.Minute)
		b.publish(t, topic, text("new"))
		b.pass(t, 2*time.Minute)
		wantBodies(t, b.pull(t, sub, 1), "new")
		b.wantNone(t, sub)
	},
}

var pubsubAckRows = map[string]func(*pubsubBench, *testing.T){
	"an acknowledged message does not come again": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("once"))
		got := b.pull(t, sub, 1)
		b.ack(t, sub, got...)
		b.ack(t, sub, got...) // twice is fine
		b.pass(t, 11*time.Second)
		b.wantNone(t, sub)
	},
	"a rejected message comes again at once": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("again"))
		first := b.pull(t, sub, 1)
		b.modify(t, sub, 0, first...)
		second := b.pull(t, sub, 1)
		if first[0].GetAckId() == second[0].GetAckId() {
			t.Error("the second delivery has the first one's ack ID")
		}
	},
	"a deadline can be moved": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("long"))
		got := b.pull(t, sub, 1)
		b.modify(t, sub, 60, got...)
		b.pass(t, 12*time.Second)
		b.wantNone(t, sub)
		b.modify(t, sub, 10, got...)
		b.pass(t, 11*time.Second)
		wantBodies(t, b.pull(t, sub, 1), "long")
		for _, seconds := range []int32{-1, 601} {
			err := b.subs.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: sub, AckIds: ackIDs(got), AckDeadlineSeconds: seconds})
			wantStatus(t, "a bad deadline", err, codes.InvalidArgument)
		}
	},
	"an old ack ID is no error and changes nothing": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("again"))
		old := b.pull(t, sub, 1)
		b.modify(t, sub, 0, old...)
		b.pull(t, sub, 1)
		b.ack(t, sub, old...)
		b.modify(t, sub, 600, old...)
		b.pass(t, 11*time.Second)
		wantBodies(t, b.pull(t, sub, 1), "again")
	},
	"a malformed ack ID is refused": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		other := b.sub(t, topic, nil)
		b.publish(t, topic, text("x"))
		got := b.pull(t, other, 1)
		for what, ids := range map[string][]string{"garbage": {"garbage"}, "another subscription's": ackIDs(got), "none": nil} {
			wantStatus(t, what, b.subs.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: ids}), codes.InvalidArgument)
		}
		wantStatus(t, "a missing subscription", b.subs.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: b.subName(), AckIds: []string{"x"}}), codes.NotFound)
	},
	"a request of more than 512 KiB of ack IDs is refused": func(b *pubsubBench, t *testing.T) {
		_, sub := b.both(t, nil)
		err := b.subs.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: []string{strings.Repeat("x", 512<<10+1)}})
		wantStatus(t, "acknowledge", err, codes.InvalidArgument)
	},
	"exactly once refuses an ack ID that is over": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true })
		b.publish(t, topic, text("a"), text("b"))
		got := b.pull(t, sub, 2)
		if string(got[0].GetMessage().GetData()) != "a" {
			slices.Reverse(got)
		}
		b.modify(t, sub, 0, got[0])
		b.pull(t, sub, 1)
		err := b.subs.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: ackIDs(got)})
		wantStatus(t, "acknowledge", err, codes.InvalidArgument)
		wantReasons(t, err, map[string]string{got[0].GetAckId(): "PERMANENT_FAILURE_INVALID_ACK_ID"})
		err = b.subs.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: sub, AckIds: ackIDs(got[:1]), AckDeadlineSeconds: 60})
		wantStatus(t, "modify", err, codes.InvalidArgument)
		wantReasons(t, err, map[string]string{got[0].GetAckId(): "PERMANENT_FAILURE_INVALID_ACK_ID"})
		b.pass(t, 11*time.Second)
		again := b.pull(t, sub, 1)
		wantBodies(t, again, "a")
		b.pass(t, 11*time.Second)
		err = b.subs.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: ackIDs(again)})
		wantReasons(t, err, map[string]string{again[0].GetAckId(): "PERMANENT_FAILURE_INVALID_ACK_ID"})
	},
	"exactly once takes an acknowledgement again": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true })
		b.publish(t, topic, text("a"))
		got := b.pull(t, sub, 1)
		b.ack(t, sub, got...)
		b.ack(t, sub, got...) // the proto: more than once is no error
	},
	"a retry policy delays what failed, more each time": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) { s.RetryPolicy = retry(5*time.Second, 30*time.Second) })
		b.publish(t, topic, text("slow"))
		for _, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second, 30 * time.Second} {
			b.modify(t, sub, 0, b.pull(t, sub, 1)...)
			b.pass(t, wait-3*time.Second)
			b.wantNone(t, sub)
			b.pass(t, 4*time.Second)
			if b.Advance == nil {
				return // the real wait has shown enough
			}
		}
	},
}
