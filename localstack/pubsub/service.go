// Package pubsub is the local cloud's Google Pub/Sub: topics and pull
// subscriptions with dead-letter topics, ordering keys, filters, exactly-once
// delivery and seeking, strict where the service is strict.
//
// Sources, read in November 2026: the comments of google/pubsub/v1/pubsub.proto
// ("the proto"), the Pub/Sub documentation (pages "Handle message failures",
// "Order messages", "Exactly-once delivery", "Filter messages from a
// subscription", "Replay and purge messages with seek", "Quotas and limits"),
// and the wording of refusals as public issue threads show it. Where a comment
// names a page, it is one of these.
package pubsub

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
)

// Service is the Pub/Sub of all projects. It implements both services of the
// v1 API. Calls may be concurrent.
type Service struct {
	pubsubpb.UnimplementedPublisherServer
	pubsubpb.UnimplementedSubscriberServer

	clock *clock.Clock

	// One lock for everything: a missed deadline on one subscription publishes
	// to a topic of others, and a call holds it for microseconds.
	mu            sync.Mutex
	topics        map[string]*topic
	subscriptions map[string]*subscription
	timers        timerHeap
	waiters       map[*waiter]struct{}
	messages      uint64 // the number of the last message
	acks          uint64 // the number of the last delivery
	firstID       uint64 // message IDs count from here
}

var (
	_ pubsubpb.PublisherServer  = (*Service)(nil)
	_ pubsubpb.SubscriberServer = (*Service)(nil)
)

// New returns a Pub/Sub without topics that lives by c.
func New(c *clock.Clock) *Service {
	var random [4]byte
	rand.Read(random[:])
	return &Service{
		clock:         c,
		topics:        map[string]*topic{},
		subscriptions: map[string]*subscription{},
		waiters:       map[*waiter]struct{}{},
		// As long as the real ones, and different in each cloud, so that no
		// test can know an ID beforehand.
		firstID: 10_000_000_000_000_000 + uint64(binary.BigEndian.Uint32(random[:]))*1_000_000,
	}
}

// Register adds both services to a server.
func (s *Service) Register(server grpc.ServiceRegistrar) {
	pubsubpb.RegisterPublisherServer(server, s)
	pubsubpb.RegisterSubscriberServer(server, s)
}

// tick brings everything to the present: deadlines that were missed, backoffs
// that are over. The caller holds the lock.
func (s *Service) tick() time.Time {
	now := s.clock.Now()
	for len(s.timers) > 0 && !s.timers[0].at.After(now) {
		due := s.timers[0]
		at := due.at
		s.stop(due)
		due.fire(at)
	}
	return now
}

// waiter is a pull or a stream that waits for something to happen.
type waiter struct {
	nudged chan struct{}
}

// nudge makes the waiter look again, now or when it next begins to wait.
func (w *waiter) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default:
	}
}

// enlist counts a waiter in at a subscription; dismiss takes it out.
func (s *Service) enlist(sub *subscription) *waiter {
	w := &waiter{nudged: make(chan struct{}, 1)}
	s.waiters[w] = struct{}{}
	sub.waiters[w] = struct{}{}
	return w
}

func (s *Service) dismiss(sub *subscription, w *waiter) {
	delete(s.waiters, w)
	delete(sub.waiters, w)
}

// sleep gives the lock away until the waiter is nudged, the next timer is due
// or until has come. It returns ctx's error if that ends first.
func (s *Service) sleep(ctx context.Context, w *waiter, until time.Time) error {
	// Whoever waits also keeps time: there is no other clockwork, so that a
	// cloud without calls has no goroutines.
	if len(s.timers) > 0 && s.timers[0].at.Before(until) {
		until = s.timers[0].at
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.clock.Wait(ctx, until, w.nudged)
}
