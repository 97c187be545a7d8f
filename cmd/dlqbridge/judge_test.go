package main_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge/localstack/check"
)

// The everyday story against somebody else's cloud, as a second opinion: moto is
// laxer than the services, but its author is not ours.
func TestStoryOnAnotherCloud(t *testing.T) {
	w := motoWorld(t, `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, effects: none}
`)
	const n = 42
	// moto's account is another one than the local cloud's, so the policy is made
	// from what it answers.
	dead, err := w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders-dlq")})
	if err != nil {
		t.Fatal(err)
	}
	arn, err := w.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: dead.QueueUrl, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders"), Attributes: map[string]string{
		"RedrivePolicy":     `{"deadLetterTargetArn":"` + arn.Attributes["QueueArn"] + `","maxReceiveCount":"1"}`,
		"VisibilityTimeout": "0", // whoever receives gives back at once
	}}); err != nil {
		t.Fatal(err)
	}
	// Without the kind that has a trace header, which moto loses in a batch.
	want := map[string]int{}
	for i := 7; i < 7+8*n/7; i += 8 {
		maps.Copy(want, w.send("orders", i, 7, false))
	}
	for tries := 0; w.visible("orders-dlq") < n; tries++ {
		if _, err := w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: w.url("orders"), MaxNumberOfMessages: 10}); err != nil {
			t.Fatal(err)
		}
		if tries > 20*n {
			t.Fatal("the messages do not die")
		}
	}
	w.run(0, "tables", "create")
	if counts := runJSON[intakeCounts](w, 0, "intake", "--until-empty"); counts.Letters != n || counts.Records != n {
		t.Fatalf("intake: %+v", counts)
	}
	result := runJSON[redriveResult](w, 0, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "the outage is over", "--rate", "200/s")
	if result.Sent != n || len(result.Excluded) != 0 {
		t.Fatalf("redrive: %+v", result)
	}
	got, _ := w.drain("orders")
	diffSums(t, "orders", got, want)
}

// visible counts the messages that a receiver could get.
func (w *world) visible(queue string) int {
	w.t.Helper()
	out, err := w.sqs.GetQueueAttributes(w.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: w.url(queue), AttributeNames: []types.QueueAttributeName{"ApproximateNumberOfMessages"}})
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, digit := range out.Attributes["ApproximateNumberOfMessages"] {
		n = 10*n + int(digit-'0')
	}
	return n
}

// motoWorld is newWorld over a moto server of its own.
func motoWorld(t *testing.T, config string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts another program")
	}
	address := check.StartMoto(t)
	w := &world{t: t, binary: buildBinary(t), dir: t.TempDir(), sqs: sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &address, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})}
	w.env = append(os.Environ(), "AWS_ENDPOINT_URL="+address, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local",
		"AWS_SECRET_ACCESS_KEY=local", "AWS_EC2_METADATA_DISABLED=true", "DLQBRIDGE_CONFIG="+filepath.Join(w.dir, "dlqbridge.yaml"))
	if err := os.WriteFile(filepath.Join(w.dir, "dlqbridge.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}
