package main_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

type planDoc struct {
	Selected int
	Excluded []struct{ ID, Reason string }
	Hash     string
	Rate     string
	Jobs     []struct {
		Destination string
		Members     []struct{ ID string }
	}
}

type runDoc struct {
	Job      string
	Jobs     []string
	Selected int
	Sent     int
	Excluded []struct{ ID, Reason string }
	Outcomes map[string]int
	State    string
}

var fixed = []string{"--fix", "deploy:1.4.2", "--reason", "fixed"}

func TestRunSendsWhatIsSafeAndSaysWhyNotTheRest(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "safe-1", "safe-2")
		b.ledger("done", "step#1#charge", step("succeeded", row{"receipt": "ch_1"}))
		b.tasks(intent, nil, "done")
		ids := b.tasks(nil, nil, "silent")
		plan := document[planDoc](b, 0, append([]string{"redrive", "plan", "--cause", "timeout"}, fixed...)...)
		if plan.Selected != 2 || len(plan.Excluded) != 2 || plan.Hash == "" {
			t.Fatalf("plan %+v", plan)
		}
		if plan.Rate != "20/s" {
			t.Errorf("rate %q", plan.Rate)
		}
		if dry := document[planDoc](b, 0, append([]string{"redrive", "run", "--dry-run", "--cause", "timeout"}, fixed...)...); dry.Hash != plan.Hash {
			t.Errorf("a dry run plans otherwise: %s, %s", dry.Hash, plan.Hash)
		}
		if v := b.show(ids["safe-1"]).Version; v != 1 {
			t.Errorf("planning has changed a record: version %d", v)
		}
		run := document[runDoc](b, 3, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		reasons := map[string]string{}
		for _, e := range run.Excluded {
			reasons[e.ID] = e.Reason
		}
		if run.Sent != 2 || run.State != "done" || reasons[ids["done"]] != "needs_compensation" || reasons[ids["silent"]] != "effect_unknown" {
			t.Errorf("run %+v", run)
		}
		for range 2 {
			m := b.receive("orders")
			if m == nil {
				t.Fatal("not sent")
			}
			var mark struct {
				Rec, Job string
				N        int
			}
			if err := json.Unmarshal([]byte(aws.ToString(m.MessageAttributes["agent.redrive"].StringValue)), &mark); err != nil || mark.N != 1 || mark.Job != run.Job {
				t.Errorf("mark %+v, %v", mark, err)
			}
		}
		if again := document[runDoc](b, 3, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); again.Sent != 0 {
			t.Errorf("sent again: %+v", again)
		}
		job := document[struct{ ID, State, By, Rate string }](b, 0, "redrive", "status", run.Job)
		if job.State != "done" || job.By != "arn:aws:iam::000000000000:user/ann" || job.Rate != "20/s" {
			t.Errorf("job %+v", job)
		}
		if jobs := document[struct{ Jobs []struct{ ID string } }](b, 0, "redrive", "list"); len(jobs.Jobs) == 0 {
			t.Error("no jobs are listed")
		}
		// The worker finishes one of them; the other is never heard of again.
		b.ledger("safe-1", "task", with(intent, row{"status": "completed", "redrive_n": 1, "updated_at": time.Now(), "run_id": "run-2"}))
		seen := document[struct {
			Outcomes map[string]int
			Waiting  int
		}](b, 0, "redrive", "observe")
		if seen.Outcomes["completed"] != 1 || seen.Waiting != 1 {
			t.Errorf("observed %+v", seen)
		}
		b.status("completed", ids["safe-1"])
		time.Sleep(time.Hour) // virtual: past the observation
		b.ok("redrive", "observe")
		b.status("awaiting_operational_decision", ids["safe-2"])
	})
}

func TestNothingSelectedIsDone(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		if r := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); r.Selected != 0 || r.Excluded == nil || r.Outcomes == nil || r.State != "done" {
			t.Errorf("got %+v", r)
		}
		if c := b.ok(append([]string{"redrive", "run", "--cause", "timeout", "-o", "json"}, fixed...)...); !strings.Contains(c.stdout, `"job": null`) || strings.Contains(c.stdout, `"job": ""`) {
			t.Error(c.stdout)
		}
	})
}

// Below what is left out stands what to do about it, for each reason once.
func TestExclusionsSayWhatIsNext(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2")
		says := func(want string, args ...string) {
			t.Helper()
			if text := b.run(append([]string{"redrive", "plan", "--cause", "timeout"}, args...)...).stdout; strings.Count(text, want) != 1 {
				t.Errorf("%q is not said once in\n%s", want, text)
			}
		}
		says("  not_authorized: say what removed the cause: --fix KIND:TEXT")
		b.ok("hold", "add", "--all", "--reason", "INC-31")
		says("  held: dlqbridge hold list", "--fix", "deploy:1.4.2")
		if text := b.ok("records", "explain", ids["t-1"]).stdout; !strings.Contains(text, "Held by h_") || !strings.Contains(text, "INC-31") {
			t.Error(text)
		}
	})
}

func TestRunRefusesWhatItWouldNotDo(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		for name, row := range map[string]struct {
			args []string
			env  map[string]string
			want string
		}{
			"canary that shrinks": {append(run, "--canary", "5,1"), nil, "does not follow"},
			"canary of zero":      {run, map[string]string{"DLQBRIDGE_REDRIVE_CANARY": "0,5"}, "does not follow"},
			"canary on a dry run": {append(run, "--canary", "1,x", "--dry-run"), nil, "canary"},
			"no cause":            {[]string{"redrive", "run", "--reason", "x"}, nil, "--cause is missing"},
			"no reason":           {[]string{"redrive", "run", "--cause", "timeout", "--fix", "deploy:1"}, nil, "--reason is missing"},
			"free text is no fix": {[]string{"redrive", "run", "--cause", "timeout", "--fix", "done", "--reason", "x"}, nil, "no verifiable change"},
			"policy with a fix":   {append(run, "--policy"), nil, "contradict"},
			"rate without unit":   {append(run, "--rate", "20"), nil, "flag --rate"},
			"window too short":    {append(run, "--observe-for", "1m"), nil, "10m"},
			"unknown route":       {append(run, "--route", "oders"), nil, "not configured"},
		} {
			b.env = row.env
			c := b.run(row.args...)
			if c.code != 2 || !strings.Contains(c.stderr, row.want) {
				t.Errorf("%s: exit %d\n%s", name, c.code, c.stderr)
			}
		}
		b.env = map[string]string{}
		b.ok(append(run, "--canary", "none")...)
	})
}

func TestWindowShorterThanTheSourceNeeds(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1")
		// 1 x 30 s is below 10 m; make the source need 50 minutes.
		b.visibility("orders", "3000")
		c := b.run(append([]string{"redrive", "run", "--cause", "timeout", "--observe-for", "20m"}, fixed...)...)
		if c.code != 2 || !strings.Contains(c.stderr, "50m") {
			t.Errorf("exit %d\n%s%s", c.code, c.stdout, c.stderr)
		}
		if m := b.receive("orders"); m != nil {
			t.Error("a refused run has sent")
		}
		b.ok(append([]string{"redrive", "run", "--cause", "timeout", "--observe-for", "50m"}, fixed...)...)
	})
}

func TestHoldsStopAndLetGo(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1")
		h := document[struct{ ID, Route string }](b, 0, "hold", "add", "--route", "orders", "--until", "2h", "--reason", "outage")
		list := document[struct {
			Holds []struct {
				ID     string
				Active bool
				Reason string
			}
		}](b, 0, "hold", "list")
		if len(list.Holds) != 1 || !list.Holds[0].Active || list.Holds[0].ID != h.ID {
			t.Errorf("list %+v", list)
		}
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if r := document[runDoc](b, 3, run...); len(r.Excluded) != 1 || r.Excluded[0].Reason != "held" {
			t.Errorf("held: %+v", r)
		}
		b.ok("hold", "remove", h.ID, "--reason", "over")
		if r := document[refused](b, 1, "hold", "remove", h.ID, "--reason", "over"); r.Error.Code != "not_found" {
			t.Errorf("removed twice: %+v", r)
		}
		if r := document[runDoc](b, 0, run...); r.Sent != 1 {
			t.Errorf("after the hold: %+v", r)
		}
		for _, args := range []string{"--reason x", "--all --route orders --reason x", "--route oders --reason x", "--route orders", "--record order-7 --reason x", "--destination orders --reason x", "--route orders --until yesterday --reason x"} {
			b.want(2, append([]string{"hold", "add"}, strings.Fields(args)...)...)
		}
	})
}

func TestJobsAreNamedAndControlled(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		for _, verb := range []string{"pause", "continue", "cancel"} {
			b.want(2, "redrive", verb, "j_nothere")
			if r := document[refused](b, 1, "redrive", verb, "j_nothere", "--reason", "x"); r.Error.Code != "not_found" || r.Error.Message != "there is no job j_nothere" {
				t.Errorf("%s: %+v", verb, r)
			}
		}
		if r := document[refused](b, 1, "redrive", "status", "j_nothere"); r.Error.Code != "not_found" {
			t.Errorf("status: %+v", r)
		}
		b.tasks(intent, nil, "t-1")
		job := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...).Job
		for _, verb := range []string{"pause", "continue", "cancel"} {
			r := document[refused](b, 1, "redrive", verb, job, "--reason", "x")
			if r.Error.Code != "invalid" || !strings.HasPrefix(r.Error.Message, "job "+job+" is done: ") || !strings.Contains(r.Error.Hint, "dlqbridge redrive status "+job) || strings.Contains(r.Error.Hint, "check") {
				t.Errorf("%s of a job that has ended: %+v", verb, r)
			}
		}
	})
}

func TestWaitingTellsHowItEnded(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1", "t-2")
		// One worker finishes at once, the other is never heard of again.
		b.ledger("t-1", "task", with(intent, row{"status": "completed", "redrive_n": 1, "run_id": "run-2", "updated_at": time.Now().Add(time.Minute)}))
		run := append([]string{"redrive", "run", "--cause", "timeout", "--wait"}, fixed...)
		r := document[runDoc](b, 3, run...)
		if r.Outcomes["unconfirmed"]+r.Outcomes["completed"] < 1 || r.Outcomes["sent"] != 0 {
			t.Errorf("got %+v", r)
		}
		// Whoever asks later is told the same.
		status := document[struct {
			Sent, InDoubt, Counted int
			Outcomes               map[string]int
		}](b, 0, "redrive", "status", r.Job)
		if status.Sent != r.Sent || status.InDoubt != 0 || status.Counted != r.Selected || !maps.Equal(status.Outcomes, r.Outcomes) {
			t.Errorf("status %+v of %+v", status, r.Outcomes)
		}
		if text := b.ok("redrive", "status", r.Job).stdout; !strings.Contains(text, "outcomes: ") || !strings.Contains(text, "unconfirmed 1") {
			t.Error(text)
		}
	})
}

func TestDestinationInUseIsSaid(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1")
		store, err := awsdynamodb.New(awsdynamodb.Options{Client: b.tables, Records: "dlqbridge-records", Payloads: "dlqbridge-payloads"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Take(b.t.Context(), dlqbridge.Lease{
			Destination: "arn:aws:sqs:us-east-1:000000000000:orders", Job: "j_other", Holder: "bob@laptop", Token: "x", Until: time.Now().Add(time.Hour), SendDeadline: time.Second,
		}); err != nil {
			t.Fatal(err)
		}
		r := document[refused](b, 1, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		if r.Error.Code != "lease_held" || !strings.Contains(r.Error.Message, "bob@laptop") || !strings.Contains(r.Error.Message, "j_other") {
			t.Errorf("got %+v", r)
		}
	})
}

// C75: credentials that expire in the middle cost time and nothing else.
func TestC75ExpiredCredentialsAreWaitedOut(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1", "t-2", "t-3")
		for service, code := range map[string]string{"sqs": "ExpiredToken", "dynamodb": "ExpiredTokenException"} {
			if _, err := b.cloud.AddFault(localstack.Fault{Service: service, Skip: 4, Times: 2, Do: "error", Code: code, Status: 403}); err != nil {
				t.Fatal(err)
			}
		}
		if r := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...); r.Sent != 3 {
			t.Errorf("got %+v", r)
		}
	})
}
