package awsdynamodb

import (
	"time"

	"github.com/dlqbridge/dlqbridge"
)

const (
	// letterLife is how long after its send a message can still come back as a
	// letter: 14 days in the source and 14 in the dead-letter queue (the most
	// that SQS keeps a message: "Amazon SQS quotas", read 2026-11-30), and two
	// for observation and clocks.
	letterLife = 30 * 24 * time.Hour
	// childrenFirst is how much earlier the other items of a closed record
	// expire than its control item, so that no reader finds a record's
	// evidence without the record.
	childrenFirst = 24 * time.Hour
)

// controlExpiry is when a closed record's control item may go: never while a
// letter of it can still arrive, which would open it as new (I7).
func (s *Store) controlExpiry(c dlqbridge.Control) time.Time {
	return closedAt(c).Add(max(s.recordRetention, letterLife) + childrenFirst)
}
