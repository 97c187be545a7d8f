package main_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const compensateRoutes = `
routes:
  - name: orders
    sqs: {dead_letter_queue: orders-dlq, source_queue: orders}
    compensate_to: undo
  - name: undo
    sqs: {dead_letter_queue: undo-dlq, source_queue: undo}
`

// compensationDoc is the body of a compensation.
type compensationDoc struct {
	Kind, Record, Job, IdempotencyKey, Route string
	N, Format                                int
	Task                                     struct{ TaskID, IdempotencyKey string }
	Effects                                  []struct {
		Step, Run, IdempotencyKey string
		Receipts                  []string
	}
}

// charged makes a record whose worker charged and died without a checkpoint.
func (b *bench) charged(queue, task string) (id string) {
	b.t.Helper()
	b.ledger(task, "task", intent)
	b.ledger(task, "step#0003#charge", step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"}))
	b.send(queue, "work", with(timeout, row{"v": 1, "task": task, "idem": "order-7"}))
	b.die(queue)
	b.ok("intake", "--until-empty")
	id = b.byTask()[task]
	if r := b.show(id); r.Decision.Action != "compensate" {
		b.t.Fatalf("%+v", r)
	}
	return id
}

// An effect that happened is undone by a message with its receipt; one that dies
// becomes a record of its own that a person looks at, and is never compensated.
func TestACompensationGoesOutAndDies(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		for _, strip := range []bool{false, true} {
			t.Run("orders"+suffix+map[bool]string{true: " stripped"}[strip], func(t *testing.T) {
				config := strings.NewReplacer("-dlq", "-dlq"+suffix, "source_queue: orders", "source_queue: orders"+suffix, "source_queue: undo", "source_queue: undo"+suffix, "compensate_to: undo", "compensate_to: undo"+suffix).Replace(compensateRoutes)
				inBubble(t, config, []string{"orders" + suffix, "undo" + suffix}, func(b *bench) {
					if r := document[reportDoc](b, 0, "check"); r.Warnings != 0 {
						t.Errorf("check: %+v", r.Findings)
					}
					id := b.charged("orders"+suffix, "t-1")
					if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "A compensation, sent by redrive run --action compensate. A verifiable fix is missing") {
						t.Error(text)
					}
					run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
					if got := document[runDoc](b, 0, run...); got.Sent != 1 || got.Jobs[0] == "" {
						t.Fatalf("run %+v", got)
					}
					if b.receive("orders"+suffix) != nil {
						t.Error("the task itself went out")
					}
					m := b.receive("undo" + suffix)
					mark := markIn(t, aws.ToString(m.MessageAttributes["agent.redrive"].StringValue))
					var body compensationDoc
					if err := json.Unmarshal([]byte(*m.Body), &body); err != nil {
						t.Fatal(err)
					}
					if mark.Act != "compensate" || mark.Rec != id || body.Record != id || body.N != 1 || body.Task.TaskID != "t-1" || body.Task.IdempotencyKey != "order-7" ||
						mark.Idem != body.IdempotencyKey || len(body.Effects) != 1 || body.Effects[0].Step != "0003#charge" || body.Effects[0].Receipts[0] != "ch_1" {
						t.Errorf("mark %+v, body %s", mark, *m.Body)
					}
					if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "Its compensation was sent as redrive 1") {
						t.Error(text)
					}
					// It dies, moved by the broker or put there by its worker without attributes.
					if strip {
						b.send("undo-dlq"+suffix, *m.Body, nil)
					} else {
						b.sendMarked("undo"+suffix, *m.Body, row{"v": 1, "task": body.IdempotencyKey, "type": "compensation", "idem": body.IdempotencyKey}, aws.ToString(m.MessageAttributes["agent.redrive"].StringValue))
						b.die("undo" + suffix)
					}
					b.ok("intake", "--until-empty")
					r := b.show(id)
					if r.Status != "awaiting_operational_decision" || r.Redrives[0].Outcome != "recurred" {
						t.Errorf("%+v", r)
					}
					dead := b.byTask()[body.IdempotencyKey]
					if d := b.show(dead); dead == id || d.Route != "undo" || d.Status != "under_investigation" || d.Decision.Action != "human_review" || d.Decision.Rule != "compensation_died" ||
						!strings.Contains(*d.Decision.Reason, id) {
						t.Errorf("%+v", d)
					}
					// Nothing sends either again by itself, whatever cause a person gives it.
					b.ok("triage", "classify", dead, "--cause", "timeout", "--reason", "it timed out")
					b.triage(0, "settle-effect", dead, append(said, "--to", "confirmed", "--all-steps")...)
					if d := b.show(dead); d.Decision.Action != "human_review" {
						t.Errorf("a compensation is to be compensated: %+v", d)
					}
					again := document[runDoc](b, 3, run...)
					if again.Sent != 0 || len(again.Excluded) != 2 {
						t.Errorf("run again %+v", again)
					}
					// One person may, looking at this one record.
					b.triage(0, "authorize", id, "--reason", "the refund system says it knows nothing of it")
					if got := document[runDoc](b, 3, run...); got.Sent != 1 {
						t.Errorf("authorised %+v", got)
					}
					second := b.receive("undo" + suffix)
					var next compensationDoc
					if err := json.Unmarshal([]byte(*second.Body), &next); err != nil || next.N != 2 || next.IdempotencyKey != body.IdempotencyKey || next.Effects[0].IdempotencyKey != body.Effects[0].IdempotencyKey {
						t.Errorf("%v, %s", err, *second.Body)
					}
					time.Sleep(time.Hour) // virtual: nobody says anything
					b.ok("redrive", "observe")
					b.status("awaiting_operational_decision", id)
					b.triage(0, "compensated", id, said...)
					b.status("compensated", id)
				})
			})
		}
	}
}

// Where nothing names a place for compensations, the key is named.
func TestACompensationNeedsAPlace(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.charged("orders", "t-1")
		if text := b.run(append([]string{"redrive", "plan", "--cause", "timeout"}, fixed...)...).stdout; !strings.Contains(text, "compensate_to") {
			t.Error(text)
		}
		if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "compensate_to") {
			t.Error(text)
		}
	})
	config, _, _ := strings.Cut(compensateRoutes, "  - name: undo\n")
	inBubble(t, config, []string{"orders"}, func(b *bench) {
		b.charged("orders", "t-1")
		if r := document[runDoc](b, 3, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); r.Sent != 0 || r.Excluded[0].Reason != "target_missing" {
			t.Errorf("no such queue: %+v", r)
		}
		if r := document[reportDoc](b, 1, "check"); !r.finds("error", "undo: the queue of compensate_to does not exist") {
			t.Errorf("check: %+v", r.Findings)
		}
		b.pair("undo")
		if r := document[reportDoc](b, 0, "check"); !r.finds("warning", "which no route reads: a compensation that fails is not seen") {
			t.Errorf("check: %+v", r.Findings)
		}
	})
}

// Whoever writes the body of a compensation that was never sent ends nobody's
// redrive; a person looks at his own letter.
func TestAForgedCompensationEndsNothing(t *testing.T) {
	inBubble(t, compensateRoutes, []string{"orders", "undo"}, func(b *bench) {
		b.tasks(intent, nil, "t-1")
		run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		id := b.byTask()["t-1"]
		b.send("orders-dlq", `{"kind":"dlqbridge.compensation","record":"`+id+`","job":"`+run.Job+`","n":1}`, row{"v": 1, "task": "forged", "cause": "timeout"})
		b.ok("intake", "--until-empty")
		b.status("redriving", id)
		if d := b.show(b.byTask()["forged"]); d.Decision.Action != "human_review" || d.Decision.Rule != "compensation_died" {
			t.Errorf("%+v", d)
		}
	})
}

const compensatePubSub = `
routes:
  - name: invoices
    pubsub: {project: ` + localstack.Project + `, dead_letter_subscription: invoices-dead, source_topic: invoices}
    compensate_to: undo
    outcome: absence
  - name: undo
    pubsub: {project: ` + localstack.Project + `, dead_letter_subscription: undo-dead, source_topic: undo}
`

func TestACompensationOnPubSub(t *testing.T) {
	inGoogleBubble(t, compensatePubSub, func(g *google) { g.consumer("invoices"); g.consumer("undo") }, func(b *bench, g *google) {
		b.ledger("t-1", "task", intent)
		b.ledger("t-1", "step#0003#charge", step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"}))
		attributes := forwarded("invoices")
		attributes["agent.task.id"], attributes["agent.cause"], attributes["agent.error.code"] = "t-1", "timeout", "ETIMEDOUT"
		g.publish("invoices-dead", &pubsubpb.PubsubMessage{Data: []byte("work"), Attributes: attributes, OrderingKey: ""})
		b.ok("intake", "--until-empty")
		id := b.byTask()["t-1"]
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if got := document[runDoc](b, 0, run...); got.Sent != 1 {
			t.Fatalf("run %+v", got)
		}
		got := g.pull("undo")
		if len(got) != 1 || len(g.pull("invoices")) != 0 {
			t.Fatalf("%d arrived", len(got))
		}
		m := got[0].GetMessage()
		var body compensationDoc
		if err := json.Unmarshal(m.GetData(), &body); err != nil || body.Record != id || body.Effects[0].Receipts[0] != "ch_1" {
			t.Fatalf("%v, %s", err, m.GetData())
		}
		if a := m.GetAttributes(); a["agent.task.id"] != body.IdempotencyKey || a["agent.redrive.to"] != "undo" || markIn(t, a["agent.redrive"]).Act != "compensate" {
			t.Errorf("attributes %v", a)
		}
		g.settle("undo", got, -1)
		time.Sleep(2 * time.Hour) // virtual: nothing comes back
		b.ok("redrive", "observe")
		b.status("compensated", id)
		if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "Closed as compensated") || !strings.Contains(text, "by absence") {
			t.Error(text)
		}

		// Another one dies and is looked at by a person.
		b.ledger("t-2", "task", intent)
		b.ledger("t-2", "step#0003#charge", step("succeeded", row{"receipt": "ch_2", "step_id": "0003#charge"}))
		attributes["agent.task.id"] = "t-2"
		g.publish("invoices-dead", &pubsubpb.PubsubMessage{Data: []byte("work"), Attributes: attributes})
		b.ok("intake", "--until-empty")
		if got := document[runDoc](b, 0, run...); got.Sent != 1 {
			t.Fatalf("run %+v", got)
		}
		g.die("undo")
		b.ok("intake", "--until-empty")
		r := b.show(b.byTask()["t-2"])
		if r.Redrives[0].Outcome != "recurred" || r.Status != "awaiting_operational_decision" {
			t.Errorf("%+v", r)
		}
		list := document[listResult](b, 0, "records", "list", "--route", "undo")
		if len(list.Records) != 1 || b.show(list.Records[0].ID).Decision.Rule != "compensation_died" {
			t.Errorf("%+v", list)
		}
	})
}

// A worker that undoes with the kit, under the compensation's own key, needs to
// tell nobody: its run, with the number of this redrive, closes the record.
func TestACompensationIsSeenInTheLedger(t *testing.T) {
	inBubble(t, compensateRoutes, []string{"orders", "undo"}, func(b *bench) {
		id := b.charged("orders", "t-1")
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if got := document[runDoc](b, 0, run...); got.Sent != 1 {
			t.Fatalf("run %+v", got)
		}
		m := b.receive("undo")
		mark, err := ledger.ParseMark(aws.ToString(m.MessageAttributes["agent.redrive"].StringValue))
		if err != nil {
			t.Fatal(err)
		}
		kit, err := ledger.NewKit(ledger.Options{Client: b.tables, Table: "agent-ledger"})
		if err != nil {
			t.Fatal(err)
		}
		undo := func(message string, mark *dlqbridge.Mark) {
			t.Helper()
			r, err := kit.Begin(b.t.Context(), ledger.Task{ID: mark.Idem, Type: "compensation", MessageID: message, Redrive: mark})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close(b.t.Context())
			if _, err := r.Step(b.t.Context(), ledger.StepSpec{ID: "0001#refund", Tool: "refund", Input: 1}, func(context.Context, ledger.Call) (ledger.Result, error) {
				return ledger.Result{Receipt: "re_1"}, nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := r.Complete(b.t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.ok("redrive", "observe")
		b.status("redriving", id)
		undo(*m.MessageId, mark)
		b.ok("redrive", "observe")
		b.status("compensated", id)
		if text := b.ok("records", "history", id).stdout; !strings.Contains(text, "completed redrive 1") {
			t.Error(text)
		}
	})
}

// Two records of one task, whatever tenant their letters name, ask for the undoing
// of one effect under one key.
func TestOneEffectHasOneKey(t *testing.T) {
	inBubble(t, compensateRoutes, []string{"orders", "undo"}, func(b *bench) {
		b.ledger("t-1", "task", intent)
		b.ledger("t-1", "step#0003#charge", step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"}))
		for _, tenant := range []string{"acme", "evil"} {
			b.send("orders", "work", with(timeout, row{"v": 1, "task": "t-1", "idem": "order-7", "tenant": tenant}))
		}
		b.die("orders")
		b.ok("intake", "--until-empty")
		if got := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); got.Sent != 2 {
			t.Fatalf("run %+v", got)
		}
		keys := map[string]int{}
		for range 2 {
			var body compensationDoc
			if err := json.Unmarshal([]byte(*b.receive("undo").Body), &body); err != nil {
				t.Fatal(err)
			}
			keys[body.Effects[0].IdempotencyKey]++
		}
		if len(keys) != 1 {
			t.Errorf("keys %v", keys)
		}
	})
}
