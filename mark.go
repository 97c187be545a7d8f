package dlqbridge

import (
	"encoding/json"
	"fmt"
)

// Bounds of a mark.
const (
	// MaxMark is the longest value that we write, in bytes: the most that a
	// Pub/Sub attribute can have ("Pub/Sub quotas and limits", read 2026-11-30).
	MaxMark = 1024
	// What is read may be longer, since somebody on the way may have written the
	// same JSON with escapes.
	maxMarkRead = 4 * MaxMark
	maxJobID    = 64
	maxRedriveN = 1_000_000
)

// ParseMark reads the value of the attribute agent.redrive, of SQS and of
// Pub/Sub alike. What we would not have written is ErrInvalid; the text never
// repeats it. Anybody can write a mark, so it is a claim until the record that
// it names is found to have that job and number. No field is ever cut: a cut
// checkpoint is another one.
func ParseMark(value []byte) (Mark, error) {
	refused := func(why string) (Mark, error) {
		return Mark{}, fmt.Errorf("read %s: %w: %s", MarkName, ErrInvalid, why)
	}
	if len(value) > maxMarkRead {
		return refused(fmt.Sprintf("it has %d bytes", len(value)))
	}
	var m Mark
	if err := json.Unmarshal(value, &m); err != nil {
		return refused("it is not the JSON of a mark")
	}
	switch {
	case !ValidRecordID(m.Record):
		return refused("it names no record")
	case m.Job == "" || len(m.Job) > maxJobID:
		return refused("it names no job")
	case m.N < 1 || m.N > maxRedriveN:
		return refused("it names no redrive number")
	case !m.Action.Sends():
		return refused("it names no action that sends")
	case len(m.Idem) > MaxMark || len(m.From) > MaxMark:
		return refused("a field is longer than we write any")
	}
	return m, nil
}
