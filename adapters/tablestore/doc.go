// Package tablestore reads a DynamoDB table of any shape as a store of
// findings, by declaration: under which key a task's rows stand, where in a row
// its status, receipt and times are, and what each status proves. It is for
// tables that teams already have.
//
// # What it proves
//
// What [Options] declares, row by row:
//
//   - a status among Confirmed: confirmed, with the receipt if one is selected.
//     With ConfirmedNeedsReceipt a row without one is unknown.
//   - a status among None.Status: none_confirmed, but only with None.Because,
//     the reason why the table is an authority on that, and by None.Proof:
//     not_started where the row is written before the call and would say
//     otherwise, system_read where it notes a look at the outside world. The
//     latter speaks for its Updated time only, and only if that lies
//     None.Settled or more after the task was last worked on.
//   - any other status, and none: unknown, a doubt that was seen.
//   - no row: unknown, always. That a table has nothing proves nothing.
//
// A status among Running says besides that a run may be going, until MaxRun
// after the row's last time.
//
// # What it cannot
//
//   - Speak for steps that have no row: where rows name their step, all others
//     stay unknown unless another store knows of them.
//   - Read by a secondary index: those answer with what was true a moment ago.
//
// # Permissions needed
//
// dynamodb:Query on the table.
//
// # Settings
//
// See [Options]. A selector is attr:NAME (an attribute of the row),
// item:/JSON/POINTER (into maps, lists and texts that hold JSON) or
// jmespath:EXPRESSION over the row as JSON.
package tablestore
