package check

import (
	"context"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// deadLettered makes a topic, a subscription that gives up after most
// attempts, and the topic and subscription that its dead letters go to.
func (b *pubsubBench) deadLettered(t *testing.T, most int32, alter func(*pubsubpb.Subscription)) (topic, sub, dead string) {
	t.Helper()
	deadTopic, dead := b.both(t, nil)
	topic, sub = b.both(t, func(s *pubsubpb.Subscription) {
		s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic, MaxDeliveryAttempts: most}
		if alter != nil {
			alter(s)
		}
	})
	return topic, sub, dead
}

// died looks at a subscription whose message has died: some endpoints forward
// a dead letter only when its source is asked again.
func (b *pubsubBench) died(t *testing.T, sub, dead string) *pubsubpb.ReceivedMessage {
	t.Helper()
	b.wantNone(t, sub)
	return b.pull(t, dead, 1)[0]
}

// reject pulls and rejects a message so many times, and checks the number of
// each attempt, from first on.
func (b *pubsubBench) reject(t *testing.T, sub string, first, times int) *pubsubpb.ReceivedMessage {
	t.Helper()
	var got []*pubsubpb.ReceivedMessage
	for attempt := first; attempt < first+times; attempt++ {
		got = b.pull(t, sub, 1)
		if got[0].GetDeliveryAttempt() != int32(attempt) {
			t.Errorf("got delivery attempt %d, want %d", got[0].GetDeliveryAttempt(), attempt)
		}
		b.modify(t, sub, 0, got...)
	}
	return got[0]
}

// wantSource checks what the service adds to a dead letter.
func (b *pubsubBench) wantSource(t *testing.T, letter *pubsubpb.ReceivedMessage, sub string, count int, published time.Time) {
	t.Helper()
	got := letter.GetMessage().GetAttributes()
	const prefix = "CloudPubSubDeadLetterSource"
	want := map[string]string{
		prefix + "DeliveryCount":       strconv.Itoa(count),
		prefix + "Subscription":        sub[len("projects/"+b.Project+"/subscriptions/"):],
		prefix + "SubscriptionProject": b.Project,
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	at, err := time.Parse(time.RFC3339, got[prefix+"TopicPublishTime"])
	if err != nil || at.Sub(published).Abs() > time.Millisecond {
		t.Errorf("%sTopicPublishTime is %q, want about %v (%v)", prefix, got[prefix+"TopicPublishTime"], published, err)
	}
}

var pubsubDeadLetterRows = map[string]func(*pubsubBench, *testing.T){
	"rejections lead to the dead-letter topic": func(b *pubsubBench, t *testing.T) {
		topic, sub, dead := b.deadLettered(t, 5, nil)
		ids := b.publish(t, topic, &pubsubpb.PubsubMessage{Data: []byte("doomed"), Attributes: map[string]string{"agent.task": "t1"}, OrderingKey: "key"})
		last := b.reject(t, sub, 1, 5)
		letter := b.died(t, sub, dead)
		m := letter.GetMessage()
		if string(m.GetData()) != "doomed" || m.GetOrderingKey() != "key" || m.GetAttributes()["agent.task"] != "t1" {
			t.Errorf("got %v", m)
		}
		if m.GetMessageId() == ids[0] {
			t.Error("the dead letter has the ID of the original")
		}
		if letter.GetDeliveryAttempt() != 0 {
			t.Errorf("got delivery attempt %d on a subscription without a policy", letter.GetDeliveryAttempt())
		}
		if m.GetPublishTime().AsTime().Before(last.GetMessage().GetPublishTime().AsTime()) {
			t.Errorf("published %v, before the original", m.GetPublishTime().AsTime())
		}
		b.wantSource(t, letter, sub, 5, last.GetMessage().GetPublishTime().AsTime())
		b.pass(t, 11*time.Second)
		b.wantNone(t, sub)
	},
	"missed deadlines lead to the dead-letter topic": func(b *pubsubBench, t *testing.T) {
		topic, sub, dead := b.deadLettered(t, 5, nil)
		b.publish(t, topic, text("slow"))
		b.reject(t, sub, 1, 3)
		if b.Advance == nil {
			b.reject(t, sub, 4, 1)
		} else {
			b.pull(t, sub, 1)
			b.pass(t, 11*time.Second)
			b.wantNone(t, dead)
		}
		b.pull(t, sub, 1)
		b.pass(t, 11*time.Second)
		letter := b.died(t, sub, dead)
		b.wantSource(t, letter, sub, 5, letter.GetMessage().GetPublishTime().AsTime().Add(-b.sinceFirst(t, letter)))
		b.wantNone(t, sub)
	},
	"whoever waits for dead letters gets one when a deadline is missed": func(b *pubsubBench, t *testing.T) {
		topic, sub, dead := b.deadLettered(t, 5, nil)
		b.publish(t, topic, text("slow"))
		b.reject(t, sub, 1, 4)
		got := make(chan []*pubsubpb.ReceivedMessage, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), longestWait)
			defer cancel()
			out, _ := b.subs.Pull(ctx, &pubsubpb.PullRequest{Subscription: dead, MaxMessages: 1})
			got <- out.GetReceivedMessages()
		}()
		b.settle()
		// Nobody asks the first subscription again: the deadline alone does it.
		b.pull(t, sub, 1)
		wantBodies(t, <-got, "slow")
	},
	"5 to 100 attempts are allowed, none means 5": func(b *pubsubBench, t *testing.T) {
		topic := b.topic(t)
		for most, good := range map[int32]bool{1: false, 4: false, 101: false, -1: false, 5: true, 100: true} {
			_, err := b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{
				Name: b.subName(), Topic: topic, DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topic, MaxDeliveryAttempts: most},
			})
			// The emulator and the reference differ in which of the two it is.
			if code := status.Code(err); good != (err == nil) || (!good && code != codes.InvalidArgument && code != codes.OutOfRange) {
				t.Errorf("%d attempts: got %v", most, err)
			}
		}
		got, err := b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{
			Name: b.subName(), Topic: topic, DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topic},
		})
		if err != nil || got.GetDeadLetterPolicy().GetMaxDeliveryAttempts() != 5 {
			t.Errorf("got %v, %v", got, err)
		}
		_, err = b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{
			Name: b.subName(), Topic: topic, DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: b.topicName()},
		})
		wantStatus(t, "a missing dead-letter topic", err, codes.NotFound)
	},
	"more attempts take longer": func(b *pubsubBench, t *testing.T) {
		topic, sub, dead := b.deadLettered(t, 7, nil)
		b.publish(t, topic, text("stubborn"))
		b.reject(t, sub, 1, 6)
		b.wantNone(t, dead)
		b.reject(t, sub, 7, 1)
		b.died(t, sub, dead)
	},
	"a dead-letter policy can come by an update, and go": func(b *pubsubBench, t *testing.T) {
		deadTopic, dead := b.both(t, nil)
		topic, sub := b.both(t, nil)
		set := func(policy *pubsubpb.DeadLetterPolicy) {
			t.Helper()
			_, err := b.subs.UpdateSubscription(t.Context(), &pubsubpb.UpdateSubscriptionRequest{
				Subscription: &pubsubpb.Subscription{Name: sub, DeadLetterPolicy: policy}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"dead_letter_policy"}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		b.publish(t, topic, text("doomed"))
		for range 6 {
			got := b.pull(t, sub, 1)
			if got[0].GetDeliveryAttempt() != 0 {
				t.Errorf("got delivery attempt %d without a policy", got[0].GetDeliveryAttempt())
			}
			b.modify(t, sub, 0, got...)
		}
		set(&pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic, MaxDeliveryAttempts: 5})
		for range 10 {
			// How many are counted that were before the policy is not said.
			if len(b.look(t, dead)) > 0 {
				break
			}
			for _, m := range b.look(t, sub) {
				b.modify(t, sub, 0, m)
			}
		}
		b.wantNone(t, sub)
		set(nil)
		b.publish(t, topic, text("kept"))
		for range 10 {
			b.modify(t, sub, 0, b.pull(t, sub, 1)...)
		}
		b.wantNone(t, dead)
	},
	"two subscriptions of a topic count apart": func(b *pubsubBench, t *testing.T) {
		topic, first, firstDead := b.deadLettered(t, 5, nil)
		deadTopic, secondDead := b.both(t, nil)
		second := b.sub(t, topic, func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic, MaxDeliveryAttempts: 6}
		})
		b.publish(t, topic, text("shared"))
		b.reject(t, first, 1, 5)
		b.reject(t, second, 1, 5)
		b.died(t, first, firstDead)
		b.wantNone(t, secondDead)
		b.reject(t, second, 6, 1)
		b.died(t, second, secondDead)
	},
	"a dead letter that dies again tells of its last source": func(b *pubsubBench, t *testing.T) {
		lastTopic, last := b.both(t, nil)
		deadTopic, dead := b.both(t, func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: lastTopic, MaxDeliveryAttempts: 5}
		})
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic, MaxDeliveryAttempts: 5}
		})
		b.publish(t, topic, text("doomed"))
		b.reject(t, sub, 1, 5)
		b.wantNone(t, sub)
		letter := b.reject(t, dead, 1, 5)
		b.wantSource(t, b.died(t, dead, last), dead, 5, letter.GetMessage().GetPublishTime().AsTime())
	},
	"without its dead-letter topic a message keeps coming": func(b *pubsubBench, t *testing.T) {
		topic, sub, _ := b.deadLettered(t, 5, nil)
		got, err := b.subs.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.topics.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: got.GetDeadLetterPolicy().GetDeadLetterTopic()}); err != nil {
			t.Fatal(err)
		}
		b.publish(t, topic, text("stays"))
		for range 8 {
			b.modify(t, sub, 0, b.pull(t, sub, 1)...)
		}
	},
}

// sinceFirst is the time between the publishing of the original and that of
// the dead letter, as the letter itself says.
func (b *pubsubBench) sinceFirst(t *testing.T, letter *pubsubpb.ReceivedMessage) time.Duration {
	t.Helper()
	m := letter.GetMessage()
	at, err := time.Parse(time.RFC3339, m.GetAttributes()["CloudPubSubDeadLetterSourceTopicPublishTime"])
	if err != nil {
		t.Error(err)
	}
	spent := m.GetPublishTime().AsTime().Sub(at)
	if spent < 9*time.Second {
		t.Errorf("it died after %v, want more than a deadline", spent)
	}
	return spent
}
