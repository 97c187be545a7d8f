package triage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// settleEffect adds the person's word about a step, or about all of them. A word
// that contradicts an earlier person's is refused: both on record would leave
// the effect unknown for good. A correction takes the earlier one's place.
func (m Mover) settleEffect(ctx context.Context, c dlqbridge.Case, r Request, p plan) (plan, error) {
	no := func(why string) error {
		return &dlqbridge.MoveError{ID: c.Control.ID, Verb: r.Verb, Status: c.Control.Status, Why: why}
	}
	earlier := enrich.Statements(c)
	step := r.Step
	if r.AllSteps {
		step = dlqbridge.AllSteps
	} else if known := steps(c, earlier); !slices.Contains(known, step) {
		why := fmt.Sprintf("no store names a step %q", step)
		if len(known) > 0 {
			why += ", they name " + strings.Join(known, ", ")
		}
		return p, no(why + "; speak of all steps with --all-steps")
	}
	var same, against []enrich.Statement
	for _, s := range earlier {
		if step != dlqbridge.AllSteps && !s.SpeaksOf(step) {
			continue
		}
		same = append(same, s)
		// What did not happen before the last send says nothing about the time after it.
		if s.State != r.Effect && (s.State == dlqbridge.EffectConfirmed || s.AsOf.After(c.Control.LastSend)) {
			against = append(against, s)
		}
	}
	switch {
	case r.Correct && len(same) == 0:
		return p, no("nobody has stated anything about " + ofStep(step) + ", so there is nothing to correct; leave --correct out")
	case !r.Correct && len(against) > 0:
		return p, no(contradicts(against, c.Control))
	}
	p.note.Corrects = r.Correct
	p.note.Findings = []dlqbridge.Finding{{
		Store: "operator", Step: step, State: r.Effect, Proof: dlqbridge.ProofOperator, AsOf: p.note.At,
		Detail: "stated by " + r.Actor.String(),
	}}
	return m.judged(ctx, c, p)
}

// contradicts says who said otherwise, and what to do about it.
func contradicts(against []enrich.Statement, k dlqbridge.Control) string {
	var said []string
	before := false
	for _, s := range against {
		before = before || !s.AsOf.After(k.LastSend)
		said = append(said, fmt.Sprintf("%s stated %s of %s at %s (reason: %s; evidence: %s)",
			s.Note.Actor, s.State, ofStep(s.Step), dlqbridge.FormatTime(s.Note.At), s.Note.Reason, s.Note.Evidence))
	}
	why := strings.Join(said, ", and ") + "; two statements that disagree would leave the effect unknown. If the earlier one was mistaken, say so with --correct: " +
		"yours then takes its place, and both stay in the history"
	if before {
		why += ". What happened before a send stays true after it, so do that only if it did not happen then either"
	}
	return why
}

func ofStep(step string) string {
	if step == dlqbridge.AllSteps {
		return "all steps"
	}
	return "step " + step
}

// steps lists the steps that the current context or a person names.
func steps(c dlqbridge.Case, said []enrich.Statement) []string {
	var out []string
	add := func(f dlqbridge.Finding) {
		if f.Step != dlqbridge.AllSteps && !slices.Contains(out, f.Step) {
			out = append(out, f.Step)
		}
	}
	if x := c.Context(c.Control.Context); x != nil {
		for _, f := range x.Findings {
			add(f)
		}
	}
	for _, s := range said {
		add(s.Finding)
	}
	return out
}
