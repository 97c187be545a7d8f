package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/adapters/bodyschema"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// Bounds is what repaired payloads are held against. What it asked for once,
// limits of destinations and schemas, it keeps for as long as it lives: one
// command. Its methods may be called concurrently.
type Bounds struct {
	b          *Bridge
	controller *redrive.Controller

	mu      sync.Mutex
	facts   map[string]asked
	schemas map[string]opened
}

type asked struct {
	facts dlqbridge.DestinationFacts
	note  string
	err   error
}

type opened struct {
	schema *bodyschema.Schema
	err    error
}

// Bounds makes one.
func (b *Bridge) Bounds() *Bounds {
	return &Bounds{b: b, controller: b.Controller(), facts: map[string]asked{}, schemas: map[string]opened{}}
}

// Task implements triage.Bounds.
func (o *Bounds) Task(c dlqbridge.Control, a dlqbridge.Arrival, p dlqbridge.Payload) (dlqbridge.Task, error) {
	e, ok := o.b.judges[c.Route]
	if !ok {
		return dlqbridge.Task{}, fmt.Errorf("%w: route %s of record %s is not in the configuration", dlqbridge.ErrInvalid, c.Route, c.ID)
	}
	return e.Extract(dlqbridge.Letter{
		Provider: c.Provider, Place: a.Place, Source: a.Source, MessageID: a.MessageID, SentAt: a.SentAt, System: a.System, Payload: p,
	}).Task, nil
}

// Schema implements triage.Bounds.
func (o *Bounds) Schema(route, taskType string, body []byte) error {
	r, ok := o.b.Config.Route(route)
	if !ok {
		return nil
	}
	file := o.b.Config.SchemaFile(r, taskType)
	if file == "" {
		return nil
	}
	o.mu.Lock()
	have, ok := o.schemas[file]
	if !ok {
		have.schema, have.err = bodyschema.Open(file)
		o.schemas[file] = have
	}
	o.mu.Unlock()
	if have.err != nil {
		return have.err
	}
	return have.schema.Check(body)
}

// Fits implements triage.Bounds. Whoever may not ask the destination about its
// own limit is told so and held to the provider's; the gate looks again.
func (o *Bounds) Fits(ctx context.Context, c dlqbridge.Control, idempotencyKey string, p dlqbridge.Payload) (string, error) {
	to := o.destination(ctx, c)
	if to.err != nil {
		return "", to.err
	}
	out := redrive.Draft(c, p, "", idempotencyKey, to.facts)
	r, _ := o.b.Config.Route(c.Route)
	switch {
	case r.PubSub != nil:
		return to.note, gcppubsub.Check(out, to.facts)
	case r.SQS != nil:
		return to.note, awssqs.Check(out, to.facts)
	case to.facts.MaxBytes > 0 && out.Size() > to.facts.MaxBytes:
		return to.note, fmt.Errorf("%w: %d bytes, %s takes at most %d", dlqbridge.ErrTooLarge, out.Size(), to.facts.URN, to.facts.MaxBytes)
	}
	return to.note, nil
}

// destination asks where a record's work is sent about its limits, once.
func (o *Bounds) destination(ctx context.Context, c dlqbridge.Control) asked {
	urn := o.controller.SendsTo(c)
	key := c.Route + " " + urn
	o.mu.Lock()
	defer o.mu.Unlock()
	if have, ok := o.facts[key]; ok {
		return have
	}
	var out asked
	d, err := o.b.destinationOf(ctx, c.Route, urn)
	if err == nil {
		out.facts, err = d.Facts(ctx)
	}
	switch {
	case err == nil:
	case errors.Is(err, dlqbridge.ErrDenied), errors.Is(err, dlqbridge.ErrNotFound), urn == "":
		out.facts = limitsOf(c.Provider)
		out.note = "The destination's own limit could not be asked for, so the provider's counts until it is sent."
	default:
		out.err = err
		return out // the next record may have more luck
	}
	o.facts[key] = out
	return out
}

// limitsOf are those of any destination of a provider.
func limitsOf(p dlqbridge.Provider) dlqbridge.DestinationFacts {
	if p == dlqbridge.PubSub {
		return dlqbridge.DestinationFacts{MaxAttributes: gcppubsub.MaxAttributes}
	}
	return dlqbridge.DestinationFacts{MaxAttributes: awssqs.MaxAttributes}
}
