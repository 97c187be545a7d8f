package enrich

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// ask asks every store once about all subjects, in parallel, and answers by
// subject. Without a task id and a key there is nothing to ask by: the stores
// stay silent, which proves nothing.
func (e *Enricher) ask(ctx context.Context, now time.Time, subjects []Subject, all []facts) [][]dlqbridge.Testimony {
	out := make([][]dlqbridge.Testimony, len(all))
	if len(e.route.Stores) == 0 {
		return out
	}
	keyed := slices.ContainsFunc(e.route.Stores, needsPayload)
	var questions []dlqbridge.Question
	var asked []int
	for i := range all {
		letter := all[i].newest()
		t := letter.Task
		payload := subjects[i].Payload
		if (all[i].control.Claim == nil || all[i].fresh) && len(all[i].ran()) > 1 {
			// Runs of other payloads stand under other keys, so no one key can
			// say that none of them did anything.
			payload = nil
		}
		// With the payload at hand some stores make their key from that.
		if t.TaskID == "" && t.IdempotencyKey == "" && (payload == nil || !keyed) {
			continue
		}
		asked = append(asked, i)
		questions = append(questions, dlqbridge.Question{
			Route: e.route.Name, TaskID: t.TaskID, RunID: t.RunID, IdempotencyKey: t.IdempotencyKey, Tenant: t.Tenant,
			MessageID: letter.MessageID, Payload: payload, Record: all[i].control.ID,
			LastActivity: lastActivity(&all[i], now), Now: now,
		})
	}
	if len(questions) == 0 {
		return out
	}
	answers := make([][]dlqbridge.Testimony, len(e.route.Stores))
	var wait sync.WaitGroup
	for s, store := range e.route.Stores {
		wait.Go(func() { answers[s] = e.askOne(ctx, store, questions) })
	}
	wait.Wait()
	for _, byStore := range answers { // in the route's order, whoever was faster
		for q, i := range asked {
			out[i] = append(out[i], byStore[q])
		}
	}
	return out
}

// lastActivity is the latest sign that somebody worked on the task. When a
// worker gave up on a letter that was just received is not known, only that it
// was before now.
func lastActivity(f *facts, now time.Time) time.Time {
	last := f.control.LastSeen
	if f.fresh {
		last = now
	}
	if f.control.LastSend.After(last) {
		last = f.control.LastSend
	}
	return last
}

// askOne asks one store within its time. A store that panics, answers for
// fewer subjects than asked or ignores its context is unavailable: it may not
// take the intake down with it.
func (e *Enricher) askOne(ctx context.Context, store dlqbridge.Store, questions []dlqbridge.Question) []dlqbridge.Testimony {
	ctx, cancel := context.WithTimeout(ctx, e.route.StoreTimeout)
	defer cancel()
	name := store.Name()
	silent := func(why string) []dlqbridge.Testimony {
		out := make([]dlqbridge.Testimony, len(questions))
		for i := range out {
			out[i] = dlqbridge.Testimony{Store: name, Unavailable: why}
		}
		return out
	}
	answered := make(chan []dlqbridge.Testimony, 1) // buffered: a late answer must not hold its goroutine
	go func() {
		defer func() {
			if p := recover(); p != nil {
				answered <- silent(fmt.Sprintf("panic: %v", p))
			}
		}()
		answered <- store.Ask(ctx, slices.Clone(questions))
	}()
	var out []dlqbridge.Testimony
	select {
	case out = <-answered:
	case <-ctx.Done():
	}
	switch { // an answer that comes when time is up may be cut short, so it is none
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return silent(fmt.Sprintf("no answer within %s", e.route.StoreTimeout))
	case ctx.Err() != nil:
		return silent("stopped while asking")
	case len(out) != len(questions):
		return silent(fmt.Sprintf("answered %d of %d questions", len(out), len(questions)))
	}
	for i := range out {
		out[i].Store = cmp.Or(out[i].Store, name)
		out[i] = sane(out[i])
	}
	return out
}

// maxFolded bounds what one store may say about one task: all of it is folded.
// Whoever says more leaves the effect unknown, since steps would be missing.
const maxFolded = 10_000

// maxKept is how many findings a record keeps of what was folded: with the
// longest texts they stay far below DynamoDB's 400 KB item.
const maxKept = 200

// keptFindings are those that a record keeps, and how many it omits by state:
// first what speaks of all steps, then what is in doubt, then what happened.
func keptFindings(all []dlqbridge.Finding) (kept []dlqbridge.Finding, omitted map[dlqbridge.Effect]int) {
	if len(all) <= maxKept {
		return nonNil(all), nil
	}
	rank := func(f dlqbridge.Finding) int {
		if f.Step == dlqbridge.AllSteps {
			return 0
		}
		return map[dlqbridge.Effect]int{dlqbridge.EffectUnknown: 1, dlqbridge.EffectConfirmed: 2, dlqbridge.EffectNone: 3}[f.State]
	}
	kept = slices.Clone(all)
	slices.SortStableFunc(kept, func(a, b dlqbridge.Finding) int { return cmp.Compare(rank(a), rank(b)) })
	omitted = map[dlqbridge.Effect]int{}
	for _, f := range kept[maxKept:] {
		omitted[f.State]++
	}
	return kept[:maxKept], omitted
}

// sane bounds what a store said: its rows are written by workers and may hold
// anything.
func sane(t dlqbridge.Testimony) dlqbridge.Testimony {
	t.Findings = slices.Clone(t.Findings)
	if len(t.Findings) > maxFolded {
		t.Unavailable = fmt.Sprintf("more than %d steps", maxFolded)
		t.Findings = nil
		return t
	}
	for i := range t.Findings {
		f := &t.Findings[i]
		f.Store = cut(cmp.Or(f.Store, t.Store), maxName)
		f.Step, f.Run = exact(f.Step, f.Step, maxName), exact(f.Run, f.Run, maxName)
		f.Detail, f.AsOf = Scrub(cut(f.Detail, maxName)), saneTime(f.AsOf)
		if f.Receipt != nil {
			r := cut(*f.Receipt, maxName)
			f.Receipt = &r
		}
	}
	if t.Task != nil {
		task := *t.Task
		saneTask(&task)
		t.Task = &task
	}
	if t.Failure != nil {
		f := *t.Failure
		saneFailure(&f)
		t.Failure = &f
	}
	if c := t.Checkpoint; c != nil {
		t.Checkpoint = &dlqbridge.Checkpoint{
			Ref: exact(c.Ref, c.Ref, maxID), Step: exact(c.Step, c.Step, maxName), Run: exact(c.Run, c.Run, maxName),
			At: saneTime(c.At), WorkflowVersion: cut(c.WorkflowVersion, maxName), Lineage: c.Lineage,
		}
	}
	if c := t.Completed; c != nil {
		t.Completed = &dlqbridge.Completion{
			Store: cmp.Or(c.Store, t.Store), Run: exact(c.Run, c.Run, maxName), At: saneTime(c.At), RedriveN: c.RedriveN,
		}
	}
	t.RunningUntil, t.FirstAttempt, t.AskAgain = saneTime(t.RunningUntil), saneTime(t.FirstAttempt), saneTime(t.AskAgain)
	t.TraceID = cut(t.TraceID, maxName)
	t.Artifacts = slices.Clone(t.Artifacts)
	if len(t.Artifacts) > maxEntries {
		t.Artifacts = t.Artifacts[:maxEntries]
	}
	for i := range t.Artifacts {
		t.Artifacts[i].Kind, t.Artifacts[i].Ref = cut(t.Artifacts[i].Kind, maxName), cut(t.Artifacts[i].Ref, maxName)
	}
	return t
}

func saneTask(t *dlqbridge.Task) {
	for _, id := range []*string{&t.TaskID, &t.RunID, &t.Tenant, &t.IdempotencyKey} {
		*id = exact(*id, *id, maxID)
	}
	for _, s := range []*string{
		&t.TaskType, &t.Versions.Agent, &t.Versions.Model, &t.Versions.Prompt, &t.Versions.Workflow,
		&t.Versions.Policy, &t.CostUSD, &t.OriginEvent, &t.ExpectedResult,
	} {
		*s = cut(*s, maxName)
	}
	t.Deadline, t.ValidUntil = saneTime(t.Deadline), saneTime(t.ValidUntil)
	t.Tools = slices.Clone(t.Tools)
	if len(t.Tools) > maxEntries {
		t.Tools = t.Tools[:maxEntries]
	}
	for i := range t.Tools {
		t.Tools[i] = cut(t.Tools[i], maxName)
	}
}

func saneFailure(f *dlqbridge.Failure) {
	if !f.Cause.Valid() { // anything but a value of the closed set is detail
		f.Code = cmp.Or(f.Code, string(f.Cause))
		f.Cause = ""
	}
	f.Message = cut(Scrub(cut(f.Message, 8*maxText)), maxText)
	f.Code = Scrub(cut(f.Code, maxName))
	for _, s := range []*string{&f.Phase, &f.Step, &f.Tool, &f.Dependency} {
		*s = cut(*s, maxName)
	}
	f.Attempts = slices.Clone(f.Attempts)
	if len(f.Attempts) > maxEntries {
		f.Attempts = f.Attempts[len(f.Attempts)-maxEntries:]
	}
	for i := range f.Attempts {
		a := &f.Attempts[i]
		a.Run, a.Code, a.At = exact(a.Run, a.Run, maxName), Scrub(cut(a.Code, maxName)), saneTime(a.At)
	}
}

// mergeTask adds what later says to what earlier said. Who the task is comes
// from the first who said it: the record's id was made from that. What changes
// from run to run comes from the last.
func mergeTask(earlier, later dlqbridge.Task) dlqbridge.Task {
	t := earlier
	t.TaskID = cmp.Or(earlier.TaskID, later.TaskID)
	t.Tenant = cmp.Or(earlier.Tenant, later.Tenant)
	t.TaskType = cmp.Or(earlier.TaskType, later.TaskType)
	t.IdempotencyKey = cmp.Or(earlier.IdempotencyKey, later.IdempotencyKey)
	t.RunID = cmp.Or(later.RunID, earlier.RunID)
	t.Attempts = cmp.Or(later.Attempts, earlier.Attempts)
	t.MaxAttempts = cmp.Or(later.MaxAttempts, earlier.MaxAttempts)
	t.CostUSD = cmp.Or(later.CostUSD, earlier.CostUSD)
	t.OriginEvent = cmp.Or(earlier.OriginEvent, later.OriginEvent)
	t.ExpectedResult = cmp.Or(earlier.ExpectedResult, later.ExpectedResult)
	v, w := earlier.Versions, later.Versions
	t.Versions = dlqbridge.Versions{
		Agent: cmp.Or(w.Agent, v.Agent), Model: cmp.Or(w.Model, v.Model), Prompt: cmp.Or(w.Prompt, v.Prompt),
		Workflow: cmp.Or(w.Workflow, v.Workflow), Policy: cmp.Or(w.Policy, v.Policy),
	}
	t.Deadline = firstTime(earlier.Deadline, later.Deadline)
	t.ValidUntil = firstTime(earlier.ValidUntil, later.ValidUntil)
	t.Tools = nonNil(slices.Clone(earlier.Tools))
	for _, tool := range later.Tools {
		if !slices.Contains(t.Tools, tool) {
			t.Tools = append(t.Tools, tool)
		}
	}
	return t
}

// firstTime is the nearer of two times of which each may be none; of two limits
// it is the more careful one.
func firstTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// traceID takes the trace id out of a W3C traceparent, a Datadog id or an X-Ray header.
func traceID(header string) string {
	if parts := strings.Split(header, "-"); len(parts) == 4 && len(parts[1]) == 32 {
		return parts[1]
	}
	if id, ok := strings.CutPrefix(header, datadogTrace); ok {
		return id
	}
	for part := range strings.SplitSeq(header, ";") {
		if root, ok := strings.CutPrefix(strings.TrimSpace(part), "Root="); ok {
			return cut(root, maxName)
		}
	}
	return ""
}
