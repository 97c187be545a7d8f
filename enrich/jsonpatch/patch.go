package jsonpatch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

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
	// SHA256 is of the patch as it was written, without the white space between
	// its values: an editor's last line end makes no other patch.
	SHA256 string

	merge      value // opened in all its depth, and never changed
	operations []operation
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
	read, err := read(text)
	if err == nil {
		err = read.value.strict("", len(read.lead))
	}
	if broken, ok := errors.AsType[*fault](err); ok {
		return wrong("%s: %s", where(text, broken.at), broken.why)
	}
	v := read.value
	sum := sha256.Sum256(compact(&v))
	p := &Patch{SHA256: hex.EncodeToString(sum[:])}
	switch {
	case v.kind == '{' && len(v.members()) > 0:
		p.Form, p.merge = dlqbridge.PatchMerge, v
		return p, nil
	case v.kind != '[' || len(v.members()) == 0:
		return wrong("it is neither a list of operations (RFC 6902) nor an object to merge (RFC 7386), or an empty one")
	case len(v.members()) > maxOperations:
		return wrong("it has %d operations, at most %d are carried out", len(v.members()), maxOperations)
	}
	p.Form = dlqbridge.PatchJSON
	for i := range v.members() {
		o, why := operationOf(&v.in.members[i].value)
		if why != "" {
			return wrong("operation %d: %s", i+1, why)
		}
		p.operations = append(p.operations, o)
	}
	return p, nil
}

// Apply returns the body as the patch leaves it. The error is *Error.
func (p *Patch) Apply(body []byte) ([]byte, error) {
	if len(body) > maxBody {
		return nil, &Error{Body: true, Why: fmt.Sprintf("it has %d bytes", len(body))}
	}
	mark, text := cutMark(body)
	root, err := read(text)
	switch {
	case err != nil:
		return nil, &Error{Body: true, Why: err.Error()}
	case !root.value.holds():
		return nil, &Error{Body: true, Why: "it is neither a JSON object nor a list"}
	}
	was := root.value
	d := document{root: root.value}
	if p.Form == dlqbridge.PatchMerge {
		if err := merge(&d.root, "", &p.merge); err != nil {
			return nil, err
		}
	}
	for i, o := range p.operations {
		if err := d.do(o); err != nil {
			if refused, ok := errors.AsType[*Error](err); ok {
				return nil, refused
			}
			return nil, &Error{Why: fmt.Sprintf("operation %d, %s %q: %s", i+1, o.op, o.path, err)}
		}
	}
	root.value = d.root
	out := root.write(slices.Clone(mark))
	after, err := read(out[len(mark):])
	switch {
	case err != nil || !after.value.holds():
		return nil, &Error{Why: "what it leaves is no JSON object or list"}
	case len(changes(nil, "", &was, &after.value)) == 0:
		return nil, &Error{Why: "it changes nothing"}
	}
	return out, nil
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// cutMark takes a byte order mark off, which goes back as it came.
func cutMark(body []byte) (mark, text []byte) {
	if rest, ok := bytes.CutPrefix(body, byteOrderMark); ok {
		return byteOrderMark, rest
	}
	return nil, body
}
