package wire

import (
	"context"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// Intake opens a route's places and makes the intake that reads them. A place
// that is missing or may not be read is named before anything is received.
func (b *Bridge) Intake(ctx context.Context, r config.Route, observer enrich.Observer) (*enrich.Intake, dlqbridge.DeadLetters, error) {
	if err := b.StoresReady(r); err != nil {
		return nil, nil, err
	}
	letters, err := b.Letters(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	source, err := b.Source(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	resumed, err := b.resumedFrom(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	reader, err := b.ledger()
	if err != nil {
		return nil, nil, err
	}
	enricher, err := b.enricher(r, letters.Place(), source, resumed, reader)
	if err != nil {
		return nil, nil, err
	}
	in, err := enrich.NewIntake(enrich.IntakeOptions{
		Places:   []enrich.Place{{Letters: letters, Enricher: enricher}},
		Evidence: b.Store, Controls: b.Store, Cases: b.Store, Messages: b.Store,
		Pollers: r.Pollers, Log: b.Log, Observer: observer, Now: b.Now,
	})
	return in, letters, err
}
