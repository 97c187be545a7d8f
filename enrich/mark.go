package enrich

import (
	"encoding/json"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// maxMark is the longest mark that we write.
const maxMark = 1024

// mark reads our own mark. Anybody can write one, so it is only a claim until
// the record that it names is found to have that job and number.
func (x *extraction) mark() *dlqbridge.Mark {
	attr, ok := x.letter.Payload.Attribute(dlqbridge.MarkName)
	if !ok {
		return nil
	}
	m, ok := ParseMark(attr.Value)
	if !ok {
		x.conflict("redrive", "attr:"+dlqbridge.MarkName, "not a mark of ours")
		return nil
	}
	return &m
}

// ParseMark reads the value of the attribute agent.redrive; ok is false for
// anything that we would not have written.
func ParseMark(value []byte) (m dlqbridge.Mark, ok bool) {
	if len(value) > maxMark || json.Unmarshal(value, &m) != nil {
		return dlqbridge.Mark{}, false
	}
	if !isRecordID(m.Record) || m.Job == "" || len(m.Job) > 64 || m.N < 1 || m.N > maxCount || !m.Action.Sends() {
		return dlqbridge.Mark{}, false
	}
	m.Idem, m.From = cut(m.Idem, maxMark), cut(m.From, maxMark)
	return m, true
}

// isRecordID says whether s has the form of a record id, so that no other text
// is ever used as a key.
func isRecordID(s string) bool {
	rest, ok := strings.CutPrefix(s, "r_")
	if !ok || len(rest) != 26 {
		return false
	}
	return strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
