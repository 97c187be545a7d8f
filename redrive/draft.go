package redrive

import (
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Draft is the message that a record would go out as with a payload: with a
// mark as long as the real one will be. It is for measuring and is never sent.
func Draft(c dlqbridge.Control, p dlqbridge.Payload, trace, idempotencyKey string, facts dlqbridge.DestinationFacts) dlqbridge.Outgoing {
	m := dlqbridge.Mark{Record: c.ID, Job: "j_" + strings.Repeat("a", len(dlqbridge.NewToken())), N: c.Redrives + 1, Action: dlqbridge.ActionRepair, Idem: idempotencyKey}
	out := dlqbridge.Outgoing{TraceHeader: trace}
	out.Payload, _, _ = marked(p, m, c.Provider, c.Source, facts.MaxAttributes)
	if facts.FIFO {
		out.DedupID = c.ID + "." + strings.Repeat("9", 4)
	}
	return out
}
