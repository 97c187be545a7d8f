package awssqs

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// Check says what SQS would refuse of a message, before anything is claimed
// or sent: dlqbridge.ErrTooLarge or ErrInvalid, with the place in the text but
// never a value. The rules are those of the pages "SendMessage" and "Amazon
// SQS message metadata" (read 2026-11-30); what a Number may be is left to the
// service, which refuses that one message of a batch. An empty DedupID passes:
// it is made with the send.
func Check(o dlqbridge.Outgoing, facts dlqbridge.DestinationFacts) error {
	limit := facts.MaxBytes
	if limit == 0 {
		limit = MaxMessageBytes
	}
	if n := o.Size(); n > limit {
		return fmt.Errorf("%w: %d bytes, %s takes at most %d", dlqbridge.ErrTooLarge, n, facts.URN, limit)
	}
	if len(o.Payload.Body) == 0 {
		return invalid("the body is empty, SQS takes no empty body")
	}
	if err := checkText("the body", o.Payload.Body); err != nil {
		return err
	}
	if err := checkAttributes(o.Payload.Attributes); err != nil {
		return err
	}
	if err := checkText("the trace header", []byte(o.TraceHeader)); err != nil {
		return err
	}
	if facts.FIFO && o.Payload.GroupKey == "" {
		return invalid("%s is a FIFO queue and needs a message group id", facts.URN)
	}
	if err := checkID("the message group id", o.Payload.GroupKey); err != nil {
		return err
	}
	if facts.FIFO {
		return checkID("the deduplication id", o.DedupID)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", dlqbridge.ErrInvalid, fmt.Errorf(format, args...))
}

// checkText refuses bytes that are no UTF-8, which the protocol would change,
// and characters that the service refuses. Positions count bytes from 0.
func checkText(what string, text []byte) error {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			return invalid("%s is not UTF-8 at byte %d (0x%02X)", what, at, text[at])
		case !allowed(r):
			return invalid("%s has a character that SQS refuses at byte %d: U+%04X", what, at, r)
		}
		at += size
	}
	return nil
}

// allowed is the set of the page "SendMessage": #x9 | #xA | #xD | #x20 to
// #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.
func allowed(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r':
		return true
	case r < 0x20, r == 0xFFFE, r == 0xFFFF:
		return false
	}
	return true
}

var (
	attributeName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	attributeType = regexp.MustCompile(`^(String|Number|Binary)(\.|$)`)
)

func checkAttributes(attributes []dlqbridge.Attribute) error {
	if n := len(attributes); n > MaxAttributes {
		return invalid("%d attributes, a message has at most %d", n, MaxAttributes)
	}
	seen := map[string]bool{}
	for _, a := range attributes {
		lower := strings.ToLower(a.Name)
		what := fmt.Sprintf("attribute %.80q", a.Name)
		switch {
		case seen[a.Name]:
			return invalid("%s is there twice", what)
		case !attributeName.MatchString(a.Name), len(a.Name) > maxNameLength,
			strings.HasPrefix(a.Name, "."), strings.HasSuffix(a.Name, "."), strings.Contains(a.Name, ".."),
			strings.HasPrefix(lower, "aws."), strings.HasPrefix(lower, "amazon."):
			return invalid("%s has a name that SQS refuses", what)
		case !attributeType.MatchString(a.Type), utf8.RuneCountInString(a.Type) > maxNameLength:
			return invalid("%s has a type that is not String, Number or Binary with a label at most", what)
		case len(a.Value) == 0:
			// Dropping it would change the message; so the person decides.
			return invalid("%s is empty, SQS takes no empty value", what)
		}
		seen[a.Name] = true
		if err := checkText("the type of "+what, []byte(a.Type)); err != nil {
			return err
		}
		if isBinary(a.Type) {
			continue
		}
		if err := checkText(what, a.Value); err != nil {
			return err
		}
	}
	return nil
}

// checkID follows the page "SendMessage": up to 128 letters, digits and
// punctuation of ASCII. Empty is none.
func checkID(what, id string) error {
	if len(id) > maxIDLength {
		return invalid("%s is longer than %d characters", what, maxIDLength)
	}
	for at, r := range id {
		if r <= 0x20 || r >= 0x7F {
			return invalid("%s has a character that SQS refuses at byte %d: U+%04X", what, at, r)
		}
	}
	return nil
}
