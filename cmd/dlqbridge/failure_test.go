package main_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// refusedAt is a ledger's header that alone says what failed: its letter says nothing.
var refusedAt = with(intent, row{"last_error": row{
	"code": "ECONNREFUSED", "message": "connect refused by smtp", "step": "0004#mail", "tool": "send_mail", "dependency": "smtp",
}})

type failedDoc struct {
	Status   string
	Decision struct{ Rule string }
	Failure  struct{ Cause, Code, Message, Step, Tool, Dependency, Signature string }
	Effect   struct {
		Findings []struct{ Store, Step string }
	}
}

// How work ended says nothing of how it failed before, and its ledger has
// forgotten that by then.
func TestAClosedRecordStillSaysWhatFailed(t *testing.T) {
	const ownRule = "classify: [{when: 'failure.code == \"ECONNREFUSED\"', cause: permission}]\n"
	for _, way := range []struct {
		name, settings, status string
		header                 row // what the ledger says when the outcome is looked at
		steps                  bool
		end                    func(b *bench, id string)
	}{
		{
			name: "ledger with the number", status: "completed",
			header: with(intent, row{"status": "completed", "run_id": "run-2", "redrive_n": 1}),
			end:    func(b *bench, _ string) { b.ok("redrive", "observe") },
		},
		{
			name: "ledger without the number", status: "completed",
			header: with(intent, row{"status": "completed", "run_id": "run-2"}),
			end: func(b *bench, _ string) {
				time.Sleep(2 * time.Hour) // virtual
				b.ledger("t-1", "task", with(intent, row{"status": "completed", "run_id": "run-2", "updated_at": time.Now()}))
				b.ok("redrive", "observe")
			},
		},
		{
			name: "completion message", settings: ", completions: done", status: "completed",
			header: with(intent, row{"status": "completed", "run_id": "run-2", "redrive_n": 1}),
			end: func(b *bench, id string) {
				b.send("done", `{"record":"`+id+`","n":1,"state":"completed","run":"run-2"}`, nil)
				b.ok("redrive", "observe")
			},
		},
		{
			name: "absence", settings: ", outcome: absence", status: "completed",
			header: with(intent, row{"run_id": "run-2"}),
			end: func(b *bench, _ string) {
				time.Sleep(48 * time.Hour) // virtual
				b.ok("redrive", "observe")
			},
		},
		{
			name: "compensation", settings: ", compensate_to: undo, completions: done", status: "compensated", steps: true,
			header: with(intent, row{"run_id": "run-2"}),
			end: func(b *bench, id string) {
				b.send("done", `{"record":"`+id+`","n":1,"state":"compensated"}`, nil)
				b.ok("redrive", "observe")
			},
		},
		{
			name: "seen at another look", status: "completed", // it was never sent by the job
			header: with(intent, row{"status": "completed", "run_id": "run-2"}),
		},
	} {
		t.Run(way.name, func(t *testing.T) {
			config := "routes:\n  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}" + way.settings + "}\n"
			inBubble(t, config, []string{"orders", "undo"}, func(b *bench) {
				if _, err := b.sqs.CreateQueue(b.t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("done")}); err != nil {
					t.Fatal(err)
				}
				if way.steps {
					b.ledger("t-1", "step#0003#charge", step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"}))
				}
				id := b.tasks(refusedAt, row{"cause": "", "code": ""}, "t-1")["t-1"]
				was := document[failedDoc](b, 0, "records", "show", id)
				if f := was.Failure; f.Cause != "dependency_unavailable" || f.Code != "ECONNREFUSED" || f.Step != "0004#mail" || f.Dependency != "smtp" || f.Message == "" || f.Signature == "" {
					t.Fatalf("before: %+v", f)
				}
				if way.end != nil {
					if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "dependency_unavailable"}, fixed...)...); run.Sent != 1 {
						t.Fatalf("run: %+v", run)
					}
				}
				b.ledger("t-1", "task", way.header)
				if way.end == nil {
					b.triage(0, "investigate", id, "--reason", "did it end?")
				} else {
					way.end(b, id)
				}

				is := document[failedDoc](b, 0, "records", "show", id)
				if is.Status != way.status || is.Failure != was.Failure {
					t.Errorf("status %s, failure %+v, want %+v", is.Status, is.Failure, was.Failure)
				}
				if len(is.Effect.Findings) == 0 {
					t.Error("what was known about effects is gone")
				}
				text := b.ok("records", "explain", id).stdout
				for _, want := range []string{"Classed as dependency unavailable, because that is what the code ECONNREFUSED means", "Step 0004#mail, tool send_mail, dependency smtp", "connect refused by smtp"} {
					if !strings.Contains(text, want) {
						t.Errorf("explain does not say %q:\n%s", want, text)
					}
				}
				if strings.Contains(text, "no rule knows") || strings.Contains(text, "Nobody said anything") {
					t.Errorf("explain says what is not so:\n%s", text)
				}

				rules := b.withRules("rules.yaml", config+ownRule)
				if same := document[policyTestDoc](b, 0, "policy", "test", "--since", "96h"); same.Tested != 1 || same.Changed != 0 {
					t.Errorf("by the same rules: %+v", same)
				}
				got := document[policyTestDoc](b, 0, "--config", rules, "policy", "test", "--since", "96h")
				if got.Tested != 1 || len(got.Changes) != 1 || got.Changes[0].To.Cause != "permission" || got.Changes[0].From.Cause != "dependency_unavailable" || got.Changes[0].From.Rule == "task_completed" {
					t.Errorf("by a rule about the code: %+v", got)
				}

				file := b.withRules("case.json", b.ok("records", "export", id, "--fixture").stdout)
				if same := document[policyTestDoc](b, 0, "policy", "test", "--fixture", file); same.Tested != 1 {
					t.Errorf("its fixture: %+v", same)
				}
				if other := document[policyTestDoc](b, 1, "--config", rules, "policy", "test", "--fixture", filepath.Clean(file)); len(other.Changes) != 1 || other.Changes[0].To.Cause != "permission" {
					t.Errorf("its fixture by the rule: %+v", other)
				}
			})
		})
	}
}
