package redrive

import (
	"context"

	"github.com/dlqbridge/dlqbridge"
)

// Run plans, authorises in the caller's name what may be authorised, and sends,
// one job per destination, one after the other. A destination in use by another
// job is *dlqbridge.LeaseHeldError. When ctx ends it stops claiming, finishes
// what is under way and leaves the job paused, which is no error.
func (c *Controller) Run(ctx context.Context, r Request) (Result, error) { panic("soon") }

// Continue sends what a paused job, or one whose process died, has left.
func (c *Controller) Continue(ctx context.Context, job string, by dlqbridge.Actor, reason string) (Result, error) {
	panic("soon")
}

// Pause stops a job after the batches under way; Continue goes on. The process
// that runs it sees this within one batch, wherever it runs.
func (c *Controller) Pause(ctx context.Context, job string, by dlqbridge.Actor, reason string) (dlqbridge.Job, error) {
	panic("soon")
}

// Cancel ends a job after the batches under way; the authorisations of what was
// not sent lapse, so that it can be selected again.
func (c *Controller) Cancel(ctx context.Context, job string, by dlqbridge.Actor, reason string) (dlqbridge.Job, error) {
	panic("soon")
}
