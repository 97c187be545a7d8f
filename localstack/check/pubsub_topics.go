package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

var pubsubTopicRows = map[string]func(*pubsubBench, *testing.T){
	"a topic is made once, found and deleted": func(b *pubsubBench, t *testing.T) {
		name := b.topic(t)
		_, err := b.topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name})
		wantStatus(t, "create again", err, codes.AlreadyExists)
		if got, err := b.topics.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: name}); err != nil || got.GetName() != name {
			t.Errorf("got %v, %v", got, err)
		}
		if err := b.topics.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: name}); err != nil {
			t.Error(err)
		}
		_, err = b.topics.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: name})
		wantStatus(t, "get a deleted topic", err, codes.NotFound)
		wantStatus(t, "delete again", b.topics.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: name}), codes.NotFound)
		_, err = b.topics.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: name, Messages: []*pubsubpb.PubsubMessage{text("x")}})
		wantStatus(t, "publish to a deleted topic", err, codes.NotFound)
	},
	"names of topics are checked": func(b *pubsubBench, t *testing.T) {
		for _, id := range []string{"", "ab", "1abc", "-abc", "googabc", "a b c", "a/b", "öäü", strings.Repeat("a", 256)} {
			_, err := b.topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/" + b.Project + "/topics/" + id})
			wantStatus(t, fmt.Sprintf("%q", id), err, codes.InvalidArgument)
		}
		_, err := b.topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "orders"})
		wantStatus(t, "a short name", err, codes.InvalidArgument)
		good := "projects/" + b.Project + "/topics/a.b-c_d~e+f%g" + started
		if _, err := b.topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	},
	"a topic's retention and labels can be changed": func(b *pubsubBench, t *testing.T) {
		name := b.topic(t)
		change := &pubsubpb.Topic{Name: name, Labels: map[string]string{"team": "billing"}, MessageRetentionDuration: durationpb.New(time.Hour)}
		got, err := b.topics.UpdateTopic(t.Context(), &pubsubpb.UpdateTopicRequest{Topic: change, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels", "message_retention_duration"}}})
		if err != nil || got.GetLabels()["team"] != "billing" || got.GetMessageRetentionDuration().AsDuration() != time.Hour {
			t.Errorf("got %v, %v", got, err)
		}
		change.MessageRetentionDuration = durationpb.New(time.Minute)
		_, err = b.topics.UpdateTopic(t.Context(), &pubsubpb.UpdateTopicRequest{Topic: change, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"message_retention_duration"}}})
		wantStatus(t, "a minute", err, codes.InvalidArgument)
		_, err = b.topics.UpdateTopic(t.Context(), &pubsubpb.UpdateTopicRequest{Topic: change})
		wantStatus(t, "no mask", err, codes.InvalidArgument)
		_, err = b.topics.UpdateTopic(t.Context(), &pubsubpb.UpdateTopicRequest{Topic: change, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
		wantStatus(t, "the name", err, codes.InvalidArgument)
	},
	"lists of topics and subscriptions come in pages": func(b *pubsubBench, t *testing.T) {
		topic := b.topic(t)
		var want []string
		for range 5 {
			want = append(want, b.sub(t, topic, nil))
		}
		slices.Sort(want)
		it := b.topics.ListTopicSubscriptions(t.Context(), &pubsubpb.ListTopicSubscriptionsRequest{Topic: topic, PageSize: 2})
		var got []string
		for {
			name, err := it.Next()
			if errors.Is(err, iterator.Done) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		first := b.subs.ListSubscriptions(t.Context(), &pubsubpb.ListSubscriptionsRequest{Project: "projects/" + b.Project, PageSize: 2})
		pager := iterator.NewPager(first, 2, "")
		var page []*pubsubpb.Subscription
		token, err := pager.NextPage(&page)
		if err != nil || len(page) != 2 || token == "" {
			t.Errorf("got %d subscriptions, token %q, %v, want a page of 2 and more", len(page), token, err)
		}
		found := false
		topics := b.topics.ListTopics(t.Context(), &pubsubpb.ListTopicsRequest{Project: "projects/" + b.Project, PageSize: 1})
		for {
			one, err := topics.Next()
			if errors.Is(err, iterator.Done) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			found = found || one.GetName() == topic
		}
		if !found {
			t.Error("the topic is not in the list")
		}
	},
	"a deleted topic leaves its subscriptions what they hold": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, text("left"))
		if err := b.topics.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: topic}); err != nil {
			t.Fatal(err)
		}
		if got, err := b.subs.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub}); err != nil || got.GetTopic() != "_deleted-topic_" {
			t.Errorf("got %v, %v", got, err)
		}
		wantBodies(t, b.pull(t, sub, 1), "left")
	},
	"what is not served is refused": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		_, err := b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: b.subName(), Topic: topic, PushConfig: &pubsubpb.PushConfig{PushEndpoint: "https://example.com"}})
		wantStatus(t, "push", err, codes.Unimplemented)
		_, err = b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: b.subName(), Topic: topic, BigqueryConfig: &pubsubpb.BigQueryConfig{Table: "a.b.c"}})
		wantStatus(t, "BigQuery", err, codes.Unimplemented)
		_, err = b.topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: b.topicName(), SchemaSettings: &pubsubpb.SchemaSettings{Schema: "projects/p/schemas/s"}})
		wantStatus(t, "a schema", err, codes.Unimplemented)
		_, err = b.subs.CreateSnapshot(t.Context(), &pubsubpb.CreateSnapshotRequest{Name: "projects/" + b.Project + "/snapshots/abc", Subscription: sub})
		wantStatus(t, "a snapshot", err, codes.Unimplemented)
	},
}
