package pubsub

import (
	"crypto/rand"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
)

// subscription is what is left to deliver of a topic. The service's lock
// protects it.
type subscription struct {
	service *Service
	name    string
	key     ackKey
	config  *pubsubpb.Subscription // replaced whole, never changed
	topic   *topic                 // nil once it is deleted or detached from
	match   func(attributes map[string]string) bool

	lanes   map[string]*lane // by ordering key
	ready   laneQueue        // the lanes that anybody may have
	log     []*delivery      // in the order of publishing: all that is held or retained
	settled int              // how many in the log are done with
	held    map[uint64]*delivery
	done    recentAcks

	waiters map[*waiter]struct{}
	streams int
	active  time.Time // when it was last used, for its expiration
	gone    bool
}

// state is where a message is in its life in a subscription.
type state int

const (
	waiting     state = iota // to be delivered, at once or after a backoff
	outstanding              // delivered, and neither acknowledged nor given up
	early                    // acknowledged before an earlier one of its key
	finished                 // acknowledged, forwarded, expired or filtered by seek
)

// delivery is one message in one subscription.
type delivery struct {
	*message

	lane     *lane
	state    state
	deadline timer
	ack      uint64 // the number in the current ack ID while outstanding
	stream   *stream
	failures int // rejections and missed deadlines, for the backoff
	attempts int // the same since there is a dead-letter policy
}

func newSubscription(s *Service, config *pubsubpb.Subscription, t *topic, match func(map[string]string) bool, now time.Time) *subscription {
	sub := &subscription{
		service: s, name: config.GetName(), config: config, topic: t, match: match,
		lanes: map[string]*lane{}, held: map[uint64]*delivery{}, waiters: map[*waiter]struct{}{}, active: now,
	}
	rand.Read(sub.key[:])
	return sub
}

// change replaces the configuration by an altered copy: others may still be
// reading the old one.
func (sub *subscription) change(alter func(*pubsubpb.Subscription)) {
	changed := proto.Clone(sub.config).(*pubsubpb.Subscription)
	alter(changed)
	sub.config = changed
}

// notify makes everybody who waits for the subscription look again.
func (sub *subscription) notify() {
	for w := range sub.waiters {
		w.nudge()
	}
}

// expired says whether the subscription's own expiration has come.
func (sub *subscription) expired(now time.Time) bool {
	ttl := sub.config.GetExpirationPolicy().GetTtl()
	return ttl != nil && sub.streams == 0 && len(sub.waiters) == 0 && !now.Before(sub.active.Add(ttl.AsDuration()))
}

// retention is how long after its publishing a message is held or can be
// sought. The topic's own retention holds for all of its subscriptions.
func (sub *subscription) retention() time.Duration {
	own := sub.config.GetMessageRetentionDuration().AsDuration()
	return max(own, sub.config.GetTopicMessageRetentionDuration().AsDuration())
}

// retains says whether acknowledged messages can be sought.
func (sub *subscription) retains() bool {
	return sub.config.GetRetainAckedMessages() || sub.config.GetTopicMessageRetentionDuration() != nil
}

// add takes a published message in.
func (sub *subscription) add(m *message) {
	d := &delivery{message: m}
	sub.prepare(d)
	sub.log = append(sub.log, d)
	sub.line(d)
}

func (sub *subscription) prepare(d *delivery) {
	d.deadline.order = d.number
	d.deadline.fire = func(at time.Time) { sub.fail(d, at) }
}

// line puts a message at the end of the lane it belongs to.
func (sub *subscription) line(d *delivery) {
	key := ""
	if sub.config.GetEnableMessageOrdering() {
		key = d.proto.GetOrderingKey()
	}
	l := sub.lanes[key]
	if key == "" || l == nil {
		l = &lane{key: key}
		l.backoff.order = d.number
		l.backoff.fire = func(time.Time) { sub.settle(l) }
		if key != "" {
			sub.lanes[key] = l
		}
	}
	d.lane, d.state = l, waiting
	l.items = append(l.items, d)
	sub.settle(l)
}

// take gives messages to a holder, at most so many and, beyond the first, so
// many bytes.
func (sub *subscription) take(now time.Time, h *holder, most, bytes int, deadline time.Duration) []*delivery {
	sub.expire(now)
	var got []*delivery
	for len(got) < most {
		l := h.ready.front(h)
		if l == nil {
			l = sub.ready.front(h)
		}
		if l == nil {
			return got
		}
		before := len(got)
		full := false
		for len(got) < most && !full && l.deliverable(h) {
			d := l.items[l.next]
			if bytes -= d.size; bytes < 0 && len(got) > 0 {
				full = true
				break
			}
			l.next++
			sub.hold(d, h, now.Add(deadline))
			got = append(got, d)
		}
		if len(got) > before {
			l.in.leave(l)
			sub.settle(l)
		}
		if full {
			return got
		}
	}
	return got
}

// hold marks a message as delivered.
func (sub *subscription) hold(d *delivery, h *holder, until time.Time) {
	s := sub.service
	s.acks++
	d.state, d.ack, d.stream = outstanding, s.acks, h.stream
	sub.held[d.ack] = d
	s.start(&d.deadline, until)
	d.lane.outstanding++
	d.lane.holder = h
	if d.stream != nil {
		d.stream.messages++
		d.stream.bytes += d.size
	}
}

// release ends a delivery, however it went.
func (sub *subscription) release(d *delivery) {
	delete(sub.held, d.ack)
	d.ack = 0
	sub.service.stop(&d.deadline)
	d.lane.outstanding--
	if d.stream != nil {
		d.stream.messages--
		d.stream.bytes -= d.size
		// Flow control may have held the stream back, and the message may have
		// been acknowledged by a call beside the stream.
		d.stream.waiter.nudge()
		d.stream = nil
	}
}

// acknowledge is done with a message. One of an ordering key counts only when
// those before it do (page "Order messages").
func (sub *subscription) acknowledge(d *delivery) {
	l := d.lane // finishing forgets it
	sub.done.add(d.ack)
	sub.release(d)
	d.state = early
	sub.shorten(l)
	sub.settle(l)
}

// shorten takes what is acknowledged off the front of a lane.
func (sub *subscription) shorten(l *lane) {
	for len(l.items) > 0 && l.items[0].state == early {
		sub.finish(l.items[0])
		l.cut(0)
	}
	if len(l.items) == 0 && sub.lanes[l.key] == l {
		delete(sub.lanes, l.key)
	}
}

// finish is the end of a message in this subscription. It stays in the log for
// a seek if acknowledged messages are retained, or until its turn comes.
func (sub *subscription) finish(d *delivery) {
	d.state = finished
	d.lane = nil
	sub.settled++
	if !sub.retains() {
		sub.trim()
	}
}

// trim takes what is done with out of the log: off its front always, out of
// its middle when it has become most of it.
func (sub *subscription) trim() {
	for len(sub.log) > 0 && sub.log[0].state == finished {
		sub.log[0] = nil
		sub.log = sub.log[1:]
		sub.settled--
	}
	if sub.settled > 1000 && sub.settled > len(sub.log)/2 {
		sub.log = slices.DeleteFunc(sub.log, func(d *delivery) bool { return d.state == finished })
		sub.settled = 0
	}
}

// fail is a rejection or a missed deadline: the message comes again, with all
// later ones of its key, or goes to the dead-letter topic.
func (sub *subscription) fail(d *delivery, at time.Time) {
	l := d.lane
	sub.release(d)
	d.state = waiting
	d.failures++
	position := slices.Index(l.items, d)
	if policy := sub.config.GetDeadLetterPolicy(); policy != nil {
		d.attempts++
		if d.attempts >= int(policy.GetMaxDeliveryAttempts()) && sub.service.forward(sub, d, at) {
			sub.finish(d)
			l.cut(position)
			sub.shorten(l)
			sub.settle(l)
			return
		}
	}
	for _, later := range l.items[position:] {
		// Also acknowledged ones (page "Order messages", redelivery).
		if later.state == outstanding {
			sub.release(later)
		}
		later.state = waiting
	}
	l.next = position
	if wait := backoff(sub.config.GetRetryPolicy(), d.failures); wait > 0 {
		sub.service.start(&l.backoff, at.Add(wait))
	}
	sub.settle(l)
}

// backoff grows from the minimum by doubling up to the maximum: with 10 s and
// 600 s it is 10, 20, 40 … 600 s. Without a policy there is none.
func backoff(policy *pubsubpb.RetryPolicy, failures int) time.Duration {
	if policy == nil {
		return 0
	}
	wait, most := policy.GetMinimumBackoff().AsDuration(), policy.GetMaximumBackoff().AsDuration()
	for range failures - 1 {
		if wait *= 2; wait >= most {
			return most
		}
	}
	return min(wait, most)
}

// expire drops what is older than the retention.
func (sub *subscription) expire(now time.Time) {
	retention := sub.retention()
	for len(sub.log) > 0 {
		d := sub.log[0]
		if d.state != finished {
			if d.published.Add(retention).After(now) {
				return
			}
			sub.drop(d)
		} else if sub.retains() && d.published.Add(retention).After(now) {
			return
		}
		if len(sub.log) > 0 && sub.log[0] == d {
			sub.log[0] = nil
			sub.log = sub.log[1:]
			sub.settled--
		}
	}
}

// drop takes a message out whatever its state.
func (sub *subscription) drop(d *delivery) {
	l := d.lane
	if d.state == outstanding {
		sub.release(d)
	}
	position := slices.Index(l.items, d)
	sub.finish(d)
	l.cut(position)
	sub.shorten(l)
	sub.settle(l)
}

// clear drops everything.
func (sub *subscription) clear() {
	for _, d := range sub.log {
		if d.state == outstanding {
			sub.release(d)
		}
		if d.lane != nil {
			sub.service.stop(&d.lane.backoff)
			d.lane.items, d.lane.next = nil, 0
		}
		d.state, d.lane = finished, nil
	}
	sub.log, sub.settled = nil, 0
	sub.lanes = map[string]*lane{}
	sub.ready = laneQueue{}
}

// forgetAttempts starts the count of deliveries anew: without a dead-letter
// policy there is none (the proto, ReceivedMessage.delivery_attempt).
func (sub *subscription) forgetAttempts() {
	for _, d := range sub.log {
		d.attempts = 0
	}
}
