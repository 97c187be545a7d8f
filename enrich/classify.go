package enrich

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// rule names a cause, or not. The rules of one list are tried in order.
type rule struct {
	name string
	// cause returns the cause, the failure it was seen in (by position) and what
	// about it said so.
	cause func(c clues) (cause dlqbridge.Cause, seenIn int, detail string)
}

// clues is all that rules look at: failures as they were told, the most telling
// source first.
type clues struct {
	corrected dlqbridge.Cause
	// own is what the route's own rules say, with the rule that said it.
	own      dlqbridge.Cause
	ownRule  string
	failures []heardFailure
}

// Names of rules that are more than a name: what a person said, that no rule knew, the
// route's own, and those of all routes.
const (
	rulePerson = "person"
	ruleNone   = "none"
	ruleRoute  = "route"
	ruleShared = "classify"
)

// builtInRules is the order in which a cause is looked for: what a person said,
// what is critical whoever else says otherwise, the route's own rules, what
// worker or store stated, and last what codes and messages mean everywhere.
var builtInRules = []rule{
	{rulePerson, func(c clues) (dlqbridge.Cause, int, string) { return c.corrected, 0, "" }},
	{"critical", func(c clues) (dlqbridge.Cause, int, string) {
		for i, f := range c.failures {
			if f.failure.Cause == dlqbridge.CauseCritical {
				return dlqbridge.CauseCritical, i, f.store
			}
		}
		return "", 0, ""
	}},
	{ruleRoute, func(c clues) (dlqbridge.Cause, int, string) { return c.own, 0, c.ownRule }},
	{"stated", func(c clues) (dlqbridge.Cause, int, string) {
		for i, f := range c.failures {
			if f.failure.Cause.Valid() {
				return f.failure.Cause, i, f.store
			}
		}
		return "", 0, ""
	}},
	{"code", func(c clues) (dlqbridge.Cause, int, string) {
		for i, f := range c.failures {
			if cause := causeOfCode(f.failure.Code); cause != "" {
				return cause, i, f.failure.Code
			}
		}
		return "", 0, ""
	}},
	{"message", func(c clues) (dlqbridge.Cause, int, string) {
		for i, f := range c.failures {
			if cause, phrase := causeOfMessage(f.failure.Message); cause != "" {
				return cause, i, phrase
			}
		}
		return "", 0, ""
	}},
}

// classify names the cause and joins what is known of the failure: all fields
// of the source that named it, and what others add where it is silent.
func (e *Enricher) classify(f *facts, k known, findings []dlqbridge.Finding, payload *dlqbridge.Payload) dlqbridge.Failure {
	c := clues{corrected: f.cause, failures: telling(f, k)}
	c.own, c.ownRule = e.ownRule(k.task, joined(c.failures, 0), payload)
	cause, first, by := dlqbridge.CauseUnclassified, 0, ruleNone
	for _, r := range e.rules {
		if found, i, detail := r.cause(c); found != "" {
			cause, first, by = found, i, r.name
			switch {
			case r.name == ruleRoute && strings.HasPrefix(detail, SharedRule):
				by = cut(detail, maxName)
			case detail != "":
				by += ":" + cut(detail, maxName)
			}
			break
		}
	}
	out := joined(c.failures, first)
	out.Cause, out.Rule = cause, by
	// A technical failure with a call in flight: nobody knows whether it worked.
	// The technical error stays as detail. What a person said stands.
	technical := dlqbridge.DefaultCausePolicy(cause).Lane == dlqbridge.LaneTechnicalDependency
	if step, open := inFlight(findings); technical && open && f.cause == "" {
		out.Cause, out.Rule = dlqbridge.CauseAmbiguousEffect, "in_flight:"+step.Step+" ("+by+")"
		out.Step = cmp.Or(out.Step, step.Step)
	}
	if out.Retryable == nil {
		retryable := e.CausePolicy(out.Cause).Retryable
		out.Retryable = &retryable
	}
	out.Attempts = nonNil(out.Attempts)
	return out
}

// joined is the failure that stands first, with what the others add.
func joined(failures []heardFailure, first int) dlqbridge.Failure {
	var out dlqbridge.Failure
	if len(failures) > 0 {
		out = failures[first].failure
		for _, h := range failures {
			out = fill(out, h.failure)
		}
	}
	return out
}

// telling orders the failures: stores speak of the runs, so they go before a
// letter that the broker moved, which carries what its producer knew. A letter
// that the worker sent itself goes first.
func telling(f *facts, k known) []heardFailure {
	out := slices.Clone(k.failures)
	if len(out) > 1 && out[0].store == messageStore && !byWorker(f.newest()) {
		out = append(out[1:], out[0])
	}
	return out
}

func fill(a, b dlqbridge.Failure) dlqbridge.Failure {
	// Code and message belong together: a code from one source must not stand
	// beside another's message.
	if a.Code == "" && a.Message == "" {
		a.Code, a.Message = b.Code, b.Message
	}
	a.Phase, a.Step = cmp.Or(a.Phase, b.Phase), cmp.Or(a.Step, b.Step)
	a.Tool, a.Dependency = cmp.Or(a.Tool, b.Tool), cmp.Or(a.Dependency, b.Dependency)
	a.Retryable = cmp.Or(a.Retryable, b.Retryable)
	if len(a.Attempts) == 0 {
		a.Attempts = b.Attempts
	}
	return a
}

// inFlight finds a step that began and of which nobody knows how it ended: a
// named step that is unknown, which no later look at the outside world and no
// receipt has settled.
func inFlight(findings []dlqbridge.Finding) (dlqbridge.Finding, bool) {
	for _, f := range findings {
		if f.State != dlqbridge.EffectUnknown || f.Step == dlqbridge.AllSteps {
			continue
		}
		settled := slices.ContainsFunc(findings, func(g dlqbridge.Finding) bool {
			return g.State != dlqbridge.EffectUnknown && (g.Step == f.Step || g.Step == dlqbridge.AllSteps) &&
				(g.Run == f.Run || g.Run == "") && !g.AsOf.Before(f.AsOf) &&
				(g.Proof == dlqbridge.ProofOperator || g.Proof == dlqbridge.ProofSystemRead || g.Proof == dlqbridge.ProofReceipt)
		})
		if !settled {
			return f, true
		}
	}
	return dlqbridge.Finding{}, false
}

// causeByCode is knownCodes turned round, by squashed name.
var causeByCode = func() map[string]dlqbridge.Cause {
	out := map[string]dlqbridge.Cause{}
	for cause, names := range knownCodes {
		for _, n := range names {
			out[squash(n)] = cause
		}
	}
	return out
}()

// squash brings the spellings of one error name together: without package name,
// case, separators and a trailing Exception or Error.
func squash(code string) string {
	s := strings.TrimSpace(code)
	if i := strings.LastIndexAny(s, "#/"); i >= 0 && i < len(s)-1 {
		s = s[i+1:]
	}
	// The name after the last dot, but "States.Timeout" stays findable by it too.
	if i := strings.LastIndexByte(s, '.'); i >= 0 && i < len(s)-1 {
		s = s[i+1:]
	}
	s = strings.ToLower(s)
	s = strings.NewReplacer("_", "", "-", "", " ", "", ":", "").Replace(s)
	for _, suffix := range []string{"exception", "error"} {
		if rest, ok := strings.CutSuffix(s, suffix); ok && rest != "" {
			s = rest
		}
	}
	return s
}

// statusCode matches a status code where a text says that it is one.
var statusCode = regexp.MustCompile(`(?i)\b(?:http|https|status|statuscode)(?:[ _/-]?(?:1\.[01]|2|3))?(?:[ _-]?(?:status|code))*[ _:=/-]{0,3}([1-5]\d\d)\b`)

// causeOfCode is what a code means by itself; empty is nothing.
func causeOfCode(code string) dlqbridge.Cause {
	if code == "" {
		return ""
	}
	if cause, ok := causeByCode[squash(code)]; ok {
		return cause
	}
	// A code with more than the name: "ThrottlingException: Rate exceeded".
	if name, _, ok := strings.Cut(code, ":"); ok {
		if cause, ok := causeByCode[squash(name)]; ok {
			return cause
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(code), " ")
	if n, err := strconv.Atoi(first); err == nil {
		if cause, ok := grpcCauses[n]; ok {
			return cause
		}
		return causeOfStatus(n)
	}
	return causeInText(code)
}

func causeOfStatus(n int) dlqbridge.Cause {
	if cause, ok := httpCauses[n]; ok {
		return cause
	}
	if n >= 500 && n <= 599 {
		return dlqbridge.CauseDependencyUnavailable
	}
	return ""
}

func causeInText(s string) dlqbridge.Cause {
	if m := statusCode.FindStringSubmatch(s); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return causeOfStatus(n)
		}
	}
	return ""
}

// causeOfMessage is what a message means where no code helps: an error name or
// a status code in it, or a phrase that everybody uses.
func causeOfMessage(message string) (cause dlqbridge.Cause, by string) {
	if message == "" {
		return "", ""
	}
	// Many libraries write "Name: text".
	if name, _, ok := strings.Cut(message, ":"); ok && len(name) < 80 && !strings.ContainsAny(name, " \t\n") {
		if cause, ok := causeByCode[squash(name)]; ok {
			return cause, name
		}
	}
	if cause := causeInText(message); cause != "" {
		return cause, "status"
	}
	lower := strings.ToLower(message)
	for _, p := range knownPhrases {
		if strings.Contains(lower, p.text) {
			return p.cause, p.text
		}
	}
	return "", ""
}
