// Package enrich turns letters into records: what a letter carries, what the
// stores add, what is decided, and the intake that makes all of it durable
// before the letter is deleted.
//
// Read it in this order: [Enricher.Extract] takes identity and carried facts
// from one letter; [Enricher.Judge] asks the stores, folds, classifies and
// decides; [Judgement.Apply] turns the answer into the record's new control
// item; [Intake] does all three for whole batches of letters, and deletes.
//
// Judge is the only place where a decision is made. Intake calls it for each
// letter, triage for each verb that decides anew, a redrive job as its gate at
// claim time, and the service when a record's recheckAt is due. So a record is
// never sent on other grounds than the ones it was shown with.
package enrich

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Defaults of Route.
const (
	// DefaultPolicy is the author of decisions that no person took.
	DefaultPolicy = "policy:default@1"
	// DefaultStoreTimeout bounds one store's answer for one batch. It is far
	// below the 30 s that SQS hides letters for by default, so that a store
	// that hangs costs a recheck and not a second delivery.
	DefaultStoreTimeout = 5 * time.Second
)

// Route is one route as enrichment sees it: where its letters come from, what
// its team declared, and who can be asked.
type Route struct {
	// Name is the route's name in the configuration.
	Name string
	// Place is the URN of the dead-letter place.
	Place string
	// Source is the URN of the configured place that work is sent back to;
	// empty: each letter's own source decides.
	Source string
	// Effects is what the team declares about its tasks; empty is mutating.
	Effects dlqbridge.Effects
	// IdempotencyWindow is how long every mutating tool honours the key.
	IdempotencyWindow time.Duration
	// TrustWorker believes a worker's none_confirmed about its own run, on
	// letters that the worker itself sent to the dead-letter place.
	TrustWorker bool
	// Resume: the workers of this route can go on from a checkpoint.
	Resume bool
	// Compensates: the route names where compensations go. CompensatesAgain: it
	// says that repeating one does no harm.
	Compensates, CompensatesAgain bool
	// Resumed are the sources, besides the route's own, that dead-letter what it
	// has resumed: the queue or the subscriptions that resumes go to.
	Resumed []string
	// Stores are asked besides the letter itself. Each has StoreTimeout to
	// answer; one that does not is a finding "unknown".
	Stores       []dlqbridge.Store
	StoreTimeout time.Duration
	// Fields adds selectors per field, tried before the built-in ones:
	// attr:NAME, sys:NAME, body:/json/pointer or jmespath:EXPRESSION.
	// FieldNames lists the fields.
	Fields map[string][]string
	// JMESPath compiles the expressions of jmespath: selectors; nil refuses them.
	JMESPath CompileExpression
	// Rules are the route's own rules for the cause of a failure; nil is none.
	Rules Rules
	// Topics are the ARNs of the SNS topics that are subscribed to the source.
	// Only their envelopes are opened: nothing in a message proves that SNS
	// wrapped it, so naming a topic says that nobody else may send to the queue.
	Topics []string
	// Policies overrides how causes are handled; a cause that is missing has
	// its default.
	Policies map[dlqbridge.Cause]dlqbridge.CausePolicy
	// Policy is the author of decisions: name and version; empty is DefaultPolicy.
	Policy string
}

// Enricher extracts and judges for one route. Its methods may be called
// concurrently.
type Enricher struct {
	route Route
	// selectors are the route's own and the built-in ones, by field, in order.
	selectors []fieldSelectors
	rules     []rule
}

// New checks a route and prepares it. The error names the field.
func New(route Route) (*Enricher, error) {
	switch {
	case route.Name == "":
		return nil, errors.New("route: name is missing")
	case route.Place == "":
		return nil, fmt.Errorf("route %s: the dead-letter place is missing", route.Name)
	case route.Effects == dlqbridge.EffectsIdempotent && route.IdempotencyWindow <= 0:
		return nil, fmt.Errorf("route %s: effects: idempotent needs an idempotency_window", route.Name)
	}
	switch route.Effects {
	case dlqbridge.EffectsMutating, dlqbridge.EffectsIdempotent, dlqbridge.EffectsNone:
	case "":
		route.Effects = dlqbridge.EffectsMutating
	default:
		return nil, fmt.Errorf("route %s: effects %q: write mutating, idempotent or none", route.Name, route.Effects)
	}
	route.Policy = cmp.Or(route.Policy, DefaultPolicy)
	route.StoreTimeout = cmp.Or(route.StoreTimeout, DefaultStoreTimeout)
	selectors, err := compileFields(route.Fields, route.JMESPath)
	if err != nil {
		return nil, fmt.Errorf("route %s: %w", route.Name, err)
	}
	return &Enricher{route: route, selectors: selectors, rules: builtInRules}, nil
}

// Route returns the route with its defaults filled in.
func (e *Enricher) Route() Route { return e.route }

// CausePolicy is how this route handles a cause.
func (e *Enricher) CausePolicy(c dlqbridge.Cause) dlqbridge.CausePolicy {
	if p, ok := e.route.Policies[c]; ok {
		return p
	}
	return dlqbridge.DefaultCausePolicy(c)
}
