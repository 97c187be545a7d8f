package enrich

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Explanation is why a record was decided as it was (`records explain`).
type Explanation struct {
	ID     string           `json:"id"`
	Status dlqbridge.Status `json:"status"`
	Action dlqbridge.Action `json:"action"`
	// Rule is the rule of the decision, Cause and CauseRule what the failure was
	// classed as and by which rule.
	Rule      dlqbridge.Why   `json:"rule"`
	Cause     dlqbridge.Cause `json:"cause"`
	CauseRule string          `json:"causeRule"`
	Reason    string          `json:"reason"`
	// Effect, Uncovered and RepeatSafe are what the rule looked at.
	Effect     dlqbridge.Effect `json:"effect"`
	Uncovered  dlqbridge.Effect `json:"uncovered"`
	RepeatSafe bool             `json:"repeatSafe"`
	// Steps is what was found, step by step, in words.
	Steps []string `json:"steps"`
	// Change is what would lead to another decision.
	Change []string `json:"change"`
	// Verbs are the moves that the status allows to people.
	Verbs []dlqbridge.Verb `json:"verbs"`
}

// Explain says why a record was decided as it was, from what is stored.
func Explain(c dlqbridge.Case) Explanation {
	k := c.Control
	x, _ := deciding(c)
	e := Explanation{
		ID: k.ID, Status: k.Status, Action: k.Action, Rule: k.Why, Cause: k.Cause, CauseRule: x.Failure.Rule, Reason: x.Reason,
		Effect: k.Effect, Uncovered: k.Uncovered, RepeatSafe: k.RepeatSafe,
		Steps: []string{}, Change: []string{}, Verbs: nonNil(dlqbridge.VerbsFor(k.Status)),
	}
	for _, f := range x.Findings {
		e.Steps = append(e.Steps, sentence(f, x.Checkpoint, k))
	}
	if len(x.Findings) == 0 {
		e.Steps = append(e.Steps, "Nobody said anything about an effect; silence proves nothing, so the effect is unknown.")
	}
	if x.Checkpoint != nil {
		e.Steps = append(e.Steps, fmt.Sprintf("Checkpoint %s covers steps of its own runs up to %q.", x.Checkpoint.Ref, x.Checkpoint.Step))
	}
	e.Change = append(e.Change, changes(k, x)...)
	return e
}

// sentence says what one finding says and what it is worth.
func sentence(f dlqbridge.Finding, cp *dlqbridge.Checkpoint, k dlqbridge.Control) string {
	step := "step " + f.Step
	if f.Step == dlqbridge.AllSteps {
		step = "all steps that nobody names"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s", f.Store, step)
	if f.Run != "" {
		fmt.Fprintf(&b, " in run %s", f.Run)
	}
	fmt.Fprintf(&b, ": %s by %s", f.State, f.Proof)
	if f.Detail != "" {
		fmt.Fprintf(&b, " (%s)", f.Detail)
	}
	if !f.AsOf.IsZero() {
		fmt.Fprintf(&b, ", as of %s", dlqbridge.FormatTime(f.AsOf))
	}
	switch {
	case cp.Covers(f):
		b.WriteString("; covered by the checkpoint")
	case f.Proof == dlqbridge.ProofNothingFound:
		b.WriteString("; proves nothing")
	case f.State == dlqbridge.EffectNone && f.Proof == dlqbridge.ProofWorkerStatement:
		b.WriteString("; counts only for its own run, and only on routes that trust workers")
	case f.State == dlqbridge.EffectNone && !f.AsOf.After(k.LastSend) && (f.Run == "" || f.Step == dlqbridge.AllSteps) &&
		(f.Proof == dlqbridge.ProofOperator || f.Proof == dlqbridge.ProofSystemRead):
		b.WriteString("; from before the last send, so it says nothing about what came after")
	}
	return b.String() + "."
}

// changes lists what would lead to another decision.
func changes(k dlqbridge.Control, x dlqbridge.Context) []string {
	if k.Status.Closed() {
		return []string{"The record is closed; a new letter would open the next one."}
	}
	var out []string
	switch k.Why { //nolint:exhaustive // the default is for all others
	case dlqbridge.WhyEffectUnknown:
		switch {
		case !x.RunningUntil.IsZero():
			out = append(out, "The end of the run that may still be going, or "+dlqbridge.FormatTime(x.RunningUntil)+".")
		case len(x.Unavailable) > 0:
			out = append(out, "An answer of "+names(x.Unavailable)+" (triage investigate).")
		}
		open := openSteps(x.Findings)
		if len(open) > 0 {
			out = append(out, fmt.Sprintf("Proof of what happened in %s: triage settle-effect --to none_confirmed|confirmed --step … --evidence …", strings.Join(open, ", ")))
		} else {
			out = append(out, "Proof that nothing changed outside: triage settle-effect --to none_confirmed --all-steps --evidence …")
		}
		out = append(out, "A route that declares effects: none or effects: idempotent, or a ledger that its workers write.")
	case dlqbridge.WhyEffectConfirmed:
		out = append(out, "The effect undone (triage compensated) or the work finished by hand (triage complete-manually).")
	case dlqbridge.WhyCritical:
		out = append(out, "Two different authenticated approvals (triage authorize), or a corrected cause (triage classify).")
	case dlqbridge.WhyConflict:
		out = append(out, "The letters agreeing: reject the record, or do the work by hand.")
	case WhyLate, dlqbridge.WhyLinked, WhyBare:
		out = append(out, "Somebody looking at it (triage investigate).")
	case dlqbridge.WhyFixable, dlqbridge.WhyUnrepeatable:
		out = append(out, "A verifiable fix (triage fix --fix KIND:TEXT).")
	case dlqbridge.WhyUnclassified:
		out = append(out, "A named cause (triage classify --cause …).")
	case dlqbridge.WhyExpired:
		out = append(out, "Nothing: the work lost its sense. Close it (triage cancel-expired).")
	case dlqbridge.WhyCoveredEffect:
		out = append(out, "A route with resume: true, whose workers go on from the checkpoint.")
	default:
		out = append(out, "Another finding of the stores, another cause, or a fix.")
	}
	return out
}

// openSteps names the steps that are unknown.
func openSteps(findings []dlqbridge.Finding) []string {
	var out []string
	for _, f := range findings {
		if f.State == dlqbridge.EffectUnknown && f.Step != dlqbridge.AllSteps && !slices.Contains(out, f.Step) {
			out = append(out, f.Step)
		}
	}
	return out
}
