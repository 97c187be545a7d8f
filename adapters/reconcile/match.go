package reconcile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// Match recognises an answer: its status is one of Status and all of Body hold.
type Match struct {
	// Status are the codes; empty is any of 200 to 299.
	Status []int
	Body   []Condition
}

// Condition is one thing that must hold about a JSON body. Exactly one of
// Equals, Exists and Empty is set. A body that is not JSON meets none.
type Condition struct {
	// At is a JSON pointer, with or without "body:" before it.
	At string
	// Equals: the text, number (by its digits), true or false there is one of
	// these. A placeholder stands for the question's own value, so that an answer
	// about another object does not count.
	Equals []string
	// Exists: something other than null is there, or not.
	Exists *bool
	// Empty: what is there is an empty list, object or text.
	Empty bool
}

type condition struct {
	path   []string
	equals []template
	exists *bool
}

type match struct {
	status []int
	body   []condition
}

// ownStatus are answers about our asking, not about the task: refused,
// throttled, redirected, broken. None of them may say what happened.
func ownStatus(code int) bool {
	switch code {
	case 303, 304: // "see the object there", "still as it was"
		return false
	case 401, 402, 403, 407, 408, 421, 425, 426, 428, 429, 431, 451:
		return true
	}
	return code < 200 || code >= 300 && code < 400 || code >= 500
}

// absentStatus are the codes that an absence may come with. A 400 or 422 says
// that the question was wrong.
func absentStatus(code int) bool { return code >= 200 && code < 300 || code == 404 || code == 410 }

func compileMatches(name string, in []Match, allowed func(code int) bool) ([]match, error) {
	out := make([]match, 0, len(in))
	for i, m := range in {
		if len(m.Status) == 0 && len(m.Body) == 0 {
			return nil, fmt.Errorf("%s, entry %d: write status or body", name, i+1)
		}
		c := match{status: m.Status}
		for _, code := range m.Status {
			switch {
			case code < 100 || code > 599:
				return nil, fmt.Errorf("%s, entry %d: %d is not a status code", name, i+1, code)
			case !allowed(code):
				return nil, fmt.Errorf("%s, entry %d: an answer with status %d says something about the asking, not about the task", name, i+1, code)
			}
		}
		for _, cond := range m.Body {
			compiled, err := compileCondition(cond)
			if err != nil {
				return nil, fmt.Errorf("%s, entry %d: body %q: %w", name, i+1, cond.At, err)
			}
			c.body = append(c.body, compiled)
		}
		out = append(out, c)
	}
	return out, nil
}

func compileCondition(in Condition) (condition, error) {
	path, err := parsePointer(in.At)
	if err != nil {
		return condition{}, err
	}
	set := 0
	for _, is := range []bool{len(in.Equals) > 0, in.Exists != nil, in.Empty} {
		if is {
			set++
		}
	}
	if set != 1 {
		return condition{}, errors.New("write one of equals, exists and empty")
	}
	out := condition{path: path, exists: in.Exists}
	for _, text := range in.Equals {
		t, err := parse(text, inText)
		if err != nil {
			return condition{}, err
		}
		out.equals = append(out.equals, t)
	}
	return out, nil
}

// matches says whether an answer is recognised. Without JSON, body is nil.
func (m match) matches(q dlqbridge.Question, status int, body any) bool {
	if len(m.status) == 0 && (status < 200 || status > 299) || len(m.status) > 0 && !slices.Contains(m.status, status) {
		return false
	}
	return !slices.ContainsFunc(m.body, func(c condition) bool { return body == nil || !c.holds(q, body) })
}

func (c condition) holds(q dlqbridge.Question, body any) bool {
	v, there := at(body, c.path)
	switch {
	case c.exists != nil:
		return there == *c.exists
	case len(c.equals) == 0:
		return there && empty(v)
	}
	text, ok := scalar(v)
	return there && ok && slices.ContainsFunc(c.equals, func(t template) bool {
		want, err := t.render(q)
		return err == nil && want == text
	})
}

// verdict is what an answer says about the effect.
type verdict int

const (
	saysNothing verdict = iota // no selector matches
	saysPending                // an unknown selector matches
	saysBoth                   // done and not done
	saysDone
	saysNotDone
)

// selectors are the three lists of a reconciler.
type selectors struct{ done, notDone, unknown []match }

func (s selectors) judge(q dlqbridge.Question, status int, body any) verdict {
	found := func(list []match) bool {
		return slices.ContainsFunc(list, func(m match) bool { return m.matches(q, status, body) })
	}
	done, notDone := found(s.done), found(s.notDone)
	switch {
	case found(s.unknown):
		return saysPending
	case done && notDone:
		return saysBoth
	case done:
		return saysDone
	case notDone:
		return saysNotDone
	}
	return saysNothing
}

// weak says whether a not_done entry would also recognise the answer of a wrong
// address: it looks at no value that only the right system gives.
func (m match) weak() bool {
	return !slices.ContainsFunc(m.body, func(c condition) bool { return c.exists == nil || *c.exists })
}
