// Package awssqs reads dead-letter queues of Amazon SQS and sends work back to
// its source queues. It uses the SDK directly: messages go back with their
// bytes, type labels, group and trace header as they came.
//
// # Delivery
//
// At least once. A letter that was received is hidden from other receivers for
// the queue's visibility timeout; then it comes again with a new receipt. The
// receive count goes on across queues, our own receives included. An empty
// answer does not prove the queue empty; every receive polls for at least a
// second, because a shorter one asks only some of the servers.
//
// Of a FIFO queue, a group waits while one of its letters is hidden. A receive
// whose answer was lost is not repeated under a ReceiveRequestAttemptId: its
// letters come again after the visibility timeout in the right order, and
// handles out of a repeated attempt would make the twelve hours' arithmetic
// guess at when they were received.
//
// # Acknowledgement
//
// Delete and Hide answer for each letter. Entries that failed for now are tried
// again, and only those; both calls are safe to repeat. A letter whose receive
// is over (a FIFO queue refuses its handle, the twelve hours are used up)
// answers [ErrReceiveOver]: nothing was done, the letter comes again with a new
// receipt, and the rest of the batch is not affected. A standard queue accepts
// an old handle and may keep the message, which then comes again too.
//
// # Attributes
//
// All user attributes are asked for and kept: name, full type text with any
// label, and the bytes of the value. So are all system attributes, under the
// service's own names. MessageGroupId is the group key, on standard queues too
// (fair queues). AWSTraceHeader is received as a system attribute and sent back
// as one. A value is read by its type's first word only; nothing is parsed.
//
// # Limits
//
// A message is at most the queue's own MaximumMessageSize, asked for and never
// assumed; a batch has at most 10 entries and 1 MiB; a message has at most 10
// attributes. [Check] says before a send what the queue would refuse. A message
// is in flight for at most twelve hours from its receive, all extensions taken
// together, and a queue has at most 120,000 in flight.
//
// # Errors
//
// Errors carry the root's meanings, mapped in package awserr. Of a send,
// ErrUnclear means that the message may be in the queue; every other error
// means that it surely is not. The SDK's own retries are off for every call,
// since they hide an attempt whose answer was lost behind the refusal of the
// next. A send to a FIFO queue is repeated when its answer was lost, because
// the deduplication id protects it for five minutes; nothing else is sent twice.
//
// # Permissions needed
//
// On a dead-letter queue: sqs:GetQueueUrl, sqs:GetQueueAttributes,
// sqs:ReceiveMessage, sqs:DeleteMessage, sqs:ChangeMessageVisibility, and for
// [Inspect] sqs:ListDeadLetterSourceQueues. On a destination: sqs:GetQueueUrl,
// sqs:GetQueueAttributes, sqs:SendMessage. For queues under a KMS key also
// kms:Decrypt, and to send kms:GenerateDataKey. A queue given by its URL needs
// no sqs:GetQueueUrl.
package awssqs
