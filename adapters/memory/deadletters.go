package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Place implements dlqbridge.DeadLetters.
func (q *Queue) Place() string { return q.o.Place }

// Receive implements dlqbridge.DeadLetters.
func (q *Queue) Receive(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
	lost, err := q.begin(ctx, OpReceive)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", q.o.Place, err)
	}
	until := q.o.Now().Add(wait)
	for {
		letters, next, changed := q.take(limit)
		left := until.Sub(q.o.Now())
		switch {
		case lost != nil:
			return nil, fmt.Errorf("receive from %s: %w", q.o.Place, lost)
		case len(letters) > 0 || left <= 0:
			return letters, nil
		}
		if !next.IsZero() {
			left = min(left, next.Sub(q.o.Now()))
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("receive from %s: %w", q.o.Place, ctx.Err())
		}
		timer.Stop()
	}
}

// take hides up to limit letters and returns them; next is when a hidden one
// comes back, and changed is closed when something else makes one available.
func (q *Queue) take(limit int) (letters []dlqbridge.Letter, next time.Time, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.o.Now()
	held := map[string]bool{} // groups with a letter in somebody's hands
	for _, m := range q.messages {
		switch {
		case m.visibleAt.After(now):
			held[m.out.Payload.GroupKey] = true
			if next.IsZero() || m.visibleAt.Before(next) {
				next = m.visibleAt
			}
		case len(letters) < limit && (!q.o.FIFO || !held[m.out.Payload.GroupKey]):
			m.deliveries++
			m.visibleAt = now.Add(q.o.Visibility)
			letters = append(letters, q.letter(m, now))
		}
	}
	return letters, next, q.changed
}

func (q *Queue) letter(m *message, now time.Time) dlqbridge.Letter {
	deliveries := m.deliveries
	out := clone(m.out)
	out.Payload.Normalize()
	return dlqbridge.Letter{
		Provider: q.o.Provider, Place: q.o.Place, Source: q.o.Source,
		MessageID: m.id, Payload: out.Payload, TraceHeader: out.TraceHeader,
		System:     map[string]string{"deliveries": strconv.Itoa(deliveries)},
		Deliveries: &deliveries,
		SentAt:     m.sentAt, ReceivedAt: now, LostAt: m.sentAt.Add(q.o.Retention),
		Receipt: m.receipt(),
	}
}

// Delete implements dlqbridge.DeadLetters. A throttled entry is tried again.
func (q *Queue) Delete(ctx context.Context, letters []dlqbridge.Letter) []error {
	return q.settle(ctx, OpDelete, letters, func(i int) {
		q.messages = slices.Delete(q.messages, i, i+1)
		q.wake() // on a FIFO queue the rest of its group is free
	})
}

// Hide implements dlqbridge.DeadLetters.
func (q *Queue) Hide(ctx context.Context, letters []dlqbridge.Letter, d time.Duration) []error {
	return q.settle(ctx, OpHide, letters, func(i int) {
		q.messages[i].visibleAt = q.o.Now().Add(d)
		q.wake()
	})
}

// settleTries is how often a throttled entry is tried in all.
const settleTries = 3

func (q *Queue) settle(ctx context.Context, op Op, letters []dlqbridge.Letter, do func(i int)) []error {
	results := make([]error, len(letters))
	if len(letters) == 0 {
		return results
	}
	lost, err := q.begin(ctx, op)
	for i, l := range letters {
		if err != nil {
			results[i] = err
		} else {
			results[i] = errors.Join(q.settleOne(ctx, Call{op, i}, l, do), lost)
		}
		if results[i] != nil {
			results[i] = fmt.Errorf("%s letter %s of %s: %w", op, l.MessageID, q.o.Place, results[i])
		}
	}
	return results
}

func (q *Queue) settleOne(ctx context.Context, call Call, l dlqbridge.Letter, do func(i int)) error {
	err := q.o.Fault(ctx, call)
	for try := 1; try < settleTries && errors.Is(err, dlqbridge.ErrThrottled); try++ {
		err = q.o.Fault(ctx, call)
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	id, delivery, ok := strings.Cut(l.Receipt, "/")
	if number, err := strconv.Atoi(id); !ok || err != nil || delivery == "" || number < 1 || number > q.last {
		return fmt.Errorf("%w: not a receipt of this queue", dlqbridge.ErrInvalid)
	}
	i := slices.IndexFunc(q.messages, func(m *message) bool { return m.id == id })
	switch {
	case i < 0:
		return nil // gone already
	case q.messages[i].receipt() != l.Receipt:
		return fmt.Errorf("%w: the letter was received again since", dlqbridge.ErrNotFound)
	}
	do(i)
	return nil
}

// Depth implements dlqbridge.DeadLetters.
func (q *Queue) Depth(ctx context.Context) (dlqbridge.Depth, error) {
	lost, err := q.begin(ctx, OpDepth)
	if err = errors.Join(err, lost); err != nil {
		return dlqbridge.Depth{}, fmt.Errorf("depth of %s: %w", q.o.Place, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var d dlqbridge.Depth
	now := q.o.Now()
	for _, m := range q.messages {
		if m.visibleAt.After(now) {
			d.InFlight++
		} else {
			d.Visible++
		}
	}
	return d, nil
}
