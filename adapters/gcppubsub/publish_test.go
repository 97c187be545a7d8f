package gcppubsub_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// C08: one message that Pub/Sub refuses fails none of its batch mates, and
// nobody is sent twice for it.
func TestC08OneInvalidMessage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		batch, want, arrive := make([]dlqbridge.Outgoing, 20), make([]error, 20), []string{}
		for i := range batch {
			batch[i] = text(fmt.Sprint("work ", i), "")
			if i != 6 {
				arrive = append(arrive, fmt.Sprint("work ", i))
			}
		}
		batch[6], want[6] = dlqbridge.Outgoing{}, dlqbridge.ErrInvalid
		meanings(t, "send", send(t.Context(), w.destination("orders", ""), batch...), want...)
		if n := len(w.requests("Publish")); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		got := w.arrived("billing")
		slices.Sort(got)
		slices.Sort(arrive)
		if !slices.Equal(got, arrive) {
			t.Errorf("arrived %q", got)
		}
	})
}

// C41: a key whose publish failed is not paused, and other keys are neither
// delayed nor failed by it.
func TestC41AKeyIsNotPaused(t *testing.T) {
	for name, f := range map[string]localstack.Fault{
		"cut":        {Do: localstack.DoDropBefore},
		"unanswered": {Do: localstack.DoBlackHole},
		"refused":    {Do: localstack.DoThrottle},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.subscription("ordered", "orders", func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true })
				d := w.destination("orders", "")
				f.Operation, f.Contains = "Publish", "cust-9"
				w.fault(f)
				var batch []dlqbridge.Outgoing
				var want []error
				failed := dlqbridge.ErrUnclear
				if f.Do == localstack.DoThrottle {
					failed = dlqbridge.ErrThrottled
				}
				for i := range 6 {
					batch = append(batch, text(fmt.Sprint("nine ", i), "cust-9"), text(fmt.Sprint("other ", i), fmt.Sprint("cust-", 10+i)))
					want = append(want, failed, nil)
				}
				began := w.Clock().Now()
				meanings(t, "first", send(t.Context(), d, batch...), want...)
				if took := w.Clock().Now().Sub(began); took > gcppubsub.DefaultCallTimeout {
					t.Errorf("it took %s", took)
				}
				// Settled by whoever sends: surely not out, so it goes again.
				var nine []dlqbridge.Outgoing
				for i := range 6 {
					nine = append(nine, batch[2*i])
				}
				meanings(t, "second", send(t.Context(), d, nine...), make([]error, 6)...)
				got := slices.DeleteFunc(w.arrived("ordered"), func(s string) bool { return strings.HasPrefix(s, "other") })
				if want := []string{"nine 0", "nine 1", "nine 2", "nine 3", "nine 4", "nine 5"}; !slices.Equal(got, want) {
					t.Errorf("arrived %q", got)
				}
			})
		})
	}
}

// C41: a key that hangs holds up no other one, even when there are more keys
// than are sent side by side.
func TestC41AHangingKeyDelaysNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fault(localstack.Fault{Operation: "Publish", Contains: "stuck", Do: localstack.DoBlackHole})
		batch, want := []dlqbridge.Outgoing{text("x", "stuck")}, []error{dlqbridge.ErrUnclear}
		for i := range 50 {
			batch, want = append(batch, text("y", fmt.Sprint("k", i))), append(want, nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		meanings(t, "send", send(ctx, w.destination("orders", ""), batch...), want...)
		if n := len(w.arrived("billing")); n != 50 {
			t.Errorf("%d arrived, want 50", n)
		}
	})
}

// C42: nothing of a key goes out after a message that failed, and each message
// has a known answer.
func TestC42NothingOvertakesAFailedOne(t *testing.T) {
	const first, all = gcppubsub.MaxRequestMessages, 2*gcppubsub.MaxRequestMessages + 500 // three requests
	for name, tt := range map[string]struct {
		fault       localstack.Fault
		failed      error
		heldMeaning error
	}{
		"lost":      {localstack.Fault{Do: localstack.DoDropBefore}, dlqbridge.ErrUnclear, dlqbridge.ErrConflict},
		"throttled": {localstack.Fault{Do: localstack.DoThrottle}, dlqbridge.ErrThrottled, dlqbridge.ErrUnavailable},
		"refused":   {localstack.Fault{Do: localstack.DoError, Code: "FAILED_PRECONDITION"}, dlqbridge.ErrInvalid, dlqbridge.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				batch := make([]dlqbridge.Outgoing, all)
				for i := range batch {
					batch[i] = text(strconv.Itoa(i), "cust-9")
				}
				tt.fault.Operation, tt.fault.Skip = "Publish", 1
				w.fault(tt.fault)
				errs := send(t.Context(), w.destination("orders", ""), batch...)
				meanings(t, "first request", errs[:first], make([]error, first)...)
				meanings(t, "second request", errs[first:2*first], slices.Repeat([]error{tt.failed}, first)...)
				for i, err := range errs[2*first:] {
					if !errors.Is(err, gcppubsub.ErrHeldBack) || !errors.Is(err, tt.heldMeaning) || errors.Is(err, dlqbridge.ErrUnclear) {
						t.Fatalf("message %d: got %v", 2*first+i, err)
					}
				}
				if n := len(w.requests("Publish")); n != 2 {
					t.Errorf("%d requests, want 2", n)
				}
				if n := len(w.arrived("billing")); n != first {
					t.Errorf("%d arrived, want %d", n, first)
				}
			})
		})
	}
}

// A line is cut by the bytes of its requests as well, and arrives in order.
func TestRequestsAreCutByBytes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		big := strings.Repeat("x", 4_900_000) // two fit in a request
		batch := []dlqbridge.Outgoing{text("1"+big, "k"), text("2"+big, "k"), text("3"+big, "k")}
		meanings(t, "send", send(t.Context(), w.destination("orders", ""), batch...), nil, nil, nil)
		if n := len(w.requests("Publish")); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		var order []byte
		for _, body := range w.arrived("billing") {
			order = append(order, body[0])
		}
		if string(order) != "123" {
			t.Errorf("arrived in the order %q", order)
		}
	})
}

// C42: a message that is refused before it is sent holds back what came after
// it in its key, and nothing else.
func TestC42ARefusedOneHoldsItsKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bad := text("bad", "k", "goods", strings.Repeat("x", 1025))
		errs := send(t.Context(), w.destination("orders", ""), text("1", "k"), bad, text("a", ""), text("2", "k"), text("3", "other"))
		meanings(t, "send", errs, nil, dlqbridge.ErrInvalid, nil, gcppubsub.ErrHeldBack, nil)
		got := w.arrived("billing")
		slices.Sort(got)
		if want := []string{"1", "3", "a"}; !slices.Equal(got, want) {
			t.Errorf("arrived %q, want %q", got, want)
		}
	})
}

// C43: one key per request, and the key arrives.
func TestC43OneKeyPerRequest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		batch := []dlqbridge.Outgoing{text("1", "x"), text("2", "y"), text("3", ""), text("4", "x"), text("5", "")}
		meanings(t, "send", send(t.Context(), w.destination("orders", ""), batch...), make([]error, 5)...)
		requests := w.requests("Publish")
		if len(requests) != 3 {
			t.Errorf("%d requests, want 3", len(requests))
		}
		for _, r := range requests {
			keys := map[any]bool{}
			for _, m := range r["messages"].([]any) {
				keys[m.(map[string]any)["orderingKey"]] = true
			}
			if len(keys) != 1 {
				t.Errorf("a request with %d keys", len(keys))
			}
		}
		keys := map[string]string{}
		for _, o := range w.consume("billing") {
			keys[string(o.Payload.Body)] = o.Payload.GroupKey
		}
		equalMaps(t, "keys", keys, map[string]string{"1": "x", "2": "y", "3": "", "4": "x", "5": ""})
	})
}

// C66: a publish that hangs ends in bounded time and in doubt, is made once,
// and a late success stays the only copy.
func TestC66APublishThatHangs(t *testing.T) {
	for name, f := range map[string]localstack.Fault{
		"never answered":           {Do: localstack.DoBlackHole},
		"carried out and cut":      {Do: localstack.DoDropAfter},
		"cut before":               {Do: localstack.DoDropBefore},
		"answered after the limit": {Do: localstack.DoDelay, Ms: 90_000},
		"unavailable":              {Do: localstack.DoError, Code: "UNAVAILABLE"},
		"internal":                 {Do: localstack.DoError, Code: "INTERNAL"},
		"aborted":                  {Do: localstack.DoError, Code: "ABORTED"},
		"unknown":                  {Do: localstack.DoError, Code: "UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				d := w.destination("orders", "")
				f.Operation = "Publish"
				w.fault(f)
				began := w.Clock().Now()
				meanings(t, "send", send(t.Context(), d, text("once", "")), dlqbridge.ErrUnclear)
				if took := w.Clock().Now().Sub(began); took > gcppubsub.DefaultCallTimeout {
					t.Errorf("it took %s", took)
				}
				w.Clock().Advance(10 * time.Minute)
				if n := len(w.requests("Publish")); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
				if got := w.arrived("billing"); len(got) > 1 {
					t.Errorf("arrived %q", got)
				}
			})
		})
	}
}

// What the service refuses is surely not sent, and says why.
func TestSendRefusals(t *testing.T) {
	for code, want := range map[string]error{
		"INVALID_ARGUMENT": dlqbridge.ErrInvalid, "NOT_FOUND": dlqbridge.ErrNotFound, "PERMISSION_DENIED": dlqbridge.ErrDenied,
		"RESOURCE_EXHAUSTED": dlqbridge.ErrThrottled, "FAILED_PRECONDITION": dlqbridge.ErrInvalid, "UNAUTHENTICATED": dlqbridge.ErrCredentials,
	} {
		t.Run(code, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				d := w.destination("orders", "")
				w.fault(localstack.Fault{Operation: "Publish", Do: localstack.DoError, Code: code, Message: "The value hunter2 is not allowed."})
				errs := send(t.Context(), d, text("a", ""), text("b", ""))
				meanings(t, "send", errs, want, want)
				if errors.Is(errs[0], dlqbridge.ErrUnclear) {
					t.Errorf("got %v: it is known that nothing was sent", errs[0])
				}
				// The service quotes what it refuses (I12).
				if code == "INVALID_ARGUMENT" && strings.Contains(errs[0].Error(), "hunter2") {
					t.Errorf("the text quotes the message: %v", errs[0])
				}
				if n := len(w.requests("Publish")); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		})
	}
}

// A request that never had a connection is surely not sent, which one is not
// whose connection went away under it.
func TestWithoutAConnectionNothingIsSent(t *testing.T) {
	for _, how := range []string{"refused", "hanging"} {
		t.Run(how, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				door := bufconn.Listen(1 << 16)
				go w.ServePubSub(door) //nolint:errcheck // it ends with the cloud
				line := &line{dial: door.DialContext}
				conn, err := grpc.NewClient("passthrough:///cloud", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(line.open))
				must(t, err)
				client, err := gcppubsub.NewClient(t.Context(), option.WithGRPCConn(conn), option.WithTelemetryDisabled())
				must(t, err)
				defer conn.Close()
				o := w.options()
				o.Client, o.Topic = client, "orders"
				d, err := gcppubsub.OpenDestination(t.Context(), o)
				must(t, err)
				meanings(t, "before", send(t.Context(), d, text("1", "")), nil)

				line.cut(how == "hanging")
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				for _, err := range send(ctx, d, text("2", ""), text("3", "k")) {
					if !errors.Is(err, dlqbridge.ErrUnavailable) || errors.Is(err, dlqbridge.ErrUnclear) {
						t.Errorf("got %v, want ErrUnavailable", err)
					}
				}
				if got := w.arrived("billing"); !slices.Equal(got, []string{"1"}) {
					t.Errorf("arrived %q", got)
				}
			})
		})
	}
}

// line is a connection that can be cut for good.
type line struct {
	dial func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	conns   []net.Conn
	dead    bool
	hanging bool
}

func (l *line) open(ctx context.Context, _ string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		if l.hanging {
			<-ctx.Done()
		}
		return nil, errors.New("connection refused")
	}
	conn, err := l.dial(ctx)
	l.conns = append(l.conns, conn)
	return conn, err
}

func (l *line) cut(hanging bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead, l.hanging = true, hanging
	for _, c := range l.conns {
		c.Close()
	}
}
