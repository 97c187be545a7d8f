package redrive_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// authorized stores n records that somebody has authorised already, so that a
// run of them is gate, claim, journal, send and note, and little else.
func (c *cloud) authorized(tb testing.TB, n int) {
	tb.Helper()
	c.add(tb, n, nil)
	ctx := context.Background()
	now := time.Now().UTC().Truncate(time.Millisecond)
	for from := 0; from < n; from += 100 {
		var ids []string
		for i := from; i < min(n, from+100); i++ {
			ids = append(ids, fmt.Sprintf("r_%05d", i))
		}
		controls, err := c.store.Read(ctx, ids)
		if err != nil {
			tb.Fatal(err)
		}
		var steps []dlqbridge.Step
		for _, ctl := range controls {
			to := ctl
			to.Version, to.Status = 2, dlqbridge.StatusAuthorized
			to.Authorized = &dlqbridge.Authorization{By: "alice", At: now, Action: dlqbridge.ActionRetry}
			to.Move = dlqbridge.Move{Version: 2, At: now, By: "alice", Verb: dlqbridge.VerbAuthorize, From: ctl.Status, To: to.Status}
			steps = append(steps, dlqbridge.Step{From: ctl, To: to})
		}
		for _, err := range c.store.Move(ctx, steps) {
			if err != nil {
				tb.Fatal(err)
			}
		}
	}
}

func total(c localstack.Counters) (n int64) {
	for _, service := range c.Calls {
		for _, calls := range service {
			n += calls
		}
	}
	return n
}

// From gate to note at most 1.7 provider calls a message, plan and job
// included here, without a ledger.
func TestCallsPerMessage(t *testing.T) {
	c := newCloud(t, false)
	const n = 500
	c.authorized(t, n)
	c.ForgetRequests()
	res, err := c.start(t, c.HTTPClient(), nil).Run(t.Context(), request())
	if err != nil || res.Sent != n {
		t.Fatalf("%+v, %v", res.Sent, err)
	}
	per := float64(total(c.Counters())) / n
	t.Logf("%.2f calls a message: %v", per, c.Counters().Calls)
	if per > 1.7 {
		t.Errorf("%.2f calls a message, at most 1.7 may be", per)
	}
}

// BenchmarkRedrive says how many messages a second one job sends on the local
// cloud, as it is and with 20 ms added to each call; next to it a bare mover
// that receives, sends and deletes batches of ten one after the other.
func BenchmarkRedrive(b *testing.B) {
	for _, delay := range []int{0, 20} {
		b.Run(fmt.Sprintf("job/%dms", delay), func(b *testing.B) {
			const n = 3000
			for range b.N {
				b.StopTimer()
				c := newCloud(b, false)
				c.authorized(b, n)
				slow(b, c, delay)
				c.ForgetRequests()
				b.StartTimer()
				res, err := c.start(b, c.HTTPClient(), func(o *redrive.Options) {
					o.AtOnce = 400
					o.Rate, o.Burst = dlqbridge.Rate{Count: 20000, Per: time.Second}, 5000
				}).Run(b.Context(), request())
				b.StopTimer()
				if err != nil || res.Sent != n {
					b.Fatalf("%d sent, %v", res.Sent, err)
				}
				b.ReportMetric(float64(total(c.Counters()))/n, "calls/msg")
				c.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "msg/s")
		})
		b.Run(fmt.Sprintf("mover/%dms", delay), func(b *testing.B) {
			const n = 200
			for range b.N {
				b.StopTimer()
				c := newCloud(b, false)
				dead, err := c.queues.CreateQueue(b.Context(), &sqs.CreateQueueInput{QueueName: aws.String("dead")})
				if err != nil {
					b.Fatal(err)
				}
				for range n {
					if _, err := c.queues.SendMessage(b.Context(), &sqs.SendMessageInput{QueueUrl: dead.QueueUrl, MessageBody: aws.String("body")}); err != nil {
						b.Fatal(err)
					}
				}
				slow(b, c, delay)
				b.StartTimer()
				for moved := 0; moved < n; {
					moved += moveTen(b, c, *dead.QueueUrl)
				}
				b.StopTimer()
				c.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

func slow(b *testing.B, c *cloud, milliseconds int) {
	b.Helper()
	if milliseconds == 0 {
		return
	}
	for _, service := range []string{"sqs", "dynamodb"} {
		if _, err := c.AddFault(localstack.Fault{Service: service, Do: localstack.DoDelay, Ms: milliseconds, Times: -1}); err != nil {
			b.Fatal(err)
		}
	}
}

func moveTen(b *testing.B, c *cloud, dead string) int {
	b.Helper()
	got, err := c.queues.ReceiveMessage(b.Context(), &sqs.ReceiveMessageInput{QueueUrl: &dead, MaxNumberOfMessages: 10})
	if err != nil {
		b.Fatal(err)
	}
	if len(got.Messages) == 0 {
		return 0
	}
	send := &sqs.SendMessageBatchInput{QueueUrl: &c.url}
	drop := &sqs.DeleteMessageBatchInput{QueueUrl: &dead}
	for _, m := range got.Messages {
		send.Entries = append(send.Entries, types.SendMessageBatchRequestEntry{Id: m.MessageId, MessageBody: m.Body})
		drop.Entries = append(drop.Entries, types.DeleteMessageBatchRequestEntry{Id: m.MessageId, ReceiptHandle: m.ReceiptHandle})
	}
	if _, err := c.queues.SendMessageBatch(b.Context(), send); err != nil {
		b.Fatal(err)
	}
	if _, err := c.queues.DeleteMessageBatch(b.Context(), drop); err != nil {
		b.Fatal(err)
	}
	return len(got.Messages)
}
