package check

import (
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

func ordered(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true }

var pubsubOrderRows = map[string]func(*pubsubBench, *testing.T){
	"messages of a key come in their order": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, ordered)
		want := numbered(20)
		for _, body := range want {
			b.publish(t, topic, keyed("k", body))
		}
		var got []string
		for len(got) < len(want) {
			some := b.pull(t, sub, 1)
			got = append(got, bodies(some)...)
			b.ack(t, sub, some...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	},
	"what fails brings the later ones of its key again": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, ordered)
		b.publish(t, topic, keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		got := b.pull(t, sub, 3)
		wantBodies(t, got, "1", "2", "3")
		b.ack(t, sub, got[0])
		b.modify(t, sub, 0, got[1])
		wantBodies(t, b.pull(t, sub, 2), "2", "3")
	},
	"what is acknowledged too early comes again with what it followed": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, ordered)
		b.publish(t, topic, keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		got := b.pull(t, sub, 3)
		b.ack(t, sub, got[1])
		b.modify(t, sub, 0, got[0])
		again := b.pull(t, sub, 3)
		wantBodies(t, again, "1", "2", "3")
		b.ack(t, sub, again[2], again[1])
		b.ack(t, sub, again[0])
		b.pass(t, 11*time.Second)
		b.wantNone(t, sub)
	},
	"a key is in one pull's hands at a time": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, ordered)
		b.publish(t, topic, keyed("k", "1"))
		first := b.pull(t, sub, 1)
		b.publish(t, topic, keyed("k", "2"))
		b.publish(t, topic, keyed("other", "o"))
		wantBodies(t, b.pull(t, sub, 1), "o")
		b.wantNone(t, sub)
		b.ack(t, sub, first...)
		wantBodies(t, b.pull(t, sub, 1), "2")
	},
	"a missed deadline holds up its key and no other": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, func(s *pubsubpb.Subscription) {
			s.EnableMessageOrdering = true
			s.RetryPolicy = retry(time.Minute, time.Minute)
		})
		b.publish(t, topic, keyed("k", "1"), keyed("k", "2"))
		b.pull(t, sub, 2)
		b.pass(t, 11*time.Second)
		b.publish(t, topic, keyed("other", "o"))
		wantBodies(t, b.pull(t, sub, 1), "o")
		b.wantNone(t, sub)
		b.pass(t, time.Minute)
		wantBodies(t, b.pull(t, sub, 2), "1", "2")
	},
	"a dead letter lets the later ones of its key go on": func(b *pubsubBench, t *testing.T) {
		topic, sub, dead := b.deadLettered(t, 5, ordered)
		b.publish(t, topic, keyed("k", "bad"), keyed("k", "good"))
		for range 5 {
			got := b.pull(t, sub, 1)
			wantBodies(t, got, "bad")
			b.modify(t, sub, 0, got...)
		}
		wantBodies(t, b.pull(t, sub, 1), "good")
		wantBodies(t, b.pull(t, dead, 1), "bad")
	},
	"without ordering a key holds up nothing": func(b *pubsubBench, t *testing.T) {
		topic, sub := b.both(t, nil)
		b.publish(t, topic, keyed("k", "1"), keyed("k", "2"))
		b.pull(t, sub, 1)
		b.pull(t, sub, 1)
	},
}
