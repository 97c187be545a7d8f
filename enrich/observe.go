package enrich

import (
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// EventKind is what happened in intake.
type EventKind string

// The kinds. N is how many letters it is about.
const (
	// EventReceived: letters came from the place.
	EventReceived EventKind = "received"
	// EventRecord: a record was made (Control is set); EventArrival: a letter
	// joined an open one; EventRecurrence: it ended a redrive; EventLate: it came
	// while a redrive was under way that was not its own; EventLinked: it met a
	// closed record and made the next one.
	EventRecord     EventKind = "record"
	EventArrival    EventKind = "arrival"
	EventRecurrence EventKind = "recurrence"
	EventLate       EventKind = "late"
	EventLinked     EventKind = "linked"
	// EventDuplicate: the letter was stored before and was deleted only.
	EventDuplicate EventKind = "duplicate"
	// EventBare: a letter was stored with its bytes only.
	EventBare EventKind = "bare"
	// EventUnstored: not even that; the letter stays where it is.
	EventUnstored EventKind = "unstored"
	// EventDeleted and EventDeleteFailed: what followed for stored letters. One
	// that could not be deleted comes again and is recognised.
	EventDeleted      EventKind = "deleted"
	EventDeleteFailed EventKind = "delete_failed"
	// EventHeld: the record store refuses for now, the letters wait in hand.
	EventHeld EventKind = "held"
	// EventLost: the letters' time in hand was over before they were stored.
	EventLost EventKind = "lost"
	// EventStuck: the place gives nothing although messages are visible in it;
	// EventMoving: it gives again.
	EventStuck  EventKind = "stuck"
	EventMoving EventKind = "moving"
	// EventDepth: the place's counters were read (Depth is set).
	EventDepth EventKind = "depth"
)

// Event is one thing that happened, for metrics. It holds no payload and no
// attribute of a letter; Control is set where a record was moved.
type Event struct {
	Kind  EventKind
	Route string
	Place string
	N     int
	// Lag is how long the letter had been with the provider; zero is unknown.
	Lag     time.Duration
	Control *dlqbridge.Control
	Depth   dlqbridge.Depth
}

// Observer is told what happens in intake. Calls may be concurrent and must
// return at once.
type Observer interface{ Observe(Event) }

// nobody observes.
type nobody struct{}

func (nobody) Observe(Event) {}
