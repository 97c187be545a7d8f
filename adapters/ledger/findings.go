package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// StoreName is the ledger's name in configuration and on findings.
const StoreName = "ledger"

// DefaultMaxRun is how long after its last sign of life a run without a lease
// may still be going: longer than the longest run of a Lambda function, which
// is 15 minutes.
const DefaultMaxRun = 15 * time.Minute

// testify says what the rows of one task prove at the time now.
func (r rows) testify(q dlqbridge.Question, maxRun time.Duration) dlqbridge.Testimony {
	t := dlqbridge.Testimony{Store: StoreName}
	if r.header == nil && len(r.steps) == 0 {
		t.Findings = []dlqbridge.Finding{silence(q.Now, "no entry of this task")}
		return t
	}
	t.Findings = r.findings(q.Now)
	t.Task = r.task(q)
	t.Runs = r.runs()
	t.FirstAttempt = r.firstAttempt()
	t.Artifacts = r.artifacts()
	t.TraceID = r.traceID()
	if r.header == nil {
		return t
	}
	t.Failure = r.failure()
	t.Checkpoint = r.header.Checkpoint
	t.SeenRedriveN, t.SeenRun = r.redriven(q.Record)
	t.RunningUntil = r.runningUntil(q.Now, maxRun)
	t.Completed = r.header.completion(q.Record)
	return t
}

// findings judges each row, and then all steps that have none.
func (r rows) findings(now time.Time) []dlqbridge.Finding {
	var out []dlqbridge.Finding
	for _, s := range r.steps {
		if f, says := r.judge(s, now); says {
			out = append(out, f)
		}
	}
	if r.header != nil && r.header.LeaseUnreadable && !r.header.over() {
		// A lease is there and says nothing that can be understood. It is a doubt
		// and not silence, so that no declaration speaks over it; a person who
		// looks after the run's last sign can end it.
		doubt := silence(now, "the header says running with a lease_until that is no time")
		doubt.Proof, doubt.AsOf = dlqbridge.ProofSystemRead, r.lastActivity(now)
		out = append(out, doubt)
	}
	switch {
	case r.header == nil:
		out = append(out, silence(now, "no header, so nobody promised to write before each call"))
	case !r.header.IntentBeforeCall:
		out = append(out, silence(now, "the header does not promise intent_before_call"))
	case r.mayBeRunningWithoutEnd(now):
		out = append(out, silence(now, "the header says running and has no time at all"))
	default:
		out = append(out, dlqbridge.Finding{
			Store: StoreName, Step: dlqbridge.AllSteps, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofNotStarted,
			AsOf: now, Detail: "no other step was begun",
		})
	}
	return out
}

func silence(now time.Time, detail string) dlqbridge.Finding {
	return dlqbridge.Finding{
		Store: StoreName, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: now, Detail: detail,
	}
}

// judge says what one row proves; false if it is no row about an effect.
//
// A row that shows a call without its end is a doubt that was seen, with a time:
// nothing was found that ends it, and only somebody who looked at the outside
// world then or later can.
func (r rows) judge(s StepRow, now time.Time) (dlqbridge.Finding, bool) {
	f := dlqbridge.Finding{Store: StoreName, Step: dlqbridge.NamedStep(s.StepID), Run: s.RunID, AsOf: r.lastSign(s, now)}
	if s.Class == EffectFree && s.Unreadable == "" {
		return f, false
	}
	failed := s.Status == StepFailedTransient || s.Status == StepFailedPermanent
	switch {
	case s.HasReceipt || s.Status == StepAlreadyExists:
		f.State, f.Proof, f.Detail = dlqbridge.EffectConfirmed, dlqbridge.ProofReceipt, string(s.Status)
		if s.HasReceipt {
			f.Receipt = &s.Receipt
		}
	case s.Unreadable != "":
		f.State, f.Proof, f.Detail = dlqbridge.EffectUnknown, dlqbridge.ProofNothingFound, s.Unreadable
	case s.Status == StepPlanned && r.header != nil && r.header.IntentBeforeCall:
		// Read now, so it speaks for now: had it been begun, the row would say so.
		f.State, f.Proof, f.AsOf, f.Detail = dlqbridge.EffectNone, dlqbridge.ProofNotStarted, now, string(s.Status)
	case s.Status == StepPlanned:
		f.State, f.Proof, f.Detail = dlqbridge.EffectUnknown, dlqbridge.ProofNothingFound, "planned, without intent_before_call"
	case failed && s.NothingChanged:
		f.State, f.Proof, f.Detail = dlqbridge.EffectNone, dlqbridge.ProofSystemRead, fmt.Sprintf("%s, the tool says that nothing changed", s.Status)
	default:
		f.State, f.Proof, f.Detail = dlqbridge.EffectUnknown, dlqbridge.ProofNothingFound, doubt(s)
	}
	return f, true
}

func doubt(s StepRow) string {
	switch s.Status {
	case StepStarted, StepSucceeded, StepAmbiguous, StepFailedTransient, StepFailedPermanent:
		return fmt.Sprintf("%s, no receipt", s.Status)
	case "":
		return "no status"
	}
	return fmt.Sprintf("status %q is not known", dlqbridge.CutText(string(s.Status), 64))
}

// lastSign is the last sign of life of a step. One that was begun and has no
// end lived as long as its run gave signs.
func (r rows) lastSign(s StepRow, now time.Time) time.Time {
	last := latest(now, s.StartedAt, s.EndedAt)
	if r.header == nil {
		return last
	}
	open := s.EndedAt.IsZero() && s.Status != StepPlanned && s.RunID == r.header.RunID
	if last.IsZero() || open {
		last = latest(now, last, r.header.UpdatedAt)
	}
	return last
}

// latest is the latest of the times that can be true: one that lies further in
// the future than clocks differ is as good as malformed. If it counted, a doubt
// could never be ended.
func latest(now time.Time, times ...time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) && !t.After(now.Add(dlqbridge.DefaultSkew)) {
			last = t
		}
	}
	return last
}

// over says whether the header's status says that the latest run has ended.
// Text that is not known may mean anything, so it may still be going.
func (h Header) over() bool { return h.Status == TaskCompleted || h.Status == TaskFailed }

// lastActivity is the last sign of life of the whole task.
func (r rows) lastActivity(now time.Time) time.Time {
	last := latest(now, r.header.UpdatedAt, r.header.FirstRunAt)
	for _, s := range r.steps {
		last = latest(now, last, s.StartedAt, s.EndedAt)
	}
	return last
}

// runningUntil is when the run that may be going is over at the latest; it may
// have passed, and is zero if no run can be going.
func (r rows) runningUntil(now time.Time, maxRun time.Duration) time.Time {
	switch {
	case r.header.over():
		return time.Time{}
	case !r.header.LeaseUntil.IsZero():
		return r.header.LeaseUntil
	}
	if last := r.lastActivity(now); !last.IsZero() {
		return last.Add(maxRun)
	}
	return time.Time{}
}

// mayBeRunningWithoutEnd: a run may be going and no time says until when.
func (r rows) mayBeRunningWithoutEnd(now time.Time) bool {
	return !r.header.over() && r.header.LeaseUntil.IsZero() && r.lastActivity(now).IsZero()
}

// redriven is the highest redrive number of the record that a run carried, and
// that run if it is the latest one.
func (r rows) redriven(record string) (n int, run string) {
	if n = r.header.redriveOf(record); n > 0 {
		run = r.header.RunID
	}
	if s := r.header.Redrives[record]; s.N > n {
		return s.N, ""
	}
	return n, run
}

// redriveOf is the redrive number that the latest run carried, 0 if it was
// another record's. Plain writers name no record, so theirs is taken for any.
func (h Header) redriveOf(record string) int {
	if h.RedriveRecord != "" && h.RedriveRecord != record {
		return 0
	}
	return h.RedriveN
}

// runs counts the runs that left a trace.
func (r rows) runs() int {
	seen := map[string]bool{}
	counted := 0
	for _, s := range r.steps {
		seen[s.RunID] = true
	}
	if h := r.header; h != nil {
		counted = h.Runs
		seen[h.RunID] = true
		for _, f := range h.Failures {
			seen[f.Run] = true
		}
		if h.Checkpoint != nil {
			seen[h.Checkpoint.Run] = true
			for _, run := range h.Checkpoint.Lineage {
				seen[run] = true
			}
		}
	}
	delete(seen, "")
	return max(counted, len(seen))
}

// firstAttempt is the earliest time that a run is known to have begun.
func (r rows) firstAttempt() time.Time {
	var first time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if r.header != nil {
		earlier(r.header.FirstRunAt)
	}
	for _, s := range r.steps {
		earlier(s.StartedAt)
	}
	return first
}

func (r rows) artifacts() []dlqbridge.Artifact {
	var out []dlqbridge.Artifact
	add := func(kind, ref string) {
		if a := (dlqbridge.Artifact{Kind: kind, Ref: ref}); ref != "" && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	for _, s := range r.steps {
		add("input", s.InputRef)
		add("output", s.OutputRef)
	}
	return out
}

func (r rows) traceID() string {
	if r.header != nil && r.header.TraceID != "" {
		return r.header.TraceID
	}
	for _, s := range slices.Backward(r.steps) {
		if s.TraceID != "" {
			return s.TraceID
		}
	}
	return ""
}

// task is what the header and the rows know about the unit of work.
func (r rows) task(q dlqbridge.Question) *dlqbridge.Task {
	t := &dlqbridge.Task{TaskID: q.TaskID}
	for _, s := range r.steps {
		if s.Tool != "" && !slices.Contains(t.Tools, s.Tool) {
			t.Tools = append(t.Tools, s.Tool)
		}
	}
	h := r.header
	if h == nil {
		return t
	}
	t.RunID, t.TaskType, t.Tenant, t.IdempotencyKey = h.RunID, h.TaskType, h.Tenant, h.IdempotencyKey
	t.Deadline, t.ValidUntil, t.Versions = h.Deadline, h.ValidUntil, h.Versions
	t.CostUSD, t.OriginEvent, t.ExpectedResult = h.CostUSD, h.OriginEvent, h.ExpectedResult
	if h.Attempts > 0 {
		t.Attempts = &h.Attempts
	}
	if h.MaxAttempts > 0 {
		t.MaxAttempts = &h.MaxAttempts
	}
	return t
}

// failure is what the latest run said of its end, with the earlier ones.
func (r rows) failure() *dlqbridge.Failure {
	e := r.header.LastError
	if e == nil && len(r.header.Failures) == 0 {
		return nil
	}
	f := &dlqbridge.Failure{Attempts: slices.Clone(r.header.Failures)}
	if e == nil {
		return f
	}
	f.Phase, f.Step, f.Tool, f.Dependency = e.Phase, e.Step, e.Tool, e.Dependency
	f.Code, f.Message, f.Retryable = e.Code, e.Message, e.Retryable
	switch c := dlqbridge.Cause(e.Class); {
	case c.Valid():
		f.Cause = c
	case e.Class == "":
	case f.Code == "":
		f.Code = e.Class
	case f.Message == "":
		f.Message = e.Class
	default:
		f.Message = dlqbridge.CutText(e.Class+": "+f.Message, maxText)
	}
	f.Attempts = append(f.Attempts, dlqbridge.Attempt{Run: r.header.RunID, At: r.header.UpdatedAt, Code: f.Code})
	return f
}
