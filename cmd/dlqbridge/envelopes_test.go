package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// C25: what Lambda added when it gave an invocation up is not sent to a queue
// that the route names; the rest goes back as it was, and when it dies there it
// is the same work and no conflict.
func TestC25TheProvidersMarksAreNotSentBack(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		attributes := contextAttribute(`{"v":1,"task":"t-1","type":"bill","cause":"timeout"}`)
		attributes["RequestID"] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("r-1")}
		attributes["ErrorCode"] = types.MessageAttributeValue{DataType: aws.String("Number"), StringValue: aws.String("200")}
		attributes["ErrorMessage"] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("timed out")}
		if _, err := b.sqs.SendMessage(b.t.Context(), &sqs.SendMessageInput{QueueUrl: b.url("orders-dlq"), MessageBody: aws.String(`{"order":7}`), MessageAttributes: attributes}); err != nil {
			t.Fatal(err)
		}
		b.ledger("t-1", "task", intent)
		b.ok("intake", "--until-empty")
		id := b.byTask()["t-1"]
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if got := document[runDoc](b, 0, run...); got.Sent != 1 {
			t.Fatalf("got %+v", got)
		}
		m := b.receive("orders")
		if m == nil || *m.Body != `{"order":7}` || m.MessageAttributes["agent.ctx"].StringValue == nil {
			t.Fatalf("got %+v", m)
		}
		for _, name := range []string{"RequestID", "ErrorCode", "ErrorMessage"} {
			if _, there := m.MessageAttributes[name]; there {
				t.Errorf("%s was sent back", name)
			}
		}
		b.sendAgain("orders", m) // and it dies there
		b.die("orders")
		b.ok("intake", "--until-empty")
		if r := b.show(id); r.Conflict || len(r.Redrives) != 1 || r.Redrives[0].Outcome != "recurred" {
			t.Errorf("got %+v", r)
		}
		if d := document[policyTestDoc](b, 0, "policy", "test", "--since", "7d"); d.Tested != 1 || d.Changed != 0 {
			t.Errorf("got %+v", d)
		}

		// The same names on a message that a producer put into the queue are his own.
		own := contextAttribute(`{"v":1,"task":"t-2","type":"bill","cause":"timeout"}`)
		for name, v := range attributes {
			if name != "agent.ctx" {
				own[name] = v
			}
		}
		b.ledger("t-2", "task", intent)
		if _, err := b.sqs.SendMessage(b.t.Context(), &sqs.SendMessageInput{QueueUrl: b.url("orders"), MessageBody: aws.String("x"), MessageAttributes: own}); err != nil {
			t.Fatal(err)
		}
		b.die("orders")
		b.ok("intake", "--until-empty")
		b.run(run...)
		for m := b.receive("orders"); m != nil; m = b.receive("orders") {
			if *m.Body == "x" && m.MessageAttributes["RequestID"].StringValue == nil {
				t.Error("a producer's own attribute was not sent back")
			}
		}
	})
}

// SNS's envelope is opened for the topics that the route names, and for no other.
func TestTopicsThatTheRouteNamesAreOpened(t *testing.T) {
	const topic = "arn:aws:sns:us-east-1:000000000000:orders"
	wrapped := func(task string) string {
		inner, err := json.Marshal(row{"agent": row{"v": 1, "task": task, "type": "bill", "cause": "timeout"}})
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(row{"Type": "Notification", "MessageId": "m-1", "TopicArn": topic, "Message": string(inner), "Timestamp": "2026-11-30T09:00:00.000Z"})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.send("orders", wrapped("closed"), nil)
		b.die("orders")
		b.ok("intake", "--until-empty")
		for task, id := range b.byTask() {
			if task == "closed" {
				t.Error("a topic that nobody named was opened")
			}
			if c := b.ok("records", "explain", id); !strings.Contains(c.stdout, "the route names no such topic: "+topic) {
				t.Errorf("it does not say how to open it:\n%s", c.stdout)
			}
		}
		named := strings.ReplaceAll(oneRoute, "name: orders", "name: orders, sns_topics: ["+topic+"]")
		file := b.withRules("topics.yaml", named)
		b.send("orders", wrapped("opened"), nil)
		b.die("orders")
		b.ok("--config", file, "intake", "--until-empty")
		if b.byTask()["opened"] == "" {
			t.Errorf("not opened: %v", b.byTask())
		}
		for topics, want := range map[string]string{"[orders]": "is no topic's ARN", "[" + topic + ", " + topic + "]": "is listed twice"} {
			wrong := b.withRules("wrong.yaml", strings.ReplaceAll(oneRoute, "name: orders", "name: orders, sns_topics: "+topics))
			if c := b.want(2, "--config", wrong, "config"); !strings.Contains(c.stderr, want) {
				t.Errorf("%s: got %s", topics, c.stderr)
			}
		}
	})
}
