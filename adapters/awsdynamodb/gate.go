package awsdynamodb

import (
	"context"
	"fmt"
	"maps"

	"github.com/dlqbridge/dlqbridge"
)

// Look implements dlqbridge.Gate: one consistent read of up to 98 records with
// the job and the holds. For more, job and holds come with the last of them. A
// job that does not exist is ErrNotFound; an empty one is not asked for.
func (s *Store) Look(ctx context.Context, ids []string, job string) (dlqbridge.View, error) {
	v, err := s.look(ctx, ids, job)
	if err != nil {
		return dlqbridge.View{}, fmt.Errorf("look before sending: %w", err)
	}
	return v, nil
}

func (s *Store) look(ctx context.Context, ids []string, job string) (dlqbridge.View, error) {
	keys := make([]key, 0, len(ids)+2)
	for _, id := range ids {
		keys = append(keys, controlKey(id))
	}
	found := map[key]item{}
	if early := len(keys) - (maxBatchReads - 2); early > 0 {
		first, err := s.getAll(ctx, keys[:early])
		if err != nil {
			return dlqbridge.View{}, err
		}
		found, keys = first, keys[early:]
	}
	keys = append(keys, holdsKey)
	if job != "" {
		keys = append(keys, jobKey(job))
	}
	last, err := s.getAll(ctx, keys)
	if err != nil {
		return dlqbridge.View{}, err
	}
	maps.Copy(found, last)

	v := dlqbridge.View{Controls: make(map[string]dlqbridge.Control, len(ids))}
	if v.Holds, err = s.holds().decode(found[holdsKey]); err != nil {
		return dlqbridge.View{}, err
	}
	if job != "" {
		it := found[jobKey(job)]
		if it == nil {
			return dlqbridge.View{}, s.explain(jobKey(job), dlqbridge.ErrNotFound, "there is no such job")
		}
		if err := decodeDoc(it, &v.Job); err != nil {
			return dlqbridge.View{}, err
		}
	}
	var items []item
	for k, it := range found {
		if k.sk == skControl {
			items = append(items, it)
		}
	}
	controls, err := s.decodeAll(ctx, items)
	if err != nil {
		return dlqbridge.View{}, err
	}
	for _, c := range controls {
		v.Controls[c.ID] = c
	}
	return v, nil
}
