package main_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge/localstack"
)

type reportDoc struct {
	OK               bool
	Errors, Warnings int
	Findings         []struct{ Level, Route, Subject, Text, Hint string }
}

// finds says whether a finding of that level holds the text.
func (r reportDoc) finds(level, text string) bool {
	for _, f := range r.Findings {
		if f.Level == level && strings.Contains(f.Subject+": "+f.Text+"; "+f.Hint, text) {
			return true
		}
	}
	return false
}

func TestCheckFindsNothingWrongWhereNothingIs(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		r := document[reportDoc](b, 0, "check")
		if !r.OK || r.Errors != 0 || r.Warnings != 0 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestCheckFinds(t *testing.T) {
	queue := func(b *bench, name string, attributes map[string]string) {
		if _, err := b.sqs.CreateQueue(b.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes}); err != nil {
			b.t.Fatal(err)
		}
	}
	policy := func(dlq string) map[string]string {
		return map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:` + dlq + `","maxReceiveCount":"5"}`}
	}
	deny := func(b *bench, service, operation, code string) {
		if _, err := b.cloud.AddFault(localstack.Fault{Service: service, Operation: operation, Times: -1, Do: "error", Code: code, Message: "not authorized", Status: 403}); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		config      string
		make        func(*bench)
		level, want string
	}{
		"C74: the dead-letter queue keeps no longer than the source": {oneRoute, func(b *bench) {
			b.attributes("orders-dlq", map[string]string{"MessageRetentionPeriod": "345600"})
		}, "warning", "keeps a message for 4d from its first send, the source for 4d"},
		"no dead-letter queue": {strings.Replace(oneRoute, "orders-dlq", "oders-dlq", 1), nil, "error", "oders-dlq: the dead-letter queue does not exist"},
		"no source queue":      {strings.Replace(oneRoute, "source_queue: orders", "source_queue: oders", 1), nil, "error", "oders: the source queue does not exist"},
		"FIFO and standard": {
			strings.Replace(oneRoute, "source_queue: orders", "source_queue: jobs.fifo", 1), func(b *bench) { b.pair("jobs.fifo") },
			"error", "jobs.fifo is FIFO and orders-dlq is standard",
		},
		"the source dead-letters elsewhere": {oneRoute, func(b *bench) {
			queue(b, "other-dlq", nil)
			b.attributes("orders", policy("other-dlq"))
		}, "error", "the source dead-letters into arn:aws:sqs:us-east-1:000000000000:other-dlq"},
		"the source has no policy": {oneRoute, func(b *bench) { b.attributes("orders", map[string]string{"RedrivePolicy": ""}) }, "warning", "the source has no redrive policy"},
		"the dead-letter queue has a policy itself": {oneRoute, func(b *bench) {
			queue(b, "deeper", nil)
			b.attributes("orders-dlq", policy("deeper"))
		}, "warning", "moves on to arn:aws:sqs:us-east-1:000000000000:deeper"},
		"letters come again too soon":  {oneRoute, func(b *bench) { b.visibility("orders-dlq", "5") }, "warning", "visibility timeout is 5s"},
		"a shared dead-letter queue":   {oneRoute, func(b *bench) { queue(b, "second", policy("orders-dlq")) }, "warning", "other queues dead-letter into it too"},
		"the window is too short":      {oneRoute + "redrive: {observe_for: 20m}\n", func(b *bench) { b.visibility("orders", "3000") }, "error", "needs (maxReceiveCount 1 x visibility timeout 50m)"},
		"nothing could ever be proven": {strings.Replace(oneRoute, "[message, ledger]", "[message]", 1), nil, "warning", "three ways out"},
		"a table is missing": {oneRoute, func(b *bench) {
			if _, err := b.tables.DeleteTable(b.t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("agent-ledger")}); err != nil {
				b.t.Fatal(err)
			}
		}, "error", "agent-ledger: it does not exist; make it with your own tool"},
		"a store's table is missing": {withStore("idem", idempotency), nil, "error", "store idem, table idempotency: the table does not exist"},
		"a store's table has other keys": {
			withStore("idem", idempotency), func(b *bench) { b.table("idempotency", []string{"pk", "sk"}) },
			"error", "its keys are [pk S sk S], and the store asks by [id S]",
		},
		"a store that only confirms": {
			withStore("idem", idempotency), func(b *bench) { b.table("idempotency", []string{"id"}) },
			"warning", "never prove that nothing happened",
		},
		"no right to ask a store": {withStore("graph", "{langgraph: {table: checkpoints}}"), func(b *bench) {
			b.table("checkpoints", []string{"PK", "SK"})
			deny(b, "dynamodb", "Query", "AccessDeniedException")
		}, "error", "dynamodb:Query"},
		"a secret that is not set": {
			withStore("pay", `{reconcile: {url: "https://pay.example.com/{taskId}", headers: {Authorization: "env:PAY"}, done: [{status: [200]}]}}`), nil,
			"error", "variable PAY is not set",
		},
		"other keys than the state's": {
			withStore("state", `{openai_agents: {table: agent-ledger, hash: {attribute: pk, value: "{taskId}"}, state: state}}`), nil,
			"error", "store state, table agent-ledger: its keys are [task_id S entry S], and the store asks by [pk S]",
		},
		"a store that nobody asks":     {oneRoute + "stores: {flow: {stepfunctions: {}}}\n", nil, "warning", "store flow, execution {runId}: no route asks it"},
		"no right to ask the queue":    {oneRoute, func(b *bench) { deny(b, "sqs", "GetQueueAttributes", "AccessDenied") }, "error", "sqs:GetQueueAttributes"},
		"no right to find the queue":   {oneRoute, func(b *bench) { deny(b, "sqs", "GetQueueUrl", "AccessDenied") }, "error", "sqs:GetQueueUrl"},
		"no right to read the records": {oneRoute, func(b *bench) { deny(b, "dynamodb", "Query", "AccessDeniedException") }, "error", "dynamodb:Query"},
		"no right to describe":         {oneRoute, func(b *bench) { deny(b, "dynamodb", "DescribeTable", "AccessDeniedException") }, "warning", "dynamodb:DescribeTable"},
		"no route at all":              {"{}", nil, "error", "routes: there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.config, []string{"orders"}, func(b *bench) {
				if c.make != nil {
					c.make(b)
				}
				exit := 0
				if c.level == "error" {
					exit = 1
				}
				r := document[reportDoc](b, exit, "check")
				if !r.finds(c.level, c.want) {
					t.Errorf("no %s with %q in\n%s", c.level, c.want, b.run("check").stdout)
				}
			})
		})
	}
}
