package sqs

import (
	"container/heap"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"
)

// state is where a message is in its life.
type state int

const (
	delayed  state = iota // sent, and not yet to be seen
	ready                 // can be received
	inFlight              // received, and neither deleted nor timed out
	gone                  // deleted, expired, purged or moved away
)

// queue is one queue. The service's lock protects it.
type queue struct {
	settings
	id       uint64 // in receipt handles: a handle of another queue is none of ours
	name     string
	created  time.Time
	modified time.Time
	tags     map[string]string
	purged   time.Time

	byID   map[string]*message
	lanes  map[string]*lane
	open   laneHeap // the lanes that have something to give
	dues   dueHeap
	ages   ageHeap
	counts [3]int // messages that are delayed, ready, inFlight

	recent   map[string]sent    // FIFO: deduplication keys of the last five minutes
	sweepAt  int                // how many of them may pile up before the old ones are swept
	attempts map[string]attempt // FIFO: receive attempts that may be repeated

	waiters int
	wake    chan struct{} // closed and replaced when waiting receives must look again
	removed bool
}

// lane is a message group; messages without a group share the lane "".
// A standard queue's lane holds its ready messages in the order they became
// ready; a FIFO queue's lane holds all of its messages in the order they were
// sent, because those that cannot be received block those behind them.
type lane struct {
	group    string
	messages []*message
	members  int // messages in any state
	inFlight int
	index    int // in queue.open, -1 outside
}

func newQueue(name string, settings settings, now time.Time) *queue {
	var id [8]byte
	rand.Read(id[:])
	return &queue{
		settings: settings,
		id:       binary.BigEndian.Uint64(id[:]),
		name:     name,
		created:  now,
		modified: now,
		tags:     map[string]string{},
		byID:     map[string]*message{},
		lanes:    map[string]*lane{},
		recent:   map[string]sent{},
		attempts: map[string]attempt{},
		wake:     make(chan struct{}),
	}
}

func (q *queue) arn() string { return arnPrefix + q.name }

// notify makes every waiting receive look again.
func (q *queue) notify() {
	if q.waiters > 0 {
		close(q.wake)
		q.wake = make(chan struct{})
	}
}

// tick brings the queue to the present, and what move tasks bring to it.
func (q *queue) tick(s *Service, now time.Time) {
	s.runMoves(now)
	q.expire(s, now)
}

// expire ends delays and visibility timeouts that are over and takes out the
// messages that are too old.
func (q *queue) expire(s *Service, now time.Time) {
	for len(q.dues) > 0 && !q.dues[0].due.After(now) {
		q.makeReady(s, q.dues[0])
	}
	retention := time.Duration(q.retention) * time.Second
	for len(q.ages) > 0 && !q.ages[0].enqueued.Add(retention).After(now) {
		q.remove(q.ages[0])
	}
}

// add puts a message into the queue, visible at due.
func (q *queue) add(s *Service, m *message, due, now time.Time) {
	s.order++
	m.position = s.order
	m.dueIndex, m.ageIndex = -1, -1
	l, exists := q.lanes[m.group]
	if !exists {
		l = &lane{group: m.group, index: -1}
		q.lanes[m.group] = l
	}
	m.lane = l
	l.members++
	q.byID[m.id] = m
	heap.Push(&q.ages, m)
	later := due.After(now)
	if later {
		m.state, m.due = delayed, due
		heap.Push(&q.dues, m)
	} else {
		m.state = ready
	}
	q.counts[m.state]++
	if q.fifo || !later {
		l.messages = append(l.messages, m)
	}
	q.settle(l)
	q.notify()
}

// makeReady ends a message's delay or visibility timeout.
func (q *queue) makeReady(s *Service, m *message) {
	if m.dueIndex >= 0 {
		heap.Remove(&q.dues, m.dueIndex)
	}
	q.counts[m.state]--
	if m.state == inFlight {
		m.lane.inFlight--
	}
	m.state = ready
	q.counts[ready]++
	if !q.fifo {
		// Behind those that wait already: a message that keeps failing must
		// not keep the others from their turn.
		s.order++
		m.position = s.order
		m.lane.messages = append(m.lane.messages, m)
	}
	q.settle(m.lane)
}

// takeOut marks a ready message as received. The caller settles the lane.
func (q *queue) takeOut(m *message, until time.Time) {
	if !q.fifo {
		m.lane.drop(m)
	}
	q.counts[ready]--
	q.counts[inFlight]++
	m.state = inFlight
	m.lane.inFlight++
	m.due = until
	heap.Push(&q.dues, m)
}

// postpone changes when a message in flight becomes visible again.
func (q *queue) postpone(m *message, until time.Time) {
	m.due = until
	heap.Fix(&q.dues, m.dueIndex)
	q.notify()
}

// remove takes a message out of the queue for good.
func (q *queue) remove(m *message) {
	if m.dueIndex >= 0 {
		heap.Remove(&q.dues, m.dueIndex)
	}
	heap.Remove(&q.ages, m.ageIndex)
	delete(q.byID, m.id)
	q.counts[m.state]--
	if m.state == inFlight {
		m.lane.inFlight--
	}
	if q.fifo || m.state == ready {
		m.lane.drop(m)
	}
	m.state = gone
	m.lane.members--
	q.settle(m.lane)
	if q.fifo {
		q.notify() // the group may be free now
	}
}

// settle puts a lane in or out of the open ones, and forgets it when nothing
// is left of it.
func (q *queue) settle(l *lane) {
	available := len(l.messages) > 0
	if q.fifo {
		// A group gives nothing while any of its messages is in flight
		// (page "FIFO delivery logic").
		available = available && l.inFlight == 0 && l.messages[0].state == ready
	}
	q.open.settle(l, available)
	// Not if the group has got a new lane meanwhile.
	if l.members == 0 && q.lanes[l.group] == l {
		delete(q.lanes, l.group)
	}
}

// drop takes m out of the lane; it is nearly always at the front.
func (l *lane) drop(m *message) {
	at := slices.Index(l.messages, m)
	switch {
	case at < 0:
	case at == 0:
		l.messages[0] = nil
		l.messages = l.messages[1:]
	default:
		l.messages = slices.Delete(l.messages, at, at+1)
	}
}
