package enrich

import (
	"maps"
	"slices"
	"time"

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
	// Completed is a completion message's word, which goes before the stores';
	// Undone: it is about a compensation.
	Completed *dlqbridge.Completion
	Undone    bool
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
	// control and arrivals are the subject's own, which nobody changes.
	control  *dlqbridge.Control
	arrivals []*dlqbridge.Arrival
	// said is what people stated about effects and nobody corrected, but for what
	// a letter has overtaken.
	said []Statement
	// cause is what a person corrected the cause to since the last failure.
	cause dlqbridge.Cause
	// fix is the fix recorded since the last failure.
	fix *dlqbridge.Fix
	// approvals are all that were given, the oldest first, also those that are over.
	approvals []approval
	// move is the one whose consequences are drawn; nil for what is not on record.
	move *dlqbridge.Move
	// looked: a person has dealt with the record since its last failure.
	looked bool
	// owned: since then a person has found out whose task it is, or what it changed.
	owned bool
	// incident: a person opened one that nobody has closed. calmed: the one
	// that the last failure opened was closed by a person.
	incident, calmed bool
	// repair is what put the current payload in force, nil if it is the newest
	// letter's own. repairFix: the fix on record is that repair itself.
	repair    *dlqbridge.Repair
	repairFix bool
	// agreed is what letters must carry not to be in conflict, and sent the
	// hashes of the payloads that claims sent, the last one last.
	agreed agreed
	sent   []string
	// fresh: a letter is what this is about.
	fresh  bool
	linked bool
	// compensation: some letter that was not late says that it is a compensation.
	compensation bool
}

// agreed are the hashes of payloads that nobody need decide between, and from
// which arrival on letters are held against them. Before any send and any
// repair it is the first letter's; since a send what it sent; a repair adds its
// own version, or takes the place of all where a person named what is right.
type agreed struct {
	hashes []string
	from   int
}

// newest is the newest arrival, whose payload would be sent.
func (f *facts) newest() *dlqbridge.Arrival {
	if len(f.arrivals) == 0 {
		return &dlqbridge.Arrival{}
	}
	return f.arrivals[len(f.arrivals)-1]
}

// payload is the hash of what would be sent.
func (f *facts) payload() string {
	if f.repair != nil {
		return f.repair.SHA256
	}
	return f.newest().SentSHA256()
}

// ran are the payloads that runs may have got: those of letters and of sends.
func (f *facts) ran() []string {
	all := slices.Clone(f.sent)
	for _, a := range f.arrivals {
		all = append(all, a.SentSHA256())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// patched says whether the task is to run, or ran, with another payload than
// before, which no contract about repeating covers.
func (f *facts) patched() bool {
	if f.repair == nil {
		return false
	}
	ran := f.ran()
	return len(ran) > 1 || !slices.Contains(ran, f.payload())
}

// facts walks the history once, oldest first, so that order decides and not
// clocks.
func (s *Subject) facts() facts {
	f := facts{control: &s.Case.Control}
	var before agreed // what counts again when a claim is released
	for i, m := range s.Case.History {
		f.move = &s.Case.History[i]
		if a := s.Case.Arrival(m.Arrival); m.Arrival != "" && a != nil {
			late := m.Verb == dlqbridge.VerbReceive && m.From == dlqbridge.StatusRedriving
			_, sent := sentBefore(s.Case.History[:i])
			if late {
				sent = time.Time{} // whose it is, nobody knows: not of the send that is out
			}
			f.arrive(a, sent)
			// A late letter is not what the record is about: it is sent only if it
			// carries the same payload, and else differs.
			f.compensation = f.compensation || isCompensation(a) && !late
		}
		switch m.Verb { //nolint:exhaustive // other moves change nothing here
		case dlqbridge.VerbClaim:
			before, f.agreed = f.agreed, agreed{[]string{f.payload()}, len(f.arrivals)}
			f.sent = append(f.sent, f.payload())
			f.unapprove()
		case dlqbridge.VerbRelease:
			f.agreed = before
			f.sent = f.sent[:max(0, len(f.sent)-1)]
		case dlqbridge.VerbLapse, dlqbridge.VerbUnconfirmed:
			f.unapprove()
		default:
		}
		if m.To == dlqbridge.StatusAuthorized && (m.Verb == dlqbridge.VerbRelease || m.Verb == dlqbridge.VerbSettleSend) {
			f.unused(m)
		}
		if m.To.Closed() && !m.From.Closed() {
			f.unapprove()
		}
		f.person(m.Verb, s.note(m.Note))
	}
	f.move = nil
	if s.Arrival != nil {
		f.fresh = true
		if !slices.ContainsFunc(f.arrivals, func(a *dlqbridge.Arrival) bool { return a.Key == s.Arrival.Key }) {
			_, sent := sentBefore(s.Case.History)
			f.arrive(s.Arrival, sent)
			f.compensation = f.compensation || isCompensation(s.Arrival)
		}
	}
	if s.Note != nil {
		f.person(s.Note.Verb, s.Note)
	}
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

// arrive adds a letter, which is a failure. One that came back without its
// tenant is of the record's: that is what stores are asked about and held against.
// Sent is when the last send was claimed that stands.
func (f *facts) arrive(a *dlqbridge.Arrival, sent time.Time) {
	f.failed()
	if len(f.arrivals) > 0 {
		f.overtake(sent)
	}
	if before := f.newest(); a.Task.Tenant == "" && before.Task.Tenant != "" {
		own := *a
		own.Task.Tenant = before.Task.Tenant
		own.Provenance = map[string]string{}
		maps.Copy(own.Provenance, a.Provenance)
		own.Provenance["tenant"] = before.Provenance["tenant"]
		a = &own
	}
	f.arrivals = append(f.arrivals, a)
}

// overtake forgets who said that nothing happened before this further letter came,
// and was right until then: it is the death of another run, which may have ended
// later. That is so of one that a copy of ours began which was settled as not sent.
// What a send of ours has overtaken already is kept to be shown; the fold knows.
func (f *facts) overtake(sent time.Time) {
	f.said = slices.DeleteFunc(slices.Clone(f.said), func(s Statement) bool {
		return s.State == dlqbridge.EffectNone && s.AsOf.After(sent)
	})
}

// failed forgets what people said about earlier failures: a fix, a corrected
// cause and approvals were about those. What they said about effects stays,
// with the time it speaks for.
func (f *facts) failed() {
	f.cause, f.fix, f.looked, f.owned, f.calmed = "", nil, false, false, false
	f.unapprove()
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
		// Who names a cause or a fix, or ends an incident, has not said whose task it is.
		f.owned = f.owned || verb == dlqbridge.VerbInvestigate || verb == dlqbridge.VerbSettleEffect
		if f.move == nil || !f.move.To.Closed() { // the first of two who open it again waits for the other
			f.unapprove()
		}
	case dlqbridge.VerbOpenIncident:
		f.incident = true
		f.unapprove()
	case dlqbridge.VerbRepair:
		// One patch for many is no look at each: what waits for one goes on waiting.
		f.unapprove()
		f.repaired(n.Repair)
	default:
	}
	if verb == dlqbridge.VerbCloseIncident {
		f.incident, f.calmed = false, true
	}
	f.said = hear(f.said, n)
	if n.Cause.Valid() {
		f.cause = n.Cause
	}
	if n.Fix != nil {
		if f.fix == nil || *f.fix != *n.Fix {
			f.unapprove() // who approved one fix has not approved another
		}
		f.fix, f.repairFix = n.Fix, verb == dlqbridge.VerbRepair
	}
	f.approved(n)
}

// repaired puts a payload version in force.
func (f *facts) repaired(r *dlqbridge.Repair) {
	if r == nil {
		return
	}
	if f.repairFix { // the payload that it stood for is no longer sent
		f.fix, f.repairFix = nil, false
	}
	if r.Chosen {
		f.agreed = agreed{nil, len(f.arrivals)}
	} else if len(f.agreed.hashes) == 0 && len(f.arrivals) > 0 {
		f.agreed.hashes = []string{f.arrivals[0].SentSHA256()}
	}
	f.agreed.hashes = append(slices.Clone(f.agreed.hashes), r.BaseSHA256, r.SHA256)
	f.repair = r
}

// differ says whether arrivals differ where they must not: in task type or
// idempotency key at any time, in payload from what was sent last, or before
// any send from each other, as far as no person has said which is right.
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
	want := f.agreed.hashes
	if len(want) == 0 {
		want = []string{first.SentSHA256()}
	}
	return slices.ContainsFunc(f.arrivals[f.agreed.from:], func(a *dlqbridge.Arrival) bool { return !slices.Contains(want, a.SentSHA256()) })
}
