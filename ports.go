package dlqbridge

import (
	"context"
	"iter"
	"slices"
	"time"
)

// The contracts of the record store. One adapter implements them all; each
// user asks for what it uses. Calls may be concurrent, arguments are not kept,
// and each adapter tries throttled calls again itself, within ctx.

// Item is one piece of evidence about a record: a StoredPayload, Arrival,
// Context, Note or Send. Items with the same key replace each other, so
// writing one again is safe.
type Item interface{ item() }

func (StoredPayload) item() {}
func (Arrival) item()       {}
func (Context) item()       {}
func (Note) item()          {}
func (Send) item()          {}

// StoredPayload is the payload of one arrival, or one that a repair made, kept
// apart from the record.
type StoredPayload struct {
	// Arrival is the key of the arrival it came with, or the name of a repaired
	// version (see RepairedName).
	Arrival string
	Payload Payload
}

// Evidence is one item of one record.
type Evidence struct {
	Record string
	Item   Item
}

// EvidenceWriter makes evidence durable. It says nothing yet: evidence counts
// only once a move names it.
type EvidenceWriter interface {
	// Put writes the items and answers by position; nil is durable. One item's
	// failure fails no other. A Send's message id becomes findable too (see
	// MessageFinder).
	Put(ctx context.Context, items []Evidence) []error
	// PutDoubt writes a Send unless one with its number is there: ErrExists.
	PutDoubt(ctx context.Context, record string, send Send) error
}

// Controls moves records. Every move is one conditional write.
type Controls interface {
	// Create makes records at version 1 and answers by position. ErrExists comes
	// with the control item that is there. A write whose answer was lost is
	// read back: if it is ours, it was created.
	Create(ctx context.Context, controls []Control) []Created
	// Move writes each To if the record is still at From's version, and answers
	// by position: ErrConflict if not. To.Version must be From.Version+1 and
	// To.Move the entry for it. From.Move is made durable as history before To
	// replaces it, so no entry can be lost.
	Move(ctx context.Context, steps []Step) []error
	// Read returns the control items of ids by a consistent read; ids that do
	// not exist are absent.
	Read(ctx context.Context, ids []string) (map[string]Control, error)
}

// Created is the answer to one Create.
type Created struct {
	// Existing is the control item that is there, with ErrExists; else nil.
	Existing *Control
	Err      error
}

// Step is one move of one record.
type Step struct{ From, To Control }

// CaseReader reads whole records, consistently.
type CaseReader interface {
	// Case returns everything but the payloads; ErrNotFound if there is no such record.
	Case(ctx context.Context, id string) (Case, error)
	// Payload returns the payload of an arrival, or a repaired version by its
	// name; ErrNotFound if it is gone.
	Payload(ctx context.Context, id, arrival string) (Payload, error)
	// Sends returns the send of number n of each record in ns; absent if there is none.
	Sends(ctx context.Context, ns map[string]int) (map[string]Send, error)
}

// CountedReader reads what a judgement looks at, of many records with few calls.
type CountedReader interface {
	// Counted returns for each control item, as it was just read, the record's
	// history up to its version with the arrivals and notes that it names:
	// nothing else of the record. What history names and is gone is absent.
	Counted(ctx context.Context, controls []Control) (map[string]Case, error)
}

// ContextReader reads the contexts that decisions stand on.
type ContextReader interface {
	// Contexts returns the named context of each record (record id to name);
	// absent if it is gone.
	Contexts(ctx context.Context, names map[string]string) (map[string]Context, error)
}

// PayloadReader reads the payloads of many records with few calls.
type PayloadReader interface {
	// Payloads returns the payload of the named arrival, or repaired version, of
	// each record (record id to name); absent if it is gone.
	Payloads(ctx context.Context, arrivals map[string]string) (map[string]Payload, error)
}

// MessageFinder finds records by the provider's id of a message that we sent.
type MessageFinder interface {
	// RecordsByMessage maps those of the message ids that it knows to record ids.
	RecordsByMessage(ctx context.Context, messageIDs []string) (map[string]string, error)
}

// WorkIndex lists open records.
type WorkIndex interface {
	// List yields control items in work order (nearest deadline first, then
	// oldest arrival) after the position After. They come from an index that may
	// lag: candidates, not facts. It stops at the first error.
	List(ctx context.Context, f Filter) iter.Seq2[Listed, error]
}

// Listed is one listed record with the position behind it.
type Listed struct {
	Control Control
	// Next is an opaque position: List goes on behind this record.
	Next string
}

// Filter selects records. Zero fields select everything.
type Filter struct {
	// Closed adds closed records, which costs a read of the whole table; the
	// order is then by record id.
	Closed   bool
	Routes   []string
	Causes   []Cause
	Status   []Status
	Lane     Lane
	Effect   Effect
	Tenant   string
	Owner    string
	TaskType string
	// Signature uses its own index.
	Signature string
	// Overdue: the triage deadline has passed, and none of Mutes keeps the record
	// quiet. NearDeadline: the task's own deadline is nearer than this.
	Overdue      bool
	Mutes        []Mute
	NearDeadline time.Duration
	// Now is the time that Overdue and NearDeadline are judged at.
	Now   time.Time
	After string
}

// Matches says whether a control item is selected, the index's own keys included.
func (f Filter) Matches(c Control) bool {
	if c.Status.Closed() && !f.Closed {
		return false
	}
	if !oneOf(f.Routes, c.Route) || !oneOf(f.Causes, c.Cause) || !oneOf(f.Status, c.Status) {
		return false
	}
	for _, s := range []struct{ want, have string }{
		{string(f.Lane), string(DefaultCausePolicy(c.Cause).Lane)},
		{string(f.Effect), string(c.Effect)},
		{Short(f.Tenant), c.Tenant},
		{Short(f.Owner), c.Owner},
		{Short(f.TaskType), c.TaskType},
		{f.Signature, c.Signature},
	} {
		if s.want != "" && s.want != s.have {
			return false
		}
	}
	if f.Overdue && !overdue(c, f.Mutes, f.Now) {
		return false
	}
	if f.NearDeadline > 0 && (c.Deadline.IsZero() || c.Deadline.Sub(f.Now) > f.NearDeadline) {
		return false
	}
	return true
}

func overdue(c Control, mutes []Mute, now time.Time) bool {
	_, muted := Muted(mutes, c, now)
	return !muted && !c.TriageBy.IsZero() && !c.TriageBy.After(now)
}

func oneOf[T comparable](wanted []T, have T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, have)
}

// Leases keeps one lease per destination.
type Leases interface {
	// Take takes the lease if it is free, released or past its Until, and
	// returns it as the last holder left it (zero if there was none). Otherwise
	// *LeaseHeldError.
	Take(ctx context.Context, l Lease) (previous Lease, err error)
	// Keep replaces the lease's state while the token is still l's; ErrConflict:
	// somebody took over, nothing more may be sent.
	Keep(ctx context.Context, l Lease) error
	// Release gives the lease back: Until becomes zero, which says that its
	// holder ended by itself; Job, NextFree and open batches stay readable.
	// Releasing a lease that somebody took over is no error.
	Release(ctx context.Context, l Lease) error
	// Lease reads the lease as it is; zero if there never was one.
	Lease(ctx context.Context, destination string) (Lease, error)
}

// Jobs keeps redrive jobs.
type Jobs interface {
	// CreateJob freezes the job's selection as it is read, the job itself last.
	CreateJob(ctx context.Context, j Job, members iter.Seq2[Member, error]) error
	// MoveJob replaces the job if it is still at j.Version-1: ErrConflict if not.
	MoveJob(ctx context.Context, j Job) error
	// Job returns one job: ErrNotFound.
	Job(ctx context.Context, id string) (Job, error)
	// ListJobs returns the newest jobs first, at most limit (0: all).
	ListJobs(ctx context.Context, limit int) ([]Job, error)
	// Members yields the frozen selection in its order, from position from on.
	Members(ctx context.Context, job string, from int) iter.Seq2[Member, error]
}

// Approvals keeps what second people said about plans.
type Approvals interface {
	// AddApproval keeps one; none is ever changed or removed.
	AddApproval(ctx context.Context, a Approval) error
	// ListApprovals returns those of a plan, the oldest first, by a consistent read.
	ListApprovals(ctx context.Context, plan string) ([]Approval, error)
}

// Groups keeps how far groups that keep their order have come.
type Groups interface {
	// NoteDone keeps d unless one of its group with a higher Order is there.
	NoteDone(ctx context.Context, d GroupDone) error
	// GroupsDone returns the kept one of each group; absent if there is none.
	GroupsDone(ctx context.Context, groups []GroupKey) (map[GroupKey]GroupDone, error)
}

// Holds keeps the stop signs.
type Holds interface {
	AddHold(ctx context.Context, h Hold) error
	// RemoveHold: ErrNotFound if there is no such hold.
	RemoveHold(ctx context.Context, id string) error
	// ListHolds returns all holds, those past their Until too.
	ListHolds(ctx context.Context) ([]Hold, error)
}

// Mutes keeps the groups that are to be quiet for a while.
type Mutes interface {
	AddMute(ctx context.Context, m Mute) error
	// RemoveMute: ErrNotFound if there is no such mute.
	RemoveMute(ctx context.Context, id string) error
	// ListMutes returns all mutes; those that ended lately too.
	ListMutes(ctx context.Context) ([]Mute, error)
}

// Gate reads what decides whether a batch may go, in one consistent look.
type Gate interface {
	Look(ctx context.Context, ids []string, job string) (View, error)
}

// View is what the gate sees.
type View struct {
	Controls map[string]Control
	Job      Job
	Holds    []Hold
}

// Testimony is what one store knows about one task.
type Testimony struct {
	// Store is its name on findings.
	Store string
	// Findings about mutating steps; none is silence, which proves nothing.
	Findings []Finding
	// Task, Failure, Checkpoint and the rest are nil or empty where the store
	// says nothing.
	Task         *Task
	Failure      *Failure
	Checkpoint   *Checkpoint
	Completed    *Completion
	RunningUntil time.Time
	FirstAttempt time.Time
	// SeenRedriveN is the highest redrive number of the asking record that a run
	// carried, with that run; proof that the send of that number went out.
	SeenRedriveN int
	SeenRun      string
	Runs         int
	TraceID      string
	Artifacts    []Artifact
	// AskAgain is when the store may know more by itself; zero is never.
	AskAgain time.Time
	// Unavailable: the store could not be asked, and why; so it says nothing.
	Unavailable string
}

// Question is what a store is asked.
type Question struct {
	Route  string
	TaskID string
	RunID  string
	// IdempotencyKey is the business key, for stores that know only it.
	IdempotencyKey string
	// MessageID is the provider's id of the newest letter, and Payload what it
	// carried, for stores whose key is made from the message; nil is not at hand,
	// and such a store then counts as unavailable.
	MessageID string
	Payload   *Payload
	// Record is the record that asks, empty for a letter without one: redrive
	// numbers count per record, and a store that keeps them apart answers for it.
	Record string
	// Tenant is whose task it is, for stores that keep tenants apart.
	Tenant string
	// LastActivity is the latest sign that somebody worked on the task: its
	// newest letter, its last send. What happened then may not be visible
	// everywhere at once, so a store that was asked too soon after it cannot say
	// that something did not happen. Zero is unknown, which is always too soon.
	LastActivity time.Time
	Now          time.Time
}

// OutcomeStore is a Store that can say whether tasks completed, and nothing
// else, with far fewer calls than Ask takes.
type OutcomeStore interface {
	Store
	// Outcomes answers by position; nil is not completed. An error says that it
	// cannot tell now.
	Outcomes(ctx context.Context, questions []Question) ([]*Completion, error)
}

// Store is a place that holds agent context.
type Store interface {
	// Name is the store's name in configuration and on findings.
	Name() string
	// Ask answers by position. A failure is a Testimony with Unavailable set,
	// never an error: it makes the effect unknown and loses nothing.
	Ask(ctx context.Context, questions []Question) []Testimony
}
