package wire

import (
	"context"
	"fmt"

	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// Intake opens a route's queues and makes the intake that reads them. A queue
// that is missing or may not be read is named before anything is received.
func (b *Bridge) Intake(ctx context.Context, r config.Route, observer enrich.Observer) (*enrich.Intake, *awssqs.DeadLetters, error) {
	letters, err := awssqs.Open(ctx, b.Queue(r.SQS.DeadLetterQueue))
	if err != nil {
		return nil, nil, fmt.Errorf("route %s: dead-letter queue %s: %w", r.Name, r.SQS.DeadLetterQueue, err)
	}
	source, err := b.Source(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	reader, err := b.ledger()
	if err != nil {
		return nil, nil, err
	}
	enricher, err := enrich.New(b.enrichRoute(r, letters.Place(), source, reader))
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
