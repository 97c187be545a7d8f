package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// Confirm reads the completion messages of each route that names a place of
// them; only narrows to one route, empty is all. A place that cannot be read
// keeps back no other. Told hears each route's count; nil is fine. The sum is nil
// where no route names a place.
func (b *Bridge) Confirm(ctx context.Context, c *redrive.Controller, only string, told func(route string, n redrive.Confirmations)) (*redrive.Confirmations, error) {
	var sum *redrive.Confirmations
	var failed []error
	for _, r := range b.Config.Routes {
		if r.Completions == "" || only != "" && r.Name != only {
			continue
		}
		if sum == nil {
			sum = &redrive.Confirmations{}
		}
		place, err := b.completionsOf(ctx, r)
		if err != nil {
			failed = append(failed, fmt.Errorf("route %s: completions %s: %w", r.Name, r.Completions, err))
			continue
		}
		n, err := c.Completions(ctx, r.Name, place)
		sum.Add(n)
		if told != nil {
			told(r.Name, n)
		}
		failed = append(failed, err)
	}
	return sum, errors.Join(failed...)
}

func (b *Bridge) completionsOf(ctx context.Context, r config.Route) (dlqbridge.DeadLetters, error) {
	b.mu.Lock()
	place, ok := b.completions[r.Name]
	b.mu.Unlock()
	if ok {
		return place, nil
	}
	var err error
	if r.PubSub != nil {
		var o gcppubsub.Options
		if o, err = b.PubSubOptions(ctx, *r.PubSub); err == nil {
			o.Subscription = r.Completions
			place, err = gcppubsub.Open(ctx, o)
		}
	} else {
		place, err = awssqs.Open(ctx, b.Queue(r.Completions))
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.completions[r.Name] = place
	return place, nil
}
