package dlqbridge

import (
	"testing"
	"time"
)

// decideByRules is the table of decisions written down a second time, as a plain
// list of rules, so that Decide is held against it over every combination of its
// inputs.
func decideByRules(in DecisionInput) Action {
	unsafe := !in.RepeatSafe
	rules := []struct {
		applies bool
		action  Action
	}{
		{in.Completed, ActionNone},
		{in.Policy.Cause == CauseCritical && !in.Approved, ActionHumanReview},
		{in.Effect.Uncovered == EffectUnknown && unsafe, ActionHumanReview},
		{in.Effect.Uncovered == EffectConfirmed && unsafe, ActionCompensate},
		{in.Expired, ActionReject},
		{in.Resumable && in.Effect.Uncovered == EffectNone, ActionResume},
		{in.Effect.State == EffectConfirmed && unsafe, ActionHumanReview},
		{in.Policy.Retryable && in.Redrives < in.Policy.RedriveBudget && !in.Patched, ActionRetry},
		{(in.Fixed || in.Policy.Fixable) && in.Effect.Uncovered != EffectNone && (unsafe || in.Patched), ActionHumanReview},
		{in.Fixed || in.Policy.Fixable, ActionRepair},
		{in.Policy.Cause == CauseUnclassified, ActionHumanReview},
		{true, ActionReject},
	}
	for _, r := range rules {
		if r.applies {
			return r.action
		}
	}
	panic("no rule")
}

func TestDecideOverAllInputs(t *testing.T) {
	effects := []Effect{EffectNone, EffectConfirmed, EffectUnknown}
	bools := []bool{false, true}
	seen := map[Action]int{}
	n := 0
	for _, cause := range Causes() {
		for _, state := range effects {
			for _, uncovered := range effects {
				for bits := range 1 << 7 {
					bit := func(i int) bool { return bits>>i&1 == 1 }
					for _, spent := range bools {
						in := DecisionInput{
							Completed: bit(0), Policy: DefaultCausePolicy(cause), Approved: bit(1),
							Effect: Folded{state, uncovered}, RepeatSafe: bit(2), Expired: bit(3),
							Resumable: bit(4), Fixed: bit(5), Patched: bit(6),
						}
						if spent {
							in.Redrives = in.Policy.RedriveBudget
						}
						n++
						got := Decide(in)
						seen[got.Action]++
						if want := decideByRules(in); got.Action != want {
							t.Fatalf("%+v: %s (%s), want %s", in, got.Action, got.Why, want)
						}
						// I5: unknown is never sent without a declared contract.
						if got.Action.Sends() && got.Action != ActionCompensate && uncovered != EffectNone && !in.RepeatSafe {
							t.Fatalf("%+v sends with uncovered %s", in, uncovered)
						}
						// A patched payload is never covered by a declaration.
						if got.Action == ActionRepair && in.Patched && uncovered != EffectNone {
							t.Fatalf("%+v sends a patched payload with uncovered %s", in, uncovered)
						}
						if got.Status.Closed() != in.Completed {
							t.Fatalf("%+v: status %s", in, got.Status)
						}
						if got.Action == ActionHumanReview && got.Status != StatusUnderInvestigation && got.Status != StatusIncidentOpen {
							t.Fatalf("%+v: human_review in status %s", in, got.Status)
						}
					}
				}
			}
		}
	}
	for _, a := range []Action{ActionNone, ActionRetry, ActionResume, ActionRepair, ActionCompensate, ActionReject, ActionHumanReview} {
		if seen[a] == 0 {
			t.Errorf("action %s was never reached in %d combinations", a, n)
		}
	}
}

func TestDecideStatusByCause(t *testing.T) {
	want := map[Cause]Status{
		CauseTimeout: StatusClassified, CauseDependencyUnavailable: StatusClassified,
		CausePermission: StatusAwaitingTechnicalOwner, CauseInvalidInput: StatusAwaitingInputCorrection,
		CauseOutputContract: StatusAwaitingTechnicalOwner, CausePolicyLimit: StatusAwaitingOperationalDecision,
		CauseBusinessRule: StatusAwaitingOperationalDecision, CauseAmbiguousEffect: StatusUnderInvestigation,
		CauseCritical: StatusIncidentOpen, CauseUnclassified: StatusUnderInvestigation,
	}
	for _, cause := range Causes() {
		got := Decide(DecisionInput{Policy: DefaultCausePolicy(cause), Effect: Folded{EffectNone, EffectNone}})
		if got.Status != want[cause] {
			t.Errorf("%s: status %s, want %s", cause, got.Status, want[cause])
		}
	}
	if len(want) != len(Causes()) {
		t.Errorf("%d causes in the table, %d in the set", len(want), len(Causes()))
	}
}

func TestRepeatSafe(t *testing.T) {
	idempotent := RepeatInput{
		Effects: EffectsIdempotent, IdempotencyKey: "order-7", Window: time.Hour,
		FirstAttempt: t0, Now: t0.Add(59 * time.Minute),
	}
	for _, tt := range []struct {
		name   string
		change func(*RepeatInput)
		want   bool
	}{
		{"idempotent, inside the window", func(*RepeatInput) {}, true},
		{"at the end of the window", func(in *RepeatInput) { in.Now = t0.Add(time.Hour) }, false},
		{"without a key", func(in *RepeatInput) { in.IdempotencyKey = "" }, false},
		{"first attempt unknown", func(in *RepeatInput) { in.FirstAttempt = time.Time{} }, false},
		{"with a repaired payload", func(in *RepeatInput) { in.Patched = true }, false},
		{"no declaration", func(in *RepeatInput) { in.Effects = EffectsMutating }, false},
		{"tasks change nothing", func(in *RepeatInput) { *in = RepeatInput{Effects: EffectsNone} }, true},
		{"tasks change nothing, but one did", func(in *RepeatInput) { *in = RepeatInput{Effects: EffectsNone, Begun: true} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := idempotent
			tt.change(&in)
			if got := RepeatSafe(in); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestBackoffCeiling(t *testing.T) {
	p := DefaultCausePolicy(CauseTimeout)
	for n, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 7: time.Hour, 1000: time.Hour} {
		if got := p.BackoffCeiling(n); got != want {
			t.Errorf("redrive %d: %s, want %s", n, got, want)
		}
	}
}
