package enrich

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Defaults of IntakeOptions.
const (
	// DefaultPollers is two per place: one receives while the other stores.
	DefaultPollers = 2
	// DefaultStopWithin is how long letters in hand may take to be finished when
	// intake stops: within the 30 s that most platforms give a process.
	DefaultStopWithin = 20 * time.Second
	// DefaultStuckAfter is how long a one-shot run waits for a place that shows
	// messages and gives none.
	DefaultStuckAfter = 2 * time.Minute
)

// batchLetters is one receive: the most that SQS gives at once.
const batchLetters = 10

// Place is one dead-letter place with the route that reads it.
type Place struct {
	Letters  dlqbridge.DeadLetters
	Enricher *Enricher
}

// IntakeOptions say what intake reads from and writes to.
type IntakeOptions struct {
	Places   []Place
	Evidence dlqbridge.EvidenceWriter
	Controls dlqbridge.Controls
	Cases    dlqbridge.CaseReader
	Messages dlqbridge.MessageFinder
	// Pollers per place, each with at most one receive's letters in hand, which
	// bounds memory; 0 is DefaultPollers.
	Pollers int
	// Log gets no payloads and no attribute values; nil discards.
	Log *slog.Logger
	// Observer is told what happens; nil is nobody.
	Observer Observer
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// StopWithin and StuckAfter: 0 is the default.
	StopWithin, StuckAfter time.Duration
}

// Counts are the accounts of a run.
type Counts struct {
	// Letters is how many letters were taken in or found unstorable, each once.
	// Letters that had been stored before are Duplicates and not in it.
	Letters int `json:"letters"`
	// Records is how many records were made, Arrivals how many letters were
	// stored on records, new or open.
	Records  int `json:"records"`
	Arrivals int `json:"arrivals"`
	// Unstored letters stay where they are.
	Unstored   int `json:"unstored"`
	Duplicates int `json:"duplicates"`
}

// Intake brings letters from their places into records. A letter is deleted
// only when its payload and arrival are durable and the record reflects it; a
// crash between any two steps leaves the letter where it was, and the next
// intake completes what was begun.
type Intake struct {
	o IntakeOptions

	mu     sync.Mutex
	counts Counts
}

// NewIntake checks the options.
func NewIntake(o IntakeOptions) (*Intake, error) {
	switch {
	case len(o.Places) == 0:
		return nil, errors.New("intake: no place to read from")
	case o.Evidence == nil || o.Controls == nil || o.Cases == nil || o.Messages == nil:
		return nil, errors.New("intake: Evidence, Controls, Cases and Messages must be set")
	}
	for _, p := range o.Places {
		if p.Letters == nil || p.Enricher == nil {
			return nil, errors.New("intake: a place lacks its Letters or its Enricher")
		}
	}
	o.Pollers = cmp.Or(o.Pollers, DefaultPollers)
	o.StopWithin = cmp.Or(o.StopWithin, DefaultStopWithin)
	o.StuckAfter = cmp.Or(o.StuckAfter, DefaultStuckAfter)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	return &Intake{o: o}, nil
}

// Run takes letters in until ctx ends, and returns when all its goroutines have
// ended. Then no more letters are received, those in hand are finished within
// StopWithin, and what cannot be finished is given back at once. It returns nil
// when it was stopped, and an error that names what is missing when it cannot
// do its work at all: the place cannot be read, or no write was ever accepted.
func (in *Intake) Run(ctx context.Context) error {
	_, err := in.run(ctx, false)
	return err
}

// UntilEmpty takes letters in until every place is empty: three empty polls of
// one second in a row, and the provider's counters at zero; without counters,
// eleven seconds of silence besides. It also ends when only letters are left that
// cannot be stored (Counts.Unstored). When ctx ends it stops like Run, with the
// error of ctx. Counts are of this call, also with an error.
func (in *Intake) UntilEmpty(ctx context.Context) (Counts, error) {
	return in.run(ctx, true)
}

func (in *Intake) run(ctx context.Context, once bool) (Counts, error) {
	in.mu.Lock()
	in.counts = Counts{}
	in.mu.Unlock()

	asked := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Finishing has a context of its own: letters in hand outlive the stop, but
	// not by more than StopWithin.
	finish, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	unhook := context.AfterFunc(ctx, func() {
		wait(finish, in.o.StopWithin)
		abandon()
	})
	defer unhook()

	var pollers sync.WaitGroup
	var places []*reading
	for _, p := range in.o.Places {
		r := newReading(in, p, once)
		places = append(places, r)
		for range in.o.Pollers {
			pollers.Go(func() {
				if err := r.poll(ctx, finish); err != nil {
					stop(err) // one place that cannot work at all ends the run: somebody must act
				}
			})
		}
	}
	pollers.Wait()
	for _, r := range places {
		in.count(func(c *Counts) { c.Unstored += r.unstored.distinct(); c.Letters += r.unstored.distinct() })
	}
	err := context.Cause(ctx)
	if asked.Err() != nil && errors.Is(err, context.Cause(asked)) {
		err = nil // stopped as asked: for a service that is its end, for a one-shot run it is not
		if once {
			err = asked.Err()
		}
	}
	return in.Counts(), err
}

// Counts are the accounts of the run under way, or of the last one. Unstored
// letters are added at its end.
func (in *Intake) Counts() Counts {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.counts
}

func (in *Intake) count(add func(*Counts)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	add(&in.counts)
}

// wait waits for d; false if ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// missing says in a run's error what was tried with which place or route.
func missing(what, where string, err error) error { return fmt.Errorf("%s %s: %w", what, where, err) }
