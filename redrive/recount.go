package redrive

import (
	"context"

	"github.com/dlqbridge/dlqbridge"
)

// A run's answer says what is known at its end. Most sends have no outcome yet
// then; those of canary steps and of a job's earlier lives may, and those that
// were waited for do. They are counted from the records, as status does. A
// crash here loses the answer and nothing else.

// Recount replaces a result's outcomes by what its jobs' records say now. Where
// there are too many to count, or they cannot be read, the result stays what the
// run knew by itself: what was sent, and no more.
func (c *Controller) Recount(ctx context.Context, r *Result) {
	if r.Selected > MaxTally {
		return
	}
	ctx, cancel := c.finishing(ctx) // whoever stopped the run still gets its answer
	defer cancel()
	all := map[dlqbridge.SendOutcome]int{}
	var doubts List[string]
	for _, job := range r.Jobs {
		t, err := c.Tally(ctx, job, MaxTally)
		if err != nil {
			return
		}
		for o, n := range t.Outcomes {
			all[o] += n
		}
		for _, id := range t.Doubts {
			doubts.Add(id)
		}
	}
	r.Outcomes, r.InDoubt = all, doubts
}

// WaitFor is Wait for all that a result sent, and that may have gone out: it
// replaces the result's outcomes, and what is still in doubt.
func (c *Controller) WaitFor(ctx context.Context, r *Result) error {
	var all List[string]
	for _, list := range []List[string]{r.Records, r.InDoubt} {
		if err := all.AddAll(list.All()); err != nil {
			return err
		}
	}
	refused := r.Outcomes[dlqbridge.OutcomeRefused]
	outcomes, err := c.Wait(ctx, all)
	if outcomes != nil {
		if refused > 0 { // which is over, so nothing waits for it
			outcomes[dlqbridge.OutcomeRefused] += refused
		}
		r.Outcomes = outcomes
	}
	if err != nil || r.InDoubt.Len() == 0 {
		return err
	}
	r.InDoubt, err = c.stillInDoubt(ctx, r.InDoubt)
	return err
}

// stillInDoubt are those of some records whose send is in doubt.
func (c *Controller) stillInDoubt(ctx context.Context, ids List[string]) (List[string], error) {
	ctx, cancel := c.finishing(ctx)
	defer cancel()
	var out List[string]
	for chunk, err := range chunks(ids.All(), readChunk) {
		if err != nil {
			return ids, err
		}
		known, err := c.outcomesOf(ctx, chunk)
		if err != nil {
			return ids, err
		}
		for _, id := range chunk {
			if known[id] == dlqbridge.OutcomeInDoubt {
				out.Add(id)
			}
		}
	}
	return out, nil
}
