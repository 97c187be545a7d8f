package awsdynamodb

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// A position is the sort key of the last record yielded, spelled so that it
// fits into a command line: "w." before one in work order, "r." before one in
// order of ids.
const (
	positionWork = "w."
	positionID   = "r."
)

func writePosition(kind, after string) string {
	return kind + base64.RawURLEncoding.EncodeToString([]byte(after))
}

// readPosition is the way back: empty for the beginning, ErrInvalid for what
// writePosition did not write in this kind.
func readPosition(kind, position string) (string, error) {
	if position == "" {
		return "", nil
	}
	code, ok := strings.CutPrefix(position, kind)
	if !ok {
		return "", badPosition(position, "it belongs to another list")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil || len(b) == 0 || len(b) > maxSortKey || !utf8.Valid(b) || writePosition(kind, string(b)) != position {
		return "", badPosition(position, "it is no position")
	}
	after := string(b)
	if kind == positionWork && !isWorkSK(after) {
		return "", badPosition(position, "it is no position")
	}
	return after, nil
}

// maxSortKey is DynamoDB's limit for a sort key in bytes ("Quotas in Amazon
// DynamoDB", read 2026-11-30).
const maxSortKey = 1024

const keyTimeLength = len("2006-01-02T15:04:05.000Z")

// isWorkSK recognises what workSK writes.
func isWorkSK(s string) bool {
	if !strings.HasPrefix(s, "D#") && !strings.HasPrefix(s, "~#") {
		return false
	}
	at, id, ok := strings.Cut(s[2:], "#")
	return ok && len(at) == keyTimeLength && id != ""
}

func badPosition(position, why string) error {
	return fmt.Errorf("%w: position %q to list from: %s", dlqbridge.ErrInvalid, dlqbridge.CutText(position, 80), why)
}
