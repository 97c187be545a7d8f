package gcppubsub

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// What exactly-once subscriptions say of an ack id that failed (page
// "Exactly-once delivery", read 2026-11-30).
const (
	ackOver            = "PERMANENT_FAILURE_INVALID_ACK_ID"
	ackTransientPrefix = "TRANSIENT_FAILURE_"
	ackPermanentPrefix = "PERMANENT_FAILURE_"
)

// Delete implements dlqbridge.DeadLetters. A letter whose receive is over
// answers ErrReceiveOver and comes again, where the subscription says so.
func (d *DeadLetters) Delete(ctx context.Context, letters []dlqbridge.Letter) []error {
	// By now each letter is durable elsewhere; if the process dies here, the
	// letters that were not acknowledged come again and are recognised.
	return d.settle(ctx, "delete", letters, func(ctx context.Context, ids []string) error {
		return d.request(ctx, func(ctx context.Context, options ...gax.CallOption) error {
			return d.o.Client.subscriptions.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: d.name, AckIds: ids}, options...)
		})
	})
}

// Hide implements dlqbridge.DeadLetters, in whole seconds, rounded up, at most
// MaxHide from now.
func (d *DeadLetters) Hide(ctx context.Context, letters []dlqbridge.Letter, wanted time.Duration) []error {
	seconds := int32((min(max(wanted, 0), MaxHide) + time.Second - 1) / time.Second)
	// Hiding only moves the time at which a letter comes again: dying before
	// or after it loses nothing.
	return d.settle(ctx, "hide", letters, func(ctx context.Context, ids []string) error {
		return d.request(ctx, func(ctx context.Context, options ...gax.CallOption) error {
			return d.o.Client.subscriptions.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
				Subscription: d.name, AckIds: ids, AckDeadlineSeconds: seconds,
			}, options...)
		})
	})
}

// request is call for the two that answer with nothing but an error.
func (d *DeadLetters) request(ctx context.Context, do func(context.Context, ...gax.CallOption) error) error {
	_, err := call(ctx, d.o.CallTimeout, struct{}{}, func(ctx context.Context, _ struct{}, options ...gax.CallOption) (struct{}, error) {
		return struct{}{}, do(ctx, options...)
	})
	return err
}

// settle makes the requests for letters and tries those again that failed for
// now; both kinds are safe to repeat. The receipt is the ack id and nothing
// more: each request sets a deadline anew, and there is no sum to keep.
func (d *DeadLetters) settle(ctx context.Context, verb string, letters []dlqbridge.Letter, request func(context.Context, []string) error) []error {
	results := retry.Each(ctx, repeatable(d.o.Retry), len(letters), func(ctx context.Context, positions []int) []error {
		out := make([]error, 0, len(positions))
		for _, chunk := range d.cut(letters, positions) {
			ids := make([]string, len(chunk))
			for i, p := range chunk {
				ids[i] = letters[p].Receipt
			}
			out = append(out, settleBatch(ctx, ids, request)...)
		}
		return out
	})
	for i, err := range results {
		if err != nil {
			results[i] = fmt.Errorf("%s letter %s of %s: %w", verb, letters[i].MessageID, d.name, err)
		}
	}
	return results
}

// cut makes pieces that each fit in one request, in order.
func (d *DeadLetters) cut(letters []dlqbridge.Letter, positions []int) [][]int {
	var pieces [][]int
	limit := maxAckBytes - len(d.name) - 4*ackOverhead
	begin, bytes := 0, 0
	for i, p := range positions {
		size := len(letters[p].Receipt) + ackOverhead
		if i > begin && (i-begin == maxAckIDs || bytes+size > limit) {
			pieces = append(pieces, positions[begin:i])
			begin, bytes = i, 0
		}
		bytes += size
	}
	if begin < len(positions) {
		pieces = append(pieces, positions[begin:])
	}
	return pieces
}

// settleBatch makes one request and answers for each ack id.
//
// Where the answer names the ids that failed (exactly once), it says nothing
// about the others that can be relied on: they are asked for again at once, by
// themselves, which is as good as once. Where a
// request is refused without a name, one malformed id may have failed all, so
// it is made in halves until only that one is refused.
func settleBatch(ctx context.Context, ids []string, request func(context.Context, []string) error) []error {
	out := make([]error, len(ids))
	asked := make([]int, 0, len(ids)) // index into ids
	for i, id := range ids {
		if id == "" {
			out[i] = fmt.Errorf("%w: not a receipt of this adapter", dlqbridge.ErrInvalid)
		} else {
			asked = append(asked, i)
		}
	}
	settleParts(ctx, ids, asked, out, request)
	return out
}

func settleParts(ctx context.Context, ids []string, asked []int, out []error, request func(context.Context, []string) error) {
	if len(asked) == 0 {
		return
	}
	named := make([]string, len(asked))
	for i, at := range asked {
		named[i] = ids[at]
	}
	err := request(ctx, named)
	if err == nil {
		return
	}
	failed := failedIDs(err)
	var unnamed []int
	for _, at := range asked {
		if reason, ok := failed[ids[at]]; ok {
			out[at] = ackResult(reason)
		} else {
			unnamed = append(unnamed, at)
		}
	}
	switch {
	case len(unnamed) < len(asked):
		settleParts(ctx, ids, unnamed, out, request)
	case statusOf(err).Code() == codes.InvalidArgument && len(asked) > 1:
		half := len(asked) / 2
		settleParts(ctx, ids, asked[:half], out, request)
		settleParts(ctx, ids, asked[half:], out, request)
	case statusOf(err).Code() == codes.InvalidArgument:
		// Alone, the ack id is the only value that can be wrong.
		out[asked[0]] = fmt.Errorf("%w: %w", ErrReceiveOver, err)
	default:
		for _, at := range asked {
			out[at] = err
		}
	}
}

// failedIDs are the ack ids that an answer names, with their reasons; none
// where it says nothing about single ids.
func failedIDs(err error) map[string]string {
	failed := map[string]string{}
	for id, reason := range infoOf(statusOf(err)).GetMetadata() {
		if strings.HasPrefix(reason, ackTransientPrefix) || strings.HasPrefix(reason, ackPermanentPrefix) {
			failed[id] = reason
		}
	}
	return failed
}

// ackResult gives the reason for one ack id its meaning.
func ackResult(reason string) error {
	switch {
	case strings.HasPrefix(reason, ackTransientPrefix):
		return fmt.Errorf("%w: %s", dlqbridge.ErrUnavailable, reason)
	case reason == ackOver:
		return fmt.Errorf("%w: %s", ErrReceiveOver, reason)
	}
	return fmt.Errorf("%w: %s", dlqbridge.ErrInvalid, reason)
}
