package enrich_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// What was sent, and what is closed, is explained as that and not as if it
// still waited for somebody who sends it.
func TestExplainWhereItStands(t *testing.T) {
	at := start.Add(30 * time.Minute)
	note := dlqbridge.Send{N: 1, Job: "j", At: at, Outcome: dlqbridge.OutcomeSent, MessageID: "m-7"}
	doubt := note
	doubt.Outcome, doubt.Reason = dlqbridge.OutcomeInDoubt, "no answer"
	around := enrich.Around{Now: at.Add(time.Minute), Window: 10 * time.Minute}
	late := around
	late.Now = at.Add(time.Hour)
	for name, tt := range map[string]struct {
		sends  []dlqbridge.Send
		around enrich.Around
		then   func(*caseOf)
		says   []string
		may    []dlqbridge.Verb
		no     []dlqbridge.Verb
	}{
		"sent": {
			sends: []dlqbridge.Send{note}, around: around, no: []dlqbridge.Verb{"settle-send", "authorize", "cancel-expired"},
			says: []string{"Together, until that send: nothing happened", "What redrive 1, claimed at", "Sent as redrive 1 by job j at " + dlqbridge.FormatTime(at), "The observation ends at " + dlqbridge.FormatTime(at.Add(10*time.Minute)), "redrive observe"},
		},
		"past its observation": {sends: []dlqbridge.Send{note}, around: late, says: []string{"The observation ended at"}},
		"window not known":     {sends: []dlqbridge.Send{note}, says: []string{"How long is not known here"}},
		"by absence":           {sends: []dlqbridge.Send{note}, around: enrich.Around{Window: time.Hour, Absence: true}, says: []string{"counts as completed"}},
		"in doubt":             {sends: []dlqbridge.Send{doubt}, around: around, may: []dlqbridge.Verb{"settle-send"}, says: []string{"in doubt", "(no answer)", "settle-send --to sent|not-sent"}},
		"claimed":              {around: around, no: []dlqbridge.Verb{"settle-send"}, says: []string{"nothing is noted of a send yet"}},
		"unconfirmed": {
			sends: []dlqbridge.Send{note}, around: around, no: []dlqbridge.Verb{"cancel-expired"}, may: []dlqbridge.Verb{"authorize"},
			then: func(b *caseOf) {
				b.ends(dlqbridge.VerbUnconfirmed, dlqbridge.StatusAwaitingOperationalDecision, "")
				b.c.Control.Fix = "deploy:1"
			},
			says: []string{"already sent once, as redrive 1 by job j at", "nobody saw an outcome"},
		},
		"came back": {
			sends: []dlqbridge.Send{note}, around: around, no: []dlqbridge.Verb{"authorize"}, then: func(b *caseOf) { b.ends(dlqbridge.VerbRecur, dlqbridge.StatusClassified, "") },
			says: []string{"already sent once, as redrive 1", "died again"},
		},
		"closed": {
			sends: []dlqbridge.Send{note}, around: around, no: []dlqbridge.Verb{"settle-send", "authorize"},
			then: func(b *caseOf) { b.ends(dlqbridge.VerbComplete, dlqbridge.StatusCompleted, "ledger: run-2") },
			says: []string{"Closed as completed by complete (observe)", "ledger: run-2"},
		},
		"held": {
			sends: []dlqbridge.Send{note}, around: enrich.Around{Now: at, Holds: []dlqbridge.Hold{
				{ID: "h_1", All: true, Reason: "INC-31", By: dlqbridge.Actor{Name: "ann", Authenticated: true}}, {ID: "h_2", Route: "other"},
			}},
			says: []string{"Held by h_1 of ann, until it is removed (hold remove h_1): INC-31."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCase(t, dlqbridge.Testimony{Findings: []dlqbridge.Finding{notStarted}})
			b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
			b.send()
			b.c.Sends = tt.sends
			if tt.then != nil {
				tt.then(b)
			}
			e := enrich.Explain(b.c, tt.around)
			text := explained(e)
			for _, want := range tt.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not said in\n%s", want, text)
				}
			}
			if strings.Contains(text, "h_2") {
				t.Error(text)
			}
			for _, v := range tt.may {
				if !slices.Contains(e.Verbs, v) {
					t.Errorf("%s is not offered: %v", v, e.Verbs)
				}
			}
			for _, v := range tt.no {
				if slices.Contains(e.Verbs, v) {
					t.Errorf("%s is offered: %v", v, e.Verbs)
				}
			}
		})
	}
}

// ends ends the redrive under way.
func (b *caseOf) ends(verb dlqbridge.Verb, to dlqbridge.Status, why string) {
	k := &b.c.Control
	m := dlqbridge.Move{Version: k.Version + 1, At: start.Add(time.Hour), By: "observe", Verb: verb, From: k.Status, To: to, Why: why, Job: "j", N: 1}
	k.Version, k.Status, k.Claim, k.Authorized, k.Move = m.Version, to, nil, nil, m
	b.c.History = append(b.c.History, m)
}

// Proof of the effect alone frees no record whose cause nobody knows, and the
// words of a decision to repair say what is sent.
func TestExplainWhatElseIsMissing(t *testing.T) {
	b := newCase(t, dlqbridge.Testimony{})
	b.move(dlqbridge.VerbReceive, b.letter("m-1", sqsLetter("x", text("agent.ctx", `{"v":1,"task":"t"}`))), nil)
	if said := explained(enrich.Explain(b.c, enrich.Around{})); !strings.Contains(said, "nothing happened: human_review until somebody names the cause too (triage classify") {
		t.Error(said)
	}
	b.c.Control.Action, b.c.Control.Why, b.c.Control.Payload, b.c.Control.PayloadVersion = dlqbridge.ActionRepair, dlqbridge.WhyFixable, "p-2", 2
	if said := explained(enrich.Explain(b.c, enrich.Around{})); !strings.Contains(said, "then version 2 of its payload is sent") {
		t.Error(said)
	}
}
