package check

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var sqsDeadLetterRows = map[string]func(*queueBench, *testing.T){
	"a message that is received too often moves with all it has": (*queueBench).deadLetter,
	"a FIFO message moves with a new time and deduplication id":  (*queueBench).deadLetterFIFO,
	"one receive looks past what it moves to the dead letters":   (*queueBench).lookPast,
	"the retention of a dead letter counts from its first send":  (*queueBench).deadLetterRetention,
	"the retention of a FIFO dead letter starts anew":            (*queueBench).deadLetterRetentionFIFO,
	"a message sent to a dead-letter queue has no source":        (*queueBench).sentToDeadLetters,
	"a policy set later counts the receives there were":          (*queueBench).policyLater,
	"a message is not dead-lettered without a further receive":   (*queueBench).noMoveWithoutReceive,
}

func (b *queueBench) deadLetter(t *testing.T) {
	source, dead := b.deadLettered(t, 2)
	sent := map[string]types.MessageAttributeValue{"agent.task": typed("String.json", `{"a":1}`)}
	out := b.sendInput(t, &sqs.SendMessageInput{
		QueueUrl: &source, MessageBody: aws.String("dies"), MessageAttributes: sent,
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(traceHeader)}},
	})
	var last types.Message
	for range 2 {
		last = b.receiveOne(t, source)
		b.release(t, source, last)
	}
	b.wantNothing(t, source)
	got := b.receiveOne(t, dead)
	if *got.MessageId != *out.MessageId || *got.Body != "dies" || aws.ToString(got.MD5OfMessageAttributes) != *out.MD5OfMessageAttributes {
		t.Errorf("got %v, want id %s and the same content", got, *out.MessageId)
	}
	if diff := cmp.Diff(sent, got.MessageAttributes, cmpopts.IgnoreUnexported(types.MessageAttributeValue{})); diff != "" {
		t.Errorf("attributes differ (-sent +dead letter):\n%s", diff)
	}
	want := map[types.MessageSystemAttributeName]string{
		"ApproximateReceiveCount":          "3",
		"DeadLetterQueueSourceArn":         b.attributes(t, source)["QueueArn"],
		"SentTimestamp":                    systemOf(last, "SentTimestamp"),
		"ApproximateFirstReceiveTimestamp": systemOf(last, "ApproximateFirstReceiveTimestamp"),
		"SenderId":                         systemOf(last, "SenderId"),
		"AWSTraceHeader":                   traceHeader,
	}
	for name, value := range want {
		if systemOf(got, name) != value {
			t.Errorf("%s: got %q, want %q", name, systemOf(got, name), value)
		}
	}
	b.wantDepths(t, source, 0, 0, 0)
	b.wantDepths(t, dead, 0, 1, 0)
}

func (b *queueBench) deadLetterFIFO(t *testing.T) {
	source, dead := b.deadLettered(t, 1, "FifoQueue", "true")
	id := b.sendTo(t, source, "g", "dies")
	b.sendTo(t, source, "g", "next")
	m := b.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: &source, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})[0]
	b.advance(t, time.Hour)
	b.wantBodies(t, source, "next") // its head went to the dead letters
	got := b.receiveOne(t, dead)
	if *got.MessageId != id || systemOf(got, "MessageGroupId") != "g" || systemOf(got, "MessageDeduplicationId") != id ||
		systemOf(got, "ApproximateReceiveCount") != "2" || systemOf(got, "DeadLetterQueueSourceArn") != b.attributes(t, source)["QueueArn"] {
		t.Errorf("got id %s, attributes %v, want id %s also as deduplication id", *got.MessageId, got.Attributes, id)
	}
	before, err := strconv.ParseInt(systemOf(m, "SentTimestamp"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strconv.ParseInt(systemOf(got, "SentTimestamp"), 10, 64)
	if err != nil || after-before < int64(time.Hour/time.Millisecond) {
		t.Errorf("the sent time moved from %d to %d, want an hour more", before, after)
	}
}

func (b *queueBench) lookPast(t *testing.T) {
	source, dead := b.deadLettered(t, 1)
	for range 12 {
		b.send(t, source, "exhausted")
	}
	b.release(t, source, b.receive(t, source)...)
	b.release(t, source, b.receive(t, source)...)
	b.send(t, source, "fresh")
	got := b.receive(t, source)
	for len(got) == 0 {
		got = b.receive(t, source)
	}
	if !slices.Equal(bodiesOf(got), []string{"fresh"}) {
		t.Errorf("got %v, want only the fresh one", bodiesOf(got))
	}
	b.wantNothing(t, source)
	if got := b.depths(t, dead); got[0] != "12" {
		t.Errorf("got %v dead letters, want 12", got)
	}
}

func (b *queueBench) deadLetterRetention(t *testing.T) {
	source, dead := b.deadLettered(t, 1)
	b.send(t, source, "dies")
	b.advance(t, 24*time.Hour)
	b.release(t, source, b.receiveOne(t, source))
	b.wantNothing(t, source)
	b.wantDepths(t, dead, 1, 0, 0)
	b.advance(t, 71*time.Hour) // four days of retention, one is over
	b.wantDepths(t, dead, 1, 0, 0)
	b.advance(t, 2*time.Hour)
	b.wantDepths(t, dead, 0, 0, 0)
}

func (b *queueBench) deadLetterRetentionFIFO(t *testing.T) {
	source, dead := b.deadLettered(t, 1, "FifoQueue", "true")
	b.sendTo(t, source, "g", "dies")
	b.advance(t, 24*time.Hour)
	b.release(t, source, b.receiveOne(t, source))
	b.wantNothing(t, source)
	b.advance(t, 95*time.Hour)
	b.wantDepths(t, dead, 1, 0, 0)
	b.advance(t, 2*time.Hour)
	b.wantDepths(t, dead, 0, 0, 0)
}

func (b *queueBench) sentToDeadLetters(t *testing.T) {
	_, dead := b.deadLettered(t, 1)
	b.send(t, dead, "by hand")
	if source, set := b.receiveOne(t, dead).Attributes["DeadLetterQueueSourceArn"]; set {
		t.Errorf("got source %s, want none", source)
	}
}

func (b *queueBench) policyLater(t *testing.T) {
	source, dead := b.queue(t), b.queue(t)
	b.send(t, source, "dies")
	for range 3 {
		b.release(t, source, b.receiveOne(t, source))
	}
	b.set(t, source, "RedrivePolicy", redrive(b.attributes(t, dead)["QueueArn"], 3))
	b.wantNothing(t, source)
	b.receiveOne(t, dead)
}

func (b *queueBench) noMoveWithoutReceive(t *testing.T) {
	source, dead := b.deadLettered(t, 1)
	b.send(t, source, "x")
	b.release(t, source, b.receiveOne(t, source))
	b.wantDepths(t, source, 1, 0, 0)
	b.wantDepths(t, dead, 0, 0, 0)
}
