package redrive

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// PolicyActor is who authorises where policy does it alone.
var PolicyActor = dlqbridge.Actor{Name: "policy:default@1", Authenticated: true}

// Asking is who wants a record authorised, and how.
type Asking struct {
	Actor dlqbridge.Actor
	// Policy: nobody asked; policy may authorise only within its own bounds.
	Policy bool
	// Single: a person looks at this one record, which may exceed the budget.
	Single bool
	Now    time.Time
}

// MayAuthorize says whether the rules of authorisation let a record be
// authorised; nil is yes, otherwise it says why not. The judgement must be of
// this control item, asked with the note that would be written. Needing a
// second person is the last reason that it finds: a caller who gets that answer
// may note the approval.
func MayAuthorize(c dlqbridge.Control, j Judgement, a Asking) *dlqbridge.Exclusion {
	no := leavesOut(c)
	if c.Claim != nil || c.Status == dlqbridge.StatusRedriving {
		return no(dlqbridge.ExcludeClaimed, "%s", holder(c))
	}
	if x := unsendable(c, j, a.Now); x != nil {
		return x
	}
	policy := j.Policy
	if j.Decision.Action == dlqbridge.ActionCompensate {
		if x := onceOnly(c, j, a); x != nil {
			return x
		}
	} else if c.Redrives >= policy.RedriveBudget && !a.Single {
		return no(dlqbridge.ExcludeBudgetExhausted, "sent %d times, the budget is %d; a person may authorise this one record", c.Redrives, policy.RedriveBudget)
	}
	if a.Policy {
		if x := policyMay(c, j, a.Now); x != nil {
			return x
		}
	} else if j.Applied.Fix == "" {
		return no(dlqbridge.ExcludeNotAuthorized, "%s", dlqbridge.NoFix)
	}
	if NeedsSecondPerson(policy) && !Approved(j.Approvers, a.Actor) {
		return no(dlqbridge.ExcludeNeedsSecondPerson, "cause %s is authorised by two different authenticated people", policy.Cause)
	}
	return nil
}

// leavesOut is how a record is left out of what is sent: for a reason, with a
// sentence for the person.
func leavesOut(c dlqbridge.Control) func(r dlqbridge.ExcludeReason, format string, args ...any) *dlqbridge.Exclusion {
	return func(r dlqbridge.ExcludeReason, format string, args ...any) *dlqbridge.Exclusion {
		return &dlqbridge.Exclusion{ID: c.ID, Reason: r, Detail: fmt.Sprintf(format, args...)}
	}
}

// unsendable says why what is known about a record forbids to send it, whoever
// has authorised it. It is asked before an authorisation and again at the gate.
func unsendable(c dlqbridge.Control, j Judgement, now time.Time) *dlqbridge.Exclusion {
	no := leavesOut(c)
	d, folded := j.Decision, j.Context.Folded
	switch {
	case c.Status.Closed():
		return no(dlqbridge.ExcludeClosed, "%s", c.Status)
	case d.Status == dlqbridge.StatusCompleted:
		return no(dlqbridge.ExcludeClosed, "a store shows that the task completed")
	case j.Applied.Conflict:
		return no(dlqbridge.ExcludeConflict, "its arrivals differ in task type, key or payload")
	case j.Applied.Late:
		return no(dlqbridge.ExcludeConflict, "a letter arrived while it was being redriven that was not the redrive's")
	case j.Context.RunningUntil.After(now):
		return no(dlqbridge.ExcludeStillRunning, "a run may be going until %s", dlqbridge.FormatTime(j.Context.RunningUntil))
	case d.Why == dlqbridge.WhyExpired:
		return no(dlqbridge.ExcludeExpired, "past valid_until")
	case d.Why == dlqbridge.WhyCritical:
		return no(dlqbridge.ExcludeNeedsSecondPerson, "an incident is open; two different authenticated people authorise")
	case d.Action == dlqbridge.ActionCompensate && !j.Compensates:
		return no(dlqbridge.ExcludeNeedsCompensation, "an effect is confirmed, and its route names no compensate_to: configure where compensations go, or undo it by hand")
	case d.Action == dlqbridge.ActionCompensate && (folded.Uncovered != dlqbridge.EffectConfirmed || len(undone(c, j)) == 0):
		return no(dlqbridge.ExcludeEffectUnknown, "effect %s: only what is confirmed is compensated", folded.Uncovered)
	case d.Action == dlqbridge.ActionCompensate: // undoing it repeats nothing
	case folded.Uncovered != dlqbridge.EffectNone && !j.Context.RepeatSafe:
		// Decide has seen to this; a judge that errs must not repeat an effect (I5).
		return no(dlqbridge.ExcludeEffectUnknown, "effect %s and repeating is not declared safe", folded.Uncovered)
	case d.Action == dlqbridge.ActionResume && folded.Uncovered != dlqbridge.EffectNone:
		return no(dlqbridge.ExcludeEffectUnknown, "effect %s beyond its checkpoint", folded.Uncovered)
	case d.Action == dlqbridge.ActionResume && checkpoint(j) == "":
		return no(dlqbridge.ExcludeNotAuthorized, "no checkpoint to resume from is on record")
	case d.Action == dlqbridge.ActionResume: // what its checkpoint covers is not done again
	case folded.State != dlqbridge.EffectNone && !j.Context.RepeatSafe:
		return no(dlqbridge.ExcludeNotAuthorized, "a confirmed effect is covered by a checkpoint, so a retry would repeat it")
	case d.Action != dlqbridge.ActionRetry && d.Action != dlqbridge.ActionRepair:
		if c.Redrives >= j.Policy.RedriveBudget {
			return no(dlqbridge.ExcludeBudgetExhausted, "sent %d times, the budget is %d", c.Redrives, j.Policy.RedriveBudget)
		}
		return no(dlqbridge.ExcludeNotAuthorized, "the decision is %s (%s)", d.Action, d.Why)
	}
	return nil
}

// onceOnly says why a compensation is not authorised together with others: one
// that went out before may have been carried out although nobody said so.
func onceOnly(c dlqbridge.Control, j Judgement, a Asking) *dlqbridge.Exclusion {
	no := leavesOut(c)
	switch {
	case a.Single:
		return nil
	case c.Previous != "":
		return no(dlqbridge.ExcludeNeedsCompensation, "it continues a closed record, which may have been compensated; a person may authorise this one")
	case c.Compensations >= j.Policy.RedriveBudget && j.CompensatesAgain:
		return no(dlqbridge.ExcludeBudgetExhausted, "compensated %d times without an outcome, the budget is %d; a person may authorise this one", c.Compensations, j.Policy.RedriveBudget)
	case c.Compensations > 0 && !j.CompensatesAgain:
		return no(dlqbridge.ExcludeNeedsCompensation, "a compensation was sent and nobody said what became of it; close it (triage compensated), or a person authorises this one again")
	}
	return nil
}

// policyMay says why policy may not authorise a record alone.
func policyMay(c dlqbridge.Control, j Judgement, now time.Time) *dlqbridge.Exclusion {
	no := leavesOut(c)
	p := j.Policy
	switch {
	case !p.AutoAuthorize || !p.Retryable:
		return no(dlqbridge.ExcludeNotAuthorized, "policy may not authorise cause %s alone", p.Cause)
	case j.Decision.Action != dlqbridge.ActionRetry:
		return no(dlqbridge.ExcludeNotAuthorized, "policy authorises retries only, not %s", j.Decision.Action)
	case c.TaskID == "":
		// A worker that loses the mark would bring it back as another record, whose
		// sends nobody has counted: it would go back and forth without an end.
		return no(dlqbridge.ExcludeNotAuthorized, "it has no task id by which it would be known again, so only a person authorises it")
	case c.Previous != "":
		return no(dlqbridge.ExcludeNotAuthorized, "it continues a closed record, which only a person authorises")
	}
	from := c.NotBefore
	if from.IsZero() { // no back-off was drawn, so the longest holds
		from = c.LastSeen.Add(p.BackoffCeiling(c.Redrives + 1))
	}
	if now.Before(from) {
		return no(dlqbridge.ExcludeNotBefore, "policy waits until %s", dlqbridge.FormatTime(from))
	}
	return nil
}

// NeedsSecondPerson says whether a cause is authorised by two people only.
func NeedsSecondPerson(p dlqbridge.CausePolicy) bool {
	return p.SecondPerson || p.Cause == dlqbridge.CauseCritical
}

// Approved says whether two different authenticated people stand behind a send,
// the one who asks now included. An OS user never counts, and neither does policy.
func Approved(approvers []string, asking dlqbridge.Actor) bool {
	people := slices.Clone(approvers)
	if asking.Authenticated && asking != PolicyActor {
		people = append(people, asking.Name)
	}
	slices.Sort(people)
	return len(slices.Compact(people)) >= 2
}

// holder says who has claimed a record.
func holder(c dlqbridge.Control) string {
	if c.Claim == nil {
		return "being redriven"
	}
	return fmt.Sprintf("claimed by job %s for redrive %d", c.Claim.Job, c.Claim.N)
}
