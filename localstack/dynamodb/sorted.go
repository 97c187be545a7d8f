package dynamodb

import (
	"iter"
	"slices"
	"strings"
)

// blockSize is the most rows in a block of a sorted list: small enough that an
// insert moves little, large enough that a table has few blocks.
const blockSize = 512

// row is one item (or one index entry) under the key that orders it. Rows are
// never changed, only replaced.
type row struct {
	key  string // order-preserving bytes of the key attributes
	item Item
	size int // of the item, in bytes
}

// sorted keeps rows in the order of their keys, in blocks, so that inserting
// stays cheap with a million rows. The zero value is empty. It has no lock of
// its own.
type sorted struct {
	blocks [][]*row
	count  int
	bytes  int
}

func byKey(r *row, key string) int { return strings.Compare(r.key, key) }

// find is the position of the key, or where it would stand.
func (s *sorted) find(key string) (block, at int, found bool) {
	// The first block whose last row is not before the key.
	block, _ = slices.BinarySearchFunc(s.blocks, key, func(b []*row, key string) int {
		return strings.Compare(b[len(b)-1].key, key)
	})
	if block == len(s.blocks) {
		return block, 0, false
	}
	at, found = slices.BinarySearchFunc(s.blocks[block], key, byKey)
	return block, at, found
}

func (s *sorted) get(key string) *row {
	if block, at, found := s.find(key); found {
		return s.blocks[block][at]
	}
	return nil
}

// set puts the row in its place, instead of any with the same key.
func (s *sorted) set(r *row) {
	s.bytes += r.size
	block, at, found := s.find(r.key)
	if found {
		s.bytes -= s.blocks[block][at].size
		s.blocks[block][at] = r
		return
	}
	s.count++
	if block == len(s.blocks) {
		// Behind everything: the last block takes it, if there is one.
		if block == 0 {
			s.blocks = append(s.blocks, make([]*row, 0, blockSize))
		} else {
			block--
		}
		at = len(s.blocks[block])
	}
	b := slices.Insert(s.blocks[block], at, r)
	if len(b) < blockSize {
		s.blocks[block] = b
		return
	}
	half := len(b) / 2
	s.blocks[block] = b[:half:half]
	s.blocks = slices.Insert(s.blocks, block+1, append(make([]*row, 0, blockSize), b[half:]...))
}

// remove takes the row with the key out, if there is one.
func (s *sorted) remove(key string) {
	block, at, found := s.find(key)
	if !found {
		return
	}
	s.count--
	s.bytes -= s.blocks[block][at].size
	s.blocks[block] = slices.Delete(s.blocks[block], at, at+1)
	if len(s.blocks[block]) == 0 {
		s.blocks = slices.Delete(s.blocks, block, block+1)
	}
}

// span is a range of keys: from low on, up to but without high ("" is no end).
type span struct{ low, high string }

// prefixed are all keys that start with the prefix.
func prefixed(prefix string) span { return span{prefix, successor(prefix)} }

// successor is the first key behind all those that start with the prefix.
func successor(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// rows goes through a span, forwards or backwards.
func (s *sorted) rows(in span, backward bool) iter.Seq[*row] {
	if backward {
		return s.backward(in)
	}
	return func(yield func(*row) bool) {
		block, at, _ := s.find(in.low)
		for ; block < len(s.blocks); block, at = block+1, 0 {
			for _, r := range s.blocks[block][at:] {
				if in.high != "" && r.key >= in.high || !yield(r) {
					return
				}
			}
		}
	}
}

func (s *sorted) backward(in span) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		block, at := len(s.blocks), 0
		if in.high != "" {
			block, at, _ = s.find(in.high)
		}
		for {
			if at == 0 {
				if block == 0 {
					return
				}
				block--
				at = len(s.blocks[block])
			}
			at--
			if r := s.blocks[block][at]; r.key < in.low || !yield(r) {
				return
			}
		}
	}
}
