// Package dlqbridge is the domain of dlqbridge: the words, the rules and the
// contracts, with nothing but the standard library below it.
//
// The story in one line: provider → adapter → enrich → record → redrive → source.
//
// A task that keeps failing lands in its provider's dead-letter queue as a
// [Letter]. Intake (package enrich) asks the stores that know the agent's side
// for their [Finding]s, folds them into one [Effect] ([Fold]), names the
// [Cause], takes a [Decision] ([Decide]) and keeps a durable [Record] of the
// unit of work before the letter is deleted. A redrive job (package redrive)
// later sends work back to its source: one cause and one destination at a
// time, under a pace, each record claimed, journalled, sent and noted, and
// only where somebody authorised it and repeating is demonstrably safe.
//
// What the pieces of a record are called:
//
//   - Control is the small moving part: status, cause, effect, claim, version.
//     Every [Move] is one conditional write of it.
//   - An [Arrival] is one letter stored on the record, with its [Payload] apart.
//   - A [Context] is what the stores said at one moment and what was decided
//     from it. A [Note] is a text or a finding that a person added.
//   - A [Send] is what is known about redrive number n.
//   - History is the list of moves.
//
// A context, a note or a finding counts only if a move names it: what a
// crashed mover left behind says nothing.
package dlqbridge
