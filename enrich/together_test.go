package enrich_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// shared hands every batch to every reader, as two processes see it when the
// first is slow and letters come again.
type shared struct {
	dlqbridge.DeadLetters
	turn    chan struct{} // a lock that virtual time understands
	batches [][]dlqbridge.Letter
}

// reader is one process's view.
type reader struct {
	*shared
	next int
}

func (r *reader) Receive(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.next == len(r.batches) {
		letters, err := r.DeadLetters.Receive(ctx, limit, wait)
		if err != nil || len(letters) == 0 {
			return letters, err
		}
		r.batches = append(r.batches, letters)
	}
	r.next++
	return r.batches[r.next-1], nil
}

// I3: two intakes with the same letters in hand make one record each, one
// arrival each, and lose no history.
func TestTwoIntakesAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(15)...)
		w.die()
		w.drain() // the records exist, so the next letters are moves that race
		w.send(tasks(30)...)
		w.send(tasks(30)...)
		w.die()
		all := &shared{DeadLetters: w.letters(), turn: make(chan struct{}, 1)}
		total := enrich.Counts{}
		var mu sync.Mutex
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				p := w.ports()
				p.letters = &reader{shared: all}
				o := w.options(p)
				o.Pollers = 1
				counts, err := w.intake(o)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				total.Arrivals += counts.Arrivals
				total.Records += counts.Records
				total.Duplicates += counts.Duplicates
			})
		}
		both.Wait()
		if want := (enrich.Counts{Records: 15, Arrivals: 60, Duplicates: 60}); total != want {
			t.Errorf("counts of both: got %+v, want %+v", total, want)
		}
		for key, o := range w.outcomes() {
			if want := o.Arrivals; want != o.Letters || len(o.Verbs) != want {
				t.Errorf("%s: %+v", key, o)
			}
		}
		if n := w.depth(w.dlq); n != 0 {
			t.Errorf("%d letters left", n)
		}
	})
}

// Letters in flight with somebody else are waited for: he may have died.
func TestUntilEmptyWaitsForLettersInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(5)...)
		w.die()
		letters, err := w.letters().Receive(t.Context(), 10, time.Second)
		must(t, err)
		if len(letters) == 0 {
			t.Fatal("nothing received")
		}
		if counts := w.drain(); counts.Letters != 5 || w.depth(w.dlq) != 0 {
			t.Errorf("counts %+v, %d left", counts, w.depth(w.dlq))
		}
	})
}

// slow is a store that takes longer than letters are hidden.
type slow struct {
	dlqbridge.EvidenceWriter
	by time.Duration
}

func (s slow) Put(ctx context.Context, items []dlqbridge.Evidence) []error {
	time.Sleep(s.by) // virtual
	return s.EvidenceWriter.Put(ctx, items)
}

// C56: a slow store does not make letters come twice.
func TestSlowBatchesAreKeptInHand(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(20)...)
		w.die()
		p := w.ports()
		p.evidence = slow{w.store, 10 * time.Minute}
		counts, err := w.intake(w.options(p))
		must(t, err)
		if want := (enrich.Counts{Letters: 20, Records: 20, Arrivals: 20}); counts != want {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
	})
}

// TestDocument holds the public form of a record down, key by key.
func TestDocument(t *testing.T) {
	b := newCase(t, dlqbridge.Testimony{
		Findings: []dlqbridge.Finding{receipt, notStarted}, Runs: 2, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		Checkpoint: &dlqbridge.Checkpoint{Ref: "s3://c", Step: "0002#validate", Run: "run-1", At: start},
		Artifacts:  []dlqbridge.Artifact{{Kind: "output", Ref: "s3://o"}},
		Failure:    &dlqbridge.Failure{Code: "ETIMEDOUT", Phase: "during_call", Attempts: []dlqbridge.Attempt{{Run: "run-1", At: start, Code: "ETIMEDOUT"}}},
	})
	b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), func(c *dlqbridge.Control) {
		c.Identity, c.Route, c.Provider, c.Source, c.TaskID, c.PayloadVersion = dlqbridge.IdentityTask, "orders", dlqbridge.SQS, arn("orders"), "t", 1
		c.FirstSeen, c.LastSeen = start, start
	})
	n := person(dlqbridge.VerbAuthorize, "ann")
	n.Approval, n.Reason = true, "looked at it"
	b.move(dlqbridge.VerbAuthorize, enrich.Subject{Note: n}, func(c *dlqbridge.Control) { c.Status = dlqbridge.StatusAuthorized })
	b.c.Sends = append(b.c.Sends, dlqbridge.Send{N: 1, Job: "j", Action: dlqbridge.ActionRetry, At: start, Outcome: dlqbridge.OutcomeInDoubt, Marked: true})
	for name, doc := range map[string]any{"document": enrich.Show(b.c, enrich.Around{}), "empty": enrich.Show(dlqbridge.Case{}, enrich.Around{}), "item": enrich.List(b.c.Control), "explain": enrich.Explain(b.c, enrich.Around{})} {
		got, err := json.MarshalIndent(doc, "", "  ")
		must(t, err)
		file := "testdata/" + name + ".golden.json"
		if *update {
			must(t, os.WriteFile(file, append(got, '\n'), 0o644))
		}
		want, err := os.ReadFile(file)
		must(t, err)
		if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
