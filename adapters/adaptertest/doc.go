// Package adaptertest is the specification of an adapter as tests: what
// dlqbridge.DeadLetters and dlqbridge.Destination promise, held against any
// implementation. Both brokers' adapters, the in-memory reference and the
// gocloud.dev adapter pass it.
//
// # How to write an adapter
//
// Make a folder adapters/<provider><product>. Its package comment has the
// headings Delivery, Acknowledgement, Attributes, Limits, Errors and
// Permissions needed, and says under each what the provider really does, not
// what one would wish. Open checks its options and that the place is there, and
// returns a concrete type. Then:
//
//  1. Hand letters over whole. Body, attribute names, types and values are the
//     producer's bytes; what the provider itself adds goes into System. What it
//     does not say stays unknown: a nil count, a zero time, an empty Source.
//     Nothing that a sender can write may end up in Source or Place.
//  2. Answer by position. One bad entry never speaks for its mates, whatever
//     batches the provider's protocol makes of them, and entries that fail for
//     now are tried again only where doing so twice is as good as once.
//  3. Give each error its meaning. dlqbridge.ErrThrottled and ErrUnavailable
//     say "surely not carried out". Whoever is not sure says ErrUnclear: a
//     time-out, a cut connection, a server fault, an answer that leaves an entry
//     out. Guessing in the first direction repeats effects.
//  4. Send once. Switch the SDK's own retries off for sends, also those hidden
//     in its transport, unless the provider is sure to swallow the repeat.
//  5. Refuse before sending what the provider would refuse or change, entry by
//     entry: sizes, empty values, bytes that are no text. A message that cannot
//     go unchanged does not go.
//  6. Never wait without the context, and never start a goroutine that outlives
//     the call without an owner who ends it.
//
// Last comes conformance_test.go: a [Harness] and the calls
//
//	func TestConformance(t *testing.T) {
//		adaptertest.DeadLetters(t, harness)
//		adaptertest.Destination(t, harness)
//	}
//
//	func BenchmarkConformance(b *testing.B) { adaptertest.Benchmark(b, harness) }
//
// The harness makes a fresh provider for each sub-test, lets letters die as the
// provider itself does it, reads what arrived by other means than the adapter,
// and makes faults to order. Where the provider cannot keep a promise, a field
// of [Differences] says why; the suite then skips with that reason, or expects
// the adapter to refuse instead of changing the message. What only one provider
// does (its error codes, its time limits) stays in the adapter's own tests.
//
// Sub-tests run in testing/synctest bubbles, so that hours pass at once and
// nothing sleeps. That needs a provider in the same process without sockets; a
// harness that has none says so in Differences.RealTime.
//
// The suite itself is tested: broken_test.go breaks the reference in one way at
// a time and asks which sub-tests notice.
package adaptertest
