package wire

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

// aside is the URN of a place besides a route's source, asked for once. One
// that cannot be found keeps its name, which no destination has: what leads
// there is then excluded as without target and never goes to the source
// instead.
func (b *Bridge) aside(route, name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if urn, ok := b.asides[aside{route, name}]; ok {
		return urn
	}
	return name
}

// aside is a place as a route names it.
type aside struct{ route, name string }

// ResolveAsides asks for the URNs of the places besides a route's source.
func (b *Bridge) ResolveAsides(ctx context.Context, r config.Route) error {
	for _, name := range r.Asides() {
		if err := b.resolveAside(ctx, r, name); err != nil {
			return err
		}
	}
	return nil
}

// resolveAside asks for the URN of a place besides a route's source. A queue that
// is not there has the ARN that it would have.
func (b *Bridge) resolveAside(ctx context.Context, r config.Route, name string) error {
	urn := r.Aside(name)
	if urn == "" {
		var err error
		if urn, err = b.queueURN(ctx, name); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.Log.LogAttrs(ctx, slog.LevelWarn, "place cannot be opened", slog.String("route", r.Name), slog.String("place", name), slog.String("error", err.Error()))
			if urn, err = b.besideDead(ctx, r, name); err != nil {
				return fmt.Errorf("route %s: %s: %w", r.Name, name, err)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asides[aside{r.Name, name}] = urn
	return nil
}

// besideDead is the ARN of a queue in the account and region of a route's
// dead-letter queue.
func (b *Bridge) besideDead(ctx context.Context, r config.Route, queue string) (string, error) {
	dead, err := awssqs.Open(ctx, b.Queue(r.SQS.DeadLetterQueue))
	if err != nil {
		return "", err
	}
	return beside(dead.Place(), queue), nil
}

// leadsTo says whether some action of a route sends to a topic.
func leadsTo(r config.Route, urn string) bool {
	return r.Target() == urn || slices.Contains(topicsAside(r), urn)
}

// topicsAside are the full names of the topics besides a route's source.
func topicsAside(r config.Route) []string {
	if r.PubSub == nil {
		return nil
	}
	out := r.Asides()
	for i, name := range out {
		out[i] = r.Aside(name)
	}
	return out
}

// resumedFrom are the sources whose letters may be returns of what a route
// resumed: the queue that resumes go to, or the subscriptions of the topic.
func (b *Bridge) resumedFrom(ctx context.Context, r config.Route) ([]string, error) {
	if r.ResumeTo == "" {
		return nil, nil
	}
	if err := b.resolveAside(ctx, r, r.ResumeTo); err != nil {
		return nil, err
	}
	urn := b.aside(r.Name, r.ResumeTo)
	if r.PubSub == nil {
		return []string{urn}, nil
	}
	d, err := b.topic(ctx, urn)
	var facts dlqbridge.DestinationFacts
	if err == nil {
		facts, err = d.Facts(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// Letters are taken in all the same; those of its subscriptions are then
		// of an unknown source, which nothing is sent for.
		b.Log.LogAttrs(ctx, slog.LevelWarn, "place cannot be opened", slog.String("route", r.Name), slog.String("place", r.ResumeTo), slog.String("error", err.Error()))
	}
	return facts.Receivers, nil
}
