package awsdynamodb

import (
	"context"
	"fmt"
	"maps"

	"github.com/dlqbridge/dlqbridge"
)

// Counted implements dlqbridge.CountedReader. All keys are known: the entries
// of a history follow from the version, and each entry names its items. So a
// batch of records takes one round of batch reads, and a second one only for
// what older entries name.
func (s *Store) Counted(ctx context.Context, controls []dlqbridge.Control) (map[string]dlqbridge.Case, error) {
	var keys []key
	for _, c := range controls {
		for version := 1; version < c.Version; version++ {
			keys = append(keys, eventKey(c.ID, version))
		}
		keys = append(keys, named(c.ID, c.Move)...)
		if c.Newest != "" && c.Newest != c.Move.Arrival { // an older entry names it: saves most second rounds
			keys = append(keys, arrivalKey(c.ID, c.Newest))
		}
	}
	found, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read what counts of %d records: %w", len(controls), err)
	}
	cases, late, err := counted(controls, found)
	if err == nil && len(late) > 0 {
		var more map[key]item
		if more, err = s.getAll(ctx, late); err == nil && len(more) > 0 {
			maps.Copy(found, more)
			cases, _, err = counted(controls, found)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read what counts of %d records: %w", len(controls), err)
	}
	return cases, nil
}

// counted puts what was read together and lists what is still to be read.
func counted(controls []dlqbridge.Control, found map[key]item) (map[string]dlqbridge.Case, []key, error) {
	of := map[string]map[key]item{}
	for k, it := range found {
		if of[k.pk] == nil {
			of[k.pk] = map[key]item{}
		}
		of[k.pk][k] = it
	}
	cases := make(map[string]dlqbridge.Case, len(controls))
	var late []key
	for _, control := range controls {
		c, err := assemble(control, of[recordPK(control.ID)])
		if err != nil {
			return nil, nil, err
		}
		for _, m := range c.History {
			for _, k := range named(control.ID, m) {
				if found[k] == nil {
					late = append(late, k)
				}
			}
		}
		cases[control.ID] = c
	}
	return cases, late, nil
}

// named lists the arrival and the note that count because of a move.
func named(id string, m dlqbridge.Move) []key {
	var keys []key
	if m.Arrival != "" {
		keys = append(keys, arrivalKey(id, m.Arrival))
	}
	if m.Note != "" {
		keys = append(keys, noteKey(id, m.Note))
	}
	return keys
}
