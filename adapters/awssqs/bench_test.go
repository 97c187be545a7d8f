package awssqs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// bench is a cloud of its own for one test. Nothing in it waits in real time:
// the adapter's waits are noted, and the clock is the cloud's.
type bench struct {
	*localstack.Cloud

	client *sqs.Client
	mu     sync.Mutex
	waits  []time.Duration
}

func newBench(t *testing.T) *bench {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	return &bench{Cloud: cloud, client: sqs.NewFromConfig(cloud.AWSConfig())}
}

func (b *bench) options(queue string) awssqs.Options {
	return awssqs.Options{
		Client: b.client,
		Queue:  queue,
		Now:    b.Clock().Now,
		Retry: retry.Policy{
			Random: func() float64 { return 1 },
			Wait: func(ctx context.Context, d time.Duration) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.waits = append(b.waits, d)
				return ctx.Err()
			},
		},
	}
}

// queue makes a queue and returns its ARN. Settings are pairs.
func (b *bench) queue(t *testing.T, name string, settings ...string) string {
	t.Helper()
	in := &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{}}
	for pair := range slices.Chunk(settings, 2) {
		in.Attributes[pair[0]] = pair[1]
	}
	if _, err := b.client.CreateQueue(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return "arn:aws:sqs:" + localstack.Region + ":" + localstack.Account + ":" + name
}

// source makes a queue whose messages go to the dead-letter queue when they
// are received a second time.
func (b *bench) source(t *testing.T, name, deadLetters string, settings ...string) string {
	t.Helper()
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":1}`, deadLetters)
	return b.queue(t, name, append([]string{"RedrivePolicy", policy, "VisibilityTimeout", "0"}, settings...)...)
}

func url(arn string) string {
	name := arn[len("arn:aws:sqs:"+localstack.Region+":"+localstack.Account+":"):]
	return "http://localcloud/" + localstack.Account + "/" + name
}

func (b *bench) send(t *testing.T, arn string, in *sqs.SendMessageInput) string {
	t.Helper()
	in.QueueUrl = aws.String(url(arn))
	out, err := b.client.SendMessage(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return *out.MessageId
}

// die lets everything in the source go to its dead-letter queue.
func (b *bench) die(t *testing.T, source string) {
	t.Helper()
	for n := 1; n > 0; {
		out, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(url(source)), MaxNumberOfMessages: 10})
		if err != nil {
			t.Fatal(err)
		}
		n = len(out.Messages)
	}
}

func (b *bench) open(t *testing.T, queue string) *awssqs.DeadLetters {
	t.Helper()
	d, err := awssqs.Open(t.Context(), b.options(queue))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (b *bench) destination(t *testing.T, queue string) *awssqs.Destination {
	t.Helper()
	d, err := awssqs.OpenDestination(t.Context(), b.options(queue))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// receive takes exactly n letters.
func receive(t *testing.T, d *awssqs.DeadLetters, n int) []dlqbridge.Letter {
	t.Helper()
	var all []dlqbridge.Letter
	for len(all) < n {
		letters, err := d.Receive(t.Context(), 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(letters) == 0 {
			t.Fatalf("received %d letters, want %d", len(all), n)
		}
		all = append(all, letters...)
	}
	if len(all) != n {
		t.Fatalf("received %d letters, want %d", len(all), n)
	}
	return all
}

func (b *bench) fault(t *testing.T, f localstack.Fault) {
	t.Helper()
	f.Service = "sqs"
	if _, err := b.AddFault(f); err != nil {
		t.Fatal(err)
	}
}

// total is how many messages a queue holds.
func (b *bench) total(t *testing.T, arn string) int64 {
	t.Helper()
	depth, err := b.open(t, arn).Depth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return depth.Total()
}

// requests are the recorded bodies of one operation.
func (b *bench) requests(t *testing.T, operation string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, r := range b.Requests("sqs", 0) {
		if r.Operation != operation {
			continue
		}
		var body map[string]any
		if err := json.Unmarshal(r.Request, &body); err != nil {
			t.Fatal(err)
		}
		out = append(out, body)
	}
	return out
}

// entries are the recorded entries of each request of a batch operation.
func (b *bench) entries(t *testing.T, operation string) [][]map[string]any {
	t.Helper()
	var out [][]map[string]any
	for _, r := range b.requests(t, operation) {
		var entries []map[string]any
		for _, e := range r["Entries"].([]any) {
			entries = append(entries, e.(map[string]any))
		}
		out = append(out, entries)
	}
	return out
}

// contents are the bodies in a queue, in no order, without taking them away.
func (b *bench) contents(t *testing.T, arn string) []types.Message {
	t.Helper()
	var all []types.Message
	for {
		out, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: aws.String(url(arn)), MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}, VisibilityTimeout: 600,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return all
		}
		all = append(all, out.Messages...)
	}
}

func bodies(messages []types.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, *m.Body)
	}
	slices.Sort(out)
	return out
}

func outgoing(bodies ...string) []dlqbridge.Outgoing {
	var out []dlqbridge.Outgoing
	for _, body := range bodies {
		out = append(out, dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: []byte(body)}})
	}
	return out
}

// numbered makes n texts: "m0", "m1" and so on.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("m%d", i)
	}
	return out
}

func wantErrors(t *testing.T, got []error, want map[int]error) {
	t.Helper()
	for i, err := range got {
		if !errors.Is(err, want[i]) || (err == nil) != (want[i] == nil) {
			t.Errorf("position %d: got %v, want %v", i, err, want[i])
		}
	}
	for _, i := range slices.Sorted(maps.Keys(want)) {
		if i >= len(got) {
			t.Errorf("no answer for position %d", i)
		}
	}
}

func errorsOf(results []dlqbridge.SendResult) []error {
	out := make([]error, len(results))
	for i, r := range results {
		out[i] = r.Err
	}
	return out
}
