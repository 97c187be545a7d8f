package gocdk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/mempubsub"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/adaptertest"
	"github.com/dlqbridge/dlqbridge/adapters/gocdk"
)

const visibility = 30 * time.Second

// The promises that this adapter cannot keep, whatever the driver.
var differences = adaptertest.Differences{
	TextValues:        "the Go CDK takes metadata in UTF-8 only",
	OneType:           "metadata has no types",
	NoGroups:          "the Go CDK has no ordering keys",
	NoTrace:           "the Go CDK has no trace header; a tracer's own metadata is carried",
	NoMessageID:       "the Go CDK returns no ids",
	UnknownDeliveries: "the Go CDK does not say",
	UnknownTimes:      "the Go CDK does not say",
	UnknownDepth:      "the Go CDK has no counters",
	NoExtension:       "the Go CDK cannot extend the time in hand",
	BlindSettle:       "acknowledgements are made in the background",
	BlindReceive:      "the library receives in the background; what a lost answer held comes again",
	NoEntryFaults:     "requests carry one message",
}

// TestConformance runs over a driver with faults to order.
func TestConformance(t *testing.T) {
	h := adaptertest.Harness{New: newFaulty, Visibility: visibility, Differences: differences}
	adaptertest.DeadLetters(t, h)
	adaptertest.Destination(t, h)
}

// TestConformanceMemory runs over the library's own driver in memory.
func TestConformanceMemory(t *testing.T) {
	adaptertest.DeadLetters(t, inMemory)
	adaptertest.Destination(t, inMemory)
}

func BenchmarkConformance(b *testing.B) { adaptertest.Benchmark(b, inMemory) }

var inMemory = func() adaptertest.Harness {
	d := differences
	d.NoMissing = "mempubsub does not say what the matter is"
	d.NoSizeLimit, d.NoAttributeLimit = "memory has none", "memory has none"
	return adaptertest.Harness{New: newMemory, Visibility: visibility, Differences: d}
}()

func newFaulty(t testing.TB, _ bool) *adaptertest.Setup {
	t.Helper()
	b := newBroker(visibility)
	mux := b.mux()
	s := open(t, mux, gocdk.Options{URL: "test://jobs", MaxBytes: 256 << 10, MaxAttributes: 20}, gocdk.Options{URL: "test://dead"})
	s.Put = func(_ testing.TB, messages ...dlqbridge.Outgoing) {
		for _, m := range messages {
			b.add("dead", m.Payload.Body, metadata(m))
		}
	}
	s.Arrived = func(testing.TB) []dlqbridge.Outgoing {
		b.mu.Lock()
		defer b.mu.Unlock()
		var out []dlqbridge.Outgoing
		for _, m := range b.places["jobs"].messages {
			out = append(out, outgoing(m.Body, m.Metadata))
		}
		return out
	}
	s.MissingPlace = func(ctx context.Context) error {
		d, err := gocdk.Open(ctx, gocdk.Options{URL: "test://nowhere", Mux: mux})
		if err != nil {
			return err
		}
		_, err = d.Receive(ctx, 1, time.Second)
		return errors.Join(err, d.Close(ctx))
	}
	s.MissingDestination = func(ctx context.Context) error {
		d, err := gocdk.OpenDestination(ctx, gocdk.Options{URL: "test://nowhere", Mux: mux})
		if err != nil {
			return err
		}
		err = d.Send(ctx, []dlqbridge.Outgoing{outgoing([]byte("x"), nil)})[0].Err
		return errors.Join(err, d.Close(ctx))
	}
	s.Break = func(_ testing.TB, f adaptertest.Fault) { b.order(f) }
	s.Requests = func(_ testing.TB, c adaptertest.Call) int { return b.count(c) }
	return s
}

func newMemory(t testing.TB, _ bool) *adaptertest.Setup {
	t.Helper()
	const none = "mempubsub makes no faults and counts no requests; the other harness does"
	mux, opener := new(pubsub.URLMux), new(mempubsub.URLOpener)
	mux.RegisterTopic("mem", opener)
	mux.RegisterSubscription("mem", opener)
	dead, err := mux.OpenTopic(t.Context(), "mem://dead")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, mux, gocdk.Options{URL: "mem://jobs"}, gocdk.Options{URL: "mem://dead?ackdeadline=" + visibility.String()})
	worker, err := mux.OpenSubscription(t.Context(), "mem://jobs")
	if err != nil {
		t.Fatal(err)
	}
	s.Put = func(t testing.TB, messages ...dlqbridge.Outgoing) {
		t.Helper()
		for _, m := range messages {
			if err := dead.Send(t.Context(), &pubsub.Message{Body: append([]byte{}, m.Payload.Body...), Metadata: metadata(m)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Arrived = func(t testing.TB) []dlqbridge.Outgoing {
		t.Helper()
		var out []dlqbridge.Outgoing
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			m, err := worker.Receive(ctx)
			cancel()
			if err != nil {
				break
			}
			m.Ack()
			out = append(out, outgoing(m.Body, m.Metadata))
		}
		return out
	}
	s.Break = func(t testing.TB, _ adaptertest.Fault) { t.Helper(); t.Skip(none) }
	s.Requests = func(t testing.TB, _ adaptertest.Call) int { t.Helper(); t.Skip(none); return 0 }
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_ = worker.Shutdown(ctx)
		_ = dead.Shutdown(ctx)
	})
	return s
}

// open opens both sides and closes them with the test.
func open(t testing.TB, mux *pubsub.URLMux, jobs, dead gocdk.Options) *adaptertest.Setup {
	t.Helper()
	jobs.Mux, dead.Mux = mux, mux
	destination, err := gocdk.OpenDestination(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	letters, err := gocdk.Open(t.Context(), dead)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, letters, destination) })
	return &adaptertest.Setup{DeadLetters: letters, Destination: destination}
}

// end closes both sides. The library's goroutine that fetches ahead waits for
// ever to hand over what nobody receives (gocloud.dev v0.46.0), which a bubble
// does not forgive, so the letters are taken first.
func end(t testing.TB, letters *gocdk.DeadLetters, destination *gocdk.Destination) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer cancel()
	for n := 1; n > 0; {
		got, err := letters.Receive(ctx, 1000, time.Second)
		if n = len(got); err != nil {
			break
		}
	}
	_ = letters.Close(ctx)
	_ = destination.Close(ctx)
	if _, bubble := t.(*testing.T); bubble {
		// Drivers that are in the middle of a poll see the end after it.
		<-time.NewTimer(time.Second).C
	}
}

func metadata(o dlqbridge.Outgoing) map[string]string {
	out := map[string]string{}
	for _, a := range o.Payload.Attributes {
		out[a.Name] = string(a.Value)
	}
	return out
}

func outgoing(body []byte, metadata map[string]string) dlqbridge.Outgoing {
	o := dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: body}}
	for name, value := range metadata {
		o.Payload.Attributes = append(o.Payload.Attributes, dlqbridge.Attribute{Name: name, Type: "String", Value: []byte(value)})
	}
	o.Payload.Normalize()
	return o
}
