package adaptertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/memory"
)

// The reference passes the suite without any difference, so that each promise
// is one that can be kept.
func TestReference(t *testing.T) {
	DeadLetters(t, reference)
	Destination(t, reference)
}

func BenchmarkReference(b *testing.B) { Benchmark(b, reference) }

var reference = Harness{New: newReference, Visibility: 30 * time.Second}

func newReference(_ testing.TB, ordered bool) *Setup {
	orders := &orders{}
	dead := memory.New(memory.Options{Place: "memory:dead", Fault: orders.fault})
	jobs := memory.New(memory.Options{Place: "memory:jobs", Fault: orders.fault, FIFO: ordered, MaxBytes: 256 << 10})
	return &Setup{
		DeadLetters: dead,
		Destination: jobs,
		Put: func(t testing.TB, messages ...dlqbridge.Outgoing) {
			t.Helper()
			for _, m := range messages {
				if err := dead.Send(t.Context(), []dlqbridge.Outgoing{m})[0].Err; err != nil {
					t.Fatal(err)
				}
			}
		},
		Arrived: func(testing.TB) []dlqbridge.Outgoing { return jobs.Messages() },
		MissingPlace: func(ctx context.Context) error {
			_, err := gone().Receive(ctx, 1, 0)
			return err
		},
		MissingDestination: func(ctx context.Context) error {
			return gone().Send(ctx, []dlqbridge.Outgoing{message("x")})[0].Err
		},
		Break: func(_ testing.TB, f Fault) { orders.add(f) },
		Requests: func(_ testing.TB, c Call) int {
			if c == Send || c == Facts {
				return jobs.Requests(ops[c])
			}
			return dead.Requests(ops[c])
		},
	}
}

// gone is a queue that somebody has taken away.
func gone() *memory.Queue {
	return memory.New(memory.Options{Fault: func(context.Context, memory.Call) error {
		return fmt.Errorf("%w: no such queue", dlqbridge.ErrNotFound)
	}})
}

var ops = map[Call]memory.Op{
	Receive: memory.OpReceive, Delete: memory.OpDelete, Hide: memory.OpHide,
	Depth: memory.OpDepth, Facts: memory.OpFacts, Send: memory.OpSend,
}

// orders are the faults still to be made.
type orders struct {
	mu     sync.Mutex
	faults []Fault
}

func (o *orders) add(f Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.Times == 0 {
		f.Times = -1 // counts down for ever
	}
	o.faults = append(o.faults, f)
}

func (o *orders) fault(ctx context.Context, call memory.Call) error {
	switch o.next(call) {
	case Denied:
		return fmt.Errorf("%w: by order", dlqbridge.ErrDenied)
	case Throttled:
		return fmt.Errorf("%w: by order", dlqbridge.ErrThrottled)
	case LostAnswer:
		return fmt.Errorf("%w: by order", dlqbridge.ErrUnclear)
	case Silence:
		<-ctx.Done()
		return fmt.Errorf("%w: by order: %w", dlqbridge.ErrUnclear, ctx.Err())
	}
	return nil
}

func (o *orders) next(call memory.Call) What {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, f := range o.faults {
		entry := -1
		if f.OneEntry {
			entry = f.Entry
		}
		if ops[f.Call] == call.Op && entry == call.Entry && f.Times != 0 {
			o.faults[i].Times--
			return f.Do
		}
	}
	return ""
}
