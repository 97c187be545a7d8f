package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
)

type groupsDoc struct {
	ClosedCounted bool
	Groups        []struct {
		Signature, Cause, FirstSeen string
		Count                       int
		Versions                    struct{ Agent, Workflow map[string]int }
		FirstVersion                *struct{ Agent, Workflow string }
		Fixes                       []struct {
			Fix                                        string
			Records, FailuresBefore, FailuresAfter     int
			Redrives, Completed, Recurred, Unconfirmed int
		}
	}
}

func TestGroupsTellTheFirstVersionAndWhatAFixWasWorth(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, row{"av": "1.4.1", "wv": "12"}, "back", "fine")
		first := document[groupsDoc](b, 0, "records", "groups").Groups
		if len(first) != 1 || first[0].FirstVersion == nil || first[0].FirstVersion.Agent != "1.4.1" || first[0].FirstVersion.Workflow != "12" || first[0].Fixes != nil {
			t.Fatalf("got %+v", first)
		}
		time.Sleep(time.Minute) // virtual
		run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		if run.Sent != 2 {
			t.Fatalf("got %+v", run)
		}
		b.ledger("fine", "task", with(intent, row{"status": "completed", "redrive_n": 1, "updated_at": time.Now(), "run_id": "run-2"}))
		b.ok("redrive", "observe")
		b.status("completed", ids["fine"])
		for _, m := range []*types.Message{b.receive("orders"), b.receive("orders")} {
			if m == nil {
				t.Fatal("not sent")
			}
			if strings.Contains(*m.Body, "back") { // it dies again, as it came
				b.sendAgain("orders", m)
			}
		}
		b.die("orders")
		b.ok("intake", "--until-empty")
		b.tasks(intent, row{"av": "1.4.2", "wv": "12"}, "new")

		all := document[groupsDoc](b, 0, "records", "groups", "--all", "--fixes")
		got := all.Groups
		if len(got) != 1 || got[0].Count != 3 || got[0].FirstSeen != first[0].FirstSeen || got[0].FirstVersion == nil || got[0].FirstVersion.Agent != "1.4.1" {
			t.Fatalf("got %+v", got)
		}
		if v := got[0].Versions; v.Agent["1.4.1"] != 2 || v.Agent["1.4.2"] != 1 || v.Workflow["12"] != 3 {
			t.Errorf("versions: got %+v", v)
		}
		if len(got[0].Fixes) != 1 {
			t.Fatalf("fixes: got %+v", got[0].Fixes)
		}
		f := got[0].Fixes[0]
		if f.Fix != "deploy:1.4.2" || f.Records != 2 || f.FailuresBefore != 2 || f.FailuresAfter != 2 || f.Redrives != 2 || f.Completed != 1 || f.Recurred != 1 || f.Unconfirmed != 0 {
			t.Errorf("got %+v", f)
		}
		if c := b.ok("records", "groups", "--all", "--fixes"); !strings.Contains(c.stdout, "fix deploy:1.4.2 of ") || !strings.Contains(c.stdout, "2 failures before it, 2 after it; 2 redrives under it: 1 completed, 1 came back") || strings.Contains(c.stdout, "not counted") {
			t.Errorf("got\n%s", c.stdout)
		}
		// What completed is closed: who does not ask for it is told that it is missing.
		open := document[groupsDoc](b, 0, "records", "groups", "--fixes")
		if f := open.Groups[0].Fixes; !all.ClosedCounted || open.ClosedCounted || len(f) != 1 || f[0].Redrives != 1 || f[0].Completed != 0 {
			t.Errorf("got %+v", open)
		}
		text := b.ok("records", "groups", "--fixes").stdout
		if !strings.Contains(text, "1 redrive under it: 1 came back") || strings.Contains(text, "completed") || !strings.Contains(text, "closed records are not counted") {
			t.Errorf("got\n%s", text)
		}
		for _, args := range [][]string{{"--tenant", "nobody", "--fixes"}, {}} {
			if text := b.ok(append([]string{"records", "groups"}, args...)...).stdout; strings.Contains(text, "not counted") != (len(args) > 0) {
				t.Errorf("%v: got\n%s", args, text)
			}
		}
	})
}

type regroupedDoc struct {
	Looked              int
	DryRun              bool
	Regrouped, Excluded []struct{ ID, From, To, Reason string }
}

func TestRegroupGivesOldRecordsTheSignatureOfToday(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "old", "held", "today")
		b.triage(0, "fix", ids["old"], "--fix", "deploy:1", "--reason", "x")
		b.triage(0, "authorize", ids["old"], "--reason", "x")
		want := b.signedBefore(ids["old"], "sg_old")
		b.signedBefore(ids["held"], "sg_stopped")
		hold := document[struct{ ID string }](b, 0, "hold", "add", "--signature", "sg_stopped", "--reason", "looked at")

		dry := document[regroupedDoc](b, 3, "records", "regroup", "--dry-run")
		if !dry.DryRun || dry.Looked != 2 || len(dry.Regrouped) != 1 || len(dry.Excluded) != 1 {
			t.Fatalf("got %+v", dry)
		}
		before := b.show(ids["old"])
		if c := b.ok("records", "list", "--signature", "sg_old"); !strings.Contains(c.stdout, ids["old"]) {
			t.Errorf("a dry run has moved it:\n%s", c.stdout)
		}
		done := document[regroupedDoc](b, 3, "records", "regroup")
		if r := done.Regrouped; len(r) != 1 || r[0].ID != ids["old"] || r[0].From != "sg_old" || r[0].To != want {
			t.Errorf("got %+v", done)
		}
		if x := done.Excluded; len(x) != 1 || x[0].ID != ids["held"] || x[0].Reason != "held" {
			t.Errorf("got %+v", done)
		}
		after := b.show(ids["old"])
		if after.Version != before.Version+1 || after.Status != "authorized" || after.Decision.Action != before.Decision.Action {
			t.Errorf("got %+v, was %+v", after, before)
		}
		if c := b.ok("records", "list", "--signature", want); !strings.Contains(c.stdout, ids["old"]) || !strings.Contains(c.stdout, ids["today"]) {
			t.Errorf("the group is not whole:\n%s", c.stdout)
		}
		if c := b.ok("records", "history", ids["old"]); !strings.Contains(c.stdout, "regroup") || !strings.Contains(c.stdout, "it was sg_old") {
			t.Errorf("history says nothing of it:\n%s", c.stdout)
		}

		b.ok("hold", "remove", hold.ID, "--reason", "x")
		if again := document[regroupedDoc](b, 0, "records", "regroup", "--route", "orders"); len(again.Regrouped) != 1 || again.Looked != 1 {
			t.Errorf("got %+v", again)
		}
		if c := b.ok("records", "regroup"); !strings.Contains(c.stdout, "0 records signed by other rules") {
			t.Errorf("got\n%s", c.stdout)
		}
		// It is still authorised, and sent once.
		run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout", "--signature", want}, fixed...)...)
		if run.Sent != 3 {
			t.Errorf("got %+v", run)
		}
	})
}

// signedBefore gives a record a signature as older rules would have, and
// returns the one that it had.
func (b *bench) signedBefore(id, signature string) string {
	b.t.Helper()
	s, err := awsdynamodb.New(awsdynamodb.Options{Client: b.tables, Records: "dlqbridge-records", Payloads: "dlqbridge-payloads", Shards: 8, Now: time.Now})
	if err != nil {
		b.t.Fatal(err)
	}
	all, err := s.Read(b.t.Context(), []string{id})
	if err != nil {
		b.t.Fatal(err)
	}
	from := all[id]
	to := from
	to.Version, to.Signature, to.Signed.Rule = from.Version+1, signature, 0
	to.Move = dlqbridge.Move{Version: to.Version, At: time.Now(), By: "test", Verb: dlqbridge.VerbAssign, From: from.Status, To: from.Status}
	if err := s.Move(b.t.Context(), []dlqbridge.Step{{From: from, To: to}})[0]; err != nil {
		b.t.Fatal(err)
	}
	return from.Signature
}

// A signature says nothing to a person, so a group says what failed.
func TestGroupsSayWhatFailed(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(nil, row{"step": "0003#charge", "tool": "charge_card", "dep": "payments", "msg": "payments did not answer within 30 s\x1b[2J, neither at the second time nor at the third"}, "a", "b")
		b.send("orders", "no JSON", nil)
		b.die("orders")
		b.ok("intake", "--until-empty")
		type failure struct{ Step, Tool, Dependency, Code, Message *string }
		got := document[struct {
			Groups []struct {
				Count   int
				Failure *failure
			}
		}](b, 0, "records", "groups")
		if len(got.Groups) != 2 || got.Groups[0].Count != 2 || got.Groups[0].Failure == nil || got.Groups[1].Failure == nil {
			t.Fatalf("got %+v", got)
		}
		for what, pair := range map[string][2]*string{
			"step": {got.Groups[0].Failure.Step, new("0003#charge")}, "tool": {got.Groups[0].Failure.Tool, new("charge_card")},
			"dependency": {got.Groups[0].Failure.Dependency, new("payments")}, "code": {got.Groups[0].Failure.Code, new("ETIMEDOUT")},
		} {
			if pair[0] == nil || *pair[0] != *pair[1] {
				t.Errorf("%s: got %v, want %s", what, pair[0], *pair[1])
			}
		}
		if *got.Groups[1].Failure != (failure{}) {
			t.Errorf("what nobody said is unknown: got %+v", got.Groups[1].Failure)
		}
		text := b.ok("records", "groups").stdout
		harmless(t, "groups", text)
		if want := `bill 0003#charge charge_card payments ETIMEDOUT "payments did not answer within 30 s`; !strings.Contains(text, want) || strings.Contains(text, "at the third") {
			t.Errorf("got\n%s", text)
		}
	})
}
