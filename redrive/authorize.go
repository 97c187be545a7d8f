package redrive

import (
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Asking is who wants a record authorised, and on what ground.
type Asking struct {
	Actor dlqbridge.Actor
	// Policy: nobody asked; policy may authorise only within its own bounds.
	Policy bool
	// Fixed: a verifiable fix is on record or comes with this request.
	Fixed bool
	// Single: a person looks at this one record, which may exceed the budget.
	Single bool
	Now    time.Time
}

// MayAuthorize says whether section 8 of the contract lets a record be
// authorised; nil is yes, otherwise it says why not. The judgement must be of
// the same control item, judged with the same fix and, if enough people have
// approved (see Approved), as approved. Needing a second person is the last
// reason that it finds: with that answer the caller may note an approval.
func MayAuthorize(c dlqbridge.Control, j Judgement, a Asking) *dlqbridge.Exclusion {
	panic("soon")
}

// NeedsSecondPerson says whether a cause is authorised by two people only.
func NeedsSecondPerson(p dlqbridge.CausePolicy) bool {
	return p.SecondPerson || p.Cause == dlqbridge.CauseCritical
}

// Approved says whether two different authenticated people stand behind a send,
// the one who asks now included. An OS user never counts.
func Approved(approvals []dlqbridge.Actor, asking dlqbridge.Actor) bool {
	people := map[string]bool{}
	for _, a := range append([]dlqbridge.Actor{asking}, approvals...) {
		if a.Authenticated && a.Name != "" {
			people[a.Name] = true
		}
	}
	return len(people) >= 2
}
