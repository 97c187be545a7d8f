package redrive

import (
	"bytes"
	"container/heap"
	"encoding/gob"
	"iter"
	"slices"
)

// sortedAtOnce is how many values are sorted in memory: some 6 MB of candidates.
const sortedAtOnce = 16_384

// sorter brings any number of values into order in little memory: so many at a
// time are sorted and put on a tape, and all of those are merged as they are read.
type sorter[T any] struct {
	compare func(a, b T) int
	tape    tape
	runs    []sortedRun[T]
	held    []T
	n       int
}

// sortedRun is a sorted part: on the tape, or in memory where there is none.
type sortedRun[T any] struct {
	from, to int64
	n        int
	held     []T
}

func (s *sorter[T]) add(v T) {
	s.n++
	if s.held = append(s.held, v); len(s.held) == sortedAtOnce {
		s.flush()
	}
}

// flush makes a run of what is held.
func (s *sorter[T]) flush() {
	slices.SortFunc(s.held, s.compare)
	run := sortedRun[T]{n: len(s.held), held: s.held}
	s.held = nil
	var block bytes.Buffer
	encoder := gob.NewEncoder(&block)
	for _, v := range run.held {
		if s.tape.broken || encoder.Encode(v) != nil {
			s.runs = append(s.runs, run)
			return
		}
	}
	if from, ok := s.tape.add(block.Bytes()); ok {
		run.from, run.to, run.held = from, from+int64(block.Len()), nil
	}
	s.runs = append(s.runs, run)
}

func (s *sorter[T]) values(run sortedRun[T]) iter.Seq2[T, error] {
	if run.held != nil {
		return each(run.held)
	}
	return values[T](&s.tape, run.from, run.to, run.n)
}

// all yields the values in order, as often as it is asked. Nothing may be added
// after it. An error ends it.
func (s *sorter[T]) all() iter.Seq2[T, error] {
	slices.SortFunc(s.held, s.compare)
	return func(yield func(T, error) bool) {
		if len(s.runs) == 0 {
			each(s.held)(yield)
			return
		}
		m := merge[T]{compare: s.compare}
		defer m.stop()
		for _, run := range append(slices.Clip(s.runs), sortedRun[T]{n: len(s.held), held: s.held}) {
			if run.n == 0 {
				continue
			}
			next, stop := iter.Pull2(s.values(run))
			m.heads = append(m.heads, &head[T]{next: next, stop: stop})
			if err := m.heads[len(m.heads)-1].advance(); err != nil {
				var none T
				yield(none, err)
				return
			}
		}
		heap.Init(&m)
		for len(m.heads) > 0 {
			first := m.heads[0]
			if !yield(first.value, nil) {
				return
			}
			switch err := first.advance(); {
			case err != nil:
				var none T
				yield(none, err)
				return
			case first.ended:
				first.stop()
				heap.Pop(&m)
			default:
				heap.Fix(&m, 0)
			}
		}
	}
}

// merge is a heap of sorted runs, the one with the first value on top.
type merge[T any] struct {
	compare func(a, b T) int
	heads   []*head[T]
}

type head[T any] struct {
	next  func() (T, error, bool)
	stop  func()
	value T
	ended bool
}

func (h *head[T]) advance() error {
	v, err, ok := h.next()
	h.value, h.ended = v, !ok
	return err
}

func (m *merge[T]) stop() {
	for _, h := range m.heads {
		h.stop()
	}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *merge[T]) Len() int           { return len(m.heads) }
func (m *merge[T]) Less(i, j int) bool { return m.compare(m.heads[i].value, m.heads[j].value) < 0 }
func (m *merge[T]) Swap(i, j int)      { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }

// Push implements heap.Interface.
func (m *merge[T]) Push(x any) { m.heads = append(m.heads, x.(*head[T])) } //nolint:forcetypeassert // only heads are pushed

// Pop implements heap.Interface.
func (m *merge[T]) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}
