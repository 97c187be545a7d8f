package ledger

import (
	"encoding/json"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// MarkAttribute is the attribute that a message carries after it was sent back.
const MarkAttribute = "agent.redrive"

// maxMark bounds a mark; ours have at most 1,024 bytes.
const maxMark = 4096

// ParseMark reads the value of the attribute agent.redrive, of SQS and of
// Pub/Sub alike. An empty value is no mark: the task's first life. An error
// means that somebody else wrote it; such a message had better be dead-lettered.
func ParseMark(value string) (*dlqbridge.Mark, error) {
	if value == "" {
		return nil, nil //nolint:nilnil // no mark and no error is the usual case
	}
	if len(value) > maxMark {
		return nil, fmt.Errorf("read %s: %w: it has %d bytes", MarkAttribute, dlqbridge.ErrInvalid, len(value))
	}
	var m dlqbridge.Mark
	if err := json.Unmarshal([]byte(value), &m); err != nil {
		return nil, fmt.Errorf("read %s: %w: it is not the JSON of a mark", MarkAttribute, dlqbridge.ErrInvalid)
	}
	if m.Record == "" || m.N < 1 {
		return nil, fmt.Errorf("read %s: %w: it names no record or no redrive number", MarkAttribute, dlqbridge.ErrInvalid)
	}
	return &m, nil
}
