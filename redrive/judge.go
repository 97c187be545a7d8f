package redrive

import (
	"context"

	"github.com/dlqbridge/dlqbridge"
)

// Judge asks the stores about records again, folds again and decides again.
// It changes nothing. Calls may be concurrent.
type Judge interface {
	// Judge answers by position. A store that cannot be asked makes the effect
	// unknown, never an error; Judgement.Err is for what makes a judgement
	// impossible, such as a record that cannot be read.
	Judge(ctx context.Context, asks []Ask) []Judgement
}

// Glancer says with few calls whether tasks completed, where the stores can be
// asked for that alone.
type Glancer interface {
	// Glance answers by position.
	Glance(ctx context.Context, asks []Ask) []Glance
}

// Glance is what a glance shows of one task.
type Glance struct {
	// Known: every store that could show a completion has answered. Without it
	// nothing follows, and the judge is asked.
	Known bool
	// Completed is who completed the task; nil is nobody so far.
	Completed *dlqbridge.Completion
}

// Ask is one record to judge, with what is about to be said about it.
type Ask struct {
	// Control is the control item as it was just read.
	Control dlqbridge.Control
	// Note is the note that an authorisation would name: its fix and approval
	// count as if they were on record. Nil judges the record as it is.
	Note *dlqbridge.Note
	// Completed is somebody's word that the work is done, which goes before all
	// that stores say; Undone: what is done is its compensation.
	Completed *dlqbridge.Completion
	Undone    bool
}

// Judgement is what the stores say about one record now, and what follows.
type Judgement struct {
	// Context holds findings, fold, RepeatSafe, the task, and who completed it.
	// Its Name is deterministic; nothing of it has been stored.
	Context dlqbridge.Context
	// Decision is what Decide says about it.
	Decision dlqbridge.Decision
	// Policy is how the record's cause is handled on its route.
	Policy dlqbridge.CausePolicy
	// Applied is Ask.Control as the judgement leaves it, before any move: facts,
	// fold, decision, and the status where the record waits.
	Applied dlqbridge.Control
	// Stands: an authorisation given on what Ask.Control shows would still be
	// given now: same action, cause, fold and fix, no conflict, nothing running.
	Stands bool
	// Arrival is the newest arrival, whose payload would be sent.
	Arrival dlqbridge.Arrival
	// First is the arrival that the record began with, which says its place in
	// its group: a letter that comes back stays where it was.
	First dlqbridge.Arrival
	// SeenRedriveN is the highest redrive number that a run in any store
	// carried, SeenRun that run: proof that this number went out.
	SeenRedriveN int
	SeenRun      string
	// Unsent is the fold as if the send that Ask.Control is claimed for had not
	// gone out: what everybody else leaves. Without a claim it is that of Context.
	Unsent dlqbridge.Folded
	// Compensates: its route names where compensations go; CompensatesAgain: it
	// says that repeating one does no harm.
	Compensates, CompensatesAgain bool
	// Approvers are the authenticated people whose approval counts, the one of
	// Ask.Note included.
	Approvers []string
	Err       error
}
