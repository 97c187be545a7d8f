package enrich_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// asker keeps what it was asked and says nothing.
type asker struct{ questions []dlqbridge.Question }

func (*asker) Name() string { return "asker" }

func (a *asker) Ask(_ context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	a.questions = append(a.questions, questions...)
	return make([]dlqbridge.Testimony, len(questions))
}

// A store is asked with all that its key may be made from. When somebody last
// worked on a letter that just came is not known, only that it was before now.
func TestQuestionHoldsWhatStoresNeed(t *testing.T) {
	store := &asker{}
	e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Stores: []dlqbridge.Store{store}})
	l := sqsLetter(`{"order":7}`, text("agent.ctx", `{"task":"t","run":"r","tenant":"acme","idem":"k"}`))
	a := e.Extract(l)
	e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a, Payload: &l.Payload}})
	seen := dlqbridge.Case{Control: dlqbridge.Control{ID: "r_1", LastSeen: start.Add(-time.Hour), LastSend: start.Add(-time.Minute)}, Arrivals: []dlqbridge.Arrival{a}}
	seen.History = []dlqbridge.Move{{Verb: dlqbridge.VerbReceive, Arrival: a.Key}}
	e.Judge(t.Context(), start, []enrich.Subject{{Case: seen}})
	want := dlqbridge.Question{
		Route: "orders", TaskID: "t", RunID: "r", Tenant: "acme", IdempotencyKey: "k", MessageID: "m-1", Payload: &l.Payload, LastActivity: start, Now: start,
	}
	again := want
	again.Record, again.Payload, again.LastActivity = "r_1", nil, start.Add(-time.Minute)
	if diff := cmp.Diff([]dlqbridge.Question{want, again}, store.questions); diff != "" {
		t.Error(diff)
	}
}

// keyed is an asker that makes its key from the message.
type keyed struct{ asker }

func (*keyed) NeedsPayload() bool { return true }

// A letter without task id and key is asked about only where a store makes its
// key from the message, and only with the payload at hand.
func TestQuestionWithThePayloadOnly(t *testing.T) {
	other, store := &asker{}, &keyed{}
	l := sqsLetter(`{"order":7}`)
	e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Stores: []dlqbridge.Store{other}})
	none := e.Extract(l)
	e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &none, Payload: &l.Payload}})
	if len(other.questions) != 0 {
		t.Errorf("a store that knows tasks only is asked about none: %+v", other.questions)
	}
	e = enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Stores: []dlqbridge.Store{store}})
	a := e.Extract(l)
	e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}, {Arrival: &a, Payload: &l.Payload}})
	if len(store.questions) != 1 || store.questions[0].Payload == nil {
		t.Errorf("asked %+v", store.questions)
	}
}
