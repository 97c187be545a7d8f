package redrive

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// A canary sends the first members of a job in steps: a few, then more, then
// the rest. After each step it waits for what became of them, by evidence or by
// the end of their observation, and pauses the job by itself when too many came
// back or could not be sent. Steps are positions in the frozen selection, so
// whoever goes on after a crash knows where a step ends.
//
// Crash during a step: its members are claimed, noted or in doubt like any
// others; the next holder counts those that are sent already and observes the
// step again. After it and before the job item says so: the same once more.

// maxKinds bounds how many kinds of records samples are chosen from: more would
// take memory, and no canary has as many steps.
const maxKinds = 10_000

// spread yields the candidates in their order, with a sample for each step at
// the front: out of what is left, each time the most urgent of the kind of
// which fewest were taken, counted by tenant, type and signature.
func spread(candidates *sorter[candidate], steps []int) iter.Seq2[PlannedMember, error] {
	return func(yield func(PlannedMember, error) bool) {
		picks, err := samples(candidates, steps)
		if err != nil {
			yield(PlannedMember{}, err)
			return
		}
		front, taken, err := chosen(candidates, picks)
		if err != nil {
			yield(PlannedMember{}, err)
			return
		}
		for _, m := range front {
			if !yield(m, nil) {
				return
			}
		}
		i := -1
		for c, err := range candidates.all() {
			if i++; taken[i] && err == nil {
				continue
			}
			if !yield(c.Planned, err) || err != nil {
				return
			}
		}
	}
}

// chosen reads the candidates at some positions.
func chosen(candidates *sorter[candidate], picks []int) (front []PlannedMember, taken map[int]bool, err error) {
	front, taken = make([]PlannedMember, len(picks)), make(map[int]bool, len(picks))
	if len(picks) == 0 {
		return front, taken, nil
	}
	at := make(map[int]int, len(picks))
	for k, position := range picks {
		at[position], taken[position] = k, true
	}
	i := 0
	for c, err := range candidates.all() {
		if err != nil {
			return nil, nil, err
		}
		if k, ok := at[i]; ok {
			front[k] = c.Planned
			delete(at, i)
		}
		if i++; len(at) == 0 {
			break
		}
	}
	return front, taken, nil
}

// samples chooses the positions of the steps' samples.
func samples(candidates *sorter[candidate], steps []int) ([]int, error) {
	wanted := 0
	for _, n := range steps {
		wanted += n
	}
	if wanted == 0 || candidates.n <= 2 {
		return nil, nil
	}
	queues := map[kind][]int{} // positions by kind, the most urgent first
	var kinds []kind
	i := -1
	for c, err := range candidates.all() {
		if err != nil {
			return nil, err
		}
		i++
		q, known := queues[c.Kind]
		if !known && len(kinds) == maxKinds || len(q) == wanted {
			continue
		}
		if !known {
			kinds = append(kinds, c.Kind)
		}
		queues[c.Kind] = append(q, i)
	}
	var picks []int
	for _, n := range steps {
		var counts [3]map[string]int
		for d := range counts {
			counts[d] = map[string]int{} // each step is a sample of its own
		}
		for ; n > 0; n-- {
			best, least := -1, 0
			var of kind
			for _, k := range kinds {
				q := queues[k]
				if len(q) == 0 {
					continue
				}
				seen := counts[0][k[0]] + counts[1][k[1]] + counts[2][k[2]]
				if best < 0 || seen < least || seen == least && q[0] < best {
					best, least, of = q[0], seen, k
				}
			}
			if best < 0 {
				return picks, nil
			}
			for d, v := range of {
				counts[d][v]++
			}
			queues[of] = queues[of][1:]
			picks = append(picks, best)
		}
	}
	return picks, nil
}

// stepName says which step it is: "canary step 2 of 1,5,25".
func stepName(steps []int, k int) string {
	texts := make([]string, len(steps))
	for i, n := range steps {
		texts[i] = strconv.Itoa(n)
	}
	return fmt.Sprintf("canary step %d of %s", k+1, strings.Join(texts, ","))
}

// step sends one step and observes it; false ends the job here. One that passed
// in an earlier life of the job is only walked through.
func (r *runner) step(ctx, claiming context.Context, k, size int) bool {
	name := stepName(r.job.Canary, k)
	r.mu.Lock()
	r.inStep, r.troubled = map[string]bool{}, map[string]bool{}
	r.mu.Unlock()
	r.at(ctx, name+", sending")
	r.lineup.left = size
	r.sendAll(ctx, claiming)
	if claiming.Err() != nil {
		return false
	}
	r.mu.Lock()
	passed := k < r.latest.Step
	sent := make([]string, 0, len(r.inStep))
	for id := range r.inStep {
		sent = append(sent, id)
	}
	troubled := len(r.troubled)
	r.inStep, r.troubled = nil, nil
	r.mu.Unlock()
	if passed {
		return true
	}
	if all := len(sent) + troubled; troubled > 0 && share(troubled, all) >= r.job.PauseAtFailure {
		r.stop(haltThreshold, fmt.Sprintf("%s: %d of %d were refused or are in doubt (it pauses at %s)", name, troubled, all, percent(r.job.PauseAtFailure)))
		return false
	}
	if !r.watch(claiming, name, sent) {
		return false
	}
	r.write(ctx, func(job *dlqbridge.Job) {
		job.Step = k + 1
		job.Note(r.clock(), "redrive", name+" passed: "+r.became)
	})
	return true
}

// watch looks at the outcomes of a step until all are known, and stops the job
// as soon as too many came back.
func (r *runner) watch(ctx context.Context, name string, sent []string) bool {
	until := r.clock().Add(r.longest() + watchEvery)
	r.observing(ctx, name+", observing until "+clockTime(until, r.clock())+" at the latest", until)
	defer r.over()
	open := sent
	for d := time.Second; ; d = min(2*d, watchEvery) {
		if len(open) > 0 {
			if _, err := r.Observe(ctx, ObserveRequest{IDs: open}); err != nil && !dlqbridge.Retryable(err) {
				r.watchFailed(ctx, err)
				return false
			}
		}
		counts, still, err := r.stand(ctx, sent)
		switch {
		case err != nil && !dlqbridge.Retryable(err):
			r.watchFailed(ctx, err)
			return false
		case err != nil: // looked at again
		case share(counts[dlqbridge.OutcomeRecurred], len(sent)) >= r.job.PauseAtRecurrence && counts[dlqbridge.OutcomeRecurred] > 0:
			r.stop(haltThreshold, fmt.Sprintf("%s: %d of %d came back (it pauses at %s)", name, counts[dlqbridge.OutcomeRecurred], len(sent), percent(r.job.PauseAtRecurrence)))
			return false
		case len(still) == 0:
			r.became = counted(counts)
			return true
		default:
			open = still
		}
		if !pause(ctx, d) {
			return false
		}
		if !r.mayWatch(ctx) {
			return false
		}
		if r.clock().After(until) {
			r.at(ctx, fmt.Sprintf("%s, observing: %d open beyond their time, since a run of theirs is going or cannot be looked at", name, len(open)))
		}
	}
}

// longest is how long an outcome of the job's members is waited for at most.
func (r *runner) longest() time.Duration {
	window := time.Duration(0)
	for _, name := range r.routes {
		route, _ := r.o.Route(name)
		window = max(window, route.ObserveFor)
		if route.ObserveFor <= 0 {
			window = max(window, AutoWindow(r.facts))
		}
	}
	if window == 0 {
		window = AutoWindow(r.facts)
	}
	return window
}

// clockTime is a time for a person who reads it within a day of now.
func clockTime(t, now time.Time) string {
	if t.Sub(now) >= 24*time.Hour {
		return dlqbridge.FormatTime(t)
	}
	return t.UTC().Format("15:04:05Z")
}

// observing notes until when a step is observed.
func (r *runner) observing(ctx context.Context, doing string, until time.Time) {
	r.mu.Lock()
	r.until = until
	r.mu.Unlock()
	r.at(ctx, doing)
}

func (r *runner) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Time{}
}

// watchEvery bounds the time between two looks at a step: short against the
// shortest observation, long enough that looking costs little.
const watchEvery = 15 * time.Second

func (r *runner) watchFailed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		r.fail(fmt.Errorf("observe the canary: %w", err))
	}
}

// mayWatch sees to it that an operator's pause takes effect while nothing is sent.
func (r *runner) mayWatch(ctx context.Context) bool {
	var job dlqbridge.Job
	err := r.again(ctx, func() (err error) {
		job, err = r.o.Jobs.Job(ctx, r.job.ID)
		return err
	})
	if err != nil {
		r.watchFailed(ctx, err)
		return false
	}
	return r.jobMay(job) == nil
}

// stand counts how the sends of a step stand and returns those still open.
func (r *runner) stand(ctx context.Context, sent []string) (map[dlqbridge.SendOutcome]int, []string, error) {
	counts := map[dlqbridge.SendOutcome]int{}
	var open []string
	for chunk, err := range chunks(each(sent), readChunk) {
		if err != nil {
			return nil, nil, err
		}
		controls, err := r.read(ctx, chunk)
		if err != nil {
			return nil, nil, err
		}
		for _, id := range chunk {
			c, ok := controls[id]
			o := outcome(c, dlqbridge.Send{})
			if o == dlqbridge.OutcomeRecurred && c.Recurrences == 0 {
				o = dlqbridge.OutcomeUnconfirmed // a person moved it on
			}
			if ok && c.Claim != nil && c.Claim.Job == r.job.ID {
				open = append(open, id)
			}
			counts[o]++
		}
	}
	return counts, open, nil
}

// counted says outcomes in words: "4 completed, 1 unconfirmed".
func counted(counts map[dlqbridge.SendOutcome]int) string {
	var parts []string
	for _, o := range slices.Sorted(maps.Keys(counts)) {
		if counts[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[o], o))
		}
	}
	if len(parts) == 0 {
		return "nothing was sent"
	}
	return strings.Join(parts, ", ")
}

// at notes what the job is doing, for those who watch.
func (r *runner) at(ctx context.Context, doing string) {
	r.mu.Lock()
	same := r.doing == doing
	r.doing = doing
	r.mu.Unlock()
	if !same {
		r.write(ctx, func(*dlqbridge.Job) {})
	}
}

// write makes the job item say how far the job is. An operator who moved it
// meanwhile goes before: the item is read and written again.
func (r *runner) write(ctx context.Context, change func(*dlqbridge.Job)) {
	for range r.o.Tries {
		r.mu.Lock()
		job := r.counted()
		r.wrote = r.clock()
		r.o.Progress(r.report())
		r.mu.Unlock()
		change(&job)
		job.Version++
		err := r.o.Jobs.MoveJob(ctx, job)
		if err == nil {
			r.seenJob(job)
			return
		}
		now, readErr := r.o.Jobs.Job(ctx, r.job.ID)
		if readErr != nil || now.Version < job.Version && !dlqbridge.Retryable(err) {
			return // only what people see; the step is observed again after a crash
		}
		r.seenJob(now)
		if !pause(ctx, r.backoff(1)) {
			return
		}
	}
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', -1, 64) + "%" }

// grantedAt is when a job's members were last authorised by it.
func grantedAt(j dlqbridge.Job) time.Time { return later(j.Created, j.Granted) }

// regrant authorises anew, in the name of the person who continues a job that
// paused by itself, what of it was not sent. Who may not be is excluded at the
// gate.
func (c *Controller) regrant(ctx context.Context, job dlqbridge.Job, by dlqbridge.Actor, reason string) error {
	r := Request{Cause: job.Cause, Actions: job.Actions, Fix: job.Fix, Reason: reason, Actor: by, destination: job.Destination}
	for chunk, err := range chunks(c.o.Jobs.Members(ctx, job.ID, 0), grantChunk) {
		if err != nil {
			return fmt.Errorf("members of job %s: %w", job.ID, err)
		}
		controls, err := c.read(ctx, idsOf(chunk))
		if err != nil {
			return err
		}
		ns := map[string]int{}
		for id, ctl := range controls {
			if ctl.Redrives > 0 {
				ns[id] = ctl.Redrives
			}
		}
		notes, err := c.sends(ctx, ns)
		if err != nil {
			return err
		}
		var planned []PlannedMember
		for _, m := range chunk {
			ctl, ok := controls[m.ID]
			if ok && ctl.Claim == nil && ctl.Authorized == nil && !ctl.Status.Closed() && notes[m.ID].Job != job.ID {
				planned = append(planned, PlannedMember{ID: m.ID, Version: ctl.Version})
			}
		}
		if _, err := c.grantChunk(ctx, r, planned); err != nil {
			return err
		}
	}
	return nil
}
