package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge/localstack"
)

const resumeRoute = `
routes:
  - name: orders
    sqs: {dead_letter_queue: orders-dlq, source_queue: orders}
    resume: true
    resume_to: orders-resume
`

// markDoc is the mark on a message.
type markDoc struct {
	Rec, Job, Act, Idem, From string
	N                         int
}

func markIn(t *testing.T, text string) markDoc {
	t.Helper()
	var m markDoc
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%q is no mark: %v", text, err)
	}
	return m
}

// kept writes what a worker leaves that charged, kept a checkpoint behind the
// charge, and died before anything else.
func (b *bench) kept(task, ref string) {
	b.ledger(task, "task", with(intent, row{"checkpoint": row{"ref": ref, "step_id": "0003#charge", "run_id": "run-1"}}))
	b.ledger(task, "step#0003#charge", step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"}))
}

// A resume goes where the route says, names its checkpoint, and what dies there
// is a recurrence of the same record, also when the worker strips the mark.
func TestAResumeGoesToItsOwnQueueAndBack(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		t.Run("orders"+suffix, func(t *testing.T) {
			config := strings.NewReplacer("orders-dlq", "orders-dlq"+suffix, "source_queue: orders", "source_queue: orders"+suffix, "orders-resume", "orders-resume"+suffix).Replace(resumeRoute)
			inBubble(t, config, []string{"orders" + suffix, "orders-resume" + suffix}, func(b *bench) {
				b.attributes("orders-resume"+suffix, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:orders-dlq` + suffix + `","maxReceiveCount":"1"}`})
				b.kept("t-1", "s3://state/9")
				b.send("orders"+suffix, "work", with(timeout, row{"v": 1, "task": "t-1"}))
				b.die("orders" + suffix)
				b.ok("intake", "--until-empty")
				id := b.byTask()["t-1"]
				if r := b.show(id); r.Decision.Action != "resume" || r.Effect.State != "confirmed" {
					t.Fatalf("%+v", r)
				}
				if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "s3://state/9") {
					t.Error(text)
				}
				run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
				m := b.receive("orders-resume" + suffix)
				if run.Sent != 1 || m == nil || b.receive("orders"+suffix) != nil {
					t.Fatalf("run %+v, got %v", run, m)
				}
				mark := markIn(t, aws.ToString(m.MessageAttributes["agent.redrive"].StringValue))
				if mark.Act != "resume" || mark.From != "s3://state/9" || mark.N != 1 || mark.Rec != id || *m.Body != "work" {
					t.Errorf("mark %+v, body %s", mark, *m.Body)
				}
				if suffix != "" && m.Attributes["MessageDeduplicationId"] != id+".1" {
					t.Errorf("deduplication id %s", m.Attributes["MessageDeduplicationId"])
				}
				// It dies there: with the mark, as the broker moves it.
				again := with(timeout, row{"v": 1, "task": "t-1"})
				b.sendMarked("orders-resume"+suffix, "work", again, aws.ToString(m.MessageAttributes["agent.redrive"].StringValue))
				b.die("orders-resume" + suffix)
				b.ok("intake", "--until-empty")
				r := b.show(id)
				if len(b.byTask()) != 1 || len(r.Redrives) != 1 || r.Redrives[0].Outcome != "recurred" || r.Decision.Action != "resume" {
					t.Fatalf("records %v, %+v", b.byTask(), r)
				}
				if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); run.Sent != 1 {
					t.Fatalf("second run %+v", run)
				}
				// And again without any mark of ours: the source is the queue of resumes,
				// the work is the same.
				if b.receive("orders-resume"+suffix) == nil {
					t.Fatal("not sent again")
				}
				b.send("orders-resume"+suffix, "work", again)
				b.die("orders-resume" + suffix)
				b.ok("intake", "--until-empty")
				if r := b.show(id); len(b.byTask()) != 1 || r.Version <= 4 {
					t.Errorf("records %v, %+v", b.byTask(), r)
				}
			})
		})
	}
}

const resumePubSub = `
routes:
  - name: invoices
    pubsub: {project: ` + localstack.Project + `, dead_letter_subscription: invoices-dead, source_topic: invoices}
    resume: true
    resume_to: invoices-resume
`

func TestAResumeGoesToItsOwnTopicAndBack(t *testing.T) {
	make := func(g *google) {
		g.consumer("invoices")
		g.topic("invoices-resume")
		g.subscription("resumer", "invoices-resume", func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("invoices-dead"), MaxDeliveryAttempts: 5}
		})
	}
	inGoogleBubble(t, resumePubSub, make, func(b *bench, g *google) {
		work := func(from string) {
			attributes := forwarded(from)
			attributes["agent.task.id"], attributes["agent.cause"], attributes["agent.error.code"] = "t-1", "timeout", "ETIMEDOUT"
			g.publish("invoices-dead", &pubsubpb.PubsubMessage{Data: []byte("work"), Attributes: attributes})
			b.ok("intake", "--until-empty")
		}
		b.kept("t-1", "s3://state/9")
		work("invoices")
		id := b.byTask()["t-1"]
		run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		got := g.pull("resumer")
		if run.Sent != 1 || len(got) != 1 || len(g.pull("invoices")) != 0 {
			t.Fatalf("run %+v, %d arrived", run, len(got))
		}
		sent := got[0].GetMessage()
		if mark := markIn(t, sent.GetAttributes()["agent.redrive"]); mark.Act != "resume" || mark.From != "s3://state/9" || mark.Rec != id {
			t.Errorf("mark %+v", mark)
		}
		if to := sent.GetAttributes()["agent.redrive.to"]; to != "resumer" {
			t.Errorf("it is for %q", to)
		}
		g.die("resumer")
		g.settle("resumer", got, 0)
		g.die("resumer")
		b.ok("intake", "--until-empty")
		r := b.show(id)
		if len(b.byTask()) != 1 || len(r.Redrives) != 1 || r.Redrives[0].Outcome != "recurred" {
			t.Errorf("records %v, %+v", b.byTask(), r)
		}
		g.subscription("audit", "invoices-resume", nil)
		run = document[runDoc](b, 3, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		if run.Sent != 0 || len(run.Excluded) != 1 || run.Excluded[0].Reason != "fan_out" {
			t.Errorf("with a second reader: %+v", run)
		}
		if r := document[reportDoc](b, 0, "check"); !r.finds("warning", "invoices-resume: nothing can be sent there") {
			t.Errorf("check says nothing of it: %+v", r.Findings)
		}
	})
}

// A mark that has no place for its checkpoint, and a queue that is not there,
// keep the resume back; nothing falls back to the source.
func TestAResumeIsKeptBackWhereItCannotGo(t *testing.T) {
	inBubble(t, resumeRoute, []string{"orders"}, func(b *bench) {
		b.kept("t-1", strings.Repeat("k", 1000))
		b.send("orders", "work", with(timeout, row{"v": 1, "task": "t-1"}))
		b.die("orders")
		b.ok("intake", "--until-empty")
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if r := document[runDoc](b, 3, run...); r.Sent != 0 || r.Excluded[0].Reason != "target_missing" {
			t.Errorf("no such queue: %+v", r)
		}
		if r := document[reportDoc](b, 1, "check"); !r.finds("error", "orders-resume: the queue of resume_to does not exist") {
			t.Errorf("check says nothing of it: %+v", r.Findings)
		}
		b.pair("orders-resume")
		if r := document[reportDoc](b, 0, "check"); !r.finds("warning", "let it dead-letter into this route's dead-letter queue") {
			t.Errorf("check says nothing of it: %+v", r.Findings)
		}
		if r := document[runDoc](b, 3, run...); r.Sent != 0 || r.Excluded[0].Reason != "mark_impossible" {
			t.Errorf("no place in the mark: %+v", r)
		}
		if b.receive("orders") != nil || b.receive("orders-resume") != nil {
			t.Error("something went out")
		}
	})
}
