package main_test

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge/localstack"
)

type observedDoc struct {
	Outcomes    map[string]int
	Waiting     int
	Completions *struct{ Completed, Repeated, Waiting, Unknown int }
}

// Workers say that they are done, by record or by task; what nobody sent is left
// in its queue.
func TestWorkersSayThatTheyAreDone(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		t.Run("orders"+suffix, func(t *testing.T) {
			config := "routes:\n  - {name: orders, sqs: {dead_letter_queue: orders-dlq" + suffix + ", source_queue: orders" + suffix + "}, completions: done}\n"
			inBubble(t, config, []string{"orders" + suffix}, func(b *bench) {
				if r := document[reportDoc](b, 1, "check"); !r.finds("error", "done: the queue of completions does not exist") {
					t.Errorf("check: %+v", r.Findings)
				}
				if _, err := b.sqs.CreateQueue(b.t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("done")}); err != nil {
					t.Fatal(err)
				}
				if r := document[reportDoc](b, 0, "check"); !r.finds("warning", "a message that is not believed comes again") {
					t.Errorf("check: %+v", r.Findings)
				}
				for _, task := range []string{"t-1", "t-2", "t-3"} {
					b.send("orders"+suffix, "work of "+task, with(timeout, row{"v": 1, "task": task}))
					b.ledger(task, "task", intent)
				}
				for range 3 { // one of a group at a time
					b.die("orders" + suffix)
				}
				b.ok("intake", "--until-empty")
				ids := b.byTask()
				if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); run.Sent != 3 {
					t.Fatalf("run %+v", run)
				}
				b.send("done", `{"record":"`+ids["t-1"]+`","n":1,"state":"completed","run":"run-2"}`, nil)
				b.send("done", `{"taskId":"t-2","n":1,"state":"completed"}`, nil)
				b.send("done", `{"record":"`+ids["t-3"]+`","n":2,"state":"completed"}`, nil)
				b.send("done", `hello`, nil)
				seen := document[observedDoc](b, 0, "redrive", "observe")
				if seen.Completions == nil || seen.Completions.Completed != 2 || seen.Completions.Unknown != 2 || seen.Waiting != 1 {
					t.Fatalf("%+v, %+v", seen, seen.Completions)
				}
				b.status("completed", ids["t-1"])
				b.status("completed", ids["t-2"])
				b.status("redriving", ids["t-3"])
				if text := b.ok("records", "explain", ids["t-1"]).stdout; !strings.Contains(text, "ompletion message") {
					t.Error(text)
				}
				b.send("done", `{"record":"`+ids["t-1"]+`","n":1,"state":"completed"}`, nil)
				if text := b.ok("redrive", "observe").stdout; !strings.Contains(text, "repeated 1") {
					t.Error(text)
				}
				time.Sleep(20 * time.Minute) // virtual: what was not believed is there still
				left := 0
				for b.receive("done") != nil {
					left++
				}
				if left != 2 {
					t.Errorf("%d messages are left, want the two that were not believed", left)
				}
			})
		})
	}
}

func TestWorkersSayThatTheyAreDoneOnPubSub(t *testing.T) {
	config := "routes:\n  - {name: invoices, pubsub: {project: " + localstack.Project + ", dead_letter_subscription: invoices-dead, source_topic: invoices}, effects: none, completions: done}\n"
	set := func(g *google) { g.consumer("invoices"); g.topic("done"); g.subscription("done", "done", nil) }
	inGoogleBubble(t, config, set, func(b *bench, g *google) {
		attributes := forwarded("invoices")
		attributes["agent.task.id"], attributes["agent.cause"] = "t-1", "timeout"
		g.publish("invoices-dead", &pubsubpb.PubsubMessage{Data: []byte("work"), Attributes: attributes})
		b.ok("intake", "--until-empty")
		id := b.byTask()["t-1"]
		if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); run.Sent != 1 {
			t.Fatalf("run %+v", run)
		}
		g.publish("done", &pubsubpb.PubsubMessage{Data: []byte(`{"record":"` + id + `","n":1,"state":"completed"}`)})
		if seen := document[observedDoc](b, 0, "redrive", "observe"); seen.Completions == nil || seen.Completions.Completed != 1 {
			t.Fatalf("%+v", seen)
		}
		b.status("completed", id)
	})
}
