package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/celrules"
	"github.com/dlqbridge/dlqbridge/adapters/jmespathsel"
)

// Rule names the cause of failures for which a CEL expression is true.
type Rule struct {
	When  string    `yaml:"when" doc:"CEL that is true or false, over failure, task, route and attributes." required:"true"`
	Cause CauseWord `yaml:"cause" doc:"The cause of a failure for which it is true." required:"true"`
}

// CauseWord is a cause of the closed set.
type CauseWord dlqbridge.Cause

var _ text = (*CauseWord)(nil)

func (CauseWord) values() []string { return knownCauses() }

// UnmarshalText reads one of the closed set.
func (c *CauseWord) UnmarshalText(b []byte) error { return choose(c, b) }

// MarshalText writes the word.
func (c CauseWord) MarshalText() ([]byte, error) { return []byte(c), nil }

func knownCauses() []string {
	var out []string
	for _, c := range dlqbridge.Causes() {
		out = append(out, string(c))
	}
	return out
}

// Rules are those of a route in their order: its own, then those of all.
func (c Config) Rules(r Route) []celrules.Rule {
	var out []celrules.Rule
	for _, rule := range slices.Concat(r.Classify, c.Classify) {
		out = append(out, celrules.Rule{When: rule.When, Cause: dlqbridge.Cause(rule.Cause)})
	}
	return out
}

// validateRules compiles each rule by itself, so that each has its line.
func validateRules(d *decoder, path string, rules []Rule) {
	for i, r := range rules {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case strings.TrimSpace(r.When) == "":
			d.reportAt(at+".when", "missing", `write what must be true, such as failure.code == "E_SCHEMA_17"`)
			continue
		case r.Cause == "":
			d.reportAt(at+".cause", "missing", "known are "+strings.Join(knownCauses(), ", "))
			continue
		}
		if _, err := celrules.Compile([]celrules.Rule{{When: r.When, Cause: dlqbridge.Cause(r.Cause)}}); err != nil {
			d.reportAt(at+".when", strings.TrimPrefix(err.Error(), "rule 1: "), "")
		}
	}
}

// validateAllRules looks at how many there are together, too.
func validateAllRules(d *decoder, c Config) {
	validateRules(d, "classify", c.Classify)
	for i, r := range c.Routes {
		validateRules(d, fmt.Sprintf("routes[%d].classify", i), r.Classify)
	}
	for i, r := range c.Routes {
		if _, err := celrules.Compile(c.Rules(r)); err != nil && len(d.problems) == 0 {
			d.reportAt(fmt.Sprintf("routes[%d].classify", i), err.Error(), "")
		}
	}
}

// wrongExpression says what is wrong with a JMESPath expression; empty is nothing.
func wrongExpression(expression string) string {
	if _, err := jmespathsel.Compile(expression); err != nil {
		return err.Error()
	}
	return ""
}
