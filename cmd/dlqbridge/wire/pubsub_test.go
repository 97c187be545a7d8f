package wire

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const (
	orders  = "projects/" + localstack.Project + "/topics/orders"
	billing = "projects/" + localstack.Project + "/subscriptions/billing"
	mail    = "projects/" + localstack.Project + "/subscriptions/mail"
)

// inBubble makes a topic with two consumers that filter on the mark, and a
// bridge with these routes.
func inBubble(t *testing.T, routes string, do func(*testing.T, *Bridge, *pubsub.SubscriptionAdminClient)) {
	t.Helper()
	c, err := config.Load(config.Source{
		File: "dlqbridge.yaml", Env: func(string) (string, bool) { return "", false },
		ReadFile: func(string) ([]byte, error) {
			return []byte("routes:\n" + strings.ReplaceAll(routes, "PROJECT", localstack.Project)), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		cloud := localstack.New(localstack.Options{})
		t.Cleanup(cloud.Close)
		topics, err := pubsub.NewTopicAdminClient(t.Context(), cloud.PubSubOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		subscriptions, err := pubsub.NewSubscriptionAdminClient(t.Context(), cloud.PubSubOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: orders}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{billing, mail} {
			short := s[strings.LastIndexByte(s, '/')+1:]
			filter := `NOT attributes:"agent.redrive.to" OR attributes."agent.redrive.to" = "` + short + `"`
			if _, err := subscriptions.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: s, Topic: orders, Filter: filter}); err != nil {
				t.Fatal(err)
			}
		}
		b, err := New(Options{
			Config: c, AWS: cloud.AWSConfig(), Now: time.Now, Log: slog.New(slog.DiscardHandler), Holder: "test",
			PubSub: func(ctx context.Context) (*gcppubsub.Client, error) {
				return gcppubsub.NewClient(ctx, cloud.PubSubOptions()...)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		do(t, b, subscriptions)
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// forConsumer is a message as redrive makes it.
func forConsumer(name string) dlqbridge.Outgoing {
	return dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: []byte("for " + name), Attributes: []dlqbridge.Attribute{
		{Name: dlqbridge.MarkToName, Type: "String", Value: []byte(name)},
	}}}
}

// C45: two routes lead to one topic; each message carries the name of its own
// consumer, whichever route's destination it goes through.
func TestC45EachMessageNamesItsOwnConsumer(t *testing.T) {
	inBubble(t, `
  - {name: billing, pubsub: {project: PROJECT, dead_letter_subscription: billing-dead, source_topic: orders, source_subscription: billing, fan_out: accept}}
  - {name: mail, pubsub: {project: PROJECT, dead_letter_subscription: mail-dead, source_topic: orders, source_subscription: mail, fan_out: accept}}
`, func(t *testing.T, b *Bridge, subscriptions *pubsub.SubscriptionAdminClient) {
		if err := b.ResolveSources(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, err := b.openDestination(t.Context(), "", orders)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range d.Send(t.Context(), []dlqbridge.Outgoing{forConsumer("billing"), forConsumer("mail"), forConsumer("billing")}) {
			if r.Err != nil || r.MessageID == "" {
				t.Errorf("message %d: %+v", i, r)
			}
		}
		for s, want := range map[string]int{billing: 2, mail: 1} {
			out, err := subscriptions.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: s, MaxMessages: 10})
			if err != nil || len(out.GetReceivedMessages()) != want {
				t.Errorf("%s got %d, want %d (%v)", s, len(out.GetReceivedMessages()), want, err)
			}
		}
	})
}

// C45: a job that is continued has no new plan; what has meanwhile become a
// topic with two subscriptions refuses by itself, and sends nothing.
func TestC45TheLastDoor(t *testing.T) {
	inBubble(t, `
  - {name: billing, pubsub: {project: PROJECT, dead_letter_subscription: billing-dead, source_topic: orders, source_subscription: billing}}
`, func(t *testing.T, b *Bridge, _ *pubsub.SubscriptionAdminClient) {
		d, err := b.openDestination(t.Context(), "billing", orders)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Facts(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := d.Send(t.Context(), []dlqbridge.Outgoing{forConsumer("billing")})[0]
		if !errors.Is(r.Err, dlqbridge.ErrInvalid) || !strings.Contains(r.Err.Error(), mail) {
			t.Errorf("got %+v", r)
		}
	})
}

// A job that was frozen under another configuration finds no destination.
func TestNoRouteLeadsThere(t *testing.T) {
	inBubble(t, `
  - {name: billing, pubsub: {project: PROJECT, dead_letter_subscription: billing-dead, source_topic: orders, source_subscription: billing}}
`, func(t *testing.T, b *Bridge, _ *pubsub.SubscriptionAdminClient) {
		if _, err := b.openDestination(t.Context(), "billing", orders+"-old"); !errors.Is(err, dlqbridge.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
}
