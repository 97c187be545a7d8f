package enrich

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Rules that decide before the table of decisions does, besides WhyLinked and
// WhyConflict.
const (
	// WhyLate: a letter arrived while the record was being redriven that was
	// not the redrive's; a person must look before anything is sent.
	WhyLate dlqbridge.Why = "late_arrival"
	// WhyIncident: a person opened an incident; nothing is sent until somebody
	// closes it, whatever else is known.
	WhyIncident dlqbridge.Why = "incident_open"
	// WhyBare: the letter could not be stored with what it carries, so only its
	// bytes were.
	WhyBare dlqbridge.Why = "stored_bare"
)

// A record whose stores could not be asked is folded again after recheckFirst:
// long enough for a blip to pass, short against any triage deadline. In a long
// outage the wait grows to half of the record's age, at most recheckLast, so
// that its history does not fill with looks that saw nothing.
const (
	recheckFirst = 5 * time.Minute
	recheckLast  = 6 * time.Hour
	// RecheckLeast bounds what a store may wish.
	recheckLeast = 30 * time.Second
)

func recheckUnavailable(now, lastSeen time.Time) time.Time {
	wait := recheckFirst
	if !lastSeen.IsZero() {
		wait = min(max(now.Sub(lastSeen)/2, recheckFirst), recheckLast)
	}
	return now.Add(wait).Truncate(time.Millisecond)
}

// recheckAt is when another look may see more: a store that could not be asked
// is asked again, and one that said when it will know more is asked then, but
// never in a hot loop.
func (k known) recheckAt(now, lastSeen time.Time) time.Time {
	var at time.Time
	if len(k.unavailable) > 0 {
		at = recheckUnavailable(now, lastSeen)
	}
	if k.askAgain.IsZero() {
		return at
	}
	again := k.askAgain
	if least := now.Add(recheckLeast); again.Before(least) {
		again = least
	}
	return firstTime(at, saneTime(again))
}

// Judgement is what is known about a subject at one moment and what follows.
type Judgement struct {
	// Context is the evidence item to store before the move that names it. Its
	// Name is a hash of all its content and of the record.
	Context dlqbridge.Context
	// Decision is what should be done, and where the record waits.
	Decision dlqbridge.Decision
	// Policy is how the cause is handled on this route.
	Policy dlqbridge.CausePolicy
	// By is the author of a decision that no person took.
	By string
	// Conflict: arrivals differ where they must not.
	Conflict bool
	// RecheckAt is when it makes sense to judge again by itself; zero is never.
	RecheckAt time.Time
	// Fix is the fix that counts, if there is one.
	Fix *dlqbridge.Fix
	// Approvers are the authenticated people whose approval counts.
	Approvers []string
	// SeenRedriveN is the highest redrive number that a store saw a run carry,
	// and SeenRun that run: proof that the send of that number went out.
	SeenRedriveN int
	SeenRun      string
	// Unsent is the fold as if the send that the record is claimed for had not gone
	// out: what everybody else leaves. Without a claim it is that of the Context.
	Unsent dlqbridge.Folded
	// Compensates and CompensatesAgain are the route's.
	Compensates, CompensatesAgain bool

	now time.Time
	// fresh: a letter is what was judged; looked: a person just dealt with it.
	fresh, looked bool
	verb          dlqbridge.Verb
}

// Judge answers by position. It asks each store once for all subjects, in
// parallel and each within its timeout; a store that fails makes effects
// unknown and loses nothing, so there is no error. When ctx ends the stores
// count as unavailable. It writes nothing.
func (e *Enricher) Judge(ctx context.Context, now time.Time, subjects []Subject) []Judgement {
	all := make([]facts, len(subjects))
	for i := range subjects {
		all[i] = subjects[i].facts()
	}
	heard := e.ask(ctx, now, subjects, all)
	out := make([]Judgement, len(subjects))
	for i := range subjects {
		out[i] = e.judge(now, &subjects[i], &all[i], heard[i])
	}
	return out
}

// judge concludes from what was heard.
func (e *Enricher) judge(now time.Time, s *Subject, f *facts, heard []dlqbridge.Testimony) Judgement {
	letter := f.newest()
	tenants := strangers(now, letter, heard)
	heard = append([]dlqbridge.Testimony{testify(letter)}, heard...)
	k := join(now, heard)
	k.tenants = tenants
	k.keysDiffer = k.keysDiffer || differentKeys(letter.Task, k.task)
	k.task = mergeTask(letter.Task, k.task)
	if s.Completed != nil {
		k.completed = s.Completed
	}
	return e.conclude(now, s, f, k)
}

// conclude folds, classifies and decides from what is known.
func (e *Enricher) conclude(now time.Time, s *Subject, f *facts, k known) Judgement {
	letter, approvers := f.newest(), f.approvers()
	findings := slices.Concat(k.findings, stated(f.said), e.declared(now))
	running := k.runningUntil.After(now)
	fold := dlqbridge.FoldInput{
		Findings: findings, LastSend: f.control.LastSend, Running: running, Checkpoint: k.checkpoint,
		TrustWorker: e.route.TrustWorker && byWorker(letter) && len(k.tenants) == 0, OnlyRun: onlyRun(f, k),
	}
	folded := dlqbridge.Fold(fold)
	if !running && folded.Uncovered == dlqbridge.EffectUnknown { // as any disagreement makes it
		k.disagree = dlqbridge.Disagreements(fold)
	}
	unsent := folded
	if claim := f.control.Claim; claim != nil {
		before, control := *f, *f.control
		control.LastSend, control.Redrives = claim.Before, claim.N-1
		before.control = &control
		fold.LastSend, fold.OnlyRun = claim.Before, onlyRun(&before, k)
		unsent = dlqbridge.Fold(fold)
	}
	repeatSafe := dlqbridge.RepeatSafe(dlqbridge.RepeatInput{
		Effects: e.route.Effects, Begun: begun(findings), IdempotencyKey: k.task.IdempotencyKey,
		Window: e.route.IdempotencyWindow, FirstAttempt: firstAttempt(f, k), Now: now,
		Patched: f.patched(),
	})
	// A contract about keys does not allow two runs at once, where the letter
	// and a store name different keys nobody knows which one the tools honoured, and
	// with different tenants nobody knows whose keys they are.
	if running || k.keysDiffer && e.route.Effects == dlqbridge.EffectsIdempotent || len(k.tenants) > 0 {
		repeatSafe = false
	}

	failure := e.classify(f, k, findings, s.Payload)
	failure.Signature = Signature(k.task, failure)
	policy := e.CausePolicy(failure.Cause)
	failure.Lane = policy.Lane
	if f.cause != "" { // one person's correction does not do away with the second person
		stated := *f
		stated.cause = ""
		before := e.CausePolicy(e.classify(&stated, k, findings, s.Payload).Cause)
		policy.SecondPerson = policy.SecondPerson || before.SecondPerson
	}
	// Whoever saw it fail may say that the same again cannot work (Temporal calls
	// it non-retryable), whatever its cause usually means.
	policy.Retryable = policy.Retryable && *failure.Retryable
	decision := dlqbridge.Decide(dlqbridge.DecisionInput{
		Completed: k.completed != nil && !running, Policy: policy, Approved: len(approvers) > 1,
		Effect: folded, RepeatSafe: repeatSafe, Expired: past(k.task.ValidUntil, now),
		// A checkpoint belongs to the payload that it was made from.
		Resumable: e.route.Resume && usable(k.checkpoint, k.task) && !f.patched(), Redrives: f.control.Redrives,
		Fixed: f.fix != nil, Patched: f.patched(),
	})
	// What was made to undo something is sent again by nobody but a person.
	policy.AutoAuthorize = policy.AutoAuthorize && !f.compensation
	kept, omitted := keptFindings(findings)
	if decision.Action == dlqbridge.ActionCompensate && omitted[dlqbridge.EffectConfirmed] > 0 {
		// Whoever undoes effects must know all of them, and not all are kept.
		decision.Action, decision.Status = dlqbridge.ActionHumanReview, dlqbridge.StatusUnderInvestigation
	}
	conflict := f.differ()
	late := f.control.Late && !f.looked
	decision = f.overrule(decision, conflict, late, len(k.tenants) > 0 && !f.owned)
	switch {
	case s.Completed != nil && s.Undone:
		decision = dlqbridge.Decision{Action: dlqbridge.ActionNone, Status: dlqbridge.StatusCompensated, Why: dlqbridge.WhyCompensated}
	case s.Completed != nil:
		decision = dlqbridge.Decision{Action: dlqbridge.ActionNone, Status: dlqbridge.StatusCompleted, Why: dlqbridge.WhyCompleted}
	}

	j := Judgement{
		Decision: decision, Policy: policy, By: e.route.Policy, Conflict: conflict, Fix: f.fix, Approvers: approvers,
		SeenRedriveN: k.seenN, SeenRun: k.seenRun, Unsent: unsent, Compensates: e.route.Compensates, CompensatesAgain: e.route.CompensatesAgain, now: now, fresh: f.fresh, looked: f.looked,
		Context: dlqbridge.Context{
			At: now, Deliveries: s.Deliveries, Task: k.task, Failure: failure, Findings: kept, Omitted: omitted, Checkpoint: k.checkpoint, Folded: folded,
			RepeatSafe: repeatSafe, Unavailable: k.unavailable, CompletedBy: k.completed,
			TraceID: k.traceID, Artifacts: k.artifacts,
			Action: decision.Action, Why: decision.Why, Heard: k.heard(), FirstAttempt: k.firstAttempt, Runs: k.runs, KeysDiffer: k.keysDiffer, Tenants: k.tenants,
		},
	}
	if s.Note != nil {
		j.verb = s.Note.Verb
	}
	if running {
		j.Context.RunningUntil, j.RecheckAt = k.runningUntil, k.runningUntil
	} else {
		j.RecheckAt = k.recheckAt(now, f.control.LastSeen)
	}
	j.Context.Reason = e.reason(f, k, j)
	j.Context.Restriction = e.restriction(f, k, j)
	j.Context.Name = contextName(recordOf(s), j.Context)
	return j
}

// overrule lets what people and arrivals say go before the table of decisions.
// An incident stays one until somebody closes it: it is the more careful place.
func (f *facts) overrule(d dlqbridge.Decision, conflict, late, strange bool) dlqbridge.Decision {
	why := dlqbridge.Why("")
	switch {
	case f.incident:
		return dlqbridge.Decision{Action: dlqbridge.ActionHumanReview, Status: dlqbridge.StatusIncidentOpen, Why: WhyIncident}
	case d.Status == dlqbridge.StatusIncidentOpen && !f.calmed:
		return d
	case conflict:
		why = dlqbridge.WhyConflict
	case late:
		why = WhyLate
	case strange:
		why = WhyTenant
	case f.linked:
		why = dlqbridge.WhyLinked
	case f.compensation && (!f.looked || d.Why != dlqbridge.WhyCompleted):
		// Looking makes no work of it: nothing undoes an undoing, and its body must
		// not go to where the work came from. Its worker having done it closes it.
		why = WhyCompensation
	case d.Status == dlqbridge.StatusIncidentOpen && d.Why == dlqbridge.WhyCritical:
		why = d.Why // still critical, but its incident is over
	case d.Status == dlqbridge.StatusIncidentOpen:
		d.Status = dlqbridge.StatusUnderInvestigation
		if f.fix != nil {
			d.Status = dlqbridge.StatusFixValidated
		}
		return d
	default:
		return d
	}
	return dlqbridge.Decision{Action: dlqbridge.ActionHumanReview, Status: dlqbridge.StatusUnderInvestigation, Why: why}
}

// declared is what the route's team says about its tasks. Only "none" says
// something about an effect; "idempotent" is about repeating.
func (e *Enricher) declared(now time.Time) []dlqbridge.Finding {
	if e.route.Effects != dlqbridge.EffectsNone {
		return nil
	}
	return []dlqbridge.Finding{{
		Store: "route", Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofDeclared,
		AsOf: now, Detail: "the route declares that its tasks change nothing outside",
	}}
}

// begun says whether anything speaks against "tasks change nothing": a step
// that changed something or may have, or a store that could not be asked.
func begun(findings []dlqbridge.Finding) bool {
	return slices.ContainsFunc(findings, func(f dlqbridge.Finding) bool {
		return f.State == dlqbridge.EffectConfirmed ||
			f.State == dlqbridge.EffectUnknown && (f.Step != dlqbridge.AllSteps || f.Proof != dlqbridge.ProofNothingFound)
	})
}

// firstAttempt is when the idempotency key was first used, or a time before
// that; zero is unknown. A letter's sent time stands for it only where the
// provider keeps the first send's: not on FIFO queues, whose move into the
// dead-letter queue renews it, and not on a letter that a worker sent itself.
func firstAttempt(f *facts, k known) time.Time {
	first := k.firstAttempt
	for _, a := range f.arrivals {
		if byWorker(a) || isFIFO(a.Place) || a.SentAt.IsZero() {
			continue
		}
		if first.IsZero() || a.SentAt.Before(first) {
			first = a.SentAt
		}
	}
	return first
}

// onlyRun is the run known to be the task's only one so far; empty is unknown.
func onlyRun(f *facts, k known) string {
	if f.control.Redrives > 0 || len(f.arrivals) != 1 {
		return ""
	}
	a := f.newest()
	switch {
	case k.runs == 1:
		return k.task.RunID
	case k.runs == 0 && a.Task.Attempts != nil && *a.Task.Attempts == 1:
		return runOf(a)
	}
	return ""
}

// usable says whether a run can go on from the checkpoint: one that another
// workflow version wrote need not fit.
func usable(c *dlqbridge.Checkpoint, t dlqbridge.Task) bool {
	if c == nil || c.Ref == "" {
		return false
	}
	return c.WorkflowVersion == "" || t.Versions.Workflow == "" || c.WorkflowVersion == t.Versions.Workflow
}

func differentKeys(a, b dlqbridge.Task) bool {
	return a.IdempotencyKey != "" && b.IdempotencyKey != "" && a.IdempotencyKey != b.IdempotencyKey
}

func past(limit, now time.Time) bool { return !limit.IsZero() && now.After(limit) }

// contextName is the same for the same content on the same record.
func contextName(record string, c dlqbridge.Context) string {
	c.Name = ""
	text, err := json.Marshal(c)
	if err != nil { // a Context holds texts, numbers and times within RFC 3339 only
		panic(err)
	}
	return dlqbridge.Fingerprint([]byte(record), text)
}

// recordOf names the record for the context's name. A new record has no id
// yet; its letter stands for it.
func recordOf(s *Subject) string {
	if s.Case.Control.ID != "" {
		return s.Case.Control.ID
	}
	if s.Arrival != nil {
		return s.Arrival.Key
	}
	return ""
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// known is everything that was heard about one task, joined.
type known struct {
	findings     []dlqbridge.Finding
	task         dlqbridge.Task
	failures     []heardFailure
	checkpoint   *dlqbridge.Checkpoint
	completed    *dlqbridge.Completion
	runningUntil time.Time
	firstAttempt time.Time
	runs         int
	seenN        int
	seenRun      string
	traceID      string
	artifacts    []dlqbridge.Artifact
	unavailable  map[string]string
	// askAgain is when a store may know more by itself; zero is never.
	askAgain time.Time
	// keysDiffer: stores name different idempotency keys.
	keysDiffer bool
	// tenants are what stores name that speak of another tenant's task, by store.
	tenants map[string]string
	// stores names those that answered, the letter itself not counted.
	stores []string
	// disagree: what is said about these steps contradicts itself.
	disagree []dlqbridge.Disagreement
}

// heardFailure is a failure with who told it.
type heardFailure struct {
	store   string
	failure dlqbridge.Failure
}

// join joins testimonies; the first is the letter's. What stores say about runs
// goes before what the letter says, because they speak of a later time.
func join(now time.Time, heard []dlqbridge.Testimony) known {
	var k known
	for i, t := range heard {
		if t.Unavailable != "" {
			if k.unavailable == nil {
				k.unavailable = map[string]string{}
			}
			k.unavailable[t.Store] = Scrub(cut(t.Unavailable, maxText))
			continue
		}
		if i > 0 {
			k.stores = append(k.stores, t.Store)
		}
		if t.Task != nil {
			k.keysDiffer = k.keysDiffer || differentKeys(k.task, *t.Task)
			k.task = mergeTask(k.task, *t.Task)
		}
		if t.Failure != nil {
			k.failures = append(k.failures, heardFailure{t.Store, *t.Failure})
		}
		if t.Checkpoint != nil && (k.checkpoint == nil || i > 0) {
			k.checkpoint = t.Checkpoint
		}
		if t.Completed != nil && k.completed == nil {
			k.completed = t.Completed
		}
		if t.RunningUntil.After(k.runningUntil) {
			k.runningUntil = t.RunningUntil
		}
		if !t.FirstAttempt.IsZero() && (k.firstAttempt.IsZero() || t.FirstAttempt.Before(k.firstAttempt)) {
			k.firstAttempt = t.FirstAttempt
		}
		if t.SeenRedriveN > k.seenN {
			k.seenN, k.seenRun = t.SeenRedriveN, t.SeenRun
		}
		k.runs = max(k.runs, t.Runs)
		k.askAgain = firstTime(k.askAgain, t.AskAgain)
		if t.TraceID != "" && k.traceID == "" {
			k.traceID = t.TraceID
		}
		k.artifacts = append(k.artifacts, t.Artifacts...)
	}
	for _, t := range heard {
		k.findings = append(k.findings, t.Findings...)
	}
	// A store that could not be asked may have known of a step that ran. The
	// proof is not "nothing found": nobody has looked, so only somebody who
	// looks at the outside world later can end this doubt.
	for _, name := range slices.Sorted(maps.Keys(k.unavailable)) {
		k.findings = append(k.findings, dlqbridge.Finding{
			Store: name, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofSystemRead, AsOf: now,
			Detail: "could not be asked: " + k.unavailable[name],
		})
	}
	return k
}
