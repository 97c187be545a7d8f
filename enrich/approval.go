package enrich

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// approval is one person's approval of a send, or of opening a record again.
type approval struct {
	by     dlqbridge.Actor
	at     time.Time
	reason string
	// reopens: it is of opening the record again, and no send rests on it.
	reopens bool
	// over is the move that ended it or that it was used for; nil while it counts.
	over *dlqbridge.Move
}

// approved notes the approvals of a note.
func (f *facts) approved(n *dlqbridge.Note) {
	if n.Approval {
		f.approvals = append(f.approvals, approval{by: n.Actor, at: n.At, reason: n.Reason, reopens: n.Verb == dlqbridge.VerbReopen})
	}
	if s := n.Second; s != nil {
		f.approvals = append(f.approvals, approval{by: s.By, at: s.At, reason: s.Reason})
	}
}

// unapprove ends what was approved so far: it stood on what was known then.
func (f *facts) unapprove() {
	by := f.move
	for i := range f.approvals {
		if by == nil {
			by = &dlqbridge.Move{} // of what is judged as if it were on record
		}
		if f.approvals[i].over == nil {
			f.approvals[i].over = by
		}
	}
}

// unused lets those approvals count again that a claim had used which was taken
// back: nothing was sent, and the authorisation that rests on them stands.
func (f *facts) unused(m dlqbridge.Move) {
	for i, a := range f.approvals {
		if a.over != nil && a.over.Verb == dlqbridge.VerbClaim && a.over.Job == m.Job && a.over.N == m.N {
			f.approvals[i].over = nil
		}
	}
}

// approvers are the authenticated people whose approval of a send counts.
func (f *facts) approvers() []string {
	var out []string
	for _, a := range f.approvals {
		if a.over == nil && !a.reopens && a.by.Authenticated && !slices.Contains(out, a.by.Name) {
			out = append(out, a.by.Name)
		}
	}
	return out
}

// DocumentLapse is when and why something stopped to count.
type DocumentLapse struct {
	At  *string `json:"at"`
	Why string  `json:"why"`
}

// DocumentAuthorization is the permission to send that the record has.
type DocumentAuthorization struct {
	By     string           `json:"by"`
	At     *string          `json:"at"`
	Action dlqbridge.Action `json:"action"`
	// Lapsed: it is too old, although nobody has written that down yet; null
	// while it counts.
	Lapsed *DocumentLapse `json:"lapsed"`
}

// aged is when and why the record's authorisation lapsed by its age; nil if it
// has not, or nothing says how old it may become.
func (a Around) aged(k dlqbridge.Control) *DocumentLapse {
	if k.Status != dlqbridge.StatusAuthorized || k.Authorized == nil || a.AuthorizeTTL <= 0 || a.Now.Sub(k.Authorized.At) <= a.AuthorizeTTL {
		return nil
	}
	return &DocumentLapse{At: at(k.Authorized.At.Add(a.AuthorizeTTL)), Why: fmt.Sprintf("older than authorize_ttl, %s", a.AuthorizeTTL)}
}

func authorizationOf(k dlqbridge.Control, a Around) *DocumentAuthorization {
	if k.Authorized == nil {
		return nil
	}
	return &DocumentAuthorization{By: k.Authorized.By, At: at(k.Authorized.At), Action: k.Authorized.Action, Lapsed: a.aged(k)}
}

func approvalsOf(c dlqbridge.Case, a Around) []DocumentApproval {
	out := []DocumentApproval{}
	s := Subject{Case: c}
	for _, one := range s.facts().approvals {
		d := DocumentApproval{By: one.by.String(), Authenticated: one.by.Authenticated, At: at(one.at), Reason: orNull(one.reason)}
		switch over := one.over; {
		case over == nil:
			d.Lapsed = a.aged(c.Control)
		case over.Verb == dlqbridge.VerbClaim:
			d.Redrive = &over.N
		case one.reopens && over.Verb == dlqbridge.VerbReopen: // it did what it was for
		default:
			d.Lapsed = &DocumentLapse{At: at(over.At), Why: lapsedBy(*over)}
		}
		out = append(out, d)
	}
	return out
}

// lapsedBy is why a move ends what was approved before it.
func lapsedBy(m dlqbridge.Move) string {
	rule, _ := m.Verb.Rule()
	switch {
	case m.Verb == dlqbridge.VerbLapse:
		return m.Why
	case m.To.Closed():
		return fmt.Sprintf("closed as %s by %s", m.To, m.By)
	case m.Arrival != "":
		return "another letter of the task came"
	case rule.Person:
		return fmt.Sprintf("decided anew after %s by %s", m.Verb, m.By)
	}
	return fmt.Sprintf("%s by %s", m.Verb, m.By)
}

// words are an approval's for a person; now says whether it still counts.
func (d DocumentApproval) words() (line string, now bool) {
	line = d.By
	if d.At != nil {
		line += " at " + *d.At
	}
	if d.Reason != nil {
		line += ": " + *d.Reason
	}
	switch {
	case d.Redrive != nil:
		return fmt.Sprintf("%s (used for redrive %d)", line, *d.Redrive), false
	case d.Lapsed != nil:
		return line + " (" + d.Lapsed.String() + ")", false
	}
	return line, true
}

// String is the approval for a person.
func (d DocumentApproval) String() string {
	line, _ := d.words()
	return line
}

// String is the lapse for a person.
func (d DocumentLapse) String() string {
	if d.At == nil {
		return "lapsed: " + d.Why
	}
	return "lapsed at " + *d.At + ": " + d.Why
}

// approvalLines say which permissions count now, and of those that do not how
// that came, where none has been used since.
func approvalLines(c dlqbridge.Case, a Around) []string {
	k := c.Control
	var out []string
	if p := authorizationOf(k, a); p != nil && k.Status == dlqbridge.StatusAuthorized {
		line := fmt.Sprintf("Authorised by %s at %s to %s", p.By, *p.At, p.Action)
		if p.Lapsed != nil {
			line += ", which has " + p.Lapsed.String()
		}
		return append(out, line+".")
	}
	for _, d := range approvalsOf(c, a) {
		switch line, counts := d.words(); {
		case d.Redrive != nil:
			out = nil // what was before led to that send
		case counts:
			out = append(out, "Approved by "+line+".")
		case d.Lapsed != nil:
			out = append(out, "Counts no more: the approval by "+line+".")
		}
	}
	return out
}
