// Package ledger is the table in which agent workers note intent, receipt and
// checkpoint of each step: its schema, a [Reader] that turns its rows into
// findings, and a [Kit] with which Go workers write it.
//
// # Delivery
//
// A worker calls [Kit.Begin] for each delivery. Begin takes the task's lease, so
// that one run is active, and refuses what must not run: a completed task, a
// second copy of a redrive, a task over its attempt limit. [Acknowledge] says
// whether a refused message is done with.
//
// # Acknowledgement
//
// Acknowledge after [Run.Complete] has returned nil, and at no other time.
// After [Run.Fail] let the broker redeliver or dead-letter the message. Where no
// further delivery can help, [Run.DeadLetter] does it at once, with the facts.
//
// # What the kit guarantees
//
//   - Before each call `started` is durable, written on the condition that the
//     step's row is as it was considered. There is one row per step over all
//     runs, so of any number of deliveries at once one can call, with or
//     without a lease, whatever their clocks say.
//   - An outcome is durable before Step returns it. A receipt for the same step
//     and input is returned instead of calling again; another input is refused.
//   - A call whose end is unknown is not repeated, unless the tool is free of
//     effects, or idempotent and gets the same key and input. That a later call
//     changed nothing never clears an earlier one of which nobody knows.
//   - A transient error is retried where repeating is safe: the tool says
//     [NothingChanged], or is idempotent, or is free of effects. A mutating tool
//     that merely timed out is not called again.
//   - Where a step says how (StepSpec.Reconcile), the outside system is asked
//     about a call whose end is unknown before the step gives up. "Done" ends the
//     doubt at once, "not done" only when the system has had its time.
//   - Work past its valid_until is not begun.
//   - An answer that was lost on the way from the table is read back. As long as
//     it is not known whether `started` is there, nothing is called.
//   - intent_before_call is set on tasks that the kit saw from their beginning,
//     so rows that earlier workers did not write are never taken as absence.
//
// # What the kit cannot do
//
//   - Know what happened between `started` and the outcome when a process dies.
//     That step is in doubt until the outside system or a person says.
//   - See a request that is still on its way when the outside system says "not
//     done": StepSpec.Settled is the tool's promise that none is.
//   - Stop a call that is under way when the lease is lost. Its context is
//     cancelled; its outcome is still written, to its own row only, because it
//     is true whoever runs now.
//   - Check a tool's word. Class, NothingChanged and receipts are promises of
//     whoever wraps the tool.
//   - Speak for effects outside Step.
//
// Redriving looks at the ledger and sends a moment later. What happens in
// between only the kit can catch, when the message arrives: by the lease, by
// the redrive number and by the rows.
//
// # Attributes
//
// [ParseMark] reads agent.redrive. [Task.Facts] and [Run.Facts] make agent.ctx.
//
// # Limits
//
// A task id with its prefix has at most 2,048 bytes, a step id 1,019; step ids
// sort in order. Receipts are kept up to 2,048 bytes, error texts up to 1,000.
// A step costs two writes, a running task one more for each third of its lease.
//
// # Errors
//
// Errors of the table carry the meanings of the root package; see errors.go
// for the kit's own. The Reader never fails: what it could not read it calls
// unavailable, with the reason.
//
// # Permissions needed
//
// Reader: dynamodb:Query on the table. Kit: dynamodb:Query, dynamodb:GetItem
// and dynamodb:UpdateItem on the table.
package ledger
