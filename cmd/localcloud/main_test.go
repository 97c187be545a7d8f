package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/googleapis/gax-go/v2"
)

func seedFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seed.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs the program until the test ends and returns what it exported.
func start(t *testing.T, args ...string) (environment map[string]string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		code <- run(ctx, args, writer, &stderr)
		writer.Close()
	}()
	environment = map[string]string{}
	lines := bufio.NewScanner(reader)
	for lines.Scan() && lines.Text() != "ready" {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		environment[name] = value
	}
	if lines.Text() != "ready" {
		cancel()
		t.Fatalf("ended with %d before it was ready: %s", <-code, stderr.String())
	}
	return environment, func() int {
		cancel()
		return <-code
	}
}

func TestServesASeededCloudUntilToldToStop(t *testing.T) {
	environment, stop := start(t, "--aws", "127.0.0.1:0", "--pubsub", "", "--seed", seedFile(t, `
queues:
  - name: orders
    visibility_timeout: 45s
    redrive: {to: orders-dlq, max_receive_count: 3}
  - {name: orders-dlq}
  - {name: events.fifo, fifo: true, content_based_deduplication: true}
tables:
  - {name: ledger, partition_key: pk, sort_key: "sk:N", ttl: expires_at, indexes: [{name: work, partition_key: work_pk}]}
`))
	if environment["AWS_REGION"] != "us-east-1" || environment["AWS_DEFAULT_REGION"] != "us-east-1" || environment["AWS_ACCESS_KEY_ID"] == "" || environment["AWS_SECRET_ACCESS_KEY"] == "" {
		t.Errorf("got environment %v", environment)
	}
	client := sqs.New(sqs.Options{
		Region: environment["AWS_REGION"], BaseEndpoint: aws.String(environment["AWS_ENDPOINT_URL"]), RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: environment["AWS_ACCESS_KEY_ID"], SecretAccessKey: environment["AWS_SECRET_ACCESS_KEY"]}, nil
		}),
	})
	url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("orders")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(*url.QueueUrl, environment["AWS_ENDPOINT_URL"]+"/") {
		t.Errorf("got queue URL %s, want one under %s", *url.QueueUrl, environment["AWS_ENDPOINT_URL"])
	}
	got, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url.QueueUrl, AttributeNames: []types.QueueAttributeName{"All"}})
	if err != nil || got.Attributes["VisibilityTimeout"] != "45" || !strings.Contains(got.Attributes["RedrivePolicy"], "orders-dlq") {
		t.Errorf("got %v, %v", got, err)
	}
	// A waiting receive must not hold up the end.
	answered := make(chan error, 1)
	go func() {
		_, err := client.ReceiveMessage(context.WithoutCancel(t.Context()), &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, WaitTimeSeconds: 20})
		answered <- err
	}()
	began := time.Now()
	if code := stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if err := <-answered; err != nil {
		t.Logf("the waiting receive ended with %v", err) // or with nothing; both are an end
	}
	if spent := time.Since(began); spent > 5*time.Second {
		t.Errorf("stopping took %v", spent)
	}
	if _, err := http.Get(environment["AWS_ENDPOINT_URL"]); err == nil { //nolint:bodyclose // there is none
		t.Error("it still answers")
	}
}

func TestServesPubSubBesideAWS(t *testing.T) {
	environment, stop := start(t, "--aws", "127.0.0.1:0", "--pubsub", "127.0.0.1:0", "--seed", seedFile(t, `
topics: [invoices, invoices-dead]
subscriptions:
  - name: invoices
    topic: invoices
    ack_deadline: 20s
    retention: 24h
    retain_acked: true
    ordering: true
    exactly_once: true
    never_expires: true
    filter: attributes:kind
    retry: {minimum_backoff: 5s, maximum_backoff: 1m}
    dead_letter: {topic: invoices-dead, max_attempts: 6}
  - {name: invoices-dead, topic: invoices-dead}
`))
	// As any client finds it, in any language.
	t.Setenv("PUBSUB_EMULATOR_HOST", environment["PUBSUB_EMULATOR_HOST"])
	project := environment["PUBSUB_PROJECT_ID"]
	if project == "" || project != environment["GOOGLE_CLOUD_PROJECT"] {
		t.Errorf("got environment %v", environment)
	}
	client, err := pubsub.NewClient(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	name := "projects/" + project + "/subscriptions/invoices"
	got, err := client.SubscriptionAdminClient.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: name})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetAckDeadlineSeconds() != 20 || got.GetMessageRetentionDuration().AsDuration() != 24*time.Hour || !got.GetRetainAckedMessages() ||
		!got.GetEnableMessageOrdering() || !got.GetEnableExactlyOnceDelivery() || got.GetExpirationPolicy().GetTtl() != nil ||
		got.GetFilter() != "attributes:kind" || got.GetRetryPolicy().GetMaximumBackoff().AsDuration() != time.Minute ||
		got.GetDeadLetterPolicy().GetMaxDeliveryAttempts() != 6 {
		t.Errorf("got %v", got)
	}
	publisher := client.Publisher("invoices")
	_, err = publisher.Publish(t.Context(), &pubsub.Message{Data: []byte("hello"), Attributes: map[string]string{"kind": "x"}}).Get(t.Context())
	publisher.Stop()
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.SubscriptionAdminClient.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: name, MaxMessages: 1})
	if err != nil || len(pulled.GetReceivedMessages()) != 1 {
		t.Errorf("got %v, %v", pulled, err)
	}
	// The control interface speaks of both.
	response, err := http.Get(environment["AWS_ENDPOINT_URL"] + "/_local/counters")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), `"Publish":1`) {
		t.Errorf("got counters %s, %v", body, err)
	}
	// A waiting pull must not hold up the end.
	answered := make(chan error, 1)
	go func() {
		_, err := client.SubscriptionAdminClient.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: name, MaxMessages: 1}, gax.WithRetry(nil))
		answered <- err
	}()
	began := time.Now()
	if code := stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if err := <-answered; err == nil {
		t.Error("the pull has an answer")
	}
	if spent := time.Since(began); spent > 5*time.Second {
		t.Errorf("stopping took %v", spent)
	}
}

func TestRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, row := range []struct {
		name, want string
		args       []string
		code       int
	}{
		{"an unknown flag", "kafka", []string{"--kafka", "127.0.0.1:0"}, 2},
		{"a stray argument", `"serve"`, []string{"serve"}, 2},
		{"a missing seed", "open the seed", []string{"--seed", "no such file"}, 2},
		{"an unusable address", "listen", []string{"--aws", "127.0.0.1:port"}, 1},
		{"an unusable address for Pub/Sub", "listen for Pub/Sub", []string{"--aws", "127.0.0.1:0", "--pubsub", "127.0.0.1:port"}, 1},
		{"an unknown key", "line 2: colour: unknown key in a queue", []string{"--seed", seedFile(t, "queues:\n  - {name: q, colour: red}")}, 2},
		{"an unknown section", "line 1: buckets: unknown key in the seed", []string{"--seed", seedFile(t, "buckets: []")}, 2},
		{"a refused topic", "line 1: topic a: Invalid resource name", []string{"--seed", seedFile(t, "topics: [a]")}, 2},
		{"a topic that is no name", "line 1: topics[0]: want the name of a topic", []string{"--seed", seedFile(t, "topics: [{name: abc}]")}, 2},
		{"a subscription of no topic", "line 1: subscription projects/dlqbridge-local/subscriptions/abc: Resource not found", []string{"--seed", seedFile(t, "subscriptions: [{name: abc, topic: abc}]")}, 2},
		{"too few attempts", "max_delivery_attempts", []string{"--seed", seedFile(t, "topics: [abc]\nsubscriptions: [{name: abc, topic: abc, dead_letter: {topic: abc, max_attempts: 3}}]")}, 2},
		{"an unknown key of a subscription", "colour: unknown key in a subscription", []string{"--seed", seedFile(t, "subscriptions: [{name: abc, colour: red}]")}, 2},
		{"a bad number", `line 4: max_receive_count: "many" is not a whole number`, []string{"--seed", seedFile(t, "queues:\n  - name: q\n    redrive:\n      max_receive_count: many")}, 2},
		{"a nameless queue", "line 2: queues[0]: a queue needs a name", []string{"--seed", seedFile(t, "queues:\n  - {fifo: true}")}, 2},
		{"a refused value", "line 2: queue q: com.amazonaws.sqs#InvalidAttributeValue", []string{"--seed", seedFile(t, "queues:\n  - {name: q, visibility_timeout: 13h}")}, 2},
		{"a missing dead-letter queue", "line 2: queue q: redrive: ", []string{"--seed", seedFile(t, "queues:\n  - {name: q, redrive: {to: nowhere}}")}, 2},
		{"no YAML", "read the seed", []string{"--seed", seedFile(t, "queues: [")}, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), row.args, &stdout, &stderr)
			if code != row.code || !strings.Contains(stderr.String(), row.want) {
				t.Errorf("got %d %s, want %d with %q", code, stderr.String(), row.code, row.want)
			}
		})
	}
}

func TestHelpTeaches(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	for _, want := range []string{"--aws", "--pubsub", "--seed", "queues:", "topics:", "/_local/faults", "ready"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}
