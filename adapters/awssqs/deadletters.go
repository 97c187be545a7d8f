package awssqs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// ErrInFlightLimit is a queue that gives nothing because too many of its
// messages are in flight. Waiting a moment does not help; deleting does. Its
// meaning is dlqbridge.ErrThrottled.
var ErrInFlightLimit = fmt.Errorf("%w: in-flight limit reached", dlqbridge.ErrThrottled)

// DeadLetters is one dead-letter queue.
type DeadLetters struct {
	o   Options
	url string
	arn string
	// retention is the queue's own, in nanoseconds, as last read.
	retention atomic.Int64
}

var _ dlqbridge.DeadLetters = (*DeadLetters)(nil)

// Open finds a dead-letter queue: dlqbridge.ErrNotFound, ErrDenied.
func Open(ctx context.Context, o Options) (*DeadLetters, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	q, err := find(ctx, o)
	if err != nil {
		return nil, err
	}
	d := &DeadLetters{o: o, url: q.url, arn: q.arn}
	d.keepRetention(q.attributes)
	return d, nil
}

// Place implements dlqbridge.DeadLetters: the queue's ARN.
func (d *DeadLetters) Place() string { return d.arn }

func (d *DeadLetters) keepRetention(a attributes) {
	d.retention.Store(int64(a.seconds(types.QueueAttributeNameMessageRetentionPeriod)))
}

// Receive implements dlqbridge.DeadLetters. It waits whole seconds, from one
// to twenty. A throttled receive is tried again; one whose answer was lost is
// the caller's to repeat (ErrUnclear), and a queue at its in-flight limit
// answers ErrInFlightLimit at once.
func (d *DeadLetters) Receive(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
	poll := min(max(wait.Truncate(time.Second), minPoll), maxPoll)
	in := &sqs.ReceiveMessageInput{
		QueueUrl:            &d.url,
		MaxNumberOfMessages: int32(min(max(limit, 1), MaxBatchEntries)),
		WaitTimeSeconds:     int32(poll / time.Second),
		// Nothing is returned that was not asked for, and there are two lists.
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
	// Not Repeatable: a service that does not answer is for the caller to know
	// of soon, who receives again anyway. Letters in an answer that was lost
	// come again after their visibility timeout.
	p := d.o.Retry
	p.Repeatable = false
	var letters []dlqbridge.Letter
	var full error
	err := retry.Do(ctx, p, func(ctx context.Context) error {
		// The twelve hours count from the receive, which happens between the
		// request and the answer; counting from the request is never too late.
		from := d.o.Now()
		out, err := call(ctx, d.o.CallTimeout+poll, in, d.o.Client.ReceiveMessage)
		switch {
		case overLimit(err):
			full = fmt.Errorf("%w: %w", ErrInFlightLimit, err)
			return nil
		case err != nil:
			return err
		}
		letters = d.letters(out.Messages, from)
		return nil
	})
	if err = errors.Join(err, full); err != nil {
		return nil, fmt.Errorf("receive from %s: %w", d.arn, err)
	}
	return letters, nil
}

func overLimit(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "OverLimit"
}

func (d *DeadLetters) letters(messages []types.Message, from time.Time) []dlqbridge.Letter {
	now := d.o.Now().UTC()
	letters := make([]dlqbridge.Letter, 0, len(messages))
	for _, m := range messages {
		l := letterOf(m, d.arn, time.Duration(d.retention.Load()))
		l.ReceivedAt = now
		l.Receipt = receipt{from: from, handle: aws.ToString(m.ReceiptHandle)}.String()
		letters = append(letters, l)
	}
	return letters
}

// Depth implements dlqbridge.DeadLetters. It also learns the queue's
// retention anew, from which letters' LostAt is counted.
func (d *DeadLetters) Depth(ctx context.Context) (dlqbridge.Depth, error) {
	a, err := read(ctx, d.o, d.url)
	if err != nil {
		return dlqbridge.Depth{}, fmt.Errorf("depth of %s: %w", d.arn, err)
	}
	d.keepRetention(a)
	return a.depth(), nil
}
