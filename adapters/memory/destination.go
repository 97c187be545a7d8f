package memory

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/dlqbridge/dlqbridge"
)

// Facts implements dlqbridge.Destination.
func (q *Queue) Facts(ctx context.Context) (dlqbridge.DestinationFacts, error) {
	lost, err := q.begin(ctx, OpFacts)
	if err = errors.Join(err, lost); err != nil {
		return dlqbridge.DestinationFacts{}, fmt.Errorf("facts of %s: %w", q.o.Place, err)
	}
	return dlqbridge.DestinationFacts{
		URN: q.o.Place, FIFO: q.o.FIFO, Ordered: q.o.FIFO,
		MaxBytes: q.o.MaxBytes, BatchBytes: q.o.BatchBytes, BatchCount: q.o.BatchCount, MaxAttributes: q.o.MaxAttributes,
		Visibility: q.o.Visibility, MaxReceives: q.o.MaxReceives, DeadLetterPlace: q.o.DeadLetterPlace,
	}, nil
}

// Send implements dlqbridge.Destination. Nothing is tried again.
func (q *Queue) Send(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	results := make([]dlqbridge.SendResult, len(batch))
	if len(batch) == 0 {
		return results
	}
	var lost error
	err := q.refuseBatch(batch)
	if err == nil {
		lost, err = q.begin(ctx, OpSend)
	}
	for i, o := range batch {
		switch {
		case err != nil:
			results[i].Err = err
		default:
			results[i] = q.sendOne(ctx, i, o)
		}
		if lost != nil && results[i].Err == nil {
			results[i] = dlqbridge.SendResult{Err: lost}
		}
		if e := results[i].Err; e != nil {
			results[i].Err = fmt.Errorf("send message %d of %d to %s: %w", i+1, len(batch), q.o.Place, e)
		}
	}
	return results
}

func (q *Queue) refuseBatch(batch []dlqbridge.Outgoing) error {
	if len(batch) > q.o.BatchCount {
		return fmt.Errorf("%w: a batch of %d messages, at most %d", dlqbridge.ErrInvalid, len(batch), q.o.BatchCount)
	}
	total := 0
	for _, o := range batch {
		total += o.Size()
	}
	if total > q.o.BatchBytes && len(batch) > 1 {
		return fmt.Errorf("%w: a batch of %d bytes, at most %d", dlqbridge.ErrTooLarge, total, q.o.BatchBytes)
	}
	return nil
}

func (q *Queue) refuse(o dlqbridge.Outgoing) error {
	switch {
	case o.Size() > q.o.MaxBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", dlqbridge.ErrTooLarge, o.Size(), q.o.MaxBytes)
	case len(o.Payload.Attributes) > q.o.MaxAttributes:
		return fmt.Errorf("%w: %d attributes, at most %d", dlqbridge.ErrInvalid, len(o.Payload.Attributes), q.o.MaxAttributes)
	case q.o.FIFO && (o.Payload.GroupKey == "" || o.DedupID == ""):
		return fmt.Errorf("%w: a FIFO queue needs a group and a deduplication id", dlqbridge.ErrInvalid)
	}
	return nil
}

func (q *Queue) sendOne(ctx context.Context, i int, o dlqbridge.Outgoing) dlqbridge.SendResult {
	if err := q.refuse(o); err != nil {
		return dlqbridge.SendResult{Err: err}
	}
	lost := q.o.Fault(ctx, Call{OpSend, i})
	if lost != nil && !errors.Is(lost, dlqbridge.ErrUnclear) {
		return dlqbridge.SendResult{Err: lost}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.o.Now()
	known, ok := q.dedup[o.DedupID]
	if !q.o.FIFO || !ok || now.Sub(known.at) >= dedupWindow {
		q.last++
		known = sent{strconv.Itoa(q.last), now}
		q.messages = append(q.messages, &message{id: known.id, out: clone(o), sentAt: now})
		if q.o.FIFO {
			q.dedup[o.DedupID] = known
		}
		q.wake()
	}
	if lost != nil {
		return dlqbridge.SendResult{Err: lost}
	}
	return dlqbridge.SendResult{MessageID: known.id}
}
