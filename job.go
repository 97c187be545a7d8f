package dlqbridge

import (
	"slices"
	"time"
)

// JobState is where a redrive job is in its life.
type JobState string

// The states of a job.
const (
	JobRunning   JobState = "running"
	JobPaused    JobState = "paused"
	JobCancelled JobState = "cancelled"
	// JobDone: every member was sent or excluded; outcomes may be open.
	JobDone JobState = "done"
	// JobFailed: it could not go on; Reason says why. What was not sent is as
	// it was and can be selected again.
	JobFailed JobState = "failed"
)

// Job is one redrive run: a frozen selection of records of one cause and one
// destination, sent under one pace. Version guards it like a record's.
type Job struct {
	ID          string   `json:"id"`
	Version     int      `json:"version"`
	State       JobState `json:"state"`
	Reason      string   `json:"reason,omitempty"`
	Cause       Cause    `json:"cause"`
	Destination string   `json:"destination"`
	Route       string   `json:"route"`
	// Routes are all that lead its records there, where they are several.
	Routes      []string `json:"routes,omitempty"`
	Fix         *Fix     `json:"fix,omitempty"`
	By          Actor    `json:"by"`
	Why         string   `json:"why"`
	Rate        Rate     `json:"rate"`
	Burst       int      `json:"burst"`
	MaxInFlight int      `json:"maxInFlight"`
	// Canary is the sizes of the first steps, each observed before the next one
	// begins; empty is none. Step is how many of them have passed, and
	// PauseAtRecurrence and PauseAtFailure the shares that pause the job.
	Canary            []int   `json:"canary,omitempty"`
	Step              int     `json:"step,omitempty"`
	PauseAtRecurrence float64 `json:"pauseAtRecurrence,omitempty"`
	PauseAtFailure    float64 `json:"pauseAtFailure,omitempty"`
	// Actions are those that its selection was narrowed to; empty is whatever each
	// record needs.
	Actions []Action `json:"actions,omitempty"`
	// SkipUndeliverable: one that cannot be sent holds up no later one of its group.
	SkipUndeliverable bool `json:"skipUndeliverable,omitempty"`
	// SendOvertaken: those are sent too of whose group a newer one completed.
	SendOvertaken bool `json:"sendOvertaken,omitempty"`
	// Approval is the second person's, where the job's plan has one.
	Approval *Approval `json:"approval,omitempty"`
	// Doing says what a running job is at, for the person who watches.
	Doing   string    `json:"doing,omitempty"`
	Created time.Time `json:"created"`
	// Lapsed: it paused by itself, so what was not sent is authorised anew before
	// it continues. Granted is when that was last done; zero is before Created.
	Lapsed  bool      `json:"lapsed,omitempty"`
	Granted time.Time `json:"granted,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Began is when the job was last continued, and Before how many had been sent
	// until then; zero is never, so it began with Created.
	Began  time.Time `json:"began,omitzero"`
	Before int       `json:"before,omitempty"`
	// Selected, Sent, InDoubt and Excluded count members; the numbers are those
	// of the job's last write and may lag while it runs.
	Selected int `json:"selected"`
	Sent     int `json:"sent"`
	InDoubt  int `json:"inDoubt"`
	Excluded int `json:"excluded"`
	// LeftOut is what its run does not send, by reason.
	LeftOut LeftOut `json:"leftOut,omitzero"`
	// Trail is who did what with the job, the oldest first; where it grew too
	// long the middle is left out.
	Trail []JobEvent `json:"trail,omitempty"`
}

// LeftOut counts, by reason, the records that a run does not send.
type LeftOut struct {
	// Plan: the plan did not select them.
	Plan map[ExcludeReason]int `json:"plan,omitempty"`
	// Start: the plan did, but they had changed when the job began, so they are
	// no members of it.
	Start map[ExcludeReason]int `json:"start,omitempty"`
	// Running: members that were left out while it ran, Job.Excluded in all.
	Running map[ExcludeReason]int `json:"running,omitempty"`
}

// Run counts what the plan selected and the run left out.
func (l LeftOut) Run() map[ExcludeReason]int {
	out := map[ExcludeReason]int{}
	for _, part := range []map[ExcludeReason]int{l.Start, l.Running} {
		for reason, n := range part {
			out[reason] += n
		}
	}
	return out
}

// JobEvent is one entry of a job's trail.
type JobEvent struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	What string    `json:"what"`
}

// MaxTrail bounds a job's trail: each look at the gate reads the job.
const MaxTrail = 50

// Note adds an entry to the job's trail. The beginning stays, since who started
// it and why is asked first.
func (j *Job) Note(at time.Time, by, what string) {
	trail := slices.Concat(j.Trail, []JobEvent{{At: at, By: by, What: what}}) // the job may have been copied
	if over := len(trail) - MaxTrail; over > 0 {
		trail = slices.Delete(trail, MaxTrail/2, MaxTrail/2+over)
	}
	j.Trail = trail
}

// Approval is a second person's word for a plan, which its hash names: for
// exactly those members at exactly those versions.
type Approval struct {
	Plan   string    `json:"plan"`
	By     Actor     `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// GroupKey names the messages that must keep their order among themselves: those
// of one dead-letter place that belong to one destination and carry one group.
type GroupKey struct{ Destination, Place, Group string }

// GroupDone is the newest record of a group that is known to have completed.
type GroupDone struct {
	GroupKey `json:"-"`
	Record   string `json:"record"`
	// Order grows with the place in the group.
	Order string    `json:"order"`
	At    time.Time `json:"at"`
}

// Member is one record of a job's frozen selection.
type Member struct {
	ID      string `json:"id"`
	Version int    `json:"v"`
}

// Exclusion is a record that a plan or a job leaves out, and why.
type Exclusion struct {
	ID     string        `json:"id"`
	Reason ExcludeReason `json:"reason"`
	// Detail is a sentence for the person, such as who holds the claim.
	Detail string `json:"detail,omitempty"`
	// ByRun: the plan had selected it, and the run left it out.
	ByRun bool `json:"byRun,omitempty"`
}

// ExcludeReason is why a record is not sent.
type ExcludeReason string

// The reasons.
const (
	ExcludeEffectUnknown     ExcludeReason = "effect_unknown"
	ExcludeNeedsCompensation ExcludeReason = "needs_compensation"
	ExcludeNotAuthorized     ExcludeReason = "not_authorized"
	ExcludeNeedsSecondPerson ExcludeReason = "needs_second_person"
	ExcludeExpired           ExcludeReason = "expired"
	ExcludeClosed            ExcludeReason = "closed"
	ExcludeBudgetExhausted   ExcludeReason = "budget_exhausted"
	ExcludeNotBefore         ExcludeReason = "not_before"
	ExcludeClaimed           ExcludeReason = "claimed"
	ExcludeInDoubt           ExcludeReason = "in_doubt"
	ExcludeStillRunning      ExcludeReason = "still_running"
	ExcludeHeld              ExcludeReason = "held"
	ExcludeConflict          ExcludeReason = "conflict"
	ExcludeOrderBlocked      ExcludeReason = "order_blocked"
	// ExcludeOvertaken: a newer one of its group is known to have completed.
	ExcludeOvertaken      ExcludeReason = "overtaken"
	ExcludeTargetMissing  ExcludeReason = "target_missing"
	ExcludeSourceMismatch ExcludeReason = "source_mismatch"
	ExcludeTooLarge       ExcludeReason = "too_large"
	// ExcludeFanOut: others than the failed consumer would get a copy.
	ExcludeFanOut         ExcludeReason = "fan_out"
	ExcludeMarkImpossible ExcludeReason = "mark_impossible"
	ExcludePayloadExpired ExcludeReason = "payload_expired"
	ExcludeChanged        ExcludeReason = "changed"
	// ExcludeRefused: the destination refused the message itself, for good.
	ExcludeRefused ExcludeReason = "refused"
)

// Hold is a stop sign. Empty selectors match everything; All must be set to
// stop everything.
type Hold struct {
	ID          string    `json:"id"`
	Route       string    `json:"route,omitempty"`
	Destination string    `json:"destination,omitempty"`
	Tenant      string    `json:"tenant,omitempty"`
	Signature   string    `json:"signature,omitempty"`
	Record      string    `json:"record,omitempty"`
	All         bool      `json:"all,omitempty"`
	Reason      string    `json:"reason"`
	By          Actor     `json:"by"`
	At          time.Time `json:"at"`
	Until       time.Time `json:"until,omitzero"`
}

// Stops says whether the hold stops a record from being sent to destination now.
func (h Hold) Stops(c Control, destination string, now time.Time) bool {
	if !h.Until.IsZero() && !now.Before(h.Until) {
		return false
	}
	if h.All {
		return true
	}
	named := false
	for _, s := range []struct{ want, have string }{
		{h.Route, c.Route},
		{h.Destination, destination},
		{Short(h.Tenant), c.Tenant},
		{h.Signature, c.Signature},
		{h.Record, c.ID},
	} {
		if s.want == "" {
			continue
		}
		if s.want != s.have {
			return false
		}
		named = true
	}
	return named
}

// Lease is a job's exclusive right to send to a destination, with what its
// taker-over must know. Token changes with each holder; every write under the
// lease is conditional on it (fencing).
type Lease struct {
	Destination string
	Job         string
	// Holder says who it is, for the person who is told to wait.
	Holder string
	Token  string
	Until  time.Time
	// SendDeadline is the longest a send of this holder can be under way.
	SendDeadline time.Duration
	// Batches are the open batches: journalled, not all noted.
	Batches map[string]Batch
	// NextFree is the pace's state: when the next message is due at the
	// earliest at the holder's rate (the theoretical arrival time of GCRA).
	NextFree time.Time
}

// MaxOpenBatches bounds how many batches one lease item can hold.
const MaxOpenBatches = 16

// Batch is one journalled batch: what is about to be sent.
type Batch struct {
	At      time.Time     `json:"at"`
	Members []BatchMember `json:"m"`
}

// BatchMember is one record of a batch with its redrive number.
type BatchMember struct {
	ID string `json:"id"`
	N  int    `json:"n"`
}
