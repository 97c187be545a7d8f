package awsdynamodb

import (
	"context"

	"github.com/dlqbridge/dlqbridge"
)

// All holds stand in one item, so that whoever is about to send reads them in
// the same consistent look as the records.
func (s *Store) holds() whole[dlqbridge.Hold] {
	return whole[dlqbridge.Hold]{store: s, key: holdsKey, what: "hold", id: func(h dlqbridge.Hold) string { return h.ID }}
}

// AddHold implements dlqbridge.Holds. Adding a hold again replaces it.
func (s *Store) AddHold(ctx context.Context, h dlqbridge.Hold) error {
	h.At, h.Until = bounded(h.At).UTC(), bounded(h.Until).UTC()
	return s.holds().put(ctx, h, func(dlqbridge.Hold) bool { return true })
}

// RemoveHold implements dlqbridge.Holds.
func (s *Store) RemoveHold(ctx context.Context, id string) error { return s.holds().remove(ctx, id) }

// ListHolds implements dlqbridge.Holds.
func (s *Store) ListHolds(ctx context.Context) ([]dlqbridge.Hold, error) { return s.holds().list(ctx) }
