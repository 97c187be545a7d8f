package pubsub

import (
	"container/heap"
	"time"
)

// timer is something that happens at a time of the cloud's clock: an
// acknowledgement deadline or the end of a backoff.
type timer struct {
	at    time.Time
	order uint64 // of timers for the same time, the lower goes first
	fire  func(at time.Time)
	index int
	set   bool
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}

// start sets a timer, or sets it anew.
func (s *Service) start(t *timer, at time.Time) {
	t.at = at
	if t.set {
		heap.Fix(&s.timers, t.index)
	} else {
		t.set = true
		heap.Push(&s.timers, t)
	}
	if t.index == 0 {
		// Those who sleep until a later time would be late.
		for w := range s.waiters {
			w.nudge()
		}
	}
}

// stop takes a timer back; it may have been taken back already.
func (s *Service) stop(t *timer) {
	if t.set {
		heap.Remove(&s.timers, t.index)
		t.set = false
	}
}
