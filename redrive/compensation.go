package redrive

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// A compensation is a message of our own: it asks whoever reads it to undo what
// a task has done. It is sent once under its number like any other, and it is
// never sent again on the ground that workers refuse a second run, since a task's
// worker is not who reads it: only where the route says that repeating one does
// no harm.

// CompensationKind is the kind of a compensation message.
const CompensationKind = dlqbridge.CompensationKind

// Compensation is the body of a compensation message. Its JSON form is public.
type Compensation struct {
	Kind   string `json:"kind"`
	Format int    `json:"format"`
	// Record, Job and N are those of the mark; a completion message repeats
	// record and n.
	Record string `json:"record"`
	Job    string `json:"job"`
	N      int    `json:"n"`
	// IdempotencyKey is that of the compensation as a whole: the same whenever the
	// same effects of the same task are to be undone, whatever n is.
	IdempotencyKey string           `json:"idempotencyKey"`
	Route          string           `json:"route"`
	Cause          dlqbridge.Cause  `json:"cause"`
	Task           CompensatedTask  `json:"task"`
	Effects        []UndoneEffect   `json:"effects"`
	Agent          compensationFact `json:"agent"`
}

// CompensatedTask is the task whose effects are to be undone.
type CompensatedTask struct {
	TaskID         string `json:"taskId"`
	RunID          string `json:"runId"`
	TaskType       string `json:"taskType"`
	Tenant         string `json:"tenant"`
	IdempotencyKey string `json:"idempotencyKey"`
}

// UndoneEffect is one effect to undo. Its key is the same in every message that
// asks for it.
type UndoneEffect struct {
	// Step is the step's id, or "*": somebody said so of the whole task.
	Step string `json:"step"`
	// Run is empty where nobody knows which run it was.
	Run string `json:"run"`
	// Receipts are the outside system's own references; none may be known.
	Receipts       []string `json:"receipts"`
	AsOf           string   `json:"asOf,omitempty"`
	IdempotencyKey string   `json:"idempotencyKey"`
}

// compensationFact makes the message a unit of work of its own, so that one that
// dies is never taken for the task that it undoes.
type compensationFact struct {
	V      int    `json:"v"`
	Task   string `json:"task"`
	Type   string `json:"type"`
	Tenant string `json:"tenant,omitempty"`
	Idem   string `json:"idem"`
}

// undone lists the effects that a compensation of a record would undo. A claimed
// record is looked at as it was before its claim.
func undone(c dlqbridge.Control, j Judgement) []UndoneEffect {
	last := c.LastSend
	if c.Claim != nil {
		last = c.Claim.Before
	}
	// Records of one task ask for the same effect under the same key: a letter
	// that opened the next record, or that names another tenant, does not make it
	// another effect: task ids are unique in a ledger.
	unit := j.Context.Task.TaskID
	if unit == "" {
		unit = c.ID
	}
	var out []UndoneEffect
	for _, s := range dlqbridge.Confirmed(dlqbridge.FoldInput{Findings: j.Context.Findings, LastSend: last, Checkpoint: j.Context.Checkpoint}) {
		out = append(out, UndoneEffect{
			Step: s.Step, Run: s.Run, Receipts: append([]string{}, s.Receipts...), AsOf: dlqbridge.FormatTime(s.AsOf),
			IdempotencyKey: compensationKey("effect", unit, s.Run, s.Step),
		})
	}
	return out
}

func compensationKey(fields ...string) string { return "cmp_" + dlqbridge.Fingerprint(fields...) }

// undoneKey is the key of all these effects together.
func undoneKey(effects []UndoneEffect) string {
	fields := []string{"compensation"}
	for _, e := range effects {
		fields = append(fields, e.IdempotencyKey)
	}
	return compensationKey(fields...)
}

// compensation makes the message that undoes what a record's task has done.
func compensation(c dlqbridge.Control, j Judgement, m dlqbridge.Mark, fifo bool) dlqbridge.Payload {
	t := j.Context.Task
	effects := undone(c, j)
	key := undoneKey(effects)
	fact := compensationFact{V: 1, Task: key, Type: "compensation", Tenant: t.Tenant, Idem: key}
	p := dlqbridge.Payload{Body: escaped(Compensation{
		Kind: CompensationKind, Format: 1, Record: c.ID, Job: m.Job, N: m.N, IdempotencyKey: key, Route: c.Route, Cause: c.Cause,
		Task:    CompensatedTask{t.TaskID, t.RunID, t.TaskType, t.Tenant, t.IdempotencyKey},
		Effects: effects, Agent: fact,
	})}
	if fifo {
		p.GroupKey = c.ID // one record's compensation waits for no other's
	}
	text := func(name string, value []byte) {
		p = p.With(dlqbridge.Attribute{Name: name, Type: "String", Value: value})
	}
	if c.Provider == dlqbridge.PubSub {
		text("agent.v", []byte("1"))
		text("agent.task.id", []byte(key))
		text("agent.task.type", []byte(fact.Type))
		text("agent.idempotency_key", []byte(key))
		return p
	}
	text("agent.ctx", escaped(fact))
	return p
}

// escaped is compact JSON without the characters that SQS refuses, which JSON
// may escape (SendMessage, "valid characters", read 2026-11).
func escaped(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // texts, numbers and lists of them
		panic(err)
	}
	return []byte(strings.NewReplacer("\uFFFE", `\ufffe`, "\uFFFF", `\uffff`).Replace(string(text)))
}

// mayCompensateAgain says why a compensation in doubt may be repeated under its
// number, or why not. What a task's own contract allows says nothing about it, but
// what forbids a first compensation forbids this one: it may be the first.
func (c *Controller) mayCompensateAgain(ctl dlqbridge.Control, note dlqbridge.Send, j Judgement, canMark bool) (string, *dlqbridge.Exclusion) {
	no := func(r dlqbridge.ExcludeReason, detail string) (string, *dlqbridge.Exclusion) {
		return "", &dlqbridge.Exclusion{ID: ctl.ID, Reason: r, Detail: detail}
	}
	route, _ := c.o.Route(ctl.Route)
	switch {
	case seen(j, note.N) != "":
		return no(dlqbridge.ExcludeClaimed, "its compensation went out; its outcome is open")
	case j.Decision.Status == dlqbridge.StatusCompleted:
		// No outcome of the compensation, so nothing but a person ends this doubt.
		return no(dlqbridge.ExcludeClosed, "a store shows that the task completed, so nothing is undone; settle-send decides what became of the send in doubt")
	case j.Applied.Conflict || j.Applied.Late:
		return no(dlqbridge.ExcludeConflict, "another letter arrived meanwhile")
	case j.Context.RunningUntil.After(c.clock()):
		return no(dlqbridge.ExcludeStillRunning, "a run may be going until "+dlqbridge.FormatTime(j.Context.RunningUntil))
	case !route.CompensateIdempotent:
		return no(dlqbridge.ExcludeInDoubt, "nobody knows whether its compensation went out; settle-send decides (compensate_idempotent would repeat it)")
	case j.Unsent.Uncovered == dlqbridge.EffectUnknown:
		return no(dlqbridge.ExcludeEffectUnknown, "nobody knows whether its compensation went out, and what a run did meanwhile is unknown; it waits for evidence, or settle-send decides")
	case !canMark || ctl.Authorized == nil || ctl.Authorized.Of != subject(dlqbridge.ActionCompensate, ctl, j):
		return no(dlqbridge.ExcludeInDoubt, "nobody knows whether its compensation went out, and what there is to undo looks otherwise now; settle-send decides")
	}
	return "compensations are declared idempotent", nil
}

// dropsCopies says whether a second request for a message does no harm because
// the queue itself drops the copy. For a compensation that is not enough: its
// route must say that repeating is harmless.
func (r *runner) dropsCopies(it item, first, now time.Time) bool {
	if actionOf(it.control) == dlqbridge.ActionCompensate {
		if route, _ := r.o.Route(it.control.Route); !route.CompensateIdempotent {
			return false
		}
	}
	return fifoOpen(r.facts, first, now)
}

// undoing says whether a record is being compensated.
func undoing(c dlqbridge.Control) bool {
	return c.Claim != nil && actionOf(c) == dlqbridge.ActionCompensate
}
