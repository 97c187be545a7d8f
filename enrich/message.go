package enrich

import (
	"cmp"

	"github.com/dlqbridge/dlqbridge"
)

// messageStore is the name of the letter itself among the stores.
const messageStore = "message"

// testify is what the letter itself says, as one store among others.
func testify(a *dlqbridge.Arrival) dlqbridge.Testimony {
	t := dlqbridge.Testimony{Store: messageStore, TraceID: traceID(cmp.Or(a.TraceRef, a.Trace))}
	if a.Effect != "" {
		t.Findings = []dlqbridge.Finding{{
			Store: messageStore, Step: dlqbridge.AllSteps, Run: runOf(a), State: dlqbridge.Effect(a.Effect),
			Proof: dlqbridge.ProofWorkerStatement, AsOf: a.SentAt, Detail: "the letter says so about its own run",
		}}
	}
	if a.Checkpoint != "" {
		t.Checkpoint = &dlqbridge.Checkpoint{
			Ref: a.Checkpoint, Run: a.Task.RunID, At: a.SentAt, WorkflowVersion: a.Task.Versions.Workflow,
		}
	}
	if f := a.Failure; f.Cause != "" || f.Code != "" || f.Message != "" || f.Step != "" || f.Dependency != "" {
		t.Failure = &f
	}
	return t
}

// runOf is the run a letter speaks of. One that names none still speaks of one
// run only, never of all: it gets a name that no other run has.
func runOf(a *dlqbridge.Arrival) string {
	if a.Task.RunID != "" {
		return a.Task.RunID
	}
	return "arrival:" + a.Key
}

// byWorker says whether a worker (or anybody else) sent the letter to the
// dead-letter place itself: a letter that the broker moved has its source.
func byWorker(a *dlqbridge.Arrival) bool { return a.Source == "" }
