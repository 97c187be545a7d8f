package dlqbridge

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// MarkName is the one attribute we add to what we send.
const MarkName = "agent.redrive"

// MarkToName goes along with the mark on Pub/Sub: the short name of the
// subscription that the message is meant for, so that the filters of
// subscriptions can tell it apart.
const MarkToName = "agent.redrive.to"

// CompensationKind is the kind of a compensation message, in its body: by it one
// that comes back is known also where somebody has stripped its attributes.
const CompensationKind = "dlqbridge.compensation"

// Attribute is one user attribute, kept as the provider handed it over.
type Attribute struct {
	Name string
	// Type is the provider's full type text with any label: "String.json",
	// "Number", "Binary.protobuf"; Pub/Sub attributes are "String".
	Type  string
	Value []byte
}

// Payload is the exact snapshot of a letter: what goes back byte for byte.
type Payload struct {
	Body []byte
	// Attributes are the user's, sorted by name (see Normalize).
	Attributes []Attribute
	// GroupKey is SQS's message group id or Pub/Sub's ordering key.
	GroupKey string
}

// Attribute returns the attribute of that name.
func (p Payload) Attribute(name string) (Attribute, bool) {
	for _, a := range p.Attributes {
		if a.Name == name {
			return a, true
		}
	}
	return Attribute{}, false
}

// Without returns the payload without the attribute of that name; the receiver
// is not changed. Where there is none, that is the receiver itself.
func (p Payload) Without(name string) Payload {
	if _, has := p.Attribute(name); has {
		p.Attributes = slices.DeleteFunc(slices.Clone(p.Attributes), func(a Attribute) bool { return a.Name == name })
	}
	return p
}

// With returns the payload with one more attribute, replacing one of the same name.
func (p Payload) With(a Attribute) Payload {
	p = p.Without(a.Name)
	p.Attributes = append(slices.Clip(p.Attributes), a) // Clip: the receiver's may be the same
	p.Normalize()
	return p
}

// Normalize sorts the attributes by name, so that equal payloads encode equally.
func (p *Payload) Normalize() {
	slices.SortFunc(p.Attributes, func(a, b Attribute) int { return cmp.Compare(a.Name, b.Name) })
}

// Size is what the payload counts towards a provider's size limits, in bytes.
func (p Payload) Size() int {
	n := len(p.Body)
	for _, a := range p.Attributes {
		n += len(a.Name) + len(a.Type) + len(a.Value)
	}
	return n
}

// Hash is the hex SHA-256 of what the producer sent: body, user attributes and
// group key, without our own mark, so that a letter that comes back after a
// redrive hashes like the one that was sent.
func (p Payload) Hash() string {
	sum := sha256.Sum256(p.Without(MarkName).Without(MarkToName).Encode())
	return hex.EncodeToString(sum[:])
}

// payloadMagic opens every encoded payload; the digit is the format's version.
const payloadMagic = "dlqp1"

// Encode writes the payload as one byte string: the magic, then each field
// with its length before it (unsigned varint), so that any bytes survive and
// no two payloads encode alike. DecodePayload reads it back.
func (p Payload) Encode() []byte {
	out := make([]byte, 0, len(payloadMagic)+p.Size()+len(p.GroupKey)+16+12*len(p.Attributes))
	out = append(out, payloadMagic...)
	out = appendField(out, []byte(p.GroupKey))
	out = binary.AppendUvarint(out, uint64(len(p.Attributes)))
	for _, a := range p.Attributes {
		out = appendField(out, []byte(a.Name))
		out = appendField(out, []byte(a.Type))
		out = appendField(out, a.Value)
	}
	return appendField(out, p.Body)
}

func appendField(out, field []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(field)))
	return append(out, field...)
}

// errPayload is any encoding that Encode did not write.
var errPayload = errors.New("not an encoded payload")

// DecodePayload reads what Encode wrote. It refuses anything else, trailing
// bytes included.
func DecodePayload(b []byte) (Payload, error) {
	rest, ok := bytes.CutPrefix(b, []byte(payloadMagic))
	if !ok {
		return Payload{}, fmt.Errorf("%w: wrong first bytes", errPayload)
	}
	r := fieldReader{rest: rest}
	p := Payload{GroupKey: string(r.field())}
	n := r.number()
	if n > uint64(len(rest)) { // each attribute takes at least three bytes
		return Payload{}, fmt.Errorf("%w: %d attributes", errPayload, n)
	}
	for range n {
		p.Attributes = append(p.Attributes, Attribute{Name: string(r.field()), Type: string(r.field()), Value: r.field()})
		if r.bad {
			break
		}
	}
	p.Body = r.field()
	if r.bad || len(r.rest) > 0 {
		return Payload{}, fmt.Errorf("%w: cut short or with bytes left over", errPayload)
	}
	return p, nil
}

// fieldReader reads length-prefixed fields; after the first fault it returns nothing.
type fieldReader struct {
	rest []byte
	bad  bool
}

func (r *fieldReader) number() uint64 {
	n, used := binary.Uvarint(r.rest)
	// A number written longer than needed is refused: one payload, one encoding.
	if used <= 0 || used != len(binary.AppendUvarint(nil, n)) {
		r.bad = true
		r.rest = nil
		return 0
	}
	r.rest = r.rest[used:]
	return n
}

func (r *fieldReader) field() []byte {
	n := r.number()
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		r.rest = nil
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}
