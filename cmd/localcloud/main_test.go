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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
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
	environment, stop := start(t, "--aws", "127.0.0.1:0", "--seed", seedFile(t, `
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

func TestRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, row := range []struct {
		name, want string
		args       []string
		code       int
	}{
		{"an unknown flag", "pubsub", []string{"--pubsub", "127.0.0.1:0"}, 2},
		{"a stray argument", `"serve"`, []string{"serve"}, 2},
		{"a missing seed", "open the seed", []string{"--seed", "no such file"}, 2},
		{"an unusable address", "listen", []string{"--aws", "127.0.0.1:port"}, 1},
		{"an unknown key", "line 2: colour: unknown key in a queue", []string{"--seed", seedFile(t, "queues:\n  - {name: q, colour: red}")}, 2},
		{"an unknown section", "line 1: buckets: unknown key in the seed", []string{"--seed", seedFile(t, "buckets: []")}, 2},
		{"topics", "line 1: topics: the local cloud does not serve Pub/Sub yet", []string{"--seed", seedFile(t, "topics: [a]")}, 2},
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
	for _, want := range []string{"--aws", "--seed", "queues:", "/_local/faults", "ready"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}
