package jsonpatch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"

	library "github.com/evanphx/json-patch/v5"

	"github.com/dlqbridge/dlqbridge"
)

const (
	// MaxBytes bounds a patch, far above what a person writes.
	MaxBytes = 1 << 20
	// The longest body that is changed has maxBody: Pub/Sub's largest message.
	// Copies may not make more than that either.
	maxBody = 10 << 20
	// One patch has at most maxOperations, which bounds its work.
	maxOperations = 10_000
)

// Patch is a patch that was read and can be applied to any number of bodies, at
// the same time too.
type Patch struct {
	// Form is which kind it is.
	Form dlqbridge.PatchForm
	// SHA256 is of the patch as it was written.
	SHA256 string

	merge      tree
	operations []operation
}

// operation is one operation of a JSON Patch.
type operation struct {
	op, path string
	raw      json.RawMessage
}

// Error is a patch that does not apply to a body. It names no values.
type Error struct {
	// Body: the body is such that no patch can be applied.
	Body bool
	Why  string
}

// Error says why.
func (e *Error) Error() string {
	if e.Body {
		return "the body cannot be patched: " + e.Why
	}
	return "the patch does not apply: " + e.Why
}

// Unwrap gives it its meaning.
func (e *Error) Unwrap() error { return dlqbridge.ErrInvalid }

// Parse reads a patch: a list is a JSON Patch, an object a merge patch.
func Parse(text []byte) (*Patch, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%w: the patch has %d bytes, at most %d are read", dlqbridge.ErrInvalid, len(text), MaxBytes)
	}
	wrong := func(format string, args ...any) (*Patch, error) {
		return nil, fmt.Errorf("%w: the patch cannot be used: %s", dlqbridge.ErrInvalid, fmt.Sprintf(format, args...))
	}
	t, err := read(text)
	if err != nil {
		return wrong("%v", err)
	}
	sum := sha256.Sum256(text)
	p := &Patch{SHA256: hex.EncodeToString(sum[:])}
	switch {
	case t.kind == '{' && len(t.members) > 0:
		p.Form, p.merge = dlqbridge.PatchMerge, t
		return p, nil
	case t.kind != '[' || len(t.members) == 0:
		return wrong("it is neither a list of operations (RFC 6902) nor an object to merge (RFC 7386), or an empty one")
	case len(t.members) > maxOperations:
		return wrong("it has %d operations, at most %d are carried out", len(t.members), maxOperations)
	}
	p.Form = dlqbridge.PatchJSON
	for i, m := range t.members {
		o, why := operationOf(m.value)
		if why != "" {
			return wrong("operation %d: %s", i+1, why)
		}
		p.operations = append(p.operations, o)
	}
	return p, nil
}

var pointer = regexp.MustCompile(`^(/([^~]|~[01])*)*$`)

// fieldsOf is what each operation needs besides op and path.
var fieldsOf = map[string]string{"add": "value", "replace": "value", "test": "value", "remove": "", "move": "from", "copy": "from"}

func operationOf(t tree) (operation, string) {
	if t.kind != '{' {
		return operation{}, "it is no object"
	}
	text := func(name string) (string, bool) {
		v, ok := t.find(name)
		return v.text, ok && v.kind == '"'
	}
	op, _ := text("op")
	needs, known := fieldsOf[op]
	if !known {
		return operation{}, "op must be add, remove, replace, move, copy or test"
	}
	path, ok := text("path")
	if !ok || !pointer.MatchString(path) {
		return operation{}, "path must be a JSON pointer, such as /customer/id"
	}
	if op == "remove" && path == "" {
		return operation{}, "the whole body cannot be removed"
	}
	switch needs {
	case "value":
		if _, ok := t.find("value"); !ok {
			return operation{}, op + " needs a value"
		}
	case "from":
		if from, ok := text("from"); !ok || !pointer.MatchString(from) {
			return operation{}, op + " needs from, a JSON pointer"
		}
	}
	return operation{op, path, encode(t)}, ""
}

// Apply returns the body as the patch leaves it. The error is *Error.
func (p *Patch) Apply(body []byte) ([]byte, error) {
	if len(body) > maxBody {
		return nil, &Error{Body: true, Why: fmt.Sprintf("it has %d bytes", len(body))}
	}
	mark, text := cutMark(body)
	t, err := read(text)
	if err != nil {
		return nil, &Error{Body: true, Why: err.Error()}
	}
	if t.kind != '{' && t.kind != '[' {
		return nil, &Error{Body: true, Why: "it is neither a JSON object nor a list"}
	}
	operations := p.operations
	if p.Form == dlqbridge.PatchMerge {
		operations = merging(nil, "", t, p.merge)
	}
	out, err := apply(text, operations)
	if err != nil {
		// The library does not say which one it is: the last of the shortest
		// beginning that fails.
		n := sort.Search(len(operations)-1, func(i int) bool { _, err := apply(text, operations[:i+1]); return err != nil }) + 1
		if _, first := apply(text, operations[:n]); first != nil {
			err = first
		}
		return nil, &Error{Why: fmt.Sprintf("operation %d, %s %q: %s", n, operations[n-1].op, operations[n-1].path, why(err))}
	}
	after, err := read(out)
	switch {
	case err != nil || after.kind != '{' && after.kind != '[':
		return nil, &Error{Why: "what it leaves is no JSON object or list"}
	case len(changes(nil, "", t, after)) == 0:
		return nil, &Error{Why: "it changes nothing"}
	}
	return slices.Concat(mark, out), nil
}

// why is what the library says, in our words: its own may hold values.
func why(err error) string {
	switch {
	case errors.Is(err, library.ErrTestFailed):
		return "the value there is another one"
	case errors.Is(err, library.ErrMissing):
		return "there is nothing"
	case errors.Is(err, library.ErrInvalidIndex):
		return "the list has no such position"
	}
	if _, ok := errors.AsType[*library.AccumulatedCopySizeError](err); ok {
		return "it copies too much"
	}
	return "it cannot be carried out there"
}

// errPanic stands for a fault of the library.
var errPanic = errors.New("the library failed")

func apply(body []byte, operations []operation) (out []byte, err error) {
	if len(operations) == 0 {
		return body, nil
	}
	defer func() {
		if recover() != nil { // whatever a sender wrote may not end the command
			out, err = nil, errPanic
		}
	}()
	raw := make([]json.RawMessage, len(operations))
	for i, o := range operations {
		raw[i] = o.raw
	}
	var list bytes.Buffer
	e := json.NewEncoder(&list)
	e.SetEscapeHTML(false)
	if err := e.Encode(raw); err != nil {
		return nil, err
	}
	patch, err := library.DecodePatch(list.Bytes())
	if err != nil {
		return nil, err
	}
	// As the RFC has it: no negative positions, nothing made on the way; and
	// texts keep their characters.
	o := library.NewApplyOptions()
	o.SupportNegativeIndices, o.EscapeHTML, o.AccumulatedCopySizeLimit = false, false, maxBody
	return patch.ApplyWithOptions(body, o)
}

// merging turns a merge patch into the operations that it means for a body. The
// library merges too, but in no certain order and with other escapes.
func merging(out []operation, at string, body, patch tree) []operation {
	say := func(op, path string, value *tree) {
		o := tree{kind: '{', members: []member{{"op", tree{kind: '"', text: op}}, {"path", tree{kind: '"', text: path}}}}
		if value != nil {
			o.members = append(o.members, member{"value", *value})
		}
		out = append(out, operation{op, path, encode(o)})
	}
	if body.kind != '{' { // a list is merged into by taking its place
		value := without(patch)
		say("replace", at, &value)
		return out
	}
	for _, m := range patch.members {
		path := at + "/" + escape(m.name)
		have, there := body.find(m.name)
		switch {
		case m.value.kind == 'n' && there:
			say("remove", path, nil)
		case m.value.kind == 'n':
		case there && have.kind == '{' && m.value.kind == '{':
			out = merging(out, path, have, m.value)
		default:
			value, op := without(m.value), "add"
			if there {
				op = "replace"
			}
			say(op, path, &value)
		}
	}
	return out
}

// without is the value that a merge patch puts where there is none: its nulls
// say that a member is not there.
func without(t tree) tree {
	if t.kind != '{' {
		return t
	}
	out := tree{kind: '{'}
	for _, m := range t.members {
		if m.value.kind != 'n' {
			out.members = append(out.members, member{m.name, without(m.value)})
		}
	}
	return out
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// cutMark takes a byte order mark off, which goes back as it came.
func cutMark(body []byte) (mark, text []byte) {
	if rest, ok := bytes.CutPrefix(body, byteOrderMark); ok {
		return byteOrderMark, rest
	}
	return nil, body
}
