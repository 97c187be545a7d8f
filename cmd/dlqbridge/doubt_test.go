package main_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// inDoubt sends one record and loses the answer.
func (b *bench) inDoubt(carriedOut bool) string {
	b.t.Helper()
	id := b.tasks(intent, nil, "t-1")["t-1"]
	do := "drop_before"
	if carriedOut {
		do = "drop_after"
	}
	if _, err := b.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: "SendMessageBatch", Times: 1, Do: do}); err != nil {
		b.t.Fatal(err)
	}
	if text := b.want(3, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...).stdout; !strings.Contains(text, "\n1 in doubt: ") || !strings.Contains(text, "\n  "+id+"\n") || !strings.Contains(text, "triage settle-send "+id) {
		b.t.Error(text)
	}
	if r := b.show(id); r.Status != "redriving" || len(r.Redrives) != 1 || r.Redrives[0].Outcome != "in_doubt" {
		b.t.Fatalf("no doubt: %+v", r)
	}
	// Nothing sends it again on a guess.
	b.want(3, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
	return id
}

func TestSendInDoubtIsSettledByAPerson(t *testing.T) {
	t.Run("it went out", func(t *testing.T) {
		inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
			id := b.inDoubt(true)
			jobs := func() []leftOutDoc {
				return document[struct{ Jobs []leftOutDoc }](b, 0, "redrive", "list").Jobs
			}
			job := jobs()[0]
			if d := document[leftOutDoc](b, 0, "redrive", "status", job.ID); len(d.InDoubtRecords) != 1 || d.InDoubtRecords[0] != id || len(job.InDoubtRecords) != 1 {
				t.Errorf("status %+v, list %+v", d, job)
			}
			if text := b.ok("redrive", "status", job.ID).stdout; !strings.Contains(text, "\n    "+id+"\n") || !strings.Contains(text, "triage settle-send "+id) {
				t.Error(text)
			}
			if text := b.ok("redrive", "list").stdout; !strings.Contains(text, "dlqbridge redrive status JOB names them") {
				t.Error(text)
			}
			if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "is in doubt: nobody knows whether the message went out") || !strings.Contains(text, "\n  assign, settle-send\n") {
				t.Error(text)
			}
			b.triage(0, "settle-send", id, append([]string{"--to", "sent"}, said...)...)
			if r := b.show(id); r.Status != "redriving" || r.Redrives[0].Outcome != "sent" {
				t.Errorf("got %+v", r)
			}
			// The list does not go on saying what the job said at its end.
			if job := jobs()[0]; len(job.InDoubtRecords) != 0 || job.Sent != 1 {
				t.Errorf("list %+v", job)
			}
			if text := b.ok("redrive", "list").stdout; strings.Contains(text, "names them") {
				t.Error(text)
			}
			// Settled twice is refused: there is no doubt any more.
			b.triage(1, "settle-send", id, append([]string{"--to", "not-sent"}, said...)...)
			if b.receive("orders") == nil || b.receive("orders") != nil {
				t.Error("not exactly one copy")
			}
		})
	})
	t.Run("it did not", func(t *testing.T) {
		inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
			id := b.inDoubt(false)
			b.triage(0, "settle-send", id, append([]string{"--to", "not-sent"}, said...)...)
			b.status("authorized", id)
			// Its job counts it, also when another one has sent it since.
			job := document[struct{ Jobs []leftOutDoc }](b, 0, "redrive", "list").Jobs[0].ID
			counted := func() {
				t.Helper()
				if d := document[leftOutDoc](b, 0, "redrive", "status", job); !maps.Equal(d.Outcomes, map[string]int{"not_sent": 1}) || d.Sent != 0 || len(d.InDoubtRecords) != 0 {
					t.Errorf("%+v", d)
				}
				if text := b.ok("redrive", "status", job).stdout; !strings.Contains(text, "\n  outcomes: not sent 1\n") {
					t.Error(text)
				}
			}
			counted()
			defer counted()
			run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
			if run.Sent != 1 {
				t.Errorf("got %+v", run)
			}
			if b.receive("orders") == nil || b.receive("orders") != nil {
				t.Error("not exactly one copy")
			}
			if r := b.show(id); len(r.Redrives) != 1 || r.Redrives[0].Outcome != "sent" {
				t.Errorf("got %+v", r)
			}
		})
	})
}

func TestManyPeopleAtOneRecord(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.tasks(nil, nil, "t-1")["t-1"]
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if c := b.run("triage", "assign", id, "--owner", fmt.Sprint("team-", i), "--reason", "mine"); c.code != 0 {
					t.Errorf("exit %d: %s", c.code, c.stderr)
				}
			})
		}
		all.Wait()
		if h := document[historyDoc](b, 0, "records", "history", id).History; len(h) != 7 {
			t.Errorf("%d entries, want 7: none may be lost", len(h))
		}
	})
}

func TestPolicyAloneSendsAfterTheBackoffOnly(t *testing.T) {
	config := oneRoute + "causes: {timeout: {auto_authorize: true, backoff: 1h, backoff_max: 2h}}\n"
	inBubble(t, config, []string{"orders"}, func(b *bench) {
		id := b.tasks(intent, nil, "t-1")["t-1"]
		if r := document[runDoc](b, 3, "redrive", "run", "--cause", "timeout", "--policy"); r.Sent != 0 || r.Excluded[0].Reason != "not_before" {
			t.Errorf("before the back-off: %+v", r)
		}
		time.Sleep(61 * time.Minute) // virtual
		if r := document[runDoc](b, 0, "redrive", "run", "--cause", "timeout", "--policy"); r.Sent != 1 {
			t.Errorf("after the back-off: %+v", r)
		}
		h := document[historyDoc](b, 0, "records", "history", id).History
		if by := h[1].By; !strings.HasPrefix(by, "policy:") {
			t.Errorf("authorised by %s", by)
		}
	})
}

func TestSourceThatIsGoneIsATargetMissing(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1")
		if _, err := b.sqs.DeleteQueue(b.t.Context(), &sqs.DeleteQueueInput{QueueUrl: b.url("orders")}); err != nil {
			t.Fatal(err)
		}
		p := document[planDoc](b, 0, append([]string{"redrive", "plan", "--cause", "timeout"}, fixed...)...)
		if len(p.Excluded) != 1 || p.Excluded[0].Reason != "target_missing" {
			t.Errorf("got %+v", p)
		}
	})
}

func TestSharedDeadLetterQueueGoesByTheLettersOwnSource(t *testing.T) {
	config := strings.Replace(oneRoute, ", source_queue: orders", "", 1)
	inBubble(t, config, []string{"orders"}, func(b *bench) {
		second := "second"
		if _, err := b.sqs.CreateQueue(b.t.Context(), &sqs.CreateQueueInput{QueueName: &second, Attributes: map[string]string{
			"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:orders-dlq","maxReceiveCount":"1"}`,
		}}); err != nil {
			t.Fatal(err)
		}
		b.ledger("a", "task", intent)
		b.ledger("b", "task", intent)
		b.send("orders", "a", row{"v": 1, "task": "a", "type": "bill", "cause": "timeout"})
		b.send("second", "b", row{"v": 1, "task": "b", "type": "bill", "cause": "timeout"})
		b.die("orders")
		b.die("second")
		b.ok("intake", "--until-empty")
		r := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		if r.Sent != 2 || len(r.Jobs) != 2 {
			t.Errorf("got %+v", r)
		}
		for queue, body := range map[string]string{"orders": "a", "second": "b"} {
			if m := b.receive(queue); m == nil || *m.Body != body {
				t.Errorf("%s got %v", queue, m)
			}
		}
	})
}
