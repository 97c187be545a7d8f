package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Task is what a worker knows about the message in its hands.
type Task struct {
	// ID is the task's id: the same on every delivery, retry and redrive.
	ID string
	// Prefix stands before the id in the table's key, with its separator, as
	// the route's ledger_prefix.
	Prefix string
	// MessageID is the broker's id of the message: SQS MessageId, Pub/Sub
	// message id. It tells a redelivery from another copy, so it is required
	// with Redrive.
	MessageID string
	// Redrive is the mark of a message that was sent back (see ParseMark); nil
	// in the task's first life.
	Redrive *dlqbridge.Mark
	// IdempotencyKey is the business key; steps derive theirs from it, or from
	// the ID if it is empty.
	IdempotencyKey string

	// What follows goes to the header where it is not empty.

	Type, Tenant                string
	Deadline, ValidUntil        time.Time
	Versions                    dlqbridge.Versions
	OriginEvent, ExpectedResult string
	TraceID                     string
	// MaxAttempts overrides that of the Options; 0 does not.
	MaxAttempts int
}

func (t Task) check() error {
	if err := checkTaskKey(t.Prefix + t.ID); err != nil {
		return err
	}
	switch {
	case t.Redrive == nil:
		return nil
	case t.Redrive.N < 1 || t.Redrive.Record == "":
		return errors.New("the mark names no record or no redrive number")
	case t.MessageID == "":
		// Without it a redelivery cannot be told from another copy, and one of
		// the two would be handled wrongly.
		return errors.New("MessageID is required with a mark")
	}
	return nil
}

// beginTries bounds how often Begin looks again after another writer was
// faster. Each look follows somebody's progress.
const beginTries = 5

// Begin takes the task's lease and returns the run, or says why not: see
// ErrCompleted, ErrBusy, ErrDuplicate, ErrRedriveRan, ErrExpired and ErrAttemptLimit.
// Whoever gets a run must Close it. Begin tells other states of the world apart
// as follows:
//
//   - In the task's first life (no mark) the broker may deliver as often as it
//     likes; a further run is allowed when the lease has ended.
//   - A mark (record and number) belongs to the message that it was first run
//     by. The same message delivered again is the same send and may run again
//     when the lease has ended. Another message with this number is a second
//     copy (a send repeated after a lost answer), and one with a lower number
//     of the same record is stale: both are refused, for good.
//   - Numbers count per record. A task whose record was closed and that died
//     again has a new record and counts from 1 again.
//
// If the process dies inside Begin, the lease may stand until it ends.
func (k *Kit) Begin(ctx context.Context, t Task) (*Run, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("begin: %w: %w", dlqbridge.ErrInvalid, err)
	}
	for range beginTries {
		items, err := queryTask(ctx, k.o.Client, k.table.retry, k.o.Table, t.Prefix+t.ID)
		if err != nil {
			return nil, fmt.Errorf("begin %s: %w", t.ID, err)
		}
		seen := decodeRows(items)
		now := k.now()
		if err := k.admit(seen, t, now); err != nil {
			return nil, fmt.Errorf("begin %s: %w", t.ID, err)
		}
		r := newRun(k, t, seen)
		c := k.opening(r, seen, now)
		switch _, err := k.table.write(ctx, r.key, EntryHeader, c); {
		case err == nil:
			r.token = c.mark
			r.holdUntil(now.Add(k.o.Lease))
			r.keepLease(ctx)
			return r, nil
		case !errors.Is(err, errRefused):
			return nil, fmt.Errorf("begin %s: %w", t.ID, err)
		}
	}
	return nil, fmt.Errorf("begin %s: %w", t.ID, dlqbridge.ErrConflict)
}

// admit says why the task must not run now, nil if it may.
func (k *Kit) admit(seen rows, t Task, now time.Time) error {
	h := seen.header
	if h == nil {
		return expired(t.ValidUntil, now)
	}
	if h.Status == TaskCompleted {
		return ErrCompleted
	}
	// Asked before the lease: a copy that may never run need not come back.
	if m := t.Redrive; m != nil {
		last, ran := h.Redrives[m.Record]
		switch {
		case ran && (last.N > m.N || last.N == m.N && last.MessageID != t.MessageID):
			return ErrDuplicate
		case !ran && len(h.Redrives) == 0 && h.RedriveN == m.N:
			return ErrRedriveRan
		}
	}
	if until := seen.runningUntil(now, k.o.MaxRun); now.Before(until) {
		return &BusyError{Run: h.RunID, Owner: h.LeaseOwner, Until: until}
	}
	validUntil := t.ValidUntil
	if validUntil.IsZero() {
		validUntil = h.ValidUntil
	}
	if err := expired(validUntil, now); err != nil {
		return err
	}
	if limit := k.limit(t); limit > 0 && attempts(h, t) >= limit {
		return fmt.Errorf("%w: %d of %d", ErrAttemptLimit, attempts(h, t), limit)
	}
	return nil
}

// expired says that work past its time must not begin. What came before is for
// others to say: the message is not done with, so a record tells of it.
func expired(validUntil, now time.Time) error {
	if validUntil.IsZero() || !now.After(validUntil) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrExpired, dlqbridge.FormatTime(validUntil))
}

func (k *Kit) limit(t Task) int {
	if t.MaxAttempts > 0 {
		return t.MaxAttempts
	}
	return k.o.MaxAttempts
}

// attempts is how many runs were begun for this very send.
func attempts(h *Header, t Task) int {
	record, n := send(t)
	if h == nil || h.RedriveN != n || h.RedriveRecord != record {
		return 0
	}
	return h.Attempts
}

func send(t Task) (record string, n int) {
	if t.Redrive == nil {
		return "", 0
	}
	return t.Redrive.Record, t.Redrive.N
}

// opening is the write that makes the run the task's active one.
func (k *Kit) opening(r *Run, seen rows, now time.Time) change {
	h := Header{}
	if seen.header != nil {
		h = *seen.header
	}
	record, n := send(r.task)
	c := change{
		markName: "token", mark: newToken(),
		remove: []string{"last_error"}, // it is the last run's; kept in failures
		set: item{
			"status":          str(TaskRunning),
			"run_id":          str(r.id),
			"redrive_n":       num(n),
			"lease_until":     str(dlqbridge.FormatTime(now.Add(k.o.Lease))),
			"lease_owner":     str(dlqbridge.CutText(k.o.Owner, maxText)),
			"updated_at":      str(dlqbridge.FormatTime(now)),
			"attempts":        num(r.attempt),
			"runs":            num(seen.runs() + 1),
			"task_type":       some(r.task.Type),
			"tenant":          some(r.task.Tenant),
			"idempotency_key": some(r.task.IdempotencyKey),
			"deadline":        some(dlqbridge.FormatTime(r.task.Deadline)),
			"valid_until":     some(dlqbridge.FormatTime(r.task.ValidUntil)),
			"origin_event":    some(r.task.OriginEvent),
			"expected_result": some(r.task.ExpectedResult),
			"trace_id":        some(r.task.TraceID),

			"agent_version":    some(r.task.Versions.Agent),
			"model_version":    some(r.task.Versions.Model),
			"prompt_version":   some(r.task.Versions.Prompt),
			"workflow_version": some(r.task.Versions.Workflow),
			"policy_version":   some(r.task.Versions.Policy),
		},
	}
	if limit := k.limit(r.task); limit > 0 {
		c.set["max_attempts"] = num(limit)
	}
	if record == "" {
		c.remove = append(c.remove, "redrive_record")
	} else {
		c.set["redrive_record"] = str(record)
		c.set["redrives"] = redriveMap(h.Redrives, record, Redrive{N: n, MessageID: r.task.MessageID})
	}
	if h.FirstRunAt.IsZero() {
		first := seen.firstAttempt()
		if first.IsZero() {
			first = now
		}
		c.set["first_run_at"] = str(dlqbridge.FormatTime(first))
	}
	// The promise speaks for all runs. Where something ran without it before,
	// the kit cannot give it afterwards.
	if h.Status == "" && seen.runs() == 0 && len(seen.steps) == 0 {
		c.set["intent_before_call"] = boolean(true)
	}
	if list := failures(h); list != nil {
		c.set["failures"] = list
	}
	c.when = item{"token": some(h.Token)}
	switch {
	case seen.header == nil:
		c.when = item{KeyEntry: nil}
	case h.Token == "": // written by others
		for _, name := range []string{"run_id", "status", "lease_until", "updated_at"} {
			c.when[name] = seen.raw[name]
		}
	}
	return c
}

func redriveMap(old map[string]Redrive, record string, last Redrive) types.AttributeValue {
	all := maps.Clone(old)
	if all == nil {
		all = map[string]Redrive{}
	}
	all[record] = last
	out := item{}
	for name, r := range all {
		out[name] = dict(item{"n": num(r.N), "message_id": some(r.MessageID)})
	}
	return dict(out)
}

// maxFailures bounds the list of earlier failures in the header.
const maxFailures = 10

// failures is the list of earlier failures with the last run's, nil if that
// run said nothing.
func failures(h Header) types.AttributeValue {
	if h.LastError == nil {
		return nil
	}
	code := h.LastError.Code
	if code == "" {
		code = h.LastError.Class
	}
	all := append(slices.Clone(h.Failures), dlqbridge.Attempt{Run: h.RunID, At: h.UpdatedAt, Code: code})
	all = all[max(0, len(all)-maxFailures):]
	var list []types.AttributeValue
	for _, f := range all {
		list = append(list, dict(item{"run_id": some(f.Run), "at": some(dlqbridge.FormatTime(f.At)), "code": some(f.Code)}))
	}
	return &types.AttributeValueMemberL{Value: list}
}

// resumeFrom is the checkpoint from which a run of this message goes on. The
// mark of a resume names the one that somebody decided on, which counts also
// where the ledger has another one: it may be kept somewhere else. Only what a
// run of the same message wrote since goes further.
func resumeFrom(h Header, t Task) *dlqbridge.Checkpoint {
	if t.Redrive == nil || t.Redrive.From == "" {
		return h.Checkpoint
	}
	same := h.CheckpointSend == Redrive{N: t.Redrive.N, MessageID: t.MessageID}
	if h.Checkpoint != nil && (same || h.Checkpoint.Ref == t.Redrive.From) {
		return h.Checkpoint
	}
	return &dlqbridge.Checkpoint{Ref: t.Redrive.From}
}

// newRun is the run as it will be once the header says so.
func newRun(k *Kit, t Task, seen rows) *Run {
	r := &Run{
		kit: k, task: t, key: t.Prefix + t.ID, id: "run_" + newToken(),
		writing: make(chan struct{}, 1), attempt: attempts(seen.header, t) + 1, steps: map[string][]StepRow{}, active: map[string]bool{},
	}
	for _, s := range seen.steps {
		r.steps[s.StepID] = append(r.steps[s.StepID], s)
	}
	r.from = resumeFrom(Header{}, t)
	if h := seen.header; h != nil {
		r.resume, r.from = h.Checkpoint, resumeFrom(*h, t)
		r.cost.load(h.CostUSD)
	}
	return r
}
