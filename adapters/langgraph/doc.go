// Package langgraph reads the checkpoints of LangGraph's DynamoDB saver
// (package langgraph-checkpoint-aws, class DynamoDBSaver) as a store of
// findings. It reads keys and plain attributes only: payloads are msgpack and
// stay closed.
//
// # What it proves
//
// For the latest checkpoint of each namespace (the root graph and each
// subgraph):
//
//   - The checkpoint that a run can go on from: the newest of the root graph
//     whose payload is there, as the saver itself finds it. Its time is that of
//     its id, a UUID of version 6.
//   - A node whose writes are pending on it has finished: confirmed.
//   - A node that wrote only to the channel __error__ raised on the way:
//     unknown, and the task's failure is in that node.
//   - A node that only waits (__interrupt__, __scheduled__, __resume__) ran up
//     to there: unknown.
//   - No checkpoint at all, and nodes that wrote nothing: unknown. They may have
//     been running.
//
// # What it cannot
//
//   - Say that something did not happen: there is no none_confirmed, and all
//     steps that are not named stay unknown.
//   - Tell the nodes of earlier supersteps: what its checkpoint stands on is done,
//     and what of it was an effect no key says.
//   - Read what an error says, which step of a graph a checkpoint is, or whether
//     the graph came to its end: all of that is in the payload.
//   - See whether a payload that lies in S3 (over 350 KB) is still there; such a
//     checkpoint is shown, and neither it nor an older one offered to go on from.
//   - Cover steps of other stores. Its checkpoint's run is "langgraph:" and the
//     thread, so that ids of two vocabularies are never compared.
//   - Read the layouts of other savers (langgraph-checkpoint-dynamodb,
//     langgraph-dynamodb-checkpoint, AgentCore Memory).
//
// # Permissions needed
//
// dynamodb:Query and dynamodb:GetItem on the table.
//
// # Settings
//
// See [Options].
package langgraph
