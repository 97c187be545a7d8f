package dlqbridge

import "time"

// Cause is the class of a failure. The set is closed.
type Cause string

// The causes.
const (
	CauseTimeout               Cause = "timeout"
	CauseDependencyUnavailable Cause = "dependency_unavailable"
	CausePermission            Cause = "permission"
	CauseInvalidInput          Cause = "invalid_input"
	CauseOutputContract        Cause = "output_contract"
	CausePolicyLimit           Cause = "policy_limit"
	CauseBusinessRule          Cause = "business_rule"
	CauseAmbiguousEffect       Cause = "ambiguous_effect"
	CauseCritical              Cause = "critical"
	CauseUnclassified          Cause = "unclassified"
)

// Lane is who handles a cause.
type Lane string

// The lanes.
const (
	LaneTechnicalDependency Lane = "technical_dependency"
	LaneSourceCorrectable   Lane = "source_correctable"
	LaneAgentQuality        Lane = "agent_quality"
	LaneOperationalRule     Lane = "operational_rule"
	LaneUncertainState      Lane = "uncertain_state"
	LaneCriticalRisk        Lane = "critical_risk"
)

// CausePolicy is how one cause is handled. DefaultCausePolicy gives the safe
// defaults; configuration may change all but Lane and Arrival.
type CausePolicy struct {
	Cause Cause
	Lane  Lane
	// Retryable: a new attempt of the same message may work by itself.
	Retryable bool
	// Fixable: somebody can change what made it fail, after which it is repaired.
	Fixable bool
	// Arrival is the status a record gets by its cause alone.
	Arrival Status
	// Owner is the team or person a new record is given to; empty is nobody yet.
	Owner string
	// TriageWithin is how soon a person must have looked.
	TriageWithin time.Duration
	// RedriveBudget is how often one record may be sent back in all.
	RedriveBudget int
	// BackoffBase doubles with each redrive up to BackoffMax; policy waits that
	// long with full jitter, a person with a fix need not.
	BackoffBase, BackoffMax time.Duration
	// AutoAuthorize lets policy authorise retries alone, after the back-off.
	AutoAuthorize bool
	// SecondPerson: authorising needs two different authenticated people.
	SecondPerson bool
	// Runbook is a link for the person who triages.
	Runbook string
}

// Defaults of CausePolicy, each with its reason.
const (
	DefaultRedriveBudget = 3                // a fourth death of the same task is no accident
	DefaultBackoffBase   = time.Minute      // longer than a deployment's blip
	DefaultBackoffMax    = time.Hour        // so that an outage's end is used the same shift
	DefaultTriageWithin  = 24 * time.Hour   // one working day
	triageCritical       = time.Hour        // an incident
	triageAmbiguous      = 4 * time.Hour    // money may be in doubt
	DefaultSkew          = 30 * time.Second // how far two machines' clocks may differ
)

// causePolicies is the one table of causes; Causes lists them in its order.
var causePolicies = []CausePolicy{
	{Cause: CauseTimeout, Lane: LaneTechnicalDependency, Retryable: true, Fixable: true, Arrival: StatusClassified},
	{Cause: CauseDependencyUnavailable, Lane: LaneTechnicalDependency, Retryable: true, Fixable: true, Arrival: StatusClassified},
	{Cause: CausePermission, Lane: LaneTechnicalDependency, Fixable: true, Arrival: StatusAwaitingTechnicalOwner},
	{Cause: CauseInvalidInput, Lane: LaneSourceCorrectable, Fixable: true, Arrival: StatusAwaitingInputCorrection},
	{Cause: CauseOutputContract, Lane: LaneAgentQuality, Fixable: true, Arrival: StatusAwaitingTechnicalOwner},
	{Cause: CausePolicyLimit, Lane: LaneAgentQuality, Fixable: true, Arrival: StatusAwaitingOperationalDecision},
	{Cause: CauseBusinessRule, Lane: LaneOperationalRule, Arrival: StatusAwaitingOperationalDecision},
	{Cause: CauseAmbiguousEffect, Lane: LaneUncertainState, Fixable: true, Arrival: StatusUnderInvestigation, TriageWithin: triageAmbiguous},
	{Cause: CauseCritical, Lane: LaneCriticalRisk, Fixable: true, Arrival: StatusIncidentOpen, TriageWithin: triageCritical, SecondPerson: true},
	{Cause: CauseUnclassified, Lane: LaneUncertainState, Arrival: StatusUnderInvestigation},
}

// Causes lists all causes in the order in which they are shown.
func Causes() []Cause {
	out := make([]Cause, len(causePolicies))
	for i, p := range causePolicies {
		out[i] = p.Cause
	}
	return out
}

// Valid says whether c is one of the closed set.
func (c Cause) Valid() bool {
	for _, p := range causePolicies {
		if p.Cause == c {
			return true
		}
	}
	return false
}

// DefaultCausePolicy is the safe default for a cause; one outside the set is
// handled as unclassified.
func DefaultCausePolicy(c Cause) CausePolicy {
	found := causePolicies[len(causePolicies)-1]
	for _, p := range causePolicies {
		if p.Cause == c {
			found = p
			break
		}
	}
	if found.TriageWithin == 0 {
		found.TriageWithin = DefaultTriageWithin
	}
	found.RedriveBudget = DefaultRedriveBudget
	found.BackoffBase, found.BackoffMax = DefaultBackoffBase, DefaultBackoffMax
	return found
}

// BackoffCeiling is the most that policy waits before redrive number n (1 for
// the first): base, doubled n-1 times, at most BackoffMax. With the defaults:
// 1 m, 2 m, 4 m, … 1 h. The actual wait is a random share of it (full jitter).
func (p CausePolicy) BackoffCeiling(n int) time.Duration {
	d := p.BackoffBase
	for range n - 1 {
		d *= 2
		if d >= p.BackoffMax {
			return p.BackoffMax
		}
	}
	return min(d, p.BackoffMax)
}
