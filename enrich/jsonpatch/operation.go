package jsonpatch

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// operation is one operation of a JSON Patch.
type operation struct {
	op, path   string
	from, to   []string // the segments of from and path
	value      value    // compact, as it is written in the patch
	samePlaces bool
}

var pointer = regexp.MustCompile(`^(/([^~]|~[01])*)*$`)

// fieldsOf is what each operation needs besides op and path.
var fieldsOf = map[string]string{"add": "value", "replace": "value", "test": "value", "remove": "", "move": "from", "copy": "from"}

func operationOf(v *value) (operation, string) {
	if v.kind != '{' {
		return operation{}, "it is no object"
	}
	op, _ := v.text("op")
	needs, known := fieldsOf[op]
	if !known {
		return operation{}, "op must be add, remove, replace, move, copy or test"
	}
	path, ok := v.text("path")
	if !ok || !pointer.MatchString(path) {
		return operation{}, "path must be a JSON pointer, such as /customer/id"
	}
	if op == "remove" && path == "" {
		return operation{}, "the whole body cannot be removed"
	}
	o := operation{op: op, path: path, to: segments(path)}
	switch needs {
	case "value":
		i, err := v.find("value")
		if i < 0 || err != nil {
			return operation{}, op + " needs a value"
		}
		o.value = written(compact(&v.in.members[i].value))
	case "from":
		from, ok := v.text("from")
		if !ok || !pointer.MatchString(from) {
			return operation{}, op + " needs from, a JSON pointer"
		}
		o.from = segments(from)
		o.samePlaces = slices.Equal(o.from, o.to)
		if op == "move" && len(o.from) < len(o.to) && slices.Equal(o.from, o.to[:len(o.from)]) {
			return operation{}, "it would move a value into itself"
		}
	}
	return o, ""
}

func segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(pointer[1:], "/")
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	return parts
}

// Why an operation does not apply.
var (
	errNothing  = errors.New("there is nothing")
	errOther    = errors.New("the value there is another one")
	errBeyond   = errors.New("the list has no such position")
	errPosition = errors.New("in a list a position is 0, or a number without sign and leading zeros")
	errEnd      = errors.New("in a list - stands for the end, where there is nothing yet: only add, move and copy put something there")
	errTooMuch  = errors.New("it copies too much")
)

// document is a body on which operations are carried out.
type document struct {
	root   value
	copied int
}

func (d *document) do(o operation) error {
	switch o.op {
	case "add":
		return d.put(o.to, o.value)
	case "replace":
		v, err := d.get(o.to, true)
		if err != nil {
			return err
		}
		*v = o.value
		return nil
	case "remove":
		return d.remove(o.to)
	case "test":
		v, err := d.get(o.to, false)
		if err != nil {
			return err
		}
		return same(v, &o.value, pointerTo(o.to))
	}
	v, err := d.get(o.from, false)
	if err != nil {
		return err
	}
	if o.op == "move" {
		if o.samePlaces {
			return nil
		}
		moved := *v
		if err := d.remove(o.from); err != nil {
			return err
		}
		return d.put(o.to, moved)
	}
	raw := slices.Clip(v.bytes())
	if d.copied += len(raw); d.copied > maxBody {
		return errTooMuch
	}
	return d.put(o.to, written(raw))
}

// get returns what stands at a place. Change is for whoever writes to it.
func (d *document) get(path []string, change bool) (*value, error) {
	v := &d.root
	for n, segment := range path {
		if !v.holds() {
			return nil, errNothing
		}
		i, err := v.position(segment)
		switch {
		case errors.Is(err, errTwice):
			return nil, twice(pointerTo(path[:n+1]))
		case err != nil:
			return nil, err
		}
		if change {
			v.change()
		}
		v = &v.in.members[i].value
	}
	return v, nil
}

// position is the one of an object's member or a list's element that is there.
func (v *value) position(segment string) (int, error) {
	if v.kind == '{' {
		i, err := v.find(segment)
		if err == nil && i < 0 {
			err = errNothing
		}
		return i, err
	}
	if segment == "-" {
		return 0, errEnd
	}
	return index(segment, len(v.open())-1)
}

// index reads a position of a list (RFC 6901, 4), which is at most last.
func index(segment string, last int) (int, error) {
	digits := strings.Trim(segment, "0123456789") == ""
	if segment == "" || !digits || segment[0] == '0' && len(segment) > 1 {
		return 0, errPosition
	}
	i, err := strconv.Atoi(segment)
	if err != nil || i > last { // one that is too large to be a number is too large
		return 0, errBeyond
	}
	return i, nil
}

// put adds a value at a place, as add does.
func (d *document) put(path []string, put value) error {
	if len(path) == 0 {
		d.root = put
		return nil
	}
	last := path[len(path)-1]
	v, err := d.get(path[:len(path)-1], true)
	switch {
	case err != nil:
		return err
	case !v.holds():
		return errNothing
	case v.kind == '[':
		i := len(v.open())
		if last != "-" {
			if i, err = index(last, i); err != nil {
				return err
			}
		}
		v.insert(i, "", put)
		return nil
	}
	i, err := v.find(last)
	switch {
	case err != nil:
		return twice(pointerTo(path))
	case i < 0:
		v.insert(len(v.in.members), last, put)
	default:
		v.change()
		v.in.members[i].value = put
	}
	return nil
}

func (d *document) remove(path []string) error {
	if _, err := d.get(path, true); err != nil {
		return err
	}
	v, _ := d.get(path[:len(path)-1], true) // it has just been there
	i, _ := v.position(path[len(path)-1])
	v.remove(i)
	return nil
}

// twice refuses a body in which a name on the way to a place stands twice.
func twice(at string) error {
	return &Error{Body: true, Why: "it names " + at + " twice, and " + errTwice.Error()}
}

func pointerTo(path []string) string {
	var out strings.Builder
	for _, segment := range path {
		out.WriteString("/" + escape(segment))
	}
	return out.String()
}

// same compares as a test does: members in any order, texts by their
// characters, numbers by their value.
func same(a, b *value, at string) error {
	if a.kind != b.kind {
		return errOther
	}
	inA, inB := a.open(), b.open()
	equal := len(inA) == len(inB)
	switch a.kind {
	case '"':
		equal = text(a.raw) == text(b.raw)
	case '0':
		equal = sameNumber(a.raw, b.raw)
	case '[':
		for i := 0; equal && i < len(inA); i++ {
			if err := same(&inA[i].value, &inB[i].value, at+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	case '{':
		// The patch was read strictly, so only the body can name one twice.
		if len(a.byName()) < len(inA) {
			return &Error{Body: true, Why: "a name stands twice in " + place(at) + ", and " + errTwice.Error()}
		}
		named := b.byName()
		for i := 0; equal && i < len(inA); i++ {
			m := &inA[i]
			w, ok := named[m.name]
			if !ok {
				return errOther
			}
			if err := same(&m.value, w, at+"/"+escape(m.name)); err != nil {
				return err
			}
		}
	}
	if !equal {
		return errOther
	}
	return nil
}

// merge merges a patch into a body (RFC 7386), in the order of the patch.
func merge(v *value, at string, patch *value) error {
	if v.kind != '{' { // a list is merged into by taking its place
		*v = without(patch)
		return nil
	}
	for n := range patch.members() {
		m := &patch.in.members[n]
		here := at + "/" + escape(m.name)
		i, err := v.find(m.name)
		switch {
		case err != nil:
			return twice(here)
		case i < 0 && m.value.kind == 'n':
		case i < 0:
			v.insert(len(v.in.members), m.name, without(&m.value))
		case m.value.kind == 'n':
			v.remove(i)
		default:
			v.change()
			below := &v.in.members[i].value
			if below.kind != '{' || m.value.kind != '{' {
				*below = without(&m.value)
			} else if err := merge(below, here, &m.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// without is the value that a merge patch puts where there is none: its nulls
// say that a member is not there.
func without(v *value) value {
	if v.kind != '{' {
		return written(compact(v))
	}
	out := value{kind: '{', in: &inside{}}
	for i := range v.members() {
		if m := &v.in.members[i]; m.value.kind != 'n' {
			out.insert(len(out.in.members), m.name, without(&m.value))
		}
	}
	return out
}
