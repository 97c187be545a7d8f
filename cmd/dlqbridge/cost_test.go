package main_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge/localstack"
)

const (
	withoutLedger = `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, stores: [message], effects: none}
`
	fast = "--rate=20000/s"
)

func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("t-%04d", i))
	}
	return out
}

// From gate to note a message costs at most 1.7 provider calls, and 2.7 where
// its ledger is read: the whole program, wired as it is.
func TestCallsFromGateToNote(t *testing.T) {
	for name, row := range map[string]struct {
		config string
		header row
		most   float64
	}{
		"without a ledger": {withoutLedger, nil, 1.7},
		"with a ledger":    {oneRoute, intent, 2.7},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, row.config, []string{"orders"}, func(b *bench) {
				const n = 200
				b.tasks(row.header, nil, names(n)...)
				b.cloud.ForgetRequests()
				run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout", fast}, fixed...)...)
				if run.Sent != n {
					t.Fatalf("%+v", run)
				}
				calls, gate := map[string]int{}, false
				total := 0
				for _, r := range b.cloud.Requests("", 0) {
					gate = gate || r.Operation == "Query" && bytes.Contains(r.Request, []byte("members#")) // what follows is sending
					if gate {
						calls[r.Operation]++
						total++
					}
				}
				per := float64(total) / n
				t.Logf("%.2f calls a message: %v", per, calls)
				if per > row.most || !gate {
					t.Errorf("%.2f calls a message, want at most %.1f", per, row.most)
				}
			})
		})
	}
}

// With 20 ms added to each call, a whole run (plan, authorisations, claims,
// journal, notes and history) is at least five times as fast as a bare mover
// that receives, sends and deletes ten at a time. Time is virtual, so only
// calls that wait for each other count.
func TestFiveTimesASequentialMover(t *testing.T) {
	for name, row := range map[string]struct {
		config string
		header row
		least  float64
	}{
		"without a ledger": {withoutLedger, nil, 5},
		"with a ledger":    {oneRoute, intent, 4.5}, // it asks the ledger three times about each task, the mover never
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, row.config, []string{"orders", "plain"}, func(b *bench) {
				const n = 2000
				b.tasks(row.header, nil, names(n)...)
				for _, name := range names(n) {
					b.send("plain-dlq", name, nil)
				}
				for _, service := range []string{"sqs", "dynamodb", "sts"} {
					if _, err := b.cloud.AddFault(localstack.Fault{Service: service, Do: localstack.DoDelay, Ms: 20, Times: -1}); err != nil {
						t.Fatal(err)
					}
				}
				start := time.Now()
				run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout", fast}, fixed...)...)
				ours := time.Since(start)
				if run.Sent != n {
					t.Fatalf("%+v", run)
				}
				start = time.Now()
				for moved := 0; moved < n; {
					moved += b.moveTen("plain-dlq", "plain")
				}
				theirs := time.Since(start)
				t.Logf("%d messages: ours %s, mover %s, %.1f times", n, ours, theirs, float64(theirs)/float64(ours))
				if float64(theirs) < row.least*float64(ours) {
					t.Errorf("ours %s, the mover %s, want %.1f times", ours, theirs, row.least)
				}
			})
		})
	}
}

// moveTen is what a script does: receive, send, delete.
func (b *bench) moveTen(from, to string) int {
	b.t.Helper()
	got, err := b.sqs.ReceiveMessage(b.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(urlOf(from)), MaxNumberOfMessages: 10})
	if err != nil {
		b.t.Fatal(err)
	}
	send, drop := &sqs.SendMessageBatchInput{QueueUrl: aws.String(urlOf(to))}, &sqs.DeleteMessageBatchInput{QueueUrl: aws.String(urlOf(from))}
	for _, m := range got.Messages {
		send.Entries = append(send.Entries, types.SendMessageBatchRequestEntry{Id: m.MessageId, MessageBody: m.Body})
		drop.Entries = append(drop.Entries, types.DeleteMessageBatchRequestEntry{Id: m.MessageId, ReceiptHandle: m.ReceiptHandle})
	}
	if len(send.Entries) == 0 {
		return 0
	}
	if _, err := b.sqs.SendMessageBatch(b.t.Context(), send); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.sqs.DeleteMessageBatch(b.t.Context(), drop); err != nil {
		b.t.Fatal(err)
	}
	return len(got.Messages)
}

// urlOf is a queue's URL without asking for it: that would count.
func urlOf(queue string) string {
	return strings.Join([]string{"https://sqs", localstack.Region, "amazonaws.com/" + localstack.Account + "/" + queue}, ".")
}

// What became of a message costs at most 1.2 calls more: one look at all that
// completed in the ledger meanwhile.
func TestCallsForAnOutcome(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		const n = 200
		b.tasks(intent, nil, names(n)...)
		if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout", fast}, fixed...)...); run.Sent != n {
			t.Fatalf("%+v", run)
		}
		for _, name := range names(n) {
			b.ledger(name, "task", with(intent, row{"status": "completed", "redrive_n": 1, "updated_at": time.Now(), "run_id": "run-2"}))
		}
		b.cloud.ForgetRequests()
		seen := document[struct{ Outcomes map[string]int }](b, 0, "redrive", "observe")
		calls := b.cloud.Counters().Calls
		total := int64(0)
		for _, service := range calls {
			for _, k := range service {
				total += k
			}
		}
		per := float64(total) / n
		t.Logf("%.2f calls an outcome: %v", per, calls)
		if seen.Outcomes["completed"] != n || per > 1.2 {
			t.Errorf("%d outcomes with %.2f calls each, want %d with at most 1.2", seen.Outcomes["completed"], per, n)
		}
	})
}

// The whole program at its usual rate, by the provider's recording: within 2 %
// of it over a minute, and in no second more than rate and burst.
func TestThePaceInTheRecording(t *testing.T) {
	inBubble(t, withoutLedger, []string{"orders"}, func(b *bench) {
		const n, rate, burst = 1230, 20, 10
		b.tasks(nil, nil, names(n)...)
		b.cloud.ForgetRequests()
		if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout", "--rate", "20/s"}, fixed...)...); run.Sent != n {
			t.Fatalf("%+v", run)
		}
		var sends []recordedSend
		for _, sends = range recorded(t, b.cloud) { // of the one queue
		}
		minute := 0
		for _, s := range sends {
			if s.at.Sub(sends[0].at) < time.Minute {
				minute += s.n
			}
		}
		if want := 60.0 * rate; float64(minute) < 0.98*want || float64(minute) > 1.02*want {
			t.Errorf("%d in the first minute at %d a second", minute, rate)
		}
		if most, at := mostWithin(sends, time.Second); most > rate+burst {
			t.Errorf("%d within a second from %s, more than rate %d + burst %d", most, at, rate, burst)
		}
	})
}
