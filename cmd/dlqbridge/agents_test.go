package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// place is a kind of broker's place that work goes back to.
type place struct {
	name            string
	google, ordered bool
}

var places = []place{
	{"SQS standard", false, false},
	{"SQS FIFO", false, true},
	{"Pub/Sub", true, false},
	{"Pub/Sub with ordering key", true, true},
}

// queue is the name of the source: a queue, or a topic and its subscription.
func (p place) queue() string {
	if p.ordered && !p.google {
		return "orders.fifo"
	}
	return "orders"
}

// drops: the broker itself drops a second copy of a send, for a while.
func (p place) drops() bool { return p.ordered && !p.google }

// route is the place's route in the configuration, with further settings.
func (p place) route(more string) string {
	where := "sqs: {dead_letter_queue: orders-dlq, source_queue: orders}"
	switch {
	case p.google:
		where = "pubsub: {project: " + localstack.Project + ", dead_letter_subscription: orders-dead, source_topic: orders}"
	case p.ordered:
		where = "sqs: {dead_letter_queue: orders-dlq.fifo, source_queue: orders.fifo}"
	}
	return "tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}\nroutes:\n  - {name: orders, " + where + ", stores: [message, ledger]" + more + "}\n"
}

// agents are the workers of one place, written with the kit as a team would
// write them, and the world outside, which keeps its own book.
type agents struct {
	*bench
	place  place
	google *google
	kit    *ledger.Kit
	// work is what an agent does with a task; an error fails the run.
	work func(ctx context.Context, r *ledger.Run, task string) error
	// strips: what a worker fails it dead-letters itself, without attributes.
	strips bool
	// book counts what happened outside, by task and effect.
	book map[string]int
	// copies are the marks of the messages that arrived, by task; each message
	// once, however often the broker delivers it.
	copies map[string][]string
	known  map[string]bool
	// ghosts are processes that were killed.
	ghosts sync.WaitGroup
}

// inPlace makes a bench with agents on a place; more are settings of its route,
// rest the configuration below.
func inPlace(t *testing.T, p place, more, rest string, do func(*agents)) {
	t.Helper()
	var queues []string
	if !p.google {
		queues = []string{p.queue()}
	}
	inBubble(t, p.route(more)+rest, queues, func(b *bench) {
		a := &agents{bench: b, place: p, book: map[string]int{}, copies: map[string][]string{}, known: map[string]bool{}}
		if p.google {
			b.pubsub = connect(b.cloud)
			a.google = newGoogle(b.t, b.cloud)
			a.google.consumer("orders")
		}
		var err error
		if a.kit, err = ledger.NewKit(ledger.Options{Client: b.tables, Table: "agent-ledger", Owner: "agent"}); err != nil {
			b.t.Fatal(err)
		}
		defer a.ghosts.Wait()
		do(a)
	})
}

// give sends tasks to the place, all of one group where it has an order.
func (a *agents) give(tasks ...string) {
	a.t.Helper()
	for _, task := range tasks {
		facts := ledger.Facts{V: 1, TaskID: task, Type: "bill", IdempotencyKey: "bill-" + task}
		body := `{"task":"` + task + `"}`
		if !a.place.google {
			text, err := facts.Context()
			if err != nil {
				a.t.Fatal(err)
			}
			in := &sqs.SendMessageInput{QueueUrl: a.url(a.place.queue()), MessageBody: &body, MessageAttributes: contextAttribute(text)}
			if a.place.ordered {
				in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), &task
			}
			if _, err := a.sqs.SendMessage(a.t.Context(), in); err != nil {
				a.t.Fatal(err)
			}
			continue
		}
		m := &pubsubpb.PubsubMessage{Data: []byte(body), Attributes: facts.Attributes()}
		if a.place.ordered {
			m.OrderingKey = "g"
		}
		a.google.publish("orders", m)
	}
}

// delivery is one message in an agent's hands.
type delivery struct {
	message    string // the broker's id
	task, mark string
	answer     func(done bool)
}

// take takes what is there now, in the order of the broker.
func (a *agents) take() []delivery {
	a.t.Helper()
	if a.place.google {
		return a.pulled()
	}
	out, err := a.sqs.ReceiveMessage(a.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: a.url(a.place.queue()), MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	var list []delivery
	for _, m := range out.Messages {
		list = append(list, delivery{
			*m.MessageId, taskOf([]byte(*m.Body)), aws.ToString(m.MessageAttributes[dlqbridge.MarkName].StringValue),
			func(done bool) {
				var err error
				if done {
					_, err = a.sqs.DeleteMessage(a.t.Context(), &sqs.DeleteMessageInput{QueueUrl: a.url(a.place.queue()), ReceiptHandle: m.ReceiptHandle})
				} else {
					_, err = a.sqs.ChangeMessageVisibility(a.t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: a.url(a.place.queue()), ReceiptHandle: m.ReceiptHandle})
				}
				if err != nil {
					a.t.Fatal(err)
				}
			},
		})
	}
	return list
}

func (a *agents) pulled() []delivery {
	a.t.Helper()
	var list []delivery
	for _, r := range a.google.pull("orders") {
		m := r.GetMessage()
		list = append(list, delivery{m.GetMessageId(), taskOf(m.GetData()), m.GetAttributes()[dlqbridge.MarkName], func(done bool) {
			seconds := int32(0)
			if done {
				seconds = -1
			}
			a.google.settle("orders", []*pubsubpb.ReceivedMessage{r}, seconds)
		}})
	}
	return list
}

func taskOf(body []byte) string {
	var b struct{ Task string }
	_ = json.Unmarshal(body, &b)
	return b.Task
}

// live lets the agents work until nothing is left at the place: what fails is
// delivered until the broker gives it up.
func (a *agents) live() {
	a.t.Helper()
	for empty := 0; empty < 2; {
		list := a.take()
		if len(list) == 0 {
			empty++
			continue
		}
		empty = 0
		for _, d := range list {
			if !a.known[d.message] {
				a.known[d.message] = true
				a.copies[d.task] = append(a.copies[d.task], d.mark)
			}
			done := a.handle(d)
			if !done && a.strips {
				a.deadLetters(d.task)
				done = true
			}
			d.answer(done)
		}
	}
}

// handle runs one delivery and says whether it is to be acknowledged.
func (a *agents) handle(d delivery) bool {
	a.t.Helper()
	ctx := a.t.Context()
	mark, err := ledger.ParseMark(d.mark)
	if err != nil {
		a.t.Fatal(err)
	}
	r, err := a.kit.Begin(ctx, ledger.Task{ID: d.task, Type: "bill", MessageID: d.message, Redrive: mark, IdempotencyKey: "bill-" + d.task})
	if err != nil {
		return ledger.Acknowledge(err)
	}
	defer r.Close(ctx)
	if err := a.work(ctx, r, d.task); err != nil {
		if err := r.Fail(ctx, ledger.FailureOf(err)); err != nil {
			a.t.Fatal(err)
		}
		return false
	}
	if err := r.Complete(ctx); err != nil {
		a.t.Fatal(err)
	}
	return true
}

// step is one call outside; broken, if not nil, is why nothing happened there.
func (a *agents) step(ctx context.Context, r *ledger.Run, task, id string, broken error) error {
	_, err := r.Step(ctx, ledger.StepSpec{ID: id, Tool: id[strings.IndexByte(id, '#')+1:], Input: task}, func(context.Context, ledger.Call) (ledger.Result, error) {
		if broken != nil {
			return ledger.Result{}, ledger.NothingChanged(broken)
		}
		a.book[task+" "+id]++
		return ledger.Result{Receipt: fmt.Sprintf("%s of %s", id, task)}, nil
	})
	return err
}

// because is a failure with the cause that the worker states.
func because(c dlqbridge.Cause) error {
	err := ledger.WithCause(errors.New("it did not work"), c, strings.ToUpper(string(c)))
	if dlqbridge.DefaultCausePolicy(c).Retryable {
		return ledger.Transient(err)
	}
	return ledger.Permanent(err)
}

// sent is how often the broker took a message of ours, by its own recording: of
// a record, or of a task with that idempotency key.
func (a *agents) sent(what string) (n int) {
	a.t.Helper()
	type attribute struct{ StringValue string }
	for _, service := range []string{"sqs", "pubsub"} {
		for _, r := range a.cloud.Requests(service, 0) {
			if r.Operation != "SendMessageBatch" && r.Operation != "Publish" || r.Status != http.StatusOK {
				continue
			}
			var request struct {
				Entries  []struct{ MessageAttributes map[string]attribute }
				Messages []struct{ Attributes map[string]string }
			}
			if err := json.Unmarshal(r.Request, &request); err != nil {
				a.t.Fatal(err)
			}
			var marks []string
			for _, e := range request.Entries {
				marks = append(marks, e.MessageAttributes[dlqbridge.MarkName].StringValue)
			}
			for _, m := range request.Messages {
				marks = append(marks, m.Attributes[dlqbridge.MarkName])
			}
			for _, text := range marks {
				mark, err := ledger.ParseMark(text)
				if err != nil {
					a.t.Fatal(err)
				}
				if mark != nil && (mark.Record == what || mark.Idem == what) {
					n++
				}
			}
		}
	}
	return n
}
