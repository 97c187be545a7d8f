package pubsub

import "slices"

// lane is a line of messages that go out in their order: those of one
// ordering key, or a single message without one.
type lane struct {
	key         string
	items       []*delivery // what is not done with, in the order of publishing
	next        int         // the first of them that is to be delivered
	outstanding int
	holder      *holder // who has the outstanding ones
	backoff     timer
	in          *laneQueue // where it waits for its turn; nil if nowhere
}

// holder is who gets messages: one pull, or one stream as long as it lasts.
// Messages of a key go to one holder at a time, so that no two can be at work
// on the same key.
type holder struct {
	stream *stream   // nil for a pull
	ready  laneQueue // lanes of which a stream has messages and may have more
}

// deliverable says whether h may have the lane's next message.
func (l *lane) deliverable(h *holder) bool {
	return l.next < len(l.items) && !l.backoff.set && (l.outstanding == 0 || l.holder == h)
}

// cut takes an item out.
func (l *lane) cut(position int) {
	if position == 0 {
		l.items[0] = nil
		l.items = l.items[1:]
	} else {
		l.items = slices.Delete(l.items, position, position+1)
	}
	if position < l.next {
		l.next--
	}
}

// settle puts a lane where it may be taken from after it changed.
func (sub *subscription) settle(l *lane) {
	if l.next >= len(l.items) || l.backoff.set {
		return // if it waits in a queue, its turn passes
	}
	switch {
	case l.outstanding == 0:
		l.holder = nil
		if l.in != &sub.ready {
			sub.ready.push(l)
		}
		sub.notify()
	case l.holder.stream != nil && !l.holder.stream.closed:
		if l.in != &l.holder.ready {
			l.holder.ready.push(l)
		}
		l.holder.stream.waiter.nudge()
	}
}

// laneQueue is a line of lanes. A lane is in one queue at a time; entries that
// have gone to another one, or have nothing to give, pass when it is their turn.
type laneQueue struct {
	lanes []*lane
}

func (q *laneQueue) push(l *lane) {
	l.in = q
	q.lanes = append(q.lanes, l)
}

// front is the first lane from which h may take.
func (q *laneQueue) front(h *holder) *lane {
	for len(q.lanes) > 0 {
		l := q.lanes[0]
		if l.in == q {
			if l.deliverable(h) {
				return l
			}
			l.in = nil
		}
		q.lanes[0] = nil
		q.lanes = q.lanes[1:]
	}
	return nil
}

// leave takes a lane out that front has given.
func (q *laneQueue) leave(l *lane) {
	l.in = nil
	if len(q.lanes) > 0 && q.lanes[0] == l {
		q.lanes[0] = nil
		q.lanes = q.lanes[1:]
	}
}
