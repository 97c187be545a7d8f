package check

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var sqsFifoRows = map[string]func(*queueBench, *testing.T){
	"FIFO: order within a group, and the group waits":        (*queueBench).fifoOrder,
	"FIFO: a group waits for each of its messages in flight": (*queueBench).fifoEachInFlight,
	"FIFO: one group does not hold up another":               (*queueBench).fifoGroups,
	"FIFO: a repeat within five minutes is swallowed":        (*queueBench).fifoDedup,
	"FIFO: a repeat is swallowed also after the deletion":    (*queueBench).fifoDedupDeleted,
	"FIFO: content-based deduplication looks at the body":    (*queueBench).fifoContent,
	"FIFO: deduplication can be per group":                   (*queueBench).fifoScope,
	"FIFO: a group id and a deduplication id are needed":     (*queueBench).fifoNeeds,
	"FIFO: an expired handle cannot delete":                  (*queueBench).fifoExpired,
	"FIFO: a failed message comes back before the next":      (*queueBench).fifoRetry,
	"FIFO: a receive attempt can be repeated":                (*queueBench).fifoAttempt,
	"FIFO: sequence numbers grow":                            (*queueBench).fifoSequence,
	"FIFO: a batch keeps its order":                          (*queueBench).fifoBatch,
	"FIFO: a message has no delay of its own":                (*queueBench).fifoDelay,
	"FIFO: a long poll wakes when the group is free":         (*queueBench).fifoPoll,
}

func (b *queueBench) fifo(t *testing.T, attributes ...string) string {
	t.Helper()
	return b.queue(t, append([]string{"FifoQueue", "true"}, attributes...)...)
}

func fifoSend(url, group, dedup, body string) *sqs.SendMessageInput {
	return &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &dedup}
}

func (b *queueBench) fifoOrder(t *testing.T) {
	url := b.fifo(t)
	for _, body := range []string{"1", "2", "3"} {
		b.sendTo(t, url, "g", body)
	}
	in := receiveInput(url)
	in.MaxNumberOfMessages = 2
	first := b.receiveWith(t, in)
	if !slices.Equal(bodiesOf(first), []string{"1", "2"}) {
		t.Fatalf("got %v, want 1 and 2", bodiesOf(first))
	}
	b.wantNothing(t, url)
	b.delete(t, url, first[0])
	b.wantNothing(t, url) // 2 is still in flight
	b.delete(t, url, first[1])
	b.wantBodies(t, url, "3")
}

func (b *queueBench) fifoEachInFlight(t *testing.T) {
	url := b.fifo(t)
	b.sendTo(t, url, "g", "1")
	b.sendTo(t, url, "g", "2")
	got := b.wantBodies(t, url, "1", "2")
	b.release(t, url, got[0])
	b.wantNothing(t, url) // 2 is still in flight
	b.release(t, url, got[1])
	b.wantBodies(t, url, "1", "2")
}

func (b *queueBench) fifoGroups(t *testing.T) {
	url := b.fifo(t)
	b.sendTo(t, url, "a", "a1")
	b.receiveOne(t, url)
	b.sendTo(t, url, "a", "a2")
	b.sendTo(t, url, "b", "b1")
	b.wantBodies(t, url, "b1")
}

func (b *queueBench) fifoDedup(t *testing.T) {
	url := b.fifo(t)
	first := b.sendInput(t, fifoSend(url, "g", "d", "x"))
	again := b.sendInput(t, fifoSend(url, "g", "d", "another body"))
	if *again.MessageId != *first.MessageId || aws.ToString(again.SequenceNumber) != aws.ToString(first.SequenceNumber) {
		t.Errorf("the repeat got id %s, want %s", *again.MessageId, *first.MessageId)
	}
	b.wantDepths(t, url, 1, 0, 0)
	b.advance(t, 5*time.Minute+time.Second)
	b.sendInput(t, fifoSend(url, "g", "d", "later"))
	b.wantDepths(t, url, 2, 0, 0)
}

func (b *queueBench) fifoDedupDeleted(t *testing.T) {
	url := b.fifo(t)
	b.sendInput(t, fifoSend(url, "g", "d", "x"))
	b.delete(t, url, b.receiveOne(t, url))
	b.sendInput(t, fifoSend(url, "g", "d", "x"))
	b.wantDepths(t, url, 0, 0, 0)
}

func (b *queueBench) fifoContent(t *testing.T) {
	url := b.fifo(t, "ContentBasedDeduplication", "true")
	send := func(body, attribute string) {
		b.sendInput(t, &sqs.SendMessageInput{
			QueueUrl: &url, MessageBody: &body, MessageGroupId: aws.String("g"),
			MessageAttributes: map[string]types.MessageAttributeValue{"a": typed("String", attribute)},
		})
	}
	send("x", "1")
	send("x", "2") // the attributes do not count
	send("y", "1")
	b.wantBodies(t, url, "x", "y")
}

func (b *queueBench) fifoScope(t *testing.T) {
	url := b.fifo(t, "DeduplicationScope", "messageGroup", "FifoThroughputLimit", "perMessageGroupId")
	b.sendInput(t, fifoSend(url, "a", "d", "x"))
	b.sendInput(t, fifoSend(url, "b", "d", "x"))
	b.sendInput(t, fifoSend(url, "b", "d", "x"))
	b.wantDepths(t, url, 2, 0, 0)
	_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(b.name(".fifo")), Attributes: map[string]string{
		"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId",
	}})
	wantRefusal(t, err, invalidParameter)
}

func (b *queueBench) fifoNeeds(t *testing.T) {
	url := b.fifo(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageDeduplicationId: aws.String("d")}, missingParameter)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageGroupId: aws.String("g")}, invalidParameter)
	b.refusesToSend(t, fifoSend(url, "with space", "d", "x"), invalidParameter)
	b.refusesToSend(t, fifoSend(url, "g", "ü", "x"), invalidParameter)
}

func (b *queueBench) fifoExpired(t *testing.T) {
	url := b.fifo(t, "VisibilityTimeout", "30")
	b.sendTo(t, url, "g", "x")
	m := b.receiveOne(t, url)
	b.advance(t, 31*time.Second)
	_, err := b.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
	wantRefusal(t, err, invalidParameter)
	out, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{
		{Id: aws.String("late"), ReceiptHandle: m.ReceiptHandle},
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, out.Failed, map[string]string{"late": invalidParameter})
	b.delete(t, url, b.receiveOne(t, url))
}

func (b *queueBench) fifoRetry(t *testing.T) {
	url := b.fifo(t)
	b.sendTo(t, url, "g", "1")
	b.sendTo(t, url, "g", "2")
	in := receiveInput(url)
	in.MaxNumberOfMessages = 1
	b.release(t, url, b.receiveWith(t, in)...)
	b.wantBodies(t, url, "1", "2")
}

func (b *queueBench) fifoAttempt(t *testing.T) {
	url := b.fifo(t)
	b.sendTo(t, url, "g", "1")
	b.sendTo(t, url, "h", "2")
	in := receiveInput(url)
	in.ReceiveRequestAttemptId = aws.String("attempt-1")
	first := b.receiveWith(t, in)
	again := b.receiveWith(t, in)
	if len(first) != 2 || len(again) != 2 || *again[0].ReceiptHandle != *first[0].ReceiptHandle {
		t.Fatalf("got %v, then %v, want the same", bodiesOf(first), bodiesOf(again))
	}
	b.delete(t, url, first[0])
	if got := b.receiveWith(t, in); len(got) != 0 {
		t.Errorf("after a deletion got %v, want nothing", bodiesOf(got))
	}
}

func (b *queueBench) fifoSequence(t *testing.T) {
	url := b.fifo(t)
	last := ""
	for range 3 {
		out := b.sendInput(t, fifoSend(url, "g", b.name(""), "x"))
		number := aws.ToString(out.SequenceNumber)
		if len(number) != 20 || number <= last {
			t.Errorf("got sequence number %q after %q", number, last)
		}
		last = number
	}
	got := b.receive(t, url)
	if len(got) != 3 || systemOf(got[2], "SequenceNumber") != last {
		t.Errorf("got %v, want the last with %s", got, last)
	}
}

func (b *queueBench) fifoBatch(t *testing.T) {
	url := b.fifo(t, "ContentBasedDeduplication", "true")
	want := []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}
	list := sendEntries(want...)
	for i := range list {
		list[i].MessageGroupId = aws.String("g")
	}
	if _, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: list}); err != nil {
		t.Fatal(err)
	}
	b.wantBodies(t, url, want...)
}

func (b *queueBench) fifoDelay(t *testing.T) {
	url := b.fifo(t)
	in := fifoSend(url, "g", "d", "x")
	in.DelaySeconds = 5
	b.refusesToSend(t, in, invalidParameter)
}

func (b *queueBench) fifoPoll(t *testing.T) {
	url := b.fifo(t)
	b.sendTo(t, url, "g", "1")
	m := b.receiveOne(t, url)
	b.sendTo(t, url, "g", "2")
	began := time.Now()
	poll := b.poll(t.Context(), url, 20)
	b.delete(t, url, m)
	b.wantPolled(t, poll, began, "2")
}
