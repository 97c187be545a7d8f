package localstack_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// BenchmarkMessages sends, receives and deletes messages of 1 KiB in batches
// of ten through the SDK; the figure is messages per second over all three.
func BenchmarkMessages(b *testing.B) {
	for _, kind := range []string{"standard", "fair", "fifo"} {
		b.Run(kind, func(b *testing.B) {
			cloud := localstack.New(localstack.Options{})
			defer cloud.Close()
			client := sqs.NewFromConfig(cloud.AWSConfig())
			in := &sqs.CreateQueueInput{QueueName: aws.String("q")}
			if kind == "fifo" {
				in = &sqs.CreateQueueInput{QueueName: aws.String("q.fifo"), Attributes: map[string]string{"FifoQueue": "true"}}
			}
			made, err := client.CreateQueue(b.Context(), in)
			if err != nil {
				b.Fatal(err)
			}
			body := strings.Repeat("x", 1024)
			round := 0
			for b.Loop() {
				round++
				batch := &sqs.SendMessageBatchInput{QueueUrl: made.QueueUrl}
				for i := range 10 {
					entry := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &body}
					if kind != "standard" {
						entry.MessageGroupId = aws.String("g" + strconv.Itoa(i%5))
					}
					if kind == "fifo" {
						entry.MessageDeduplicationId = aws.String(strconv.Itoa(round*10 + i))
					}
					batch.Entries = append(batch.Entries, entry)
				}
				if _, err := client.SendMessageBatch(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				got, err := client.ReceiveMessage(b.Context(), &sqs.ReceiveMessageInput{QueueUrl: made.QueueUrl, MaxNumberOfMessages: 10, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
				if err != nil || len(got.Messages) != 10 {
					b.Fatalf("got %d messages, %v", len(got.Messages), err)
				}
				remove := &sqs.DeleteMessageBatchInput{QueueUrl: made.QueueUrl}
				for i, m := range got.Messages {
					remove.Entries = append(remove.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
				}
				if _, err := client.DeleteMessageBatch(b.Context(), remove); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*10)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
