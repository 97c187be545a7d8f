package check

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var sqsLimitRows = map[string]func(*queueBench, *testing.T){
	"parallel receivers get each message once":           (*queueBench).parallelReceivers,
	"too many in flight: a standard queue refuses":       (*queueBench).inFlightStandard,
	"too many in flight: a FIFO queue gives nothing":     (*queueBench).inFlightFIFO,
	"messages are gone when their retention is over":     (*queueBench).retention,
	"a shorter retention reaches messages already there": (*queueBench).shorterRetention,
}

// fill receives until the queue has no more to give or the limit is reached.
func (b *queueBench) fill(t *testing.T, url string, send func(i int)) {
	t.Helper()
	if b.InFlightLimit == 0 {
		t.Skip("the endpoint's limit is too large to be tried")
	}
	for i := range b.InFlightLimit + 1 {
		send(i)
	}
	for taken := 0; taken < b.InFlightLimit; {
		got := b.receive(t, url)
		if len(got) == 0 {
			t.Fatalf("got nothing after %d of %d", taken, b.InFlightLimit)
		}
		taken += len(got)
	}
}

func (b *queueBench) inFlightStandard(t *testing.T) {
	url := b.queue(t)
	b.fill(t, url, func(int) { b.send(t, url, "x") })
	_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url})
	wantType[*types.OverLimit](t, err)
}

func (b *queueBench) inFlightFIFO(t *testing.T) {
	url := b.fifo(t)
	b.fill(t, url, func(int) { b.sendTo(t, url, b.name(""), "x") })
	b.wantNothing(t, url)
	b.wantDepths(t, url, 1, b.InFlightLimit, 0)
}

func (b *queueBench) retention(t *testing.T) {
	url := b.queue(t, "MessageRetentionPeriod", "60")
	b.send(t, url, "received")
	b.receive(t, url)
	b.send(t, url, "waiting")
	b.advance(t, 59*time.Second)
	b.wantDepths(t, url, 2, 0, 0)
	b.advance(t, 2*time.Second)
	b.wantDepths(t, url, 0, 0, 0)
	b.wantNothing(t, url)
}

func (b *queueBench) shorterRetention(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "old")
	b.advance(t, time.Hour)
	b.send(t, url, "new")
	b.set(t, url, "MessageRetentionPeriod", "600")
	b.wantBodies(t, url, "new")
}

func (b *queueBench) parallelReceivers(t *testing.T) {
	url := b.queue(t)
	const workers, each = 4, 50
	var mu sync.Mutex
	got := map[string]int{}
	var work sync.WaitGroup
	for worker := range workers {
		work.Go(func() {
			for i := range each {
				_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(strconv.Itoa(worker*each + i))})
				if err != nil {
					t.Errorf("send: %v", err)
				}
			}
		})
		work.Go(func() {
			for {
				mu.Lock()
				done := len(got) == workers*each
				mu.Unlock()
				if done {
					return
				}
				in := receiveInput(url)
				in.WaitTimeSeconds = 1
				in.MaxNumberOfMessages = 5 // all together stay below the smallest InFlightLimit in use
				out, err := b.client.ReceiveMessage(t.Context(), in)
				if err != nil {
					t.Errorf("receive: %v", err)
					return
				}
				mu.Lock()
				for _, m := range out.Messages {
					got[*m.Body]++
				}
				mu.Unlock()
				for _, m := range out.Messages {
					if _, err := b.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			}
		})
	}
	work.Wait()
	for body, times := range got {
		if times != 1 {
			t.Errorf("%s was received %d times", body, times)
		}
	}
	b.wantDepths(t, url, 0, 0, 0)
}
