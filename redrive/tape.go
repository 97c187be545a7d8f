package redrive

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"io"
	"iter"
	"os"
)

// tape is a temporary file that blocks are written to one after the other. It
// has no name from the moment it is made, so a killed process leaves nothing
// behind. What it holds is ids, versions and reasons, never a payload.
//
// Where nothing can be written (a full disk, a folder that is read only) the
// tape says no, and whoever writes keeps the values in memory: more of it is
// used then, but nothing is lost.
type tape struct {
	file   *os.File
	end    int64
	broken bool
}

// add writes a block and returns where it begins; false is that it was not.
func (t *tape) add(block []byte) (from int64, ok bool) {
	if t.broken {
		return 0, false
	}
	if t.file == nil {
		file, err := os.CreateTemp("", "dlqbridge-*")
		if err != nil {
			t.broken = true
			return 0, false
		}
		_ = os.Remove(file.Name()) // systems that refuse keep it until their next cleaning
		t.file = file
	}
	if _, err := t.file.WriteAt(block, t.end); err != nil {
		t.broken = true
		return 0, false
	}
	from = t.end
	t.end += int64(len(block))
	return from, true
}

// readBuffer is how much of a block is read at once: many blocks are read side
// by side where lists are merged.
const readBuffer = 8 << 10

// values yields the n values that an encoder of their own wrote between two
// places of the tape.
func values[T any](t *tape, from, to int64, n int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		d := gob.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(t.file, from, to-from), readBuffer))
		for range n {
			var v T
			if err := d.Decode(&v); err != nil {
				yield(none, fmt.Errorf("read a temporary file: %w", err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}
