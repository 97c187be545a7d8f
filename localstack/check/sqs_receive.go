package check

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var sqsReceiveRows = map[string]func(*queueBench, *testing.T){
	"a received message is hidden, comes back and is counted": (*queueBench).visibility,
	"visibility is changed, to nothing and to more":           (*queueBench).changeVisibility,
	"twelve hours in total from the receive":                  (*queueBench).twelveHours,
	"a message that is not in flight cannot be hidden":        (*queueBench).notInFlight,
	"deleting twice is fine":                                  (*queueBench).deleteTwice,
	"a garbage handle is refused":                             (*queueBench).garbageHandle,
	"an old handle of a standard queue deletes nothing":       (*queueBench).oldHandle,
	"a handle still deletes after its time on standard":       (*queueBench).lateDelete,
	"at most ten messages are received":                       (*queueBench).receiveMost,
	"waits and timeouts of a receive are checked":             (*queueBench).receiveChecked,
	"a long poll waits and then comes back empty":             (*queueBench).pollEmpty,
	"a long poll wakes on a send":                             (*queueBench).pollSend,
	"a long poll wakes when a visibility timeout ends":        (*queueBench).pollVisibility,
	"a long poll wakes when a message is released":            (*queueBench).pollRelease,
	"a long poll wakes when a delay ends":                     (*queueBench).pollDelay,
	"a long poll wakes when a message is dead-lettered":       (*queueBench).pollDeadLetter,
	"a long poll learns that the queue is deleted":            (*queueBench).pollDeleted,
	"the queue's own wait is used":                            (*queueBench).queueWait,
	"a delay of the queue and of a message":                   (*queueBench).delays,
}

// attributeDigest is the digest of string attributes, given as name, type,
// value in the order of their names, after the Developer Guide.
func attributeDigest(parts ...string) string {
	var text []byte
	for i, part := range parts {
		if i%3 == 2 {
			text = append(text, 1) // a string follows
		}
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(part))), part...)
	}
	sum := md5.Sum(text)
	return hex.EncodeToString(sum[:])
}

func (b *queueBench) visibility(t *testing.T) {
	url := b.queue(t, "VisibilityTimeout", "30")
	id := b.send(t, url, "x")
	first := b.receiveOne(t, url)
	b.wantNothing(t, url)
	b.advance(t, 29*time.Second)
	b.wantNothing(t, url)
	b.advance(t, 2*time.Second)
	second := b.receiveOne(t, url)
	if *second.MessageId != id || systemOf(second, "ApproximateReceiveCount") != "2" || *second.ReceiptHandle == *first.ReceiptHandle {
		t.Errorf("got %v after %v", second, first)
	}
	if a, b := systemOf(first, "ApproximateFirstReceiveTimestamp"), systemOf(second, "ApproximateFirstReceiveTimestamp"); a != b {
		t.Errorf("the first receive moved from %s to %s", a, b)
	}
}

func (b *queueBench) changeVisibility(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	if err := b.hide(t, url, m, 0); err != nil {
		t.Fatal(err)
	}
	m = b.receiveOne(t, url)
	if err := b.hide(t, url, m, 3600); err != nil {
		t.Fatal(err)
	}
	b.advance(t, 59*time.Minute)
	b.wantNothing(t, url)
	b.advance(t, 2*time.Minute)
	b.receiveOne(t, url)
}

func (b *queueBench) twelveHours(t *testing.T) {
	url := b.queue(t, "VisibilityTimeout", "3600")
	b.send(t, url, "x")
	b.advance(t, time.Hour) // waiting in the queue does not count
	m := b.receiveOne(t, url)
	wantRefusal(t, b.hide(t, url, m, 43_201), invalidParameter)
	if err := b.hide(t, url, m, 43_200); err != nil {
		t.Errorf("twelve hours right after the receive: %v", err)
	}
	b.advance(t, 2*time.Hour)
	wantRefusal(t, b.hide(t, url, m, 10*3600+1), invalidParameter)
	if err := b.hide(t, url, m, 10*3600); err != nil {
		t.Errorf("the rest of the twelve hours: %v", err)
	}
}

func (b *queueBench) notInFlight(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	b.release(t, url, m)
	wantType[*types.MessageNotInflight](t, b.hide(t, url, m, 10))
	m = b.receiveOne(t, url)
	b.delete(t, url, m)
	wantRefusal(t, b.hide(t, url, m, 10), invalidParameter)
}

func (b *queueBench) deleteTwice(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	b.delete(t, url, m, m)
	b.wantDepths(t, url, 0, 0, 0)
}

func (b *queueBench) garbageHandle(t *testing.T) {
	url, other := b.queue(t), b.queue(t)
	b.send(t, other, "x")
	foreign := b.receiveOne(t, other)
	for _, handle := range []*string{aws.String("garbage"), aws.String("AAAA"), foreign.ReceiptHandle} {
		_, err := b.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: handle})
		wantType[*types.ReceiptHandleIsInvalid](t, err)
		wantType[*types.ReceiptHandleIsInvalid](t, b.hide(t, url, types.Message{ReceiptHandle: handle}, 1))
	}
}

func (b *queueBench) oldHandle(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "x")
	first := b.receiveOne(t, url)
	b.release(t, url, first)
	second := b.receiveOne(t, url)
	b.delete(t, url, first)
	b.wantDepths(t, url, 0, 1, 0)
	b.delete(t, url, second)
	b.wantDepths(t, url, 0, 0, 0)
}

func (b *queueBench) lateDelete(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	b.advance(t, time.Minute)
	b.delete(t, url, m)
	b.wantDepths(t, url, 0, 0, 0)
}

func (b *queueBench) receiveMost(t *testing.T) {
	url := b.queue(t)
	for range 12 {
		b.send(t, url, "x")
	}
	for _, most := range []int32{11, -1} {
		_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: most})
		wantRefusal(t, err, invalidParameter, "ReadCountOutOfRange")
	}
	if got := b.receive(t, url); len(got) != 10 {
		t.Errorf("got %d messages, want 10", len(got))
	}
	if got := b.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: &url}); len(got) != 1 {
		t.Errorf("got %d messages, want 1 by default", len(got))
	}
}

func (b *queueBench) receiveChecked(t *testing.T) {
	url := b.queue(t)
	for _, in := range []*sqs.ReceiveMessageInput{
		{QueueUrl: &url, WaitTimeSeconds: 21},
		{QueueUrl: &url, VisibilityTimeout: 43_201},
	} {
		_, err := b.client.ReceiveMessage(t.Context(), in)
		wantRefusal(t, err, invalidParameter)
	}
	_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"Nonsense"}})
	wantRefusal(t, err, "InvalidAttributeName", invalidParameter)
}

func (b *queueBench) wantPolled(t *testing.T, poll <-chan pollAnswer, began time.Time, want string) {
	t.Helper()
	got := <-poll
	if got.err != nil || len(got.messages) != 1 || *got.messages[0].Body != want {
		t.Fatalf("got %v, %v, want %q", bodiesOf(got.messages), got.err, want)
	}
	if spent := time.Since(began); spent > 10*time.Second {
		t.Errorf("the poll took %v", spent)
	}
}

func (b *queueBench) pollEmpty(t *testing.T) {
	url := b.queue(t)
	began := time.Now()
	in := receiveInput(url)
	in.WaitTimeSeconds = 1
	if got := b.receiveWith(t, in); len(got) != 0 {
		t.Errorf("got %v", bodiesOf(got))
	}
	if spent := time.Since(began); spent < 900*time.Millisecond {
		t.Errorf("waited %v, want 1s", spent)
	}
}

func (b *queueBench) pollSend(t *testing.T) {
	url := b.queue(t)
	began := time.Now()
	poll := b.poll(t.Context(), url, 20)
	b.send(t, url, "now")
	b.wantPolled(t, poll, began, "now")
}

func (b *queueBench) pollVisibility(t *testing.T) {
	url := b.queue(t, "VisibilityTimeout", "1")
	b.send(t, url, "again")
	b.receiveOne(t, url)
	began := time.Now()
	b.wantPolled(t, b.poll(t.Context(), url, 20), began, "again")
}

func (b *queueBench) pollRelease(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "released")
	m := b.receiveOne(t, url)
	began := time.Now()
	poll := b.poll(t.Context(), url, 20)
	b.release(t, url, m)
	b.wantPolled(t, poll, began, "released")
}

func (b *queueBench) pollDelay(t *testing.T) {
	url := b.queue(t)
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("late"), DelaySeconds: 1})
	b.wantNothing(t, url)
	began := time.Now()
	b.wantPolled(t, b.poll(t.Context(), url, 20), began, "late")
}

func (b *queueBench) pollDeadLetter(t *testing.T) {
	source, dead := b.deadLettered(t, 1)
	b.send(t, source, "dies")
	m := b.receiveOne(t, source)
	b.release(t, source, m)
	began := time.Now()
	poll := b.poll(t.Context(), dead, 20)
	b.wantNothing(t, source)
	b.wantPolled(t, poll, began, "dies")
}

func (b *queueBench) pollDeleted(t *testing.T) {
	url := b.queue(t)
	poll := b.poll(t.Context(), url, 20)
	if _, err := b.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
		t.Fatal(err)
	}
	wantType[*types.QueueDoesNotExist](t, (<-poll).err)
}

func (b *queueBench) queueWait(t *testing.T) {
	url := b.queue(t, "ReceiveMessageWaitTimeSeconds", "1")
	began := time.Now()
	b.wantNothing(t, url)
	if spent := time.Since(began); spent < 900*time.Millisecond {
		t.Errorf("waited %v, want the queue's 1s", spent)
	}
}

func (b *queueBench) delays(t *testing.T) {
	url := b.queue(t, "DelaySeconds", "60")
	b.send(t, url, "the queue's")
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("its own"), DelaySeconds: 300})
	b.wantNothing(t, url)
	b.advance(t, 61*time.Second)
	b.wantBodies(t, url, "the queue's")
	b.advance(t, 4*time.Minute)
	got := b.receive(t, url)
	if len(got) != 2 {
		t.Errorf("got %v, want both", bodiesOf(got))
	}
}
