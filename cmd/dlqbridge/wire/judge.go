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
	subjects := []enrich.Subject{{Case: c, Note: note}}
	b.withPayloads(ctx, e, subjects)
	return e.Judge(ctx, b.Now(), subjects)[0], nil
}

// Compensates says whether a route names where compensations go.
func (b *Bridge) Compensates(route string) bool {
	r, ok := b.Config.Route(route)
	return ok && r.CompensateTo != ""
}

// Judge is redrive's view of enrichment: the same Judge that took the letter
// in, asked again about stored records.
type judge struct{ b *Bridge }

var _ redrive.Judge = judge{}

// Judge implements redrive.Judge: what counts of all records is read together,
// then all records of a route are judged at once, so that each store is asked
// once.
func (j judge) Judge(ctx context.Context, asks []redrive.Ask) []redrive.Judgement {
	out := make([]redrive.Judgement, len(asks))
	// The caller's control items decide: they may be such that a move would make.
	controls := make([]dlqbridge.Control, len(asks))
	for i, a := range asks {
		controls[i] = a.Control
	}
	counted, err := j.b.Store.Counted(ctx, controls)
	if err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	cases := make([]dlqbridge.Case, len(asks))
	byRoute := map[string][]int{}
	for i, c := range controls {
		cases[i] = counted[c.ID]
		cases[i].Control = c
		byRoute[c.Route] = append(byRoute[c.Route], i)
	}
	var asking sync.WaitGroup
	for route, positions := range byRoute {
		e, ok := j.b.judges[route]
		if !ok {
			for _, i := range positions {
				out[i].Err = fmt.Errorf("%w: route %s is not in the configuration", dlqbridge.ErrInvalid, route)
			}
			continue
		}
		for chunk := range slices.Chunk(positions, judgedAtOnce) {
			asking.Go(func() {
				subjects := make([]enrich.Subject, len(chunk))
				for k, i := range chunk {
					subjects[k] = enrich.Subject{Case: cases[i], Note: asks[i].Note, Completed: asks[i].Completed, Undone: asks[i].Undone}
				}
				j.b.withPayloads(ctx, e, subjects)
				for k, answer := range e.Judge(ctx, j.b.Now(), subjects) {
					out[chunk[k]] = ToRedrive(answer, cases[chunk[k]])
				}
			})
		}
	}
	asking.Wait()
	return out
}

var _ redrive.Glancer = judge{}

// Glance implements redrive.Glancer: the stores of each route are asked once,
// and only whether the tasks completed.
func (j judge) Glance(ctx context.Context, asks []redrive.Ask) []redrive.Glance {
	out := make([]redrive.Glance, len(asks))
	byRoute := map[string][]int{}
	for i, a := range asks {
		if a.Control.TaskID != "" { // one that has none is asked about by other keys
			byRoute[a.Control.Route] = append(byRoute[a.Control.Route], i)
		}
	}
	for route, positions := range byRoute {
		e, ok := j.b.judges[route]
		if !ok {
			continue
		}
		controls := make([]dlqbridge.Control, len(positions))
		for k, i := range positions {
			controls[k] = asks[i].Control
		}
		seen, known := e.Outcomes(ctx, j.b.Now(), controls)
		if !known {
			continue
		}
		for k, i := range positions {
			out[i] = redrive.Glance{Known: true, Completed: seen[k]}
		}
	}
	return out
}

// ToRedrive is a judgement as redrive sees it.
func ToRedrive(a enrich.Judgement, c dlqbridge.Case) redrive.Judgement {
	out := redrive.Judgement{
		Context: a.Context, Decision: a.Decision, Policy: a.Policy, Applied: a.Apply(c.Control), Stands: a.Stands(c.Control),
		SeenRedriveN: a.SeenRedriveN, SeenRun: a.SeenRun, Unsent: a.Unsent, Approvers: a.Approvers,
		Compensates: a.Compensates, CompensatesAgain: a.CompensatesAgain,
	}
	if newest := c.Arrival(c.Control.Newest); newest != nil {
		out.Arrival = *newest
	}
	if first := c.First(); first != nil {
		out.First = *first
	}
	return out
}
