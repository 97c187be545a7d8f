package localstack_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge/localstack"
)

func TestAMessageDiesWithinVirtualHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		cloud := localstack.New(localstack.Options{})
		defer cloud.Close()
		client := sqs.NewFromConfig(cloud.AWSConfig())
		dead, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("orders-dlq")})
		if err != nil {
			t.Fatal(err)
		}
		work, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("orders"), Attributes: map[string]string{
			"VisibilityTimeout": "3600",
			"RedrivePolicy":     `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:orders-dlq","maxReceiveCount":2}`,
		}})
		if err != nil {
			t.Fatal(err)
		}
		sent, err := client.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl: work.QueueUrl, MessageBody: aws.String("hello"),
			MessageAttributes: map[string]types.MessageAttributeValue{"agent.task": {DataType: aws.String("String"), StringValue: aws.String("t1")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 2 {
			got := receive(t, client, work.QueueUrl, 20)
			for got == nil {
				got = receive(t, client, work.QueueUrl, 20)
			}
		}
		var letter *types.Message
		for letter == nil {
			receive(t, client, work.QueueUrl, 20)
			letter = receive(t, client, dead.QueueUrl, 0)
		}
		if spent := time.Since(began); spent < 2*time.Hour || spent > 2*time.Hour+time.Minute {
			t.Errorf("died after %v, want 2h", spent)
		}
		if *letter.MessageId != *sent.MessageId || letter.Attributes["ApproximateReceiveCount"] != "3" ||
			letter.Attributes["DeadLetterQueueSourceArn"] != "arn:aws:sqs:us-east-1:000000000000:orders" {
			t.Errorf("got id %s, attributes %v", *letter.MessageId, letter.Attributes)
		}
		_, err = client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("nowhere")})
		if _, typed := errors.AsType[*types.QueueDoesNotExist](err); !typed {
			t.Errorf("got %v, want QueueDoesNotExist", err)
		}
	})
}

func receive(t *testing.T, client *sqs.Client, url *string, wait int32) *types.Message {
	t.Helper()
	out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: url, WaitTimeSeconds: wait, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Messages) == 0 {
		return nil
	}
	return &out.Messages[0]
}
