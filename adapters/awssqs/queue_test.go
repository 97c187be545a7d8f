package awssqs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func TestAQueueIsFoundByNameURLAndARN(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "dead")
	for _, queue := range []string{"dead", arn, url(arn)} {
		if got := b.open(t, queue).Place(); got != arn {
			t.Errorf("%s: place %s, want %s", queue, got, arn)
		}
	}
	asked := b.requests(t, "GetQueueUrl")
	if len(asked) != 2 || asked[0]["QueueOwnerAWSAccountId"] != nil || asked[1]["QueueOwnerAWSAccountId"] != localstack.Account {
		t.Errorf("asked for addresses %v: an ARN names its owner, an address is not asked for", asked)
	}
}

func TestAQueueThatCannotBeFound(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "dead")
	for queue, want := range map[string]error{
		"other":                                  dlqbridge.ErrNotFound,
		strings.Replace(arn, "dead", "other", 1): dlqbridge.ErrNotFound,
		url(arn) + "2":                           dlqbridge.ErrNotFound,
		strings.Replace(arn, localstack.Account, "111122223333", 1): dlqbridge.ErrNotFound,
		"arn:aws:sns:eu-west-1:1:dead":                              dlqbridge.ErrInvalid,
		"arn:aws:sqs":                                               dlqbridge.ErrInvalid,
		// The client's region has a queue of that name, which is not this one.
		strings.Replace(arn, localstack.Region, "mars-north-1", 1): dlqbridge.ErrInvalid,
		"": dlqbridge.ErrInvalid,
	} {
		_, err := awssqs.Open(t.Context(), b.options(queue))
		if !errors.Is(err, want) || !strings.Contains(err.Error(), queue) {
			t.Errorf("open %q: %v, want %v", queue, err, want)
		}
	}
	o := b.options("dead")
	o.Client = nil
	if _, err := awssqs.OpenDestination(t.Context(), o); !errors.Is(err, dlqbridge.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
}

// liar answers attributes of its own making.
type liar struct {
	*sqs.Client
	attributes map[string]string
}

func (l liar) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return &sqs.GetQueueAttributesOutput{Attributes: l.attributes}, nil
}

// What kind a queue is, its attributes say, not the end of its name.
func TestKindComesFromTheAttributes(t *testing.T) {
	b := newBench(t)
	for name, fifo := range map[string]string{"plain": "true", "named.fifo": ""} {
		o := b.options("http://localcloud/1/" + name)
		o.Client = liar{b.client, map[string]string{"QueueArn": "arn:aws:sqs:r:1:" + name, "FifoQueue": fifo}}
		facts, err := must(t)(awssqs.OpenDestination(t.Context(), o)).Facts(t.Context())
		if err != nil || facts.FIFO != (fifo == "true") || facts.MaxBytes != awssqs.MaxMessageBytes {
			t.Errorf("%s: facts %+v, error %v", name, facts, err)
		}
	}
}

// The service gives maxReceiveCount as it was set: number or text.
func TestFactsReadARedrivePolicyInBothForms(t *testing.T) {
	b := newBench(t)
	for text, want := range map[string]int{
		`{"deadLetterTargetArn":"arn:d","maxReceiveCount":5}`:   5,
		`{"deadLetterTargetArn":"arn:d","maxReceiveCount":"5"}`: 5,
		`{"deadLetterTargetArn":"arn:d"}`:                       0,
	} {
		o := b.options("http://localcloud/1/q")
		o.Client = liar{b.client, map[string]string{"QueueArn": "arn:q", "RedrivePolicy": text}}
		facts, err := must(t)(awssqs.OpenDestination(t.Context(), o)).Facts(t.Context())
		if err != nil || facts.MaxReceives != want || facts.DeadLetterPlace != "arn:d" {
			t.Errorf("%s: facts %+v, error %v", text, facts, err)
		}
	}
}

// C74: what a warning needs about a dead-letter queue that keeps messages no
// longer than its sources.
func TestC74InspectTellsBothRetentions(t *testing.T) {
	b := newBench(t)
	dead := b.queue(t, "dead", "MessageRetentionPeriod", "345600", "VisibilityTimeout", "60",
		"RedriveAllowPolicy", `{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:`+localstack.Region+":"+localstack.Account+`:jobs"]}`)
	jobs := b.source(t, "jobs", dead, "MessageRetentionPeriod", "604800", "DelaySeconds", "5", "MaximumMessageSize", "2048")
	b.send(t, dead, &sqs.SendMessageInput{MessageBody: aws.String("x")})

	got, err := awssqs.Inspect(t.Context(), b.options(dead))
	if err != nil {
		t.Fatal(err)
	}
	want := awssqs.QueueFacts{
		URL: url(dead), ARN: dead, Retention: 4 * 24 * time.Hour, Visibility: time.Minute, MaxBytes: awssqs.MaxMessageBytes,
		AllowPermission: "byQueue", AllowedSources: []string{jobs}, SourceURLs: []string{url(jobs)},
		Depth: dlqbridge.Depth{Visible: 1, InFlightLimit: awssqs.MaxInFlight},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead-letter queue (-want +got):\n%s", diff)
	}
	source, err := awssqs.Inspect(t.Context(), b.options(got.SourceURLs[0]))
	if err != nil {
		t.Fatal(err)
	}
	want = awssqs.QueueFacts{
		URL: url(jobs), ARN: jobs, Retention: 7 * 24 * time.Hour, Delay: 5 * time.Second, MaxBytes: 2048,
		DeadLetterPlace: dead, MaxReceives: 1, Depth: dlqbridge.Depth{InFlightLimit: awssqs.MaxInFlight},
	}
	source.SourceURLs = nil
	if diff := cmp.Diff(want, source); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
}

func TestInspectGoesOnWithoutTheRightToListSources(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "dead.fifo", "FifoQueue", "true", "ContentBasedDeduplication", "true")
	b.fault(t, localstack.Fault{Operation: "ListDeadLetterSourceQueues", Do: localstack.DoError, Code: "AccessDenied", Status: 403})
	got, err := awssqs.Inspect(t.Context(), b.options(arn))
	if err != nil || !errors.Is(got.SourcesErr, dlqbridge.ErrDenied) || !got.FIFO || !got.ContentDedup {
		t.Errorf("facts %+v, error %v", got, err)
	}
}

// paged answers the sources of a queue one page at a time.
type paged struct{ *sqs.Client }

func (p paged) ListDeadLetterSourceQueues(ctx context.Context, in *sqs.ListDeadLetterSourceQueuesInput, o ...func(*sqs.Options)) (*sqs.ListDeadLetterSourceQueuesOutput, error) {
	one := *in
	one.MaxResults = aws.Int32(1)
	return p.Client.ListDeadLetterSourceQueues(ctx, &one, o...)
}

func TestInspectReadsAllPagesOfSources(t *testing.T) {
	b := newBench(t)
	dead := b.queue(t, "dead")
	var want []string
	for _, name := range []string{"a", "b", "c"} {
		want = append(want, url(b.source(t, name, dead)))
	}
	o := b.options(dead)
	o.Client = paged{b.client}
	got, err := awssqs.Inspect(t.Context(), o)
	if diff := cmp.Diff(want, got.SourceURLs); err != nil || diff != "" {
		t.Errorf("error %v, sources (-want +got):\n%s", err, diff)
	}
}
