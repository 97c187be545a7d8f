package main_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

const (
	nobodys     = "r_aaaaaaaaaaaaaaaaaaaaaaaaaa"
	nobodysMark = `{"rec":"` + nobodys + `","job":"j_aaaaaaaaaaaaaaaa","n":1,"act":"compensate"}`
	nobodysBody = `{"kind":"dlqbridge.compensation","format":1,"record":"` + nobodys + `","job":"j_aaaaaaaaaaaaaaaa","n":1,"effects":[]}`
)

// However often somebody looks at a dead compensation, names its cause or fixes
// it, it stays one, and its body never goes to where the work came from. That
// holds for what only says so, and the record says no more than that.
func TestADeadCompensationStaysOne(t *testing.T) {
	for name, letter := range map[string]struct{ body, mark string }{
		"mark and body":              {nobodysBody, nobodysMark},
		"body alone":                 {nobodysBody, ""},
		"body under another mark":    {nobodysBody, strings.Replace(nobodysMark, "compensate", "retry", 1)},
		"body under what is no mark": {nobodysBody, `{"rec":"x"`},
		"mark alone":                 {"work", nobodysMark},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, compensateRoutes, []string{"orders", "undo"}, func(b *bench) {
				facts := with(timeout, row{"v": 1, "task": "cmp_1", "idem": "cmp_1"})
				if letter.mark == "" {
					b.send("orders", letter.body, facts)
				} else {
					b.sendMarked("orders", letter.body, facts, letter.mark)
				}
				b.die("orders")
				b.ok("intake", "--until-empty")
				id := b.byTask()["cmp_1"]
				stays := func(after string) {
					t.Helper()
					d := b.show(id)
					if d.Status != "under_investigation" || d.Decision.Action != "human_review" || d.Decision.Rule != "compensation_died" ||
						!strings.HasPrefix(*d.Decision.Reason, "It says that it is compensation 1 of record "+nobodys) {
						t.Errorf("after %s: %+v, %s", after, d, *d.Decision.Reason)
					}
				}
				stays("intake")
				b.ledger("cmp_1", "task", intent) // no step has begun: usually a reason to retry
				b.triage(0, "investigate", id, "--reason", "x")
				stays("investigate")
				b.triage(0, "classify", id, "--cause", "timeout", "--reason", "x")
				stays("classify")
				b.triage(0, "settle-effect", id, append(said, "--to", "none_confirmed", "--all-steps")...)
				stays("settle-effect")
				b.triage(0, "fix", id, "--fix", "deploy:1.4.2", "--reason", "x")
				stays("fix")
				b.triage(1, "authorize", id, "--reason", "x")
				stays("authorize")
				run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
				if got := document[runDoc](b, 3, run...); got.Sent != 0 {
					t.Errorf("run %+v", got)
				}
				if b.receive("orders") != nil || b.receive("undo") != nil {
					t.Error("a compensation went out")
				}
				if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "decided at the record that it names") {
					t.Error(text)
				}
				// What its worker did still counts.
				b.ledger("cmp_1", "task", with(intent, row{"status": "completed"}))
				b.triage(0, "investigate", id, "--reason", "its worker came to the end")
				b.status("completed", id)
			})
		})
	}
}

// A mark on a late letter, which nobody has sent, makes no dead compensation of
// the record that it joins: what proof closed stays closed when it is tested, and
// an open one is what it was once somebody has looked.
func TestALateMarkMakesNoDeadCompensation(t *testing.T) {
	config := strings.Replace(compensateRoutes, "    compensate_to: undo\n", "    compensate_to: undo\n    completions: done\n", 1)
	inBubble(t, config, []string{"orders", "undo"}, func(b *bench) {
		if _, err := b.sqs.CreateQueue(b.t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("done")}); err != nil {
			t.Fatal(err)
		}
		closed, open := b.charged("orders", "t-1"), b.charged("orders", "t-2")
		if got := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); got.Sent != 2 {
			t.Fatalf("run %+v", got)
		}
		for task, body := range map[string]string{"t-1": "other work", "t-2": "work"} {
			b.sendMarked("orders", body, with(timeout, row{"v": 1, "task": task, "idem": "order-7"}), nobodysMark)
		}
		b.die("orders")
		b.ok("intake", "--until-empty")
		b.status("redriving", closed)
		b.send("done", `{"record":"`+closed+`","n":1,"state":"compensated"}`, nil)
		b.ok("redrive", "observe")
		b.status("compensated", closed)
		fixture := b.withRules("late.json", b.ok("records", "export", closed, "--fixture").stdout)
		if d := document[policyTestDoc](b, 0, "policy", "test", "--fixture", fixture); d.Tested != 1 || d.Changed != 0 {
			t.Errorf("fixture: %+v", d)
		}
		if d := document[policyTestDoc](b, 0, "policy", "test", "--since", "1d"); d.Tested != 2 || d.Changed != 0 {
			t.Errorf("stored: %+v", d)
		}
		undo := b.receive("undo")
		for undo != nil && !strings.Contains(*undo.Body, open) {
			undo = b.receive("undo")
		}
		b.sendAgain("undo-dlq", undo)
		b.ok("intake", "--until-empty")
		b.triage(0, "investigate", open, "--reason", "the late letter is nobody's")
		if d := b.show(open); d.Decision.Rule != "effect_confirmed" {
			t.Errorf("%+v", d)
		}
	})
}
