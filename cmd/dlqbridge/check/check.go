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
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
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
				hint = "make it with Terraform, or for a trial with `dlqbridge tables create`"
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

// shortVisibility is below the time that a slow store and a few tries of a
// throttled write may take: letters would come again while they are stored.
const shortVisibility = 30 * time.Second

// Route looks at one route's queues and at what it declares.
func Route(ctx context.Context, b *wire.Bridge, r config.Route) []Finding {
	c := &routeCheck{b: b, r: r}
	dead, deadOK := c.inspect(ctx, r.SQS.DeadLetterQueue, "dead-letter queue")
	if deadOK {
		c.deadLetters(dead)
	}
	if r.SQS.SourceQueue != "" {
		if source, ok := c.inspect(ctx, r.SQS.SourceQueue, "source queue"); ok {
			c.source(source)
			if deadOK {
				c.pair(source, dead)
			}
		}
	} else if deadOK {
		c.shared(ctx, dead)
	}
	c.provable()
	if !slices.ContainsFunc(c.out, func(f Finding) bool { return f.Level != LevelOK }) {
		c.say(LevelOK, r.SQS.DeadLetterQueue, "", "the queues fit together")
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

func (c *routeCheck) inspect(ctx context.Context, queue, what string) (awssqs.QueueFacts, bool) {
	facts, err := awssqs.Inspect(ctx, c.b.Queue(queue))
	switch {
	case errors.Is(err, dlqbridge.ErrNotFound):
		c.say(LevelError, queue, "create it, or name the right one (a queue of another account needs its URL or ARN)", "the %s does not exist", what)
	case err != nil:
		c.say(LevelError, queue, hintFor(err), "%v", err)
	}
	return facts, err == nil
}

func (c *routeCheck) deadLetters(q awssqs.QueueFacts) {
	name := c.r.SQS.DeadLetterQueue
	if q.DeadLetterPlace != "" {
		c.say(LevelWarning, name, "take the redrive policy off the dead-letter queue",
			"it has a redrive policy itself: a letter that is received %d times without being stored moves on to %s", q.MaxReceives, q.DeadLetterPlace)
	}
	if q.Visibility < shortVisibility {
		c.say(LevelWarning, name, "set it to "+config.Duration(shortVisibility).String()+" or more",
			"its visibility timeout is %s: letters may come again while they are being stored", config.Duration(q.Visibility))
	}
	if q.SourcesErr != nil {
		c.say(LevelWarning, name, hintFor(q.SourcesErr), "which queues dead-letter into it cannot be asked: %v", q.SourcesErr)
	}
}

func (c *routeCheck) source(q awssqs.QueueFacts) {
	auto := max(config.MinObserve, time.Duration(q.MaxReceives)*q.Visibility)
	if window := time.Duration(c.b.Config.Redrive.ObserveFor); window > 0 && window < auto {
		c.say(LevelError, c.r.SQS.SourceQueue, "leave redrive.observe_for at auto, or make it "+config.Duration(auto).String()+" or longer",
			"redrive.observe_for %s is shorter than the %s it needs (maxReceiveCount %d x visibility timeout %s)",
			config.Duration(window), config.Duration(auto), q.MaxReceives, config.Duration(q.Visibility))
	}
}

// pair looks at the two queues together.
func (c *routeCheck) pair(source, dead awssqs.QueueFacts) {
	name := c.r.SQS.DeadLetterQueue
	switch {
	case source.ARN == dead.ARN:
		c.say(LevelError, name, "name the queue that the workers read as source_queue", "source and dead-letter queue are the same")
		return
	case source.FIFO != dead.FIFO:
		c.say(LevelError, name, "both must be FIFO, or neither", "%s is %s and %s is %s", c.r.SQS.SourceQueue, kind(source), name, kind(dead))
	case source.DeadLetterPlace == "":
		c.say(LevelWarning, c.r.SQS.SourceQueue, "give the source a redrive policy, unless its workers dead-letter by themselves",
			"the source has no redrive policy: a task that keeps failing never becomes a letter")
	case source.DeadLetterPlace != dead.ARN:
		c.say(LevelError, c.r.SQS.SourceQueue, "name that queue as dead_letter_queue, or mend the redrive policy",
			"the source dead-letters into %s, not into %s", source.DeadLetterPlace, dead.ARN)
	}
	// On a standard queue the clock of retention runs on from the first send
	// through the move; on FIFO it starts anew.
	if !dead.FIFO && dead.Retention <= source.Retention {
		c.say(LevelWarning, name, "make the dead-letter queue's retention longer than the source's, best 14d",
			"it keeps a message for %s from its first send, the source for %s: a letter may be lost soon after it dies",
			config.Duration(dead.Retention), config.Duration(source.Retention))
	}
	if dead.AllowPermission == "denyAll" || dead.AllowPermission == "byQueue" && !slices.Contains(dead.AllowedSources, source.ARN) {
		c.say(LevelWarning, name, "allow the source in its redrive allow policy", "its redrive allow policy (%s) does not let %s in", dead.AllowPermission, source.ARN)
	}
	var others []string
	for _, url := range dead.SourceURLs {
		if url != source.URL {
			others = append(others, url)
		}
	}
	if len(others) > 0 {
		c.say(LevelWarning, name, "leave source_queue out: then each letter's own source decides",
			"other queues dead-letter into it too (%s): their records are never sent to this route's source", strings.Join(others, ", "))
	}
	if source.MaxBytes < dead.MaxBytes {
		c.say(LevelWarning, c.r.SQS.SourceQueue, "raise MaximumMessageSize of the source", "it takes messages of %d bytes, the dead-letter queue of %d: larger letters cannot go back", source.MaxBytes, dead.MaxBytes)
	}
}

func kind(q awssqs.QueueFacts) string {
	if q.FIFO {
		return "FIFO"
	}
	return "standard"
}

// shared looks at a dead-letter queue whose letters name their own sources.
func (c *routeCheck) shared(ctx context.Context, dead awssqs.QueueFacts) {
	name := c.r.SQS.DeadLetterQueue
	if len(dead.SourceURLs) == 0 && dead.SourcesErr == nil {
		c.say(LevelWarning, name, "name a source_queue", "no queue dead-letters into it and the route has no source_queue: nothing could be sent back")
	}
	for _, url := range dead.SourceURLs {
		source, err := awssqs.Inspect(ctx, c.b.Queue(url))
		if err != nil {
			c.say(LevelWarning, url, hintFor(err), "a source of %s cannot be looked at: %v", name, err)
			continue
		}
		if !dead.FIFO && dead.Retention <= source.Retention {
			c.say(LevelWarning, name, "make the dead-letter queue's retention longer than the source's, best 14d",
				"it keeps a message for %s from its first send, its source %s for %s: a letter may be lost soon after it dies",
				config.Duration(dead.Retention), url, config.Duration(source.Retention))
		}
	}
}

// provable warns of a route on which every effect stays unknown.
func (c *routeCheck) provable() {
	if c.r.Effects != config.Effects(dlqbridge.EffectsMutating) || slices.Contains(c.r.Stores, "ledger") || c.r.TrustWorker {
		return
	}
	c.say(LevelWarning, "effects", "three ways out: declare effects: none or effects: idempotent with its window; let the workers write the ledger (stores: [message, ledger]); or state effects by hand (`dlqbridge triage settle-effect`)",
		"the route declares nothing and asks no ledger, so nothing can ever be proven: every record waits for a person")
}
