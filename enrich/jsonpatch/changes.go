package jsonpatch

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
)

// Change is one difference between two bodies, as an operation on the first.
type Change struct {
	// Op is add, remove or replace.
	Op   string `json:"op"`
	Path string `json:"path"`
	// Before and After are the values as JSON, as they are written; absent where
	// there is none, or where it cannot be shown as JSON.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Changes lists how two bodies differ, in the order of the first: members by
// name, elements by position. A byte order mark, white space, the order of
// members and the spelling of texts are no difference; the spelling of numbers
// is one. Where a name stands twice, or a body is not JSON, the whole differs.
func Changes(before, after []byte) []Change {
	if bytes.Equal(before, after) {
		return []Change{}
	}
	_, before = cutMark(before)
	_, after = cutMark(after)
	a, errA := read(before)
	b, errB := read(after)
	switch {
	case errA != nil && errB != nil:
		return []Change{{Op: "replace"}}
	case errA != nil:
		return []Change{{Op: "replace", After: compact(&b.value)}}
	case errB != nil:
		return []Change{{Op: "replace", Before: compact(&a.value)}}
	}
	return changes([]Change{}, "", &a.value, &b.value)
}

func changes(out []Change, at string, a, b *value) []Change {
	if bytes.Equal(a.bytes(), b.bytes()) {
		return out
	}
	switch {
	case a.kind == '"' && b.kind == '"' && text(a.raw) == text(b.raw):
		return out
	case a.kind != b.kind || !a.holds():
		return append(out, Change{Op: "replace", Path: at, Before: compact(a), After: compact(b)})
	}
	if a.kind == '[' {
		return ofLists(out, at, a, b)
	}
	inOrder, after := a.open(), b.open()
	inA, inB := a.byName(), b.byName()
	if len(inA) < len(inOrder) || len(inB) < len(after) {
		whole := Change{Op: "replace", Path: at, Before: compact(a), After: compact(b)}
		if !bytes.Equal(whole.Before, whole.After) {
			out = append(out, whole)
		}
		return out
	}
	for i := range inOrder {
		m := &inOrder[i]
		path := at + "/" + escape(m.name)
		if v, ok := inB[m.name]; ok {
			out = changes(out, path, &m.value, v)
		} else {
			out = append(out, Change{Op: "remove", Path: path, Before: compact(&m.value)})
		}
	}
	for i := range after {
		if m := &after[i]; inA[m.name] == nil {
			out = append(out, Change{Op: "add", Path: at + "/" + escape(m.name), After: compact(&m.value)})
		}
	}
	return out
}

// ofLists compares by position, and holds no list of the elements: there may be
// millions of them.
func ofLists(out []Change, at string, a, b *value) []Change {
	next, stop := iter.Pull(b.elements)
	defer stop()
	n := 0
	for v := range a.elements {
		if w, more := next(); !more {
			out = append(out, Change{Op: "remove", Path: at + "/" + strconv.Itoa(n), Before: compact(&v)})
		} else if !bytes.Equal(v.raw, w.raw) {
			out = changes(out, at+"/"+strconv.Itoa(n), &v, &w)
		}
		n++
	}
	for w, more := next(); more; w, more = next() {
		out = append(out, Change{Op: "add", Path: at + "/" + strconv.Itoa(n), After: compact(&w)})
		n++
	}
	return out
}

// elements yields those of a list as it is written.
func (v *value) elements(yield func(value) bool) {
	v.walk(func(m member) bool { return yield(m.value) })
}

// byName is the opened members by name: fewer than there are where one stands
// there twice.
func (v *value) byName() map[string]*value {
	members := v.open()
	out := make(map[string]*value, len(members))
	for i := range members {
		out[members[i].name] = &members[i].value
	}
	return out
}
