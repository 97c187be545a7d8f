package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge/localstack"
)

const wantsTwo = oneRoute + `
causes: {timeout: {second_person: true}}
`

// Ann plans and runs, Bob approves. The records, the job and the history name
// both, and the gate counts both when it judges again.
func TestAPlanIsApprovedByAnotherPerson(t *testing.T) {
	inBubble(t, wantsTwo, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2", "t-3")
		plan := append([]string{"redrive", "plan", "--cause", "timeout"}, fixed...)
		if p := document[planDoc](b, 0, plan...); p.Selected != 0 || len(p.Excluded) != 3 || p.Excluded[0].Reason != "needs_second_person" {
			t.Errorf("an everyday plan %+v", p)
		}
		text := b.ok(append(plan, "--for-approval")...).stdout
		if strings.Count(text, "by its run, with a second person") != 3 || !strings.Contains(text, "redrive approve --plan") {
			t.Error(text)
		}
		file := b.file(b.ok(append(plan, "--for-approval", "-o", "json")...).stdout)
		run := []string{"redrive", "run", "--plan", file, "--reason", "agreed"}
		approve := []string{"redrive", "approve", "--plan", file, "--reason", "read it"}
		if r := document[refused](b, 1, run...); r.Error.Code != "needs_second_person" || !strings.Contains(r.Error.Hint, "redrive approve") {
			t.Errorf("%+v", r)
		}
		b.ok(approve...)
		if r := document[refused](b, 1, run...); r.Error.Code != "needs_second_person" || !strings.Contains(r.Error.Message, "yourself") {
			t.Errorf("alone twice: %+v", r)
		}
		b.person = "bob"
		_, err := b.cloud.AddFault(localstack.Fault{Service: "sts", Times: -1, Do: "error", Code: "AccessDenied", Status: 403})
		if err != nil {
			t.Fatal(err)
		}
		if r := document[refused](b, 1, append([]string{"--actor", "arn:aws:iam::000000000000:user/bob"}, approve...)...); r.Error.Code != "needs_second_person" {
			t.Errorf("an OS user approved: %+v", r)
		}
		b.cloud.ClearFaults()
		a := document[struct {
			Plan, By, At, Until string
			Selected            int
		}](b, 0, approve...)
		if a.By != "arn:aws:iam::000000000000:user/bob" || a.Selected != 3 || a.Plan == "" || a.Until <= a.At {
			t.Errorf("%+v", a)
		}
		b.person = "ann"
		b.triage(0, "assign", ids["t-3"], "--owner", "payments", "--reason", "theirs")
		r := document[runDoc](b, 3, run...)
		if r.Sent != 2 || len(r.Excluded) != 1 || r.Excluded[0].ID != ids["t-3"] || r.Excluded[0].Reason != "changed" {
			t.Fatalf("%+v", r)
		}
		if got := b.show(ids["t-1"]).Approvals; len(got) != 2 || got[0].By != "arn:aws:iam::000000000000:user/ann" || got[1].By != a.By || *got[1].Reason != "read it" {
			t.Errorf("approvals %+v", got)
		}
		if text := b.ok("records", "history", ids["t-1"]).stdout; !strings.Contains(text, "second person: "+a.By+" approved plan "+a.Plan) {
			t.Error(text)
		}
		job := document[struct{ ApprovedBy, Plan string }](b, 0, "redrive", "status", r.Job)
		if job.ApprovedBy != a.By || job.Plan != a.Plan {
			t.Errorf("job %+v", job)
		}
		if text := b.ok("redrive", "status", r.Job, "--history").stdout; !strings.Contains(text, "approved plan "+a.Plan+": read it") {
			t.Error(text)
		}
	})
}

// A critical record needs an open incident's two people; a plan has them too.
func TestACriticalPlanIsApproved(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, row{"cause": "critical", "code": "E_MIXED"}, "t-1")
		file := b.file(b.ok("redrive", "plan", "--cause", "critical", "--fix", "data:INC-31", "--for-approval", "-o", "json").stdout)
		b.person = "bob"
		b.ok("redrive", "approve", "--plan", file, "--reason", "looked")
		b.person = "ann"
		if r := document[runDoc](b, 0, "redrive", "run", "--plan", file, "--reason", "mended"); r.Sent != 1 {
			t.Errorf("%+v", r)
		}
		b.status("redriving", ids["t-1"])
	})
}

func TestLargeRunsNeedAnApprovedPlan(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1", "t-2")
		b.env["DLQBRIDGE_REDRIVE_SECOND_PERSON_FROM"] = "2"
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if r := document[refused](b, 1, run...); r.Error.Code != "needs_second_person" || !strings.Contains(r.Error.Hint, "redrive plan") {
			t.Errorf("%+v", r)
		}
		if r := document[runDoc](b, 0, append(run, "--max", "1")...); r.Sent != 1 {
			t.Errorf("%+v", r)
		}
		for args, want := range map[string]string{
			"redrive approve --reason x": "--plan is missing", "redrive approve --plan nothere.json --reason x": "plan file",
			"redrive plan --cause timeout --policy --for-approval": "contradict",
		} {
			if c := b.run(strings.Fields(args)...); c.code != 2 || !strings.Contains(c.stderr, want) {
				t.Errorf("%s: exit %d\n%s", args, c.code, c.stderr)
			}
		}
		file := b.file(b.ok("redrive", "plan", "--cause", "timeout", "-o", "json").stdout)
		if c := b.run("redrive", "approve", "--plan", file); c.code != 2 || !strings.Contains(c.stderr, "--reason is missing") {
			t.Error(c.stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b.file(strings.Replace(string(text), "20/s", "21/s", 1))
		if c := b.run("redrive", "approve", "--plan", file, "--reason", "x"); c.code != 2 || !strings.Contains(c.stderr, "changed after it was made") {
			t.Error(c.stderr)
		}
	})
}
