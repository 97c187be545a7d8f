package adaptertest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dlqbridge/dlqbridge"
)

// odd is a message that something on the way may change. Bodies differ.
type odd struct {
	name string
	out  dlqbridge.Outgoing
	// refusals are the differences, by reason, for which it is refused.
	refusals []string
}

// refused is the reason for which the provider takes no such message.
func (o odd) refused() string {
	for _, reason := range o.refusals {
		if reason != "" {
			return reason
		}
	}
	return ""
}

func attribute(name, typeText, value string) dlqbridge.Attribute {
	return dlqbridge.Attribute{Name: name, Type: typeText, Value: []byte(value)}
}

func message(body string, attributes ...dlqbridge.Attribute) dlqbridge.Outgoing {
	o := dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: []byte(body), Attributes: attributes}}
	o.Payload.Normalize()
	return o
}

// numbered makes n plain messages that can be told apart.
func numbered(n int) []dlqbridge.Outgoing {
	out := make([]dlqbridge.Outgoing, n)
	for i := range out {
		out[i] = message(fmt.Sprintf("message %03d", i))
	}
	return out
}

func oddMessages(d Differences) []odd {
	text := []string{d.TextOnly}
	values := []string{d.TextOnly, d.TextValues}
	types := []string{d.OneType}
	return []odd{
		{"plain", message("plain"), nil},
		{"white space", message(" \t\r\n white space \n\n"), nil},
		{"markup and escapes", message(`{"a":"\u0000 <&> \" \\ %20 +"}`), nil},
		{"beyond ASCII", message("日本語 é e\u0301 \U0001F600 \u2028 \u0085"), nil},
		{"looks like base64", message("bG9va3MgbGlrZSBiYXNlNjQ="), nil},
		{"looks like an envelope", message(`{"Type":"Notification","Message":"inner","TopicArn":"x"}`), nil},
		{"large", message("large" + strings.Repeat("0123456789", 6000)), nil},
		{"names", message("names", attribute("a", "String", "1"), attribute("A", "String", "2"),
			attribute("UPPER.lower-case_9", "String", "3"), attribute(strings.Repeat("n", 200), "String", "4"),
			attribute("agent.ctx", "String", `{"v":1}`)), nil},
		{"values", message("values", attribute("space", "String", "  x  "), attribute("lines", "String", "a\r\n\tb"),
			attribute("beyond", "String", "日本語 \U0001F600"), attribute("percent", "String", "%2F+__0x2e__&=")), nil},
		{"types", message("types", attribute("label", "String.json", "{}"), attribute("number", "Number", "1.50"),
			attribute("long", "Number.java.lang.Long", "7"), attribute("binary", "Binary", "\x00\x01\xff\xfe"),
			attribute("proto", "Binary.proto", "\x0a\x00")), types},
		{"an empty value", message("an empty value", attribute("empty", "String", "")), []string{d.NoEmptyValue}},
		{"an empty body", message("", attribute("the", "String", "only content")), []string{d.NoEmptyBody}},
		{"not UTF-8", message("\xff\xfe not UTF-8 \xc3\x28 \xed\xa0\x80"), text},
		{"control characters", message("\x00\x01 control characters \x1f\x7f"), text},
		{"a value that is not UTF-8", message("a value that is not UTF-8", attribute("bad", "String", "\xc3\x28")), values},
	}
}

// carried are the odd messages that the provider can carry.
func carried(d Differences) []dlqbridge.Outgoing {
	var out []dlqbridge.Outgoing
	for _, o := range oddMessages(d) {
		if o.refused() == "" {
			out = append(out, o.out)
		}
	}
	return out
}

// shown is a message as a difference is shown: what is long as its beginning
// and its hash, so that comparing is quick and output can be read.
type shown struct {
	Body, GroupKey, TraceHeader string
	Attributes                  []string
}

const shownBytes = 200

func show(value []byte) string {
	if len(value) <= shownBytes {
		return string(value)
	}
	return fmt.Sprintf("%s… (%d bytes, SHA-256 %x)", value[:shownBytes], len(value), sha256.Sum256(value))
}

// sameMessages compares without regard to the messages' order and to that of
// their attributes; deduplication ids do not arrive.
func sameMessages(t testing.TB, what string, got, want []dlqbridge.Outgoing) {
	t.Helper()
	if diff := cmp.Diff(showAll(want), showAll(got), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func showAll(messages []dlqbridge.Outgoing) []shown {
	var out []shown
	for _, m := range messages {
		s := shown{Body: show(m.Payload.Body), GroupKey: m.Payload.GroupKey, TraceHeader: m.TraceHeader}
		for _, a := range m.Payload.Attributes {
			s.Attributes = append(s.Attributes, a.Name+" "+a.Type+" "+show(a.Value))
		}
		slices.Sort(s.Attributes)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b shown) int { return strings.Compare(a.Body, b.Body) })
	return out
}

// bodies are the messages' bodies in their order.
func bodies(messages []dlqbridge.Outgoing) []string {
	out := make([]string, len(messages))
	for i, m := range messages {
		out[i] = string(m.Payload.Body)
	}
	return out
}

// messagesOf is what letters carry.
func messagesOf(letters []dlqbridge.Letter) []dlqbridge.Outgoing {
	out := make([]dlqbridge.Outgoing, len(letters))
	for i, l := range letters {
		out[i] = dlqbridge.Outgoing{Payload: l.Payload, TraceHeader: l.TraceHeader}
	}
	return out
}
