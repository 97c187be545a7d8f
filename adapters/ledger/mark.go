package ledger

import "github.com/dlqbridge/dlqbridge"

// MarkAttribute is the attribute that a message carries after it was sent back.
const MarkAttribute = dlqbridge.MarkName

// ParseMark reads the value of the attribute agent.redrive as
// dlqbridge.ParseMark does. An empty value is no mark: the task's first life. An
// error means that somebody else wrote it; such a message had better be
// dead-lettered.
func ParseMark(value string) (*dlqbridge.Mark, error) {
	if value == "" {
		return nil, nil //nolint:nilnil // no mark and no error is the usual case
	}
	m, err := dlqbridge.ParseMark([]byte(value))
	if err != nil {
		return nil, err
	}
	return &m, nil
}
