package awssqs_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/adaptertest"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func TestConformance(t *testing.T) {
	adaptertest.DeadLetters(t, harness)
	adaptertest.Destination(t, harness)
}

func BenchmarkConformance(b *testing.B) { adaptertest.Benchmark(b, harness) }

var harness = adaptertest.Harness{
	New:        newProvider,
	Visibility: 30 * time.Second,
	Differences: adaptertest.Differences{
		TextOnly:     "SQS takes #x9, #xA, #xD and #x20 upwards in UTF-8 only (page SendMessage)",
		NoEmptyBody:  "SQS takes no empty body",
		NoEmptyValue: "SQS takes no empty value",
	},
}

// provider is a cloud with a dead-letter queue, the source whose messages die
// into it, and a destination.
type provider struct {
	cloud  *localstack.Cloud
	client *sqs.Client
}

func newProvider(t testing.TB, ordered bool) *adaptertest.Setup {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	p := provider{cloud, sqs.NewFromConfig(cloud.AWSConfig())}
	dead := p.queue(t, "dead", nil)
	source := p.queue(t, "source", map[string]string{
		"VisibilityTimeout": "0",
		"RedrivePolicy":     `{"deadLetterTargetArn":"arn:aws:sqs:` + localstack.Region + ":" + localstack.Account + `:dead","maxReceiveCount":1}`,
	})
	// Less than SQS's own limit, so that the queue's is what counts.
	jobs, settings := "jobs", map[string]string{"MaximumMessageSize": "262144"}
	if ordered {
		jobs, settings["FifoQueue"] = "jobs.fifo", "true"
	}
	work := p.queue(t, jobs, settings)
	letters, err := awssqs.Open(t.Context(), p.options(dead))
	if err != nil {
		t.Fatal(err)
	}
	destination, err := awssqs.OpenDestination(t.Context(), p.options(work))
	if err != nil {
		t.Fatal(err)
	}
	return &adaptertest.Setup{
		DeadLetters: letters,
		Destination: destination,
		Put:         func(t testing.TB, messages ...dlqbridge.Outgoing) { t.Helper(); p.put(t, source, messages) },
		Arrived:     func(t testing.TB) []dlqbridge.Outgoing { t.Helper(); return p.arrived(t, work) },
		MissingPlace: func(ctx context.Context) error {
			_, err := awssqs.Open(ctx, p.options("nowhere"))
			return err
		},
		MissingDestination: func(ctx context.Context) error {
			_, err := awssqs.OpenDestination(ctx, p.options("nowhere"))
			return err
		},
		Break: p.fault,
		Requests: func(_ testing.TB, c adaptertest.Call) int {
			return int(cloud.Counters().Calls["sqs"][operations[c]])
		},
	}
}

func (p provider) options(queue string) awssqs.Options {
	return awssqs.Options{Client: p.client, Queue: queue, Now: p.cloud.Clock().Now}
}

func (p provider) queue(t testing.TB, name string, settings map[string]string) string {
	t.Helper()
	out, err := p.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: settings})
	if err != nil {
		t.Fatal(err)
	}
	return *out.QueueUrl
}

// put lets messages die: each is received once by a worker that fails, and the
// next receive moves it.
func (p provider) put(t testing.TB, source string, messages []dlqbridge.Outgoing) {
	t.Helper()
	for _, m := range messages {
		in := &sqs.SendMessageInput{QueueUrl: &source, MessageBody: aws.String(string(m.Payload.Body)), MessageAttributes: map[string]types.MessageAttributeValue{}}
		for _, a := range m.Payload.Attributes {
			v := types.MessageAttributeValue{DataType: aws.String(a.Type), StringValue: aws.String(string(a.Value))}
			if a.Type[0] == 'B' {
				v.StringValue, v.BinaryValue = nil, a.Value
			}
			in.MessageAttributes[a.Name] = v
		}
		if m.Payload.GroupKey != "" {
			in.MessageGroupId = &m.Payload.GroupKey
		}
		if m.TraceHeader != "" {
			in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
				"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &m.TraceHeader},
			}
		}
		if _, err := p.client.SendMessage(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n > 0; {
		out, err := p.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &source, MaxNumberOfMessages: 10})
		if err != nil {
			t.Fatal(err)
		}
		n = len(out.Messages)
	}
}

// arrived reads the destination and puts its messages into the order of their
// sequence numbers, where it has them.
func (p provider) arrived(t testing.TB, url string) []dlqbridge.Outgoing {
	t.Helper()
	var all []types.Message
	for n := 1; n > 0; {
		out, err := p.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, VisibilityTimeout: 600, WaitTimeSeconds: 1,
			MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		})
		if err != nil {
			t.Fatal(err)
		}
		n = len(out.Messages)
		all = append(all, out.Messages...)
		if len(all) > 0 && all[0].Attributes["SequenceNumber"] == "" {
			continue
		}
		// A group with a message in flight gives no more.
		for _, m := range out.Messages {
			if _, err := p.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b types.Message) int {
		return cmp.Compare(a.Attributes["SequenceNumber"], b.Attributes["SequenceNumber"])
	})
	var messages []dlqbridge.Outgoing
	for _, m := range all {
		o := dlqbridge.Outgoing{TraceHeader: m.Attributes["AWSTraceHeader"]}
		o.Payload.Body = []byte(*m.Body)
		o.Payload.GroupKey = m.Attributes["MessageGroupId"]
		for name, a := range m.MessageAttributes {
			value := a.BinaryValue
			if a.StringValue != nil {
				value = []byte(*a.StringValue)
			}
			o.Payload.Attributes = append(o.Payload.Attributes, dlqbridge.Attribute{Name: name, Type: *a.DataType, Value: value})
		}
		messages = append(messages, o)
	}
	return messages
}

var operations = map[adaptertest.Call]string{
	adaptertest.Receive: "ReceiveMessage", adaptertest.Delete: "DeleteMessageBatch", adaptertest.Hide: "ChangeMessageVisibilityBatch",
	adaptertest.Depth: "GetQueueAttributes", adaptertest.Facts: "GetQueueAttributes", adaptertest.Send: "SendMessageBatch",
}

func (p provider) fault(t testing.TB, f adaptertest.Fault) {
	t.Helper()
	order := localstack.Fault{Service: "sqs", Operation: operations[f.Call], Times: f.Times}
	if f.Times == 0 {
		order.Times = -1
	}
	switch f.Do {
	case adaptertest.Denied:
		order.Do, order.Code = localstack.DoError, "AccessDeniedException"
	case adaptertest.Throttled:
		order.Do = localstack.DoThrottle
	case adaptertest.LostAnswer:
		order.Do = localstack.DoDropAfter
	case adaptertest.Silence:
		order.Do = localstack.DoBlackHole
	}
	if f.OneEntry {
		order.Do, order.Code = localstack.DoFailEntries, map[adaptertest.What]string{
			adaptertest.Throttled: "RequestThrottled", adaptertest.Denied: "AccessDeniedException",
		}[f.Do]
		order.Entries = localstack.Entries{Positions: []int{f.Entry}}
	}
	if _, err := p.cloud.AddFault(order); err != nil {
		t.Fatal(err)
	}
}
