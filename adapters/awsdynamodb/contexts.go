package awsdynamodb

import (
	"context"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// Contexts implements dlqbridge.ContextReader.
func (s *Store) Contexts(ctx context.Context, names map[string]string) (map[string]dlqbridge.Context, error) {
	keys := make([]key, 0, len(names))
	for id, name := range names {
		keys = append(keys, contextKey(id, name))
	}
	found, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read contexts: %w", err)
	}
	out := make(map[string]dlqbridge.Context, len(names))
	for id, name := range names {
		it := found[contextKey(id, name)]
		if it == nil {
			continue
		}
		var c dlqbridge.Context
		if err := decodeDoc(it, &c); err != nil {
			return nil, err
		}
		out[id] = c
	}
	return out, nil
}
