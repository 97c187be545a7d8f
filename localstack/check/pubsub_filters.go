package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var pubsubFilterRows = map[string]func(*pubsubBench, *testing.T){
	"filters choose by attributes": func(b *pubsubBench, t *testing.T) {
		messages := map[string]map[string]string{
			"none": {"x": "y"}, "eu": {"region": "eu-west", "tier": "1"}, "us": {"region": "us-east"}, "odd": {"a b": `"q"`, "tier": "2"},
		}
		for filter, want := range map[string]string{
			`attributes:region`:                                               "eu us",
			`NOT attributes:region`:                                           "none odd",
			`-attributes:region`:                                              "none odd",
			`attributes.region = "us-east"`:                                   "us",
			`attributes.region="us-east"`:                                     "us",
			`attributes.region != "us-east"`:                                  "eu none odd",
			`hasPrefix(attributes.region, "eu")`:                              "eu",
			`attributes:region AND attributes:tier`:                           "eu",
			`attributes:region OR attributes:tier`:                            "eu odd us",
			`(attributes:region OR attributes:tier) AND NOT attributes:"a b"`: "eu us",
			`attributes:region AND attributes.tier != "1"`:                    "us",
			`attributes."a b" = "\"q\""`:                                      "odd",
			`attributes.region = "\u0065u-west"`:                              "eu",
			`NOT (attributes:region OR attributes:tier)`:                      "none",
		} {
			topic, sub := b.both(t, func(s *pubsubpb.Subscription) { s.Filter = filter })
			var all []*pubsubpb.PubsubMessage
			for body, attributes := range messages {
				all = append(all, &pubsubpb.PubsubMessage{Data: []byte(body), Attributes: attributes})
			}
			b.publish(t, topic, all...)
			got := bodies(b.pull(t, sub, len(strings.Fields(want))))
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("%s: got %q, want %q", filter, got, want)
			}
			b.wantNone(t, sub)
		}
	},
	"filters are checked": func(b *pubsubBench, t *testing.T) {
		topic := b.topic(t)
		for _, filter := range []string{
			`region`, `attributes`, `attributes.region`, `attributes.region = us`, `attributes.region = "us`, `attributes:`, `attributes.region == "a"`,
			`attributes:a AND attributes:b OR attributes:c`, `(attributes:a`, `attributes:a)`, `hasPrefix(attributes.a)`, `hasPrefix(data, "a")`,
			`attributes:a attributes:b`, `attributes:a and attributes:b`, `data = "x"`, `attributes.a > "1"`, `NOT`,
			`attributes.a = "` + strings.Repeat("x", 256) + `"`,
		} {
			_, err := b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: b.subName(), Topic: topic, Filter: filter})
			wantStatus(t, filter, err, codes.InvalidArgument)
		}
	},
}

var pubsubSeekRows = map[string]func(*pubsubBench, *testing.T){
	"seeking to a time brings what was acknowledged since": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) { s.RetainAckedMessages = true })
		b.publish(t, topic, text("before"))
		b.ack(t, sub, b.pull(t, sub, 1)...)
		b.pass(t, 2*time.Second)
		b.publish(t, topic, text("after"))
		after := b.pull(t, sub, 1)
		b.ack(t, sub, after...)
		b.wantNone(t, sub)
		b.seek(t, sub, after[0].GetMessage().GetPublishTime().AsTime().Add(-time.Second))
		again := b.pull(t, sub, 1)
		wantBodies(t, again, "after")
		b.wantNone(t, sub)
		b.ack(t, sub, again...)
		b.pass(t, 11*time.Second)
		b.wantNone(t, sub)
	},
	"seeking to a time acknowledges what came before": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("held"), text("waiting"))
		held := b.pull(t, sub, 1)
		b.seek(t, sub, held[0].GetMessage().GetPublishTime().AsTime().Add(time.Hour))
		b.pass(t, 11*time.Second)
		b.wantNone(t, sub)
		b.publish(t, topic, text("new"))
		wantBodies(t, b.pull(t, sub, 1), "new")
	},
	"without retention an acknowledged message stays gone": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("gone"))
		got := b.pull(t, sub, 1)
		b.ack(t, sub, got...)
		b.seek(t, sub, got[0].GetMessage().GetPublishTime().AsTime().Add(-time.Hour))
		b.wantNone(t, sub)
	},
	"a topic's retention serves subscriptions made later": func(b *pubsubBench, t *testing.T) {
		topic := b.topicName()
		if _, err := b.topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic, MessageRetentionDuration: durationpb.New(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		b.publish(t, topic, text("early"))
		sub := b.sub(t, topic, nil)
		b.publish(t, topic, text("late"))
		late := b.pull(t, sub, 1)
		b.ack(t, sub, late...)
		b.seek(t, sub, late[0].GetMessage().GetPublishTime().AsTime().Add(-time.Minute))
		got := bodies(b.pull(t, sub, 2))
		slices.Sort(got)
		if !slices.Equal(got, []string{"early", "late"}) {
			t.Errorf("got %q", got)
		}
	},
	"seeking keeps the order of a key": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) { s.RetainAckedMessages, s.EnableMessageOrdering = true, true })
		b.publish(t, topic, keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		got := b.pull(t, sub, 3)
		b.ack(t, sub, got[0], got[1])
		b.seek(t, sub, got[0].GetMessage().GetPublishTime().AsTime().Add(-time.Second))
		wantBodies(t, b.pull(t, sub, 3), "1", "2", "3")
	},
	"a seek needs a target": func(b *pubsubBench, t *testing.T) {
		_, sub := b.both(t, nil)
		_, err := b.subs.Seek(t.Context(), &pubsubpb.SeekRequest{Subscription: sub})
		wantStatus(t, "no target", err, codes.InvalidArgument)
	},
}

func (b *pubsubBench) seek(t *testing.T, sub string, to time.Time) {
	t.Helper()
	_, err := b.subs.Seek(t.Context(), &pubsubpb.SeekRequest{Subscription: sub, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(to)}})
	if err != nil {
		t.Fatalf("seek: %v", err)
	}
}
