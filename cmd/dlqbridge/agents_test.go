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

// queue is the name of a source of that base name: a queue, or a topic and its
// subscription.
func (p place) queue(base string) string {
	if p.ordered && !p.google {
		return base + ".fifo"
	}
	return base
}

// drops: the broker itself drops a second copy of a send, for a while.
func (p place) drops() bool { return p.ordered && !p.google }

// config is a configuration with the place's route, with further settings.
func (p place) config(more string) string {
	return "tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}\nroutes:\n" + p.route("orders", more)
}

func (p place) route(base, more string) string {
	where := "sqs: {dead_letter_queue: " + p.queue(base+"-dlq") + ", source_queue: " + p.queue(base) + "}"
	if p.google {
		where = "pubsub: {project: " + localstack.Project + ", dead_letter_subscription: " + base + "-dead, source_topic: " + base + "}"
	}
	return "  - {name: " + base + ", " + where + ", stores: [message, ledger]" + more + "}\n"
}

// agents are the workers of one place and of a second one, "undo", to which
// compensations go, written with the kit as a team would
// write them, and the world outside, which keeps its own book.
type agents struct {
	*bench
	place   place
	sources []string // base names
	google  *google
	kit     *ledger.Kit
	// work is what an agent does with a task; an error fails the run.
	work func(ctx context.Context, r *ledger.Run, d delivery) error
	// strips: what a worker fails it dead-letters itself, without attributes;
	// alters: and with another body.
	strips, alters bool
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
	sources := []string{"orders"}
	if strings.Contains(more, "undo") {
		sources = append(sources, "undo")
	}
	var queues []string
	for _, s := range sources {
		if !p.google {
			queues = append(queues, p.queue(s))
		}
	}
	inBubble(t, p.config(more)+rest, queues, func(b *bench) {
		a := &agents{bench: b, place: p, sources: sources, book: map[string]int{}, copies: map[string][]string{}, known: map[string]bool{}}
		if p.google {
			b.pubsub = connect(b.cloud)
			a.google = newGoogle(b.t, b.cloud)
			for _, s := range sources {
				a.google.consumer(s)
			}
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
			in := &sqs.SendMessageInput{QueueUrl: a.url(a.place.queue("orders")), MessageBody: &body, MessageAttributes: contextAttribute(text)}
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
	message string // the broker's id
	from    string // the base name of the place
	body    []byte
	mark    string
	answer  func(done bool)
}

// about is what a body says: the task, and of a compensation the unit of work
// that it is by itself.
type about struct {
	Task  json.RawMessage
	Agent struct{ Task, Idem string }
}

// task is the task that a delivery is about.
func (d delivery) task() (task string) {
	var b about
	_ = json.Unmarshal(d.body, &b)
	if json.Unmarshal(b.Task, &task) != nil {
		var whole struct{ TaskID string }
		_ = json.Unmarshal(b.Task, &whole)
		task = whole.TaskID
	}
	return task
}

// take takes what is there now, in the order of the broker.
func (a *agents) take(from string) []delivery {
	a.t.Helper()
	if a.place.google {
		return a.pulled(from)
	}
	url := a.url(a.place.queue(from))
	out, err := a.sqs.ReceiveMessage(a.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	var list []delivery
	for _, m := range out.Messages {
		list = append(list, delivery{*m.MessageId, from, []byte(*m.Body), aws.ToString(m.MessageAttributes[dlqbridge.MarkName].StringValue), func(done bool) {
			var err error
			if done {
				_, err = a.sqs.DeleteMessage(a.t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle})
			} else {
				_, err = a.sqs.ChangeMessageVisibility(a.t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle})
			}
			if err != nil {
				a.t.Fatal(err)
			}
		}})
	}
	return list
}

func (a *agents) pulled(from string) []delivery {
	a.t.Helper()
	var list []delivery
	for _, r := range a.google.pull(from) {
		m := r.GetMessage()
		list = append(list, delivery{m.GetMessageId(), from, m.GetData(), m.GetAttributes()[dlqbridge.MarkName], func(done bool) {
			seconds := int32(0)
			if done {
				seconds = -1
			}
			a.google.settle(from, []*pubsubpb.ReceivedMessage{r}, seconds)
		}})
	}
	return list
}

// live lets the agents work until nothing is left at the place: what fails is
// delivered until the broker gives it up.
func (a *agents) live() {
	a.t.Helper()
	for empty := 0; empty < 2; {
		var list []delivery
		for _, s := range a.sources {
			list = append(list, a.take(s)...)
		}
		if len(list) == 0 {
			empty++
			continue
		}
		empty = 0
		for _, d := range list {
			if !a.known[d.message] {
				a.known[d.message] = true
				a.copies[d.task()] = append(a.copies[d.task()], d.mark)
			}
			done := a.handle(d)
			if !done && a.strips {
				a.deadLetters(d.task())
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
	t := ledger.Task{ID: d.task(), Type: "bill", MessageID: d.message, Redrive: mark, IdempotencyKey: "bill-" + d.task()}
	work := a.work
	if d.from == "undo" {
		var b about
		_ = json.Unmarshal(d.body, &b)
		t.ID, t.Type, t.IdempotencyKey = b.Agent.Task, "compensation", b.Agent.Idem
		work = func(ctx context.Context, r *ledger.Run, d delivery) error {
			return a.step(ctx, r, d.task(), "0001#refund", nil)
		}
	}
	r, err := a.kit.Begin(ctx, t)
	if err != nil {
		return ledger.Acknowledge(err)
	}
	defer r.Close(ctx)
	if err := work(ctx, r, d); err != nil {
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
