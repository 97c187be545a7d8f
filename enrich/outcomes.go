package enrich

import (
	"context"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Outcomes asks whether the tasks of records completed, and nothing else, and
// answers by position. It says false where that is not enough: a record without
// a task id, a store that can only be asked in full, or one that cannot tell now.
func (e *Enricher) Outcomes(ctx context.Context, now time.Time, controls []dlqbridge.Control) ([]*dlqbridge.Completion, bool) {
	questions := make([]dlqbridge.Question, len(controls))
	for i, c := range controls {
		if c.TaskID == "" {
			return nil, false
		}
		questions[i] = dlqbridge.Question{Route: e.route.Name, TaskID: c.TaskID, Tenant: c.Tenant, Record: c.ID, Now: now}
	}
	out := make([]*dlqbridge.Completion, len(controls))
	ctx, cancel := context.WithTimeout(ctx, e.route.StoreTimeout)
	defer cancel()
	for _, store := range e.route.Stores {
		quick, ok := store.(dlqbridge.OutcomeStore)
		if !ok {
			return nil, false
		}
		seen, err := quick.Outcomes(ctx, slices.Clone(questions))
		if err != nil || len(seen) != len(questions) {
			return nil, false
		}
		for i, by := range seen {
			if out[i] == nil { // in the route's order
				out[i] = by
			}
		}
	}
	return out, true
}
