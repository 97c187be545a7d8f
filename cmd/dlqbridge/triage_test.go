package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
)

const oneRoute = `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, stores: [message, ledger]}
`

type movedDoc struct {
	Records []struct {
		ID, Status, Action, Note string
		Version                  int
		Error                    *struct{ Code, Message string }
	}
}

type historyDoc struct {
	History []struct {
		Version                                         int
		By, Verb                                        string
		From, Reason, Evidence, ActorNote, Owner, Cause *string
		To                                              string
		N                                               int
		Fix                                             *struct{ Kind, Text string }
		Findings                                        []struct{ Step, State string }
		Approval                                        bool
	}
}

// tasks makes a record for each task with these facts and ledger header.
func (b *bench) tasks(header, facts row, names ...string) map[string]string {
	b.t.Helper()
	for _, n := range names {
		b.send("orders", `{"task":"`+n+`"}`, with(row{"v": 1, "task": n, "type": "bill", "cause": "timeout", "code": "ETIMEDOUT"}, facts))
		if header != nil {
			b.ledger(n, "task", header)
		}
	}
	b.die("orders")
	b.ok("intake", "--until-empty")
	return b.byTask()
}

// said is what a move that states a fact needs.
var said = []string{"--reason", "looked", "--evidence", "ticket 7"}

func (b *bench) triage(code int, verb, id string, args ...string) movedDoc {
	b.t.Helper()
	return document[movedDoc](b, code, append([]string{"triage", verb, id}, args...)...)
}

func (b *bench) status(want, id string) {
	b.t.Helper()
	if got := b.show(id).Status; got != want {
		b.t.Errorf("status %s, want %s", got, want)
	}
}

func TestEveryVerbMovesAndIsWrittenDown(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(nil, nil, "t-1", "t-2", "t-3", "t-4", "t-5")
		id := ids["t-1"]

		b.triage(0, "assign", id, "--owner", "payments", "--reason", "theirs")
		if o := b.show(id).Decision.Owner; o == nil || *o != "payments" {
			t.Errorf("owner %v", o)
		}
		b.triage(0, "snooze", id, "--until", "48h", "--reason", "vendor")
		b.triage(0, "classify", id, "--cause", "permission", "--reason", "a 403 in disguise")
		if r := b.show(id); r.Failure.Cause != "permission" || r.Status != "under_investigation" {
			t.Errorf("after classify: %+v", r)
		}
		// The worker writes late that nothing began.
		b.ledger("t-1", "task", intent)
		b.triage(0, "investigate", id, "--reason", "the ledger is complete now")
		b.status("awaiting_technical_owner", id)
		b.triage(0, "fix", id, "--fix", "credential:key-7", "--reason", "rotated")
		b.status("fix_validated", id)
		b.triage(0, "authorize", id, "--reason", "go")
		b.status("authorized", id)
		b.triage(0, "open-incident", id, "--reason", "wait, customer data")
		b.status("incident_open", id)
		b.triage(0, "close-incident", id, said...)
		b.status("under_investigation", id)
		b.triage(0, "complete-manually", id, said...)
		b.status("completed_manually", id)

		b.triage(0, "settle-effect", ids["t-2"], append([]string{"--to", "none_confirmed", "--all-steps"}, said...)...)
		if r := b.show(ids["t-2"]); r.Effect.State != "none_confirmed" || r.Decision.Action != "retry" {
			t.Errorf("after settle-effect none: %+v", r)
		}
		b.triage(0, "settle-effect", ids["t-3"], append([]string{"--to", "confirmed", "--all-steps"}, said...)...)
		if r := b.show(ids["t-3"]); r.Decision.Action != "compensate" {
			t.Errorf("after settle-effect confirmed: %+v", r)
		}
		b.triage(0, "compensated", ids["t-3"], said...)
		b.status("compensated", ids["t-3"])

		b.triage(0, "reject", ids["t-4"], "--reason", "duplicate")
		b.status("rejected", ids["t-4"])
		if r := b.show(ids["t-4"]); r.Payload.ExpiresAt == nil || r.Decision.Action != "none" {
			t.Errorf("after reject: %+v", r)
		}
		b.triage(0, "reopen", ids["t-4"], "--reason", "it was none")
		b.status("under_investigation", ids["t-4"])

		h := document[historyDoc](b, 0, "records", "history", id).History
		var verbs []string
		for i, e := range h {
			verbs = append(verbs, e.Verb)
			if e.Version != i+1 {
				t.Errorf("entry %d has version %d", i, e.Version)
			}
			if i > 0 && (e.Reason == nil || e.By != "arn:aws:iam::000000000000:user/ann") {
				t.Errorf("entry %d: %+v", i, e)
			}
		}
		want := "receive assign snooze classify investigate fix authorize open-incident close-incident complete-manually"
		if got := strings.Join(verbs, " "); got != want {
			t.Errorf("history\n got %s\nwant %s", got, want)
		}
	})
}

func TestWrongVerbSaysWhatIsPossible(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.tasks(nil, nil, "t-1")["t-1"]
		for verb, args := range map[string][]string{
			"reopen": {"--reason", "x"}, "settle-send": append([]string{"--to", "sent"}, said...), "close-incident": said, "cancel-expired": {"--reason", "x"},
		} {
			r := document[refused](b, 1, append([]string{"triage", verb, id}, args...)...)
			if r.Error.Code != "move_refused" || !strings.Contains(r.Error.Message, "possible now: ") || !strings.Contains(r.Error.Message, "investigate") {
				t.Errorf("%s: %+v", verb, r)
			}
		}
		// Unknown effect: no authorisation, and the reason is said.
		r := document[refused](b, 1, "triage", "authorize", id, "--reason", "please")
		if !strings.Contains(r.Error.Message, "effect_unknown") && !strings.Contains(r.Error.Message, "not_authorized") {
			t.Errorf("authorize: %+v", r)
		}
		b.triage(0, "reject", id, "--reason", "x")
		r = document[refused](b, 1, "triage", "fix", id, "--fix", "deploy:2", "--reason", "x")
		if !strings.Contains(r.Error.Message, "possible now: reopen") {
			t.Errorf("fix on a rejected record: %+v", r)
		}
		r = document[refused](b, 1, "triage", "reject", "r_aaaaaaaaaaaaaaaaaaaaaaaaaa", "--reason", "x")
		if r.Error.Code != "not_found" || r.Error.Message != "there is no record r_aaaaaaaaaaaaaaaaaaaaaaaaaa" {
			t.Errorf("unknown id: %+v", r)
		}
	})
}

func TestManyRecordsEachForItself(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2")
		b.triage(0, "reject", ids["t-2"], "--reason", "x")
		gone := "r_aaaaaaaaaaaaaaaaaaaaaaaaaa"
		got := document[movedDoc](b, 3, "triage", "fix", ids["t-1"], ids["t-2"], gone, ids["t-1"], "--fix", "deploy:2", "--reason", "x")
		if len(got.Records) != 3 || got.Records[0].Status != "fix_validated" || got.Records[1].Error == nil || got.Records[2].Error == nil || got.Records[2].Error.Code != "not_found" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestWhatAPersonMustWrite(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.tasks(nil, nil, "t-1")["t-1"]
		long := strings.Repeat("é", 251)
		for name, args := range map[string][]string{
			"no reason":            {"reject", id},
			"blank reason":         {"reject", id, "--reason", " "},
			"reason too long":      {"reject", id, "--reason", long},
			"no evidence":          {"complete-manually", id, "--reason", "x"},
			"evidence too long":    {"complete-manually", id, "--reason", "x", "--evidence", strings.Repeat("x", 2001)},
			"no record":            {"reject", "--reason", "x"},
			"no id":                {"reject", "order-7", "--reason", "x"},
			"no owner":             {"assign", id, "--reason", "x"},
			"no cause":             {"classify", id, "--reason", "x"},
			"unknown cause":        {"classify", id, "--cause", "timeuot", "--reason", "x"},
			"free text is no fix":  {"fix", id, "--fix", "we deployed", "--reason", "x"},
			"unknown kind of fix":  {"fix", id, "--fix", "deployment:1", "--reason", "x"},
			"no step":              append([]string{"settle-effect", id, "--to", "confirmed"}, said...),
			"step and all steps":   append([]string{"settle-effect", id, "--to", "confirmed", "--step", "a", "--all-steps"}, said...),
			"unknown is no effect": append([]string{"settle-effect", id, "--to", "unknown", "--all-steps"}, said...),
			"settle-send maybe":    append([]string{"settle-send", id, "--to", "maybe"}, said...),
			"snooze to the past":   {"snooze", id, "--until", "1999-01-01T00:00:00Z", "--reason", "x"},
			"actor too long":       {"--actor", strings.Repeat("x", 201), "reject", id, "--reason", "x"},
		} {
			c := b.run(append([]string{"triage"}, args...)...)
			if c.code != 2 || !strings.HasPrefix(c.stderr, "dlqbridge: ") || c.stdout != "" {
				t.Errorf("%s: exit %d\n%s%s", name, c.code, c.stdout, c.stderr)
			}
		}
		if r := b.show(id); r.Version != 1 {
			t.Errorf("a refused move has moved the record: version %d", r.Version)
		}
		b.triage(0, "reject", id, "--reason", long[:500])
	})
}

func TestStepMustBeKnown(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.ledger("t-1", "step#0003#charge", step("started", nil))
		id := b.tasks(intent, nil, "t-1")["t-1"]
		r := document[refused](b, 1, append([]string{"triage", "settle-effect", id, "--to", "none_confirmed", "--step", "0003#chrage"}, said...)...)
		if !strings.Contains(r.Error.Message, "0003#charge") {
			t.Errorf("got %+v", r)
		}
		b.triage(0, "settle-effect", id, append([]string{"--to", "none_confirmed", "--step", "0003#charge"}, said...)...)
		if r := b.show(id); r.Effect.State != "none_confirmed" {
			t.Errorf("effect %+v", r.Effect)
		}
	})
}

func TestTwoPeopleForCritical(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.tasks(intent, row{"cause": "critical"}, "t-1")["t-1"]
		b.status("incident_open", id)
		// The incident closed, the record is looked at; critical stays critical.
		b.triage(0, "close-incident", id, said...)
		b.triage(0, "fix", id, "--fix", "deploy:3", "--reason", "tenants are kept apart")
		b.status("under_investigation", id)
		b.triage(0, "authorize", id, "--reason", "ann approves")
		b.status("under_investigation", id)
		b.triage(0, "authorize", id, "--reason", "ann again")
		b.status("under_investigation", id) // one person is one person

		// An OS user is nobody.
		fault, err := b.cloud.AddFault(localstack.Fault{Service: "sts", Operation: "GetCallerIdentity", Times: -1, Do: "error", Code: "AccessDenied", Status: 403})
		if err != nil {
			t.Fatal(err, fault)
		}
		r := document[refused](b, 1, "triage", "authorize", id, "--reason", "os user")
		if r.Error.Code != "move_refused" {
			t.Errorf("an OS user approves: %+v", r)
		}
		b.cloud.ClearFaults()

		b.person = "bob"
		b.triage(0, "authorize", id, "--reason", "bob approves")
		b.status("authorized", id)
		if n := len(b.show(id).Approvals); n < 2 {
			t.Errorf("%d approvals", n)
		}
	})
}

// Two open records of one task would send it twice.
func TestARecordWithANewerOneStaysClosed(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		old := b.tasks(nil, nil, "t-1")["t-1"]
		b.triage(0, "reject", old, "--reason", "x")
		newer := b.tasks(nil, nil, "t-1")["t-1"]
		r := document[refused](b, 1, "triage", "reopen", old, "--reason", "after all")
		if newer == old || r.Error.Code != "move_refused" || !strings.Contains(r.Error.Message, newer) {
			t.Errorf("old %s, newer %s: %+v", old, newer, r)
		}
		b.triage(0, "reject", newer, "--reason", "x")
		document[refused](b, 1, "triage", "reopen", old, "--reason", "after all")
		b.triage(0, "reopen", newer, "--reason", "this one")
	})
}

func TestManualCompletionIsReopenedByTwo(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.tasks(nil, nil, "t-1")["t-1"]
		b.triage(0, "complete-manually", id, said...)
		b.triage(0, "reopen", id, "--reason", "was it?")
		b.status("completed_manually", id)
		b.triage(0, "reopen", id, "--reason", "was it?")
		b.status("completed_manually", id)
		b.person = "bob"
		b.triage(0, "reopen", id, "--reason", "it was not")
		b.status("under_investigation", id)
	})
}

func TestExpiredIsCancelledOnlyWhenExpired(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.tasks(intent, row{"vu": time.Now().Add(time.Hour).Format(time.RFC3339)}, "t-1")["t-1"]
		r := document[refused](b, 1, "triage", "cancel-expired", id, "--reason", "x")
		if !strings.Contains(r.Error.Message, "makes sense until") {
			t.Errorf("got %+v", r)
		}
		time.Sleep(2 * time.Hour) // virtual
		b.triage(0, "cancel-expired", id, "--reason", "x")
		b.status("cancelled_expired", id)
	})
}

func TestActorIsWhoTheCloudSays(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(nil, nil, "t-1")
		b.cloud.ForgetRequests()
		b.ok("records", "list")
		if n := b.cloud.Counters().Calls["sts"]["GetCallerIdentity"]; n != 0 {
			t.Errorf("reading asked STS %d times", n)
		}
		b.ok("--actor", "on call", "triage", "assign", ids["t-1"], "--owner", "x", "--reason", "x")
		if _, err := b.cloud.AddFault(localstack.Fault{Service: "sts", Times: -1, Do: "error", Code: "AccessDenied", Status: 403}); err != nil {
			t.Fatal(err)
		}
		c := b.ok("triage", "assign", ids["t-1"], "--owner", "y", "--reason", "x")
		if !strings.Contains(c.stderr, "OS user os-ann") {
			t.Errorf("nobody is told: %s", c.stderr)
		}
		h := document[historyDoc](b, 0, "records", "history", ids["t-1"]).History
		if h[1].By != "arn:aws:iam::000000000000:user/ann" || h[1].ActorNote == nil || *h[1].ActorNote != "on call" || h[2].By != "os:os-ann" {
			t.Errorf("history %+v", h)
		}
	})
}

func TestMovesTableIsTheDomainsOwn(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		got := document[struct {
			Moves []struct{ Verb, By string }
		}](b, 0, "triage", "moves")
		people := 0
		for _, m := range got.Moves {
			if m.By == "person" {
				people++
				if c := b.run("triage", m.Verb, "--help"); c.code != 0 || !strings.Contains(c.stdout, "Examples:") {
					t.Errorf("triage %s --help: exit %d\n%s", m.Verb, c.code, c.stdout)
				}
			}
		}
		if people != 16 {
			t.Errorf("%d people's moves", people)
		}
		if c := b.ok("triage", "moves"); !strings.Contains(c.stdout, "settle-effect by a person (--reason, --evidence)") {
			t.Error(c.stdout)
		}
	})
}

// A mistaken statement is not contradicted but corrected: what contradicts is
// refused with who said what, and what corrects decides anew.
func TestAMistakenStatementIsCorrected(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.ledger("t-1", "step#0003#charge", step("started", nil))
		id := b.tasks(intent, nil, "t-1")["t-1"]
		settle := func(code int, more ...string) movedDoc {
			b.t.Helper()
			return b.triage(code, "settle-effect", id, append(more, said...)...)
		}
		refuse := func(more ...string) string {
			b.t.Helper()
			time.Sleep(time.Minute)
			version := b.show(id).Version
			r := document[refused](b, 1, append(append([]string{"triage", "settle-effect", id}, more...), said...)...)
			if r.Error.Code != "move_refused" || b.show(id).Version != version {
				t.Errorf("%+v", r)
			}
			return r.Error.Message
		}
		effect := func(want string) {
			b.t.Helper()
			if r := b.show(id); r.Effect.State != want {
				t.Errorf("effect %+v, want %s", r.Effect, want)
			}
		}
		charge := []string{"--step", "0003#charge"}

		if text := refuse("--to", "confirmed", "--correct", "--step", "0003#charge"); !strings.Contains(text, "nothing to correct") {
			t.Error(text)
		}
		settle(0, append(charge, "--to", "confirmed")...)
		effect("confirmed")
		for _, more := range [][]string{charge, {"--all-steps"}} {
			text := refuse(append(more, "--to", "none_confirmed")...)
			for _, want := range []string{"user/ann stated confirmed of step 0003#charge at ", "reason: looked; evidence: ticket 7", "--correct"} {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not said: %s", want, text)
				}
			}
		}
		// The same once more contradicts nobody.
		settle(0, append(charge, "--to", "confirmed")...)
		time.Sleep(time.Minute)
		if c := b.run(append([]string{"triage", "settle-effect", id, "--to", "none_confirmed", "--correct", "--step", "0003#charge"}, "--reason", "x")...); c.code != 2 {
			t.Errorf("a correction without evidence: exit %d", c.code)
		}
		settle(0, append(charge, "--to", "none_confirmed", "--correct")...)
		effect("none_confirmed")
		if text := b.ok("records", "history", id).stdout; strings.Count(text, "step 0003#charge is confirmed") != 2 || !strings.Contains(text, "step 0003#charge is none_confirmed, in place of what people stated of it before") {
			t.Error(text)
		}
		// Once more the other way, by all steps.
		refuse("--all-steps", "--to", "confirmed")
		settle(0, "--all-steps", "--to", "confirmed", "--correct")
		// The ledger says that no other step was begun, which no person corrects.
		effect("unknown")
		// And of that, one step is taken out; of the others it still speaks.
		refuse(append(charge, "--to", "none_confirmed")...)
		settle(0, append(charge, "--to", "none_confirmed", "--correct")...)
		effect("unknown")
		text := b.ok("records", "explain", id).stdout
		for _, want := range []string{"Operator on all steps but 0003#charge, which a later statement corrects: it happened", "all steps that nobody names disagree: it happened (stated by", "--correct --to none_confirmed|confirmed --all-steps"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not said in\n%s", want, text)
			}
		}
		settle(0, "--all-steps", "--to", "none_confirmed", "--correct")
		effect("none_confirmed")
	})
}

// What stores found is corrected by nobody.
func TestAReceiptIsNotCorrected(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.ledger("t-1", "step#0003#charge", step("succeeded", row{"receipt": "ch_1"}))
		id := b.tasks(intent, nil, "t-1")["t-1"]
		for _, to := range []string{"confirmed", "none_confirmed"} {
			time.Sleep(time.Minute)
			args := append([]string{"--to", to, "--step", "0003#charge"}, said...)
			if to == "none_confirmed" {
				args = append(args, "--correct")
			}
			b.triage(0, "settle-effect", id, args...)
		}
		r := b.show(id)
		if r.Effect.State != "unknown" || r.Decision.Action != "human_review" {
			t.Errorf("got %+v", r.Effect)
		}
		if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, "Those who speak of step 0003#charge") || !strings.Contains(text, "triage settle-effect --correct --to none_confirmed|confirmed --step 0003#charge") {
			t.Error(text)
		}
	})
}
