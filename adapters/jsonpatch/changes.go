package jsonpatch

import (
	"encoding/json"
	"strconv"
)

// Change is one difference between two bodies, as an operation on the first.
type Change struct {
	// Op is add, remove or replace.
	Op   string `json:"op"`
	Path string `json:"path"`
	// Before and After are the values as JSON; absent where there is none.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Changes lists how two bodies differ, in the order of the first: members by
// name, elements by position. Bodies that cannot be read differ as a whole.
func Changes(before, after []byte) []Change {
	a, errA := read(before)
	b, errB := read(after)
	if errA != nil || errB != nil {
		return nil
	}
	return changes([]Change{}, "", a, b)
}

func changes(out []Change, at string, a, b tree) []Change {
	switch {
	case a.kind != b.kind || a.kind != '{' && a.kind != '[':
		if !a.equal(b) {
			out = append(out, Change{Op: "replace", Path: at, Before: encode(a), After: encode(b)})
		}
		return out
	case a.kind == '[':
		for i := range max(len(a.members), len(b.members)) {
			path := at + "/" + strconv.Itoa(i)
			switch {
			case i >= len(b.members):
				out = append(out, Change{Op: "remove", Path: path, Before: encode(a.members[i].value)})
			case i >= len(a.members):
				out = append(out, Change{Op: "add", Path: path, After: encode(b.members[i].value)})
			default:
				out = changes(out, path, a.members[i].value, b.members[i].value)
			}
		}
		return out
	}
	inB := make(map[string]tree, len(b.members))
	for _, m := range b.members {
		inB[m.name] = m.value
	}
	inA := make(map[string]bool, len(a.members))
	for _, m := range a.members {
		inA[m.name] = true
		path := at + "/" + escape(m.name)
		if v, ok := inB[m.name]; ok {
			out = changes(out, path, m.value, v)
		} else {
			out = append(out, Change{Op: "remove", Path: path, Before: encode(m.value)})
		}
	}
	for _, m := range b.members {
		if !inA[m.name] {
			out = append(out, Change{Op: "add", Path: at + "/" + escape(m.name), After: encode(m.value)})
		}
	}
	return out
}
