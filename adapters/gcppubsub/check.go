package gcppubsub

import (
	"fmt"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge"
)

// Check says what Pub/Sub would refuse of a message, before anything is
// claimed or sent: dlqbridge.ErrTooLarge or ErrInvalid, with the place in the
// text but never a value. What Send leaves out (attributes of the service) is
// left out here too. The rules are those of the page "Pub/Sub quotas and
// limits" and of the proto, PubsubMessage (read 2026-11-30).
func Check(o dlqbridge.Outgoing, facts dlqbridge.DestinationFacts) error {
	limit := facts.MaxBytes
	if limit == 0 {
		limit = MaxMessageBytes
	}
	attributes := userAttributes(o.Payload)
	size := dlqbridge.Payload{Body: o.Payload.Body, Attributes: attributes}.Size()
	switch {
	case size > limit:
		return fmt.Errorf("%w: %d bytes, %s takes at most %d", dlqbridge.ErrTooLarge, size, facts.URN, limit)
	case len(o.Payload.Body) == 0 && len(attributes) == 0:
		return invalid("the message has neither data nor attributes")
	case len(o.Payload.GroupKey) > MaxKeyBytes:
		return invalid("the ordering key has %d bytes, at most %d are taken", len(o.Payload.GroupKey), MaxKeyBytes)
	case !utf8.ValidString(o.Payload.GroupKey):
		return invalid("the ordering key is not UTF-8")
	}
	return checkAttributes(attributes)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", dlqbridge.ErrInvalid, fmt.Errorf(format, args...))
}

func checkAttributes(attributes []dlqbridge.Attribute) error {
	if n := len(attributes); n > MaxAttributes {
		return invalid("%d attributes, a message has at most %d", n, MaxAttributes)
	}
	seen := map[string]bool{}
	for _, a := range attributes {
		what := fmt.Sprintf("attribute %.80q", a.Name)
		switch {
		case seen[a.Name]:
			return invalid("%s is there twice", what)
		case a.Name == "":
			return invalid("an attribute has no name")
		case len(a.Name) > MaxNameBytes:
			return invalid("%s has a name of %d bytes, at most %d are taken", what, len(a.Name), MaxNameBytes)
		case len(a.Value) > MaxValueBytes:
			return invalid("%s has %d bytes, at most %d are taken", what, len(a.Value), MaxValueBytes)
		// The protocol's texts are UTF-8; the client would refuse the whole
		// request.
		case !utf8.ValidString(a.Name):
			return invalid("%s has a name that is not UTF-8", what)
		case !utf8.Valid(a.Value):
			return invalid("%s is not UTF-8", what)
		case a.Type != typeString:
			return invalid("%s is no text: an attribute here cannot be anything else", what)
		}
		seen[a.Name] = true
	}
	return nil
}
