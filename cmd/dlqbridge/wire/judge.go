package wire

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// casesAtOnce bounds the parallel reads of whole records; one page of a list
// is read in a few rounds.
const casesAtOnce = 16

// judgedAtOnce bounds one question to the stores: each has a few seconds for
// all of it, which is plenty for some rounds of parallel reads.
const judgedAtOnce = 50

// JudgeCase judges one record with what a person's note would add; nil is the
// record as it is.
func (b *Bridge) JudgeCase(ctx context.Context, c dlqbridge.Case, note *dlqbridge.Note) (enrich.Judgement, error) {
	e, ok := b.judges[c.Control.Route]
	if !ok {
		return enrich.Judgement{}, fmt.Errorf("%w: route %s of record %s is not in the configuration", dlqbridge.ErrInvalid, c.Control.Route, c.Control.ID)
	}
	return e.Judge(ctx, b.Now(), []enrich.Subject{{Case: c, Note: note}})[0], nil
}

// Judge is redrive's view of enrichment: the same Judge that took the letter
// in, asked again about stored records.
type judge struct{ b *Bridge }

var _ redrive.Judge = judge{}

// Judge implements redrive.Judge: whole records are read in parallel, then all
// records of a route are judged at once, so that each store is asked once.
func (j judge) Judge(ctx context.Context, asks []redrive.Ask) []redrive.Judgement {
	out := make([]redrive.Judgement, len(asks))
	cases := make([]dlqbridge.Case, len(asks))
	parallel(len(asks), casesAtOnce, func(i int) {
		c, err := j.b.Store.Case(ctx, asks[i].Control.ID)
		if err != nil {
			out[i].Err = err
			return
		}
		// The caller's control item decides: it may be one that a move would make.
		c.Control = asks[i].Control
		cases[i] = c
	})
	byRoute := map[string][]int{}
	for i := range asks {
		if out[i].Err == nil {
			byRoute[cases[i].Control.Route] = append(byRoute[cases[i].Control.Route], i)
		}
	}
	for route, positions := range byRoute {
		e, ok := j.b.judges[route]
		if !ok {
			for _, i := range positions {
				out[i].Err = fmt.Errorf("%w: route %s is not in the configuration", dlqbridge.ErrInvalid, route)
			}
			continue
		}
		for chunk := range slices.Chunk(positions, judgedAtOnce) {
			subjects := make([]enrich.Subject, len(chunk))
			for k, i := range chunk {
				subjects[k] = enrich.Subject{Case: cases[i], Note: asks[i].Note}
			}
			for k, answer := range e.Judge(ctx, j.b.Now(), subjects) {
				out[chunk[k]] = ToRedrive(answer, cases[chunk[k]])
			}
		}
	}
	return out
}

// ToRedrive is a judgement as redrive sees it.
func ToRedrive(a enrich.Judgement, c dlqbridge.Case) redrive.Judgement {
	out := redrive.Judgement{
		Context: a.Context, Decision: a.Decision, Policy: a.Policy, Applied: a.Apply(c.Control), Stands: a.Stands(c.Control),
		SeenRedriveN: a.SeenRedriveN, SeenRun: a.SeenRun, Approvers: a.Approvers,
	}
	if newest := c.Arrival(c.Control.Newest); newest != nil {
		out.Arrival = *newest
	}
	return out
}

// parallel runs do for 0..n-1, at most limit at once, and waits for all.
func parallel(n, limit int, do func(int)) {
	slots := make(chan struct{}, limit)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	all.Wait()
}
