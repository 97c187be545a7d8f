package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/memory"
)

// What the contracts promise is held against this package in adaptertest; here
// is what it does beyond.

func Example() {
	ctx := context.Background()
	dead := memory.New(memory.Options{Place: "memory:orders-dead", Source: "memory:orders"})
	dead.Send(ctx, []dlqbridge.Outgoing{{Payload: dlqbridge.Payload{Body: []byte(`{"order":7}`)}}})

	letters, err := dead.Receive(ctx, 10, time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range letters {
		fmt.Printf("%s from %s, delivery %d\n", l.Payload.Body, l.Source, *l.Deliveries)
	}
	fmt.Println(errors.Join(dead.Delete(ctx, letters)...), len(dead.Messages()))
	// Output:
	// {"order":7} from memory:orders, delivery 1
	// <nil> 0
}

func ordered(group, dedup string) []dlqbridge.Outgoing {
	return []dlqbridge.Outgoing{{Payload: dlqbridge.Payload{Body: []byte(dedup), GroupKey: group}, DedupID: dedup}}
}

func TestFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{FIFO: true})
		for _, m := range [][]dlqbridge.Outgoing{ordered("a", "1"), ordered("a", "2"), ordered("b", "3"), ordered("a", "1")} {
			if err := q.Send(t.Context(), m)[0].Err; err != nil {
				t.Fatal(err)
			}
		}
		if n := len(q.Messages()); n != 3 {
			t.Fatalf("%d messages, want the repeat swallowed", n)
		}
		receive := func(limit int, want ...string) []dlqbridge.Letter {
			t.Helper()
			letters, err := q.Receive(t.Context(), limit, 0)
			var got []string
			for _, l := range letters {
				got = append(got, string(l.Payload.Body))
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("received %q and %v, want %q", got, err, want)
			}
			return letters
		}
		first := receive(1, "1")
		receive(10, "3") // the rest of group a waits
		q.Delete(t.Context(), first)
		receive(10, "2")

		time.Sleep(5 * time.Minute)
		q.Send(t.Context(), ordered("c", "1"))
		if n := len(q.Messages()); n != 3 {
			t.Errorf("%d messages, want the id free again after five minutes", n)
		}
		if err := q.Send(t.Context(), []dlqbridge.Outgoing{{Payload: dlqbridge.Payload{Body: []byte("x")}}})[0].Err; !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("without a group: %v", err)
		}
	})
}

// A receipt is good until the letter is received again, and no longer.
func TestReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{Visibility: time.Minute})
		q.Send(t.Context(), []dlqbridge.Outgoing{{Payload: dlqbridge.Payload{Body: []byte("x")}}})
		old, _ := q.Receive(t.Context(), 1, 0)
		time.Sleep(2 * time.Minute)
		again, _ := q.Receive(t.Context(), 1, 0)
		if err := q.Delete(t.Context(), old)[0]; !errors.Is(err, dlqbridge.ErrNotFound) {
			t.Errorf("the old receipt: %v, want ErrNotFound", err)
		}
		if err := q.Delete(t.Context(), again)[0]; err != nil {
			t.Errorf("the new receipt: %v", err)
		}
	})
}

func TestBatchBytes(t *testing.T) {
	q := memory.New(memory.Options{BatchBytes: 10})
	m := dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: []byte("sixsix")}}
	for _, r := range q.Send(t.Context(), []dlqbridge.Outgoing{m, m}) {
		if !errors.Is(r.Err, dlqbridge.ErrTooLarge) {
			t.Errorf("got %v, want ErrTooLarge", r.Err)
		}
	}
}
