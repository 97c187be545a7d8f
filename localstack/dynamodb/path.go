package dynamodb

import (
	"strconv"
	"strings"
)

// step is one part of a document path: a name, or (name empty) a list index.
type step struct {
	name  string
	index int
}

func (s step) isIndex() bool { return s.name == "" }

func (s step) String() string {
	if s.isIndex() {
		return "[" + strconv.Itoa(s.index) + "]"
	}
	return s.name
}

// path leads to a value inside an item; its first step is a name.
type path []step

// String is the path as the service's messages show it: [a, b, [1]].
func (p path) String() string {
	parts := make([]string, len(p))
	for i, s := range p {
		parts[i] = s.String()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// in is the value at the path, or nil.
func (p path) in(item Item) Value {
	v := item[p[0].name]
	for _, s := range p[1:] {
		switch container := v.(type) {
		case Item:
			if s.isIndex() {
				return nil
			}
			v = container[s.name]
		case listValue:
			if !s.isIndex() || s.index >= len(container) {
				return nil
			}
			v = container[s.index]
		default:
			return nil
		}
	}
	return v
}

// clash tells how two paths of one expression get in each other's way: one
// leads through the other (overlap), or they take one value for a map and for a
// list (conflict). Either is refused before anything is read (Developer Guide,
// "Using update expressions": no document path may overlap another).
func clash(a, b path) (overlap, conflict bool) {
	for i := range min(len(a), len(b)) {
		if a[i].isIndex() != b[i].isIndex() {
			return false, true
		}
		if a[i] != b[i] {
			return false, false
		}
	}
	return true, false
}
