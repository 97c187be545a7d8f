package enrich

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// Bounds of stored texts, in bytes. An arrival holds about forty of them and
// must stay far below DynamoDB's 400 KB item; no honest id is longer.
const (
	maxID      = 1024 // ids; DynamoDB's own limit for a sort key
	maxText    = 1024 // error messages
	maxName    = 256  // steps, tools, codes, versions, selectors
	maxSystem  = 1024 // one provider attribute
	maxSystems = 32   // provider attributes
	maxEntries = 32   // conflicts of one letter
)

// ellipsis says that a text was cut.
const ellipsis = "…"

// cut bounds a text for people: at most limit bytes, valid UTF-8, and with an
// ellipsis where something is missing.
func cut(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= limit {
		return s
	}
	return dlqbridge.CutText(s, limit-len(ellipsis)) + ellipsis
}

// exact bounds an id: two ids that differ anywhere stay different, whatever was
// cut or replaced. Raw is how the id was written where it was found.
func exact(s, raw string, limit int) string {
	valid := strings.ToValidUTF8(s, "\uFFFD")
	if len(valid) <= limit && !strings.ContainsRune(valid, utf8.RuneError) {
		return valid
	}
	mark := "~" + dlqbridge.Fingerprint(raw)
	return dlqbridge.CutText(valid, limit-len(mark)) + mark
}

// saneTime is t in UTC, cut to the milliseconds that are stored; a time that
// cannot be written in fixed width is none.
func saneTime(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Millisecond)
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

func isFIFO(place string) bool { return strings.HasSuffix(place, ".fifo") }
