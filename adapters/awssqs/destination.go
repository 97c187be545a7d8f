package awssqs

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Destination is one queue that work is sent back to.
type Destination struct {
	o    Options
	url  string
	arn  string
	fifo bool // for the queue's whole life
}

var _ dlqbridge.Destination = (*Destination)(nil)

// OpenDestination finds a queue to send to: dlqbridge.ErrNotFound, ErrDenied.
func OpenDestination(ctx context.Context, o Options) (*Destination, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	q, err := find(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Destination{o: o, url: q.url, arn: q.arn, fifo: q.attributes.fifo()}, nil
}

// Facts implements dlqbridge.Destination; it asks the service each time.
func (d *Destination) Facts(ctx context.Context) (dlqbridge.DestinationFacts, error) {
	a, err := read(ctx, d.o, d.url)
	if err != nil {
		return dlqbridge.DestinationFacts{}, fmt.Errorf("facts of %s: %w", d.arn, err)
	}
	facts := d.limits()
	if n := int(a.number(types.QueueAttributeNameMaximumMessageSize)); n > 0 {
		facts.MaxBytes = n
	}
	facts.Visibility = a.seconds(types.QueueAttributeNameVisibilityTimeout)
	facts.DeadLetterPlace, facts.MaxReceives = a.redrivePolicy()
	return facts, nil
}

// limits are those of every queue of this kind.
func (d *Destination) limits() dlqbridge.DestinationFacts {
	return dlqbridge.DestinationFacts{
		URN:           d.arn,
		FIFO:          d.fifo,
		Ordered:       d.fifo,
		MaxBytes:      MaxMessageBytes,
		BatchBytes:    MaxBatchBytes,
		BatchCount:    MaxBatchEntries,
		MaxAttributes: MaxAttributes,
	}
}

// Send implements dlqbridge.Destination. A message that SQS would refuse for
// its content is refused here, so that it cannot fail its batch mates. After
// ErrCredentials the client has been told to get new ones; the caller may
// send again, nothing went out.
func (d *Destination) Send(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	results := make([]dlqbridge.SendResult, len(batch))
	in := &sqs.SendMessageBatchInput{QueueUrl: &d.url}
	var asked []int // entry -> position
	for i, o := range batch {
		if results[i].Err = d.refuse(o, len(batch)); results[i].Err == nil {
			in.Entries = append(in.Entries, entryOf(o, *entryID(len(asked)), d.fifo))
			asked = append(asked, i)
		}
	}
	if len(asked) > 0 {
		for entry, r := range d.send(ctx, in) {
			results[asked[entry]] = r
		}
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			results[i].Err = fmt.Errorf("send message %d of %d to %s: %w", i+1, len(batch), d.arn, err)
		}
	}
	return results
}

// refuse is what is not even tried. The queue's own size limit is the
// service's to judge, which may have changed it since we asked.
func (d *Destination) refuse(o dlqbridge.Outgoing, n int) error {
	switch {
	case n > MaxBatchEntries:
		return invalid("a batch of %d messages, SQS takes at most %d", n, MaxBatchEntries)
	case d.fifo && o.DedupID == "":
		// Without it a repeated request would be a second message.
		return invalid("a send to a FIFO queue needs a deduplication id")
	}
	return Check(o, d.limits())
}

// send makes the one request. The caller has journalled the batch: if the
// process dies from here on, the sends are in doubt until evidence settles
// them.
func (d *Destination) send(ctx context.Context, in *sqs.SendMessageBatchInput) []dlqbridge.SendResult {
	n := len(in.Entries)
	if err := ctx.Err(); err != nil {
		// Surely not sent, which a cancelled request could not say.
		return all(n, fmt.Errorf("%w: not begun: %w", dlqbridge.ErrUnavailable, err))
	}
	began := d.o.Now()
	p := d.o.Retry
	p.Tries, p.Repeatable = fifoSendTries, d.fifo
	var results []dlqbridge.SendResult
	lost := false
	// The request as a whole is what may be repeated, so Retry is told of lost
	// answers and of nothing else: throttled messages are the caller's to pace.
	_ = retry.Do(ctx, p, func(ctx context.Context) error {
		out, err := call(ctx, d.o.CallTimeout, in, d.o.Client.SendMessageBatch)
		if errors.Is(err, dlqbridge.ErrCredentials) && p.Renew != nil {
			p.Renew()
		}
		results = sendResults(out, err, n)
		if lost {
			// An earlier attempt may have put these into the queue.
			for i, r := range results {
				if r.Err != nil {
					results[i].Err = fmt.Errorf("%w: an earlier answer was lost, then: %w", dlqbridge.ErrUnclear, r.Err)
				}
			}
		}
		lost = lost || errors.Is(err, dlqbridge.ErrUnclear)
		// The queue forgets the deduplication id; far from that, stop.
		if lost && err != nil && d.o.Now().Sub(began) < dedupWindow/2 {
			return dlqbridge.ErrUnclear
		}
		return nil
	})
	return results
}

// sendResults reads one answer, by entry.
func sendResults(out *sqs.SendMessageBatchOutput, err error, n int) []dlqbridge.SendResult {
	if err != nil {
		return all(n, err)
	}
	// Who is in neither list may have been sent.
	results := all(n, fmt.Errorf("%w: the answer does not mention this message", dlqbridge.ErrUnclear))
	for _, f := range out.Failed {
		if i, ok := positionOf(f.Id, n); ok {
			results[i].Err = awserr.Entry(aws.ToString(f.Code), aws.ToString(f.Message), f.SenderFault)
		}
	}
	for _, s := range out.Successful {
		if i, ok := positionOf(s.Id, n); ok {
			results[i] = dlqbridge.SendResult{MessageID: aws.ToString(s.MessageId)}
		}
	}
	return results
}

func all(n int, err error) []dlqbridge.SendResult {
	results := make([]dlqbridge.SendResult, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}
