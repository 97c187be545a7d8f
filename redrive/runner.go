package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// runner runs one job: it owns the job's lease while it does.
type runner struct {
	*Controller
	dest    dlqbridge.Destination
	facts   dlqbridge.DestinationFacts
	journal *journal
	pace    *pace
	lineup  *lineup
	// job is what was frozen; only latest changes.
	job dlqbridge.Job
	// size is how many messages go in one batch at most, look how many members
	// pass the gate together.
	size, look int
	// routes are those of the members, as far as they are known.
	routes []string
	// slots bounds the batches between claim and note, places those of them
	// that stand in the journal.
	slots       chan struct{}
	places      chan struct{}
	endClaiming context.CancelFunc
	// flight bounds the messages without a known outcome; nil is no bound.
	flight *flight
	// policy: nobody asked for this run, so it keeps business hours; closed says
	// that they ended before its members were through.
	policy bool
	closed atomic.Bool

	mu       sync.Mutex
	latest   dlqbridge.Job // as last read or written
	halted   halt
	missing  bool      // the destination does not exist
	left     bool      // a claim stayed behind
	wrote    time.Time // when the job was last written
	excluded List[dlqbridge.Exclusion]
	reasons  map[dlqbridge.ExcludeReason]int // of the excluded
	sent     List[string]
	doubtful List[string]
	outcomes map[dlqbridge.SendOutcome]int
	already  int // sent earlier, by this same job
	// actions counts what was sent, also earlier, by its action.
	actions map[dlqbridge.Action]int
	// inStep are the members of this canary step that were sent, troubled those
	// that could not be, or that nobody knows about. Nil is no canary step.
	inStep, troubled map[string]bool
	doing            string
	// until is when the observation of a step ends at the latest; zero is none.
	until time.Time
	// became says what the last step's sends became.
	became string
}

// halt is why a runner stops before its members are through.
type halt struct {
	kind   haltKind
	reason string
}

type haltKind int

const (
	haltNone      haltKind = iota
	haltContext            // the process was asked to stop
	haltProbe              // what the tasks depend on is not there
	haltPaused             // an operator paused the job
	haltThreshold          // a canary step showed that it must not go on
	haltCancelled          // an operator cancelled it
	haltFailed             // it cannot go on
	haltLost               // the lease is gone; nothing more may be sent
)

// stop ends claiming; what is under way is finished. The gravest reason stands.
func (r *runner) stop(kind haltKind, reason string) {
	r.mu.Lock()
	if kind > r.halted.kind {
		r.halted = halt{kind, reason}
	}
	r.mu.Unlock()
	r.endClaiming()
}

func (r *runner) stopped() halt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halted
}

// run sends all members and returns when everything is noted.
func (r *runner) run(ctx context.Context) {
	r.mu.Lock()
	r.o.Progress(r.report())
	r.mu.Unlock()
	claiming, end := context.WithCancel(ctx)
	r.endClaiming = end
	defer end()
	defer func() {
		if ctx.Err() != nil {
			r.stop(haltContext, "interrupted; continue sends what is left")
		}
	}()

	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-r.journal.lost:
			r.stop(haltLost, "the lease was lost to another job or could not be renewed")
		case <-over:
		}
	})
	watch.Go(func() { r.tell(ctx, over) })
	defer watch.Wait()
	defer close(over)

	defer r.lineup.stop()
	defer r.drain(ctx)
	if !r.probe(claiming) || !r.seatEarlier(claiming) {
		return
	}
	left := r.job.Selected
	for k, size := range r.job.Canary {
		if left -= size; left <= 0 {
			break // nothing would be left to hold back
		}
		if !r.step(ctx, claiming, k, size) {
			return
		}
	}
	r.at(ctx, "")
	r.lineup.left = -1
	r.sendAll(ctx, claiming)
}

// probe asks whether what the tasks depend on is there. Nothing has been
// claimed yet, so a job that pauses here has changed nothing.
func (r *runner) probe(ctx context.Context) bool {
	if r.o.Probe == nil {
		return true
	}
	for _, route := range r.routes {
		if err := r.o.Probe(ctx, route); err != nil {
			if ctx.Err() == nil {
				r.stop(haltProbe, fmt.Sprintf("the probe of route %s did not pass: %s; continue asks again", route, err))
			}
			return false
		}
	}
	return true
}

// sendAll sends what the lineup has and returns when everything is noted.
func (r *runner) sendAll(ctx, claiming context.Context) {
	// Some members pass the gate while others are being sent, so that looking
	// and sending do not wait for each other.
	looks := make(chan struct{}, (cap(r.slots)*r.size+r.look-1)/r.look+max(1, cap(r.slots)/2))
	var open sync.WaitGroup
	defer open.Wait()
	for {
		select {
		case looks <- struct{}{}:
		case <-claiming.Done():
			return
		}
		batch, blocked, err := r.lineup.batch(claiming, r.look)
		if err != nil {
			if claiming.Err() == nil {
				r.stop(haltFailed, err.Error())
			}
			return
		}
		for _, x := range blocked {
			r.exclude(x)
		}
		if len(batch) == 0 {
			if len(blocked) > 0 {
				<-looks
				continue
			}
			return
		}
		if r.pace.admit(claiming, len(batch)) != nil {
			open.Wait() // the reason for the stop may still be on its way
			for _, q := range batch {
				r.leave(q.ID)
			}
			return
		}
		open.Go(func() {
			defer func() { <-looks }()
			failed := r.process(claiming, batch)
			for _, q := range batch {
				r.lineup.finished(q.ID, failed[q.ID])
			}
			r.progress(ctx)
		})
	}
}

// gateHolds is how long what the gate saw is taken for true while a batch waits
// for its turn: shorter than a person needs to see a hold take effect.
const gateHolds = time.Second

// process takes members from gate to note and returns those that were not sent
// for a reason of their own, which block their groups.
func (r *runner) process(ctx context.Context, batch []queued) map[string]bool {
	admitted := len(batch)
	defer func() { r.pace.withdraw(admitted) }()
	failed := map[string]bool{}
	items, seen, ok := r.pass(ctx, batch, failed)
	if !ok {
		return failed
	}
	var mu sync.Mutex
	var pieces sync.WaitGroup
	for _, piece := range cut(items, r.size, r.facts) {
		use := min(admitted, len(piece))
		admitted -= use
		pieces.Go(func() {
			lost := r.inTurn(ctx, piece, use, seen)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(failed, lost)
		})
	}
	pieces.Wait()
	return failed
}

// pass takes members through the gate. It returns what may go and when the gate
// was asked; false is an end of the job.
func (r *runner) pass(ctx context.Context, batch []queued, failed map[string]bool) ([]item, time.Time, bool) {
	seen := r.clock()
	items, left, err := r.gate(ctx, batch)
	if err != nil {
		if ctx.Err() == nil {
			r.fail(err)
		}
		for _, q := range batch {
			failed[q.ID] = true
			r.leave(q.ID)
		}
		return nil, seen, false
	}
	for _, x := range left {
		// What needs no sending any more holds up nobody.
		failed[x.ID] = x.Reason != dlqbridge.ExcludeClosed && x.Reason != dlqbridge.ExcludeOvertaken
		r.exclude(x)
	}
	return items, seen, true
}

// inTurn sends a piece when there is a slot for it. After a long wait it asks
// the gate again, because a hold may have been set meanwhile.
func (r *runner) inTurn(ctx context.Context, piece []item, admitted int, seen time.Time) map[string]bool {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return r.send(ctx, piece, admitted) // which only lists them
	}
	boarded := make([]string, len(piece))
	for i, it := range piece {
		boarded[i] = it.control.ID
	}
	if !r.board(ctx, boarded) {
		return r.send(ctx, piece, admitted) // which only lists them
	}
	defer r.flight.leave(boarded)
	failed := map[string]bool{}
	if r.clock().Sub(seen) > gateHolds {
		again := make([]queued, len(piece))
		for i, it := range piece {
			again[i] = queued{Member: dlqbridge.Member{ID: it.control.ID, Version: it.control.Version}}
		}
		var ok bool
		if piece, _, ok = r.pass(ctx, again, failed); !ok || len(piece) == 0 {
			r.pace.withdraw(admitted)
			return failed
		}
		if fewer := admitted - len(piece); fewer > 0 {
			r.pace.withdraw(fewer)
			admitted -= fewer
		}
	}
	maps.Copy(failed, r.send(ctx, piece, admitted))
	return failed
}

// fail ends the job for a reason that concerns all members.
func (r *runner) fail(err error) {
	switch {
	case errors.Is(err, errLost):
		r.stop(haltLost, err.Error())
	case errors.Is(err, dlqbridge.ErrDenied):
		r.stop(haltFailed, "access denied: "+err.Error())
	case errors.Is(err, dlqbridge.ErrCredentials):
		r.stop(haltFailed, "no valid credentials: "+err.Error())
	default:
		r.stop(haltFailed, err.Error())
	}
}

// unusable ends the job because its destination takes nothing from us (C76).
func (r *runner) unusable(err error) {
	if errors.Is(err, dlqbridge.ErrNotFound) {
		r.mu.Lock()
		r.missing = true
		r.mu.Unlock()
		err = fmt.Errorf("the destination does not exist: %w", err)
	}
	r.fail(err)
}

// leave lists a member that was not sent because its destination is missing;
// where the job stops for another reason the members simply wait for the next.
func (r *runner) leave(id string) {
	r.mu.Lock()
	missing := r.missing
	r.mu.Unlock()
	if missing {
		r.exclude(dlqbridge.Exclusion{ID: id, Reason: dlqbridge.ExcludeTargetMissing, Detail: "the destination does not exist"})
	}
}

// drain lists what was not even looked at before the destination was found missing.
func (r *runner) drain(ctx context.Context) {
	r.mu.Lock()
	missing := r.missing
	r.mu.Unlock()
	for missing && ctx.Err() == nil {
		batch, blocked, err := r.lineup.batch(ctx, readChunk)
		if err != nil || len(batch)+len(blocked) == 0 {
			return
		}
		for _, q := range batch {
			r.leave(q.ID)
			r.lineup.finished(q.ID, false)
		}
		for _, x := range blocked {
			r.leave(x.ID)
		}
	}
}

func (r *runner) exclude(x dlqbridge.Exclusion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.ByRun = true
	r.excluded.Add(x)
	r.reasons[x.Reason]++
}

func (r *runner) count(o dlqbridge.SendOutcome, it item) {
	id := it.control.ID
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[o]++
	if o == dlqbridge.OutcomeSent {
		r.sent.Add(id)
		r.actions[it.action()]++
	}
	if o == dlqbridge.OutcomeInDoubt {
		r.doubtful.Add(id)
	}
	if o == dlqbridge.OutcomeSent || o == dlqbridge.OutcomeInDoubt {
		r.flight.sit(id, r.clock(), o == dlqbridge.OutcomeInDoubt)
	}
	switch {
	case r.inStep == nil:
	case o == dlqbridge.OutcomeSent:
		r.inStep[id] = true
	default:
		r.troubled[id] = true
	}
}

// writeEvery is how often a running job's numbers are written: often enough for
// somebody who watches, too seldom to count among the calls.
const writeEvery = 2 * time.Second

// through says whether each member has been dealt with.
func (r *runner) through() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcomes[dlqbridge.OutcomeSent]+r.outcomes[dlqbridge.OutcomeInDoubt]+r.already+r.excluded.Len() >= r.job.Selected
}

// tell keeps the numbers right where nothing is sent for a while, so that the
// last send before it is told too.
func (r *runner) tell(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.progress(ctx)
		case <-over:
			return
		}
	}
}

// progress tells the caller, and now and then the job item, how far it is.
func (r *runner) progress(ctx context.Context) {
	r.mu.Lock()
	now := r.clock()
	p := r.report()
	job := r.counted()
	was := r.latest
	write := now.Sub(r.wrote) >= writeEvery && r.halted.kind == haltNone && ctx.Err() == nil &&
		(job.Sent != was.Sent || job.InDoubt != was.InDoubt || job.Excluded != was.Excluded || job.Doing != was.Doing)
	if write {
		r.wrote = now
	}
	r.o.Progress(p)
	r.mu.Unlock()
	if !write {
		return
	}
	job.Version++
	switch err := r.o.Jobs.MoveJob(ctx, job); {
	case err == nil:
		r.seenJob(job)
	case errors.Is(err, dlqbridge.ErrConflict): // an operator moved it: the next gate sees
	default:
		r.o.Log.WarnContext(ctx, "the job's progress could not be written", slog.String("job", job.ID), slog.Any("error", err))
	}
}

// out is how many went out, in this life of the job and before: at its start
// none of the earlier ones has been walked through yet, but they were counted.
func (r *runner) out() int {
	return max(r.job.Sent, r.outcomes[dlqbridge.OutcomeSent]+r.already)
}

func (r *runner) report() Progress {
	return Progress{
		Job: r.job.ID, Destination: r.job.Destination, State: r.latest.State, Reason: r.halted.reason, Selected: r.job.Selected,
		Sent: r.out(), InDoubt: r.outcomes[dlqbridge.OutcomeInDoubt], Excluded: r.excluded.Len(),
		Doing: r.doing, Until: r.until,
	}
}

// counted is the job with its numbers of now.
func (r *runner) counted() dlqbridge.Job {
	job := r.latest
	job.Sent = r.out()
	job.InDoubt = r.outcomes[dlqbridge.OutcomeInDoubt]
	job.Excluded, job.LeftOut.Running = r.excluded.Len(), maps.Clone(r.reasons)
	job.Doing = r.doing
	return job
}

// seenJob takes over a newer state of the job.
func (r *runner) seenJob(job dlqbridge.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if job.Version > r.latest.Version {
		r.latest = job
	}
}

// end writes how the job ended. An operator's pause or cancel stands. A runner
// that lost its lease writes nothing: another one may be running the same job.
func (r *runner) end(ctx context.Context) error {
	h := r.stopped()
	if r.through() && h.kind <= haltPaused {
		h = halt{} // it came too late to stop anything
	}
	if h.kind == haltLost {
		return fmt.Errorf("job %s: %w", r.job.ID, errLost)
	}
	for {
		r.mu.Lock()
		job := r.counted()
		r.mu.Unlock()
		job.Doing = ""
		switch h.kind {
		case haltThreshold:
			if job.State == dlqbridge.JobRunning {
				job.State, job.Reason, job.Lapsed = dlqbridge.JobPaused, dlqbridge.CutText(h.reason, dlqbridge.MaxReason), true
				job.Note(r.clock(), "redrive", "paused by itself: "+job.Reason)
			}
		case haltNone:
			job.State, job.Reason, job.Ended = dlqbridge.JobDone, "", r.clock()
			why := ""
			if r.closed.Load() {
				why = "; the business hours ended"
			}
			job.Note(job.Ended, "redrive", fmt.Sprintf("done: %d of %d sent, %d in doubt, %d excluded by the run, %d by its plan%s", job.Sent, job.Selected, job.InDoubt, sumOf(job.LeftOut.Run()), sumOf(job.LeftOut.Plan), why))
		case haltContext, haltProbe:
			if job.State == dlqbridge.JobRunning {
				job.State, job.Reason = dlqbridge.JobPaused, dlqbridge.CutText(h.reason, dlqbridge.MaxReason)
				job.Note(r.clock(), "redrive", "paused: "+h.reason)
			}
		case haltFailed:
			if job.State != dlqbridge.JobCancelled {
				job.State, job.Reason, job.Ended = dlqbridge.JobFailed, dlqbridge.CutText(h.reason, dlqbridge.MaxReason), r.clock()
				job.Note(job.Ended, "redrive", "failed: "+job.Reason)
			}
		case haltPaused, haltCancelled, haltLost:
		}
		job.Version++
		err := r.again(ctx, func() error { return r.o.Jobs.MoveJob(ctx, job) })
		if err == nil {
			r.ended(job)
			return nil
		}
		if !errors.Is(err, dlqbridge.ErrConflict) && !errors.Is(err, dlqbridge.ErrUnclear) {
			return fmt.Errorf("end job %s: %w", job.ID, err)
		}
		var now dlqbridge.Job
		if err := r.again(ctx, func() (err error) { now, err = r.o.Jobs.Job(ctx, job.ID); return err }); err != nil {
			return fmt.Errorf("end job %s: %w", job.ID, err)
		}
		switch {
		case now.Version == job.Version && now.State == job.State && now.Ended.Equal(job.Ended): // ours; its answer was lost
			r.ended(now)
			return nil
		case now.Version < job.Version:
			return fmt.Errorf("end job %s: %w", job.ID, err)
		}
		r.seenJob(now)
	}
}

func (r *runner) state() dlqbridge.JobState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest.State
}

// ended tells the caller how the job ended.
func (r *runner) ended(job dlqbridge.Job) {
	r.seenJob(job)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.o.Progress(r.report())
}
