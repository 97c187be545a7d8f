// Package check asks the providers whether the configuration can work, before
// it hurts: do queues and tables exist and fit together, do the clocks of
// retention leave time, may this caller do what the program does, and is there
// a route on which nothing could ever be proven.
//
// It changes nothing. Rights that only a real receive, send or delete could
// show are not tried; package adapters/awssqs lists them.
package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/adapters/bodyschema"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

// Level is how bad a finding is.
type Level string

// The levels: an error keeps the program from its work, a warning lets it work
// and lose or hold more than it must.
const (
	LevelError   Level = "error"
	LevelWarning Level = "warning"
	LevelOK      Level = "ok"
)

// Finding is one thing that was looked at.
type Finding struct {
	Level Level `json:"level"`
	// Route is empty for what concerns all.
	Route string `json:"route,omitempty"`
	// Subject is the table or queue.
	Subject string `json:"subject"`
	Text    string `json:"text"`
	// Hint is what would be right.
	Hint string `json:"hint,omitempty"`
}

// Report is all findings, in the order of the configuration.
type Report struct {
	OK       bool      `json:"ok"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"`
}

func (r *Report) add(f Finding) {
	if slices.Contains(r.Findings, f) {
		return // what is so for several routes is said once
	}
	switch f.Level {
	case LevelError:
		r.Errors++
	case LevelWarning:
		r.Warnings++
	case LevelOK:
	}
	r.Findings = append(r.Findings, f)
	r.OK = r.Errors == 0
}

// Run looks at everything.
func Run(ctx context.Context, b *wire.Bridge) Report {
	r := Report{OK: true, Findings: []Finding{}}
	for _, f := range Tables(ctx, b) {
		r.add(f)
	}
	for _, f := range Stores(ctx, b) {
		r.add(f)
	}
	for _, route := range b.Config.Routes {
		for _, f := range Route(ctx, b, route) {
			r.add(f)
		}
	}
	if len(b.Config.Routes) == 0 {
		r.add(Finding{LevelError, "", "routes", "there is none", "add one: - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}}"})
	}
	return r
}

// Tables looks at the tables, one by one, and reads from each as the program does.
func Tables(ctx context.Context, b *wire.Bridge) []Finding {
	t := b.Config.Tables
	tables := []struct {
		name  awsdynamodb.TableNames
		table string
		read  func(context.Context) error
	}{
		{awsdynamodb.TableNames{Records: t.Records}, t.Records, func(ctx context.Context) error {
			for _, err := range b.Store.List(ctx, dlqbridge.Filter{Now: b.Now()}) {
				return err // one page shows the right; its content does not matter
			}
			return nil
		}},
		{awsdynamodb.TableNames{Payloads: t.Payloads}, t.Payloads, func(ctx context.Context) error {
			_, err := b.Store.Payload(ctx, "r_check", "check")
			return err
		}},
	}
	if usesLedger(b.Config) {
		tables = append(tables, struct {
			name  awsdynamodb.TableNames
			table string
			read  func(context.Context) error
		}{awsdynamodb.TableNames{Ledger: t.Ledger}, t.Ledger, b.AskLedger})
	}
	var out []Finding
	for _, one := range tables {
		problems, err := awsdynamodb.InspectTables(ctx, b.DynamoDB, one.name)
		fatal := false
		for _, p := range problems {
			level, hint := LevelWarning, ""
			if p.Fatal {
				level, fatal = LevelError, true
				hint = "make it with your own tool, or for a trial with `dlqbridge tables create`"
			}
			out = append(out, Finding{level, "", "table " + p.Table, p.What, hint})
		}
		if err != nil {
			level := LevelError
			if errors.Is(err, dlqbridge.ErrDenied) {
				level = LevelWarning // describing a table is no right that the program needs to work
			}
			out = append(out, Finding{level, "", "table " + one.table, err.Error(), hintFor(err)})
		}
		if fatal {
			continue
		}
		if err := one.read(ctx); err != nil && !errors.Is(err, dlqbridge.ErrNotFound) {
			out = append(out, Finding{LevelError, "", "table " + one.table, err.Error(), hintFor(err)})
			continue
		}
		if len(problems) == 0 && err == nil {
			out = append(out, Finding{LevelOK, "", "table " + one.table, "it is there, with the right keys, and can be read", ""})
		}
	}
	return out
}

func usesLedger(c config.Config) bool {
	return slices.ContainsFunc(c.Routes, func(r config.Route) bool { return slices.Contains(r.Stores, "ledger") })
}

func hintFor(err error) string {
	switch {
	case errors.Is(err, dlqbridge.ErrDenied):
		if right := wire.Right(err); right != "" {
			return "the caller needs the right " + right
		}
		return "give the caller the right that is named"
	case errors.Is(err, dlqbridge.ErrCredentials):
		return "log in anew, or set AWS_PROFILE or the AWS_ACCESS_KEY_ID family"
	case errors.Is(err, dlqbridge.ErrUnavailable), errors.Is(err, dlqbridge.ErrUnclear):
		return "is the endpoint right (AWS_REGION, AWS_ENDPOINT_URL), and reachable from here?"
	}
	return ""
}

// Route looks at one route's places and at what it declares.
func Route(ctx context.Context, b *wire.Bridge, r config.Route) []Finding {
	c := &routeCheck{b: b, r: r}
	switch {
	case r.PubSub != nil:
		c.pubsub(ctx, *r.PubSub)
	case r.URL != nil:
		c.url(ctx, *r.URL)
	default:
		c.queues(ctx)
	}
	c.provable()
	c.schemas()
	if !slices.ContainsFunc(c.out, func(f Finding) bool { return f.Level != LevelOK }) {
		c.say(LevelOK, r.DeadLetterPlace(), "", "the places fit together")
	}
	return c.out
}

type routeCheck struct {
	b   *wire.Bridge
	r   config.Route
	out []Finding
}

func (c *routeCheck) say(level Level, subject, hint, format string, args ...any) {
	c.out = append(c.out, Finding{level, c.r.Name, subject, fmt.Sprintf(format, args...), hint})
}

// schemas looks whether the schemas of repaired bodies can be used: without
// them no repair of the route is accepted.
func (c *routeCheck) schemas() {
	for _, file := range c.b.Config.SchemaFiles(c.r) {
		if _, err := bodyschema.Open(file); err != nil {
			c.say(LevelError, "schema "+file, "correct the file, or its name in the configuration", "%v", err)
		}
	}
}

// provable warns of a route on which every effect stays unknown, or nothing is
// ever proven not to have happened.
func (c *routeCheck) provable() {
	if c.r.Effects != config.Effects(dlqbridge.EffectsMutating) || slices.Contains(c.r.Stores, "ledger") || c.r.TrustWorker {
		return
	}
	if declared := slices.DeleteFunc(slices.Clone(c.r.Stores), func(s string) bool { return s == "message" }); len(declared) > 0 {
		if !slices.ContainsFunc(declared, func(s string) bool { return c.b.Config.Stores[s].ProvesNone() }) {
			c.say(LevelWarning, "stores", "add a store that can prove it: the ledger, stepfunctions, dynamodb_table with none, openai_agents with saved_before_each_call, or reconcile with authoritative: true",
				"its stores (%s) can confirm an effect and never prove that nothing happened: without a person's word nothing is sent", strings.Join(declared, ", "))
		}
		return
	}
	c.say(LevelWarning, "effects", "three ways out: declare effects: none or effects: idempotent with its window; let the workers write the ledger (stores: [message, ledger]); or state effects by hand (`dlqbridge triage settle-effect`)",
		"the route declares nothing and asks no ledger, so nothing can ever be proven: every record waits for a person")
}
