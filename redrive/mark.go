package redrive

import (
	"encoding/json"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// deadLetterMarks is how the names of the attributes start that Pub/Sub adds to
// a dead-lettered message; they are not the producer's.
const deadLetterMarks = "CloudPubSubDeadLetterSource"

// producers is the payload without the attributes that the provider added when
// it gave the letter up, as the arrival names them.
func producers(p dlqbridge.Payload, a dlqbridge.Arrival) dlqbridge.Payload {
	for _, name := range a.Marks {
		p = p.Without(name)
	}
	return p
}

// marked returns the payload as it is sent: the producer's bytes without a
// provider's dead-letter marks, and our one mark if it has a place. A mark from
// an earlier redrive is replaced. Without a place the message goes unmarked, and
// the mark that is returned is none. On Pub/Sub the subscription it is for goes
// along, for the filters of others.
func marked(p dlqbridge.Payload, m dlqbridge.Mark, provider dlqbridge.Provider, reader string, maxAttributes int) (dlqbridge.Payload, dlqbridge.Mark, bool) {
	p = p.Without(dlqbridge.MarkName)
	if provider == dlqbridge.PubSub {
		for _, a := range p.Attributes {
			if strings.HasPrefix(a.Name, deadLetterMarks) {
				p = p.Without(a.Name)
			}
		}
		p = p.Without(dlqbridge.MarkToName)
		if to := reader[strings.LastIndexByte(reader, '/')+1:]; to != "" {
			p = p.With(dlqbridge.Attribute{Name: dlqbridge.MarkToName, Type: "String", Value: []byte(to)})
		}
	}
	if maxAttributes > 0 && len(p.Attributes) >= maxAttributes {
		return p, dlqbridge.Mark{}, false
	}
	value, m := markValue(m)
	return p.With(dlqbridge.Attribute{Name: dlqbridge.MarkName, Type: "String", Value: value}), m, true
}

// markValue writes a mark as compact JSON, and returns what it says: too long a
// one drops the key, which can be read elsewhere, then the checkpoint, without
// which a resume is not sent.
func markValue(m dlqbridge.Mark) ([]byte, dlqbridge.Mark) {
	if !sendable(m.Idem) {
		m.Idem = ""
	}
	if !sendable(m.From) {
		m.From = ""
	}
	value := encode(m)
	if len(value) > dlqbridge.MaxMark {
		m.Idem = ""
		value = encode(m)
	}
	if len(value) > dlqbridge.MaxMark {
		m.From = ""
		value = encode(m)
	}
	return value, m
}

func encode(m dlqbridge.Mark) []byte {
	value, err := json.Marshal(m)
	if err != nil { // texts and a number
		panic(err)
	}
	return value
}

// sendable says whether SQS takes the text inside an attribute: U+FFFE and
// U+FFFF are refused and JSON does not escape them (SendMessage, "valid
// characters", read 2026-11).
func sendable(s string) bool { return !strings.ContainsAny(s, "\uFFFE\uFFFF") }
