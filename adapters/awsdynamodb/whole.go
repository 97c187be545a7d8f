package awsdynamodb

import (
	"context"
	"fmt"
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// whole is a short list that stands in one item, so that one consistent read
// has all of it. That bounds it to some thousand entries.
type whole[T any] struct {
	store *Store
	key   key
	// what names one entry to people.
	what string
	id   func(T) string
}

// wholeTries bounds how often a change is tried again after another one came
// first; each time somebody else has succeeded.
const wholeTries = 50

// put adds an entry, or replaces the one with its id; keep says which of the
// others stay.
func (w whole[T]) put(ctx context.Context, entry T, keep func(T) bool) error {
	if w.id(entry) == "" {
		return fmt.Errorf("add %s: %w: it needs an id", w.what, dlqbridge.ErrInvalid)
	}
	err := w.change(ctx, func(all []T) ([]T, error) {
		all = slices.DeleteFunc(all, func(t T) bool { return !keep(t) && w.id(t) != w.id(entry) })
		if at := slices.IndexFunc(all, func(t T) bool { return w.id(t) == w.id(entry) }); at >= 0 {
			all[at] = entry
			return all, nil
		}
		return append(all, entry), nil
	})
	if err != nil {
		return fmt.Errorf("add %s %s: %w", w.what, w.id(entry), err)
	}
	return nil
}

// remove takes an entry out: ErrNotFound if it is not there.
func (w whole[T]) remove(ctx context.Context, id string) error {
	err := w.change(ctx, func(all []T) ([]T, error) {
		kept := slices.DeleteFunc(slices.Clone(all), func(t T) bool { return w.id(t) == id })
		if len(kept) == len(all) {
			return nil, w.store.explain(w.key, dlqbridge.ErrNotFound, "there is no such "+w.what)
		}
		return kept, nil
	})
	if err != nil {
		return fmt.Errorf("remove %s %s: %w", w.what, id, err)
	}
	return nil
}

// list returns all entries.
func (w whole[T]) list(ctx context.Context) ([]T, error) {
	it, err := w.store.get(ctx, w.key)
	var all []T
	if err == nil {
		all, err = w.decode(it)
	}
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", w.what, err)
	}
	return all, nil
}

func (w whole[T]) change(ctx context.Context, change func([]T) ([]T, error)) error {
	for range wholeTries {
		there, err := w.store.get(ctx, w.key)
		if err != nil {
			return err
		}
		all, err := w.decode(there)
		if err != nil {
			return err
		}
		if all, err = change(all); err != nil {
			return err
		}
		it, err := docItem(w.key, all)
		if err != nil {
			return fmt.Errorf("%w: encode %ss: %w", dlqbridge.ErrInvalid, w.what, err)
		}
		if itemSize(it) > maxItemBytes {
			return fmt.Errorf("%w: all %ss together take at most %d bytes; remove some that are over", dlqbridge.ErrTooLarge, w.what, maxItemBytes)
		}
		it[attrVersion] = number(numberOf(there, attrVersion) + 1)
		it[attrToken] = text(newToken())
		if err = w.store.putIf(ctx, it, unchanged(there, attrVersion)); !isRefused(err) {
			return err
		}
	}
	return w.store.explain(w.key, dlqbridge.ErrConflict, "others keep changing them")
}

func (w whole[T]) decode(it item) ([]T, error) {
	if len(it) == 0 {
		return nil, nil
	}
	var all []T
	err := decodeDoc(it, &all)
	return all, err
}
