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

// Ask is one record to judge and what to take for granted about it.
type Ask struct {
	// Control is the control item as it was just read.
	Control dlqbridge.Control
	// Fixed: decide as if a verifiable fix were on record.
	Fixed bool
	// Approved: decide as if the approvals that the cause needs were there.
	Approved bool
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
	// Arrival is the newest arrival's facts, whose payload would be sent.
	Arrival dlqbridge.Arrival
	// SeenRedriveN is the highest redrive number that a run in any store
	// carried, SeenRun that run: proof that this number went out.
	SeenRedriveN int
	SeenRun      string
	// Approvals are the approvals on record that still count: those of notes
	// that history names and that are newer than the newest arrival. They may
	// be left out for causes that need no second person.
	Approvals []dlqbridge.Actor
	Err       error
}
