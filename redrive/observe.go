package redrive

import (
	"context"

	"github.com/dlqbridge/dlqbridge"
)

// ObserveRequest narrows what is observed; zero is everything.
type ObserveRequest struct {
	Route string
	Job   string
	// IDs names single records.
	IDs []string
}

// Observed counts what one look at the outcomes settled. Its JSON form is public.
type Observed struct {
	// Outcomes counts the records moved by outcome, and those settled as sent.
	Outcomes map[dlqbridge.SendOutcome]int `json:"outcomes"`
	// Waiting are still being redriven, InDoubt of them with a send in doubt.
	Waiting int `json:"waiting"`
	InDoubt int `json:"inDoubt"`
	// Lapsed counts authorisations that ran out.
	Lapsed int `json:"lapsed"`
}

// Observe looks once at all records being redriven: it settles sends in doubt
// by evidence, closes what completed, ends what nobody saw an outcome of, and
// lets old authorisations lapse. Any number of processes may do it at once.
func (c *Controller) Observe(ctx context.Context, r ObserveRequest) (Observed, error) {
	panic("soon")
}

// Wait observes until none of the records is being redriven, or ctx ends. It
// returns how each ended: the outcome, or in_doubt or sent if it is still open.
func (c *Controller) Wait(ctx context.Context, records []string) (map[dlqbridge.SendOutcome]int, error) {
	panic("soon")
}
