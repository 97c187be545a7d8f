package enrich_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const (
	deadTopic        = "projects/" + localstack.Project + "/topics/orders-dead"
	deadSubscription = "projects/" + localstack.Project + "/subscriptions/orders-dead"
	billing          = "projects/" + localstack.Project + "/subscriptions/billing"
)

// onPubSub makes a dead-letter subscription with n letters of 1 KB, as the
// service forwards them.
func (w *world) onPubSub(n int) *pubsub.SubscriptionAdminClient {
	w.t.Helper()
	topics, err := pubsub.NewTopicAdminClient(w.t.Context(), w.PubSubOptions()...)
	must(w.t, err)
	subscriptions, err := pubsub.NewSubscriptionAdminClient(w.t.Context(), w.PubSubOptions()...)
	must(w.t, err)
	_, err = topics.CreateTopic(w.t.Context(), &pubsubpb.Topic{Name: deadTopic})
	must(w.t, err)
	// A deadline of a minute needs no extension at the receive.
	_, err = subscriptions.CreateSubscription(w.t.Context(), &pubsubpb.Subscription{Name: deadSubscription, Topic: deadTopic, AckDeadlineSeconds: 60})
	must(w.t, err)
	for i := 0; i < n; i += 500 {
		in := &pubsubpb.PublishRequest{Topic: deadTopic}
		for k := i; k < min(i+500, n); k++ {
			body, facts := kilobyte(k)
			var carried struct{ Task, Run, Type, Tenant, Cause, Code string }
			must(w.t, json.Unmarshal([]byte(facts), &carried))
			in.Messages = append(in.Messages, &pubsubpb.PubsubMessage{Data: []byte(body), Attributes: map[string]string{
				"agent.task.id": carried.Task, "agent.run.id": carried.Run, "agent.task.type": carried.Type, "agent.tenant": carried.Tenant,
				"agent.cause": carried.Cause, "agent.error.code": carried.Code,
				"CloudPubSubDeadLetterSourceDeliveryCount": "5", "CloudPubSubDeadLetterSourceSubscription": "billing",
				"CloudPubSubDeadLetterSourceSubscriptionProject": localstack.Project,
				"CloudPubSubDeadLetterSourceTopicPublishTime":    fmt.Sprintf("2026-11-30T12:00:%02d.%03d+00:00", k/1000, k%1000),
			}})
		}
		_, err := topics.Publish(w.t.Context(), in)
		must(w.t, err)
	}
	return subscriptions
}

// barePubSub makes the same calls with ready-made bytes for n letters: pull,
// write, acknowledge.
func (w *world) barePubSub(subscriptions *pubsub.SubscriptionAdminClient, db *dynamodb.Client, ready *tape, n int) {
	var mu sync.Mutex
	var pollers sync.WaitGroup
	ctx, done := context.WithCancel(w.t.Context())
	for range enrich.DefaultPollers {
		pollers.Go(func() {
			for ctx.Err() == nil {
				bounded, cancel := context.WithTimeout(ctx, time.Second)
				out, err := subscriptions.Pull(bounded, &pubsubpb.PullRequest{Subscription: deadSubscription, MaxMessages: 10})
				cancel()
				if err != nil || len(out.GetReceivedMessages()) == 0 {
					continue
				}
				mu.Lock()
				writes, puts := take(&ready.writes, 2), take(&ready.puts, len(out.GetReceivedMessages()))
				mu.Unlock()
				w.write(ctx, db, writes, puts)
				ack := &pubsubpb.AcknowledgeRequest{Subscription: deadSubscription}
				for _, m := range out.GetReceivedMessages() {
					ack.AckIds = append(ack.AckIds, m.GetAckId())
				}
				if err := subscriptions.Acknowledge(ctx, ack); err != nil {
					w.t.Error(err)
				}
				mu.Lock()
				if n -= len(out.GetReceivedMessages()); n == 0 {
					done()
				}
				mu.Unlock()
			}
		})
	}
	pollers.Wait()
	done()
}

// BenchmarkPubSubIntake takes in 30,000 letters of a subscription and compares
// with a bare loop over the same calls, as BenchmarkIntake does for a queue.
// Redelivered is the share of letters that came more than once.
func BenchmarkPubSubIntake(b *testing.B) {
	o := &overhead{b: b}
	again := 0
	o.race(func(r *round) {
		w := newWorld(r, "")
		ready := &tape{Client: dynamodb.NewFromConfig(w.overSocket())}
		store, err := awsdynamodb.New(awsdynamodb.Options{Client: ready, Records: "records", Payloads: "payloads"})
		must(b, err)
		w.store = store
		w.onPubSub(perRound)
		client, err := gcppubsub.NewClient(b.Context(), w.PubSubOptions()...)
		must(b, err)
		letters, err := gcppubsub.Open(b.Context(), gcppubsub.Options{Client: client, Subscription: deadSubscription})
		must(b, err)
		options := w.options(w.ports())
		options.Places = []enrich.Place{{Letters: letters, Enricher: enricher(b, enrich.Route{Name: "orders", Place: deadSubscription, Source: billing, Effects: dlqbridge.EffectsNone})}}
		var in *enrich.Intake
		r.Cleanup(func() { again += in.Counts().Letters + in.Counts().Duplicates - perRound }) // after it has stopped
		in = o.intake(r, options)

		w = newWorld(r, "")
		subscriptions := w.onPubSub(perRound)
		db := dynamodb.NewFromConfig(w.overSocket())
		timed(&o.bare, &o.bareCPU, func() { w.barePubSub(subscriptions, db, ready, perRound) })
	})
	o.report()
	b.ReportMetric(float64(again)/float64(b.N*rounds*perRound), "redelivered")
}
