package main_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// unsteady is a network on which each call takes its own time, so that what
// runs at once meets in ever new orders.
type unsteady struct{ inner aws.HTTPClient }

func (u unsteady) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(mathrand.N(20 * time.Millisecond)) // virtual
	return u.inner.Do(r)
}

// wanted: the whole of a long test is asked for, by its name or by make soak.
func wanted(name string) bool {
	return os.Getenv("DLQBRIDGE_SOAK") != "" || strings.Contains(flag.Lookup("test.run").Value.String(), name)
}

// C61: two operators and a scheduled run on the same class at the same moment,
// again and again (a hundred times by -run TwoOperators or make soak): by the
// broker's own recording each record went out once.
func TestTwoOperatorsAndASchedule(t *testing.T) {
	const each = 3
	rounds := 20
	if wanted("TwoOperators") {
		rounds = 100
	}
	for _, p := range []place{places[0], places[3]} {
		t.Run(p.name, func(t *testing.T) {
			inPlace(t, p, "", "causes: {timeout: {auto_authorize: true, backoff: 1s, backoff_max: 1s}}\n", func(a *agents) {
				var late atomic.Int32
				for round := range rounds / 2 {
					a.cloud.ForgetRequests()
					healed := false
					a.work = func(ctx context.Context, r *ledger.Run, d delivery) error {
						if !healed {
							return a.step(ctx, r, d.task(), "0001#charge", because(dlqbridge.CauseTimeout))
						}
						return a.step(ctx, r, d.task(), "0001#charge", nil)
					}
					var tasks []string
					for i := range each {
						tasks = append(tasks, fmt.Sprintf("t-%d-%d", round, i))
					}
					a.give(tasks...)
					a.live()
					a.ok("intake", "--until-empty")
					healed = true
					time.Sleep(2 * time.Second) // the back-off
					var all sync.WaitGroup
					for i, args := range [][]string{fixed, {"--fix", "deploy:1.4.3", "--reason", "me too"}, {"--policy"}} {
						all.Go(func() {
							p := *a.bench
							p.person = fmt.Sprint("operator-", i)
							p.network = func(c aws.HTTPClient) aws.HTTPClient { return unsteady{c} }
							switch c := p.run(append([]string{"redrive", "run", "--cause", "timeout"}, args...)...); {
							case c.code == 1 && strings.Contains(c.stderr, "is in use"), c.code == 3:
								late.Add(1) // told who holds it, or which records
							case c.code != 0:
								t.Errorf("exit %d: %s", c.code, c.stderr)
							}
						})
					}
					all.Wait()
					// What nobody could send meanwhile is still there.
					a.run(append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
					a.live()
					for _, task := range tasks {
						if n := a.sent("bill-" + task); n != 1 || a.book[task+" 0001#charge"] != 1 {
							t.Errorf("round %d: %s was sent %d times and charged %d times", round, task, n, a.book[task+" 0001#charge"])
						}
					}
					a.ok("redrive", "observe")
				}
				if int(late.Load()) < rounds/2 {
					t.Errorf("only %d of %d runs met another one", late.Load(), 3*rounds/2)
				}
			})
		})
	}
}

// alwaysFailing gives a task to workers that always fail, and lets policy alone
// redrive it, as from cron: each command is a process of its own. It returns the
// last run's answer; between is called after each run.
func (a *agents) alwaysFailing(task string, between func(runDoc)) (last runDoc) {
	a.t.Helper()
	a.work = func(ctx context.Context, r *ledger.Run, d delivery) error {
		return a.step(ctx, r, d.task(), "0001#charge", because(dlqbridge.CauseTimeout))
	}
	a.give(task)
	for range 12 {
		a.live()
		a.ok("intake", "--until-empty")
		time.Sleep(2 * time.Hour) // longer than any back-off and any observation
		a.ok("redrive", "observe")
		c := a.run("redrive", "run", "--cause", "timeout", "--policy", "-o", "json")
		last = runDoc{}
		if err := json.Unmarshal([]byte(c.stdout), &last); err != nil || c.code != 0 && c.code != 3 {
			a.t.Fatalf("exit %d: %s%s", c.code, c.stdout, c.stderr)
		}
		between(last)
	}
	return last
}

const threeTimes = "causes: {timeout: {auto_authorize: true, redrive_budget: 3}}\n"

// spent says that the budget is, and that a person is asked.
func (a *agents) spent(last runDoc, task string) {
	a.t.Helper()
	if sent := len(a.copies[task]) - 1; sent != 3 {
		a.t.Errorf("it was sent %d times, the budget is 3", sent)
	}
	if last.Sent != 0 || len(last.Excluded) != 1 || last.Excluded[0].Reason != "budget_exhausted" {
		a.t.Errorf("the last run: %+v", last)
	}
	ids := a.byTask()
	if len(ids) != 1 {
		a.t.Errorf("records %v", ids)
	}
	text := a.ok("records", "explain", ids[task]).stdout
	if !strings.Contains(text, "Redrive budget used up: never authorised by policy") {
		a.t.Errorf("explained as\n%s", text)
	}
	if r := a.show(ids[task]); len(r.Redrives) != 3 || r.Redrives[2].N != 3 {
		a.t.Errorf("redrives %+v", r.Redrives)
	}
	// A person with a fix cannot send it among others either, only by itself.
	if bulk := document[runDoc](a.bench, 3, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); bulk.Sent != 0 || bulk.Excluded[0].Reason != "budget_exhausted" {
		a.t.Errorf("a run with a fix: %+v", bulk)
	}
}

// C46: a worker that always fails is sent the budget's number of times by
// policy, over restarts; then it is a person's.
func TestC46AWorkerThatAlwaysFails(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			inPlace(t, p, ", kit: true", threeTimes, func(a *agents) {
				last := a.alwaysFailing("t-1", func(runDoc) {})
				a.spent(last, "t-1")
			})
		})
	}
}

// C46: it dead-letters its messages by itself, without any attribute. What comes
// back unmarked could be anything, so a person looks after each time; the count
// stands on the record, and at the budget policy is done with it all the same.
func TestC46AWorkerThatStripsEverything(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			inPlace(t, p, `, kit: true, fields: {taskId: ["body:/task"]}`, threeTimes, func(a *agents) {
				a.strips = true
				looked := 0
				last := a.alwaysFailing("t-1", func(run runDoc) {
					for _, x := range run.Excluded {
						if x.Reason == "conflict" {
							looked++
							a.triage(0, "investigate", x.ID, "--reason", "it is the one that was sent")
						}
					}
				})
				if looked == 0 {
					t.Error("nobody was asked about letters without a mark")
				}
				a.spent(last, "t-1")
			})
		})
	}
}

// C46: it changes the body as well. Then, once it was sent, nobody knows which is right,
// and policy sends neither until a person has said so.
func TestC46AWorkerThatChangesTheBody(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			inPlace(t, p, `, kit: true, fields: {taskId: ["body:/task"]}`, threeTimes, func(a *agents) {
				a.strips, a.alters = true, true
				last := a.alwaysFailing("t-1", func(run runDoc) {
					for _, x := range run.Excluded {
						a.run("triage", "investigate", x.ID, "--reason", "looked") // which says nothing about the body
					}
				})
				if n := len(a.copies["t-1"]); n != 2 || last.Sent != 0 || len(last.Excluded) != 1 || last.Excluded[0].Reason != "conflict" {
					t.Errorf("it went back %d times; the last run: %+v", n-1, last)
				}
			})
		})
	}
}

// C46: nothing in a letter says which task it is, so each return would be another
// record, whose sends nobody has counted: policy sends none of them.
func TestC46PolicySendsNothingNameless(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			inPlace(t, p, ", effects: none, classify: [{when: 'true', cause: timeout}]", threeTimes, func(a *agents) {
				a.strips = true
				last := a.alwaysFailing("t-1", func(runDoc) {})
				if n := len(a.copies["t-1"]); n != 1 {
					t.Errorf("it went back %d times", n-1)
				}
				if len(last.Excluded) != 1 || last.Excluded[0].Reason != "not_authorized" {
					t.Errorf("the last run: %+v", last)
				}
				// A person may: the records that come of it are theirs.
				if run := document[runDoc](a.bench, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); run.Sent != 1 {
					t.Errorf("a run with a fix: %+v", run)
				}
			})
		})
	}
}

// deadLetters gives a message up as a worker does that sends only the body on,
// without any attribute.
func (a *agents) deadLetters(task string) {
	a.t.Helper()
	body := `{"task":"` + task + `"}`
	if a.alters {
		body = fmt.Sprintf(`{"task":%q,"tries":%d}`, task, len(a.known))
	}
	if a.place.google {
		a.google.publish("orders-dead", &pubsubpb.PubsubMessage{Data: []byte(body)})
		return
	}
	in := &sqs.SendMessageInput{QueueUrl: a.url(a.place.queue("orders-dlq")), MessageBody: &body}
	if a.place.ordered {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), aws.String(rand.Text())
	}
	if _, err := a.sqs.SendMessage(a.t.Context(), in); err != nil {
		a.t.Fatal(err)
	}
}

// Two deliveries of one task meet in two workers, two hundred times: whatever
// the broker does, the tool is called once, and while it is called nobody may
// believe that nothing happened.
func TestTwoDeliveriesAtOnce(t *testing.T) {
	const rounds = 200
	for _, p := range []place{places[0], places[2]} {
		t.Run(p.name, func(t *testing.T) {
			inPlace(t, p, "", "", func(a *agents) {
				if !p.google {
					a.attributes(p.queue("orders"), map[string]string{"RedrivePolicy": "", "VisibilityTimeout": "1"})
				}
				reader, err := ledger.NewReader(ledger.ReaderOptions{Client: a.tables, Table: "agent-ledger"})
				if err != nil {
					t.Fatal(err)
				}
				for round := range rounds {
					task := fmt.Sprint("t-", round)
					calls := 0
					var counting sync.Mutex
					a.work = func(ctx context.Context, r *ledger.Run, d delivery) error {
						_, err := r.Step(ctx, ledger.StepSpec{ID: "0001#charge", Tool: "charge", Input: task}, func(ctx context.Context, _ ledger.Call) (ledger.Result, error) {
							counting.Lock()
							calls++
							counting.Unlock()
							said := reader.Ask(ctx, []dlqbridge.Question{{TaskID: task, Now: time.Now()}})[0]
							if f := dlqbridge.Fold(dlqbridge.FoldInput{Findings: said.Findings}); f.State == dlqbridge.EffectNone {
								t.Errorf("%s: nothing happened, says the ledger during the call: %+v", task, said.Findings)
							}
							return ledger.Result{Receipt: "ch_1"}, nil
						})
						return err
					}
					a.give(task)
					first := a.take("orders")
					time.Sleep(2 * time.Minute) // the first worker was slow to begin
					second := a.take("orders")
					if len(first) != 1 || len(second) != 1 || first[0].message != second[0].message {
						t.Fatalf("not one message twice: %+v, %+v", first, second)
					}
					var both sync.WaitGroup
					done := make([]bool, 2)
					for i, d := range []delivery{first[0], second[0]} {
						both.Go(func() { done[i] = a.handle(d) })
					}
					both.Wait()
					if calls != 1 || !done[0] && !done[1] {
						t.Fatalf("%s: the tool was called %d times, done %v", task, calls, done)
					}
					second[0].answer(true)
				}
			})
		})
	}
}
