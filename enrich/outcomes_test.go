package enrich_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// slowStore can only be asked in full, quickStore also for outcomes alone.
type slowStore struct{}

func (slowStore) Name() string { return "slow" }
func (slowStore) Ask(_ context.Context, q []dlqbridge.Question) []dlqbridge.Testimony {
	return make([]dlqbridge.Testimony, len(q))
}

type quickStore struct {
	slowStore
	completed map[string]*dlqbridge.Completion
	err       error
}

func (s quickStore) Outcomes(_ context.Context, questions []dlqbridge.Question) ([]*dlqbridge.Completion, error) {
	var out []*dlqbridge.Completion
	for _, q := range questions {
		if q.Route != "orders" || q.Record == "" {
			return nil, errors.New("a question without its route or record")
		}
		out = append(out, s.completed[q.TaskID])
	}
	return out, s.err
}

// Only where every store can say it alone is an outcome known from a glance.
func TestOutcomesAreKnownWhereEveryStoreCanTell(t *testing.T) {
	first, second := &dlqbridge.Completion{Store: "a"}, &dlqbridge.Completion{Store: "b"}
	a := quickStore{completed: map[string]*dlqbridge.Completion{"t-1": first}}
	b := quickStore{completed: map[string]*dlqbridge.Completion{"t-1": second, "t-2": second}}
	controls := []dlqbridge.Control{{ID: "r_1", TaskID: "t-1"}, {ID: "r_2", TaskID: "t-2"}, {ID: "r_3", TaskID: "t-3"}}
	for name, tt := range map[string]struct {
		stores   []dlqbridge.Store
		controls []dlqbridge.Control
		known    bool
	}{
		"two quick ones":    {[]dlqbridge.Store{a, b}, controls, true},
		"none":              {nil, controls, true},
		"a slow one":        {[]dlqbridge.Store{a, slowStore{}}, controls, false},
		"one that fails":    {[]dlqbridge.Store{a, quickStore{err: dlqbridge.ErrDenied}}, controls, false},
		"no id of the task": {[]dlqbridge.Store{a, b}, []dlqbridge.Control{{ID: "r_1"}}, false},
	} {
		e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Source: arn("orders"), Stores: tt.stores})
		got, known := e.Outcomes(t.Context(), start, tt.controls)
		if known != tt.known {
			t.Errorf("%s: known %v", name, known)
		}
		if known && len(tt.stores) > 0 && (got[0] != first || got[1] != second || got[2] != nil) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
