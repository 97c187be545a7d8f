// Package celrules classifies failures by a team's own rules, written in CEL
// (https://cel.dev): predicates over what is known of a failure, tried in order.
//
// # What a rule sees
//
// Texts, empty where nothing is known: failure.code, failure.message,
// failure.step, failure.tool, failure.dependency, failure.phase, failure.cause
// (as the worker stated it); task.id, task.type, task.tenant; versions.agent,
// versions.model, versions.prompt, versions.workflow, versions.policy; route.
// Numbers: task.attempts, task.maxAttempts. A map of texts: attributes, the
// message's own ("x-shop" in attributes, attributes["x-shop"]).
//
// # Errors
//
// A rule that cannot work is an error at the start, with its number, line and
// column and a hint. A rule that fails on one failure does not fire on it: an
// attribute that is not there, a number that is unknown, more work than the cost
// limit allows. Counts says how often; the text of a failure is in no error.
//
// # Limits
//
// A rule has at most 4,096 characters and its evaluation a bounded cost, which
// bounds its time too; rules with loops are also stopped by the clock.
// Expressions of matches are RE2, linear in the text, and must stand in the
// rule: one that a sender wrote is refused.
package celrules
