// Package openaiagents reads the run state of the OpenAI Agents SDK
// (RunState.to_json or to_string) that an application keeps in a DynamoDB row,
// as a store of findings. It reads the SDK's own ledger of tool calls and never
// writes a state: newer schemas are read leniently, by the few fields that count.
//
// # What it proves
//
// Each tool call is a step, named by its call id and tool
// ("call_7#charge_card"):
//
//   - completed, or its output is in the state: confirmed.
//   - executed and not completed: unknown. The SDK notes executed before the
//     tool's own code runs.
//   - not executed: none_confirmed, proof not_started, but only under
//     [Options.SavedBeforeEachCall]. A state that was saved earlier says so of a
//     call that ran later; without the declaration it is unknown.
//   - Under that declaration no other call was begun either: none_confirmed for
//     all other steps, of the task where the row's key is made from the task,
//     else of the run.
//   - No row, no state in it, one that cannot be read, and a state of a schema
//     before 1.15, which has no such ledger: unknown.
//
// Until [Options.MaxRun] after the state was saved a run may be going.
//
// # What it cannot
//
//   - Know of tools that the model's provider runs (hosted MCP servers): they run
//     inside a model call, before anything could be saved. One that the state
//     shows is unknown, and then nothing is said about all others.
//   - Tell an output from an error that the SDK gave to the model as output: both
//     are outputs, so the call counts as made.
//   - Offer a checkpoint: calls have no order that another store's steps could
//     be compared with. The state itself is shown as an artifact.
//
// # Permissions needed
//
// dynamodb:Query on the table.
//
// # Settings
//
// See [Options].
package openaiagents
