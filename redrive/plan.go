package redrive

import (
	"context"

	"github.com/dlqbridge/dlqbridge"
)

// Request says what to send back, and who wants it why.
type Request struct {
	// Cause is required: a job has one.
	Cause dlqbridge.Cause
	// The rest narrows the selection; empty selects everything of the cause.
	Route, Signature, Tenant, TaskType string
	// IDs names single records; they are read consistently, not from the index.
	IDs []string
	// Max bounds how many are selected; 0 is no bound.
	Max int
	// Fix is the verifiable change that the caller records with this run; nil
	// is none. Reason goes into history.
	Fix    *dlqbridge.Fix
	Reason string
	Actor  dlqbridge.Actor
	// Policy: nobody asked; only what policy may authorise alone is authorised.
	Policy bool
	// Zero values take the controller's.
	Rate        dlqbridge.Rate
	Burst       int
	MaxInFlight int
}

// Plan is a frozen selection with everything left out and why. Its JSON form
// is public.
type Plan struct {
	Cause dlqbridge.Cause `json:"cause"`
	// Jobs has one entry for each destination.
	Jobs     []PlannedJob          `json:"jobs"`
	Selected int                   `json:"selected"`
	Excluded []dlqbridge.Exclusion `json:"excluded"`
	Rate     dlqbridge.Rate        `json:"rate"`
	Burst    int                   `json:"burst"`
	// Hash is over the canonical content: equal plans hash equally.
	Hash string `json:"hash"`
}

// PlannedJob is the part of a plan that goes to one destination.
type PlannedJob struct {
	Destination string `json:"destination"`
	// Route is empty where several routes lead to the destination.
	Route   string          `json:"route"`
	Members []PlannedMember `json:"members"`
}

// PlannedMember is one record that would be sent.
type PlannedMember struct {
	ID      string           `json:"id"`
	Version int              `json:"v"`
	Action  dlqbridge.Action `json:"action"`
	// Authorized: somebody authorised it already; the run would not.
	Authorized bool `json:"authorized"`
	// Resend: its last send is in doubt and safe to repeat under its number.
	Resend bool `json:"resend,omitempty"`
}

// Plan says what Run would do. It changes nothing.
func (c *Controller) Plan(ctx context.Context, r Request) (Plan, error) {
	panic("soon")
}
