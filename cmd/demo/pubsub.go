package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const (
	notesTopic        = "projects/" + localstack.Project + "/topics/notes"
	notesSubscription = "projects/" + localstack.Project + "/subscriptions/notes"
	deadTopic         = "projects/" + localstack.Project + "/topics/notes-dead"
	// The demo counts the dead letters from a second subscription of the
	// dead-letter topic: Pub/Sub has no counters to ask.
	countSubscription = "projects/" + localstack.Project + "/subscriptions/notes-dead-count"
)

// notes is the story's second team: it works on Pub/Sub.
type notes struct {
	address       string
	topics        *pubsub.TopicAdminClient
	subscriptions *pubsub.SubscriptionAdminClient

	mu     sync.Mutex
	deaths map[string]int // by task
}

// newNotes serves the cloud's Pub/Sub on a free port of this machine.
func newNotes(ctx context.Context, cloud *localstack.Cloud) (*notes, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { _ = cloud.ServePubSub(listener) }() // it ends with the cloud
	n := &notes{address: listener.Addr().String(), deaths: map[string]int{}}
	if n.topics, err = pubsub.NewTopicAdminClient(ctx, cloud.PubSubOptions()...); err != nil {
		return nil, err
	}
	n.subscriptions, err = pubsub.NewSubscriptionAdminClient(ctx, cloud.PubSubOptions()...)
	return n, err
}

// connect is how the command line in this process reaches Pub/Sub.
func (s *stage) connect(ctx context.Context) (*gcppubsub.Client, error) {
	return gcppubsub.NewClient(ctx, s.cloud.PubSubOptions()...)
}

// publish puts the tasks on the topic.
func (n *notes) publish(ctx context.Context, orders []order) error {
	in := &pubsubpb.PublishRequest{Topic: notesTopic}
	for _, o := range orders {
		body, err := json.Marshal(o.job)
		if err != nil {
			return err
		}
		in.Messages = append(in.Messages, &pubsubpb.PubsubMessage{Data: body, Attributes: o.facts().Attributes()})
	}
	if _, err := n.topics.Publish(ctx, in); err != nil {
		return fmt.Errorf("publish tasks: %w", err)
	}
	return nil
}

// dead is how many tasks have died.
func (n *notes) dead() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.deaths)
}

// died is how often a task has died.
func (n *notes) died(task string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.deaths[task]
}

// until waits until every one of the tasks is done outside, or has died more
// often than before.
func (n *notes) until(ctx context.Context, tasks []string, done func() map[string]int) error {
	before := map[string]int{}
	for _, t := range tasks {
		before[t] = n.died(t)
	}
	open := func() int {
		finished, left := done(), 0
		for _, t := range tasks {
			if finished[t] == 0 && n.died(t) == before[t] {
				left++
			}
		}
		return left
	}
	for {
		left := open()
		if left == 0 {
			return nil
		}
		if err := n.count(ctx); err != nil {
			return errors.Join(fmt.Errorf("%d tasks on Pub/Sub do not come to an end", left), err)
		}
	}
}

// count waits a moment for dead letters and counts them.
func (n *notes) count(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	out, err := n.subscriptions.Pull(bounded, &pubsubpb.PullRequest{Subscription: countSubscription, MaxMessages: 100}, gax.WithRetry(nil))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case status.Code(err) == codes.DeadlineExceeded, bounded.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("count dead letters: %w", err)
	}
	ack := &pubsubpb.AcknowledgeRequest{Subscription: countSubscription}
	for _, r := range out.GetReceivedMessages() {
		n.mu.Lock()
		n.deaths[r.GetMessage().GetAttributes()["agent.task.id"]]++
		n.mu.Unlock()
		ack.AckIds = append(ack.AckIds, r.GetAckId())
	}
	if len(ack.AckIds) == 0 {
		return nil
	}
	return n.subscriptions.Acknowledge(ctx, ack)
}
