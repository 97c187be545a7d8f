package enrich_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// steps are n findings of one state about steps of their own.
func steps(n int, state dlqbridge.Effect, proof dlqbridge.Proof) []dlqbridge.Finding {
	out := make([]dlqbridge.Finding, n)
	for i := range out {
		out[i] = finding(fmt.Sprintf("%05d#charge", i), state, proof)
	}
	return out
}

// All steps of a long task are folded, also those that the record does not keep.
func TestEveryStepOfALongTaskIsFolded(t *testing.T) {
	now := start.Add(time.Hour)
	a := dlqbridge.Arrival{Key: "k", Source: arn("orders"), SentAt: start, Task: dlqbridge.Task{TaskID: "t-1"}, Failure: dlqbridge.Failure{Cause: dlqbridge.CauseTimeout}}
	judge := func(f ...dlqbridge.Finding) enrich.Judgement {
		t.Helper()
		e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Stores: asked(findings(f...))})
		return e.Judge(t.Context(), now, []enrich.Subject{{Arrival: &a}})[0]
	}
	none := append(steps(5000, dlqbridge.EffectNone, dlqbridge.ProofNotStarted), notStarted)
	last := finding("99999#charge", dlqbridge.EffectUnknown, dlqbridge.ProofSystemRead)
	done := finding("99999#charge", dlqbridge.EffectConfirmed, dlqbridge.ProofReceipt)

	j := judge(none...)
	x := j.Context
	if x.Folded.State != dlqbridge.EffectNone || len(x.Unavailable) > 0 || len(x.Findings) != 200 || x.Omitted[dlqbridge.EffectNone] != 4801 {
		t.Errorf("all none: got %+v, %d kept, omitted %v, %v", x.Folded, len(x.Findings), x.Omitted, x.Unavailable)
	}
	for name, f := range map[dlqbridge.Effect]dlqbridge.Finding{dlqbridge.EffectUnknown: last, dlqbridge.EffectConfirmed: done} {
		j := judge(append(slices.Clip(none), f)...)
		if j.Context.Folded.State != name || j.Context.Omitted[name] != 0 {
			t.Errorf("one %s among them: got %+v, omitted %v", name, j.Context.Folded, j.Context.Omitted)
		}
	}
	many := judge(append(steps(300, dlqbridge.EffectConfirmed, dlqbridge.ProofReceipt), notStarted)...)
	if many.Context.Folded.State != dlqbridge.EffectConfirmed || many.Decision.Action != dlqbridge.ActionHumanReview || many.Context.Restriction == "" {
		t.Errorf("more effects than are kept: got %+v, %+v, %q", many.Context.Folded, many.Decision, many.Context.Restriction)
	}
	few := judge(append(steps(150, dlqbridge.EffectConfirmed, dlqbridge.ProofReceipt), notStarted)...)
	if few.Decision.Action != dlqbridge.ActionCompensate || few.Context.Omitted != nil {
		t.Errorf("effects that are all kept: got %+v, omitted %v", few.Decision, few.Context.Omitted)
	}
	beyond := judge(steps(10_001, dlqbridge.EffectNone, dlqbridge.ProofNotStarted)...)
	if beyond.Context.Folded.State != dlqbridge.EffectUnknown || beyond.Context.Unavailable["ledger"] != "more than 10000 steps" {
		t.Errorf("more than anybody folds: got %+v, %v", beyond.Context.Folded, beyond.Context.Unavailable)
	}
}

// A store that says when it will know more is asked again then.
func TestAStoreIsAskedAgainWhenItSays(t *testing.T) {
	now := start.Add(time.Hour)
	a := dlqbridge.Arrival{Key: "k", Source: arn("orders"), SentAt: start, Task: dlqbridge.Task{TaskID: "t-1"}}
	for name, c := range map[string]struct {
		says []dlqbridge.Testimony
		want time.Time
	}{
		"never":             {[]dlqbridge.Testimony{{}}, time.Time{}},
		"later":             {[]dlqbridge.Testimony{{AskAgain: now.Add(time.Hour)}}, now.Add(time.Hour)},
		"the sooner":        {[]dlqbridge.Testimony{{AskAgain: now.Add(time.Hour)}, {AskAgain: now.Add(time.Minute)}}, now.Add(time.Minute)},
		"not in a hurry":    {[]dlqbridge.Testimony{{AskAgain: now.Add(-time.Hour)}}, now.Add(30 * time.Second)},
		"and unavailable":   {[]dlqbridge.Testimony{{AskAgain: now.Add(time.Hour)}, {Unavailable: "down"}}, now.Add(5 * time.Minute)},
		"not while it runs": {[]dlqbridge.Testimony{{AskAgain: now.Add(time.Minute), RunningUntil: now.Add(10 * time.Minute)}}, now.Add(10 * time.Minute)},
	} {
		r := enrich.Route{Name: "orders", Place: arn("orders-dlq")}
		for i, says := range c.says {
			r.Stores = append(r.Stores, teller{fmt.Sprint("store-", i), says})
		}
		if got := enricher(t, r).Judge(t.Context(), now, []enrich.Subject{{Arrival: &a}})[0].RecheckAt; !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
