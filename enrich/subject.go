package enrich

import (
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// Subject is what a judgement is about: a record as stored, and what the
// coming move will name.
//
//   - A letter without a record: zero Case, Arrival set.
//   - A further letter of a record: its Case, Arrival set.
//   - A person's verb: its Case, Note set (with Verb; and Findings, Fix, Cause
//     or Approval as the verb wants).
//   - The gate of a redrive, and a recheck: the Case alone.
//
// Items of the case that its history does not name are not looked at.
type Subject struct {
	Case    dlqbridge.Case
	Arrival *dlqbridge.Arrival
	Note    *dlqbridge.Note
	// Payload is what the newest letter carried, where it is at hand, for stores
	// whose key is made from it; Deliveries how often the letter that this is
	// about had been delivered.
	Payload    *dlqbridge.Payload
	Deliveries *int
	// Previous is set for a letter that met a closed record: the new record
	// continues that one.
	Previous string
}

// facts is what a subject's counted items say, newest state last.
type facts struct {
	control  dlqbridge.Control
	arrivals []dlqbridge.Arrival
	// findings are the operators'.
	findings []dlqbridge.Finding
	// cause is what a person corrected the cause to since the last failure.
	cause dlqbridge.Cause
	// fix is the fix recorded since the last failure.
	fix *dlqbridge.Fix
	// approvers are the authenticated people who approved since the ground last changed.
	approvers []string
	// looked: a person has dealt with the record since its last failure.
	looked bool
	// incident: a person opened one that nobody has closed. calmed: the one
	// that the last failure opened was closed by a person.
	incident, calmed bool
	// sent is what was sent last.
	sent sent
	// fresh: a letter is what this is about.
	fresh  bool
	linked bool
	// compensation: some letter is a compensation that died.
	compensation bool
}

// sent is the payload that a claim sent, and how many arrivals there were then.
// Zero is before any send.
type sent struct {
	hash     string
	arrivals int
}

// newest is the newest arrival, whose payload would be sent.
func (f *facts) newest() dlqbridge.Arrival {
	if len(f.arrivals) == 0 {
		return dlqbridge.Arrival{}
	}
	return f.arrivals[len(f.arrivals)-1]
}

// facts walks the history once, oldest first, so that order decides and not
// clocks.
func (s Subject) facts() facts {
	f := facts{control: s.Case.Control}
	var before sent // what counts again when a claim is released
	for _, m := range s.Case.History {
		if a := s.Case.Arrival(m.Arrival); m.Arrival != "" && a != nil {
			f.failed()
			f.arrivals = append(f.arrivals, *a)
		}
		switch m.Verb { //nolint:exhaustive // other moves change nothing here
		case dlqbridge.VerbClaim:
			before, f.sent = f.sent, sent{f.newest().PayloadSHA256, len(f.arrivals)}
			f.approvers = nil
		case dlqbridge.VerbRelease:
			f.sent = before
		case dlqbridge.VerbLapse, dlqbridge.VerbUnconfirmed:
			f.approvers = nil
		default:
		}
		f.person(m.Verb, s.note(m.Note))
	}
	if s.Arrival != nil {
		f.fresh = true
		if !slices.ContainsFunc(f.arrivals, func(a dlqbridge.Arrival) bool { return a.Key == s.Arrival.Key }) {
			f.failed()
			f.arrivals = append(f.arrivals, *s.Arrival)
		}
	}
	if s.Note != nil {
		f.person(s.Note.Verb, s.Note)
	}
	f.compensation = slices.ContainsFunc(f.arrivals, isCompensation)
	f.linked = (s.Previous != "" || s.Case.Control.Previous != "") && !f.looked
	return f
}

func (s Subject) note(name string) *dlqbridge.Note {
	if name == "" {
		return nil
	}
	for i := range s.Case.Notes {
		if s.Case.Notes[i].Name == name {
			return &s.Case.Notes[i]
		}
	}
	return nil
}

// failed forgets what people said about earlier failures: a fix, a corrected
// cause and approvals were about those. What they said about effects stays,
// with the time it speaks for.
func (f *facts) failed() {
	f.cause, f.fix, f.approvers, f.looked, f.calmed = "", nil, nil, false, false
}

func (f *facts) person(verb dlqbridge.Verb, n *dlqbridge.Note) {
	if rule, ok := verb.Rule(); !ok || !rule.Person {
		return
	}
	if n == nil { // people's moves have a reason, so they have a note
		return
	}
	switch verb { //nolint:exhaustive // other verbs say nothing about the ground
	case dlqbridge.VerbInvestigate, dlqbridge.VerbClassify, dlqbridge.VerbSettleEffect, dlqbridge.VerbFix,
		dlqbridge.VerbCloseIncident, dlqbridge.VerbReopen:
		f.looked = true
		f.approvers = nil // approvals stand on what was known when they were given
	case dlqbridge.VerbOpenIncident:
		f.incident, f.approvers = true, nil
	default:
	}
	if verb == dlqbridge.VerbCloseIncident {
		f.incident, f.calmed = false, true
	}
	f.findings = append(f.findings, n.Findings...)
	if n.Cause.Valid() {
		f.cause = n.Cause
	}
	if n.Fix != nil {
		if f.fix == nil || *f.fix != *n.Fix {
			f.approvers = nil // who approved one fix has not approved another
		}
		f.fix = n.Fix
	}
	if n.Approval && n.Actor.Authenticated && !slices.Contains(f.approvers, n.Actor.Name) {
		f.approvers = append(f.approvers, n.Actor.Name)
	}
	if s := n.Second; s != nil && s.By.Authenticated && !slices.Contains(f.approvers, s.By.Name) {
		f.approvers = append(f.approvers, s.By.Name)
	}
}

// differ says whether arrivals differ where they must not: in task type or
// idempotency key at any time, in payload from what was sent last, or before
// any send from each other.
func (f *facts) differ() bool {
	if len(f.arrivals) == 0 {
		return false
	}
	first := f.arrivals[0]
	for _, a := range f.arrivals[1:] {
		if a.Task.TaskType != first.Task.TaskType || a.Task.IdempotencyKey != first.Task.IdempotencyKey {
			return true
		}
	}
	want, since := first.PayloadSHA256, f.arrivals
	if f.sent.hash != "" {
		want, since = f.sent.hash, f.arrivals[f.sent.arrivals:]
	}
	return slices.ContainsFunc(since, func(a dlqbridge.Arrival) bool { return a.PayloadSHA256 != want })
}
