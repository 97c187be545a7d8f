package jmespathsel

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/jmespath-community/go-jmespath/pkg/interpreter"
	"github.com/jmespath-community/go-jmespath/pkg/parsing"
)

// Selector is a compiled expression. It may be used concurrently.
type Selector struct {
	text string
	root parsing.ASTNode
	call interpreter.FunctionCaller
	// computes: the result may be a number that stands nowhere in the body.
	computes bool
}

// Compile compiles an expression. The error says where it is wrong, from
// position 1, and what to do.
func Compile(expression string) (*Selector, error) {
	root, err := parse(expression)
	if err != nil {
		return nil, err
	}
	s := &Selector{text: expression, root: root, call: interpreter.NewFunctionCaller(allowedFunctions()...)}
	if err := check(expression, root, &s.computes); err != nil {
		return nil, err
	}
	return s, nil
}

// String is the expression.
func (s *Selector) String() string { return s.text }

// Select decodes a body and selects from it; false is no text and no number.
func (s *Selector) Select(body []byte) (string, bool) {
	d, ok := Decode(body)
	if !ok {
		return "", false
	}
	return s.SelectFrom(d)
}

// SelectFrom selects from a body that is decoded once for many selectors. It
// leaves the document as it is.
func (s *Selector) SelectFrom(d *Document) (text string, ok bool) {
	defer func() {
		// The library has been seen to panic on arguments it did not expect. A
		// body that makes it do so has no value here.
		if recover() != nil {
			text, ok = "", false
		}
	}()
	found, err := interpreter.NewInterpreter(d.root, s.call, nil).Execute(s.root, d.root)
	if err != nil { // a function got something it does not take
		return "", false
	}
	switch v := found.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case float64:
		return s.number(d, v)
	}
	return "", false
}

// maxComputed is where a computed number may have lost its last digits.
const maxComputed = 1e15

// number writes a float as the body did. A computed one is written out if all
// its digits are true.
func (s *Selector) number(d *Document, f float64) (string, bool) {
	if !s.computes {
		if written := d.spellings[f]; written != "" {
			return written, true
		}
	}
	if math.IsNaN(f) || math.Abs(f) >= maxComputed {
		return "", false
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	return text, plain(text)
}
