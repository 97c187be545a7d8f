package redrive

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Standing is how a job stands: what became of its members in all, in each
// canary step and in each group of failures.
type Standing struct {
	Part
	// Steps are the canary's, and what follows them; none without a canary.
	Steps []Part
	// Signatures are the groups of failures, the largest first.
	Signatures []Part
}

// Part is what became of some members of a job.
type Part struct {
	Tally
	// Step is the number of a canary step, from 1; 0 is the rest. Signature is
	// that of a group.
	Step      int
	Signature string
	// Size is how many members the part has.
	Size int
	// Median and P95 are how long outcomes took, from the claim to when they were
	// seen, of the Timed members that completed or came back.
	Median, P95 time.Duration
	Timed       int

	took []time.Duration
}

// Success is the share of completed among those with an outcome; false is none yet.
func (p Part) Success() (share float64, known bool) {
	completed := p.Outcomes[dlqbridge.OutcomeCompleted]
	all := completed + p.Outcomes[dlqbridge.OutcomeRecurred] + p.Outcomes[dlqbridge.OutcomeUnconfirmed]
	if all == 0 {
		return 0, false
	}
	return float64(completed) / float64(all), true
}

// Standing counts what became of a job's first members, at most limit of them,
// from their records: about three calls for a hundred.
func (c *Controller) Standing(ctx context.Context, job dlqbridge.Job, limit int) (Standing, error) {
	s := Standing{Part: newPart()}
	s.Size = job.Selected
	bySignature := map[string]*Part{}
	left := job.Selected
	for k, size := range job.Canary {
		p := newPart()
		p.Step, p.Size = k+1, min(size, left)
		left -= p.Size
		s.Steps = append(s.Steps, p)
	}
	if len(job.Canary) > 0 {
		rest := newPart()
		rest.Size = left
		s.Steps = append(s.Steps, rest)
	}
	err := c.became(ctx, job.ID, limit, func(f fate) {
		s.count(f)
		if len(s.Steps) > 0 {
			s.Steps[stepOf(job.Canary, f.position)].count(f)
		}
		if bySignature[f.signature] == nil {
			p := newPart()
			p.Signature = f.signature
			bySignature[f.signature] = &p
		}
		bySignature[f.signature].Size++
		bySignature[f.signature].count(f)
	})
	for _, p := range bySignature {
		s.Signatures = append(s.Signatures, *p)
	}
	slices.SortFunc(s.Signatures, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Signature, b.Signature))
	})
	s.sum()
	for _, list := range [][]Part{s.Steps, s.Signatures} {
		for i := range list {
			list[i].sum()
		}
	}
	return s, err
}

func newPart() Part { return Part{Tally: Tally{Outcomes: map[dlqbridge.SendOutcome]int{}}} }

// stepOf is the index of the step that a position belongs to; behind the last
// one is the rest.
func stepOf(canary []int, position int) int {
	for k, size := range canary {
		if position -= size; position < 0 {
			return k
		}
	}
	return len(canary)
}

func (p *Part) count(f fate) {
	p.add(f)
	if f.took > 0 && (f.outcome == dlqbridge.OutcomeCompleted || f.outcome == dlqbridge.OutcomeRecurred) {
		p.took = append(p.took, f.took)
	}
}

// sum fills in what needs all of the times.
func (p *Part) sum() {
	slices.Sort(p.took)
	if p.Timed = len(p.took); p.Timed > 0 {
		p.Median, p.P95 = quantile(p.took, 0.5), quantile(p.took, 0.95)
	}
	p.took = nil
}

// quantile is the smallest value that at least that share of them does not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
