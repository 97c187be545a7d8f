package enrich

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Decided names the context that a record was last decided on as a failure. What
// its work ended with (a completion, an absence) is a later look, at which the
// stores need not say any more what had failed: a ledger forgets the last error
// of a task that completed. A context that the case does not hold is named too,
// so that it can be read.
func Decided(c dlqbridge.Case) string {
	for _, m := range slices.Backward(c.History) {
		if m.Context == "" {
			continue
		}
		if x := c.Context(m.Context); x == nil || !ended(m, *x) {
			return m.Context
		}
	}
	return c.Control.Context
}

// ended says whether a move stands on a look at how the work ended, and not on a failure.
func ended(m dlqbridge.Move, x dlqbridge.Context) bool {
	switch {
	case m.Arrival != "" && x.Failure.Rule != ruleNone: // the letter says how it failed
		return false
	case m.Verb == dlqbridge.VerbComplete, m.Verb == dlqbridge.VerbUnconfirmed && m.To.Closed():
		return true
	}
	return x.CompletedBy != nil
}

// replayable is the context that a record's last decision about its failure can
// be decided once more from; nil if it is not there any more, or not all of it.
func replayable(c dlqbridge.Case) *dlqbridge.Context {
	name := c.Control.Context
	if c.Control.Status.Closed() {
		name = Decided(c)
	}
	x := c.Context(name)
	if x == nil || x.Action == "" || len(x.Omitted) > 0 {
		return nil
	}
	return x
}

// remembering is a context with what the record knew before of its failure,
// where the context is about how the work ended. A glance asked for nothing but
// that, so all else is what was known before it.
func remembering(c dlqbridge.Case, x dlqbridge.Context) dlqbridge.Context {
	before := c.Context(Decided(c))
	if before == nil || before.Name == x.Name {
		return x
	}
	corrected := x.Failure
	x.Failure = before.Failure
	if byPerson(corrected.Rule) {
		x.Failure.Cause, x.Failure.Rule = corrected.Cause, corrected.Rule
	}
	if x.Action == "" && x.CompletedBy != nil {
		x.Task, x.Findings, x.Omitted, x.Checkpoint = before.Task, before.Findings, before.Omitted, before.Checkpoint
		x.TraceID, x.Artifacts = cmp.Or(x.TraceID, before.TraceID), before.Artifacts
	}
	return x
}

// byPerson says whether a person named the cause.
func byPerson(rule string) bool { return rule == rulePerson || strings.HasPrefix(rule, rulePerson+":") }
