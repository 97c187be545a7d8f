package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Run plans, authorises in the caller's name what may be authorised, and sends,
// one job per destination, one after the other. A destination in use by another
// job is *dlqbridge.LeaseHeldError. When ctx ends it stops claiming, finishes
// what is under way and leaves the job paused, which is no error.
func (c *Controller) Run(ctx context.Context, r Request) (Result, error) {
	if r.Plan != nil {
		if err := errors.Join(r.Plan.Check(), c.belongs(*r.Plan)); err != nil {
			return Result{}, err
		}
		r = r.follow(*r.Plan)
		second, err := c.second(ctx, *r.Plan, r.Actor)
		if err != nil {
			return Result{}, err
		}
		r.second = second
	}
	r = c.defaults(r)
	if why := c.outside(c.clock()); r.Policy && why != "" {
		// No record is read either: a schedule may ask the whole night through.
		res := newResult()
		res.Reason = why
		return res, nil
	}
	s, err := c.survey(ctx, r, "")
	if err != nil {
		return Result{}, err
	}
	if r.Plan == nil {
		if err := c.mayGoAlone(s); err != nil {
			return Result{}, err
		}
	}
	res := newResult()
	if r.Plan != nil { // its own exclusions are listed in the file
		for x, err := range r.Plan.Excluded.All() {
			if err != nil {
				return res, err
			}
			res.leftByPlan(x.Reason)
		}
	}
	if err := res.leaveOut(s.excluded, r.Plan != nil); err != nil {
		return res, err
	}
	// What goes nowhere comes first, so that the first job can count it.
	slices.SortStableFunc(s.targets, func(a, b *target) int {
		return cmp.Compare(min(a.members.Len(), 1), min(b.members.Len(), 1))
	})
	for _, t := range s.targets {
		if err := c.cancelExpired(ctx, t.late); err != nil {
			return res, err
		}
		if t.members.Len() == 0 && !t.claimed || t.missing || ctx.Err() != nil {
			if err := res.leaveOut(t.excluded, r.Plan != nil); err != nil {
				return res, err
			}
			continue
		}
		if err := c.runTarget(ctx, r, t, &res); err != nil {
			return res, err
		}
	}
	return res, nil
}

// runTarget runs the part of a request that goes to one destination.
func (c *Controller) runTarget(ctx context.Context, r Request, t *target, res *Result) error {
	id := "j_" + dlqbridge.NewToken()
	j, last, err := c.take(ctx, t.urn, id)
	if err != nil {
		if _, ok := errors.AsType[*dlqbridge.LeaseHeldError](err); ok && t.members.Len() == 0 {
			return res.leaveOut(t.excluded, r.Plan != nil) // their claims are of a living job
		}
		return err
	}
	return c.underLease(ctx, j, last, t, r.Rate, r.Burst, r.Actor, id, func(changed bool) (*runner, error) {
		if changed { // what a dead job held is free now, or in doubt
			s, err := c.survey(ctx, r, t.urn)
			if err != nil {
				return nil, err
			}
			if r.Plan == nil {
				if err := c.mayGoAlone(s); err != nil {
					return nil, err
				}
			}
			t.members = List[PlannedMember]{}
			if t.excluded, err = fresh(s.excluded, res.Excluded); err != nil {
				return nil, err
			}
			for _, again := range s.targets {
				t.members = again.members
				maps.Copy(t.routes, again.routes)
				if err := t.excluded.AddAll(again.excluded.All()); err != nil {
					return nil, err
				}
			}
		}
		r.destination = t.urn
		members, left, err := c.grant(ctx, r, t.members)
		if err == nil && t.facts.Ordered && !r.SkipUndeliverable {
			members, left, err = c.stayBehind(ctx, r, t, res.Excluded, members, left)
		}
		err = errors.Join(err, res.leaveOut(t.excluded, r.Plan != nil), res.leaveOut(left, true))
		if err != nil || members.Len() == 0 {
			return nil, err
		}
		now := c.clock()
		job := dlqbridge.Job{
			ID: id, Version: 1, State: dlqbridge.JobRunning, Cause: r.Cause, Destination: t.urn, Route: t.route,
			Actions: r.Actions, Fix: r.Fix, By: r.Actor, Why: r.Reason, Rate: r.Rate, Burst: r.Burst, MaxInFlight: r.MaxInFlight,
			Canary: r.canary, PauseAtRecurrence: c.o.PauseAtRecurrence, PauseAtFailure: c.o.PauseAtFailure,
			Created: now, Selected: members.Len(), LeftOut: res.told(), Approval: r.second, SkipUndeliverable: r.SkipUndeliverable, SendOvertaken: r.SendOvertaken,
		}
		if len(t.routes) > 1 {
			job.Routes = slices.Sorted(maps.Keys(t.routes))
		}
		job.Note(now, r.Actor.String(), fmt.Sprintf("started with %d records: %s", members.Len(), r.Reason))
		if s := r.second; s != nil {
			job.Note(s.At, s.By.String(), fmt.Sprintf("approved plan %s: %s", s.Plan, s.Reason))
		}
		// Crash in the middle of it: the job item is written last, so there is no
		// job, and its members stay authorised for the next run.
		if err := c.again(ctx, func() error { return c.o.Jobs.CreateJob(ctx, job, members.All()) }); err != nil {
			return nil, fmt.Errorf("make job %s: %w", id, err)
		}
		run := c.runner(ctx, j, t, job)
		run.policy = r.Policy
		return run, nil
	}, res)
}

// stayBehind takes those out of the granted members of a destination that would
// overtake a planned one that was left out since. They stay authorised.
func (c *Controller) stayBehind(ctx context.Context, r Request, t *target, changed List[dlqbridge.Exclusion], members List[dlqbridge.Member], left List[dlqbridge.Exclusion]) (List[dlqbridge.Member], List[dlqbridge.Exclusion], error) {
	all := t.members
	if r.Plan != nil {
		for _, j := range r.Plan.Jobs {
			if j.Destination == t.urn {
				all = j.Members // those that have changed since stand in it too
			}
		}
	}
	gone := map[string]dlqbridge.Exclusion{}
	for _, list := range []List[dlqbridge.Exclusion]{t.excluded, changed} {
		for x, err := range list.All() {
			if err != nil {
				return members, left, err
			}
			gone[x.ID] = x
		}
	}
	for x, err := range left.All() {
		if err != nil {
			return members, left, err
		}
		if x.Reason == dlqbridge.ExcludeClaimed {
			x.Reason = dlqbridge.ExcludeChanged // somebody moved it; no job has sent it
		}
		gone[x.ID] = x
	}
	waits, err := c.behind(ctx, all.All(), gone)
	if err != nil || len(waits) == 0 {
		return members, left, err
	}
	held := idSet{}
	for _, x := range waits {
		held.add(x.ID)
		left.Add(x)
	}
	var out List[dlqbridge.Member]
	for m, err := range members.All() {
		if err != nil {
			return members, left, err
		}
		if !held.has(m.ID) {
			out.Add(m)
		}
	}
	return out, left, nil
}

// fresh are the exclusions of records that are not excluded yet.
func fresh(list, have List[dlqbridge.Exclusion]) (List[dlqbridge.Exclusion], error) {
	var out List[dlqbridge.Exclusion]
	if list.Len() == 0 {
		return out, nil
	}
	known := idSet{}
	for x, err := range have.All() {
		if err != nil {
			return out, err
		}
		known.add(x.ID)
	}
	for x, err := range list.All() {
		if err != nil {
			return out, err
		}
		if !known.has(x.ID) {
			out.Add(x)
		}
	}
	return out, nil
}

// underLease adopts what the last holder left, asks prepare for the runner (nil:
// nothing to send), runs it, and gives the lease back.
func (c *Controller) underLease(ctx context.Context, j *journal, last dlqbridge.Lease, t *target, rate dlqbridge.Rate, burst int, by dlqbridge.Actor, job string, prepare func(changed bool) (*runner, error), res *Result) error {
	j.pace = newPace(c.o.Now, rate, burst, last.NextFree, !clean(last))
	j.start(ctx)
	var run *runner
	err := func() error {
		a := &adopter{Controller: c, journal: j, dest: t.facts, by: by.String(), job: job}
		changed, err := a.adopt(ctx, last, t.orphans)
		if err != nil {
			return fmt.Errorf("take over what job %s left: %w", last.Job, err)
		}
		run, err = prepare(changed)
		if err != nil || run == nil {
			return err
		}
		run.run(ctx)
		finish, cancel := c.finishing(ctx)
		defer cancel()
		err = run.end(finish)
		switch run.stopped().kind { //nolint:exhaustive // the others leave what was not sent authorised
		case haltCancelled:
			err = errors.Join(err, c.lapseAll(finish, run.job, run.job.By, "was cancelled"))
		case haltThreshold:
			err = errors.Join(err, c.lapseAll(finish, run.job, run.job.By, "paused by itself"))
		}
		if run.closed.Load() && run.state() == dlqbridge.JobDone {
			err = errors.Join(err, c.lapseWaiting(ctx, run.job))
		}
		return errors.Join(err, run.into(res))
	}()
	finish, cancel := c.finishing(ctx)
	defer cancel()
	if run != nil && run.left {
		return errors.Join(err, j.abandon(finish))
	}
	return errors.Join(err, j.release(finish))
}

func (c *Controller) runner(ctx context.Context, j *journal, t *target, job dlqbridge.Job) *runner {
	atOnce, size := c.o.AtOnce, j.pace.batch()
	if n := job.MaxInFlight; n > 0 {
		// A batch waits until all of it has a seat, so it is small against them.
		atOnce, size = min(atOnce, n), min(size, max(1, n/10))
	}
	r := &runner{
		Controller: c, dest: t.dest, facts: t.facts, journal: j, pace: j.pace, job: job, latest: job,
		wrote: c.clock(), reasons: map[dlqbridge.ExcludeReason]int{}, outcomes: map[dlqbridge.SendOutcome]int{}, actions: map[dlqbridge.Action]int{},
		size: max(1, min(size, atOnce)), flight: newFlight(job.MaxInFlight), routes: slices.Sorted(maps.Keys(t.routes)),
	}
	if t.facts.BatchCount > 0 {
		r.size = min(r.size, t.facts.BatchCount)
	}
	r.look = max(r.size, min(2*r.size, j.pace.batch(), atOnce))
	r.slots = make(chan struct{}, max(1, atOnce/r.size))
	r.places = make(chan struct{}, dlqbridge.MaxOpenBatches)
	group := r.groups
	if !t.facts.Ordered {
		group = nil
	}
	// Members are read while the job runs, under a context of their own: what
	// was handed out is finished even if the caller stops.
	r.lineup = newLineup(c.o.Jobs.Members(context.WithoutCancel(ctx), job.ID, 0), group)
	r.lineup.skip = job.SkipUndeliverable
	return r
}

// groups finds the group of each member from its payload.
func (r *runner) groups(ctx context.Context, members []dlqbridge.Member) (map[string]string, error) {
	controls, err := r.read(ctx, idsOf(members))
	if err != nil {
		return nil, err
	}
	var asks []Ask
	for _, m := range members {
		// A compensation is in nobody's group but its own.
		if c, ok := controls[m.ID]; ok && actionOf(c) != dlqbridge.ActionCompensate {
			asks = append(asks, Ask{Control: c})
		}
	}
	payloads, err := r.payloads(ctx, asks)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for id, p := range payloads {
		out[id] = p.GroupKey
	}
	return out, nil
}

// into adds what the job did to the result.
func (r *runner) into(res *Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if res.Job == "" {
		res.Job = r.job.ID
	}
	res.Jobs = append(res.Jobs, r.job.ID)
	res.Selected += r.job.Selected
	res.Sent += r.out()
	for o, n := range r.outcomes {
		res.Outcomes[o] += n
	}
	for a, n := range r.actions {
		res.ByAction = addCount(res.ByAction, a, r.job.Destination, n)
	}
	sortCounts(res.ByAction)
	if res.State == "" || res.State == dlqbridge.JobDone {
		res.State, res.Reason = r.latest.State, r.latest.Reason
	}
	res.Looked = res.Looked || len(r.job.Canary) > 0 || r.already > 0
	for reason, n := range r.reasons {
		res.ExcludedByRun[reason] += n
	}
	return errors.Join(res.Excluded.AddAll(r.excluded.All()), res.Records.AddAll(r.sent.All()), res.InDoubt.AddAll(r.doubtful.All()))
}

// Continue sends what a paused job, or one whose process died, has left.
func (c *Controller) Continue(ctx context.Context, id string, by dlqbridge.Actor, reason string) (Result, error) {
	res := newResult()
	job, err := c.o.Jobs.Job(ctx, id)
	if err != nil {
		return res, fmt.Errorf("job %s: %w", id, err)
	}
	if job.State == dlqbridge.JobDone || job.State == dlqbridge.JobCancelled {
		return res, &JobStateError{id, job.State, "what is left needs a new run"}
	}
	if job.Lapsed && (job.Approval != nil || c.wantsSecond(job.Selected)) {
		return res, &SecondPersonError{Why: "it paused by itself, so its authorisations lapsed and the second person's approval with them: what is left needs another plan"}
	}
	t := &target{urn: job.Destination, route: job.Route, routes: map[string]bool{}}
	if job.Route != "" {
		t.routes[job.Route] = true
	}
	for _, name := range job.Routes {
		t.routes[name] = true
	}
	if t.dest, err = c.o.Destination(ctx, job.Route, job.Destination); err == nil {
		t.facts, err = t.dest.Facts(ctx)
	}
	if err != nil {
		return res, fmt.Errorf("destination %s: %w", job.Destination, err)
	}
	j, last, err := c.take(ctx, t.urn, id)
	if err != nil {
		return res, err
	}
	err = c.underLease(ctx, j, last, t, job.Rate, job.Burst, by, id, func(bool) (*runner, error) {
		if job.Lapsed {
			if err := c.regrant(ctx, job, by, reason); err != nil {
				return nil, err
			}
		}
		moved, err := c.moveJob(ctx, id, func(job *dlqbridge.Job) error {
			if job.State == dlqbridge.JobDone || job.State == dlqbridge.JobCancelled {
				return &JobStateError{id, job.State, "what is left needs a new run"}
			}
			job.State, job.Reason, job.Ended = dlqbridge.JobRunning, said("continued", by, reason), time.Time{}
			job.Began, job.Before = c.clock(), job.Sent
			job.Note(job.Began, by.String(), "continued: "+reason)
			if job.Lapsed { // the step that paused it is what the person has looked at
				job.Lapsed, job.Granted = false, c.clock()
				job.Step++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		return c.runner(ctx, j, t, moved), nil
	}, &res)
	return res, err
}

// Pause stops a job after the batches under way; Continue goes on. The process
// that runs it sees this within one batch, wherever it runs.
func (c *Controller) Pause(ctx context.Context, id string, by dlqbridge.Actor, reason string) (dlqbridge.Job, error) {
	return c.moveJob(ctx, id, func(job *dlqbridge.Job) error {
		if job.State != dlqbridge.JobRunning {
			return &JobStateError{id, job.State, "only a running job can be paused"}
		}
		job.State, job.Reason = dlqbridge.JobPaused, said("paused", by, reason)
		job.Note(c.clock(), by.String(), "paused: "+reason)
		return nil
	})
}

// Cancel ends a job after the batches under way; the authorisations of what was
// not sent lapse, so that it can be selected again.
func (c *Controller) Cancel(ctx context.Context, id string, by dlqbridge.Actor, reason string) (dlqbridge.Job, error) {
	job, err := c.moveJob(ctx, id, func(job *dlqbridge.Job) error {
		if job.State == dlqbridge.JobDone || job.State == dlqbridge.JobCancelled {
			return &JobStateError{id, job.State, "it has ended, so there is nothing to cancel"}
		}
		job.State, job.Reason, job.Ended = dlqbridge.JobCancelled, said("cancelled", by, reason), c.clock()
		job.Doing = "" // a process that died never says that it stopped
		job.Note(c.clock(), by.String(), "cancelled: "+reason)
		return nil
	})
	if err != nil {
		return job, err
	}
	// The job may have no process any more, so this one takes back what is left.
	// A living one does the same at its end; each record is moved by one of them.
	return job, c.lapseAll(ctx, job, by, "was cancelled")
}

// said is the reason of a job's state with who gave it.
func said(what string, by dlqbridge.Actor, reason string) string {
	text := what + " by " + by.String()
	if reason != "" {
		text += ": " + reason
	}
	return dlqbridge.CutText(text, dlqbridge.MaxReason)
}

// moveJob changes a job item, again where somebody else moved it first.
func (c *Controller) moveJob(ctx context.Context, id string, change func(*dlqbridge.Job) error) (dlqbridge.Job, error) {
	for try := 1; ; try++ {
		job, err := c.o.Jobs.Job(ctx, id)
		if err != nil {
			return job, fmt.Errorf("job %s: %w", id, err)
		}
		if err := change(&job); err != nil {
			return job, err
		}
		job.Version++
		err = c.o.Jobs.MoveJob(ctx, job)
		if err == nil {
			return job, nil
		}
		again := errors.Is(err, dlqbridge.ErrConflict) || dlqbridge.Retryable(err) || errors.Is(err, dlqbridge.ErrUnclear)
		if !again || try >= c.o.Tries || !pause(ctx, c.backoff(try)) {
			return job, fmt.Errorf("move job %s: %w", id, err)
		}
	}
}

// lapseAll takes back the authorisations that a job's members still have from
// the time when it was made or continued.
func (c *Controller) lapseAll(ctx context.Context, job dlqbridge.Job, by dlqbridge.Actor, what string) error {
	return c.lapseThose(ctx, job, by, what, func(dlqbridge.Control) bool { return true })
}

// lapseWaiting takes back what policy itself authorised and the end of the
// business hours kept from going, so that the next run of policy decides anew:
// after a weekend the authorisation would be too old. A person's word stands.
//
// Crash before or in the middle of it: the rest stays authorised; the next run
// sends it, or it lapses when it is too old.
func (c *Controller) lapseWaiting(ctx context.Context, job dlqbridge.Job) error {
	err := c.lapseThose(ctx, job, job.By, "ended with the business hours", func(ctl dlqbridge.Control) bool {
		return ctl.Authorized.By == PolicyActor.String()
	})
	if ctx.Err() != nil {
		err = nil // who stops the process need not wait for it
	}
	return err
}

func (c *Controller) lapseThose(ctx context.Context, job dlqbridge.Job, by dlqbridge.Actor, what string, those func(dlqbridge.Control) bool) error {
	for chunk, err := range chunks(c.o.Jobs.Members(ctx, job.ID, 0), readChunk) {
		if err != nil {
			return fmt.Errorf("members of job %s: %w", job.ID, err)
		}
		controls, err := c.read(ctx, idsOf(chunk))
		if err != nil {
			return err
		}
		var steps []dlqbridge.Step
		for _, m := range chunk {
			ctl := controls[m.ID]
			if ctl.Status == dlqbridge.StatusAuthorized && ctl.Authorized != nil && !ctl.Authorized.At.After(grantedAt(job)) && those(ctl) {
				steps = append(steps, Lapse(ctl, by.String(), "job "+job.ID+" "+what, c.clock()))
			}
		}
		for i, err := range c.move(ctx, steps) {
			if err != nil && !errors.Is(err, dlqbridge.ErrConflict) {
				return fmt.Errorf("take back the authorisation of %s: %w", steps[i].From.ID, err)
			}
		}
	}
	return nil
}
