package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Run is the task's one active run. Its methods may be used concurrently.
type Run struct {
	kit  *Kit
	task Task
	key  string
	id   string
	// attempt counts the runs of this send, this one included.
	attempt int
	resume  *dlqbridge.Checkpoint // the ledger's, as the run found it
	from    *dlqbridge.Checkpoint // where this run goes on
	cost    cost

	// life ends with the run; its cause says why.
	life   context.Context //nolint:containedctx // the life of the run itself, which spans calls
	end    context.CancelCauseFunc
	keeper sync.WaitGroup

	// writing has one slot, for the one write of the header that is under way,
	// since each is conditional on the one before. Who waits for it can be
	// stopped by a context. It guards what follows.
	writing chan struct{}
	token   string
	unclear []string // tokens of writes whose answer was lost

	mu         sync.Mutex // guards what follows
	leaseUntil time.Time
	steps      map[string][]StepRow
	active     map[string]bool       // steps with a call under way
	doubt      error                 // the first step that ended ambiguous
	written    *dlqbridge.Checkpoint // this run's own last checkpoint
}

// ID is the run's id.
func (r *Run) ID() string { return r.id }

// Resume is the checkpoint from which this run may continue, nil if there is
// none: the one that the message's mark names where it was resumed, else the
// ledger's. One that the ledger does not know has a Ref alone. Steps with a receipt need no checkpoint: they are not called again.
// A checkpoint of another workflow version may not fit: compare.
func (r *Run) Resume() *dlqbridge.Checkpoint {
	if r.from == nil {
		return nil
	}
	c := *r.from
	return &c
}

// keepLease starts the goroutine that renews the lease; Close waits for it. It
// outlives ctx, because a call under way needs the lease until it has ended.
func (r *Run) keepLease(ctx context.Context) {
	r.life, r.end = context.WithCancelCause(context.WithoutCancel(ctx))
	r.keeper.Go(func() {
		every := r.kit.o.Lease / 3
		timer := time.NewTimer(every)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
			case <-r.life.Done():
				return
			}
			timer.Reset(r.renew(every))
		}
	})
}

// renew renews the lease and says when to do so again. A lease that could not
// be renewed is lost when it ends, not before.
func (r *Run) renew(every time.Duration) time.Duration {
	if r.write(r.life, item{}) == nil {
		return every
	}
	if r.alive() != nil {
		return every // the goroutine ends
	}
	return min(every/4, max(r.left(), time.Millisecond))
}

// why says why the run has ended, nil while it goes on.
func (r *Run) why() error { return context.Cause(r.life) }

// left is how long the lease still stands by this process's clock.
func (r *Run) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaseUntil.Sub(r.kit.now())
}

func (r *Run) holdUntil(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaseUntil = t
}

// alive says why nothing more may be begun, nil if it may.
func (r *Run) alive() error {
	if err := context.Cause(r.life); err != nil {
		return err
	}
	// Asked by the clock too: a process that was stopped for a while wakes up
	// before its timers do.
	if r.left() <= 0 {
		r.end(ErrLeaseLost)
		return ErrLeaseLost
	}
	return nil
}

// write changes the header under the lease and renews it.
func (r *Run) write(ctx context.Context, set item, remove ...string) error {
	select {
	case r.writing <- struct{}{}:
		defer func() { <-r.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := r.alive(); err != nil {
		return err
	}
	// No longer than the lease: a call that hangs must not keep the others from
	// seeing that it is lost.
	ctx, cancel := context.WithTimeout(ctx, r.left())
	defer cancel()
	now := r.kit.now()
	until := now.Add(r.kit.o.Lease)
	set["updated_at"] = str(dlqbridge.FormatTime(now))
	if _, ends := set["status"]; !ends {
		set["lease_until"] = str(dlqbridge.FormatTime(until))
	}
	sum, changed := r.cost.text()
	if changed {
		set["cost_usd"] = &types.AttributeValueMemberN{Value: sum}
	}
	c := change{set: set, remove: remove, markName: "token", mark: newToken()}
	for {
		c.when = item{"token": str(r.token), "run_id": str(r.id)}
		row, err := r.kit.table.write(ctx, r.key, EntryHeader, c)
		switch {
		case err == nil:
			r.token, r.unclear = c.mark, nil
			r.holdUntil(until)
			r.cost.saved(sum)
			if _, ends := set["status"]; ends {
				// Before the slot is free: a renewal must not follow the end.
				r.end(ErrRunOver)
			}
			return nil
		case !errors.Is(err, errRefused):
			r.unclear = append(r.unclear, c.mark)
			return fmt.Errorf("write the header of %s: %w", r.task.ID, err)
		case !r.adopt(row):
			r.end(ErrLeaseLost)
			return ErrLeaseLost
		}
	}
}

// adopt goes on from a write of ours whose answer was lost and that was
// carried out after all.
func (r *Run) adopt(row item) bool {
	token := row.text("token", maxText)
	for i, t := range r.unclear {
		if t == token {
			r.token = token
			r.unclear = append(r.unclear[:i:i], r.unclear[i+1:]...)
			return true
		}
	}
	return false
}

// finishing is a context for writing down what happened: it goes on while the
// worker is being stopped, and has a bound.
func (r *Run) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.kit.o.Finish)
}

// AddCost adds to the task's cost, a decimal amount in US dollars ("0.0125").
// It is saved with the next write of the header; a crash loses at most what
// was added since the last renewal of the lease.
func (r *Run) AddCost(usd string) error { return r.cost.add(usd) }

// Complete says that the task is done: it is never run or sent again. Only
// then may the message be acknowledged. A task with an ambiguous step is not
// done: ErrAmbiguous.
func (r *Run) Complete(ctx context.Context) error {
	r.mu.Lock()
	doubt := r.doubt
	r.mu.Unlock()
	if doubt != nil {
		return fmt.Errorf("complete %s: %w", r.task.ID, doubt)
	}
	return r.finish(ctx, "complete", item{"status": str(TaskCompleted)})
}

// Fail says that the run has failed, and how (see FailureOf). The message then
// goes back to the queue or is dead-lettered with its facts.
func (r *Run) Fail(ctx context.Context, e LastError) error {
	last := item{
		"class": some(dlqbridge.CutText(e.Class, maxText)), "code": some(dlqbridge.CutText(e.Code, maxText)),
		"message": some(dlqbridge.CutText(e.Message, maxText)), "step": some(dlqbridge.CutText(e.Step, maxRangeKey)),
		"tool": some(dlqbridge.CutText(e.Tool, maxText)), "dependency": some(dlqbridge.CutText(e.Dependency, maxText)),
		"phase": some(e.Phase),
	}
	if e.Retryable != nil {
		last["retryable"] = boolean(*e.Retryable)
	}
	return r.finish(ctx, "fail", item{"status": str(TaskFailed), "last_error": dict(last)})
}

func (r *Run) finish(ctx context.Context, what string, set item) error {
	ctx, cancel := r.finishing(ctx)
	defer cancel()
	if err := r.write(ctx, set, "lease_until", "lease_owner"); err != nil {
		return fmt.Errorf("%s %s: %w", what, r.task.ID, err)
	}
	return nil
}

// Close ends the run and waits for its goroutine. A run that neither completed
// nor failed gives its lease back, so that the next delivery need not wait,
// unless a call is still under way; if giving back fails, the lease ends by
// itself. Closing twice is fine.
func (r *Run) Close(ctx context.Context) {
	r.mu.Lock()
	calling := len(r.active) > 0
	r.mu.Unlock()
	if !calling && r.why() == nil {
		bounded, cancel := r.finishing(ctx)
		defer cancel()
		// Status stays running: nobody said how it ended. What cannot be
		// written here the lease's end will say.
		_ = r.write(bounded, item{"status": str(TaskRunning), "lease_until": str(dlqbridge.FormatTime(r.kit.now()))})
	}
	r.end(ErrRunOver)
	r.keeper.Wait()
}
