package enrich_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/celrules"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// story is one record of the document, with what happened to it in a sentence.
type story struct {
	title, what string
	route       enrich.Route
	letter      dlqbridge.Letter
	// then is what happened after the letter came.
	then func(b *caseOf)
}

// toldLetter is a letter of the orders queue, with the agent's facts.
func toldLetter(facts string) dlqbridge.Letter {
	return sqsLetter(`{"order":7}`, text("agent.ctx", `{"v":1,"task":"ord-7","run":"run-1","type":"charge_order","tenant":"acme","idem":"ord-7/charge"`+facts+`}`))
}

func stories(t *testing.T) []story {
	rules, err := celrules.Compile([]celrules.Rule{{When: `failure.code.startsWith("E_ADDRESS")`, Cause: dlqbridge.CauseInvalidInput}})
	must(t, err)
	invocation := sqsLetter(`{"order":7}`, text("RequestID", "11111111-2222-3333-4444-555555555555"),
		dlqbridge.Attribute{Name: "ErrorCode", Type: "Number", Value: []byte("200")}, text("ErrorMessage", "2026-11-30T11:00:00Z Task timed out after 3.00 seconds"))
	invocation.Source = ""
	return []story{
		{
			title: "Safe to send again", what: "A lookup timed out. The route declares that its tasks change nothing outside.",
			route: enrich.Route{Effects: dlqbridge.EffectsNone}, letter: toldLetter(`,"cause":"timeout","code":"ETIMEDOUT","step":"0001#lookup","dep":"catalog"`),
		},
		{
			title: "Nobody can know", what: "The same letter on a route that declares nothing and has no store.",
			letter: toldLetter(`,"cause":"timeout","code":"ETIMEDOUT"`),
		},
		{
			title: "A call was under way", what: "The worker wrote its intent to charge a card, called, and died. The ledger has the intent and no receipt.",
			route: enrich.Route{Stores: asked(dlqbridge.Testimony{
				Findings: []dlqbridge.Finding{inFlight, notStarted}, Runs: 1,
				Failure: &dlqbridge.Failure{Cause: dlqbridge.CauseTimeout, Code: "ETIMEDOUT", Tool: "charge_card", Dependency: "payments", Phase: "during_call", Message: "payments did not answer within 30 s"},
			})},
			letter: toldLetter(""),
		},
		{
			title: "The card was charged", what: "The ledger has the receipt; the task died afterwards, when the mail server refused.",
			route: enrich.Route{Stores: asked(dlqbridge.Testimony{
				Findings: []dlqbridge.Finding{receipt, notStarted}, Runs: 1,
				Failure: &dlqbridge.Failure{Code: "ECONNREFUSED", Step: "0004#mail", Dependency: "smtp"},
			})},
			letter: toldLetter(""),
		},
		{
			title: "Go on from the checkpoint", what: "The card was charged before the last checkpoint, nothing began after it, and the route's workers can resume.",
			route: enrich.Route{Resume: true, Stores: asked(dlqbridge.Testimony{
				Findings: []dlqbridge.Finding{receipt, notStarted}, Runs: 1,
				Checkpoint: &dlqbridge.Checkpoint{Ref: "s3://runs/ord-7/3", Step: "0003#charge", Run: "run-1", At: start},
				Failure:    &dlqbridge.Failure{Code: "503", Step: "0004#mail", Dependency: "smtp"},
			})},
			letter: toldLetter(""),
		},
		{
			title: "The ledger did not answer", what: "It may have known of a step that ran, so its silence counts as a doubt and not as nothing.",
			route:  enrich.Route{Stores: asked(dlqbridge.Testimony{Unavailable: "no answer within 5s"})},
			letter: toldLetter(`,"cause":"dependency_unavailable","code":"503"`),
		},
		{
			title: "Critical", what: "A worker saw that data of two customers were mixed.",
			route:  enrich.Route{Effects: dlqbridge.EffectsNone},
			letter: toldLetter(`,"cause":"critical","msg":"answer for acme held an address of globex"`),
		},
		{
			title: "Corrected by a person", what: "The route has a rule of its own for bad addresses, and somebody has corrected the data.",
			route:  enrich.Route{Effects: dlqbridge.EffectsNone, Rules: rules},
			letter: toldLetter(`,"cause":"timeout","code":"E_ADDRESS_17","msg":"no such street"`),
			then: func(b *caseOf) {
				n := person(dlqbridge.VerbFix, "ann")
				n.Fix, n.Reason = &dlqbridge.Fix{Kind: "data", Text: "address of order 7 corrected"}, "checked with the customer"
				b.move(dlqbridge.VerbFix, enrich.Subject{Note: n}, nil)
			},
		},
		{
			title: "It came back", what: "An operator looked and settled that nothing had happened. The task was sent, and failed again: what was true before the send says nothing about what came after.",
			letter: toldLetter(`,"cause":"timeout"`),
			then: func(b *caseOf) {
				n := person(dlqbridge.VerbSettleEffect, "ann")
				n.Findings = []dlqbridge.Finding{{Store: "operator", Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator, AsOf: start.Add(20 * time.Minute), Detail: "no charge in the payments console"}}
				b.move(dlqbridge.VerbSettleEffect, enrich.Subject{Note: n}, nil)
				b.send()
				b.recur("m-2", toldLetter(`,"cause":"timeout"`))
			},
		},
		{
			title: "An asynchronous invocation", what: "A function failed three times, and Lambda put the event into its dead-letter queue. No queue is waiting for it.",
			letter: invocation,
		},
	}
}

// explained is an explanation as the command prints it.
func explained(e enrich.Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s\n  rule %s, cause %s (%s), effect %s, beyond the checkpoint %s\n", e.ID, e.Status, e.Action, e.Rule, e.Cause, e.CauseRule, e.Effect, e.Uncovered)
	for _, s := range e.Sections() {
		fmt.Fprintf(&b, "%s\n", s.Title)
		for _, l := range s.Lines {
			fmt.Fprintf(&b, "  - %s\n", l)
		}
	}
	return b.String()
}

// TestExplainTenRecords writes the document that shows what explanations look
// like (-update), and holds it to what is said now.
func TestExplainTenRecords(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("# Ten explanations\n\nWhat `dlqbridge records explain ID` says, on ten records that differ. A test writes this file\n" +
		"(`go test ./enrich -run TestExplainTenRecords -update`), so it shows what the program says and not what somebody remembers.\n")
	seen := map[dlqbridge.Why]int{}
	for i, s := range stories(t) {
		s.route.Name, s.route.Place = "orders", arn("orders-dlq")
		b := &caseOf{t: t, e: enricher(t, s.route)}
		unit := dlqbridge.RecordID(dlqbridge.IdentityTask, arn("orders"), "", s.title, 0)
		b.move(dlqbridge.VerbReceive, b.letter("m-1", s.letter), func(c *dlqbridge.Control) {
			c.Identity, c.Route, c.Provider, c.Source, c.PayloadVersion = dlqbridge.IdentityTask, "orders", dlqbridge.SQS, s.letter.Source, 1
			c.FirstSeen, c.LastSeen = start, start
		})
		if s.then != nil {
			s.then(b)
		}
		e := enrich.Explain(b.c, enrich.Around{})
		e.ID = unit
		seen[e.Rule]++
		fmt.Fprintf(&doc, "\n## %d. %s\n\n%s\n\n```\n%s```\n", i+1, s.title, s.what, explained(e))
	}
	const file = "EXPLAIN.md"
	if *update {
		must(t, os.WriteFile(file, []byte(doc.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := gocmp.Diff(string(want), doc.String()); diff != "" {
		t.Error(diff)
	}
	if len(seen) < 6 {
		t.Errorf("only these rules are shown: %v", seen)
	}
}

// What an explanation says of each step is what the fold says of it.
func TestExplainFoldsAsTheFoldDoes(t *testing.T) {
	second := finding("0004#mail", dlqbridge.EffectUnknown, dlqbridge.ProofSystemRead)
	b := newCase(t, dlqbridge.Testimony{Findings: []dlqbridge.Finding{receipt, second, notStarted}})
	b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
	got := strings.Join(enrich.Explain(b.c, enrich.Around{}).Fold, "\n")
	want := "Step 0003#charge of run run-1 comes to: it happened.\nStep 0004#mail of run run-1 comes to: not known.\nAll other steps come to: nothing happened.\n" +
		"Together: not known, because one step of which nobody knows is enough."
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An explanation of anything that is stored says something and never fails.
func TestExplainOfNothing(t *testing.T) {
	if e := enrich.Explain(dlqbridge.Case{}, enrich.Around{}); len(e.Sections()) == 0 || len(e.Steps) != 1 {
		t.Errorf("got %+v", e)
	}
}
