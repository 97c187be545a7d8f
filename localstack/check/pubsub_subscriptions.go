package check

import (
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

var pubsubSubscriptionRows = map[string]func(*pubsubBench, *testing.T){
	"a subscription is made once, found with its defaults and deleted": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		_, err := b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: sub, Topic: topic})
		wantStatus(t, "create again", err, codes.AlreadyExists)
		got, err := b.subs.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetTopic() != topic || got.GetAckDeadlineSeconds() != 10 || got.GetMessageRetentionDuration().AsDuration() != 7*24*time.Hour {
			t.Errorf("got %v", got)
		}
		if err := b.subs.DeleteSubscription(t.Context(), &pubsubpb.DeleteSubscriptionRequest{Subscription: sub}); err != nil {
			t.Error(err)
		}
		_, err = b.subs.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub})
		wantStatus(t, "get a deleted subscription", err, codes.NotFound)
		_, err = b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 1})
		wantStatus(t, "pull from a deleted subscription", err, codes.NotFound)
	},
	"a subscription needs a topic that exists": func(b *pubsubBench, t *testing.T) {
		_, err := b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: b.subName(), Topic: b.topicName()})
		wantStatus(t, "a missing topic", err, codes.NotFound)
		_, err = b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: b.subName()})
		wantStatus(t, "no topic", err, codes.InvalidArgument)
		_, err = b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: "projects/" + b.Project + "/subscriptions/googly", Topic: b.topic(t)})
		wantStatus(t, "a reserved name", err, codes.InvalidArgument)
	},
	"a subscription gets a name if it has none": func(b *pubsubBench, t *testing.T) {
		topic := b.topic(t)
		got, err := b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Topic: topic})
		if err != nil || got.GetName() == "" {
			t.Errorf("got %v, %v", got, err)
		}
	},
	"settings of a subscription are checked": func(b *pubsubBench, t *testing.T) {
		topic := b.topic(t)
		for what, alter := range map[string]func(*pubsubpb.Subscription){
			"a deadline of 9 s":      func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 9 },
			"a deadline of 601 s":    func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 601 },
			"a retention of 9 min":   func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(9 * time.Minute) },
			"a retention of 32 days": func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(32 * 24 * time.Hour) },
			"an expiration of 23 h": func(s *pubsubpb.Subscription) {
				s.ExpirationPolicy = &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(23 * time.Hour)}
			},
			"a backoff of 601 s": func(s *pubsubpb.Subscription) {
				s.RetryPolicy = &pubsubpb.RetryPolicy{MaximumBackoff: durationpb.New(601 * time.Second)}
			},
			"backoffs the wrong way": func(s *pubsubpb.Subscription) { s.RetryPolicy = retry(time.Minute, time.Second) },
			"a label in capitals":    func(s *pubsubpb.Subscription) { s.Labels = map[string]string{"Team": "x"} },
		} {
			in := &pubsubpb.Subscription{Name: b.subName(), Topic: topic}
			alter(in)
			_, err := b.subs.CreateSubscription(t.Context(), in)
			wantStatus(t, what, err, codes.InvalidArgument)
		}
	},
	"settings of a subscription can be changed, but not its nature": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		update := func(paths []string, alter func(*pubsubpb.Subscription)) (*pubsubpb.Subscription, error) {
			in := &pubsubpb.Subscription{Name: sub}
			alter(in)
			return b.subs.UpdateSubscription(t.Context(), &pubsubpb.UpdateSubscriptionRequest{Subscription: in, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
		}
		got, err := update([]string{"ack_deadline_seconds", "retry_policy", "labels"}, func(s *pubsubpb.Subscription) {
			s.AckDeadlineSeconds = 30
			s.RetryPolicy = &pubsubpb.RetryPolicy{}
			s.Labels = map[string]string{"team": "billing"}
			s.RetainAckedMessages = true // not in the mask
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetAckDeadlineSeconds() != 30 || got.GetLabels()["team"] != "billing" || got.GetRetainAckedMessages() || got.GetTopic() != topic {
			t.Errorf("got %v", got)
		}
		if low, high := got.GetRetryPolicy().GetMinimumBackoff().AsDuration(), got.GetRetryPolicy().GetMaximumBackoff().AsDuration(); low != 10*time.Second || high != 600*time.Second {
			t.Errorf("got backoffs %v and %v", low, high)
		}
		for _, path := range []string{"topic", "filter", "enable_message_ordering", "name", "colour"} {
			_, err := update([]string{path}, func(s *pubsubpb.Subscription) { s.Topic, s.Filter = topic, "attributes:a" })
			wantStatus(t, path, err, codes.InvalidArgument)
		}
		_, err = update(nil, func(*pubsubpb.Subscription) {})
		wantStatus(t, "no mask", err, codes.InvalidArgument)
		_, err = update([]string{"ack_deadline_seconds"}, func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 5 })
		wantStatus(t, "a bad value", err, codes.InvalidArgument)
		sub = b.subName()
		_, err = update([]string{"labels"}, func(*pubsubpb.Subscription) {})
		wantStatus(t, "a missing subscription", err, codes.NotFound)
	},
	"a detached subscription holds and gets nothing": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("dropped"))
		if _, err := b.topics.DetachSubscription(t.Context(), &pubsubpb.DetachSubscriptionRequest{Subscription: sub}); err != nil {
			t.Fatal(err)
		}
		if got, err := b.subs.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub}); err != nil || !got.GetDetached() {
			t.Errorf("got %v, %v", got, err)
		}
		_, err := b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 1})
		wantStatus(t, "pull", err, codes.FailedPrecondition)
	},
	"an unused subscription expires": func(b *pubsubBench, t *testing.T) {
		if b.Advance == nil {
			t.Skip("needs a clock that can be moved by a month")
		}
		topic, idle := b.both(t, nil)
		used := b.sub(t, topic, nil)
		kept := b.sub(t, topic, func(s *pubsubpb.Subscription) { s.ExpirationPolicy = &pubsubpb.ExpirationPolicy{} })
		b.pass(t, 30*24*time.Hour)
		b.look(t, used)
		b.pass(t, 25*time.Hour)
		for name, want := range map[string]codes.Code{idle: codes.NotFound, used: codes.OK, kept: codes.OK} {
			_, err := b.subs.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: name})
			wantStatus(t, fmt.Sprintf("%s (idle %s, used %s, kept %s)", name, idle, used, kept), err, want)
		}
	},
}

func retry(low, high time.Duration) *pubsubpb.RetryPolicy {
	return &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(low), MaximumBackoff: durationpb.New(high)}
}
