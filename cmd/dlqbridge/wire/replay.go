package wire

import (
	"context"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// Replayed is one record, decided once more by this configuration.
type Replayed struct {
	Was, Is enrich.Verdict
	// Skipped is why it was not; empty if it was.
	Skipped string
}

// Why a record is not decided once more.
const (
	SkippedRoute   = "route_not_configured"
	SkippedContext = "context_missing"
	SkippedPayload = "payload_expired"
)

// Replay decides stored records once more, by position, as they were decided
// last but by this configuration. It asks no store and writes nothing.
func (b *Bridge) Replay(ctx context.Context, controls []dlqbridge.Control) ([]Replayed, error) {
	cases, err := b.Store.Counted(ctx, controls)
	if err != nil {
		return nil, err
	}
	newest := map[string]string{}
	for _, c := range controls {
		if e, ok := b.judges[c.Route]; ok && e.NeedsPayload() && c.Newest != "" {
			newest[c.ID] = c.Newest
		}
	}
	if err := b.decided(ctx, controls, cases); err != nil {
		return nil, err
	}
	payloads := map[string]dlqbridge.Payload{}
	if len(newest) > 0 {
		if payloads, err = b.Store.Payloads(ctx, newest); err != nil {
			return nil, err
		}
	}
	out := make([]Replayed, len(controls))
	for i, c := range controls {
		one := cases[c.ID]
		var payload *dlqbridge.Payload
		if p, ok := payloads[c.ID]; ok {
			payload = &p
		} else if newest[c.ID] != "" {
			out[i].Skipped = SkippedPayload
			continue
		}
		out[i] = b.ReplayCase(one, payload)
	}
	return out, nil
}

// decided adds to the cases the contexts that they were decided on. A record
// that has closed was decided on an earlier one than its last, which only that
// one says, so those are read in a further round.
func (b *Bridge) decided(ctx context.Context, controls []dlqbridge.Control, cases map[string]dlqbridge.Case) error {
	names := map[string]string{}
	for _, c := range controls {
		one := cases[c.ID]
		one.Control = c
		cases[c.ID] = one
		if c.Context != "" {
			names[c.ID] = c.Context
		}
	}
	for len(names) > 0 {
		contexts, err := b.Store.Contexts(ctx, names)
		if err != nil {
			return err
		}
		names = map[string]string{}
		for id, x := range contexts { // what is not there is not asked for again
			one := cases[id]
			one.Contexts = append(one.Contexts, x)
			cases[id] = one
			if name := enrich.Decided(one); one.Control.Status.Closed() && name != "" && one.Context(name) == nil {
				names[id] = name
			}
		}
	}
	return nil
}

// ReplayCase is Replay for one record that is at hand.
func (b *Bridge) ReplayCase(c dlqbridge.Case, payload *dlqbridge.Payload) Replayed {
	e, ok := b.judges[c.Control.Route]
	if !ok {
		return Replayed{Skipped: SkippedRoute}
	}
	was, is, ok := e.Replay(c, payload)
	if !ok {
		return Replayed{Skipped: SkippedContext}
	}
	return Replayed{Was: was, Is: is}
}

// SkippedWords says in words why a record was not decided once more.
func SkippedWords(reason string) string {
	switch reason {
	case SkippedRoute:
		return "its route is not in this configuration"
	case SkippedContext:
		return "what it was decided on is not stored, or not all of it"
	case SkippedPayload:
		return "its route has rules over attributes, and its payload is gone"
	}
	return fmt.Sprintf("%q", reason)
}
