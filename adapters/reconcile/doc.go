// Package reconcile asks the outside system itself, over HTTP, whether a
// task's effect happened: a store of findings whose proof is a read of the
// system.
//
// # What it may prove
//
//   - An answer that a done selector matches: confirmed, with the system's own
//     reference as receipt.
//   - An answer that a not_done selector matches: none_confirmed, but only where
//     the configuration says that the system is authoritative, and only for the
//     time that its consistency delay allows: a finding made now speaks for what
//     happened until the delay ago, and nothing is said while the task's last
//     activity is younger than that or unknown. Otherwise it is "nothing found",
//     which proves nothing.
//   - An answer that an unknown selector matches ("pending"): a doubt as of now,
//     which only a later look ends.
//   - Done and not_done at once: a doubt about the step. Any other answer: a
//     doubt about no step in particular. Both speak for the task's last activity,
//     so that a person who looked since can end them.
//   - A refusal, a server error, a throttle, a lost connection, a used-up budget,
//     a key that cannot be asked for: unavailable, never an absence.
//
// A question without what the template needs (no idempotency key) is not asked:
// with the key left out many systems answer with somebody else's objects.
//
// # Limits
//
// The configuration fixes scheme, host and port; values from letters only stand
// in path segments, the query or texts of a JSON body, escaped for their place.
// Redirects are not followed. Addresses are checked after the name was resolved
// and at each dial, so a name that changes its address does not help: only
// public addresses are reached, and others only if they are listed. Without TLS
// only listed addresses are asked, because anybody on the way can write such an
// answer. Certificates are always verified. Proxies of the environment are not
// used, because they would do the dialling.
//
// The budget of calls is one process's own: two that run share nothing.
//
// # Errors
//
// New names the setting that is wrong. Ask never fails: what could not be asked
// is unavailable, in words that hold no value of the letter and no secret.
//
// # Permissions needed
//
// A credential that can read the objects asked for and nothing else. The
// request must only read, because it is repeated at each look.
package reconcile
