// Package gcppubsub reads dead-letter subscriptions of Google Pub/Sub and
// sends work back to topics: the source topic, or a redrive topic of the route.
//
// It is built on the generated clients of cloud.google.com/go/pubsub/v2 (its
// package apiv1) and their unary calls, not on the Subscriber and Publisher
// above them: those own goroutines and extend leases behind the back of
// whoever must know whether a letter is still in hand; a Publisher retries for
// minutes and reports the last attempt only, so that nobody could tell a
// message that surely is not out from one that may be; and a key that failed
// stays paused in it until it is told to go on.
//
// # Delivery
//
// At least once. A letter that was received is hidden from other receivers for
// the subscription's acknowledgement deadline, and for a minute if that is
// shorter than half of one. An empty answer does not prove the subscription
// empty, and there are no counters to ask: Depth is unknown. A pull is cut off
// when its wait is over; letters in an answer that was lost by that come again
// after the deadline.
//
// A dead letter is a new message: it has a message id and a publish time of
// its own and says nothing of the old id or of the topic. It may be forwarded
// more than once, and each copy is a letter. The time of the first publishing
// is kept, so that copies are known by it and by their content. The order of
// an ordering key is not kept on the way into a dead-letter topic.
//
// # Acknowledgement
//
// Delete is Acknowledge and Hide is ModifyAckDeadline; both answer for each
// letter and are safe to repeat. Of a subscription with exactly-once delivery
// the answer is exact: what failed for now is tried again, and only that, and a
// letter whose deadline has passed answers [ErrReceiveOver] and comes again.
// Without it an acknowledgement is best effort: it is answered with success
// even when it came too late, and then the letter comes again.
//
// One Hide sets a deadline of at most 600 s ([MaxHide]); a longer wish is cut
// to that, and a caller who wants more calls again in time, as often as it
// likes. Giving a letter back, and letting a deadline pass, count as failed
// deliveries: a dead-letter subscription should have no dead-letter policy of
// its own.
//
// # Attributes
//
// Attributes are names and values of text, type "String". Those of the service
// are not the user's and are found in Letter.System: the ones that start with
// CloudPubSubDeadLetterSource, which it adds when it forwards, and the ones
// that start with goog, a prefix that no producer may use and that clients use
// for their own (googclient_deliveryattempt). They are not sent back. System
// also has messageId, publishTime and deliveryAttempt of the dead letter itself.
//
// Letter.Source is made of the attributes of the forwarding subscription and
// its project. Whoever may publish to the dead-letter topic could write them
// too, so a route's topic comes from configuration and never from a letter.
//
// # Limits
//
// A publish takes 1,000 messages and 10 MB, all of one ordering key; a message
// has 100 attributes, names of 256 bytes and values of 1,024 bytes. [Check]
// says before a send what would be refused. The service refuses a request as a
// whole for one bad message; so Send checks each before and leaves the bad out.
//
// # Sending back to one subscriber
//
// Publishing to the source topic reaches every subscription of it, also those
// that did their part. DestinationFacts.Receivers lists them. There are two
// ways to reach the failed consumer alone:
//
//   - A redrive topic: a topic of its own with one subscription, which the
//     consumer reads besides its first one. The route names it as its
//     redrive topic. Nobody else can get a copy.
//   - A filter on the mark: each message that is sent back has the attribute
//     agent.redrive.to with the short name of the subscription it is meant
//     for. Every subscription of the topic gets the filter
//     NOT attributes:"agent.redrive.to" OR attributes."agent.redrive.to" = "NAME"
//     with its own short name. A filter cannot be changed later, so this is
//     for new subscriptions. The route says fan_out: accept, since the filters
//     decide who gets a copy. A message that has no place for the attribute is
//     then refused.
//
// # Errors
//
// Errors carry the root's meanings. Of a send, ErrUnclear means that the
// message may be out: the answer was lost or late, or the service failed in the
// middle. Every other error means that it surely is not: the service refused,
// no connection was had, or it was held back because an earlier message of its
// ordering key did not go out ([ErrHeldBack]). The client's own retries are off
// for every call, since they hide an attempt whose answer was lost behind the
// refusal of the next, and nothing is published twice by hedging.
//
// # Permissions needed
//
// On a dead-letter subscription: pubsub.subscriptions.consume and
// pubsub.subscriptions.get. On a destination: pubsub.topics.publish and
// pubsub.topics.get, which also lists the topic's subscriptions; on the
// consumer's subscription pubsub.subscriptions.get. To inspect, besides that:
// getIamPolicy on the topic and the subscription, to look for the rights of
// the service's own agent; without it they are unknown. Reading and sending
// are best done by two identities.
package gcppubsub
