package awsdynamodb_test

import (
	"fmt"
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

// What counts of a record is the same whether it is read alone or in a batch,
// and a batch takes a call for each hundred items, not one for each record.
func TestWhatCountsIsReadTogether(t *testing.T) {
	b := open(t)
	var controls []dlqbridge.Control
	var evidence []dlqbridge.Evidence
	for n := range 100 {
		c := record(n)
		c.Newest = fmt.Sprintf("%024d", n)
		c.Move.Arrival = c.Newest
		b.create(t, c)
		evidence = append(evidence,
			dlqbridge.Evidence{Record: c.ID, Item: dlqbridge.Arrival{Key: c.Newest, SentAt: start}},
			dlqbridge.Evidence{Record: c.ID, Item: dlqbridge.Arrival{Key: "nobody names it", SentAt: start}},
			dlqbridge.Evidence{Record: c.ID, Item: dlqbridge.Note{Name: "n_alice", At: start, Reason: "hers"}},
			dlqbridge.Evidence{Record: c.ID, Item: dlqbridge.Note{Name: "n_bob", At: start, Reason: "his"}})
		for _, who := range []string{"alice", "bob"}[:n%3] { // some have one move, some three
			to := next(c, who)
			must(t, b.Move(t.Context(), step(c, to))...)
			c = to
		}
		controls = append(controls, c)
	}
	must(t, b.Put(t.Context(), evidence)...)
	b.cloud.ForgetRequests()
	got, err := b.Counted(t.Context(), controls)
	must(t, err)
	if calls := b.calls("BatchGetItem"); calls > 5 || b.calls("Query") > 0 || b.calls("GetItem") > 0 {
		t.Errorf("%d calls of BatchGetItem, %d of Query", calls, b.calls("Query"))
	}
	for _, c := range controls {
		want, err := b.Case(t.Context(), c.ID)
		must(t, err)
		diff(t, "history of "+c.ID, want.History, got[c.ID].History)
		diff(t, "counted notes of "+c.ID, want.CountedNotes(), got[c.ID].CountedNotes())
		diff(t, "arrivals of "+c.ID, []dlqbridge.Arrival{*want.Arrival(c.Newest)}, got[c.ID].Arrivals)
	}
}

// A control item as a job froze it has the history up to its own version, also
// when the record has moved on; and what was swept away is absent.
func TestWhatCountsEndsAtTheVersionAskedFor(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	to := next(c, "alice")
	must(t, b.Move(t.Context(), step(c, to))...)
	got, err := b.Counted(t.Context(), []dlqbridge.Control{c})
	must(t, err)
	diff(t, "history", []dlqbridge.Move{c.Move}, got[c.ID].History)
	if len(got[c.ID].Arrivals) != 0 {
		t.Errorf("an arrival that is gone: %+v", got[c.ID].Arrivals)
	}
}
