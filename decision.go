package dlqbridge

import "time"

// Action is what should be done with a record. The first four send something;
// the last two send nothing.
type Action string

// The actions.
const (
	ActionRetry       Action = "retry"
	ActionResume      Action = "resume"
	ActionRepair      Action = "repair"
	ActionCompensate  Action = "compensate"
	ActionReject      Action = "reject"
	ActionHumanReview Action = "human_review"
	// ActionNone stands on closed records: nothing is left to do.
	ActionNone Action = "none"
)

// Sends says whether the action sends something.
func (a Action) Sends() bool {
	return a == ActionRetry || a == ActionResume || a == ActionRepair || a == ActionCompensate
}

// Why is the short code of the rule that decided, kept on the record.
type Why string

// The rules of Decide in their order.
const (
	WhyCompleted       Why = "task_completed"
	WhyCritical        Why = "critical"
	WhyEffectUnknown   Why = "effect_unknown"
	WhyEffectConfirmed Why = "effect_confirmed"
	WhyExpired         Why = "expired"
	WhyCheckpoint      Why = "checkpoint"
	WhyCoveredEffect   Why = "covered_effect_without_resume"
	WhyRetryable       Why = "retryable"
	WhyFixable         Why = "fixable"
	WhyUnrepeatable    Why = "repair_not_repeat_safe"
	WhyUnclassified    Why = "unclassified"
	WhyNoFix           Why = "nobody_can_fix"
	// WhyLinked and WhyConflict are set where arrivals overrule the fold.
	WhyLinked   Why = "letter_for_closed_record"
	WhyConflict Why = "arrivals_differ"
	// WhyCompensated: a compensation undid what had happened.
	WhyCompensated Why = "compensated"
)

// DecisionInput is all that Decide looks at.
type DecisionInput struct {
	// Completed: a store shows that the task completed.
	Completed bool
	Policy    CausePolicy
	// Approved: two different authenticated people have approved, which lifts
	// the rule that a critical record is only ever looked at.
	Approved bool
	Effect   Folded
	// RepeatSafe: the route declares a contract under which a retry of the
	// unrepaired payload repeats no effect (see RepeatSafe).
	RepeatSafe bool
	// Expired: past valid_until.
	Expired bool
	// Resumable: a valid checkpoint, and the route has a resume contract.
	Resumable bool
	// Redrives counts the sends so far.
	Redrives int
	// Fixed: a person recorded a verifiable fix. Patched: the payload was changed.
	Fixed, Patched bool
}

// Decision is what Decide says.
type Decision struct {
	Action Action
	// Status is where the record waits, or its closing status.
	Status Status
	Why    Why
}

// Decide is the decision table: the first rule that matches wins. It is pure.
func Decide(in DecisionInput) Decision {
	uncovered := in.Effect.Uncovered
	arrival := in.Policy.Arrival
	if in.Fixed && arrival != StatusIncidentOpen {
		arrival = StatusFixValidated
	}
	switch {
	case in.Completed:
		return Decision{ActionNone, StatusCompleted, WhyCompleted}
	case in.Policy.Cause == CauseCritical && !in.Approved:
		return Decision{ActionHumanReview, StatusIncidentOpen, WhyCritical}
	case uncovered == EffectUnknown && !in.RepeatSafe:
		return Decision{ActionHumanReview, StatusUnderInvestigation, WhyEffectUnknown}
	case uncovered == EffectConfirmed && !in.RepeatSafe:
		return Decision{ActionCompensate, StatusAwaitingOperationalDecision, WhyEffectConfirmed}
	case in.Expired:
		return Decision{ActionReject, StatusAwaitingOperationalDecision, WhyExpired}
	case in.Resumable && uncovered == EffectNone:
		return Decision{ActionResume, arrival, WhyCheckpoint}
	case in.Effect.State == EffectConfirmed && !in.RepeatSafe:
		return Decision{ActionHumanReview, StatusUnderInvestigation, WhyCoveredEffect}
	case in.Policy.Retryable && in.Redrives < in.Policy.RedriveBudget && !in.Patched: // another payload is no retry
		return Decision{ActionRetry, arrival, WhyRetryable}
	case in.Fixed || in.Policy.Fixable:
		if uncovered != EffectNone && (!in.RepeatSafe || in.Patched) {
			return Decision{ActionHumanReview, StatusUnderInvestigation, WhyUnrepeatable}
		}
		return Decision{ActionRepair, arrival, WhyFixable}
	case in.Policy.Cause == CauseUnclassified:
		return Decision{ActionHumanReview, StatusUnderInvestigation, WhyUnclassified}
	}
	return Decision{ActionReject, StatusAwaitingOperationalDecision, WhyNoFix}
}

// Effects is what a route declares about its tasks.
type Effects string

// The declarations. EffectsMutating is the default.
const (
	EffectsMutating   Effects = "mutating"
	EffectsIdempotent Effects = "idempotent"
	EffectsNone       Effects = "none"
)

// RepeatInput is all that RepeatSafe looks at.
type RepeatInput struct {
	Effects Effects
	// Begun: some finding says that a step changed something or may have,
	// which voids a declaration that tasks change nothing.
	Begun          bool
	IdempotencyKey string
	Window         time.Duration
	// FirstAttempt is when the key was first used; zero is unknown.
	FirstAttempt, Now time.Time
	Patched           bool
}

// RepeatSafe says whether a retry of the unrepaired payload repeats no effect
// under what the route declares.
func RepeatSafe(in RepeatInput) bool {
	if in.Patched {
		return false
	}
	switch in.Effects {
	case EffectsNone:
		return !in.Begun
	case EffectsIdempotent:
		return in.IdempotencyKey != "" && !in.FirstAttempt.IsZero() && in.Now.Sub(in.FirstAttempt) < in.Window
	case EffectsMutating:
	}
	return false
}
