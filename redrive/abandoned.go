package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Life is whether some process runs a job that says that it runs.
type Life struct {
	// Abandoned: none does, since it died; what is left waits for somebody who
	// continues or cancels the job.
	Abandoned bool
	// Until is when the dead one's lease ended; zero is unknown, since another job
	// has taken the destination.
	Until time.Time
}

// Life asks the lease of a job's destination whether the job runs: its holder
// renews it all the time, and a dead process leaves it to end. A job that does
// not say that it runs is not abandoned.
func (c *Controller) Life(ctx context.Context, job dlqbridge.Job) (Life, error) {
	if job.State != dlqbridge.JobRunning {
		return Life{}, nil
	}
	var l dlqbridge.Lease
	if err := c.again(ctx, func() (err error) { l, err = c.o.Leases.Lease(ctx, job.Destination); return err }); err != nil {
		return Life{}, fmt.Errorf("lease of %s: %w", job.Destination, err)
	}
	if l.Job == job.ID && c.clock().Before(l.Until.Add(c.o.Skew)) {
		return Life{}, nil
	}
	// It may have ended in order between the two reads: the job is written before
	// its lease is given back, so whoever still says that it runs has died.
	var now dlqbridge.Job
	if err := c.again(ctx, func() (err error) { now, err = c.o.Jobs.Job(ctx, job.ID); return err }); err != nil {
		return Life{}, fmt.Errorf("job %s: %w", job.ID, err)
	}
	if now.State != dlqbridge.JobRunning || now.Began.After(job.Began) { // or somebody continued it
		return Life{}, nil
	}
	life := Life{Abandoned: true}
	if l.Job == job.ID {
		life.Until = l.Until
	}
	return life, nil
}
