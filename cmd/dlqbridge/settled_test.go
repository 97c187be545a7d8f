package main_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge/localstack"
)

type settledDoc struct {
	Redrives []struct {
		N            int
		Job, Outcome string
		Settled      *struct{ To, By, Reason, Evidence string }
	}
}

// What a person settled as not sent is in doubt nowhere any more, and who said so
// and why stands beside it until the number is used again.
func TestWhatIsSettledIsNotInDoubt(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.inDoubt(false)
		if r := document[settledDoc](b, 0, "records", "show", id).Redrives[0]; r.Outcome != "in_doubt" || r.Settled != nil {
			t.Errorf("before: %+v", r)
		}
		job := document[settledDoc](b, 0, "records", "show", id).Redrives[0].Job
		b.triage(0, "settle-send", id, append([]string{"--to", "not-sent"}, said...)...)
		r := document[settledDoc](b, 0, "records", "show", id).Redrives[0]
		if r.Outcome != "not_sent" || r.Settled == nil || r.Settled.To != "not_sent" || r.Settled.By != "arn:aws:iam::000000000000:user/ann" || r.Settled.Reason != "looked" || r.Settled.Evidence != "ticket 7" {
			t.Errorf("after: %+v, %+v", r, r.Settled)
		}
		const words = "arn:aws:iam::000000000000:user/ann settled at "
		for _, args := range [][]string{
			{"records", "show", id},
			{"records", "show", id, "-o", "json"},
			{"records", "explain", id},
			{"records", "explain", id, "-o", "json"},
			{"records", "list"},
			{"redrive", "status", job},
			{"redrive", "status", job, "-o", "json"},
			{"redrive", "list"},
			{"redrive", "plan", "--cause", "timeout"},
		} {
			text := b.ok(args...).stdout
			text = strings.NewReplacer("0 in doubt", "", `"inDoubt": 0`, "", `"inDoubtRecords": []`, "", "IN DOUBT", "", "done: 0 of 1 sent, 1 in doubt", "what the job said then").Replace(text)
			if strings.Contains(text, "in_doubt") || strings.Contains(text, "in doubt") || strings.Contains(text, "inDoubt") {
				t.Errorf("%s still says so:\n%s", strings.Join(args, " "), text)
			}
			if settles := args[1] == "explain" || args[1] == "show" && len(args) == 3; settles && (!strings.Contains(text, words) || !strings.Contains(text, "not sent: looked (evidence: ticket 7)")) {
				t.Errorf("%s does not say who settled it:\n%s", strings.Join(args, " "), text)
			}
		}
		if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); run.Sent != 1 {
			t.Errorf("%+v", run)
		}
		if r := document[settledDoc](b, 0, "records", "show", id).Redrives; len(r) != 1 || r[0].Outcome != "sent" || r[0].Settled != nil {
			t.Errorf("sent again: %+v", r)
		}
	})
}

// beforeEach calls something before each request of an operation reaches AWS;
// without a name before each of DynamoDB's.
type beforeEach struct {
	aws.HTTPClient
	operation string
	call      func()
}

func (n beforeEach) Do(r *http.Request) (*http.Response, error) {
	target := r.Header.Get("X-Amz-Target")
	if n.operation == "" && strings.HasPrefix(target, "DynamoDB") || n.operation != "" && strings.HasSuffix(target, "."+n.operation) {
		n.call()
	}
	return n.HTTPClient.Do(r)
}

// While a job sends under a number that was in doubt before, that old doubt is
// nothing that a second person could settle: he would free a number that is on
// its way out, and it would be sent once more.
func TestAnOldDoubtIsNotSettledUnderANewSend(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.inDoubt(false)
		settle := append([]string{"triage", "settle-send", id, "--to", "not-sent"}, said...)
		b.ok(settle...)
		var asked atomic.Int32
		b.network = func(next aws.HTTPClient) aws.HTTPClient {
			return beforeEach{next, "SendMessageBatch", func() {
				asked.Add(1)
				if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "nothing is noted of a send yet") || strings.Contains(text, "settle-send") {
					t.Error(text)
				}
				if r := document[refused](b, 1, settle...); !strings.Contains(r.Error.Message, "redrive 1 is not in doubt") {
					t.Errorf("%+v", r)
				}
			}}
		}
		if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); run.Sent != 1 || asked.Load() != 1 {
			t.Errorf("%+v, asked %d times", run, asked.Load())
		}
		b.network = nil
		b.run(append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		if b.receive("orders") == nil || b.receive("orders") != nil {
			t.Error("not exactly one copy")
		}
	})
}

// onlyMessages is a route where nobody but people can say what a task has changed.
const onlyMessages = `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, stores: [message]}
`

// A message that was settled as not sent and comes home went out, and its run may
// have changed what nobody has looked at since: who said before that nothing had
// happened cannot have seen it. Its number is used.
func TestWhatComesHomeWasSent(t *testing.T) {
	again := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
	nothing := append([]string{"--to", "none_confirmed", "--all-steps"}, said...)
	inBubble(t, onlyMessages, []string{"orders"}, func(b *bench) {
		id := b.letter("{}", nil).ID
		b.triage(0, "settle-effect", id, nothing...)
		if _, err := b.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: "SendMessageBatch", Times: 1, Do: "drop_after"}); err != nil {
			t.Fatal(err)
		}
		b.want(3, again...)
		b.triage(0, "settle-send", id, append([]string{"--to", "not-sent"}, said...)...)
		b.sendAgain("orders-dlq", b.receive("orders"))
		b.ok("intake", "--until-empty")
		r := b.show(id)
		if r.Effect.State != "unknown" || r.Decision.Action != "human_review" || len(r.Redrives) != 1 || r.Redrives[0].Outcome != "recurred" {
			t.Errorf("it came home: %+v", r)
		}
		b.want(3, again...)
		if b.receive("orders") != nil {
			t.Error("it was sent again on what was said before")
		}
		// Somebody who looks now ends the doubt, and the next send has the next number.
		b.triage(0, "settle-effect", id, nothing...)
		b.ok(again...)
		m := b.receive("orders")
		if m == nil || !strings.Contains(aws.ToString(m.MessageAttributes["agent.redrive"].StringValue), `"n":2`) {
			t.Errorf("sent %+v", m)
		}
	})
}

// The same of a task that somebody else sent once more: the second letter is the
// death of another run.
func TestAFurtherLetterIsAnotherRun(t *testing.T) {
	again := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
	inBubble(t, onlyMessages, []string{"orders"}, func(b *bench) {
		id := b.letter("{}", nil).ID
		nothing := append([]string{"--to", "none_confirmed", "--all-steps"}, said...)
		b.triage(0, "settle-effect", id, nothing...)
		if r := b.letter("{}", nil); r.ID != id || r.Effect.State != "unknown" {
			t.Errorf("%+v", r)
		}
		b.want(3, again...)
		if b.receive("orders") != nil {
			t.Error("it was sent on what was said before the second letter")
		}
		b.triage(0, "settle-effect", id, "--to", "confirmed", "--all-steps", "--reason", "looked", "--evidence", "ticket 8") // contradicts nobody
		if r := b.show(id); r.Effect.State != "confirmed" {
			t.Errorf("%+v", r)
		}
	})
}
