package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
)

type lapseDoc struct{ At, Why string }

type permitted struct {
	Status    string
	Approvals []struct {
		By      string
		Redrive *int
		Lapsed  *lapseDoc
	}
	Authorization *struct {
		By, At, Action string
		Lapsed         *lapseDoc
	}
}

func (b *bench) permitted(id string) permitted {
	b.t.Helper()
	return document[permitted](b, 0, "records", "show", id)
}

// says holds what is written of a record against what must and must not be.
func (b *bench) says(id string, want, never []string) {
	b.t.Helper()
	text := b.ok("records", "explain", id).stdout
	for _, w := range want {
		if !strings.Contains(text, w) {
			b.t.Errorf("%q is not said:\n%s", w, text)
		}
	}
	for _, n := range never {
		if strings.Contains(text, n) {
			b.t.Errorf("%q is said:\n%s", n, text)
		}
	}
}

// An approval that a look at the record ended is shown as that, and one that led
// to a send as used; history has both.
func TestAnApprovalThatLapsedIsShownAsThat(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.many("orders", intent, row{"cause": "critical"}, []string{"t-1"})[0]
		b.all([]string{id}, "fix", "--fix", "deploy:1", "--reason", "x")
		b.triage(0, "authorize", id, "--reason", "ann says yes")
		b.says(id, []string{"Approved by arn:aws:iam::000000000000:user/ann at ", "ann says yes."}, []string{"no more"})
		if p := b.permitted(id); len(p.Approvals) != 1 || p.Approvals[0].Lapsed != nil || p.Authorization != nil {
			t.Errorf("approved: %+v", p)
		}
		b.person = "bob"
		b.triage(0, "investigate", id, "--reason", "x")
		b.says(id, []string{"Counts no more: the approval by arn:aws:iam::000000000000:user/ann", "decided anew after investigate by arn:aws:iam::000000000000:user/bob"}, []string{"Approved by"})
		p := b.permitted(id)
		if a := p.Approvals[0]; a.Lapsed == nil || a.Redrive != nil || !strings.Contains(a.Lapsed.Why, "investigate by arn:aws:iam::000000000000:user/bob") || a.Lapsed.At == "" {
			t.Errorf("looked at: %+v", a)
		}
		if text := b.ok("records", "show", id).stdout; !strings.Contains(text, "ann says yes (lapsed at "+p.Approvals[0].Lapsed.At) {
			t.Error(text)
		}
		b.triage(0, "authorize", id, "--reason", "bob says yes")
		b.status("incident_open", id) // ann's no longer counts
		b.person = "ann"
		b.triage(0, "authorize", id, "--reason", "ann again")
		if p := b.permitted(id); p.Status != "authorized" || p.Authorization == nil || p.Authorization.Lapsed != nil || p.Approvals[1].Lapsed != nil || p.Approvals[2].Lapsed != nil {
			t.Errorf("authorised: %+v", p)
		}
		b.ok("redrive", "run", "--cause", "critical", "--reason", "x")
		p = b.permitted(id)
		for i, a := range p.Approvals {
			if used := a.Redrive != nil && *a.Redrive == 1; used != (i > 0) || (a.Lapsed != nil) != (i == 0) {
				t.Errorf("sent, approval %d: %+v", i, a)
			}
		}
		if text := b.ok("records", "history", id).stdout; strings.Count(text, "says yes") != 2 {
			t.Error(text)
		}
	})
}

// An authorisation that is too old counts no more, also before somebody has
// written that down.
func TestAnAuthorisationLapsesByItsAge(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := authorisedAll(b, []string{"t-1"})[0]
		b.says(id, []string{"Authorised by arn:aws:iam::000000000000:user/ann at ", "Nothing is missing but a job that sends it"}, []string{"lapsed"})
		given := b.permitted(id).Authorization
		time.Sleep(25 * time.Hour) // virtual
		b.says(id, []string{"which has lapsed at ", "redrive observe, or serve, takes it back"}, []string{"Nothing is missing"})
		p := b.permitted(id)
		if at, err := time.Parse(time.RFC3339, given.At); err != nil || p.Authorization.Lapsed == nil || p.Authorization.Lapsed.At != at.Add(24*time.Hour).Format("2006-01-02T15:04:05.000Z") || p.Approvals[0].Lapsed == nil {
			t.Errorf("%v, %+v", err, p)
		}
		if text := b.ok("records", "show", id).stdout; strings.Count(text, "lapsed at "+p.Authorization.Lapsed.At) != 2 {
			t.Error(text)
		}
		b.ok("redrive", "observe")
		p = b.permitted(id)
		if p.Status != "fix_validated" || p.Authorization != nil || p.Approvals[0].Lapsed == nil || !strings.Contains(p.Approvals[0].Lapsed.Why, "too long ago") {
			t.Errorf("taken back: %+v", p)
		}
		b.says(id, []string{"Counts no more: the approval by", "Nothing is missing but somebody who authorises it"}, []string{"Authorised by"})
	})
}

// Where a person settles that nothing was sent, what was authorised is as it was,
// with the two people behind it.
func TestApprovalsOfWhatWasNotSentCount(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		id := b.many("orders", intent, row{"cause": "critical"}, []string{"t-1"})[0]
		b.all([]string{id}, "fix", "--fix", "deploy:1", "--reason", "x")
		for _, b.person = range []string{"bob", "ann"} {
			b.triage(0, "authorize", id, "--reason", "yes")
		}
		if _, err := b.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: "SendMessageBatch", Times: 1, Do: "drop_before"}); err != nil {
			t.Fatal(err)
		}
		run := []string{"redrive", "run", "--cause", "critical", "--reason", "x"}
		b.want(3, run...)
		b.triage(0, "settle-send", id, append([]string{"--to", "not-sent"}, said...)...)
		for i, a := range b.permitted(id).Approvals {
			if a.Lapsed != nil || a.Redrive != nil {
				t.Errorf("approval %d: %+v", i, a)
			}
		}
		if got := document[runDoc](b, 0, run...); got.Sent != 1 {
			t.Errorf("%+v", got)
		}
		if b.receive("orders") == nil || b.receive("orders") != nil {
			t.Error("not exactly one copy")
		}
	})
}

// Who agreed to open a record again has not agreed to send it.
func TestAnApprovalToReopenIsNoneToSend(t *testing.T) {
	inBubble(t, wantsTwo, []string{"orders"}, func(b *bench) {
		id := b.many("orders", intent, nil, []string{"t-1"})[0]
		b.all([]string{id}, "fix", "--fix", "deploy:1", "--reason", "x")
		b.triage(0, "complete-manually", id, said...)
		b.triage(0, "reopen", id, "--reason", "ann: it was not done")
		if p := b.permitted(id); p.Status != "completed_manually" || len(p.Approvals) != 1 || p.Approvals[0].Lapsed != nil {
			t.Errorf("%+v", p)
		}
		b.person = "bob"
		b.triage(0, "reopen", id, "--reason", "bob: it was not done")
		b.status("under_investigation", id)
		b.person = "ann"
		b.triage(0, "authorize", id, "--reason", "ann says yes")
		if got := b.show(id).Status; got == "authorized" {
			t.Error("one person authorised it, with the word of one who opened it again")
		}
		b.person = "carl"
		b.triage(0, "authorize", id, "--reason", "carl says yes")
		b.status("authorized", id)
	})
}
