package awssqs_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
)

var (
	standard = dlqbridge.DestinationFacts{URN: "arn:aws:sqs:r:1:jobs", MaxBytes: 4096}
	fifo     = dlqbridge.DestinationFacts{URN: "arn:aws:sqs:r:1:jobs.fifo", FIFO: true, MaxBytes: 4096}
)

// C16: the set of characters, at its borders. What passes is also put to the
// local cloud, which is strict on its own account.
func TestC16Characters(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "jobs")
	passes := []rune{'\t', '\n', '\r', ' ', 0x7F, 0x9F, 0xD7FF, 0xE000, 0xFFFD, 0x10000, 0x1FFFE, 0x10FFFF}
	refused := []rune{0, 7, 8, 0xB, 0xC, 0xE, 0x1F, 0xFFFE, 0xFFFF}
	for _, r := range slices.Concat(passes, refused) {
		o := dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: []byte("é" + string(r) + "x")}}
		err := awssqs.Check(o, standard)
		if slices.Contains(passes, r) {
			if err != nil {
				t.Errorf("U+%04X: %v", r, err)
			}
			wantErrors(t, errorsOf(b.destination(t, arn).Send(t.Context(), []dlqbridge.Outgoing{o})), nil)
			continue
		}
		if want := fmt.Sprintf("byte 2: U+%04X", r); !errors.Is(err, dlqbridge.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("U+%04X: %v, want it to say %q", r, err, want)
		}
	}
	for _, body := range []string{"\xFF", "ab\xC3", "\xED\xA0\x80"} { // the last is a lone surrogate
		if err := awssqs.Check(dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: []byte(body)}}, standard); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("body %q: %v", body, err)
		}
	}
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("a", 128)
	attributes := func(n int) []dlqbridge.Attribute {
		var out []dlqbridge.Attribute
		for i := range n {
			out = append(out, dlqbridge.Attribute{Name: fmt.Sprintf("a%d", i), Type: "String", Value: []byte("v")})
		}
		return out
	}
	one := func(name, typeText, value string) []dlqbridge.Attribute {
		return []dlqbridge.Attribute{{Name: name, Type: typeText, Value: []byte(value)}}
	}
	invalid, tooLarge := dlqbridge.ErrInvalid, dlqbridge.ErrTooLarge
	for _, row := range []struct {
		name  string
		facts dlqbridge.DestinationFacts
		set   func(*dlqbridge.Outgoing)
		want  error
	}{
		{"plain", standard, func(*dlqbridge.Outgoing) {}, nil},
		{"no body", standard, func(o *dlqbridge.Outgoing) { o.Payload.Body = nil }, invalid},
		{"body of the limit", standard, func(o *dlqbridge.Outgoing) { o.Payload.Body = bytes.Repeat([]byte("x"), 4096) }, nil},
		{"one byte more", standard, func(o *dlqbridge.Outgoing) { o.Payload.Body = bytes.Repeat([]byte("x"), 4097) }, tooLarge},
		{"attributes count", standard, func(o *dlqbridge.Outgoing) {
			o.Payload.Body = bytes.Repeat([]byte("x"), 4096-8)
			o.Payload.Attributes = one("n", "String", "vv")
		}, tooLarge},
		{"limit not known", dlqbridge.DestinationFacts{}, func(o *dlqbridge.Outgoing) { o.Payload.Body = bytes.Repeat([]byte("x"), 1<<20) }, nil},
		{"limit not known, over any", dlqbridge.DestinationFacts{}, func(o *dlqbridge.Outgoing) { o.Payload.Body = bytes.Repeat([]byte("x"), 1<<20+1) }, tooLarge},
		{"ten attributes", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = attributes(10) }, nil},
		{"eleven", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = attributes(11) }, invalid},
		{"empty value", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("tenant", "String", "") }, invalid},
		{"empty bytes", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("tenant", "Binary", "") }, invalid},
		{"any bytes in Binary", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("b", "Binary.x", "\x00\xFF") }, nil},
		{"control character in a value", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("s", "String", "a\x01") }, invalid},
		{"control character in a label", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("s", "String.\x01", "a") }, invalid},
		{"label", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("s", "Number.java.lang.Long", "1") }, nil},
		{"unknown type", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("s", "Strings", "1") }, invalid},
		{"no type", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("s", "", "1") }, invalid},
		{"no name", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("", "String", "1") }, invalid},
		{"reserved name", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("aWs.x", "String", "1") }, invalid},
		{"name with a slash", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("a/b", "String", "1") }, invalid},
		{"name with two periods", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one("a..b", "String", "1") }, invalid},
		{"our own mark", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one(dlqbridge.MarkName, "String", "{}") }, nil},
		{"long name", standard, func(o *dlqbridge.Outgoing) { o.Payload.Attributes = one(long+long+"a", "String", "1") }, invalid},
		{"same name twice", standard, func(o *dlqbridge.Outgoing) {
			o.Payload.Attributes = append(one("a", "String", "1"), one("a", "String", "2")...)
		}, invalid},
		{"no group on FIFO", fifo, func(*dlqbridge.Outgoing) {}, invalid},
		{"group on FIFO, id still to come", fifo, func(o *dlqbridge.Outgoing) { o.Payload.GroupKey = "g" }, nil},
		{"group on standard", standard, func(o *dlqbridge.Outgoing) { o.Payload.GroupKey = long }, nil},
		{"group too long", standard, func(o *dlqbridge.Outgoing) { o.Payload.GroupKey = long + "a" }, invalid},
		{"group with a space", fifo, func(o *dlqbridge.Outgoing) { o.Payload.GroupKey = "a b" }, invalid},
		{"deduplication id with a space", fifo, func(o *dlqbridge.Outgoing) { o.Payload.GroupKey, o.DedupID = "g", "a b" }, invalid},
		{"deduplication id that is not sent", standard, func(o *dlqbridge.Outgoing) { o.DedupID = "a b" }, nil},
		{"trace header", standard, func(o *dlqbridge.Outgoing) { o.TraceHeader = "Root=1\x00" }, invalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: []byte("x")}}
			row.set(&o)
			err := awssqs.Check(o, row.facts)
			if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
				t.Errorf("got %v, want %v", err, row.want)
			}
		})
	}
}
