package dlqbridge

import (
	"fmt"
	"slices"
	"time"
)

// Beside is what a record's moves depend on and it does not say itself.
type Beside struct {
	// Now is the time; zero is not known, and then nothing has expired.
	Now time.Time
	// Compensates: the record's route names where compensations go.
	Compensates bool
	// Newer is the record that a later letter of the same task opened; empty if
	// there is none, or nobody looked.
	Newer string
}

// Possible lists the moves that people can make on a record, in table order:
// those that its status allows and that nothing on record hinders.
func Possible(c Case, b Beside) []Verb {
	out := []Verb{}
	for _, r := range moveRules {
		if r.Person && r.Verb.Hindered(c, b) == "" {
			out = append(out, r.Verb)
		}
	}
	return out
}

// Hindered says why a person cannot make a move, as far as the record shows;
// empty is that nothing on record hinders it. Stores may say otherwise when
// they are asked again, which all moves do that decide anew.
func (v Verb) Hindered(c Case, b Beside) string {
	r, ok := v.Rule()
	switch {
	case !ok || !r.Person:
		return "it is no person's move"
	case !slices.Contains(r.From, c.Control.Status):
		return "not allowed in this status"
	case r.hinders == nil:
		return ""
	}
	return r.hinders(c, b)
}

// notInDoubt hinders settle-send where there is nothing to settle.
func notInDoubt(c Case, _ Beside) string {
	switch claim := c.Control.Claim; {
	case claim == nil:
		return "no job holds it"
	case c.Doubt() == nil:
		return fmt.Sprintf("redrive %d is not in doubt", claim.N)
	}
	return ""
}

// nothingHappened hinders compensated: closing a record as undone of which
// nothing happened would only lose its task.
func nothingHappened(c Case, _ Beside) string {
	if k := c.Control; k.Effect == EffectNone && k.Compensations == 0 {
		return "nothing changed outside, so nothing can have been undone; if something did change, say so first (settle-effect --to confirmed)"
	}
	return ""
}

// notExpired hinders cancel-expired.
func notExpired(c Case, b Beside) string {
	switch until := c.Control.ValidUntil; {
	case until.IsZero():
		return "the task has no valid_until, so nothing has expired"
	case !b.Now.IsZero() && !b.Now.After(until):
		return "its work makes sense until " + FormatTime(until)
	}
	return ""
}

// succeeded hinders reopen: two open records of one task would send it twice.
func succeeded(_ Case, b Beside) string {
	if b.Newer != "" {
		return "the task has a newer record, " + b.Newer + "; work on that one"
	}
	return ""
}

// unauthorizable hinders authorize by what the rules of authorisation refuse
// whatever the stores say now, and by what was decided last.
func unauthorizable(c Case, b Beside) string {
	k := c.Control
	expired := !k.ValidUntil.IsZero() && b.Now.After(k.ValidUntil)
	switch {
	case c.IncidentOpened():
		return "an incident is open"
	case k.Conflict:
		return "its letters differ in task type, key or payload"
	case k.Late:
		return "a letter arrived while it was being redriven that was not the redrive's"
	case k.Why != WhyCritical && !k.Action.Sends():
		return fmt.Sprintf("the decision is %s (%s)", k.Action, k.Why)
	case expired && k.Action != ActionCompensate: // undoing makes sense after it
		return "past valid_until"
	case k.Action == ActionCompensate && !b.Compensates:
		return "an effect is confirmed, and its route names no compensate_to"
	case k.Fix == "":
		return NoFix
	}
	return ""
}

// NoFix is why nobody authorises a record that nothing was changed for.
const NoFix = "no verifiable fix is on record (fix KIND:TEXT)"

// IncidentOpened says whether a person opened an incident that nobody has closed.
func (c Case) IncidentOpened() bool {
	open := false
	for _, m := range c.History {
		switch m.Verb { //nolint:exhaustive // no other move is about incidents
		case VerbOpenIncident:
			open = true
		case VerbCloseIncident:
			open = false
		}
	}
	return open
}
