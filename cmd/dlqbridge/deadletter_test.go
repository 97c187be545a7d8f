package main_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// refuse runs a task whose card is declined, and dead-letters its message.
func (b *bench) refuse(messageID, markText string, send func(context.Context, ledger.Facts) error) {
	b.t.Helper()
	kit, err := ledger.NewKit(ledger.Options{Client: b.tables, Table: "agent-ledger", MaxAttempts: 3})
	if err != nil {
		b.t.Fatal(err)
	}
	mark, err := ledger.ParseMark(markText)
	if err != nil {
		b.t.Fatal(err)
	}
	run, err := kit.Begin(b.t.Context(), ledger.Task{ID: "t-7", Type: "bill", Tenant: "acme", IdempotencyKey: "k-7", MessageID: messageID, Redrive: mark})
	if err != nil {
		b.t.Fatal(err)
	}
	defer run.Close(b.t.Context())
	_, err = run.Step(b.t.Context(), ledger.StepSpec{ID: "0003#charge", Tool: "charge_card", Dependency: "payments", Input: 7},
		func(context.Context, ledger.Call) (ledger.Result, error) {
			declined := ledger.NothingChanged(errors.New("the token has expired"))
			return ledger.Result{}, ledger.Permanent(ledger.WithCause(declined, dlqbridge.CausePermission, "ExpiredToken"))
		})
	if err := run.DeadLetter(b.t.Context(), ledger.FailureOf(err), send); err != nil {
		b.t.Fatal(err)
	}
}

// told checks what a record says of a task that its worker dead-lettered, and
// what is to be done about it.
func (b *bench) told(recurrences int, action string) {
	b.t.Helper()
	b.ok("intake", "--until-empty")
	ids := b.byTask()
	if len(ids) != 1 {
		b.t.Fatalf("%d records", len(ids))
	}
	r := document[struct {
		Effect      struct{ State string }
		Failure     struct{ Cause, Code, Step, Tool, Dependency, Message string }
		Task        struct{ Tenant, IdempotencyKey string }
		Decision    struct{ Action string }
		Recurrences int
		Redrives    []struct{ Outcome string }
	}](b, 0, "records", "show", ids["t-7"])
	f := r.Failure
	if f.Cause != "permission" || f.Code != "ExpiredToken" || f.Step != "0003#charge" || f.Tool != "charge_card" || f.Dependency != "payments" || f.Message == "" {
		b.t.Errorf("failure %+v", f)
	}
	if r.Effect.State != "none_confirmed" || r.Decision.Action != action || r.Task.Tenant != "acme" || r.Task.IdempotencyKey != "k-7" || r.Recurrences != recurrences {
		b.t.Errorf("%+v", r)
	}
}

// A worker dead-letters its message itself, after one delivery: the record knows
// what the worker knew, goes home after a fix, and a second letter by the same
// worker is recognised as that redrive's recurrence by the mark it kept. What it
// carries differs from what was sent, so a person looks at it.
func TestWorkersDeadLetterWithFactsOnSQS(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.send("orders", `{"order":7}`, row{"v": 1, "task": "t-7", "type": "bill"})
		work := func() {
			m := b.receive("orders")
			if m == nil {
				t.Fatal("nothing to do")
			}
			b.refuse(aws.ToString(m.MessageId), aws.ToString(m.MessageAttributes[ledger.MarkAttribute].StringValue), func(ctx context.Context, f ledger.Facts) error {
				text, err := f.Context()
				if err != nil {
					return err
				}
				attributes := maps.Clone(m.MessageAttributes)
				attributes[ledger.ContextAttribute] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &text}
				_, err = b.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: b.url("orders-dlq"), MessageBody: m.Body, MessageAttributes: attributes})
				return err
			})
		}
		work()
		b.told(0, "repair")
		b.ok("redrive", "run", "--cause", "permission", "--fix", "credential:rotated", "--reason", "new token")
		work()
		b.told(1, "human_review") // its facts are not those that were sent
	})
}

func TestWorkersDeadLetterWithFactsOnPubSub(t *testing.T) {
	const config = onePubSub + "    stores: [message, ledger]\ntables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}\n"
	inGoogleBubble(t, config, func(g *google) { g.consumer("invoices") }, func(b *bench, g *google) {
		g.publish("invoices", &pubsubpb.PubsubMessage{Data: []byte(`{"order":7}`), OrderingKey: "k", Attributes: ledger.Facts{TaskID: "t-7", Type: "bill"}.Attributes()})
		work := func() {
			got := g.pull("invoices")
			if len(got) != 1 {
				t.Fatalf("%d messages to work on", len(got))
			}
			m := got[0].GetMessage()
			b.refuse(m.GetMessageId(), m.GetAttributes()[ledger.MarkAttribute], func(_ context.Context, f ledger.Facts) error {
				attributes := maps.Clone(m.GetAttributes())
				maps.Copy(attributes, f.Attributes())
				g.publish("invoices-dead", &pubsubpb.PubsubMessage{Data: m.GetData(), OrderingKey: m.GetOrderingKey(), Attributes: attributes})
				return nil
			})
			g.settle("invoices", got, -1)
		}
		work()
		b.told(0, "repair")
		b.ok("redrive", "run", "--cause", "permission", "--fix", "credential:rotated", "--reason", "new token")
		work()
		b.told(1, "human_review") // its facts are not those that were sent
	})
}
