package redrive

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
)

// heldValues is how many values of a list stand in memory; the others are in a
// temporary file. Most lists never have one.
const heldValues = 4096

// List is a list of any length in little memory. Its JSON form is an array.
// Copies share what they hold. It may be read while others add to it: a reader
// sees what was there when it began.
type List[T any] struct {
	of *listed[T]
	// place stands for the list in a document that is written piece by piece.
	place string
}

type listed[T any] struct {
	mu sync.Mutex
	// The first written values are on the tape, the others are held.
	tape    tape
	written int
	encoder *gob.Encoder
	block   bytes.Buffer
	held    []T
}

// ListOf makes a list.
func ListOf[T any](values ...T) List[T] {
	var l List[T]
	for _, v := range values {
		l.Add(v)
	}
	return l
}

// Len is how many values there are.
func (l List[T]) Len() int {
	if l.of == nil {
		return 0
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	return l.of.written + len(l.of.held)
}

// Add adds a value to the end.
func (l *List[T]) Add(v T) {
	if l.of == nil {
		l.of = &listed[T]{}
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.held = append(l.of.held, v)
	if len(l.of.held)%heldValues == 0 {
		l.of.write()
	}
}

// write brings what is held to the tape. If that fails it stays where it is.
func (l *listed[T]) write() {
	if l.tape.broken {
		return
	}
	if l.encoder == nil {
		l.encoder = gob.NewEncoder(&l.block)
	}
	l.block.Reset()
	for _, v := range l.held {
		if err := l.encoder.Encode(v); err != nil {
			l.tape.broken = true // half a value may have been encoded
			return
		}
	}
	if _, ok := l.tape.add(l.block.Bytes()); ok {
		l.written += len(l.held)
		l.held = nil // readers may still look at it
	}
}

// AddAll adds all values of a sequence.
func (l *List[T]) AddAll(values iter.Seq2[T, error]) error {
	for v, err := range values {
		if err != nil {
			return err
		}
		l.Add(v)
	}
	return nil
}

// All yields the values in their order, as often as it is asked. An error ends it.
func (l List[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if l.of == nil {
			return
		}
		l.of.mu.Lock()
		file, written, held := l.of.tape, l.of.written, l.of.held
		l.of.mu.Unlock()
		if written > 0 {
			for v, err := range values[T](&file, 0, file.end, written) {
				if !yield(v, err) || err != nil {
					return
				}
			}
		}
		for _, v := range held {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Slice is the whole list in memory.
func (l List[T]) Slice() ([]T, error) {
	out := []T{}
	for v, err := range l.All() {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l.place != "" {
		return json.Marshal(l.place)
	}
	list, err := l.Slice()
	if err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *List[T]) UnmarshalJSON(text []byte) error {
	var list []T
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read a list: %w", err)
	}
	*l = ListOf(list...)
	return nil
}
