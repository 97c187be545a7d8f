package redrive

import (
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Grant is the move that authorises a record as judged: the fold, the decision
// and the context's name become the control item's, and the note is named.
// Context and note must be durable before it is written.
func Grant(c dlqbridge.Control, j Judgement, note dlqbridge.Note, now time.Time) dlqbridge.Step {
	panic("soon")
}

// Unsend is the move that takes back a claim whose message was surely not sent:
// the record is authorised again and its redrive number free again.
func Unsend(c dlqbridge.Control, verb dlqbridge.Verb, by, why string, now time.Time) dlqbridge.Step {
	panic("soon")
}

// Lapse is the move that takes an authorisation back.
func Lapse(c dlqbridge.Control, by, why string, now time.Time) dlqbridge.Step { panic("soon") }
