package check

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// client is the client that most programs use.
func (b *pubsubBench) client(t *testing.T) *pubsub.Client {
	t.Helper()
	client, err := pubsub.NewClient(context.WithoutCancel(t.Context()), b.Project, b.Options()...)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// receiving bounds a Receive whose messages do not come.
const receiving = time.Minute

// receive calls handle for each message until it has called done.
func (b *pubsubBench) receive(t *testing.T, sub *pubsub.Subscriber, handle func(m *pubsub.Message, done func())) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), receiving)
	defer cancel()
	var complete atomic.Bool
	done := func() { complete.Store(true); cancel() }
	err := sub.Receive(ctx, func(_ context.Context, m *pubsub.Message) { handle(m, done) })
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	if !complete.Load() {
		t.Fatalf("not everything came within %v", receiving)
	}
}

// pubsubReceiveRows use the client's own streams, goroutines and timers.
var pubsubReceiveRows = map[string]func(*pubsubBench, *testing.T){
	"Receive gets more than its flow control lets through at once": func(b *pubsubBench, t *testing.T) {
		const total = 2500
		topic, name := b.both(t, nil)
		for at := 0; at < total; at += 500 {
			var batch []*pubsubpb.PubsubMessage
			for i := range 500 {
				batch = append(batch, text(strconv.Itoa(at+i)))
			}
			b.publish(t, topic, batch...)
		}
		sub := b.client(t).Subscriber(name)
		sub.ReceiveSettings.MaxOutstandingMessages = 1000
		var mu sync.Mutex
		seen := map[string]bool{}
		b.receive(t, sub, func(m *pubsub.Message, done func()) {
			m.Ack()
			mu.Lock()
			defer mu.Unlock()
			seen[string(m.Data)] = true
			if len(seen) == total {
				done()
			}
		})
	},
	"Publisher and Receive keep the order of a key": func(b *pubsubBench, t *testing.T) {
		topic, name := b.both(t, ordered)
		client := b.client(t)
		publisher := client.Publisher(topic)
		defer publisher.Stop()
		publisher.EnableMessageOrdering = true
		publisher.PublishSettings.CountThreshold = 7
		want := numbered(50)
		var results []*pubsub.PublishResult
		for _, body := range want {
			for _, key := range []string{"a", "b"} {
				results = append(results, publisher.Publish(t.Context(), &pubsub.Message{Data: []byte(body), OrderingKey: key}))
			}
		}
		for _, r := range results {
			if _, err := r.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		got := map[string][]string{}
		b.receive(t, client.Subscriber(name), func(m *pubsub.Message, done func()) {
			m.Ack()
			mu.Lock()
			defer mu.Unlock()
			got[m.OrderingKey] = append(got[m.OrderingKey], string(m.Data))
			if len(got["a"]) >= len(want) && len(got["b"]) >= len(want) {
				done()
			}
		})
		for _, key := range []string{"a", "b"} {
			if !slices.Equal(got[key], want) {
				t.Errorf("key %s: got %q", key, got[key])
			}
		}
	},
	"Nack leads to the dead-letter topic": func(b *pubsubBench, t *testing.T) {
		topic, name, dead := b.deadLettered(t, 5, nil)
		client := b.client(t)
		publisher := client.Publisher(topic)
		defer publisher.Stop()
		if _, err := publisher.Publish(t.Context(), &pubsub.Message{Data: []byte("doomed")}).Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var attempts []int
		b.receive(t, client.Subscriber(name), func(m *pubsub.Message, done func()) {
			m.Nack()
			mu.Lock()
			defer mu.Unlock()
			if m.DeliveryAttempt == nil {
				t.Error("no delivery attempt in spite of the policy")
				attempts = append(attempts, 0)
			} else {
				attempts = append(attempts, *m.DeliveryAttempt)
			}
			if len(attempts) == 5 {
				done()
			}
		})
		if !slices.Equal(attempts, []int{1, 2, 3, 4, 5}) {
			t.Errorf("got attempts %v", attempts)
		}
		b.receive(t, client.Subscriber(dead), func(m *pubsub.Message, done func()) {
			if m.DeliveryAttempt != nil {
				t.Errorf("got delivery attempt %d on a subscription without a policy", *m.DeliveryAttempt)
			}
			if m.Attributes["CloudPubSubDeadLetterSourceDeliveryCount"] != "5" || !strings.HasSuffix(name, "/"+m.Attributes["CloudPubSubDeadLetterSourceSubscription"]) {
				t.Errorf("got attributes %v", m.Attributes)
			}
			m.Ack()
			done()
		})
	},
	"AckWithResult knows whether it happened": func(b *pubsubBench, t *testing.T) {
		topic, name := b.both(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true })
		b.publish(t, topic, text("once"))
		sub := b.client(t).Subscriber(name)
		b.receive(t, sub, func(m *pubsub.Message, done func()) {
			if got, err := m.AckWithResult().Get(t.Context()); err != nil || got != pubsub.AcknowledgeStatusSuccess {
				t.Errorf("got %v, %v, want success", got, err)
			}
			done()
		})
		b.wantNone(t, name)
		if b.Advance == nil {
			return
		}
		b.publish(t, topic, text("late"))
		var first sync.Once
		b.receive(t, sub, func(m *pubsub.Message, done func()) {
			late := false
			first.Do(func() { late = true })
			if !late {
				m.Ack()
				done()
				return
			}
			b.Advance(time.Hour) // past every deadline that the client has asked for
			if got, err := m.AckWithResult().Get(t.Context()); err == nil || got != pubsub.AcknowledgeStatusInvalidAckID {
				t.Errorf("got %v, %v, want an invalid ack ID", got, err)
			}
		})
	},
}
