package awssqs

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dlqbridge/dlqbridge"
)

// FuzzRoundTrip: what a send hands to the service comes back as the same
// payload, whatever the bytes are.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("body"), "name", "String.json", []byte("value"), "group", "Root=1")
	f.Add([]byte{0, 0xFF}, "", "Binary", []byte{0xFE}, "", "")
	f.Add([]byte(""), "a", "Binary.String", []byte{}, "g", "")
	f.Add([]byte("x"), "n", "Number.Binary", []byte("007"), "", "")
	f.Fuzz(func(t *testing.T, body []byte, name, typeText string, value []byte, group, trace string) {
		sent := dlqbridge.Outgoing{
			Payload: dlqbridge.Payload{
				Body: body, GroupKey: group,
				Attributes: []dlqbridge.Attribute{{Name: name, Type: typeText, Value: value}, {Name: name + "2", Type: "String", Value: []byte("x")}},
			},
			TraceHeader: trace,
		}
		e := entryOf(sent, "0", false)
		got := letterOf(types.Message{
			Body:              e.MessageBody,
			MessageAttributes: e.MessageAttributes,
			Attributes: map[string]string{
				"MessageGroupId": aws.ToString(e.MessageGroupId),
				"AWSTraceHeader": aws.ToString(e.MessageSystemAttributes["AWSTraceHeader"].StringValue),
			},
		}, "arn", 0)
		if diff := cmp.Diff(sent, dlqbridge.Outgoing{Payload: got.Payload, TraceHeader: got.TraceHeader}, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("round trip (-sent +received):\n%s", diff)
		}
		if sent.Payload.Hash() != got.Payload.Hash() {
			t.Error("the hash has changed")
		}
	})
}

// FuzzLetterOf: no answer of the service can stop the intake.
func FuzzLetterOf(f *testing.F) {
	f.Add("body", "String", "v", "2", "1732000000000")
	f.Add("", "Binary", "", "-1", "99999999999999999999")
	f.Fuzz(func(t *testing.T, body, typeText, value, count, sent string) {
		l := letterOf(types.Message{
			Body: &body,
			MessageAttributes: map[string]types.MessageAttributeValue{
				"a": {DataType: &typeText, StringValue: &value}, "b": {DataType: &typeText, BinaryValue: []byte(value)}, "c": {},
			},
			Attributes: map[string]string{"ApproximateReceiveCount": count, "SentTimestamp": sent},
		}, "arn", 1)
		if string(l.Payload.Body) != body || len(l.Payload.Attributes) != 3 {
			t.Errorf("letter %+v", l)
		}
	})
}

// FuzzReceipt: a receipt is read as it was written, and nothing else passes.
func FuzzReceipt(f *testing.F) {
	f.Add("1732000000000:AQEB:x")
	f.Add(":")
	f.Add("-1:a")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := readReceipt(text)
		if err != nil {
			return
		}
		again, err := readReceipt(r.String())
		if err != nil || again != r {
			t.Errorf("%q was read as %v, written as %q and read as %v, error %v", text, r, r, again, err)
		}
	})
}
