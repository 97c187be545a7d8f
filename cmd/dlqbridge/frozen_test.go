package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

type shownPlan struct {
	planDoc
	NeedsSecondPerson bool
	Approvals         []struct{ By, At, Until, Reason string }
}

// A command that is shown can be pasted whatever the file is called.
func TestThePlanFileIsQuotedForTheShell(t *testing.T) {
	inBubble(t, wantsTwo, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1")
		plan := b.file(b.ok(append([]string{"redrive", "plan", "--cause", "timeout", "--for-approval", "-o", "json"}, fixed...)...).stdout)
		file := filepath.Join(filepath.Dir(plan), "it's a;$(touch pwn).json")
		if err := os.Rename(plan, file); err != nil {
			t.Fatal(err)
		}
		quoted := "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
		show := func(then ...string) {
			t.Helper()
			text := b.ok("redrive", "plan", "--plan", file).stdout
			for _, command := range then {
				if !strings.Contains(text, "dlqbridge redrive "+command+" --plan "+quoted+" --reason …\n") {
					t.Errorf("no %s in %s", command, text)
				}
			}
		}
		show("approve", "run")
		b.person = "bob"
		if text := b.ok("redrive", "approve", "--plan", file, "--reason", "x").stdout; !strings.Contains(text, "dlqbridge redrive run --plan "+quoted+" --reason …\n") {
			t.Error(text)
		}
		show("run")
	})
}

// A plan file is shown as the plan was, without planning anew, and with who has
// approved it so far; what a run refuses as a whole is not shown either.
func TestAPlanFileIsShownAsItWasMade(t *testing.T) {
	inBubble(t, wantsTwo, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2")
		b.tasks(nil, nil, "silent")
		plan := append([]string{"redrive", "plan", "--cause", "timeout", "--for-approval"}, fixed...)
		text := b.ok(plan...).stdout
		written := b.ok(append(plan, "-o", "json")...)
		if !strings.Contains(written.stderr, "it needs a second person: it was made for approval") || !strings.Contains(written.stderr, "redrive approve --plan FILE") {
			t.Errorf("whoever writes the file is told %q", written.stderr)
		}
		file := b.file(written.stdout)
		show := []string{"redrive", "plan", "--plan", file}
		plain := func(text string) string { // all but what to type, which names another file
			return regexp.MustCompile(`(?m)^  (write it|another person|then run it): .*\n`).ReplaceAllString(text, "")
		}
		shown := b.ok(show...).stdout
		if plain(shown) != plain(text) || !strings.Contains(shown, "nobody has so far") || !strings.Contains(shown, "dlqbridge redrive approve --plan "+file) {
			t.Errorf("it was planned as\n%s\nand is shown as\n%s", text, shown)
		}
		// What is signed stands there before anybody signs.
		if !strings.HasPrefix(shown, "2 records of cause timeout, fix deploy:1.4.2\n") {
			t.Error(shown)
		}
		if again := b.ok(append(show, "-o", "json")...).stdout; again != written.stdout {
			t.Errorf("written %s\nshown %s", written.stdout, again)
		}
		// Nothing is planned anew: one of them has moved since.
		b.triage(0, "assign", ids["t-2"], "--owner", "payments", "--reason", "theirs")
		if p := document[shownPlan](b, 0, show...); p.Selected != 2 || !p.NeedsSecondPerson || p.Approvals == nil || len(p.Approvals) != 0 {
			t.Errorf("%+v", p)
		}
		b.person = "bob"
		approve := []string{"redrive", "approve", "--plan", file, "--reason", "read it"}
		c := b.ok(approve...)
		for _, want := range []string{
			"2 records of cause timeout, fix deploy:1.4.2\n", "2 retry → arn:aws:sqs:us-east-1:000000000000:orders\n", "at 20/s, no canary; 1 excluded\n", "approved by arn:aws:iam::000000000000:user/bob until ",
		} {
			if !strings.Contains(c.stdout, want) {
				t.Errorf("%q is not in what was signed:\n%s", want, c.stdout)
			}
		}
		signed := document[struct {
			Cause, Rate        string
			Fix                struct{ Kind, Text string }
			Selected, Excluded int
			ByAction           []struct {
				Action, Destination string
				Records             int
			}
		}](b, 0, approve...)
		if signed.Cause != "timeout" || signed.Rate != "20/s" || signed.Fix.Text != "1.4.2" || signed.Selected != 2 || signed.Excluded != 1 || len(signed.ByAction) != 1 || signed.ByAction[0].Records != 2 {
			t.Errorf("%+v", signed)
		}
		b.person = "ann"
		p := document[shownPlan](b, 0, show...)
		if len(p.Approvals) != 1 || p.Approvals[0].By != "arn:aws:iam::000000000000:user/bob" || p.Approvals[0].Reason != "read it" || p.Approvals[0].Until <= p.Approvals[0].At {
			t.Errorf("%+v", p.Approvals)
		}
		if text := b.ok(show...).stdout; !strings.Contains(text, "approved by arn:aws:iam::000000000000:user/bob on ") || !strings.Contains(text, "redrive run --plan "+file) || strings.Contains(text, "redrive approve") {
			t.Error(text)
		}
		// What a file says about approvals is nobody's word.
		forged := b.file(strings.Replace(written.stdout, `"approvals": []`, `"approvals": [{"by": "carol", "at": "2026-01-01T00:00:00.000Z", "until": "2099-01-01T00:00:00.000Z", "reason": "ok"}]`, 1))
		if p := document[shownPlan](b, 0, "redrive", "plan", "--plan", forged); len(p.Approvals) != 1 || strings.Contains(p.Approvals[0].By, "carol") {
			t.Errorf("forged: %+v", p.Approvals)
		}
		b.file(written.stdout)
		for name, args := range map[string][]string{
			"--cause contradicts --plan":        {"--cause", "timeout"},
			"--for-approval contradicts --plan": {"--for-approval"},
			"--observe-for says nothing":        {"--observe-for", "20m"},
		} {
			if c := b.run(append(show, args...)...); c.code != 2 || !strings.Contains(c.stderr, name) {
				t.Errorf("%s: exit %d: %s", name, c.code, c.stderr)
			}
		}
		for name, change := range map[string]func(string) string{
			"changed after it was made": func(s string) string { return strings.Replace(s, "20/s", "21/s", 1) },
			"plan file":                 func(s string) string { return s[:len(s)/2] },
			"unknown field":             func(s string) string { return strings.Replace(s, `"selected"`, `"chosen"`, 1) },
		} {
			if c := b.run("redrive", "plan", "--plan", b.file(change(written.stdout))); c.code != 2 || !strings.Contains(c.stderr, name) || c.stdout != "" {
				t.Errorf("%s: exit %d: %s%s", name, c.code, c.stdout, c.stderr)
			}
		}
		b.env["DLQBRIDGE_TABLES_RECORDS"] = "elsewhere"
		if c := b.run("redrive", "plan", "--plan", b.file(written.stdout)); c.code == 0 || !strings.Contains(c.stderr, "it was made for") {
			t.Errorf("another environment's: exit %d: %s", c.code, c.stderr)
		}
	})
}

// A plan says that so many records need a second person and what to type, in
// the order in which it works.
func TestAPlanSaysThatItNeedsASecondPerson(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1", "t-2")
		plan := append([]string{"redrive", "plan", "--cause", "timeout"}, fixed...)
		if text := b.ok(plan...).stdout; strings.Contains(text, "second person") {
			t.Error(text)
		}
		if p := document[shownPlan](b, 0, plan...); p.NeedsSecondPerson {
			t.Errorf("%+v", p)
		}
		b.env["DLQBRIDGE_REDRIVE_SECOND_PERSON_FROM"] = "2"
		if text := b.ok(append(plan, "--max", "1")...).stdout; strings.Contains(text, "second person") {
			t.Error(text)
		}
		text := b.ok(plan...).stdout
		if !strings.Contains(text, "it needs a second person: it sends 2 records, and from 2 on (redrive.second_person_from)") {
			t.Error(text)
		}
		typed := regexp.MustCompile(`(?m)^  [a-z ]+: +(this command with -o json > plan\.json|dlqbridge redrive (approve|run) --plan plan\.json --reason …)$`).FindAllStringSubmatch(text, -1)
		if len(typed) != 3 || typed[1][2] != "approve" || typed[2][2] != "run" {
			t.Fatalf("%q in\n%s", typed, text)
		}
		written := b.ok(append(plan, "-o", "json")...)
		file := b.file(written.stdout)
		if p := document[shownPlan](b, 0, "redrive", "plan", "--plan", file); !p.NeedsSecondPerson {
			t.Errorf("%+v", p)
		}
		if c := b.run("redrive", "run", "--plan", file, "--reason", "x"); c.code != 1 {
			t.Errorf("alone: exit %d", c.code)
		}
		b.person = "bob"
		b.ok("redrive", "approve", "--plan", file, "--reason", "read")
		b.person = "ann"
		// The same plan made again is the one that was approved.
		if text := b.ok(plan...).stdout; !strings.Contains(text, "approved by arn:aws:iam::000000000000:user/bob") || strings.Contains(text, "redrive approve") {
			t.Error(text)
		}
		if r := document[runDoc](b, 0, "redrive", "run", "--plan", file, "--reason", "agreed"); r.Sent != 2 {
			t.Errorf("%+v", r)
		}
	})
}
