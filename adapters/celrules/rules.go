package celrules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/interpreter"

	"github.com/dlqbridge/dlqbridge"
)

// Bounds of one rule, each with its reason.
const (
	// CostLimit is what one evaluation may cost, in CEL's units (about one per
	// operation, a tenth per character compared). A usual rule costs below 20,
	// and a search through a whole error text of a kilobyte about 100.
	CostLimit = 10_000
	// TimeLimit stops a rule with a loop. The cost limit does so long before on
	// any machine that is not overloaded.
	TimeLimit = 50 * time.Millisecond
	// A rule of maxRule characters is longer than anybody wants to read.
	maxRule = 4096
	// The bound maxRules keeps the classification of a letter that no rule knows cheap.
	maxRules = 500
)

// Rule is one line of the configuration.
type Rule struct {
	// When is a CEL expression that is true or false.
	When string
	// Cause is the cause that a failure gets for which When is true.
	Cause dlqbridge.Cause
}

// Rules are compiled rules. They may be used concurrently.
type Rules struct {
	rules          []compiled
	usesAttributes bool
	timeLimit      time.Duration
}

type compiled struct {
	Rule
	program cel.Program
	loops   bool
	counts  *counts
}

type counts struct{ fired, missing, costly, failed atomic.Int64 }

// Count says what became of one rule so far.
type Count struct {
	// Fired: it was true. Missing: it needed what this failure does not have.
	// Costly: it was stopped by its cost or time limit. Failed: any other error.
	Fired, Missing, Costly, Failed int64
}

// Compile compiles rules in their order. The error names each rule that is
// wrong, from 1, with line, column and a hint.
func Compile(rules []Rule) (*Rules, error) {
	if len(rules) > maxRules {
		return nil, fmt.Errorf("%d rules are more than %d", len(rules), maxRules)
	}
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	out := &Rules{rules: make([]compiled, 0, len(rules)), timeLimit: TimeLimit}
	var wrong []error
	for i, r := range rules {
		c, attributes, err := compile(env, r)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("rule %d: %w", i+1, err))
			continue
		}
		out.rules = append(out.rules, c)
		out.usesAttributes = out.usesAttributes || attributes
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return out, nil
}

// UsesAttributes says whether any rule looks at the message's attributes, so
// that they need not be fetched where none does.
func (r *Rules) UsesAttributes() bool { return r.usesAttributes }

// Classify returns the cause of the first rule that is true of a failure, and
// its index. Attributes that are nil are not at hand, and rules that need them
// do not fire. Nothing is kept.
func (r *Rules) Classify(route string, task dlqbridge.Task, failure dlqbridge.Failure, attributes map[string]string) (cause dlqbridge.Cause, rule int, ok bool) {
	seen := &view{route: route, task: task, failure: failure, attributes: attributes}
	for i := range r.rules {
		if r.fires(&r.rules[i], seen) {
			return r.rules[i].Cause, i, true
		}
	}
	return "", 0, false
}

// fires evaluates one rule. Its error is counted and ends here: a rule that
// cannot be evaluated says nothing about the failure.
func (r *Rules) fires(c *compiled, seen *view) bool {
	eval := c.program.Eval
	if c.loops {
		ctx, cancel := context.WithTimeout(context.Background(), r.timeLimit)
		defer cancel()
		eval = func(vars any) (value, *cel.EvalDetails, error) { return c.program.ContextEval(ctx, vars) }
	}
	out, _, err := eval(seen)
	if err != nil {
		c.counts.failure(err)
		return false
	}
	fired, _ := out.Value().(bool)
	if fired {
		c.counts.fired.Add(1)
	}
	return fired
}

func (c *counts) failure(err error) {
	_, stopped := errors.AsType[interpreter.EvalCancelledError](err)
	text := err.Error()
	switch {
	case stopped || strings.Contains(text, "operation interrupted"):
		c.costly.Add(1)
	case strings.HasPrefix(text, "no such key"), strings.HasPrefix(text, "no such attribute"):
		c.missing.Add(1)
	default:
		c.failed.Add(1)
	}
}

// Counts returns what became of each rule since Compile, in their order.
func (r *Rules) Counts() []Count {
	out := make([]Count, len(r.rules))
	for i, c := range r.rules {
		out[i] = Count{c.counts.fired.Load(), c.counts.missing.Load(), c.counts.costly.Load(), c.counts.failed.Load()}
	}
	return out
}

// Describe says which rule an index is, for people.
func (r *Rules) Describe(rule int) string {
	if rule < 0 || rule >= len(r.rules) {
		return ""
	}
	return fmt.Sprintf("rule %d: %s", rule+1, strings.Join(strings.Fields(r.rules[rule].When), " "))
}
