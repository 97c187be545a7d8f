package pubsub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
)

const (
	topicName = "projects/p/topics/work"
	deadName  = "projects/p/topics/dead"
	subName   = "projects/p/subscriptions/work"
	deadSub   = "projects/p/subscriptions/dead"
)

// yard is a Pub/Sub with a clock that stands still until it is moved.
type yard struct {
	*Service

	clock *clock.Clock
}

func newYard(t *testing.T, alter func(*pubsubpb.Subscription)) *yard {
	t.Helper()
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	c := clock.New(func() time.Time { return start })
	y := &yard{New(c), c}
	for _, name := range []string{topicName, deadName} {
		if _, err := y.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	sub := &pubsubpb.Subscription{Name: subName, Topic: topicName}
	if alter != nil {
		alter(sub)
	}
	for _, in := range []*pubsubpb.Subscription{sub, {Name: deadSub, Topic: deadName}} {
		if _, err := y.CreateSubscription(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	return y
}

func (y *yard) put(t *testing.T, key string, bodies ...string) {
	t.Helper()
	in := &pubsubpb.PublishRequest{Topic: topicName}
	for _, body := range bodies {
		in.Messages = append(in.Messages, &pubsubpb.PubsubMessage{Data: []byte(body), OrderingKey: key})
	}
	if _, err := y.Publish(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

func (y *yard) get(t *testing.T, sub string, most int) []*pubsubpb.ReceivedMessage {
	t.Helper()
	out, err := y.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: int32(most), ReturnImmediately: true}) //nolint:staticcheck // it must not wait
	if err != nil {
		t.Fatal(err)
	}
	return out.GetReceivedMessages()
}

// handed is a message in a receiver's hands.
type handed struct {
	body, key string
	ack       string
	until     time.Time
}

// TestNothingIsLostDoubledOrOutOfOrder does at random what clients do, and
// checks what the service promises after each step: a message in somebody's
// hands is not given to another, the messages of a key come one after the
// other and start again only at one that came before, and in the end each is
// acknowledged or dead, and once.
func TestNothingIsLostDoubledOrOutOfOrder(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			ordering, dying, patient := seed%2 == 0, seed%3 == 0, seed%5 == 0
			y := newYard(t, func(s *pubsubpb.Subscription) {
				s.EnableMessageOrdering = ordering
				s.EnableExactlyOnceDelivery = true // acknowledgements that come too late say so
				if dying {
					s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadName}
				}
				if patient {
					s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second), MaximumBackoff: durationpb.New(time.Minute)}
				}
			})
			var published int
			var hands []handed
			acked := map[string]int{}
			next := map[string]int{} // by key: the number of messages that came in a row
			sent := map[string]int{}
			receive := func(most int) {
				now := y.clock.Now()
				for _, m := range y.get(t, subName, most) {
					body, key := string(m.GetMessage().GetData()), m.GetMessage().GetOrderingKey()
					for _, h := range hands {
						if h.body == body && h.until.After(now) {
							t.Fatalf("%s is given out while it is in somebody's hands", body)
						}
					}
					if ordering {
						var n int
						if _, err := fmt.Sscanf(body, key+"-%d", &n); err != nil {
							t.Fatal(err)
						}
						// Dead ones are skipped, so with those a gap may be.
						if n > next[key] && !dying {
							t.Fatalf("%s comes before number %d of its key", body, next[key])
						}
						next[key] = n + 1
					}
					hands = append(hands, handed{body, key, m.GetAckId(), now.Add(10 * time.Second)})
				}
			}
			settle := func(at int, acknowledge bool) {
				h := hands[at]
				hands = slices.Delete(hands, at, at+1)
				if !acknowledge {
					// A late one is refused, and that is fine.
					_, _ = y.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: subName, AckIds: []string{h.ack}})
					hands = slices.DeleteFunc(hands, func(o handed) bool { return ordering && o.key == h.key }) // dragged along
					return
				}
				if _, err := y.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: subName, AckIds: []string{h.ack}}); err == nil {
					acked[h.body]++
				}
			}
			for range 400 {
				switch roll := random.IntN(10); {
				case roll < 3 && published < 100:
					key := string(rune('a' + random.IntN(3)))
					var bodies []string
					for range 1 + random.IntN(3) {
						bodies = append(bodies, fmt.Sprintf("%s-%d", key, sent[key]))
						sent[key]++
						published++
					}
					y.put(t, key, bodies...)
				case roll < 6:
					receive(1 + random.IntN(5))
				case roll < 8 && len(hands) > 0:
					settle(random.IntN(len(hands)), true)
				case roll == 8 && len(hands) > 0:
					settle(random.IntN(len(hands)), false)
				default:
					y.clock.Advance(time.Duration(random.IntN(5)) * time.Second)
				}
			}
			dead := map[string]int{}
			for range 1000 {
				y.clock.Advance(time.Second)
				receive(10)
				for len(hands) > 0 {
					settle(0, true)
				}
				for _, m := range y.get(t, deadSub, 10) {
					dead[string(m.GetMessage().GetData())]++
					if _, err := y.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: deadSub, AckIds: []string{m.GetAckId()}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for key, n := range sent {
				for i := range n {
					body := fmt.Sprintf("%s-%d", key, i)
					// With ordering an acknowledgement before its turn may have
					// been taken back, so that there are more than one.
					if total := acked[body] + dead[body]; total == 0 || (!ordering && total != 1) || dead[body] > 1 {
						t.Errorf("%s is acknowledged %d times and dead %d times", body, acked[body], dead[body])
					}
				}
			}
			sub := y.subscriptions[subName]
			if len(sub.log) != 0 || len(sub.lanes) != 0 || len(sub.held) != 0 || len(y.timers) != 0 || sub.settled != 0 {
				t.Errorf("left behind: %d in the log, %d lanes, %d held, %d timers, %d settled", len(sub.log), len(sub.lanes), len(sub.held), len(y.timers), sub.settled)
			}
		})
	}
}

func TestAckIDsAreTheirSubscriptions(t *testing.T) {
	var a, b ackKey
	b[0] = 1
	id := a.id(7)
	if n, ok := a.number(id); !ok || n != 7 {
		t.Errorf("got %d, %v", n, ok)
	}
	for _, bad := range []string{"", "x", id[1:], id + "A", b.id(7), "!" + id[1:], "A" + id[:len(id)-1]} {
		if _, ok := a.number(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
	if len(id) < 140 {
		t.Errorf("an ack ID has %d characters, fewer than a real one", len(id))
	}
}

func TestBackoffDoubles(t *testing.T) {
	policy := &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(10 * time.Second), MaximumBackoff: durationpb.New(10 * time.Minute)}
	for failures, want := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 6: 320 * time.Second, 7: 10 * time.Minute, 100: 10 * time.Minute} {
		if got := backoff(policy, failures); got != want {
			t.Errorf("%d failures: got %v, want %v", failures, got, want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, text := range []string{`attributes:a`, `attributes.a = "b"`, `NOT (hasPrefix(attributes."x y", "\u0065") OR -attributes:b)`, `"`, `attributes.a = "\`, `-`} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if match, err := compileFilter(text); err == nil {
			match(map[string]string{"a": "b"})
		}
	})
}
