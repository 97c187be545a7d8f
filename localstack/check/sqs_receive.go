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

var receiveRows = map[string]func(*testing.T, *bench){
	"a received message is hidden, comes back and is counted": visibility,
	"visibility is changed, to nothing and to more":           changeVisibility,
	"twelve hours in total from the receive":                  twelveHours,
	"a message that is not in flight cannot be hidden":        notInFlight,
	"deleting twice is fine":                                  deleteTwice,
	"a garbage handle is refused":                             garbageHandle,
	"an old handle of a standard queue deletes nothing":       oldHandle,
	"a handle still deletes after its time on standard":       lateDelete,
	"at most ten messages are received":                       receiveMost,
	"waits and timeouts of a receive are checked":             receiveChecked,
	"a long poll waits and then comes back empty":             pollEmpty,
	"a long poll wakes on a send":                             pollSend,
	"a long poll wakes when a visibility timeout ends":        pollVisibility,
	"a long poll wakes when a message is released":            pollRelease,
	"a long poll wakes when a delay ends":                     pollDelay,
	"a long poll wakes when a message is dead-lettered":       pollDeadLetter,
	"a long poll learns that the queue is deleted":            pollDeleted,
	"the queue's own wait is used":                            queueWait,
	"a delay of the queue and of a message":                   delays,
}

// digest is the digest of one string attribute, after the Developer Guide.
func digest(name, kind, value string) string {
	var text []byte
	for _, part := range []string{name, kind} {
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(part))), part...)
	}
	text = append(text, 1)
	text = append(binary.BigEndian.AppendUint32(text, uint32(len(value))), value...)
	sum := md5.Sum(text)
	return hex.EncodeToString(sum[:])
}

func visibility(t *testing.T, b *bench) {
	url := b.queue(t, "VisibilityTimeout", "30")
	id := b.send(t, url, "x")
	first := b.receiveOne(t, url)
	b.wantNothing(t, url)
	b.advance(t, 29*time.Second)
	b.wantNothing(t, url)
	b.advance(t, 2*time.Second)
	second := b.receiveOne(t, url)
	if *second.MessageId != id || system(second, "ApproximateReceiveCount") != "2" || *second.ReceiptHandle == *first.ReceiptHandle {
		t.Errorf("got %v after %v", second, first)
	}
	if a, b := system(first, "ApproximateFirstReceiveTimestamp"), system(second, "ApproximateFirstReceiveTimestamp"); a != b {
		t.Errorf("the first receive moved from %s to %s", a, b)
	}
}

func changeVisibility(t *testing.T, b *bench) {
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

func twelveHours(t *testing.T, b *bench) {
	url := b.queue(t, "VisibilityTimeout", "3600")
	b.send(t, url, "x")
	b.advance(t, time.Hour) // waiting in the queue does not count
	m := b.receiveOne(t, url)
	wantCode(t, b.hide(t, url, m, 43_201), invalidParameter)
	if err := b.hide(t, url, m, 43_200); err != nil {
		t.Errorf("twelve hours right after the receive: %v", err)
	}
	b.advance(t, 2*time.Hour)
	wantCode(t, b.hide(t, url, m, 10*3600+1), invalidParameter)
	if err := b.hide(t, url, m, 10*3600); err != nil {
		t.Errorf("the rest of the twelve hours: %v", err)
	}
}

func notInFlight(t *testing.T, b *bench) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	b.release(t, url, m)
	wantType[*types.MessageNotInflight](t, b.hide(t, url, m, 10))
	m = b.receiveOne(t, url)
	b.delete(t, url, m)
	wantCode(t, b.hide(t, url, m, 10), invalidParameter)
}

func deleteTwice(t *testing.T, b *bench) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	b.delete(t, url, m, m)
	b.wantDepths(t, url, 0, 0, 0)
}

func garbageHandle(t *testing.T, b *bench) {
	url, other := b.queue(t), b.queue(t)
	b.send(t, other, "x")
	foreign := b.receiveOne(t, other)
	for _, handle := range []*string{aws.String("garbage"), aws.String("AAAA"), foreign.ReceiptHandle} {
		_, err := b.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: handle})
		wantType[*types.ReceiptHandleIsInvalid](t, err)
		wantType[*types.ReceiptHandleIsInvalid](t, b.hide(t, url, types.Message{ReceiptHandle: handle}, 1))
	}
}

func oldHandle(t *testing.T, b *bench) {
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

func lateDelete(t *testing.T, b *bench) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	b.advance(t, time.Minute)
	b.delete(t, url, m)
	b.wantDepths(t, url, 0, 0, 0)
}

func receiveMost(t *testing.T, b *bench) {
	url := b.queue(t)
	for range 12 {
		b.send(t, url, "x")
	}
	for _, most := range []int32{11, -1} {
		_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: most})
		wantCode(t, err, invalidParameter, "ReadCountOutOfRange")
	}
	if got := b.receive(t, url); len(got) != 10 {
		t.Errorf("got %d messages, want 10", len(got))
	}
	if got := b.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: &url}); len(got) != 1 {
		t.Errorf("got %d messages, want 1 by default", len(got))
	}
}

func receiveChecked(t *testing.T, b *bench) {
	url := b.queue(t)
	for _, in := range []*sqs.ReceiveMessageInput{
		{QueueUrl: &url, WaitTimeSeconds: 21},
		{QueueUrl: &url, VisibilityTimeout: 43_201},
	} {
		_, err := b.client.ReceiveMessage(t.Context(), in)
		wantCode(t, err, invalidParameter)
	}
	_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"Nonsense"}})
	wantCode(t, err, "InvalidAttributeName", invalidParameter)
}

func (b *bench) wantPolled(t *testing.T, poll <-chan polled, began time.Time, want string) {
	t.Helper()
	got := <-poll
	if got.err != nil || len(got.messages) != 1 || *got.messages[0].Body != want {
		t.Fatalf("got %v, %v, want %q", bodies(got.messages), got.err, want)
	}
	if spent := time.Since(began); spent > 10*time.Second {
		t.Errorf("the poll took %v", spent)
	}
}

func pollEmpty(t *testing.T, b *bench) {
	url := b.queue(t)
	began := time.Now()
	in := receiveInput(url)
	in.WaitTimeSeconds = 1
	if got := b.receiveWith(t, in); len(got) != 0 {
		t.Errorf("got %v", bodies(got))
	}
	if spent := time.Since(began); spent < 900*time.Millisecond {
		t.Errorf("waited %v, want 1s", spent)
	}
}

func pollSend(t *testing.T, b *bench) {
	url := b.queue(t)
	began := time.Now()
	poll := b.poll(t.Context(), url, 20)
	b.send(t, url, "now")
	b.wantPolled(t, poll, began, "now")
}

func pollVisibility(t *testing.T, b *bench) {
	url := b.queue(t, "VisibilityTimeout", "1")
	b.send(t, url, "again")
	b.receiveOne(t, url)
	began := time.Now()
	b.wantPolled(t, b.poll(t.Context(), url, 20), began, "again")
}

func pollRelease(t *testing.T, b *bench) {
	url := b.queue(t)
	b.send(t, url, "released")
	m := b.receiveOne(t, url)
	began := time.Now()
	poll := b.poll(t.Context(), url, 20)
	b.release(t, url, m)
	b.wantPolled(t, poll, began, "released")
}

func pollDelay(t *testing.T, b *bench) {
	url := b.queue(t)
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("late"), DelaySeconds: 1})
	b.wantNothing(t, url)
	began := time.Now()
	b.wantPolled(t, b.poll(t.Context(), url, 20), began, "late")
}

func pollDeadLetter(t *testing.T, b *bench) {
	source, dead := b.deadLettered(t, 1)
	b.send(t, source, "dies")
	m := b.receiveOne(t, source)
	b.release(t, source, m)
	began := time.Now()
	poll := b.poll(t.Context(), dead, 20)
	b.wantNothing(t, source)
	b.wantPolled(t, poll, began, "dies")
}

func pollDeleted(t *testing.T, b *bench) {
	url := b.queue(t)
	poll := b.poll(t.Context(), url, 20)
	if _, err := b.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
		t.Fatal(err)
	}
	wantType[*types.QueueDoesNotExist](t, (<-poll).err)
}

func queueWait(t *testing.T, b *bench) {
	url := b.queue(t, "ReceiveMessageWaitTimeSeconds", "1")
	began := time.Now()
	b.wantNothing(t, url)
	if spent := time.Since(began); spent < 900*time.Millisecond {
		t.Errorf("waited %v, want the queue's 1s", spent)
	}
}

func delays(t *testing.T, b *bench) {
	url := b.queue(t, "DelaySeconds", "60")
	b.send(t, url, "the queue's")
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("its own"), DelaySeconds: 300})
	b.wantNothing(t, url)
	b.advance(t, 61*time.Second)
	b.wantBodies(t, url, "the queue's")
	b.advance(t, 4*time.Minute)
	got := b.receive(t, url)
	if len(got) != 2 {
		t.Errorf("got %v, want both", bodies(got))
	}
}
