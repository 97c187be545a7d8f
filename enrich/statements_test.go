package enrich_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// states lets somebody state an effect, later for each who speaks.
func (b *caseOf) states(who, step string, state dlqbridge.Effect, corrects bool) enrich.Judgement {
	n := person(dlqbridge.VerbSettleEffect, who)
	n.Corrects = corrects
	n.Findings = []dlqbridge.Finding{{
		Store: "operator", Step: step, State: state, Proof: dlqbridge.ProofOperator,
		AsOf: start.Add(time.Duration(10+len(b.c.Notes)) * time.Minute), Detail: "stated by " + who,
	}}
	return b.move(dlqbridge.VerbSettleEffect, enrich.Subject{Note: n}, nil)
}

func TestAPersonsWordIsCorrected(t *testing.T) {
	const charge, all = "0003#charge", dlqbridge.AllSteps
	const none, confirmed, unknown = dlqbridge.EffectNone, dlqbridge.EffectConfirmed, dlqbridge.EffectUnknown
	type word struct {
		step     string
		state    dlqbridge.Effect
		corrects bool
	}
	begun := finding(charge, unknown, dlqbridge.ProofSystemRead)
	for name, tt := range map[string]struct {
		says  dlqbridge.Testimony
		words []word
		want  dlqbridge.Effect
		left  int
	}{
		"two disagree":                         {findings(begun, notStarted), []word{{charge, confirmed, false}, {charge, none, false}}, unknown, 2},
		"the first was mistaken":               {findings(begun, notStarted), []word{{charge, confirmed, false}, {charge, none, true}}, none, 1},
		"and then the second":                  {findings(begun, notStarted), []word{{charge, confirmed, false}, {charge, none, true}, {charge, confirmed, true}}, confirmed, 1},
		"a disagreement is ended by a third":   {findings(begun, notStarted), []word{{charge, confirmed, false}, {charge, none, false}, {charge, none, true}}, none, 1},
		"all steps, corrected for one":         {findings(begun, notStarted), []word{{all, none, false}, {charge, confirmed, true}}, confirmed, 2},
		"one step, corrected by all":           {findings(begun, notStarted), []word{{charge, confirmed, false}, {all, none, true}}, none, 1},
		"all steps, corrected by all":          {findings(begun), []word{{all, confirmed, false}, {all, none, true}}, none, 1},
		"the others of all steps still count":  {findings(begun), []word{{all, confirmed, false}, {charge, none, true}}, confirmed, 2},
		"another step's word is left as it is": {findings(begun, notStarted), []word{{"0004#mail", confirmed, false}, {charge, none, true}}, confirmed, 2},
		"a receipt is not corrected":           {findings(receipt, notStarted), []word{{charge, confirmed, false}, {charge, none, true}}, unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCase(t, tt.says)
			b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
			var j enrich.Judgement
			for _, w := range tt.words {
				j = b.states("ann", w.step, w.state, w.corrects)
			}
			if j.Context.Folded.State != tt.want {
				t.Errorf("folded to %s, want %s", j.Context.Folded.State, tt.want)
			}
			if left := enrich.Statements(b.c); len(left) != tt.left {
				t.Errorf("%d statements stand, want %d: %+v", len(left), tt.left, left)
			}
			if len(b.c.Notes) != len(tt.words) {
				t.Errorf("%d notes, want all %d", len(b.c.Notes), len(tt.words))
			}
			again := b.e.Judge(t.Context(), start.Add(2*time.Hour), []enrich.Subject{{Case: b.c}})[0]
			if again.Context.Folded != j.Context.Folded || !again.Stands(b.c.Control) {
				t.Errorf("the gate sees %+v", again.Context.Folded)
			}
		})
	}
}

// What a correction took back does not come back when a send has overtaken the
// correction itself.
func TestWhatWasTakenBackStaysSo(t *testing.T) {
	b := newCase(t, findings(notStarted))
	b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
	b.states("ann", dlqbridge.AllSteps, dlqbridge.EffectConfirmed, false)
	b.states("bob", dlqbridge.AllSteps, dlqbridge.EffectNone, true)
	b.send()
	if j := b.recur("m-2", letterOf("x")); j.Context.Folded.State != dlqbridge.EffectNone {
		t.Errorf("folded to %s", j.Context.Folded.State)
	}
}

// Old records may hold two words that disagree: it is said so, with the way out.
func TestDisagreementIsSaid(t *testing.T) {
	b := newCase(t, findings(finding("0003#charge", dlqbridge.EffectUnknown, dlqbridge.ProofSystemRead), notStarted))
	b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
	b.states("ann", "0003#charge", dlqbridge.EffectConfirmed, false)
	b.states("bob", "0003#charge", dlqbridge.EffectNone, false)
	e := enrich.Explain(b.c, enrich.Around{})
	for part, text := range map[string]string{"reason": e.Reason, "fold": strings.Join(e.Fold, "\n"), "change": strings.Join(e.Change, "\n")} {
		if !strings.Contains(text, "settle-effect --correct") {
			t.Errorf("the %s does not name the way out: %s", part, text)
		}
	}
	if want := "People who looked at step 0003#charge of run run-1 disagree: it happened (stated by ann at"; !strings.HasPrefix(e.Reason, want) || !strings.Contains(e.Reason, "nothing happened (stated by bob at") {
		t.Errorf("got %q", e.Reason)
	}
	if slices.ContainsFunc(e.Change, func(s string) bool { return strings.Contains(s, "Proof of what happened") }) {
		t.Errorf("what no longer works is recommended: %q", e.Change)
	}
}
