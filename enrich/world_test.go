package enrich_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// world is a local cloud with one source queue, its dead-letter queue and the
// tables, all in virtual time.
type world struct {
	*localstack.Cloud
	t           testing.TB
	queues      *sqs.Client
	store       *awsdynamodb.Store
	source, dlq string // URLs
	suffix      string
}

// inWorld runs a test inside virtual time.
func inWorld(t *testing.T, do func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { do(t, newWorld(t, "")) })
}

func newWorld(t testing.TB, suffix string) *world {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	cfg := cloud.AWSConfig()
	tables := dynamodb.NewFromConfig(cfg)
	must(t, awsdynamodb.CreateTables(t.Context(), tables, awsdynamodb.TableNames{Records: "records", Payloads: "payloads"}))
	store, err := awsdynamodb.New(awsdynamodb.Options{Client: tables, Records: "records", Payloads: "payloads", Now: cloud.Clock().Now})
	must(t, err)
	w := &world{Cloud: cloud, t: t, queues: sqs.NewFromConfig(cfg), store: store, suffix: suffix}
	w.dlq = w.queue("orders-dlq"+suffix, nil)
	w.source = w.queue("orders"+suffix, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"` + arn("orders-dlq"+suffix) + `","maxReceiveCount":"1"}`})
	return w
}

func arn(queue string) string {
	return "arn:aws:sqs:" + localstack.Region + ":" + localstack.Account + ":" + queue
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) queue(name string, attributes map[string]string) string {
	w.t.Helper()
	if strings.HasSuffix(name, ".fifo") {
		if attributes == nil {
			attributes = map[string]string{}
		}
		attributes["FifoQueue"] = "true"
		attributes["ContentBasedDeduplication"] = "true"
	}
	out, err := w.queues.CreateQueue(w.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	must(w.t, err)
	return *out.QueueUrl
}

// message is what a producer sends.
type message struct {
	body       string
	attributes map[string]string
	group      string
}

func (m message) input(url string) *sqs.SendMessageInput {
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &m.body}
	for name, value := range m.attributes {
		if in.MessageAttributes == nil {
			in.MessageAttributes = map[string]types.MessageAttributeValue{}
		}
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
	}
	if m.group != "" {
		in.MessageGroupId = &m.group
	}
	return in
}

// task is a message with the agent's facts, as JSON fields of agent.ctx.
func task(id, more string) message {
	ctx := `{"v":"1","task":"` + id + `"` + more + `}`
	return message{body: `{"order":` + strconv.Quote(id) + `}`, attributes: map[string]string{"agent.ctx": ctx}}
}

// send sends to the source and returns the message ids.
func (w *world) send(messages ...message) []string { return w.sendTo(w.source, messages...) }

func (w *world) sendTo(url string, messages ...message) []string {
	w.t.Helper()
	var ids []string
	for _, m := range messages {
		out, err := w.queues.SendMessage(w.t.Context(), m.input(url))
		must(w.t, err)
		ids = append(ids, *out.MessageId)
	}
	return ids
}

// die receives everything at the source until the broker has moved it.
func (w *world) die() {
	w.t.Helper()
	for range 10_000 {
		out, err := w.queues.ReceiveMessage(w.t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &w.source, MaxNumberOfMessages: 10, VisibilityTimeout: 0,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		})
		must(w.t, err)
		if len(out.Messages) == 0 {
			if w.depth(w.source) == 0 {
				return
			}
			w.Clock().Advance(time.Second)
		}
		for _, m := range out.Messages {
			_, err := w.queues.ChangeMessageVisibility(w.t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: &w.source, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0})
			must(w.t, err)
		}
	}
	w.t.Fatal("the source never got empty")
}

func (w *world) depth(url string) int {
	w.t.Helper()
	out, err := w.queues.GetQueueAttributes(w.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"All"}})
	must(w.t, err)
	n := 0
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
		x, err := strconv.Atoi(out.Attributes[name])
		must(w.t, err)
		n += x
	}
	return n
}

func (w *world) letters() *awssqs.DeadLetters {
	w.t.Helper()
	d, err := awssqs.Open(w.t.Context(), awssqs.Options{Client: w.queues, Queue: "orders-dlq" + w.suffix, Now: w.Clock().Now})
	must(w.t, err)
	return d
}

func (w *world) route() enrich.Route {
	return enrich.Route{Name: "orders", Place: arn("orders-dlq" + w.suffix), Source: arn("orders" + w.suffix)}
}

func enricher(t testing.TB, r enrich.Route) *enrich.Enricher {
	t.Helper()
	e, err := enrich.New(r)
	must(t, err)
	return e
}

// ports are what intake works with, to be wrapped by a test.
type ports struct {
	letters  dlqbridge.DeadLetters
	evidence dlqbridge.EvidenceWriter
	controls dlqbridge.Controls
	cases    dlqbridge.CaseReader
	messages dlqbridge.MessageFinder
}

func (w *world) ports() ports {
	return ports{w.letters(), w.store, w.store, w.store, w.store}
}

func (w *world) options(p ports) enrich.IntakeOptions {
	return enrich.IntakeOptions{
		Places:   []enrich.Place{{Letters: p.letters, Enricher: enricher(w.t, w.route())}},
		Evidence: p.evidence, Controls: p.controls, Cases: p.cases, Messages: p.messages, Now: w.Clock().Now,
	}
}

func (w *world) intake(o enrich.IntakeOptions) (enrich.Counts, error) {
	w.t.Helper()
	in, err := enrich.NewIntake(o)
	must(w.t, err)
	return in.UntilEmpty(w.t.Context())
}

// drain runs intake until the place is empty.
func (w *world) drain() enrich.Counts {
	w.t.Helper()
	counts, err := w.intake(w.options(w.ports()))
	must(w.t, err)
	return counts
}

// cases reads all records, by task id, else message id.
func (w *world) cases() map[string]dlqbridge.Case {
	w.t.Helper()
	out := map[string]dlqbridge.Case{}
	for l, err := range w.store.List(w.t.Context(), dlqbridge.Filter{Closed: true}) {
		must(w.t, err)
		c, err := w.store.Case(w.t.Context(), l.Control.ID)
		must(w.t, err)
		key := c.Control.TaskID
		if key == "" {
			key = c.Arrivals[0].MessageID
		}
		if c.Control.Episode > 0 || key == "" {
			key += "#" + strconv.Itoa(c.Control.Episode)
		}
		out[key] = c
	}
	return out
}

func (w *world) fault(f localstack.Fault) {
	w.t.Helper()
	_, err := w.AddFault(f)
	must(w.t, err)
}

// request decodes the recorded requests of one operation.
func (w *world) requests(service, operation string) []map[string]any {
	w.t.Helper()
	var out []map[string]any
	for _, r := range w.Requests(service, 0) {
		if r.Operation == operation {
			var m map[string]any
			must(w.t, json.Unmarshal(r.Request, &m))
			out = append(out, m)
		}
	}
	return out
}

// watch collects events.
type watch struct {
	mu     sync.Mutex
	events []enrich.Event
}

func (o *watch) Observe(e enrich.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *watch) count(kind enrich.EventKind) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, e := range o.events {
		if e.Kind == kind {
			n += max(e.N, 1)
		}
	}
	return n
}

func verbs(c dlqbridge.Case) []dlqbridge.Verb {
	var out []dlqbridge.Verb
	for _, m := range c.History {
		out = append(out, m.Verb)
	}
	return out
}

func wantVerbs(t testing.TB, c dlqbridge.Case, want ...dlqbridge.Verb) {
	t.Helper()
	if got := verbs(c); !slices.Equal(got, want) {
		t.Errorf("history of %s: got %v, want %v", c.Control.ID, got, want)
	}
}

// move makes a move of a record as a person or a job would.
func (w *world) move(c dlqbridge.Control, verb dlqbridge.Verb, change func(*dlqbridge.Control)) dlqbridge.Control {
	w.t.Helper()
	to := c
	to.Version++
	change(&to)
	to.Move = dlqbridge.Move{
		Version: to.Version, At: w.Clock().Now().Truncate(time.Millisecond), By: "test", Verb: verb, From: c.Status, To: to.Status,
		Job: to.Move.Job, N: to.Move.N,
	}
	if to.Claim != nil {
		to.Move.Job, to.Move.N = to.Claim.Job, to.Claim.N
	}
	must(w.t, w.store.Move(context.WithoutCancel(w.t.Context()), []dlqbridge.Step{{From: c, To: to}})...)
	return to
}
