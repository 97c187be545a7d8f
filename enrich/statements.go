package enrich

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Statement is a person's word about an effect, with the note that it stands in.
type Statement struct {
	dlqbridge.Finding
	Note *dlqbridge.Note
}

// Statements lists the words of people that stand, the oldest first by the
// record's history: what a correction took back is not among them, and what it
// took back for one step only says so in Except. They all count alike: which of
// them a later send has overtaken, the fold knows.
func Statements(c dlqbridge.Case) []Statement {
	s := Subject{Case: c}
	return s.facts().said
}

// hear adds what a note states. A correction takes the place of what people said
// before about the same steps; what stores say it leaves as it is.
func hear(said []Statement, n *dlqbridge.Note) []Statement {
	if n.Corrects {
		for _, f := range n.Findings {
			said = takeBack(said, f.Step)
		}
	}
	for _, f := range n.Findings {
		said = append(said, Statement{f, n})
	}
	return said
}

// takeBack is what is left of statements of which those about a step do not
// count any more; AllSteps takes all of them back.
func takeBack(said []Statement, step string) []Statement {
	var left []Statement
	for _, s := range said {
		switch {
		case step == dlqbridge.AllSteps || s.Step == step:
			continue
		case s.SpeaksOf(step):
			s.Except = append(slices.Clone(s.Except), step)
		}
		left = append(left, s)
	}
	return left
}

// stated are the findings of statements.
func stated(said []Statement) []dlqbridge.Finding {
	var out []dlqbridge.Finding
	for _, s := range said {
		out = append(out, s.Finding)
	}
	return out
}

// disagreement says who contradicts whom about a step, and whose word can be
// taken back: a person's can, a store's cannot.
func disagreement(d dlqbridge.Disagreement) string {
	who := "Those who speak of"
	if slices.ContainsFunc(d.Yes, fromPerson) && slices.ContainsFunc(d.No, fromPerson) {
		who = "People who looked at"
	}
	what := ", so nobody knows"
	if slices.ContainsFunc(slices.Concat(d.Yes, d.No), fromPerson) {
		what += "; a person's mistaken statement is replaced with triage settle-effect --correct"
	}
	return fmt.Sprintf("%s %s disagree: it happened (%s), nothing happened (%s)%s.", who, placeOf(d), sources(d.Yes), sources(d.No), what)
}

func fromPerson(f dlqbridge.Finding) bool { return f.Proof == dlqbridge.ProofOperator }

func placeOf(d dlqbridge.Disagreement) string {
	switch {
	case d.Step == dlqbridge.AllSteps:
		return "all steps that nobody names"
	case d.Run != "":
		return "step " + d.Step + " of run " + d.Run
	}
	return "step " + d.Step
}

// sources names who says something, people by the words of their statement.
func sources(findings []dlqbridge.Finding) string {
	var out []string
	for _, f := range findings {
		by := f.Store
		if fromPerson(f) && f.Detail != "" {
			by = f.Detail
		}
		if !f.AsOf.IsZero() {
			by += " at " + dlqbridge.FormatTime(f.AsOf)
		}
		out = append(out, by)
	}
	return strings.Join(out, ", ")
}
