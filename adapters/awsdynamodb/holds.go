package awsdynamodb

import (
	"context"
	"fmt"
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// All holds stand in one item, so that whoever is about to send reads them in
// the same consistent look as the records. That bounds them to some thousand.

// holdTries bounds how often a change is tried again after another one came
// first; each time somebody else has succeeded.
const holdTries = 50

// AddHold implements dlqbridge.Holds. Adding a hold again replaces it.
func (s *Store) AddHold(ctx context.Context, h dlqbridge.Hold) error {
	err := s.changeHolds(ctx, func(holds []dlqbridge.Hold) ([]dlqbridge.Hold, error) {
		if h.ID == "" {
			return nil, fmt.Errorf("%w: it needs an id", dlqbridge.ErrInvalid)
		}
		h.At, h.Until = bounded(h.At).UTC(), bounded(h.Until).UTC()
		if at := slices.IndexFunc(holds, func(x dlqbridge.Hold) bool { return x.ID == h.ID }); at >= 0 {
			holds[at] = h
			return holds, nil
		}
		return append(holds, h), nil
	})
	if err != nil {
		return fmt.Errorf("add hold %s: %w", h.ID, err)
	}
	return nil
}

// RemoveHold implements dlqbridge.Holds.
func (s *Store) RemoveHold(ctx context.Context, id string) error {
	err := s.changeHolds(ctx, func(holds []dlqbridge.Hold) ([]dlqbridge.Hold, error) {
		kept := slices.DeleteFunc(slices.Clone(holds), func(h dlqbridge.Hold) bool { return h.ID == id })
		if len(kept) == len(holds) {
			return nil, s.explain(holdsKey, dlqbridge.ErrNotFound, "there is no such hold")
		}
		return kept, nil
	})
	if err != nil {
		return fmt.Errorf("remove hold %s: %w", id, err)
	}
	return nil
}

// ListHolds implements dlqbridge.Holds.
func (s *Store) ListHolds(ctx context.Context) ([]dlqbridge.Hold, error) {
	it, err := s.get(ctx, holdsKey)
	var holds []dlqbridge.Hold
	if err == nil {
		holds, err = decodeHolds(it)
	}
	if err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	return holds, nil
}

func (s *Store) changeHolds(ctx context.Context, change func([]dlqbridge.Hold) ([]dlqbridge.Hold, error)) error {
	for range holdTries {
		there, err := s.get(ctx, holdsKey)
		if err != nil {
			return err
		}
		holds, err := decodeHolds(there)
		if err != nil {
			return err
		}
		if holds, err = change(holds); err != nil {
			return err
		}
		it, err := docItem(holdsKey, holds)
		if err != nil {
			return fmt.Errorf("%w: encode holds: %w", dlqbridge.ErrInvalid, err)
		}
		if itemSize(it) > maxItemBytes {
			return fmt.Errorf("%w: all holds together take at most %d bytes; remove some that are over", dlqbridge.ErrTooLarge, maxItemBytes)
		}
		it[attrVersion] = number(numberOf(there, attrVersion) + 1)
		it[attrToken] = text(newToken())
		if err = s.putIf(ctx, it, unchanged(there, attrVersion)); !isRefused(err) {
			return err
		}
	}
	return s.explain(holdsKey, dlqbridge.ErrConflict, "others keep changing them")
}

func decodeHolds(it item) ([]dlqbridge.Hold, error) {
	if len(it) == 0 {
		return nil, nil
	}
	var holds []dlqbridge.Hold
	err := decodeDoc(it, &holds)
	return holds, err
}
