package main_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/googleapis/gax-go/v2"

	"github.com/dlqbridge/dlqbridge/localstack"
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

// The same over Google's own emulator, which forwards a dead letter only when
// its source is asked again and may answer with nothing although there is
// something; records are on the local cloud.
func TestStoryOnTheOfficialPubSubEmulator(t *testing.T) {
	if testing.Short() {
		t.Skip("starts another program")
	}
	address := check.StartPubSubEmulator(t)
	w := newWorld(t, `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - name: invoices
    pubsub: {project: `+localstack.Project+`, dead_letter_subscription: invoices-dead, source_topic: invoices}
    effects: none
`)
	w.env = append(w.env, "PUBSUB_EMULATOR_HOST="+address)
	g := connectGoogle(t, check.PubSubEmulatorOptions(address)...)
	const n = 42
	// With ordering on, the emulator fails where it would forward.
	g.consumer("invoices", unordered)
	var messages []*pubsubpb.PubsubMessage
	for i := range n {
		messages = append(messages, failed(i))
	}
	want := g.publish("invoices", messages...)
	w.run(0, "tables", "create")
	for left := 5 * n; left > 0; {
		got := g.waitFor("invoices", time.Minute)
		left -= len(got)
		g.settle("invoices", got, 0)
	}
	for range 3 {
		if got := g.pull("invoices"); len(got) > 0 {
			t.Fatalf("%d messages came a sixth time", len(got))
		}
	}
	if counts := runJSON[intakeResult](w, 0, "intake", "--until-empty"); counts.Letters != n || counts.Records != n || counts.Unstored != 0 {
		t.Fatalf("intake: %+v", counts)
	}
	result := runJSON[redriveResult](w, 0, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "the outage is over", "--rate", "200/s")
	if result.Sent != n || len(result.Excluded) != 0 {
		t.Fatalf("redrive: %+v", result)
	}
	got := map[string]int{}
	for left := n; left > 0; {
		received := g.waitFor("invoices", time.Minute)
		if len(received) == 0 {
			t.Fatalf("%d messages did not come home", left)
		}
		left -= len(received)
		for _, r := range received {
			got[sumWithoutMarks(r.GetMessage())]++
		}
		g.settle("invoices", received, -1)
	}
	diffSums(t, "invoices", got, want)
}

// waitFor waits for messages of a subscription.
func (g *google) waitFor(subscription string, patience time.Duration) []*pubsubpb.ReceivedMessage {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	out, err := g.subscriptions.Pull(ctx, &pubsubpb.PullRequest{Subscription: subscriptionName(subscription), MaxMessages: 100}, gax.WithRetry(nil))
	if err != nil && ctx.Err() == nil {
		g.t.Fatal(err)
	}
	return out.GetReceivedMessages()
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
