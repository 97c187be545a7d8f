package wire

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/celrules"
	"github.com/dlqbridge/dlqbridge/adapters/jmespathsel"
	"github.com/dlqbridge/dlqbridge/adapters/langgraph"
	"github.com/dlqbridge/dlqbridge/adapters/openaiagents"
	"github.com/dlqbridge/dlqbridge/adapters/powertools"
	"github.com/dlqbridge/dlqbridge/adapters/reconcile"
	"github.com/dlqbridge/dlqbridge/adapters/stepfunctions"
	"github.com/dlqbridge/dlqbridge/adapters/tablestore"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// historyTimeout is longer than ledgerTimeout, because a long history has many
// pages, and still shorter than what enrichment gives the store.
const historyTimeout = enrich.DefaultStoreTimeout * 4 / 5

// stores are those of the configuration, made once, so that all routes and
// judges share a store's budget and connections. None makes a call before it is
// asked.
type stores struct {
	byName map[string]dlqbridge.Store
	// missing is why a store cannot be asked from here: its secret is not there.
	missing map[string]error
	// advice is what is allowed in a store's settings and unwise.
	advice map[string][]string
}

// openStores makes them. The Step Functions client is made for whoever uses it.
func (b *Bridge) openStores(cloud aws.Config, env func(string) (string, bool)) error {
	b.stores = stores{byName: map[string]dlqbridge.Store{}, missing: map[string]error{}, advice: map[string][]string{}}
	var engine *sfn.Client
	for name, s := range b.Config.Stores {
		var made dlqbridge.Store
		var err error
		switch {
		case s.Powertools != nil:
			o := s.Powertools.Options(name)
			o.Client, o.Timeout, o.Parallel = b.tables, ledgerTimeout, ledgerAtOnce
			made, err = powertools.New(o)
		case s.LangGraph != nil:
			o := s.LangGraph.Options(name)
			o.Client, o.Timeout, o.Parallel = b.tables, ledgerTimeout, ledgerAtOnce
			made, err = langgraph.New(o)
		case s.DynamoDBTable != nil:
			o := s.DynamoDBTable.Options(name)
			o.Client, o.Timeout, o.Parallel = b.tables, ledgerTimeout, ledgerAtOnce
			made, err = tablestore.New(o)
		case s.OpenAIAgents != nil:
			o := s.OpenAIAgents.Options(name)
			o.Client, o.Timeout, o.Parallel = b.tables, ledgerTimeout, ledgerAtOnce
			made, err = openaiagents.New(o)
		case s.StepFunctions != nil:
			if engine == nil {
				engine = sfn.NewFromConfig(cloud, func(o *sfn.Options) { o.Retryer = aws.NopRetryer{} }) // the store judges each attempt itself
			}
			o := s.StepFunctions.Options(name)
			o.Client, o.Timeout = engine, historyTimeout
			made, err = stepfunctions.New(o)
		case s.Reconcile != nil:
			made, err = b.reconciler(name, *s.Reconcile, env)
		}
		if err != nil {
			return fmt.Errorf("%w: store %s: %w", dlqbridge.ErrInvalid, name, err)
		}
		b.stores.byName[name] = made
	}
	return nil
}

// reconciler makes one. A person who reads and triages need not have its
// secrets: then it is a store that cannot be asked, which proves nothing.
func (b *Bridge) reconciler(name string, r config.Reconcile, env func(string) (string, bool)) (dlqbridge.Store, error) {
	o := r.Options(name)
	o.Now, o.Env = b.Now, env
	made, err := reconcile.New(o)
	if err == nil {
		b.stores.advice[name] = made.Advice()
		b.onClose(func(context.Context) error { made.Close(); return nil })
		return made, nil
	}
	// The configuration was read with every variable there, so that nothing else
	// can be wrong.
	b.stores.missing[name] = fmt.Errorf("%w: store %s: %w", dlqbridge.ErrInvalid, name, err)
	return unaskable{name: name, why: err.Error()}, nil
}

// unaskable is a store that lacks what it would ask with.
type unaskable struct{ name, why string }

var _ dlqbridge.Store = unaskable{}

// Name implements dlqbridge.Store.
func (u unaskable) Name() string { return u.name }

// Ask implements dlqbridge.Store.
func (u unaskable) Ask(_ context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	out := make([]dlqbridge.Testimony, len(questions))
	for i := range out {
		out[i] = dlqbridge.Testimony{Store: u.name, Unavailable: u.why}
	}
	return out
}

// routeStores are those that a route names, in its order; the message itself is
// always read.
func (b *Bridge) routeStores(r config.Route, ledger dlqbridge.Store) []dlqbridge.Store {
	var out []dlqbridge.Store
	for _, name := range r.Stores {
		switch name {
		case "message":
		case "ledger":
			out = append(out, ledger)
		default:
			out = append(out, b.stores.byName[name])
		}
	}
	return out
}

// StoresReady says whether all stores of a route can be asked from here; who
// takes letters in must be able to.
func (b *Bridge) StoresReady(r config.Route) error {
	for _, name := range r.Stores {
		if err := b.stores.missing[name]; err != nil {
			return err
		}
	}
	return nil
}

// StoreMissing is why a store cannot be asked from here, nil if it can.
func (b *Bridge) StoreMissing(name string) error { return b.stores.missing[name] }

// StoreAdvice lists what is allowed in a store's settings and unwise.
func (b *Bridge) StoreAdvice(name string) []string { return b.stores.advice[name] }

// AskStore asks a store about a task that is never there, as enrichment would;
// it returns why the store could not answer, empty if it could.
func (b *Bridge) AskStore(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, enrich.DefaultStoreTimeout)
	defer cancel()
	const nobody = "dlqbridge-check"
	answer := b.stores.byName[name].Ask(ctx, []dlqbridge.Question{{Route: "check", TaskID: nobody, RunID: nobody, IdempotencyKey: nobody, Tenant: nobody, Now: b.Now()}})
	return answer[0].Unavailable
}

// addRules gives a route its rules and the form of its selectors.
func addRules(c config.Config, r config.Route, into *enrich.Route) error {
	into.JMESPath = func(expression string) (func(json []byte) (string, bool), error) {
		s, err := jmespathsel.Compile(expression)
		if err != nil {
			return nil, err
		}
		return s.Select, nil
	}
	rules := c.Rules(r)
	if len(rules) == 0 {
		return nil
	}
	compiled, err := celrules.Compile(rules)
	if err != nil {
		return fmt.Errorf("%w: route %s: classify: %w", dlqbridge.ErrInvalid, r.Name, err)
	}
	into.Rules = namedRules{compiled, len(r.Classify)}
	return nil
}

// namedRules tell a route's own rules from those of all routes, which stand
// behind them: each counts from 1 as in the configuration.
type namedRules struct {
	*celrules.Rules
	own int
}

// Describe implements enrich.Rules.
func (r namedRules) Describe(rule int) string {
	said := r.Rules.Describe(rule)
	if rule < r.own {
		return said
	}
	_, when, _ := strings.Cut(said, ": ")
	return fmt.Sprintf("%srule %d: %s", enrich.SharedRule, rule-r.own+1, when)
}

// withPayloads adds the payloads that ran last to what is judged again, where the
// route's stores or rules look at them. One that is gone or cannot be read is
// missing, and then such a store is unavailable: the record stays held.
func (b *Bridge) withPayloads(ctx context.Context, e *enrich.Enricher, subjects []enrich.Subject) {
	if !e.NeedsPayload() {
		return
	}
	ran := map[string]string{}
	for _, s := range subjects {
		k := s.Case.Control
		switch { // what the last run got, and not what a repair would give the next one
		case k.Newest == "":
		case k.Claim != nil:
			ran[k.ID] = k.PayloadName()
		default:
			ran[k.ID] = k.Newest
		}
	}
	if len(ran) == 0 {
		return
	}
	payloads, err := b.Store.Payloads(ctx, ran)
	if err != nil {
		b.Log.LogAttrs(ctx, slog.LevelWarn, "payloads cannot be read for the stores", slog.String("route", e.Route().Name), slog.String("error", err.Error()))
		return
	}
	for i := range subjects {
		if p, ok := payloads[subjects[i].Case.Control.ID]; ok {
			subjects[i].Payload = &p
		}
	}
}
