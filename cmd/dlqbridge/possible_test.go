package main_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const manyRoutes = oneRoute + `
  - {name: undoing, sqs: {dead_letter_queue: undoing-dlq, source_queue: undoing}, stores: [message, ledger], compensate_to: undo}
  - {name: undo, sqs: {dead_letter_queue: undo-dlq, source_queue: undo}}
`

// many makes a record of each task on a queue.
func (b *bench) many(queue string, header, facts row, tasks []string, steps ...row) (ids []string) {
	b.t.Helper()
	for _, task := range tasks {
		b.send(queue, `{"task":"`+task+`"}`, with(row{"v": 1, "task": task, "type": "bill", "cause": "timeout", "code": "ETIMEDOUT"}, facts))
		if header != nil {
			b.ledger(task, "task", header)
		}
		for _, s := range steps {
			b.ledger(task, "step#"+s["step_id"].(string), s)
		}
	}
	b.die(queue)
	b.ok("intake", "--until-empty")
	byTask := b.byTask()
	for _, task := range tasks {
		ids = append(ids, byTask[task])
	}
	return ids
}

// all types one command for several records.
func (b *bench) all(ids []string, words ...string) {
	b.t.Helper()
	b.ok(slices.Concat([]string{"triage", words[0]}, ids, words[1:])...)
}

// force writes a status that no command leads to.
func (b *bench) force(ids []string, to dlqbridge.Status) {
	b.t.Helper()
	store, err := awsdynamodb.New(awsdynamodb.Options{Client: b.tables, Records: "dlqbridge-records", Payloads: "dlqbridge-payloads", Shards: 8, Now: time.Now})
	if err != nil {
		b.t.Fatal(err)
	}
	controls, err := store.Read(b.t.Context(), ids)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, from := range controls {
		next := from
		next.Status, next.Version = to, from.Version+1
		next.Move.Version, next.Move.From, next.Move.To = next.Version, from.Status, to
		if err := store.Move(b.t.Context(), []dlqbridge.Step{{From: from, To: next}})[0]; err != nil {
			b.t.Fatal(err)
		}
	}
}

var chargedStep = step("succeeded", row{"receipt": "ch_1", "step_id": "0003#charge"})

// standings are records as people meet them: every status, and of some those
// that differ in what is possible.
var standings = map[string]struct {
	status string
	make   func(b *bench, tasks []string) []string
}{
	"received, by a later version": {"received", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, nil, tasks)
		b.force(ids, dlqbridge.StatusReceived)
		return ids
	}},
	"safe to send": {"classified", func(b *bench, tasks []string) []string { return b.many("orders", intent, nil, tasks) }},
	"bad input": {"awaiting_input_correction", func(b *bench, tasks []string) []string {
		return b.many("orders", intent, row{"cause": "invalid_input"}, tasks)
	}},
	"no permission": {"awaiting_technical_owner", func(b *bench, tasks []string) []string {
		return b.many("orders", intent, row{"cause": "permission"}, tasks)
	}},
	"charged": {"awaiting_operational_decision", func(b *bench, tasks []string) []string {
		return b.many("orders", intent, nil, tasks, chargedStep)
	}},
	"charged and fixed, nowhere to undo it": {"awaiting_operational_decision", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, nil, tasks, chargedStep)
		b.all(ids, "fix", "--fix", "deploy:1", "--reason", "x")
		return ids
	}},
	"to be compensated": {"awaiting_operational_decision", func(b *bench, tasks []string) []string {
		return b.many("undoing", intent, nil, tasks, chargedStep)
	}},
	"to be compensated, with a fix": {"awaiting_operational_decision", func(b *bench, tasks []string) []string {
		ids := b.many("undoing", intent, nil, tasks, chargedStep)
		b.all(ids, "fix", "--fix", "deploy:1", "--reason", "x")
		return ids
	}},
	"expired": {"awaiting_operational_decision", func(b *bench, tasks []string) []string {
		return b.many("orders", intent, row{"vu": time.Now().Add(-time.Hour).Format(time.RFC3339)}, tasks)
	}},
	"expired since": {"fix_validated", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, row{"vu": time.Now().Add(time.Hour).Format(time.RFC3339)}, tasks)
		b.all(ids, "fix", "--fix", "deploy:1", "--reason", "x")
		time.Sleep(2 * time.Hour) // virtual
		return ids
	}},
	"nobody knows": {"under_investigation", func(b *bench, tasks []string) []string { return b.many("orders", nil, nil, tasks) }},
	"unclassified": {"under_investigation", func(b *bench, tasks []string) []string {
		return b.many("orders", intent, row{"cause": "", "code": ""}, tasks)
	}},
	"critical": {"incident_open", func(b *bench, tasks []string) []string {
		return b.many("orders", intent, row{"cause": "critical"}, tasks)
	}},
	"critical, with a fix": {"incident_open", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, row{"cause": "critical"}, tasks)
		b.all(ids, "fix", "--fix", "deploy:1", "--reason", "x")
		return ids
	}},
	"critical and looked at": {"under_investigation", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, row{"cause": "critical"}, tasks)
		b.all(ids, append([]string{"close-incident"}, said...)...)
		b.all(ids, "fix", "--fix", "deploy:1", "--reason", "x")
		return ids
	}},
	"an incident by a person": {"incident_open", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, nil, tasks)
		b.all(ids, "fix", "--fix", "deploy:1", "--reason", "x")
		b.all(ids, "open-incident", "--reason", "x")
		return ids
	}},
	"fixed": {"fix_validated", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, nil, tasks)
		b.all(ids, "fix", "--fix", "deploy:1", "--reason", "x")
		return ids
	}},
	"authorised": {"authorized", authorisedAll},
	"sent": {"redriving", func(b *bench, tasks []string) []string {
		ids := authorisedAll(b, tasks)
		b.ok("redrive", "run", "--cause", "timeout", "--reason", "x")
		return ids
	}},
	"in doubt": {"redriving", func(b *bench, tasks []string) []string {
		ids := authorisedAll(b, tasks)
		if _, err := b.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: "SendMessageBatch", Times: -1, Do: "drop_before"}); err != nil {
			b.t.Fatal(err)
		}
		b.want(3, "redrive", "run", "--cause", "timeout", "--reason", "x")
		b.cloud.ClearFaults()
		return ids
	}},
	"completed": {"completed", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, nil, tasks)
		for _, task := range tasks {
			b.ledger(task, "task", with(intent, row{"status": "completed"}))
		}
		b.all(ids, "investigate", "--reason", "x")
		return ids
	}},
	"completed by hand": {"completed_manually", func(b *bench, tasks []string) []string {
		ids := b.many("orders", nil, nil, tasks)
		b.all(ids, append([]string{"complete-manually"}, said...)...)
		return ids
	}},
	"undone": {"compensated", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, nil, tasks, chargedStep)
		b.all(ids, append([]string{"compensated"}, said...)...)
		return ids
	}},
	"rejected": {"rejected", rejectedAll},
	"rejected, and come again": {"rejected", func(b *bench, tasks []string) []string {
		ids := rejectedAll(b, tasks)
		b.many("orders", nil, nil, tasks)
		return ids
	}},
	"cancelled": {"cancelled_expired", func(b *bench, tasks []string) []string {
		ids := b.many("orders", intent, row{"vu": time.Now().Add(-time.Hour).Format(time.RFC3339)}, tasks)
		b.all(ids, "cancel-expired", "--reason", "x")
		return ids
	}},
}

func authorisedAll(b *bench, tasks []string) []string {
	ids := b.many("orders", intent, nil, tasks)
	b.all(ids, "fix", "--fix", "deploy:1", "--reason", "x")
	b.all(ids, "authorize", "--reason", "x")
	return ids
}

func rejectedAll(b *bench, tasks []string) []string {
	ids := b.many("orders", nil, nil, tasks)
	b.all(ids, "reject", "--reason", "x")
	return ids
}

var triageWords = regexp.MustCompile(`triage ([a-z-]+)`)

// What is offered on a record works when it is typed, what is not is refused, and
// the refusal offers the same: over every status that the table knows, by every
// person's move.
func TestWhatIsOfferedWorks(t *testing.T) {
	var verbs []dlqbridge.Verb
	for _, rule := range dlqbridge.Moves() {
		if rule.Person {
			verbs = append(verbs, rule.Verb)
		}
	}
	seen := map[string]bool{}
	for name, s := range standings {
		seen[s.status] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, manyRoutes, []string{"orders", "undoing", "undo"}, func(b *bench) {
				var tasks []string
				for _, v := range verbs {
					tasks = append(tasks, "t-"+string(v))
				}
				ids := s.make(b, tasks)
				flags := map[dlqbridge.Verb][]string{
					"assign": {"--owner", "payments"}, "classify": {"--cause", "permission"}, "settle-effect": {"--to", "none_confirmed", "--all-steps"},
					"settle-send": {"--to", "not-sent"}, "fix": {"--fix", "deploy:9"}, "snooze": {"--until", "4h"}, "repair": {"--patch", b.patchFile(`{"n":2}`)},
				}
				for i, v := range verbs {
					offered := b.offered(s.status, ids[i])
					rule, _ := v.Rule()
					typed := slices.Concat([]string{"triage", string(v), ids[i], "--reason", "looked"}, flags[v])
					if rule.Evidence {
						typed = append(typed, "--evidence", "ticket 7")
					}
					if slices.Contains(offered, string(v)) {
						if c := b.run(typed...); c.code != 0 {
							t.Errorf("%s is offered and does not work: exit %d\n%s%s", v, c.code, c.stdout, c.stderr)
						}
						continue
					}
					r := document[refused](b, 1, typed...)
					_, list, any := strings.Cut(r.Error.Message, "possible now: ")
					if r.Error.Code != "move_refused" || list != strings.Join(offered, ", ") || !any && len(offered) > 0 {
						t.Errorf("%s is refused by %q, and %v are offered", v, r.Error.Message, offered)
					}
				}
			})
		})
	}
	for _, s := range dlqbridge.Statuses() {
		if !seen[string(s)] {
			t.Errorf("no record of status %s was tried", s)
		}
	}
}

// offered is what `records explain` offers, in each of its forms.
func (b *bench) offered(status, id string) []string {
	b.t.Helper()
	e := document[struct {
		Status        string
		Verbs, Change []string
	}](b, 0, "records", "explain", id)
	if e.Status != status {
		b.t.Fatalf("it is %s, not %s", e.Status, status)
	}
	if text := b.ok("records", "explain", id).stdout; len(e.Verbs) > 0 && !strings.HasSuffix(text, "\n  "+strings.Join(e.Verbs, ", ")+"\n") {
		b.t.Errorf("%v are not what is written:\n%s", e.Verbs, text)
	}
	for _, line := range e.Change {
		for _, word := range triageWords.FindAllStringSubmatch(line, -1) {
			if !slices.Contains(e.Verbs, word[1]) {
				b.t.Errorf("triage %s is not possible, and yet advised: %s", word[1], line)
			}
		}
	}
	return e.Verbs
}

// Some offers are for some records only.
func TestWhatIsOfferedWhere(t *testing.T) {
	only := map[string][]string{
		"settle-send":    {"in doubt"},
		"reopen":         {"completed by hand", "rejected", "cancelled"},
		"cancel-expired": {"expired", "expired since"},
		"close-incident": {"critical", "critical, with a fix", "an incident by a person"},
		"authorize":      {"fixed", "to be compensated, with a fix", "critical, with a fix", "critical and looked at"},
		"compensated":    {"nobody knows", "charged", "charged and fixed, nowhere to undo it", "to be compensated", "to be compensated, with a fix"},
	}
	for name, s := range standings {
		t.Run(name, func(t *testing.T) {
			inBubble(t, manyRoutes, []string{"orders", "undoing", "undo"}, func(b *bench) {
				offered := b.offered(s.status, s.make(b, []string{"t-1"})[0])
				for verb, where := range only {
					if got, want := slices.Contains(offered, verb), slices.Contains(where, name); got != want {
						t.Errorf("%s is offered: %v", verb, got)
					}
				}
			})
		})
	}
}

// Where the decision is to compensate, the command that does it is named, and
// whoever types it among the verbs is told.
func TestCompensationsAreFound(t *testing.T) {
	inBubble(t, manyRoutes, []string{"orders", "undoing", "undo"}, func(b *bench) {
		id := standings["to be compensated"].make(b, []string{"t-1"})[0]
		if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "redrive run --action compensate --fix KIND:TEXT does both") {
			t.Error(text)
		}
		if c := b.run("triage", "compensate", id, "--reason", "x"); c.code != 2 || !strings.Contains(c.stderr, "redrive run --action compensate") || !strings.Contains(c.stderr, "triage compensated") {
			t.Errorf("exit %d: %s", c.code, c.stderr)
		}
		if run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout", "--action", "compensate"}, fixed...)...); run.Sent != 1 {
			t.Errorf("%+v", run)
		}
		if b.receive("undo") == nil {
			t.Error("nothing was sent")
		}
	})
}

// Who looks again has the record authorised again: it was authorised on what was
// known before.
func TestAPersonsLookTakesAnAuthorisationBack(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := authorisedAll(b, []string{"t-1"})[0]
		if got := b.triage(0, "investigate", id, "--reason", "x").Records[0]; got.Status != "fix_validated" || !strings.Contains(got.Note, "it has lapsed") {
			t.Errorf("%+v", got)
		}
		if run := document[runDoc](b, 0, "redrive", "run", "--cause", "timeout", "--reason", "x", "--fix", "deploy:1"); run.Sent != 1 {
			t.Errorf("%+v", run)
		}
	})
}
