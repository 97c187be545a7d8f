package main_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Short leases, so that a restart need not wait long for the dead one's.
const shortLeases = twoRoutes + `
redrive: {lease: 600ms, send_deadline: 200ms}
`

// kills says how often to kill; the short form is for CI.
func kills(t *testing.T) int {
	t.Helper()
	switch os.Getenv("DLQBRIDGE_SOAK") {
	case "short":
		return 6
	case "long":
		return 40
	}
	t.Skip("set DLQBRIDGE_SOAK=short or long (make soak)")
	return 0
}

// killAtRandom starts the program and kills it (SIGKILL) after up to most,
// unless it ends before; it reports whether it was killed.
func (w *world) killAtRandom(most time.Duration, args ...string) bool {
	w.t.Helper()
	cmd := w.command(args...)
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		_ = cmd.Process.Kill()
		<-done
		return true
	}
}

// Intake killed at random moments: every letter ends in exactly one record.
func TestSoakKillIntake(t *testing.T) {
	rounds := kills(t)
	const perRound = 60
	w := newWorld(t, twoRoutes)
	w.queues("orders", false)
	w.queues("jobs", true)
	w.run(0, "tables", "create")
	killed := 0
	for round := range rounds {
		w.send("orders", 2*round*perRound, perRound, false)
		w.send("jobs.fifo", (2*round+1)*perRound, perRound, true)
		w.die("orders")
		w.die("jobs.fifo")
		if w.killAtRandom(400*time.Millisecond, "intake", "--until-empty") {
			killed++
		}
		w.cloud.Clock().Advance(time.Minute) // what the dead one held becomes visible
	}
	w.run(0, "intake", "--until-empty")
	list := runJSON[listResult](w, 0, "records", "list", "--limit", "0")
	tasks := map[string]int{}
	for _, r := range list.Records {
		tasks[r.TaskID]++
	}
	if len(tasks) != 2*rounds*perRound || len(list.Records) != len(tasks) {
		t.Errorf("%d records of %d tasks, want %d", len(list.Records), len(tasks), 2*rounds*perRound)
	}
	for _, queue := range []string{"orders-dlq", "jobs-dlq.fifo"} {
		if left, _ := w.drain(queue); len(left) != 0 {
			t.Errorf("%d letters left in %s", len(left), queue)
		}
	}
	t.Logf("killed %d of %d", killed, rounds)
}

// A running redrive killed at random moments and restarted each time: nothing
// is lost, and whatever was sent twice carries the same mark.
func TestSoakKillRedrive(t *testing.T) {
	rounds := kills(t)
	const tasks = 400
	w := newWorld(t, shortLeases)
	w.queues("orders", false)
	w.queues("jobs", true)
	w.run(0, "tables", "create")
	w.send("orders", 0, tasks/2, false)
	w.send("jobs.fifo", tasks/2, tasks/2, true)
	w.die("orders")
	w.die("jobs.fifo")
	w.run(0, "intake", "--until-empty")

	args := []string{"redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "back up", "--rate", "100/s"}
	killed := 0
	for range rounds {
		if w.killAtRandom(900*time.Millisecond, args...) {
			killed++
		}
	}
	// Until a run has nothing left to do: the lease of the dead one ends by the clock.
	deadline := time.Now().Add(time.Minute)
	doubted := 0
	for {
		out, code, stderr := w.try(append(args, "-o", "json")...)
		var result redriveResult
		if (code == 0 || code == 3) && json.Unmarshal(out, &result) == nil {
			if doubt, nothingLeft := leftover(result); nothingLeft {
				doubted = doubt
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("still not done: exit %d\n%s\n%s", code, out, stderr)
		}
	}

	sent := map[string]map[string]int{} // task → mark → copies
	for _, queue := range []string{"orders", "jobs.fifo"} {
		for {
			out, err := w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
				QueueUrl: w.url(queue), MaxNumberOfMessages: 10, VisibilityTimeout: 600, MessageAttributeNames: []string{"All"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Messages) == 0 {
				break
			}
			for _, m := range out.Messages {
				var ctx struct{ Task string }
				if err := json.Unmarshal([]byte(aws.ToString(m.MessageAttributes["agent.ctx"].StringValue)), &ctx); err != nil {
					t.Fatal(err)
				}
				if sent[ctx.Task] == nil {
					sent[ctx.Task] = map[string]int{}
				}
				var mark struct{ N json.Number }
				text := aws.ToString(m.MessageAttributes["agent.redrive"].StringValue)
				_ = json.Unmarshal([]byte(text), &mark)
				sent[ctx.Task][mark.N.String()]++
				if _, err := w.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: w.url(queue), ReceiptHandle: m.ReceiptHandle}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// A message without room for a mark is never sent again on a guess: a person
	// is asked, so such tasks may be missing, but none of them is there twice.
	if len(sent) < tasks-doubted {
		t.Errorf("%d tasks came home, want %d (%d wait for a person)", len(sent), tasks, doubted)
	}
	twice := 0
	for task, marks := range sent {
		for n, copies := range marks {
			if copies > 1 && n == "" {
				t.Errorf("task %s: %d copies without a mark", task, copies)
			}
			if copies > 1 {
				twice++
			}
		}
		if len(marks) > 1 {
			t.Errorf("task %s was sent under different redrive numbers: %v", task, marks)
		}
	}
	t.Logf("killed %d of %d; %d of %d tasks have a marked second copy", killed, rounds, twice, tasks)
}

// leftover says whether a run found nothing more to send, and how many sends a
// person must settle. What is claimed was sent and waits for its outcome.
func leftover(r redriveResult) (doubt int, nothingLeft bool) {
	for _, e := range r.Excluded {
		switch e.Reason {
		case "in_doubt":
			doubt++
		case "claimed":
		default:
			return 0, false
		}
	}
	return doubt, r.Sent == 0
}
