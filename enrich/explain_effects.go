package enrich

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// What states and proofs are in the words of a person.
var (
	stateWords = map[dlqbridge.Effect]string{
		dlqbridge.EffectNone: "nothing happened", dlqbridge.EffectConfirmed: "it happened", dlqbridge.EffectUnknown: "not known",
	}
	proofWords = map[dlqbridge.Proof]string{
		dlqbridge.ProofReceipt: "there is a receipt", dlqbridge.ProofSystemRead: "it looked", dlqbridge.ProofNotStarted: "no such step was begun",
		dlqbridge.ProofDeclared: "so declared", dlqbridge.ProofWorkerStatement: "the worker says so of its own run", dlqbridge.ProofOperator: "a person looked",
		dlqbridge.ProofNothingFound: "nothing was found",
	}
)

func inWords[K ~string](words map[K]string, k K) string {
	if w, ok := words[k]; ok {
		return w
	}
	return string(k)
}

// sentence says what one finding says and what it is worth.
func sentence(f dlqbridge.Finding, cp *dlqbridge.Checkpoint, k dlqbridge.Control) string {
	step := "step " + f.Step
	switch {
	case f.Step == dlqbridge.AllSteps && f.Proof == dlqbridge.ProofOperator:
		step = "all steps"
	case f.Step == dlqbridge.AllSteps:
		step = "all steps that nobody names"
	}
	if len(f.Except) > 0 {
		step += " but " + strings.Join(f.Except, ", ") + ", which a later statement corrects"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s", title(f.Store), step)
	if f.Run != "" {
		fmt.Fprintf(&b, " of run %s", f.Run)
	}
	fmt.Fprintf(&b, ": %s, %s", inWords(stateWords, f.State), inWords(proofWords, f.Proof))
	if f.Detail != "" {
		fmt.Fprintf(&b, " (%s)", f.Detail)
	}
	if f.Receipt != nil && *f.Receipt != "" {
		fmt.Fprintf(&b, ", receipt %s", *f.Receipt)
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

// maxFoldLines bounds how many steps are folded one by one for a person.
const maxFoldLines = 20

// foldLines says what each step comes to and what they come to together. It
// folds each step alone with the fold itself, so that it cannot say anything
// else than what decided; where the fold knew more than is stored (whether the
// route trusts workers), it says the result only.
func foldLines(c dlqbridge.Case, x dlqbridge.Context) []string {
	k := c.Control
	if len(x.Findings) == 0 {
		return nil
	}
	if !x.RunningUntil.IsZero() {
		return []string{"Together: not known, because a run may still be going until " + dlqbridge.FormatTime(x.RunningUntil) + "."}
	}
	var out []string
	why := whyUnknown(x.Findings)
	if in, ok := refold(k, x); ok {
		out = stepLines(in)
		if all := dlqbridge.Disagreements(in); len(all) > 0 {
			why = "what is said of " + placeOf(all[0]) + " contradicts itself"
			for i, d := range all {
				if i == maxFoldLines {
					out = append(out, fmt.Sprintf("And %d disagreements more.", len(all)-i))
					break
				}
				out = append(out, disagreement(d))
			}
		}
	}
	together := "Together"
	sent := k.Claim != nil && unheard(c)
	if sent {
		together = "Together, until that send"
	}
	switch x.Folded.State {
	case dlqbridge.EffectUnknown:
		out = append(out, together+": not known, because "+why+".")
	case dlqbridge.EffectConfirmed:
		out = append(out, together+": it happened, because something did and nothing is unknown.")
	case dlqbridge.EffectNone:
		out = append(out, together+": nothing happened, because a positive proof speaks for every step.")
	}
	if x.Folded.Uncovered != x.Folded.State {
		out = append(out, fmt.Sprintf("Beyond the checkpoint: %s, which is what decides.", inWords(stateWords, x.Folded.Uncovered)))
	}
	if sent {
		out = append(out, fmt.Sprintf("What redrive %d, claimed at %s, has changed outside, if it went out, nothing on record says yet.", k.Claim.N, dlqbridge.FormatTime(k.LastSend)))
	}
	return out
}

// unheard says whether nothing was judged since a job claimed the record.
func unheard(c dlqbridge.Case) bool {
	for _, m := range slices.Backward(c.History) {
		switch {
		case m.Verb == dlqbridge.VerbClaim:
			return true
		case m.Context != "":
			return false
		}
	}
	return false
}

// whyUnknown says which kind of not knowing it is.
func whyUnknown(findings []dlqbridge.Finding) string {
	named, doubted := false, false
	for _, f := range findings {
		if f.State == dlqbridge.EffectUnknown {
			named = named || f.Step != dlqbridge.AllSteps
			doubted = doubted || f.Proof != dlqbridge.ProofNothingFound
		}
	}
	switch {
	case named:
		return "one step of which nobody knows is enough"
	case doubted:
		return "somebody who may know of a step could not say"
	}
	return "no proof that still counts speaks for every step"
}

// refold finds what the fold looked at, as far as it is stored: the input with
// which it comes to what is stored.
func refold(k dlqbridge.Control, x dlqbridge.Context) (dlqbridge.FoldInput, bool) {
	for _, trust := range []bool{false, true} {
		for _, sent := range []time.Time{k.LastSend, {}} {
			in := dlqbridge.FoldInput{Findings: x.Findings, LastSend: sent, Checkpoint: x.Checkpoint, TrustWorker: trust}
			if trust {
				in.OnlyRun = x.Task.RunID
			}
			if dlqbridge.Fold(in) == x.Folded {
				return in, true
			}
		}
	}
	return dlqbridge.FoldInput{}, false
}

func stepLines(in dlqbridge.FoldInput) []string {
	var steps [][2]string // run and step
	var general []dlqbridge.Finding
	for _, f := range in.Findings {
		if f.Step == dlqbridge.AllSteps {
			general = append(general, f)
			continue
		}
		joins := f.Run == "" && slices.ContainsFunc(in.Findings, func(g dlqbridge.Finding) bool { return g.Step == f.Step && g.Run != "" })
		if key := [2]string{f.Run, f.Step}; !joins && !slices.Contains(steps, key) {
			steps = append(steps, key)
		}
	}
	var out []string
	for i, s := range steps {
		if i == maxFoldLines {
			out = append(out, fmt.Sprintf("And %d steps more.", len(steps)-i))
			break
		}
		alone := in
		// Nobody but this step is asked: the rest is taken as not begun.
		alone.Findings = []dlqbridge.Finding{{Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofNotStarted}}
		for _, f := range in.Findings {
			if f.Step == s[1] && (f.Run == s[0] || f.Run == "") || f.Step == dlqbridge.AllSteps && f.State != dlqbridge.EffectUnknown && f.SpeaksOf(s[1]) {
				alone.Findings = append(alone.Findings, f)
			}
		}
		where := "Step " + s[1]
		if s[0] != "" {
			where += " of run " + s[0]
		}
		out = append(out, fmt.Sprintf("%s comes to: %s.", where, inWords(stateWords, dlqbridge.Fold(alone).State)))
	}
	rest := in
	rest.Findings = general
	switch state := dlqbridge.Fold(rest).State; {
	case len(general) == 0:
		out = append(out, "Nobody speaks for steps that are not named, so there may have been others.")
	case len(steps) > 0:
		out = append(out, fmt.Sprintf("All other steps come to: %s.", inWords(stateWords, state)))
	}
	return out
}

// changes lists what would lead to another decision.
func changes(c dlqbridge.Case, x dlqbridge.Context, a Around) []string {
	k := c.Control
	switch {
	case k.Status.Closed():
		return []string{"The record is closed; a new letter would open the next one."}
	case c.Doubt() != nil:
		return []string{"Evidence whether the message went out (triage settle-send --to sent|not-sent --evidence …)."}
	case k.Status == dlqbridge.StatusRedriving:
		return []string{"Its outcome, which `dlqbridge serve` or `dlqbridge redrive observe` settles; a person decides nothing until then."}
	}
	if c.IncidentOpened() {
		return []string{"The incident closed (triage close-incident)."}
	}
	if a.aged(k) != nil {
		return []string{"Its authorisation has lapsed by its age: redrive observe, or serve, takes it back, and then somebody authorises it anew."}
	}
	var out []string
	s := Subject{Case: c}
	known := s.facts()
	patched := known.patched()
	switch k.Why { //nolint:exhaustive // the default is for all others
	case dlqbridge.WhyEffectUnknown:
		switch {
		case !x.RunningUntil.IsZero():
			out = append(out, "The end of the run that may still be going, or "+dlqbridge.FormatTime(x.RunningUntil)+".")
		case len(x.Unavailable) > 0:
			out = append(out, "An answer of "+names(x.Unavailable)+" (triage investigate).")
		}
		none := then(k, patched, x, func(in *dlqbridge.DecisionInput) {
			in.Effect = dlqbridge.Folded{State: dlqbridge.EffectNone, Uncovered: dlqbridge.EffectNone}
		})
		happened := then(k, patched, x, func(in *dlqbridge.DecisionInput) {
			in.Effect = dlqbridge.Folded{State: dlqbridge.EffectConfirmed, Uncovered: dlqbridge.EffectConfirmed}
		})
		in, _ := refold(k, x)
		if all := dlqbridge.Disagreements(in); len(all) > 0 {
			out = append(out, ofDisagreement(all[0]))
		} else if open := openSteps(x.Findings); len(open) > 0 {
			out = append(out, fmt.Sprintf("Proof of what happened in %s: triage settle-effect --to none_confirmed|confirmed --step … --evidence …", strings.Join(open, ", ")))
		} else {
			out = append(out, "Proof that nothing changed outside: triage settle-effect --to none_confirmed --all-steps --evidence …")
		}
		proven := string(none)
		if k.Cause == dlqbridge.CauseUnclassified && none == dlqbridge.ActionHumanReview {
			proven += " until somebody names the cause too (triage classify --cause …)"
		}
		out = append(out, fmt.Sprintf("With proof that nothing happened: %s; with proof that it happened: %s.", proven, happened),
			"A route that declares effects: none or effects: idempotent, or a ledger that its workers write.")
	case dlqbridge.WhyEffectConfirmed:
		switch {
		case k.Status == dlqbridge.StatusAuthorized:
			out = append(out, onlySend)
		case a.Compensates:
			out = append(out, "A compensation, sent by redrive run --action compensate. "+lacks(c, a, "redrive run --action compensate"))
		default:
			out = append(out, "A route that names where compensations go (compensate_to).")
		}
		out = append(out, "The effect undone (triage compensated) or the work finished by hand (triage complete-manually).")
	case dlqbridge.WhyCritical:
		approvals := "The approvals of two different authenticated people (triage authorize)"
		if k.Fix == "" {
			approvals = "A verifiable fix (triage fix --fix KIND:TEXT), and then the approvals of two different authenticated people, who approve that fix"
		}
		out = append(out, approvals+", or a corrected cause (triage classify).")
		if k.Status == dlqbridge.StatusIncidentOpen {
			out = append(out, "The incident closed (triage close-incident), which alone sends nothing.")
		}
	case dlqbridge.WhyConflict:
		out = append(out, "A person saying which payload is right (triage repair --arrival KEY, or --version N); where letters differ in task type or idempotency key: reject the record, or do the work by hand.")
	case WhyLate, dlqbridge.WhyLinked, WhyBare:
		out = append(out, "Somebody looking at it (triage investigate).")
	case WhyTenant:
		out = append(out, "Somebody finding out whose task it is (triage investigate), and proof of what it changed outside: triage settle-effect --all-steps --evidence …; or a ledger that has it for the letter's tenant.")
	case WhyCompensation:
		out = append(out, "A store that shows it completed (triage investigate), or this record closed by hand (triage complete-manually, triage reject).",
			"What it was to undo is decided at the record that it names: another compensation (triage authorize), or the effect undone (triage compensated).")
	case dlqbridge.WhyFixable, dlqbridge.WhyUnrepeatable, dlqbridge.WhyCheckpoint:
		switch {
		case k.Status == dlqbridge.StatusAuthorized:
			out = append(out, onlySend)
		case k.Fix == "":
			out = append(out, lacks(c, a, "redrive run"), "A corrected payload is a fix too (triage repair --patch FILE).")
		default:
			out = append(out, lacks(c, a, "redrive run"))
		}
	case dlqbridge.WhyRetryable:
		if k.Status == dlqbridge.StatusAuthorized {
			return append(out, onlySend)
		}
		out = append(out, lacks(c, a, "redrive run"), "Or policy, where the cause allows it (redrive run --policy).")
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

// ofDisagreement is what ends a disagreement: as a rule somebody was mistaken.
func ofDisagreement(d dlqbridge.Disagreement) string {
	step := "--step " + dlqbridge.ShellWord(d.Step) // whoever sends the letter names it
	if d.Step == dlqbridge.AllSteps {
		step = "--all-steps"
	}
	if slices.ContainsFunc(slices.Concat(d.Yes, d.No), fromPerson) {
		return fmt.Sprintf("The mistaken statement about %s replaced: triage settle-effect --correct --to none_confirmed|confirmed %s --evidence …", placeOf(d), step)
	}
	return fmt.Sprintf("Stores that agree about %s: correct the one that errs, then triage investigate.", placeOf(d))
}

// lacks says what a record still needs before that command may send it.
func lacks(c dlqbridge.Case, a Around, command string) string {
	switch why := dlqbridge.VerbAuthorize.Hindered(c, a.beside()); why {
	case "":
		return fmt.Sprintf("Nothing is missing but somebody who authorises it (%s, or triage authorize).", command)
	case dlqbridge.NoFix:
		return fmt.Sprintf("A verifiable fix is missing (triage fix --fix KIND:TEXT), and then somebody who authorises it; %s --fix KIND:TEXT does both.", command)
	default:
		return fmt.Sprintf("Nobody can authorise it now: %s.", why)
	}
}

const onlySend = "Nothing is missing but a job that sends it (redrive run)."

// then is what would be decided if something were different, by the decision's
// own rules and the cause's usual policy.
func then(k dlqbridge.Control, patched bool, x dlqbridge.Context, change func(*dlqbridge.DecisionInput)) dlqbridge.Action {
	in := dlqbridge.DecisionInput{
		Policy: dlqbridge.DefaultCausePolicy(k.Cause), Effect: x.Folded, RepeatSafe: k.RepeatSafe, Expired: past(k.ValidUntil, x.At),
		Redrives: k.Redrives, Fixed: k.Fix != "", Patched: patched,
	}
	if x.Failure.Retryable != nil && !*x.Failure.Retryable {
		in.Policy.Retryable = false
	}
	change(&in)
	return dlqbridge.Decide(in).Action
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
