package pubsub

import (
	"cmp"
	"context"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// Seek implements pubsubpb.SubscriberServer, to a time: what was published
// before it is acknowledged, what was published since and is retained comes
// again (page "Replay and purge messages with seek").
func (s *Service) Seek(_ context.Context, in *pubsubpb.SeekRequest) (*pubsubpb.SeekResponse, error) {
	if err := known(in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tick()
	sub, err := s.consumable(in.GetSubscription(), now)
	if err != nil {
		return nil, err
	}
	switch target := in.GetTarget().(type) {
	case *pubsubpb.SeekRequest_Time:
		if target.Time.CheckValid() != nil {
			return nil, invalid("Invalid seek time given.")
		}
		sub.seek(target.Time.AsTime(), now)
	case *pubsubpb.SeekRequest_Snapshot:
		return nil, unserved("seeking to a snapshot")
	default:
		return nil, invalid("A seek needs a time or a snapshot.")
	}
	return &pubsubpb.SeekResponse{}, nil
}

func (sub *subscription) seek(to, now time.Time) {
	sub.expire(now)
	sub.recall(now)
	var again []*delivery
	changed := map[*lane]bool{}
	for _, d := range slices.Clone(sub.log) {
		switch before := d.published.Before(to); {
		case before && d.state != finished:
			sub.drop(d)
		case !before && d.state == finished && sub.retains():
			again = append(again, d)
		}
	}
	for _, d := range again {
		sub.settled--
		d.attempts, d.failures = 0, 0
		sub.line(d)
		if d.lane.key != "" {
			changed[d.lane] = true
		}
	}
	for l := range changed {
		// What comes again belongs before what is there, so the whole key
		// starts anew, in its order.
		for _, d := range l.items {
			if d.state == outstanding {
				sub.release(d)
			}
			d.state = waiting
		}
		slices.SortFunc(l.items, func(a, b *delivery) int { return cmp.Compare(a.number, b.number) })
		l.next = 0
		sub.settle(l)
	}
}

// recall takes what the topic retains and the subscription has not, from
// before it was made, into the log as done with.
func (sub *subscription) recall(now time.Time) {
	if sub.topic == nil || sub.topic.retention() == 0 {
		return
	}
	sub.topic.expire(now)
	have := map[*message]bool{}
	for _, d := range sub.log {
		have[d.message] = true
	}
	for _, m := range sub.topic.retained {
		if have[m] || !sub.match(m.proto.GetAttributes()) {
			continue
		}
		d := &delivery{message: m, state: finished}
		sub.prepare(d)
		sub.log = append(sub.log, d)
		sub.settled++
	}
	slices.SortFunc(sub.log, func(a, b *delivery) int { return cmp.Compare(a.number, b.number) })
}
