// Package powertools reads the idempotency table of AWS Lambda Powertools
// (Python and TypeScript, persistence layer DynamoDB) as a store of findings.
// The workers need no change: the key of a record is computed from the message
// as their Powertools computed it.
//
// # What it proves
//
//   - COMPLETED and not expired: confirmed, with the stored response as receipt.
//   - INPROGRESS: unknown. A run began and its end was not noted; until its time
//     is up it may still be going.
//   - COMPLETED, but past its expiration: unknown. Powertools itself no longer
//     counts it, and the same key may have stood for an earlier operation. What
//     was stored is shown to the person who looks.
//   - A validation hash that is not that of this message: unknown. The key was
//     used with another input.
//   - No record: unknown. Powertools deletes its record when the handler fails
//     and DynamoDB deletes it when it expires, so this is the normal case after
//     a failure and proves nothing.
//
// By default a record speaks for the whole task (Options.Step is empty), which
// is right where the handler is what is idempotent. Where it is an inner
// function, name its step; the other steps then need another store.
//
// # What it cannot
//
//   - Say that something did not happen: there is no none_confirmed.
//   - Compute a key from what a dead letter does not have, such as the receipt
//     handle. Such a key, and one that the expression does not find in the
//     message, is unknown.
//   - Follow TypeScript where two keys of one object differ in case only, or
//     Python where a function of the expression makes an integral float.
//   - Read records of other persistence layers (Redis, Valkey), and keys of
//     TypeScript versions from before keys were sorted (1.x).
//
// # Permissions needed
//
// dynamodb:GetItem on the table.
//
// # Settings
//
// Those of Powertools, by its names: see [Options].
package powertools
