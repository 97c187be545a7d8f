package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// SQS runs the check list for queues on an endpoint, a sub-test per row.
func SQS(t *testing.T, h Harness) {
	rows := []map[string]func(*queueBench, *testing.T){
		sqsQueueRows, sqsMessageRows, sqsReceiveRows, sqsBatchRows, sqsDeadLetterRows, sqsFifoRows, sqsLimitRows, sqsMoveRows,
	}
	for _, group := range rows {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			h.row(t, name, func(t *testing.T) {
				h.around(t, func(t *testing.T, h Harness) {
					group[name](&queueBench{Harness: h, client: sqs.NewFromConfig(h.Config)}, t)
				})
			})
		}
	}
}

// queueBench is an endpoint and a client for it.
type queueBench struct {
	Harness
	client *sqs.Client
}

// madeNames makes queue names differ within a process; the start time makes
// them differ from those of an earlier run on the same endpoint.
var (
	madeNames atomic.Int64
	started   = strconv.FormatInt(time.Now().UnixNano(), 36)
)

func (b *queueBench) name(suffix string) string {
	return fmt.Sprintf("check-%s-%d%s", started, madeNames.Add(1), suffix)
}

// queue makes a standard queue, or with FifoQueue among the attributes a FIFO
// queue, and returns its URL. Attributes come as name, value, name, value.
func (b *queueBench) queue(t *testing.T, attributes ...string) string {
	t.Helper()
	set := settingsOf(attributes)
	suffix := ""
	if set["FifoQueue"] == "true" {
		suffix = ".fifo"
	}
	out, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(b.name(suffix)), Attributes: set})
	if err != nil {
		t.Fatalf("create a queue with %v: %v", set, err)
	}
	return *out.QueueUrl
}

func settingsOf(list []string) map[string]string {
	set := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		set[list[i]] = list[i+1]
	}
	return set
}

func (b *queueBench) attributes(t *testing.T, url string) map[string]string {
	t.Helper()
	out, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"All"}})
	if err != nil {
		t.Fatalf("get the attributes: %v", err)
	}
	return out.Attributes
}

func (b *queueBench) set(t *testing.T, url string, attributes ...string) {
	t.Helper()
	_, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: settingsOf(attributes)})
	if err != nil {
		t.Fatalf("set %v: %v", attributes, err)
	}
}

// deadLettered makes a queue whose messages go to another after most receives.
func (b *queueBench) deadLettered(t *testing.T, most int, attributes ...string) (source, dead string) {
	t.Helper()
	kind := []string{}
	if settingsOf(attributes)["FifoQueue"] == "true" {
		kind = []string{"FifoQueue", "true"}
	}
	dead = b.queue(t, kind...)
	source = b.queue(t, append(attributes, "RedrivePolicy", redrive(b.attributes(t, dead)["QueueArn"], most))...)
	return source, dead
}

func redrive(arn string, most int) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, arn, most)
}

// depths are the three counters: visible, in flight, delayed.
func (b *queueBench) depths(t *testing.T, url string) [3]string {
	t.Helper()
	all := b.attributes(t, url)
	return [3]string{all["ApproximateNumberOfMessages"], all["ApproximateNumberOfMessagesNotVisible"], all["ApproximateNumberOfMessagesDelayed"]}
}

func (b *queueBench) wantDepths(t *testing.T, url string, visible, inFlight, delayed int) {
	t.Helper()
	want := [3]string{strconv.Itoa(visible), strconv.Itoa(inFlight), strconv.Itoa(delayed)}
	if got := b.depths(t, url); got != want {
		t.Errorf("got visible, in flight, delayed %v, want %v", got, want)
	}
}

func (b *queueBench) send(t *testing.T, url, body string) string {
	t.Helper()
	return *b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}).MessageId
}

// sendTo sends to a group of a FIFO queue.
func (b *queueBench) sendTo(t *testing.T, url, group, body string) string {
	t.Helper()
	return *b.sendInput(t, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: aws.String(b.name("")),
	}).MessageId
}

func (b *queueBench) sendInput(t *testing.T, in *sqs.SendMessageInput) *sqs.SendMessageOutput {
	t.Helper()
	out, err := b.client.SendMessage(t.Context(), in)
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	return out
}

// refusesToSend checks that a message is refused with one of the codes.
func (b *queueBench) refusesToSend(t *testing.T, in *sqs.SendMessageInput, codes ...string) {
	t.Helper()
	_, err := b.client.SendMessage(t.Context(), in)
	wantRefusal(t, err, codes...)
}

func receiveInput(url string) *sqs.ReceiveMessageInput {
	return &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	}
}

// receive takes up to ten messages with all they have.
func (b *queueBench) receive(t *testing.T, url string) []types.Message {
	t.Helper()
	return b.receiveWith(t, receiveInput(url))
}

func (b *queueBench) receiveWith(t *testing.T, in *sqs.ReceiveMessageInput) []types.Message {
	t.Helper()
	out, err := b.client.ReceiveMessage(t.Context(), in)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return out.Messages
}

func (b *queueBench) receiveOne(t *testing.T, url string) types.Message {
	t.Helper()
	got := b.receive(t, url)
	if len(got) != 1 {
		t.Fatalf("got %d messages, want 1", len(got))
	}
	return got[0]
}

func (b *queueBench) wantNothing(t *testing.T, url string) {
	t.Helper()
	if got := b.receive(t, url); len(got) != 0 {
		t.Errorf("got %v, want nothing", bodiesOf(got))
	}
}

func (b *queueBench) wantBodies(t *testing.T, url string, want ...string) []types.Message {
	t.Helper()
	got := b.receive(t, url)
	if !slices.Equal(bodiesOf(got), want) {
		t.Fatalf("got bodies %v, want %v", bodiesOf(got), want)
	}
	return got
}

func (b *queueBench) delete(t *testing.T, url string, messages ...types.Message) {
	t.Helper()
	for _, m := range messages {
		if _, err := b.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
}

func (b *queueBench) hide(t *testing.T, url string, m types.Message, seconds int32) error {
	t.Helper()
	_, err := b.client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
	})
	return err
}

// release makes received messages visible again at once.
func (b *queueBench) release(t *testing.T, url string, messages ...types.Message) {
	t.Helper()
	for _, m := range messages {
		if err := b.hide(t, url, m, 0); err != nil {
			t.Fatalf("make visible: %v", err)
		}
	}
}

// poll receives with a long wait in the background; where the harness can
// tell, it has begun to wait when poll returns.
func (b *queueBench) poll(ctx context.Context, url string, wait int32) <-chan pollAnswer {
	answer := make(chan pollAnswer, 1)
	in := receiveInput(url)
	in.WaitTimeSeconds = wait
	go func() {
		out, err := b.client.ReceiveMessage(ctx, in)
		if err != nil {
			answer <- pollAnswer{nil, err}
			return
		}
		answer <- pollAnswer{out.Messages, nil}
	}()
	if b.Settle != nil {
		b.Settle()
	}
	return answer
}

type pollAnswer struct {
	messages []types.Message
	err      error
}

func bodiesOf(messages []types.Message) []string {
	got := []string{}
	for _, m := range messages {
		got = append(got, aws.ToString(m.Body))
	}
	return got
}

func systemOf(m types.Message, name types.MessageSystemAttributeName) string {
	return m.Attributes[string(name)]
}

// Codes as SDKs report them: SQS has an older and a newer spelling of many.
const (
	invalidParameter = "InvalidParameterValue"
	missingParameter = "MissingParameter"
	queryPrefix      = "AWS.SimpleQueueService."
)

func refusalOf(err error) string {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return ""
	}
	code := strings.TrimPrefix(api.ErrorCode(), queryPrefix)
	return strings.TrimSuffix(code, "Exception")
}

func wantRefusal(t *testing.T, err error, codes ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("was accepted, want one of %v", codes)
	} else if !slices.Contains(codes, refusalOf(err)) {
		t.Errorf("got code %q (%v), want one of %v", refusalOf(err), err, codes)
	}
}

// wantType checks that the SDK gives the service's typed error.
func wantType[T error](t *testing.T, err error) {
	t.Helper()
	if _, typed := errors.AsType[T](err); !typed {
		t.Errorf("got %v (%T), want a %T", err, err, *new(T))
	}
}
