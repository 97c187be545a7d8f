package stepfunctions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// maxSteps is how many visits are told one by one; beyond it visits of one state
// with the same end are told together.
const maxSteps = 100

// testify says what one execution proves.
func (s *Store) testify(q dlqbridge.Question, arn string, d *sfn.DescribeExecutionOutput, events []types.HistoryEvent) dlqbridge.Testimony {
	t := dlqbridge.Testimony{FirstAttempt: at(d.StartDate), TraceID: traceID(aws.ToString(d.TraceHeader))}
	all := visits(events)
	last := lastOf(events)
	// The history is read after the status: a redrive in between shows in it.
	ended := slices.Contains(terminal, d.Status) && slices.Contains(ends, last.Type)
	t.Findings = s.findings(q, arn, all, ended && complete(events, last))
	switch {
	case d.Status == types.ExecutionStatusSucceeded:
		t.Completed = &dlqbridge.Completion{Store: s.o.Name, Run: arn, At: at(d.StopDate)}
	case ended:
		t.Failure = failure(arn, d, all)
	default:
		// RUNNING, PENDING_REDRIVE or a status that we do not know.
		t.RunningUntil = q.Now.Add(s.o.Recheck)
	}
	return t
}

var terminal = []types.ExecutionStatus{
	types.ExecutionStatusSucceeded, types.ExecutionStatusFailed, types.ExecutionStatusTimedOut, types.ExecutionStatusAborted,
}

// ends are the events that end an execution.
var ends = []types.HistoryEventType{
	types.HistoryEventTypeExecutionSucceeded, types.HistoryEventTypeExecutionFailed,
	types.HistoryEventTypeExecutionTimedOut, types.HistoryEventTypeExecutionAborted,
}

func lastOf(events []types.HistoryEvent) types.HistoryEvent {
	var last types.HistoryEvent
	for _, e := range events {
		if e.Id > last.Id {
			last = e
		}
	}
	return last
}

// complete says whether a history is whole up to its last event: ids count from
// 1 without a gap. Only then does what is not in it prove anything.
func complete(events []types.HistoryEvent, last types.HistoryEvent) bool {
	ids := map[int64]bool{}
	for _, e := range events {
		ids[e.Id] = e.Id > 0
	}
	return len(events) > 0 && int64(len(ids)) == last.Id
}

// findings judges each visit, and then all steps that have none. Whole says
// that the execution has ended and all of its history was read.
func (s *Store) findings(q dlqbridge.Question, arn string, all []*visit, whole bool) []dlqbridge.Finding {
	var out []dlqbridge.Finding
	for _, v := range all {
		if v.state == "" || s.o.Mutating == nil || slices.Contains(s.o.Mutating, v.state) {
			out = append(out, s.judge(q, arn, v, whole))
		}
	}
	if len(out) > maxSteps {
		out = together(out)
	}
	if !whole {
		return append(out, s.silence(q, "the execution has not ended, or its history is not whole").Findings...)
	}
	f := dlqbridge.Finding{
		Store: s.o.Name, Step: dlqbridge.AllSteps, Run: arn, State: dlqbridge.EffectNone, Proof: dlqbridge.ProofNotStarted,
		AsOf: q.Now, Detail: "the execution has ended, and no other state was begun",
	}
	if !strings.Contains(s.o.Execution, "{runId}") {
		f.Run = "" // the task's one execution
	}
	return append(out, f)
}

// judge says what one visit proves.
func (s *Store) judge(q dlqbridge.Question, arn string, v *visit, whole bool) dlqbridge.Finding {
	f := dlqbridge.Finding{
		Store: s.o.Name, Step: dlqbridge.NamedStep(v.step()), Run: arn, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: awsread.LastSign(q, v.last),
	}
	tries := ""
	if v.attempts > 1 {
		tries = fmt.Sprintf(" (attempt %d)", v.attempts)
	}
	switch {
	case v.did[succeeded]:
		f.State, f.Proof, f.Detail = dlqbridge.EffectConfirmed, dlqbridge.ProofSystemRead, "succeeded"+tries
	case v.did[begun]:
		f.Detail = "begun, no end" + tries
	case v.did[failed]:
		f.Detail = "failed: " + cmp.Or(dlqbridge.CutText(v.err, 200), "no error named") + tries
	case !whole:
		f.Detail = "not begun yet" + tries
	case v.did[refused]:
		f.State, f.Proof, f.AsOf = dlqbridge.EffectNone, dlqbridge.ProofNotStarted, q.Now
		f.Detail = "could not be started: " + cmp.Or(dlqbridge.CutText(v.err, 200), "no error named") + tries
	case v.did[scheduled]:
		f.State, f.Proof, f.AsOf, f.Detail = dlqbridge.EffectNone, dlqbridge.ProofNotStarted, q.Now, "scheduled, never started"
	default:
		f.State, f.Proof, f.AsOf, f.Detail = dlqbridge.EffectNone, dlqbridge.ProofNotStarted, q.Now, "entered, never scheduled"
	}
	return f
}

// together keeps one finding for each state and what is known about it, the
// latest: loops and Maps visit states thousands of times.
func together(in []dlqbridge.Finding) []dlqbridge.Finding {
	type kind struct {
		name  string
		state dlqbridge.Effect
	}
	at, count := map[kind]int{}, map[kind]int{}
	var out []dlqbridge.Finding
	for _, f := range in {
		_, name, _ := strings.Cut(f.Step, "#")
		k := kind{name, f.State}
		count[k]++
		i, seen := at[k]
		if !seen {
			at[k] = len(out)
			out = append(out, f)
			continue
		}
		if f.AsOf.Before(out[i].AsOf) {
			f.AsOf = out[i].AsOf
		}
		f.Detail = fmt.Sprintf("%d visits, the last: %s", count[k], f.Detail)
		out[i] = f
	}
	return out
}

// failure is how the execution ended, and in which state.
func failure(arn string, d *sfn.DescribeExecutionOutput, all []*visit) *dlqbridge.Failure {
	f := &dlqbridge.Failure{Code: aws.ToString(d.Error), Message: aws.ToString(d.Cause)}
	if f.Code == "" && d.Status == types.ExecutionStatusTimedOut {
		f.Code = "States.Timeout" // how Step Functions itself calls it
	}
	for _, v := range slices.Backward(all) {
		if v.open || v.err != "" && !v.did[succeeded] {
			f.Step = cmp.Or(v.state, v.step())
			f.Code, f.Message = cmp.Or(f.Code, v.err), cmp.Or(f.Message, v.cause)
			break
		}
	}
	f.Attempts = []dlqbridge.Attempt{{Run: arn, At: at(d.StopDate), Code: f.Code}}
	return f
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// traceID is the Root of an X-Ray header.
func traceID(header string) string {
	for part := range strings.SplitSeq(header, ";") {
		if root, ok := strings.CutPrefix(strings.TrimSpace(part), "Root="); ok {
			return root
		}
	}
	return ""
}
