// Package gocdk opens any pubsub URL of the Go CDK (gocloud.dev/pubsub) as a
// dead-letter place or as a destination: RabbitMQ, NATS, Kafka, Azure Service
// Bus, or memory. It brings brokers within reach that have no adapter of their
// own, for the price of weaker promises, which [DeadLetters.WeakAcknowledgement]
// says in a sentence for people. For Amazon SQS and Google Pub/Sub use packages
// awssqs and gcppubsub: the Go CDK changes their messages on the way.
//
// Which URLs can be opened depends on the drivers that a binary imports. The
// main binary has none; built with -tags gocdk_drivers it has those of
// drivers.go, the one file to add a broker to.
//
// # Delivery
//
// At least once, where the broker does so (plain NATS does not: what was
// delivered is gone). The library fetches letters ahead of Receive, so some may
// be hidden from others although nobody has them in hand; when the process ends
// they come again after the broker's timeout. After an error that the library
// calls permanent, its subscription gives nothing more for good; the next
// Receive opens a new one, and letters in hand answer [ErrReceiveOver].
//
// The library knows no message ids, counts or times. Deliveries is nil, SentAt
// and LostAt are zero, Depth is an error, and MessageID is made of the content,
// so that a letter delivered again is recognised. Two letters of exactly the same
// content are therefore one letter to dlqbridge: work whose messages can be
// equal needs a task id in them, or Options.Describe, which reads what a driver
// knows.
//
// # Acknowledgement
//
// Weak. The library acknowledges in the background and returns nothing, so a nil
// of Delete means "handed to the library", not "deleted". If it fails, the next
// Receive returns the error and the letter comes again; it is never lost. Hide
// for 0 gives back where the driver can; nothing can extend the time in hand, so
// every other Hide answers ErrInvalid. Choose the broker's own timeout longer
// than intake may take.
//
// # Attributes
//
// The metadata map, each value as an attribute of type "String". Several drivers
// escape what their broker cannot carry: names and values in hexadecimal or
// percent form, bodies that are not UTF-8 in base64 behind a marker. Among
// senders and receivers that all use the Go CDK this cancels out; another
// consumer sees the escaped form, and a letter that another producer wrote comes
// in as the driver decodes it. So "the same bytes" holds within the Go CDK only.
// A payload with another type, a group key or a trace header is refused, since
// it could not go unchanged.
//
// # Limits
//
// The library states none. Options.MaxBytes and Options.MaxAttributes say what
// is known of the broker, and are held. A request carries one message: the
// library would let one bad message fail its batch mates, and would cut batches
// as it likes.
//
// # Errors
//
// By the library's codes. Of a send, a refusal that the code explains (not found,
// denied, invalid, exhausted) means that nothing was sent. The library itself
// repeats what its driver calls retryable; a fence lets a message pass once only,
// so a second attempt is stopped and the answer is ErrUnclear. Everything else
// that fails after the message passed the fence is ErrUnclear too.
//
// # Permissions needed
//
// To receive and acknowledge on the one place, to publish on the other; see the
// driver's documentation, also for the environment variables with addresses and
// credentials.
package gocdk
