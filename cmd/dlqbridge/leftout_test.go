package main_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// leftOutDoc is what a run, a status and a listed job say alike about what is
// not sent.
type leftOutDoc struct {
	ID, Job                       string
	Selected, Sent                int
	ExcludedByPlan, ExcludedByRun map[string]int
	InDoubtRecords                []string
	Outcomes                      map[string]int
}

func (d leftOutDoc) want(t *testing.T, what string, byPlan, byRun map[string]int) {
	t.Helper()
	if !maps.Equal(d.ExcludedByPlan, byPlan) || !maps.Equal(d.ExcludedByRun, byRun) || d.ExcludedByPlan == nil || d.ExcludedByRun == nil {
		t.Errorf("%s says %+v, want %v by the plan and %v by the run", what, d, byPlan, byRun)
	}
}

// asked is a job as status and list have it, each held to the same numbers.
func (b *bench) asked(job string, byPlan, byRun map[string]int) leftOutDoc {
	b.t.Helper()
	d := document[leftOutDoc](b, 0, "redrive", "status", job)
	d.want(b.t, "status", byPlan, byRun)
	jobs := document[struct{ Jobs []leftOutDoc }](b, 0, "redrive", "list").Jobs
	i := slices.IndexFunc(jobs, func(j leftOutDoc) bool { return j.ID == job })
	if i < 0 {
		b.t.Fatalf("%s is not listed in %+v", job, jobs)
	}
	jobs[i].want(b.t, "list", byPlan, byRun)
	return d
}

// What the plan left out is told from what the run left out while it sent, by
// the run, its job and the list alike; and what the canary has seen by then is said.
func TestWhatThePlanLeftOutStandsApart(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2", "t-3")
		b.tasks(nil, nil, "silent-1", "silent-2")
		done := make(chan call)
		go func() {
			done <- b.run(append([]string{"redrive", "run", "--cause", "timeout", "--canary", "1"}, fixed...)...)
		}()
		time.Sleep(time.Minute) // the first one is observed
		for _, id := range ids {
			if b.show(id).Status == "authorized" {
				b.ok("hold", "add", "--record", id, "--reason", "INC-31")
				break
			}
		}
		c := <-done
		job := document[struct{ Jobs []struct{ ID string } }](b, 0, "redrive", "list").Jobs[0].ID
		byPlan, byRun := map[string]int{"effect_unknown": 2}, map[string]int{"held": 1}
		if c.code != 3 || !strings.Contains(c.stdout, "2 excluded by the plan: effect_unknown 2\n") || !strings.Contains(c.stdout, "1 excluded by the run: held 1\n") ||
			!strings.Contains(c.stdout, "outcomes: unconfirmed 1, waiting 1\n") || strings.Count(c.stdout, "  held: ") != 1 {
			t.Errorf("exit %d\n%s", c.code, c.stdout)
		}
		if d := b.asked(job, byPlan, byRun); d.Selected != 3 || d.Sent != 2 || d.InDoubtRecords == nil {
			t.Errorf("%+v", d)
		}
		if text := b.ok("redrive", "status", job, "--history").stdout; !strings.Contains(text, "\n  excluded by the plan 2: effect_unknown 2\n  excluded by the run 1: held 1\n") ||
			!strings.Contains(text, "done: 2 of 3 sent, 0 in doubt, 1 excluded by the run, 2 by its plan") {
			t.Error(text)
		}
		text := b.ok("redrive", "list").stdout
		if !strings.Contains(text, "EXCLUDED BY PLAN") || !strings.Contains(text, "2: effect_unknown 2") || !strings.Contains(text, "1: held 1") {
			t.Error(text)
		}
	})
}

// A plan file lists what it left out; its run counts that, and lists what has
// changed since as left out by the run, which has no such member.
func TestWhatAPlanFileLeftOutStandsApart(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2")
		b.tasks(nil, nil, "silent")
		file := b.file(b.ok(append([]string{"redrive", "plan", "--cause", "timeout", "-o", "json"}, fixed...)...).stdout)
		b.triage(0, "assign", ids["t-2"], "--owner", "payments", "--reason", "theirs")
		r := document[struct {
			leftOutDoc
			Excluded []struct {
				ID, Reason string
				ByRun      bool
			}
		}](b, 3, "redrive", "run", "--plan", file, "--reason", "read")
		byPlan, byRun := map[string]int{"effect_unknown": 1}, map[string]int{"changed": 1}
		r.want(t, "run", byPlan, byRun)
		if r.Sent != 1 || len(r.Excluded) != 1 || !r.Excluded[0].ByRun || r.Excluded[0].ID != ids["t-2"] {
			t.Errorf("%+v", r)
		}
		if d := b.asked(r.Job, byPlan, byRun); d.Selected != 1 || d.Sent != 1 {
			t.Errorf("%+v", d)
		}
		// Nothing of it can go any more: no job, and the counts are there all the same.
		if c := b.run("redrive", "run", "--plan", file, "--reason", "again"); !strings.Contains(c.stdout, "1 excluded by the plan: effect_unknown 1; the plan file lists them\n") || !strings.Contains(c.stdout, "2 excluded by the run: changed 2\n") {
			t.Error(c.stdout)
		}
	})
}

// Waiting for outcomes forgets no doubt.
func TestWaitingKeepsWhatIsInDoubt(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, names(20)...)
		if _, err := b.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: "SendMessageBatch", Times: 1, Do: "drop_after"}); err != nil {
			t.Fatal(err)
		}
		r := document[leftOutDoc](b, 3, append([]string{"redrive", "run", "--cause", "timeout", "--wait"}, fixed...)...)
		if n := r.Outcomes["in_doubt"]; n == 0 || n != len(r.InDoubtRecords) || r.Outcomes["unconfirmed"] != 20-n || r.Outcomes["sent"] != 0 {
			t.Errorf("%+v", r)
		}
		if d := b.asked(r.Job, map[string]int{}, map[string]int{}); len(d.InDoubtRecords) != len(r.InDoubtRecords) || !maps.Equal(d.Outcomes, r.Outcomes) {
			t.Errorf("%+v, and the status %+v", r, d)
		}
	})
}
