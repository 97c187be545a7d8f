package dlqbridge

import "time"

// timeLayout is RFC 3339 in UTC with exactly three decimals, so that the order
// of the texts is the order of the times.
const timeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime writes t in UTC, fixed width, with milliseconds. The zero time is
// the empty string: "none" or "unknown".
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// ParseTime reads what FormatTime writes, and any other RFC 3339 time. The
// empty string is the zero time.
func ParseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UTC(), err
}
