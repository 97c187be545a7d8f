package sqs

import (
	"container/heap"
	"time"
)

// dueHeap orders messages by the time at which their delay or their
// visibility timeout ends.
type dueHeap []*message

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].dueIndex, h[j].dueIndex = i, j
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	m := x.(*message)
	m.dueIndex = len(*h)
	*h = append(*h, m)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	m.dueIndex = -1
	return m
}

// ageHeap orders messages by the start of their retention clock.
type ageHeap []*message

func (h ageHeap) Len() int           { return len(h) }
func (h ageHeap) Less(i, j int) bool { return h[i].enqueued.Before(h[j].enqueued) }
func (h ageHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].ageIndex, h[j].ageIndex = i, j
}

// Push implements heap.Interface.
func (h *ageHeap) Push(x any) {
	m := x.(*message)
	m.ageIndex = len(*h)
	*h = append(*h, m)
}

// Pop implements heap.Interface.
func (h *ageHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	m.ageIndex = -1
	return m
}

// laneHeap orders the lanes that have something to give: in a standard queue
// the lane with the fewest messages in flight first, so that no tenant waits
// behind another's crowd (page "Amazon SQS fair queues"); otherwise by the
// position of the first message.
type laneHeap []*lane

func (h laneHeap) Len() int { return len(h) }
func (h laneHeap) Less(i, j int) bool {
	if h[i].inFlight != h[j].inFlight {
		return h[i].inFlight < h[j].inFlight
	}
	return h[i].messages[0].position < h[j].messages[0].position
}

func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *laneHeap) Push(x any) {
	l := x.(*lane)
	l.index = len(*h)
	*h = append(*h, l)
}

// Pop implements heap.Interface.
func (h *laneHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.index = -1
	return l
}

// settle puts a lane where it belongs after it changed.
func (h *laneHeap) settle(l *lane, available bool) {
	switch {
	case available && l.index < 0:
		heap.Push(h, l)
	case available:
		heap.Fix(h, l.index)
	case l.index >= 0:
		// A lane with nothing to give must not be compared: take it out
		// without looking at its first message.
		h.remove(l)
	}
}

func (h *laneHeap) remove(l *lane) {
	last := len(*h) - 1
	at := l.index
	if at != last {
		h.Swap(at, last)
	}
	h.Pop()
	if at != last {
		heap.Fix(h, at)
	}
}

// earliest is the later wake-up's bound: the first due time, if any.
func (h dueHeap) earliest() (time.Time, bool) {
	if len(h) == 0 {
		return time.Time{}, false
	}
	return h[0].due, true
}
