package enrich

import (
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// CompileExpression compiles one expression that finds a value in a JSON text.
// Its error is for the person who wrote the configuration: position and hint.
// The function it returns may be called concurrently and gets valid JSON; it
// returns the value as text, numbers with the digits they were written with,
// and false where there is none. It keeps nothing.
type CompileExpression = func(expression string) (func(json []byte) (value string, ok bool), error)

// SharedRule begins the description of a rule that is not the route's own but
// stands for all routes, so that the two are told apart.
const SharedRule = ruleShared + ":"

// Rules are a route's own rules for the cause of a failure (adapters/celrules
// has them in CEL). Calls may be concurrent and arguments are not kept.
type Rules interface {
	// Classify returns the cause of the first rule that is true, and its index;
	// a rule that cannot be evaluated is not true. Task and failure are joined
	// from letter and stores. Attributes are the texts among the message's own,
	// nil where the payload is not at hand.
	Classify(route string, task dlqbridge.Task, failure dlqbridge.Failure, attributes map[string]string) (cause dlqbridge.Cause, rule int, ok bool)
	// Describe says which rule an index is, for people.
	Describe(rule int) string
}

// NeedsPayload says whether judging needs the newest letter's payload (see
// Subject): the route's rules look at attributes, or a store makes its key from
// the message. Without it such rules are not true and such a store is
// unavailable, which is careful but may be another answer than at intake.
func (e *Enricher) NeedsPayload() bool {
	if r, ok := e.route.Rules.(interface{ UsesAttributes() bool }); ok && r.UsesAttributes() {
		return true
	}
	return slices.ContainsFunc(e.route.Stores, needsPayload)
}

// needsPayload says whether a store makes its key from the message.
func needsPayload(s dlqbridge.Store) bool {
	n, ok := s.(interface{ NeedsPayload() bool })
	return ok && n.NeedsPayload()
}

// ownRule asks the route's rules; a cause outside the set is none.
func (e *Enricher) ownRule(task dlqbridge.Task, joined dlqbridge.Failure, payload *dlqbridge.Payload) (dlqbridge.Cause, string) {
	if e.route.Rules == nil {
		return "", ""
	}
	cause, rule, ok := e.route.Rules.Classify(e.route.Name, task, joined, texts(payload))
	if !ok || !cause.Valid() {
		return "", ""
	}
	return cause, e.route.Rules.Describe(rule)
}

// texts are a payload's attributes that are no binary ones.
func texts(p *dlqbridge.Payload) map[string]string {
	if p == nil {
		return nil
	}
	out := make(map[string]string, len(p.Attributes))
	for _, a := range p.Attributes {
		if v, ok := attributeText(a); ok {
			out[a.Name] = v.text
		}
	}
	return out
}
