package awssqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// ErrReceiveOver is a letter whose receive is over: its handle is no longer
// good, or its twelve hours in flight are used up. Nothing was done with it;
// it is no longer ours, and it comes again with a new receipt unless somebody
// else has deleted it. Its meaning is dlqbridge.ErrNotFound.
var ErrReceiveOver = fmt.Errorf("%w: the receive of this letter is over", dlqbridge.ErrNotFound)

// receipt is what a letter's Receipt says: the service's handle and the time
// from which its twelve hours count.
type receipt struct {
	from   time.Time
	handle string
}

// String writes the receipt as readReceipt reads it.
func (r receipt) String() string { return strconv.FormatInt(r.from.UnixMilli(), 10) + ":" + r.handle }

func readReceipt(text string) (receipt, error) {
	from, handle, ok := strings.Cut(text, ":")
	ms, err := strconv.ParseInt(from, 10, 64)
	if !ok || err != nil || handle == "" {
		return receipt{}, fmt.Errorf("%w: not a receipt of this adapter", dlqbridge.ErrInvalid)
	}
	return receipt{time.UnixMilli(ms), handle}, nil
}

// left is how long the letter can still be hidden from now. Worked: received
// at 08:00, now 19:30: 30 m less the margin.
func (r receipt) left(now time.Time) time.Duration {
	return r.from.Add(MaxInFlightTime - leaseMargin).Sub(now)
}

// Delete implements dlqbridge.DeadLetters. A letter whose receive is over
// answers ErrReceiveOver and stays.
func (d *DeadLetters) Delete(ctx context.Context, letters []dlqbridge.Letter) []error {
	// By now each letter is durable elsewhere; if the process dies here, the
	// letters that were not deleted come again and are recognised.
	return d.settle(ctx, "delete", letters, func(ctx context.Context, handles []held) answers {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &d.url}
		for i, h := range handles {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{
				Id: entryID(i), ReceiptHandle: aws.String(h.handle),
			})
		}
		out, err := call(ctx, d.o.CallTimeout, in, d.o.Client.DeleteMessageBatch)
		if err != nil {
			return answers{err: err}
		}
		a := answers{failed: out.Failed}
		for _, done := range out.Successful {
			a.done = append(a.done, done.Id)
		}
		return a
	})
}

// Hide implements dlqbridge.DeadLetters, in whole seconds, rounded up. A
// letter near the end of its twelve hours is hidden for what is left of them;
// at the end it answers ErrReceiveOver without being asked for.
func (d *DeadLetters) Hide(ctx context.Context, letters []dlqbridge.Letter, wanted time.Duration) []error {
	// Hiding only moves the time at which a letter comes again: dying before
	// or after it loses nothing.
	return d.settle(ctx, "hide", letters, func(ctx context.Context, handles []held) answers {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &d.url}
		for i, h := range handles {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
				Id: entryID(i), ReceiptHandle: aws.String(h.handle), VisibilityTimeout: hideSeconds(wanted, h.left),
			})
		}
		out, err := call(ctx, d.o.CallTimeout, in, d.o.Client.ChangeMessageVisibilityBatch)
		if err != nil {
			return answers{err: err}
		}
		a := answers{failed: out.Failed}
		for _, done := range out.Successful {
			a.done = append(a.done, done.Id)
		}
		return a
	})
}

// hideSeconds rounds the wish up, never beyond what is left.
func hideSeconds(wanted, left time.Duration) int32 {
	up := (max(wanted, 0) + time.Second - 1) / time.Second
	return int32(min(up, left/time.Second))
}

// entryID names an entry by its position in the request: message ids may come
// twice in one batch (a message received again before its first copy was
// deleted), and the service refuses repeated names and long ones.
func entryID(position int) *string { return aws.String(strconv.Itoa(position)) }

// positionOf reads an id of an answer; ok is false for one we never gave.
func positionOf(id *string, n int) (position int, ok bool) {
	position, err := strconv.Atoi(aws.ToString(id))
	return position, err == nil && position >= 0 && position < n
}

// held is one letter of a request: its handle and what is left of its time.
type held struct {
	handle string
	left   time.Duration
}

// answers are those of one batch request.
type answers struct {
	done   []*string
	failed []types.BatchResultErrorEntry
	err    error // of the request as a whole
}

// settle makes the requests for letters, ten at a time, and tries those again
// that failed for now.
func (d *DeadLetters) settle(ctx context.Context, verb string, letters []dlqbridge.Letter, request func(context.Context, []held) answers) []error {
	receipts := make([]receipt, len(letters))
	bad := make([]error, len(letters))
	for i, l := range letters {
		receipts[i], bad[i] = readReceipt(l.Receipt)
	}
	p := d.o.Retry
	p.Repeatable = true // deleting twice and hiding twice is as good as once
	results := retry.Each(ctx, p, len(letters), func(ctx context.Context, positions []int) []error {
		out := make([]error, 0, len(positions))
		for chunk := range slices.Chunk(positions, MaxBatchEntries) {
			out = append(out, d.settleBatch(ctx, chunk, receipts, bad, request)...)
		}
		return out
	})
	for i, err := range results {
		if err != nil {
			results[i] = fmt.Errorf("%s letter %s of %s: %w", verb, letters[i].MessageID, d.arn, err)
		}
	}
	return results
}

// settleBatch makes one request for the letters at positions and answers in
// their order.
func (d *DeadLetters) settleBatch(ctx context.Context, positions []int, receipts []receipt, bad []error, request func(context.Context, []held) answers) []error {
	out := make([]error, len(positions))
	var handles []held
	var asked []int // entry -> index into out
	now := d.o.Now()
	for i, p := range positions {
		left := receipts[p].left(now)
		switch {
		case bad[p] != nil:
			out[i] = bad[p]
		case left < time.Second:
			// The handle is dead, or will be before the request arrives; the
			// letter is let go, never deleted on a guess.
			out[i] = ErrReceiveOver
		default:
			handles = append(handles, held{receipts[p].handle, left})
			asked = append(asked, i)
		}
	}
	if len(handles) == 0 {
		return out
	}
	a := request(ctx, handles)
	for entry, i := range asked {
		out[i] = a.of(entry, len(handles))
	}
	return out
}

// of is the answer for one entry; one that the service does not mention is
// unclear.
func (a answers) of(entry, n int) error {
	if a.err != nil {
		return a.err
	}
	for _, f := range a.failed {
		if p, ok := positionOf(f.Id, n); ok && p == entry {
			return receiveOver(awserr.Entry(aws.ToString(f.Code), aws.ToString(f.Message), f.SenderFault))
		}
	}
	for _, id := range a.done {
		if p, ok := positionOf(id, n); ok && p == entry {
			return nil
		}
	}
	return fmt.Errorf("%w: the answer does not mention this entry", dlqbridge.ErrUnclear)
}

// receiveOver recognises a handle that is no longer good. The service words it
// in several ways: as a handle or message that is not there, and as an invalid
// value where the handle is the only value that can be.
func receiveOver(err error) error {
	if errors.Is(err, dlqbridge.ErrNotFound) || errors.Is(err, dlqbridge.ErrInvalid) {
		return fmt.Errorf("%w: %w", ErrReceiveOver, err)
	}
	return err
}
