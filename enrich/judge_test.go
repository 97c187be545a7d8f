package enrich_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// teller is a store that says the same of every task.
type teller struct {
	name string
	says dlqbridge.Testimony
}

func (s teller) Name() string { return s.name }

func (s teller) Ask(_ context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	out := make([]dlqbridge.Testimony, len(questions))
	for i := range out {
		out[i] = s.says
	}
	return out
}

func asked(says dlqbridge.Testimony) []dlqbridge.Store {
	return []dlqbridge.Store{teller{"ledger", says}}
}

func finding(step string, state dlqbridge.Effect, proof dlqbridge.Proof) dlqbridge.Finding {
	return dlqbridge.Finding{Store: "ledger", Step: step, Run: "run-1", State: state, Proof: proof, AsOf: start, Detail: "seen"}
}

// The findings of a ledger.
var (
	notStarted = dlqbridge.Finding{Store: "ledger", Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofNotStarted, AsOf: start.Add(time.Hour)}
	inFlight   = finding("0003#charge", dlqbridge.EffectUnknown, dlqbridge.ProofSystemRead)
	receipt    = finding("0003#charge", dlqbridge.EffectConfirmed, dlqbridge.ProofReceipt)
)

func decided(a dlqbridge.Action, s dlqbridge.Status, w dlqbridge.Why) dlqbridge.Decision {
	return dlqbridge.Decision{Action: a, Status: s, Why: w}
}

func findings(f ...dlqbridge.Finding) dlqbridge.Testimony { return dlqbridge.Testimony{Findings: f} }

// TestContractRows holds Judge against the promises about effect, cause and decision, one row
// each: what is known goes in, cause, effect and decision come out.
func TestContractRows(t *testing.T) {
	now := start.Add(time.Hour)
	plainly := func(r *enrich.Route) {}
	stores := func(says dlqbridge.Testimony) func(*enrich.Route) {
		return func(r *enrich.Route) { r.Stores = asked(says) }
	}
	both := func(changes ...func(*enrich.Route)) func(*enrich.Route) {
		return func(r *enrich.Route) {
			for _, c := range changes {
				c(r)
			}
		}
	}
	effects := func(e dlqbridge.Effects) func(*enrich.Route) {
		return func(r *enrich.Route) { r.Effects, r.IdempotencyWindow = e, 2*time.Hour }
	}
	resume := func(r *enrich.Route) { r.Resume = true }
	trust := func(r *enrich.Route) { r.TrustWorker = true }
	ctx := func(more string) dlqbridge.Letter {
		return sqsLetter("x", text("agent.ctx", `{"task":"t","run":"run-1","idem":"k"`+more+`}`))
	}
	sent := func(more string) dlqbridge.Letter {
		l := ctx(more)
		l.Source = ""
		return l
	}
	timeout, critical := `,"cause":"timeout"`, `,"cause":"critical"`
	checkpointed := func(f ...dlqbridge.Finding) dlqbridge.Testimony {
		return dlqbridge.Testimony{Findings: f, Checkpoint: &dlqbridge.Checkpoint{Ref: "s3://c", Step: "0003#charge", Run: "run-1", At: start}}
	}
	const (
		none, confirmed, unknown = dlqbridge.EffectNone, dlqbridge.EffectConfirmed, dlqbridge.EffectUnknown
		looked                   = dlqbridge.StatusUnderInvestigation
	)
	for _, c := range []struct {
		name   string
		letter dlqbridge.Letter
		route  func(*enrich.Route)
		cause  dlqbridge.Cause
		effect dlqbridge.Effect
		want   dlqbridge.Decision
		reason string
	}{
		{"nothing known", ctx(""), plainly, dlqbridge.CauseUnclassified, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), "Three ways out"},
		{"silent ledger", ctx(timeout), stores(dlqbridge.Testimony{}), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), "silence proves nothing"},
		{"proven not started", ctx(timeout), stores(findings(notStarted)), dlqbridge.CauseTimeout, none, decided(dlqbridge.ActionRetry, dlqbridge.StatusClassified, dlqbridge.WhyRetryable), "nothing changed outside"},
		{"call in flight", ctx(timeout), stores(findings(inFlight, notStarted)), dlqbridge.CauseAmbiguousEffect, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), "Step 0003#charge began"},
		{"in flight, not technical", ctx(`,"cause":"output_contract"`), stores(findings(inFlight)), dlqbridge.CauseOutputContract, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), "Step"},
		{"receipt", ctx(timeout), stores(findings(receipt, notStarted)), dlqbridge.CauseTimeout, confirmed, decided(dlqbridge.ActionCompensate, dlqbridge.StatusAwaitingOperationalDecision, dlqbridge.WhyEffectConfirmed), "Step 0003#charge changed something"},
		{"receipt under the checkpoint, resume", ctx(timeout), both(stores(checkpointed(receipt, notStarted)), resume), dlqbridge.CauseTimeout, confirmed, decided(dlqbridge.ActionResume, dlqbridge.StatusClassified, dlqbridge.WhyCheckpoint), "go on from there"},
		{"receipt under the checkpoint, no resume", ctx(timeout), stores(checkpointed(receipt, notStarted)), dlqbridge.CauseTimeout, confirmed, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyCoveredEffect), "no way to resume"},
		{"checkpoint of another workflow version", ctx(timeout + `,"wv":"4"`), both(stores(dlqbridge.Testimony{Findings: []dlqbridge.Finding{notStarted}, Checkpoint: &dlqbridge.Checkpoint{Ref: "r", WorkflowVersion: "3"}}), resume), dlqbridge.CauseTimeout, none, decided(dlqbridge.ActionRetry, dlqbridge.StatusClassified, dlqbridge.WhyRetryable), "new attempt"},
		{"completed", ctx(timeout), stores(dlqbridge.Testimony{Findings: []dlqbridge.Finding{receipt}, Completed: &dlqbridge.Completion{Run: "run-1", At: start}}), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionNone, dlqbridge.StatusCompleted, dlqbridge.WhyCompleted), "Ledger says the task completed in run run-1"},
		{"running", ctx(timeout), stores(dlqbridge.Testimony{Findings: []dlqbridge.Finding{notStarted}, RunningUntil: now.Add(time.Minute)}), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), "may still be going"},
		{"running no more", ctx(timeout), stores(dlqbridge.Testimony{Findings: []dlqbridge.Finding{notStarted}, RunningUntil: now}), dlqbridge.CauseTimeout, none, decided(dlqbridge.ActionRetry, dlqbridge.StatusClassified, dlqbridge.WhyRetryable), ""},
		{"critical", ctx(critical), stores(findings(notStarted)), dlqbridge.CauseCritical, none, decided(dlqbridge.ActionHumanReview, dlqbridge.StatusIncidentOpen, dlqbridge.WhyCritical), "two people"},
		{"critical by the letter, timeout by the ledger", ctx(critical), stores(dlqbridge.Testimony{Findings: []dlqbridge.Finding{notStarted}, Failure: &dlqbridge.Failure{Cause: dlqbridge.CauseTimeout}}), dlqbridge.CauseCritical, none, decided(dlqbridge.ActionHumanReview, dlqbridge.StatusIncidentOpen, dlqbridge.WhyCritical), ""},
		{"ledger's error before the producer's", ctx(`,"code":"ETIMEDOUT"`), stores(dlqbridge.Testimony{Findings: []dlqbridge.Finding{notStarted}, Failure: &dlqbridge.Failure{Code: "AccessDenied"}}), dlqbridge.CausePermission, none, decided(dlqbridge.ActionRepair, dlqbridge.StatusAwaitingTechnicalOwner, dlqbridge.WhyFixable), "once somebody has fixed"},
		{"expired", ctx(timeout + `,"vu":"2026-11-30T12:30:00Z"`), stores(findings(notStarted)), dlqbridge.CauseTimeout, none, decided(dlqbridge.ActionReject, dlqbridge.StatusAwaitingOperationalDecision, dlqbridge.WhyExpired), "lost its sense"},
		{"business rule", ctx(`,"cause":"business_rule"`), stores(findings(notStarted)), dlqbridge.CauseBusinessRule, none, decided(dlqbridge.ActionReject, dlqbridge.StatusAwaitingOperationalDecision, dlqbridge.WhyNoFix), "rejected or done by hand"},
		{"unclassified, proven", ctx(""), stores(findings(notStarted)), dlqbridge.CauseUnclassified, none, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyUnclassified), "name the cause"},
		{"effects: none", ctx(timeout), effects(dlqbridge.EffectsNone), dlqbridge.CauseTimeout, none, decided(dlqbridge.ActionRetry, dlqbridge.StatusClassified, dlqbridge.WhyRetryable), ""},
		{"effects: none, voided", ctx(timeout), both(effects(dlqbridge.EffectsNone), stores(findings(inFlight))), dlqbridge.CauseAmbiguousEffect, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), ""},
		{"effects: none, store down", ctx(timeout), both(effects(dlqbridge.EffectsNone), stores(dlqbridge.Testimony{Unavailable: "timeout"})), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), "could not be asked"},
		{"effects: idempotent", ctx(timeout), effects(dlqbridge.EffectsIdempotent), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionRetry, dlqbridge.StatusClassified, dlqbridge.WhyRetryable), "idempotency key"},
		{"effects: idempotent, window over", ctx(timeout), both(effects(dlqbridge.EffectsIdempotent), stores(dlqbridge.Testimony{FirstAttempt: now.Add(-3 * time.Hour)})), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), ""},
		{"effects: idempotent, running", ctx(timeout), both(effects(dlqbridge.EffectsIdempotent), stores(dlqbridge.Testimony{RunningUntil: now.Add(time.Minute)})), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), ""},
		{"effects: idempotent, first attempt unknown", sent(timeout), effects(dlqbridge.EffectsIdempotent), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), ""},
		{"effects: idempotent, the letter and the ledger name different keys", ctx(timeout), both(effects(dlqbridge.EffectsIdempotent), stores(dlqbridge.Testimony{Task: &dlqbridge.Task{IdempotencyKey: "other"}})), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), ""},
		{"worker's word, trusted", sent(timeout + `,"effect":"none_confirmed","n":1`), trust, dlqbridge.CauseTimeout, none, decided(dlqbridge.ActionRetry, dlqbridge.StatusClassified, dlqbridge.WhyRetryable), ""},
		{"worker's word, second attempt", sent(timeout + `,"effect":"none_confirmed","n":2`), trust, dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), ""},
		{"worker's word, not trusted", sent(timeout + `,"effect":"none_confirmed","n":1`), plainly, dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), ""},
		{"producer's word on a moved letter", ctx(timeout + `,"effect":"none_confirmed","n":1`), trust, dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), ""},
		{"worker confirms", sent(timeout + `,"effect":"confirmed"`), plainly, dlqbridge.CauseTimeout, confirmed, decided(dlqbridge.ActionCompensate, dlqbridge.StatusAwaitingOperationalDecision, dlqbridge.WhyEffectConfirmed), "The task changed something"},
		{"too many steps to judge", ctx(timeout), stores(dlqbridge.Testimony{Findings: make([]dlqbridge.Finding, 10_001)}), dlqbridge.CauseTimeout, unknown, decided(dlqbridge.ActionHumanReview, looked, dlqbridge.WhyEffectUnknown), "could not be asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := enrich.Route{Name: "orders", Place: arn("orders-dlq"), Source: arn("orders")}
			c.route(&r)
			e := enricher(t, r)
			a := e.Extract(c.letter)
			j := e.Judge(t.Context(), now, []enrich.Subject{{Arrival: &a}})[0]
			x := j.Context
			if x.Failure.Cause != c.cause || x.Folded.State != c.effect || j.Decision != c.want {
				t.Errorf("got %s, %s, %+v; want %s, %s, %+v", x.Failure.Cause, x.Folded.State, j.Decision, c.cause, c.effect, c.want)
			}
			if !strings.Contains(x.Reason, c.reason) || len(x.Reason) < 20 {
				t.Errorf("reason %q, want one with %q", x.Reason, c.reason)
			}
			k := j.Apply(dlqbridge.Control{ID: "r_x", LastSeen: start})
			if k.Status != c.want.Status || k.Action != c.want.Action || k.TriageBy.IsZero() || !strings.HasPrefix(k.Signature, "sg_") {
				t.Errorf("control: %+v", k)
			}
			if (x.RunningUntil.IsZero() && len(x.Unavailable) == 0) != k.RecheckAt.IsZero() && !k.Status.Closed() {
				t.Errorf("recheckAt %v with running until %v", k.RecheckAt, x.RunningUntil)
			}
			again := e.Judge(t.Context(), now, []enrich.Subject{{Arrival: &a}})[0]
			if again.Context.Name != x.Name {
				t.Error("the same facts gave two names")
			}
		})
	}
}

// caseOf builds a stored case by applying subjects one after the other.
type caseOf struct {
	t testing.TB
	e *enrich.Enricher
	c dlqbridge.Case
}

func (b *caseOf) move(verb dlqbridge.Verb, s enrich.Subject, change func(*dlqbridge.Control)) enrich.Judgement {
	b.t.Helper()
	s.Case = b.c
	from := b.c.Control
	to := from
	to.ID = "r_x"
	if change != nil {
		change(&to)
	}
	j := b.e.Judge(b.t.Context(), start.Add(time.Hour), []enrich.Subject{s})[0]
	if verb != dlqbridge.VerbClaim && verb != dlqbridge.VerbAuthorize {
		to = j.Apply(to)
	}
	to.Version = from.Version + 1
	to.Move = dlqbridge.Move{Version: to.Version, At: start.Add(time.Hour), By: j.By, Verb: verb, From: from.Status, To: to.Status, Context: j.Context.Name}
	if from.Version > 0 && !verb.Allows(from.Status, to.Status) {
		b.t.Errorf("%s from %s to %s is no allowed move", verb, from.Status, to.Status)
	}
	b.c.Contexts = append(b.c.Contexts, j.Context)
	if s.Arrival != nil {
		to.Move.Arrival = s.Arrival.Key
		to.Newest, to.Arrivals = s.Arrival.Key, to.Arrivals+1
		b.c.Arrivals = append(b.c.Arrivals, *s.Arrival)
	}
	if s.Note != nil {
		n := *s.Note
		n.Name = fmt.Sprint("n", to.Version)
		to.Move.Note = n.Name
		b.c.Notes = append(b.c.Notes, n)
	}
	b.c.Control = to
	b.c.History = append(b.c.History, to.Move)
	return j
}

func (b *caseOf) letter(key string, l dlqbridge.Letter) enrich.Subject {
	l.MessageID = key
	a := b.e.Extract(l)
	return enrich.Subject{Arrival: &a, Payload: &l.Payload, Deliveries: l.Deliveries}
}

func (b *caseOf) send() {
	b.move(dlqbridge.VerbAuthorize, enrich.Subject{}, func(c *dlqbridge.Control) {
		c.Status, c.Authorized = dlqbridge.StatusAuthorized, &dlqbridge.Authorization{By: "x"}
	})
	b.move(dlqbridge.VerbClaim, enrich.Subject{}, func(c *dlqbridge.Control) {
		c.Status, c.Redrives, c.LastSend = dlqbridge.StatusRedriving, c.Redrives+1, start.Add(30*time.Minute)
		c.Claim = &dlqbridge.Claim{Job: "j", N: c.Redrives}
	})
}

func (b *caseOf) recur(key string, l dlqbridge.Letter) enrich.Judgement {
	return b.move(dlqbridge.VerbRecur, b.letter(key, l), func(c *dlqbridge.Control) { c.Claim, c.Authorized = nil, nil })
}

func person(verb dlqbridge.Verb, name string) *dlqbridge.Note {
	return &dlqbridge.Note{Verb: verb, At: start.Add(time.Hour), Actor: dlqbridge.Actor{Name: name, Authenticated: true}}
}

func letterOf(body string) dlqbridge.Letter {
	return sqsLetter(body, text("agent.ctx", `{"task":"t","run":"run-1","idem":"k","cause":"timeout"}`))
}

func newCase(t testing.TB, says dlqbridge.Testimony) *caseOf {
	return &caseOf{t: t, e: enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Stores: asked(says)})}
}

func TestARecordsLife(t *testing.T) {
	t.Run("an operator's word counts until the next send", func(t *testing.T) {
		b := newCase(t, dlqbridge.Testimony{})
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		n := person(dlqbridge.VerbSettleEffect, "ann")
		n.Findings = []dlqbridge.Finding{{Store: "operator", Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator, AsOf: start.Add(20 * time.Minute)}}
		if j := b.move(dlqbridge.VerbSettleEffect, enrich.Subject{Note: n}, nil); j.Decision.Action != dlqbridge.ActionRetry {
			t.Errorf("settled: %+v", j.Decision)
		}
		if j := b.e.Judge(t.Context(), start.Add(2*time.Hour), []enrich.Subject{{Case: b.c}})[0]; !j.Stands(b.c.Control) {
			t.Errorf("the gate sees something else: %+v", j.Decision)
		}
		b.send()
		if j := b.recur("m-2", letterOf("x")); j.Decision.Why != dlqbridge.WhyEffectUnknown {
			t.Errorf("after the send: %+v", j.Decision)
		}
	})
	t.Run("a send in doubt makes the effect unknown, others may too", func(t *testing.T) {
		word := person(dlqbridge.VerbSettleEffect, "ann")
		word.Findings = []dlqbridge.Finding{{Store: "operator", Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator, AsOf: start.Add(20 * time.Minute)}}
		other := finding("0003#charge", dlqbridge.EffectUnknown, dlqbridge.ProofNothingFound)
		other.Run, other.AsOf = "run-2", start.Add(40*time.Minute)
		for _, c := range []struct {
			says dlqbridge.Testimony
			want dlqbridge.Effect
		}{{dlqbridge.Testimony{}, dlqbridge.EffectNone}, {findings(other), dlqbridge.EffectUnknown}, {dlqbridge.Testimony{Unavailable: "timeout"}, dlqbridge.EffectUnknown}} {
			b := newCase(t, dlqbridge.Testimony{})
			b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
			b.move(dlqbridge.VerbSettleEffect, enrich.Subject{Note: word}, nil)
			b.send()
			j := newCase(t, c.says).e.Judge(t.Context(), start.Add(2*time.Hour), []enrich.Subject{{Case: b.c}})[0]
			if want := (dlqbridge.Folded{State: c.want, Uncovered: c.want}); j.Context.Folded.State != dlqbridge.EffectUnknown || j.Unsent != want {
				t.Errorf("%+v: folded %+v, without the send %+v, want %+v", c.says, j.Context.Folded, j.Unsent, want)
			}
		}
	})
	t.Run("a store that cannot be asked is a new doubt", func(t *testing.T) {
		b := newCase(t, dlqbridge.Testimony{})
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		n := person(dlqbridge.VerbSettleEffect, "ann")
		n.Findings = []dlqbridge.Finding{{Store: "operator", Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator, AsOf: start.Add(20 * time.Minute)}}
		b.move(dlqbridge.VerbSettleEffect, enrich.Subject{Note: n}, nil)
		down := newCase(t, dlqbridge.Testimony{Unavailable: "timeout"})
		if j := down.e.Judge(t.Context(), start.Add(2*time.Hour), []enrich.Subject{{Case: b.c}})[0]; j.Decision.Why != dlqbridge.WhyEffectUnknown || j.Stands(b.c.Control) {
			t.Errorf("got %+v", j.Decision)
		}
	})
	t.Run("a note that history does not name says nothing", func(t *testing.T) {
		b := newCase(t, dlqbridge.Testimony{})
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		n := *person(dlqbridge.VerbSettleEffect, "ann")
		n.Name = "orphan"
		n.Findings = []dlqbridge.Finding{{Store: "operator", Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofOperator, AsOf: start.Add(time.Hour)}}
		b.c.Notes = append(b.c.Notes, n)
		if j := b.e.Judge(t.Context(), start, []enrich.Subject{{Case: b.c}})[0]; j.Decision.Why != dlqbridge.WhyEffectUnknown {
			t.Errorf("got %+v", j.Decision)
		}
	})
	t.Run("payloads that differ before any send are a conflict", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		if j := b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("y")), nil); j.Decision.Why != dlqbridge.WhyConflict || !b.c.Control.Conflict {
			t.Errorf("got %+v", j.Decision)
		}
	})
	t.Run("idempotency keys that differ are a conflict", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		b.move(dlqbridge.VerbReceive, b.letter("m-1", sqsLetter(`{"idempotencyKey":"a"}`, text("taskId", "t"))), nil)
		if j := b.move(dlqbridge.VerbReceive, b.letter("m-2", sqsLetter(`{"idempotencyKey":"b"}`, text("taskId", "t"))), nil); j.Decision.Why != dlqbridge.WhyConflict {
			t.Errorf("got %+v", j.Decision)
		}
	})
	t.Run("what comes back as it was sent is no conflict", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		b.send()
		back := letterOf("x")
		back.Payload = back.Payload.With(text(dlqbridge.MarkName, `{}`))
		if j := b.recur("m-2", back); j.Conflict || j.Decision.Action != dlqbridge.ActionRetry {
			t.Errorf("got %+v", j.Decision)
		}
		b.send()
		if j := b.recur("m-3", letterOf("z")); !j.Conflict {
			t.Error("another payload than the one sent is no conflict")
		}
	})
	t.Run("the budget ends retries", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		b.move(dlqbridge.VerbReceive, b.letter("m-0", letterOf("x")), nil)
		for n := 1; n <= dlqbridge.DefaultRedriveBudget; n++ {
			b.send()
			j := b.recur(fmt.Sprint("m-", n), letterOf("x"))
			want := dlqbridge.ActionRetry
			if n == dlqbridge.DefaultRedriveBudget {
				want = dlqbridge.ActionRepair
				if !strings.Contains(j.Context.Reason, "used up") || !strings.Contains(j.Context.Restriction, "budget") {
					t.Errorf("reason %q, restriction %q", j.Context.Reason, j.Context.Restriction)
				}
			}
			if j.Decision.Action != want {
				t.Errorf("after send %d: %+v, want %s", n, j.Decision, want)
			}
		}
	})
	t.Run("a fix is about the failure before it", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		n := person(dlqbridge.VerbFix, "ann")
		n.Fix = &dlqbridge.Fix{Kind: "deploy", Text: "1.4.2"}
		b.move(dlqbridge.VerbFix, enrich.Subject{Note: n}, nil)
		if c := b.c.Control; c.Status != dlqbridge.StatusFixValidated || c.Fix != "deploy:1.4.2" {
			t.Errorf("fixed: %+v", c)
		}
		b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("x")), nil)
		if c := b.c.Control; c.Status != dlqbridge.StatusClassified || c.Fix != "" {
			t.Errorf("after another death: %s, fix %q", c.Status, c.Fix)
		}
	})
	t.Run("critical needs two different authenticated people", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		l := sqsLetter("x", text("agent.ctx", `{"task":"t","cause":"critical"}`))
		b.move(dlqbridge.VerbReceive, b.letter("m-1", l), nil)
		approve := func(name string, authenticated bool) dlqbridge.Decision {
			n := person(dlqbridge.VerbAuthorize, name)
			n.Approval, n.Actor.Authenticated = true, authenticated
			return b.move(dlqbridge.VerbAuthorize, enrich.Subject{Note: n}, func(c *dlqbridge.Control) {}).Decision
		}
		for _, c := range []struct {
			name string
			auth bool
			want dlqbridge.Action
		}{{"ann", true, dlqbridge.ActionHumanReview}, {"ann", true, dlqbridge.ActionHumanReview}, {"os", false, dlqbridge.ActionHumanReview}, {"bob", true, dlqbridge.ActionRepair}} {
			if got := approve(c.name, c.auth); got.Action != c.want {
				t.Errorf("after %s: %+v, want %s", c.name, got, c.want)
			}
		}
		// An investigation is new ground: approvals start anew.
		b.move(dlqbridge.VerbInvestigate, enrich.Subject{Note: person(dlqbridge.VerbInvestigate, "ann")}, nil)
		if j := b.e.Judge(t.Context(), start, []enrich.Subject{{Case: b.c}})[0]; len(j.Approvers) != 0 {
			t.Errorf("approvers %v", j.Approvers)
		}
	})
	t.Run("an incident stays until a person ends it", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		b.c.Control.Status = dlqbridge.StatusIncidentOpen
		b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("x")), nil)
		if b.c.Control.Status != dlqbridge.StatusIncidentOpen {
			t.Errorf("after a letter: %s", b.c.Control.Status)
		}
		n := person(dlqbridge.VerbClassify, "ann")
		n.Cause = dlqbridge.CauseInvalidInput
		b.move(dlqbridge.VerbClassify, enrich.Subject{Note: n}, nil)
		if c := b.c.Control; c.Status != dlqbridge.StatusAwaitingInputCorrection || c.Cause != dlqbridge.CauseInvalidInput {
			t.Errorf("corrected: %s, %s", c.Status, c.Cause)
		}
		b.move(dlqbridge.VerbReceive, b.letter("m-3", letterOf("x")), nil)
		if c := b.c.Control; c.Cause != dlqbridge.CauseTimeout {
			t.Errorf("a new failure is classified anew: got %s", c.Cause)
		}
	})
	t.Run("linked and late records wait for a person", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		s := b.letter("m-1", letterOf("x"))
		s.Previous = "r_old"
		if j := b.move(dlqbridge.VerbReceive, s, func(c *dlqbridge.Control) { c.Previous = "r_old" }); j.Decision.Why != dlqbridge.WhyLinked {
			t.Errorf("linked: %+v", j.Decision)
		}
		if j := b.move(dlqbridge.VerbInvestigate, enrich.Subject{Note: person(dlqbridge.VerbInvestigate, "ann")}, nil); j.Decision.Action != dlqbridge.ActionRetry || !strings.Contains(j.Context.Restriction, "never authorised by policy") {
			t.Errorf("looked at: %+v, %q", j.Decision, j.Context.Restriction)
		}
		b.c.Control.Late = true
		if j := b.e.Judge(t.Context(), start, []enrich.Subject{b.letter("m-2", letterOf("x"))})[0]; j.Decision.Action != dlqbridge.ActionRetry && j.Decision.Why == "" {
			t.Errorf("late: %+v", j.Decision)
		}
		b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("x")), nil)
		if c := b.c.Control; c.Why != enrich.WhyLate || !c.Late {
			t.Errorf("late: %+v", c)
		}
		b.move(dlqbridge.VerbInvestigate, enrich.Subject{Note: person(dlqbridge.VerbInvestigate, "ann")}, nil)
		if c := b.c.Control; c.Late || c.Action != dlqbridge.ActionRetry {
			t.Errorf("looked at: %+v", c)
		}
	})
	t.Run("an authorisation lapses with its ground", func(t *testing.T) {
		b := newCase(t, findings(notStarted))
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		b.move(dlqbridge.VerbAuthorize, enrich.Subject{}, func(c *dlqbridge.Control) {
			c.Status, c.Authorized = dlqbridge.StatusAuthorized, &dlqbridge.Authorization{By: "ann"}
		})
		if c := b.e.Judge(t.Context(), start.Add(time.Hour), []enrich.Subject{{Case: b.c}})[0].Apply(b.c.Control); c.Status != dlqbridge.StatusAuthorized || c.Authorized == nil {
			t.Errorf("same ground: %+v", c)
		}
		later := newCase(t, findings(receipt, notStarted))
		if c := later.e.Judge(t.Context(), start.Add(time.Hour), []enrich.Subject{{Case: b.c}})[0].Apply(b.c.Control); c.Status != dlqbridge.StatusAwaitingOperationalDecision || c.Authorized != nil {
			t.Errorf("a receipt came up: %+v", c)
		}
	})
}

// rude misbehaves in each way a store can.
type rude struct{ how string }

func (r rude) Name() string { return "rude" }

func (r rude) Ask(ctx context.Context, q []dlqbridge.Question) []dlqbridge.Testimony {
	switch r.how {
	case "panics":
		panic("oh")
	case "hangs":
		<-ctx.Done()
	case "says too little":
		return nil
	}
	return make([]dlqbridge.Testimony, len(q))
}

func TestAStoreThatFailsLeavesTheEffectUnknown(t *testing.T) {
	for _, how := range []string{"panics", "hangs", "says too little"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := enricher(t, enrich.Route{Name: "o", Place: "p", Stores: []dlqbridge.Store{teller{"ledger", findings(notStarted)}, rude{how}}})
				a := e.Extract(letterOf("x"))
				j := e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}})[0]
				x := j.Context
				if x.Folded.State != dlqbridge.EffectUnknown || j.RecheckAt.IsZero() || x.Unavailable["rude"] == "" {
					t.Errorf("got %+v, recheck %v, unavailable %v", x.Folded, j.RecheckAt, x.Unavailable)
				}
			})
		})
	}
}

func TestNotBeforeIsARandomShareThatStays(t *testing.T) {
	e := enricher(t, enrich.Route{Name: "o", Place: "p", Stores: asked(findings(notStarted))})
	a := e.Extract(letterOf("x"))
	j := e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}})[0]
	seen := map[time.Time]bool{}
	for i := range 50 {
		c := j.Apply(dlqbridge.Control{ID: fmt.Sprint("r_", i), LastSeen: start})
		wait := c.NotBefore.Sub(start)
		if wait < 0 || wait >= dlqbridge.DefaultBackoffBase {
			t.Errorf("waits %s", wait)
		}
		if again := j.Apply(dlqbridge.Control{ID: fmt.Sprint("r_", i), LastSeen: start}); !again.NotBefore.Equal(c.NotBefore) {
			t.Error("threw the dice again")
		}
		seen[c.NotBefore] = true
	}
	if len(seen) < 40 {
		t.Errorf("only %d different waits", len(seen))
	}
}
