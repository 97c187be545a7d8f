package stepfunctions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// What an event says about a call ("Step Functions API Reference", HistoryEvent,
// read 2026-11-30). Scheduled is the first event of each attempt.
type progress int

const (
	// elsewhere: the event is about no call.
	elsewhere progress = iota
	scheduled
	begun
	succeeded
	// failed: the call was made and did not end well, so nobody knows.
	failed
	// refused: the call could not be started or submitted.
	refused
)

var progressOf = map[types.HistoryEventType]progress{
	types.HistoryEventTypeTaskScheduled:    scheduled,
	types.HistoryEventTypeTaskStarted:      begun,
	types.HistoryEventTypeTaskSubmitted:    begun,
	types.HistoryEventTypeTaskSucceeded:    succeeded,
	types.HistoryEventTypeTaskFailed:       failed,
	types.HistoryEventTypeTaskTimedOut:     failed,
	types.HistoryEventTypeTaskStartFailed:  refused,
	types.HistoryEventTypeTaskSubmitFailed: refused,

	types.HistoryEventTypeActivityScheduled:      scheduled,
	types.HistoryEventTypeActivityStarted:        begun,
	types.HistoryEventTypeActivitySucceeded:      succeeded,
	types.HistoryEventTypeActivityFailed:         failed,
	types.HistoryEventTypeActivityTimedOut:       failed,
	types.HistoryEventTypeActivityScheduleFailed: refused,

	types.HistoryEventTypeLambdaFunctionScheduled:      scheduled,
	types.HistoryEventTypeLambdaFunctionStarted:        begun,
	types.HistoryEventTypeLambdaFunctionSucceeded:      succeeded,
	types.HistoryEventTypeLambdaFunctionFailed:         failed,
	types.HistoryEventTypeLambdaFunctionTimedOut:       failed,
	types.HistoryEventTypeLambdaFunctionStartFailed:    refused,
	types.HistoryEventTypeLambdaFunctionScheduleFailed: refused,

	// A distributed Map runs children whose histories are their own.
	types.HistoryEventTypeMapRunStarted:   begun,
	types.HistoryEventTypeMapRunRedriven:  begun,
	types.HistoryEventTypeMapRunSucceeded: succeeded,
	types.HistoryEventTypeMapRunFailed:    failed,
	types.HistoryEventTypeMapRunAborted:   failed,
}

// visit is one visit of a state that makes calls.
type visit struct {
	entered  int64
	state    string // empty: the history does not say
	attempts int
	// did is what its attempts came to; an attempt that has its end is no longer begun.
	did  map[progress]bool
	last time.Time // the last sign of life
	open bool      // the last attempt was scheduled or begun and has no end
	// err and cause are those of the last attempt that failed.
	err, cause string
}

// step is the visit's id: ids of one history sort in order.
func (v *visit) step() string { return fmt.Sprintf("%05d#%s", v.entered, cmp.Or(v.state, "?")) }

// visits puts each event about a call to the visit of the state that made it,
// in the order in which they were entered.
func visits(events []types.HistoryEvent) []*visit {
	enteredBy := map[int64]int64{} // by event: the event that entered its state
	names := map[int64]string{}
	byEntry := map[int64]*visit{}
	for _, e := range slices.SortedFunc(slices.Values(events), func(a, b types.HistoryEvent) int { return cmp.Compare(a.Id, b.Id) }) {
		if strings.HasSuffix(string(e.Type), "StateEntered") {
			enteredBy[e.Id] = e.Id
			if e.StateEnteredEventDetails != nil {
				names[e.Id] = aws.ToString(e.StateEnteredEventDetails.Name)
			}
			if e.Type != types.HistoryEventTypeTaskStateEntered {
				continue // a Map counts only if it begins a run of its own
			}
		} else if !strings.HasPrefix(string(e.Type), "Execution") {
			// The end of an execution leads to no state: what a redrive of it
			// begins is another call than the one that failed.
			enteredBy[e.Id] = enteredBy[e.PreviousEventId]
		}
		p := progressOf[e.Type]
		if p == elsewhere && e.Type != types.HistoryEventTypeTaskStateEntered {
			continue
		}
		// Where the history does not lead to a state, as after a redrive, the call
		// is a visit by itself rather than none.
		entry := cmp.Or(enteredBy[e.Id], e.Id)
		enteredBy[e.Id] = entry
		v := byEntry[entry]
		if v == nil {
			v = &visit{entered: entry, state: names[entry], did: map[progress]bool{}}
			byEntry[entry] = v
		}
		v.add(e, p)
	}
	return slices.SortedFunc(maps.Values(byEntry), func(a, b *visit) int { return cmp.Compare(a.entered, b.entered) })
}

func (v *visit) add(e types.HistoryEvent, p progress) {
	if e.Timestamp != nil && e.Timestamp.After(v.last) {
		v.last = e.Timestamp.UTC()
	}
	switch p {
	case elsewhere: // entered
		return
	case scheduled:
		v.attempts++
		if v.did[begun] { // an earlier attempt that has no end never gets one
			delete(v.did, begun)
			v.did[failed] = true
		}
	case failed, refused:
		v.err, v.cause = failureOf(e)
		if p == refused && mayHaveArrived(v.err) {
			p = failed
		}
	case begun, succeeded:
	}
	if p == failed || p == refused || p == succeeded {
		delete(v.did, begun)
		v.open = false
	} else {
		v.open = true
	}
	v.did[p] = true
}

// mayHaveArrived: a submission that timed out or met a fault of the service may
// have been carried out all the same.
func mayHaveArrived(code string) bool {
	code = strings.ToLower(code)
	for _, sign := range []string{"timeout", "timedout", "timed out", "internal", "unavailable", "sdkclient", "serviceexception", "serverexception", "serverfault", "unknown"} {
		if strings.Contains(code, sign) {
			return true
		}
	}
	return code == "" || code == "states.taskfailed"
}

// failureOf is the error and cause that an event tells.
func failureOf(e types.HistoryEvent) (code, cause string) {
	type told struct{ err, cause *string }
	var t told
	switch {
	case e.TaskFailedEventDetails != nil:
		t = told{e.TaskFailedEventDetails.Error, e.TaskFailedEventDetails.Cause}
	case e.TaskTimedOutEventDetails != nil:
		t = told{e.TaskTimedOutEventDetails.Error, e.TaskTimedOutEventDetails.Cause}
	case e.TaskStartFailedEventDetails != nil:
		t = told{e.TaskStartFailedEventDetails.Error, e.TaskStartFailedEventDetails.Cause}
	case e.TaskSubmitFailedEventDetails != nil:
		t = told{e.TaskSubmitFailedEventDetails.Error, e.TaskSubmitFailedEventDetails.Cause}
	case e.ActivityFailedEventDetails != nil:
		t = told{e.ActivityFailedEventDetails.Error, e.ActivityFailedEventDetails.Cause}
	case e.ActivityTimedOutEventDetails != nil:
		t = told{e.ActivityTimedOutEventDetails.Error, e.ActivityTimedOutEventDetails.Cause}
	case e.ActivityScheduleFailedEventDetails != nil:
		t = told{e.ActivityScheduleFailedEventDetails.Error, e.ActivityScheduleFailedEventDetails.Cause}
	case e.LambdaFunctionFailedEventDetails != nil:
		t = told{e.LambdaFunctionFailedEventDetails.Error, e.LambdaFunctionFailedEventDetails.Cause}
	case e.LambdaFunctionTimedOutEventDetails != nil:
		t = told{e.LambdaFunctionTimedOutEventDetails.Error, e.LambdaFunctionTimedOutEventDetails.Cause}
	case e.LambdaFunctionStartFailedEventDetails != nil:
		t = told{e.LambdaFunctionStartFailedEventDetails.Error, e.LambdaFunctionStartFailedEventDetails.Cause}
	case e.LambdaFunctionScheduleFailedEventDetails != nil:
		t = told{e.LambdaFunctionScheduleFailedEventDetails.Error, e.LambdaFunctionScheduleFailedEventDetails.Cause}
	case e.MapRunFailedEventDetails != nil:
		t = told{e.MapRunFailedEventDetails.Error, e.MapRunFailedEventDetails.Cause}
	}
	return aws.ToString(t.err), aws.ToString(t.cause)
}
