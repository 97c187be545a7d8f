package awsdynamodb

import (
	"context"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// mutesShown is how long a mute that ended stays in the list, so that people
// see what was quiet and why; then the next one that is added drops it.
const mutesShown = 30 * 24 * time.Hour

func (s *Store) mutes() whole[dlqbridge.Mute] {
	return whole[dlqbridge.Mute]{store: s, key: mutesKey, what: "mute", id: func(m dlqbridge.Mute) string { return m.ID }}
}

// AddMute implements dlqbridge.Mutes. Adding a mute again replaces it.
func (s *Store) AddMute(ctx context.Context, m dlqbridge.Mute) error {
	if m.Signature == "" || m.Until.IsZero() {
		return fmt.Errorf("add mute %s: %w: it needs a signature and an end", m.ID, dlqbridge.ErrInvalid)
	}
	m.At, m.Until = bounded(m.At).UTC(), bounded(m.Until).UTC()
	return s.mutes().put(ctx, m, func(m dlqbridge.Mute) bool { return s.now().Before(m.Until.Add(mutesShown)) })
}

// RemoveMute implements dlqbridge.Mutes.
func (s *Store) RemoveMute(ctx context.Context, id string) error { return s.mutes().remove(ctx, id) }

// ListMutes implements dlqbridge.Mutes.
func (s *Store) ListMutes(ctx context.Context) ([]dlqbridge.Mute, error) { return s.mutes().list(ctx) }
