package enrich

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// reason is the decision in words for somebody tired: what was seen, what
// follows, and where it depends on somebody, on whom.
func (e *Enricher) reason(f *facts, k known, j Judgement) string {
	x := j.Context
	switch j.Decision.Why {
	case dlqbridge.WhyCompensated:
		return fmt.Sprintf("%s says that a compensation undid what had happened%s; nothing is left to do.", title(x.CompletedBy.Store), byRun(x.CompletedBy.Run))
	case dlqbridge.WhyCompleted:
		return fmt.Sprintf("%s says the task completed%s; nothing is left to do.", title(x.CompletedBy.Store), byRun(x.CompletedBy.Run))
	case dlqbridge.WhyCritical:
		return "Stated as critical: nothing is sent until two people have approved it."
	case WhyIncident:
		return "An incident is open; nothing is sent until somebody closes it."
	case dlqbridge.WhyConflict:
		return "The letters of this task differ in task type, idempotency key or payload; somebody must say which one is right."
	case WhyLate:
		return "Another letter arrived while this record was being redriven; somebody must look before anything is sent again."
	case WhyTenant:
		return strangeness(f.newest(), k.tenants) + ": it may be somebody else's work under the same id, so nothing that it says counts; somebody must look."
	case dlqbridge.WhyLinked:
		return "A letter arrived for work whose record was already closed; somebody must find out why it came back."
	case dlqbridge.WhyEffectUnknown:
		return e.unknownReason(f, k, j)
	case dlqbridge.WhyEffectConfirmed:
		how := "it has to be undone or finished by hand."
		if e.route.Compensates {
			how = "a compensation can undo it, or somebody finishes it by hand."
		}
		return title(stepsOf(x.Findings, dlqbridge.EffectConfirmed)) + " changed something outside, so running the task again would do it twice; " + how
	case WhyCompensation:
		return compensationReason(f)
	case dlqbridge.WhyExpired:
		return fmt.Sprintf("The work lost its sense at %s; close it as expired.", dlqbridge.FormatTime(x.Task.ValidUntil))
	case dlqbridge.WhyCheckpoint:
		return failedWith(x.Failure) + ", and nothing happened after its checkpoint; it can go on from there."
	case dlqbridge.WhyCoveredEffect:
		return "The effects that happened all lie before the checkpoint, but this route has no way to resume; a new attempt would repeat them."
	case dlqbridge.WhyRetryable:
		return fmt.Sprintf("%s, %s; a new attempt may work.", failedWith(x.Failure), safety(x))
	case dlqbridge.WhyFixable:
		if j.Fix != nil {
			return fmt.Sprintf("%s, %s; the fix %s is on record.", failedWith(x.Failure), safety(x), j.Fix)
		}
		if f.patched() {
			return fmt.Sprintf("%s, %s; its payload was changed (version %d), so it can be sent once a person says why that will work.", failedWith(x.Failure), safety(x), f.repair.Version)
		}
		if j.Policy.Retryable {
			return fmt.Sprintf("%s again and again: its %d redrives are used up; somebody must fix the cause.", failedWith(x.Failure), f.control.Redrives)
		}
		return fmt.Sprintf("%s, %s; it can be sent again once somebody has fixed the cause.", failedWith(x.Failure), safety(x))
	case dlqbridge.WhyUnrepeatable:
		return "The cause can be fixed, but a corrected task may not be repeat-safe under the old key; somebody must decide."
	case dlqbridge.WhyUnclassified:
		return "Nothing is known about why it failed; somebody must look and name the cause."
	case dlqbridge.WhyNoFix:
		return failedWith(x.Failure) + ", and no change on our side would help; it should be rejected or done by hand."
	}
	return string(j.Decision.Why)
}

// compensationReason says whose compensation it claims to be: anybody can write
// that, and no record is asked whether it sent it.
func compensationReason(f *facts) string {
	for _, a := range f.arrivals {
		if isCompensation(a) {
			return fmt.Sprintf("It says that it is compensation %d of record %s, which failed; somebody must find out whether it undid anything. It is never compensated itself, and never sent as work.", a.Mark.N, a.Mark.Record)
		}
	}
	return string(WhyCompensation)
}

// unknownReason says why nobody knows, and for a team that has declared nothing
// and has no store the three ways out.
func (e *Enricher) unknownReason(f *facts, k known, j Judgement) string {
	x := j.Context
	if !x.RunningUntil.IsZero() {
		return fmt.Sprintf("A run of this task may still be going until %s; it is looked at again then.", dlqbridge.FormatTime(x.RunningUntil))
	}
	if len(k.disagree) > 0 {
		return disagreement(k.disagree[0])
	}
	if len(x.Unavailable) > 0 {
		return title(names(x.Unavailable)) + " could not be asked, so nobody knows whether something changed outside; it is asked again soon."
	}
	if len(k.tenants) > 0 {
		return strangeness(f.newest(), k.tenants) + ", so it cannot say whether this task changed something outside; look and settle the effect."
	}
	if step, ok := inFlight(x.Findings); ok {
		return fmt.Sprintf("Step %s began and left no receipt, so nobody knows whether it worked; look outside and settle the effect.", step.Step)
	}
	if f.control.Redrives > 0 && len(k.stores) == 0 {
		return "It was sent back and failed again, and nothing tells what that attempt changed outside; look and settle the effect."
	}
	if len(e.route.Stores) == 0 && e.route.Effects == dlqbridge.EffectsMutating {
		return "Nobody can say whether this task changed something outside: the route has no store that knows, and declares nothing. " +
			"Three ways out: let workers write the ledger, declare effects: none, or declare effects: idempotent with a window."
	}
	return "No store can say whether this task changed something outside, and silence proves nothing; look and settle the effect."
}

// restriction is what forbids more than the decision says; empty is nothing.
func (e *Enricher) restriction(f *facts, k known, j Judgement) string {
	var out []string
	if j.Policy.SecondPerson {
		out = append(out, "two different authenticated people must approve")
	}
	if f.control.Previous != "" || f.linked {
		out = append(out, "continues a closed record: never authorised by policy")
	}
	if f.newest().Task.TaskID == "" {
		out = append(out, "has no task id: never sent by policy")
	}
	if f.control.Source == "" && e.route.Source == "" && f.newest().Source == "" {
		out = append(out, sourceless(f.newest()))
	}
	if w := payloadWarning(f.newest()); w != "" {
		out = append(out, w)
	}
	if t := j.Context.Task; t.Attempts != nil && t.MaxAttempts != nil && *t.Attempts >= *t.MaxAttempts {
		out = append(out, fmt.Sprintf("has used %d of its %d attempts: a worker may refuse it", *t.Attempts, *t.MaxAttempts))
	}
	if n := j.Context.Omitted[dlqbridge.EffectConfirmed]; n > 0 {
		out = append(out, fmt.Sprintf("has %d more effects than a record keeps: to be undone by hand, by what its stores say", n))
	}
	if len(k.tenants) > 0 {
		out = append(out, "another tenant in "+names(k.tenants)+": what it says about this task proves nothing")
	}
	if j.Conflict {
		out = append(out, "letters differ: not sent while they do")
	}
	if f.control.Redrives >= j.Policy.RedriveBudget {
		out = append(out, "redrive budget used up: never authorised by policy")
	}
	return strings.Join(out, "; ")
}

// sourceless says why a letter has no queue to go back to, and what to do: a
// plain redrive of it is refused (target_missing).
func sourceless(a *dlqbridge.Arrival) string {
	const refused = "has no queue to go back to, so a redrive is refused (target_missing): "
	switch a.Facts[factOrigin] {
	case "lambda-async", "lambda-destination":
		return refused + "it was an asynchronous invocation of a function. Invoke it with the same event, or name a source_queue on the route"
	case "eventbridge-rule", "eventbridge-scheduler", "eventbridge-bus":
		return refused + "EventBridge delivered it to a target. Put the event again, or name a source_queue on the route"
	case "sns-subscription":
		return refused + "SNS delivered it to a subscription. Name the subscribed queue as source_queue on the route"
	}
	return refused + "name a source_queue on the route"
}

func failedWith(f dlqbridge.Failure) string {
	text := "Failed: " + strings.ReplaceAll(string(f.Cause), "_", " ")
	if f.Code != "" {
		text += " (" + f.Code + ")"
	}
	if f.Dependency != "" {
		text += " at " + f.Dependency
	}
	return text
}

func safety(x dlqbridge.Context) string {
	if x.Folded.Uncovered == dlqbridge.EffectNone {
		return "and nothing changed outside"
	}
	return "and repeating is safe under its idempotency key"
}

func byRun(run string) string {
	if run == "" {
		return ""
	}
	return " in run " + run
}

// stepsOf names the steps in a state.
func stepsOf(findings []dlqbridge.Finding, state dlqbridge.Effect) string {
	var out []string
	for _, f := range findings {
		if f.State == state && len(out) < 3 {
			step := "step " + f.Step
			if f.Step == dlqbridge.AllSteps {
				step = "the task"
			}
			out = append(out, step)
		}
	}
	if len(out) == 0 {
		return "the task"
	}
	return strings.Join(out, ", ")
}

func names(m map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
