// Package stepfunctions reads the history of an AWS Step Functions execution as
// a store of findings. It looks at one execution per task: the one that the run
// id names by its ARN, or the one whose name is made from the task (see
// [Options]).
//
// # What it proves
//
// Each visit of a Task state is a step, named by the event that entered it and
// the state ("00005#Charge"):
//
//   - TaskSucceeded (and ActivitySucceeded, LambdaFunctionSucceeded,
//     MapRunSucceeded): confirmed.
//   - Begun (TaskStarted, TaskSubmitted) without an end, failed or timed out:
//     unknown.
//   - TaskScheduled only, TaskStartFailed, TaskSubmitFailed and their kin:
//     none_confirmed, proof not_started. A submission whose answer may have been
//     lost (a time-out, a fault of the service) is unknown.
//   - When the execution has ended and its whole history was read, no other
//     state was begun: none_confirmed for all other steps of this execution,
//     and of the task where the execution's name is made from the task, because
//     names are unique.
//   - RUNNING: a run may be going, so the effect is unknown. SUCCEEDED: the
//     task completed. FAILED, TIMED_OUT, ABORTED: the failure with its error,
//     cause and state.
//
// # What it cannot
//
//   - Speak once the history is gone (90 days after the end at most), or for
//     Express workflows, which keep none: unknown.
//   - See into the children of a distributed Map: the Map state is one step,
//     confirmed only if its run succeeded.
//   - Know whether the worker that starts the execution changes something by
//     itself. Whoever declares this store says that it does not.
//
// # Permissions needed
//
// states:DescribeExecution and states:GetExecutionHistory on the executions;
// kms:Decrypt on the key where the state machine is encrypted with one.
//
// # Settings
//
// See [Options].
package stepfunctions
