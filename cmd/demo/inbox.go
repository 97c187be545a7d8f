package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// queue is an inbox on SQS, where a task's facts come packed in one attribute.
type queue struct {
	url, deadLetters string
	sqs              *sqs.Client
}

// queueAttempts is the queue's own receive limit.
const queueAttempts = 3

func (q *queue) receive(ctx context.Context) (*delivery, error) {
	out, err := q.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, WaitTimeSeconds: 1, MaxNumberOfMessages: 1,
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	})
	if err != nil || len(out.Messages) == 0 {
		return nil, err
	}
	m := out.Messages[0]
	var carried ledger.Facts
	if err := json.Unmarshal([]byte(aws.ToString(m.MessageAttributes[ledger.ContextAttribute].StringValue)), &carried); err != nil {
		return nil, fmt.Errorf("read agent.ctx: %w", err)
	}
	return &delivery{
		task: ledger.Task{
			ID: carried.TaskID, Type: carried.Type, Tenant: carried.Tenant, IdempotencyKey: carried.IdempotencyKey,
			ValidUntil: timeOf(carried.ValidUntil), MessageID: aws.ToString(m.MessageId), MaxAttempts: queueAttempts,
		},
		bury:    func(ctx context.Context, f ledger.Facts) error { return q.bury(ctx, m, f) },
		mark:    aws.ToString(m.MessageAttributes[dlqbridge.MarkName].StringValue),
		body:    []byte(aws.ToString(m.Body)),
		first:   m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)] == "1",
		receipt: aws.ToString(m.ReceiptHandle),
	}, nil
}

func (q *queue) answer(ctx context.Context, d *delivery, done bool) (err error) {
	if done {
		_, err = q.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: &d.receipt})
	} else {
		_, err = q.sqs.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &q.url, ReceiptHandle: &d.receipt})
	}
	return err
}

// bury sends a message to the dead-letter queue as it came, with the facts in
// place of those it was sent with.
func (q *queue) bury(ctx context.Context, m types.Message, f ledger.Facts) error {
	text, err := f.Context()
	if err != nil {
		return err
	}
	attributes := maps.Clone(m.MessageAttributes)
	attributes[ledger.ContextAttribute] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &text}
	_, err = q.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &q.deadLetters, MessageBody: m.Body, MessageAttributes: attributes})
	return err
}

// timeOf reads a time that a message carries; zero if it carries none.
func timeOf(text string) time.Time {
	t, err := dlqbridge.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// subscription is an inbox on Pub/Sub, where a task's facts are flat attributes.
type subscription struct {
	name, deadLetters string
	client            *pubsub.SubscriptionAdminClient
	topics            *pubsub.TopicAdminClient
}

// subscriptionAttempts is the subscription's own limit.
const subscriptionAttempts = 5

// newSubscription connects as any client does, which honours
// PUBSUB_EMULATOR_HOST.
func newSubscription(ctx context.Context, name, deadLetters string) (*subscription, error) {
	client, err := pubsub.NewSubscriptionAdminClient(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := pubsub.NewTopicAdminClient(ctx)
	return &subscription{name, deadLetters, client, topics}, err
}

func (s *subscription) receive(ctx context.Context) (*delivery, error) {
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out, err := s.client.Pull(bounded, &pubsubpb.PullRequest{Subscription: s.name, MaxMessages: 1}, gax.WithRetry(nil))
	switch {
	case status.Code(err) == codes.DeadlineExceeded, bounded.Err() != nil:
		return nil, nil //nolint:nilnil // the wait is over and nothing came
	case err != nil || len(out.GetReceivedMessages()) == 0:
		return nil, err
	}
	r := out.GetReceivedMessages()[0]
	// Shorter than the subscription's ten seconds at least, so that what a dead
	// worker held comes again soon.
	if err := s.deadline(ctx, r.GetAckId(), visibility); err != nil {
		return nil, err
	}
	a := r.GetMessage().GetAttributes()
	return &delivery{
		task: ledger.Task{
			ID: a["agent.task.id"], Type: a["agent.task.type"], Tenant: a["agent.tenant"], IdempotencyKey: a["agent.idempotency_key"],
			ValidUntil: timeOf(a["agent.valid_until"]), MessageID: r.GetMessage().GetMessageId(), MaxAttempts: subscriptionAttempts,
		},
		bury:    func(ctx context.Context, f ledger.Facts) error { return s.bury(ctx, r.GetMessage(), f) },
		mark:    a[dlqbridge.MarkName],
		body:    r.GetMessage().GetData(),
		first:   r.GetDeliveryAttempt() == 1,
		receipt: r.GetAckId(),
	}, nil
}

// bury publishes a message to the dead-letter topic as it came, with the facts
// over its attributes.
func (s *subscription) bury(ctx context.Context, m *pubsubpb.PubsubMessage, f ledger.Facts) error {
	attributes := maps.Clone(m.GetAttributes())
	maps.Copy(attributes, f.Attributes())
	_, err := s.topics.Publish(ctx, &pubsubpb.PublishRequest{Topic: s.deadLetters, Messages: []*pubsubpb.PubsubMessage{
		{Data: m.GetData(), Attributes: attributes, OrderingKey: m.GetOrderingKey()},
	}})
	return err
}

func (s *subscription) answer(ctx context.Context, d *delivery, done bool) error {
	if done {
		return s.client.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: s.name, AckIds: []string{d.receipt}})
	}
	return s.deadline(ctx, d.receipt, 0)
}

func (s *subscription) deadline(ctx context.Context, receipt string, d time.Duration) error {
	return s.client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: s.name, AckIds: []string{receipt}, AckDeadlineSeconds: int32(d / time.Second),
	})
}
