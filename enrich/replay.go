package enrich

import (
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Verdict is what a judgement came to.
type Verdict struct {
	Cause  dlqbridge.Cause  `json:"cause"`
	Lane   dlqbridge.Lane   `json:"lane"`
	Action dlqbridge.Action `json:"action"`
	// Rule decided the action, CauseRule named the cause.
	Rule      dlqbridge.Why    `json:"rule"`
	CauseRule string           `json:"causeRule"`
	Effect    dlqbridge.Effect `json:"effect"`
	Uncovered dlqbridge.Effect `json:"uncovered"`
}

func verdictOf(x dlqbridge.Context) Verdict {
	return Verdict{
		Cause: x.Failure.Cause, Lane: dlqbridge.DefaultCausePolicy(x.Failure.Cause).Lane, Action: x.Action, Rule: x.Why,
		CauseRule: x.Failure.Rule, Effect: x.Folded.State, Uncovered: x.Folded.Uncovered,
	}
}

// Replay decides once more what a record's last decision about its failure was
// about, by this enricher's rules and declarations, at the time of that decision
// and from what was known then. No store is asked, so what differs comes from the
// rules. What the letter carries is taken as it was read then; Payload is for
// rules over attributes. It says false where the record does not say any more
// what it was decided on.
func (e *Enricher) Replay(c dlqbridge.Case, payload *dlqbridge.Payload) (was, is Verdict, ok bool) {
	x := replayable(c)
	if x == nil {
		return was, is, false
	}
	s := Subject{Case: asOf(c, *x), Payload: payload}
	if x.Why == dlqbridge.WhyCompensated {
		s.Completed, s.Undone = x.CompletedBy, true
	}
	f := s.facts()
	j := e.conclude(x.At, &s, &f, e.remembered(&f, *x))
	return verdictOf(*x), verdictOf(j.Context), true
}

// asOf is a case as it was when the context was decided on, the move that names
// the context included.
func asOf(c dlqbridge.Case, x dlqbridge.Context) dlqbridge.Case {
	decided := slices.IndexFunc(c.History, func(m dlqbridge.Move) bool { return m.Context == x.Name })
	if decided < 0 {
		return c
	}
	c.History = c.History[:decided+1]
	k := &c.Control
	k.Redrives, k.LastSend = sentBefore(c.History[:decided+1])
	k.Late = x.Why == WhyLate
	return c
}

// sentBefore counts the redrives of a history, with the time of the last one;
// a claim that was taken back was none, unless what it sent came home.
func sentBefore(history []dlqbridge.Move) (n int, last time.Time) {
	var earlier time.Time
	for _, m := range history {
		switch {
		case m.Verb == dlqbridge.VerbClaim:
			n, earlier, last = m.N, last, m.At
		case m.Verb == dlqbridge.VerbRelease && n == m.N, m.Verb == dlqbridge.VerbSettleSend && m.To == dlqbridge.StatusAuthorized && n == m.N:
			n, last = m.N-1, earlier
		case m.Verb == dlqbridge.VerbReceive:
			n = max(n, m.N)
		}
	}
	return n, last
}

// remembered is what was known when the context was decided on, without what
// people and the route's declaration add each time.
func (e *Enricher) remembered(f *facts, x dlqbridge.Context) known {
	k := known{
		task: x.Task, checkpoint: x.Checkpoint, completed: x.CompletedBy, runningUntil: x.RunningUntil, firstAttempt: x.FirstAttempt,
		runs: x.Runs, traceID: x.TraceID, artifacts: x.Artifacts, unavailable: x.Unavailable, keysDiffer: x.KeysDiffer, tenants: x.Tenants,
	}
	for _, d := range x.Findings {
		if d.Proof != dlqbridge.ProofOperator && d.Proof != dlqbridge.ProofDeclared {
			k.findings = append(k.findings, d)
		}
	}
	if told := testify(f.newest()).Failure; told != nil {
		k.failures = append(k.failures, heardFailure{messageStore, *told})
	}
	for _, h := range x.Heard {
		k.failures = append(k.failures, heardFailure{h.Store, h.Failure})
	}
	for _, s := range e.route.Stores {
		if x.Unavailable[s.Name()] == "" {
			k.stores = append(k.stores, s.Name())
		}
	}
	return k
}

// heard is what stores said about the failure, the letter not counted.
func (k known) heard() []dlqbridge.Heard {
	var out []dlqbridge.Heard
	for _, h := range k.failures {
		if h.store == messageStore {
			continue
		}
		failure := h.failure
		failure.Attempts = nil
		out = append(out, dlqbridge.Heard{Store: h.store, Failure: failure})
	}
	return out
}
