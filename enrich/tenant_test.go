package enrich_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// ofTenant is a letter whose own facts name a tenant.
func ofTenant(tenant string) dlqbridge.Letter {
	return sqsLetter("x", text("agent.ctx", `{"task":"t","run":"run-1","idem":"k","cause":"timeout","tenant":"`+tenant+`"}`))
}

// elsewhere is all that a store may have about a task of another tenant: proof
// that nothing was begun, a checkpoint, the end of the work, a key and a limit.
func elsewhere(more ...dlqbridge.Finding) dlqbridge.Testimony {
	receipt := "ch_1"
	for i := range more {
		if more[i].State == dlqbridge.EffectConfirmed {
			more[i].Receipt = &receipt
		}
	}
	return dlqbridge.Testimony{
		Findings: append(more, notStarted),
		Task: &dlqbridge.Task{
			TaskID: "t", Tenant: "globex", RunID: "run-9", IdempotencyKey: "k-globex", TaskType: "bill", ValidUntil: start.Add(-time.Hour),
		},
		Failure:    &dlqbridge.Failure{Cause: dlqbridge.CauseInvalidInput, Code: "E_GLOBEX"},
		Checkpoint: &dlqbridge.Checkpoint{Ref: "s3://globex/1", Step: "0009#end", Run: "run-9", At: start},
		Artifacts:  []dlqbridge.Artifact{{Kind: "output", Ref: "s3://globex/out"}}, TraceID: "globex-trace",
	}
}

// Task ids may be unique within a tenant only. What a store has for another
// tenant closes nothing, sends nothing and is undone by nobody, until a person
// has looked; after that only a person's word about the effect counts.
func TestAStoreOfAnotherTenantDecidesNothing(t *testing.T) {
	charged := finding("0003#charge", dlqbridge.EffectConfirmed, dlqbridge.ProofReceipt)
	completed := elsewhere()
	completed.Completed = &dlqbridge.Completion{Run: "run-9", At: start.Add(30 * time.Minute)}
	for _, tt := range []struct {
		name  string
		says  dlqbridge.Testimony
		route enrich.Route
		// after is what the decision is once somebody has looked, and proven once
		// that person has stated that nothing happened.
		after, proven dlqbridge.Why
		begun         bool
	}{
		{name: "it proves that nothing was begun", says: elsewhere(), after: dlqbridge.WhyEffectUnknown, proven: dlqbridge.WhyRetryable},
		{name: "it shows the task as completed", says: completed, after: dlqbridge.WhyEffectUnknown, proven: dlqbridge.WhyRetryable},
		{name: "it has a receipt", says: elsewhere(charged), after: dlqbridge.WhyEffectUnknown, proven: dlqbridge.WhyRetryable, begun: true},
		{
			name: "the route resumes", says: elsewhere(), route: enrich.Route{Resume: true, Compensates: true},
			after: dlqbridge.WhyEffectUnknown, proven: dlqbridge.WhyRetryable,
		},
		{
			name: "repeating is declared safe", says: elsewhere(), route: enrich.Route{Effects: dlqbridge.EffectsIdempotent, IdempotencyWindow: 24 * time.Hour},
			after: dlqbridge.WhyEffectUnknown, proven: dlqbridge.WhyRetryable,
		},
		{
			name: "nothing can happen", says: elsewhere(), route: enrich.Route{Effects: dlqbridge.EffectsNone},
			after: dlqbridge.WhyRetryable, proven: dlqbridge.WhyRetryable,
		},
		{
			name: "nothing can happen, and something did", says: elsewhere(charged), route: enrich.Route{Effects: dlqbridge.EffectsNone},
			after: dlqbridge.WhyEffectUnknown, proven: dlqbridge.WhyRetryable, begun: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.route
			r.Name, r.Place, r.Stores = "orders", arn("orders-dlq"), asked(tt.says)
			b := &caseOf{t: t, e: enricher(t, r)}
			j := b.move(dlqbridge.VerbReceive, b.letter("m-1", ofTenant("acme")), nil)
			if j.Decision.Why != enrich.WhyTenant || j.Decision.Action != dlqbridge.ActionHumanReview || j.Decision.Status != dlqbridge.StatusUnderInvestigation {
				t.Errorf("decided %+v", j.Decision)
			}
			if !strings.Contains(j.Context.Reason, `tenant "globex", and the letter is of tenant "acme"`) || !strings.Contains(j.Context.Restriction, "another tenant in ledger") {
				t.Errorf("reason %q, restriction %q", j.Context.Reason, j.Context.Restriction)
			}
			x := j.Context
			if x.CompletedBy != nil || x.Checkpoint != nil || len(x.Artifacts) > 0 || x.TraceID != "" || len(x.Heard) > 0 || x.RepeatSafe ||
				x.Failure.Cause != dlqbridge.CauseTimeout || x.Task.IdempotencyKey != "k" || !x.Task.ValidUntil.IsZero() || x.Task.TaskType != "" {
				t.Errorf("something of the other tenant's task is in %+v", x)
			}
			for _, f := range x.Findings {
				doubt := f.Proof == dlqbridge.ProofSystemRead
				if f.Store == "ledger" && (f.State != dlqbridge.EffectUnknown || f.Step != dlqbridge.AllSteps || doubt != tt.begun) {
					t.Errorf("%+v", f)
				}
			}
			if was, is, ok := b.e.Replay(b.c, nil); !ok || !cmp.Equal(was, is) {
				t.Errorf("by the same rules: %+v, %+v, %v", was, is, ok)
			}
			if e := enrich.Explain(b.c, enrich.Around{}); len(e.Change) == 0 || !strings.Contains(e.Change[0], "whose task it is") {
				t.Errorf("%+v", e)
			}

			n := person(dlqbridge.VerbInvestigate, "ann")
			if j := b.move(dlqbridge.VerbInvestigate, enrich.Subject{Note: n}, nil); j.Decision.Why != tt.after {
				t.Errorf("somebody looked: %+v", j.Decision)
			}
			if j := b.states("ann", dlqbridge.AllSteps, dlqbridge.EffectNone, false); j.Decision.Why != tt.proven || j.Decision.Action != dlqbridge.ActionRetry {
				t.Errorf("somebody settled it: %+v, %s", j.Decision, j.Context.Reason)
			}
		})
	}
}

// Only who looks at it, or says what it changed, has said whose task it is. Of a
// route without effects any other verb would send what may be somebody else's.
func TestOnlyLookingSaysWhoseTaskItIs(t *testing.T) {
	for verb, frees := range map[dlqbridge.Verb]bool{
		dlqbridge.VerbInvestigate: true, dlqbridge.VerbSettleEffect: true,
		dlqbridge.VerbClassify: false, dlqbridge.VerbFix: false, dlqbridge.VerbRepair: false, dlqbridge.VerbCloseIncident: false,
	} {
		t.Run(string(verb), func(t *testing.T) {
			b := &caseOf{t: t, e: enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Stores: asked(elsewhere()), Effects: dlqbridge.EffectsNone})}
			b.move(dlqbridge.VerbReceive, b.letter("m-1", ofTenant("acme")), nil)
			if verb == dlqbridge.VerbCloseIncident {
				b.move(dlqbridge.VerbOpenIncident, enrich.Subject{Note: person(dlqbridge.VerbOpenIncident, "ann")}, nil)
			}
			n := person(verb, "ann")
			if verb == dlqbridge.VerbClassify {
				n.Cause = dlqbridge.CauseDependencyUnavailable
			}
			j := b.move(verb, enrich.Subject{Note: n}, nil)
			if frees != (j.Decision.Action == dlqbridge.ActionRetry) || frees == (j.Decision.Why == enrich.WhyTenant) {
				t.Errorf("%+v", j.Decision)
			}
			if frees {
				b.move(dlqbridge.VerbFix, enrich.Subject{Note: person(dlqbridge.VerbFix, "ann")}, nil)
			} else {
				b.move(dlqbridge.VerbInvestigate, enrich.Subject{Note: person(dlqbridge.VerbInvestigate, "ann")}, nil)
			}
			if j := b.e.Judge(t.Context(), start.Add(time.Hour), []enrich.Subject{{Case: b.c}})[0]; j.Decision.Action != dlqbridge.ActionRetry {
				t.Errorf("somebody looked as well: %+v", j.Decision)
			}
		})
	}
}

// Where nothing contradicts, a store is believed; and a run that may be going
// is waited for whoever's it is.
func TestTenantsThatContradictNobody(t *testing.T) {
	of := func(tenant string) dlqbridge.Testimony {
		s := findings(notStarted)
		s.Task = &dlqbridge.Task{TaskID: "t", Tenant: tenant}
		return s
	}
	ctx := text("agent.ctx", `{"task":"t","run":"run-1","idem":"k","cause":"timeout"}`)
	grouped := sqsLetter("x", ctx)
	grouped.Payload.GroupKey = "shard-7"
	for name, tt := range map[string]struct {
		letter dlqbridge.Letter
		says   dlqbridge.Testimony
		want   dlqbridge.Why
	}{
		"the same tenant":            {ofTenant("acme"), of("acme"), dlqbridge.WhyRetryable},
		"the store names none":       {ofTenant("acme"), of(""), dlqbridge.WhyRetryable},
		"the letter names none":      {sqsLetter("x", ctx), of("globex"), dlqbridge.WhyRetryable},
		"a group id is a guess":      {grouped, of("globex"), dlqbridge.WhyRetryable},
		"an account is a guess":      {sqsLetter(`{"account_id":"7"}`, ctx), of("globex"), dlqbridge.WhyRetryable},
		"a tenant in the body":       {sqsLetter(`{"tenantId":"acme"}`, ctx), of("globex"), enrich.WhyTenant},
		"a tenant in an attribute":   {sqsLetter(`x`, ctx, text("agent.tenant", "acme")), of("globex"), enrich.WhyTenant},
		"letters in another case":    {ofTenant("Globex"), of("globex"), enrich.WhyTenant},
		"a store that did not speak": {ofTenant("acme"), dlqbridge.Testimony{Unavailable: "timeout", Task: &dlqbridge.Task{Tenant: "globex"}}, dlqbridge.WhyEffectUnknown},
	} {
		b := newCase(t, tt.says)
		if j := b.move(dlqbridge.VerbReceive, b.letter("m-1", tt.letter), nil); j.Decision.Why != tt.want {
			t.Errorf("%s: %+v, %s", name, j.Decision, j.Context.Reason)
		}
	}
	running := elsewhere()
	running.RunningUntil, running.SeenRedriveN, running.SeenRun = start.Add(5*time.Hour), 2, "run-9"
	b := newCase(t, running)
	j := b.move(dlqbridge.VerbReceive, b.letter("m-1", ofTenant("acme")), nil)
	if j.Context.RunningUntil.IsZero() || !j.RecheckAt.Equal(start.Add(5*time.Hour)) || j.SeenRedriveN != 2 || j.Decision.Action != dlqbridge.ActionHumanReview {
		t.Errorf("%+v", j)
	}
}
