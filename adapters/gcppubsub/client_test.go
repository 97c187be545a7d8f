package gcppubsub_test

import (
	"net"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// PUBSUB_EMULATOR_HOST is honoured: no credentials, no encryption, nothing else
// to configure. This is the one test over a socket.
func TestEmulatorHostIsHonoured(t *testing.T) {
	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	go cloud.ServePubSub(l) //nolint:errcheck // it ends with the cloud
	t.Setenv("PUBSUB_EMULATOR_HOST", l.Addr().String())

	topics, err := pubsub.NewTopicAdminClient(t.Context())
	must(t, err)
	defer topics.Close()
	subscriptions, err := pubsub.NewSubscriptionAdminClient(t.Context())
	must(t, err)
	defer subscriptions.Close()
	_, err = topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topicName("dead")})
	must(t, err)
	_, err = subscriptions.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: subscriptionName("dead-letters"), Topic: topicName("dead")})
	must(t, err)

	client, err := gcppubsub.NewClient(t.Context())
	must(t, err)
	o := gcppubsub.Options{Client: client, Project: localstack.Project, Subscription: "dead-letters"}
	d, err := gcppubsub.Open(t.Context(), o)
	must(t, err)
	o.Subscription, o.Topic = "", "dead"
	to, err := gcppubsub.OpenDestination(t.Context(), o)
	must(t, err)
	meanings(t, "send", send(t.Context(), to, text("over a socket", "k", "a", "1")), nil)
	letters, err := d.Receive(t.Context(), 1, 20*time.Second)
	must(t, err)
	if len(letters) != 1 || string(letters[0].Payload.Body) != "over a socket" {
		t.Errorf("received %+v", letters)
	}
	must(t, d.Delete(t.Context(), letters)...)
	must(t, client.Close())
}
