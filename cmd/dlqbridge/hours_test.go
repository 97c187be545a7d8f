package main_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

const inHours = oneRoute + `
causes: {timeout: {auto_authorize: true, backoff: 1m}}
redrive: {hours: {from: "08:00", to: "18:00", timezone: Europe/Berlin}, rate: 1/s, burst: 2}
`

// until sleeps until a moment, in virtual time.
func until(t *testing.T, at string) {
	t.Helper()
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(when))
}

// work does everything that is in the queue and notes when each was sent.
func (b *bench) work(sent map[string]time.Time) {
	b.t.Helper()
	for m := b.receive("orders"); m != nil; m = b.receive("orders") {
		var body struct{ Task string }
		if err := json.Unmarshal([]byte(*m.Body), &body); err != nil {
			b.t.Fatal(err)
		}
		if _, twice := sent[body.Task]; twice {
			b.t.Errorf("%s twice", body.Task)
		}
		ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		sent[body.Task] = time.UnixMilli(ms)
		b.ledger(body.Task, "task", with(intent, row{"status": "completed", "redrive_n": 1, "updated_at": time.Now(), "run_id": "run-2"}))
	}
	b.ok("redrive", "observe")
}

// The bubble begins on Saturday, 1 January 2000, in winter.
func TestPolicyKeepsBusinessHours(t *testing.T) {
	inBubble(t, inHours, []string{"orders"}, func(b *bench) {
		const n = 40
		ids := b.tasks(intent, nil, names(n)...)
		sent := map[string]time.Time{}
		time.Sleep(time.Hour)
		run := []string{"redrive", "run", "--cause", "timeout", "--policy"}
		type answer struct {
			runDoc
			Job    *string
			Reason string
		}

		// Outside: nothing is sent, and that is no failure.
		const monday = "outside business hours; they begin 2000-01-03T08:00:00+01:00"
		b.cloud.ForgetRequests()
		if a := document[answer](b, 0, run...); a.Job != nil || a.Jobs == nil || a.Selected != 0 || a.Sent != 0 || a.Excluded == nil || len(a.Excluded) != 0 || a.State != "done" || a.Reason != monday {
			t.Errorf("on Saturday: %+v", a)
		}
		for _, r := range b.cloud.Requests("", 0) {
			if strings.Contains(r.Operation, "Put") || strings.Contains(r.Operation, "Update") || strings.Contains(r.Operation, "Write") || strings.Contains(r.Operation, "Send") {
				t.Errorf("on Saturday: %s", r.Operation)
			}
		}
		if c := b.ok(run...); c.stdout != "nothing was selected: "+monday+"\n" {
			t.Errorf("on Saturday:\n%s", c.stdout)
		}
		for _, look := range [][]string{{"redrive", "plan", "--cause", "timeout", "--policy"}, append(run, "--dry-run")} {
			p := document[struct {
				Selected int
				Excluded []struct{ ID, Reason, Detail string }
			}](b, 0, look...)
			if p.Selected != 0 || len(p.Excluded) != n || p.Excluded[0].Reason != "not_before" || p.Excluded[0].Detail != monday {
				t.Errorf("planned on Saturday: %+v", p)
			}
		}
		b.status("classified", ids["t-0000"])

		// A person is not bound.
		if a := document[answer](b, 0, append([]string{"redrive", "run", "--cause", "timeout", "--max", "1"}, fixed...)...); a.Sent != 1 {
			t.Errorf("a person on Saturday: %+v", a)
		}
		b.work(sent)

		// Inside.
		until(t, "2000-01-07T12:00:00+01:00")
		if a := document[answer](b, 0, append(run, "--max", "5")...); a.Sent != 5 || a.State != "done" || a.Reason != "" {
			t.Errorf("on Friday: %+v", a)
		}
		b.work(sent)

		// Over the end, on Friday: it stops in time, and nothing stays behind.
		until(t, "2000-01-07T17:59:50+01:00")
		crossing := document[answer](b, 3, run...)
		if crossing.State != "done" || crossing.Sent < 8 || crossing.Sent > 14 || crossing.Selected != n-6 || crossing.Sent+len(crossing.Excluded) != n-6 {
			t.Errorf("on Friday evening: %+v", crossing)
		}
		for _, x := range crossing.Excluded {
			if x.Reason != "not_before" {
				t.Errorf("%+v", x)
			}
			b.status("classified", x.ID)
		}
		if status := b.ok("redrive", "status", *crossing.Job, "--history").stdout; !strings.Contains(status, "the business hours ended") {
			t.Errorf("it does not say why:\n%s", status)
		}
		if a := document[answer](b, 0, run...); a.Reason != strings.Replace(monday, "01-03", "01-10", 1) {
			t.Errorf("later on Friday: %+v", a)
		}

		b.work(sent)

		// The weekend is longer than an authorisation lasts; the rest goes on Monday.
		until(t, "2000-01-10T08:00:00+01:00")
		rest := document[answer](b, 0, run...)
		if rest.Sent != len(crossing.Excluded) {
			t.Errorf("on Monday: %+v", rest)
		}
		end, err := time.Parse(time.RFC3339, "2000-01-07T18:00:00+01:00")
		if err != nil {
			t.Fatal(err)
		}
		b.work(sent)
		if len(sent) != n {
			t.Errorf("%d of %d arrived", len(sent), n)
		}
		for task, at := range sent {
			if at.After(end.Add(time.Second)) && at.Before(end.Add(62*time.Hour)) {
				t.Errorf("%s was sent at %s", task, at)
			}
		}
	})
}
