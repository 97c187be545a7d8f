// Package memory is the reference implementation of dlqbridge.DeadLetters and
// dlqbridge.Destination: one queue in the memory of this process, small enough
// to be read in one go. Demos and tests use it, and what package adaptertest
// demands of an adapter can be looked up here. It keeps nothing: when the
// process ends, its messages are gone, so it is no place for real work.
//
// # Delivery
//
// At least once. A letter that was received is hidden for Options.Visibility;
// then it comes again with a new receipt and a higher count. Messages come in
// the order in which they were sent; a FIFO queue in addition holds a group back
// while one of its letters is hidden. An empty answer does prove the queue to
// have had nothing to give, which no provider promises, so code that relies on
// it is wrong.
//
// # Acknowledgement
//
// Delete and Hide answer for each letter. A receipt is good until its letter is
// received again; after that it answers dlqbridge.ErrNotFound and changes
// nothing. A letter that is gone already answers nil.
//
// # Attributes
//
// Any bytes are kept in bodies and values, and any type texts. Payloads are
// copied on the way in and on the way out.
//
// # Limits
//
// Those of Options, by default Amazon SQS's. Unlike there, one receive can be
// extended for ever.
//
// # Errors
//
// A message over a limit is refused with ErrTooLarge or ErrInvalid, alone. Other
// errors there are none, except those that Options.Fault makes to order.
//
// # Permissions needed
//
// None.
package memory
