package awssqs

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
)

// typeString is the type of the trace header, the one system attribute that a
// sender may set.
const typeString = "String"

// isBinary says whether an attribute's value travels as bytes. Only the first
// word of the type decides; a label after the dot ("Binary.protobuf") is the
// sender's own.
func isBinary(typeText string) bool {
	kind, _, _ := strings.Cut(typeText, ".")
	return kind == "Binary"
}

// letterOf maps a received message. It never fails: whatever the service hands
// over becomes a letter, and what it does not say stays unknown.
func letterOf(m types.Message, place string, retention time.Duration) dlqbridge.Letter {
	l := dlqbridge.Letter{
		Provider:    dlqbridge.SQS,
		Place:       place,
		Source:      m.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)],
		MessageID:   aws.ToString(m.MessageId),
		Payload:     payloadOf(m),
		TraceHeader: m.Attributes[string(types.MessageSystemAttributeNameAWSTraceHeader)],
		System:      m.Attributes,
	}
	if n, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)]); err == nil {
		l.Deliveries = &n
	}
	if ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
		l.SentAt = time.UnixMilli(ms).UTC()
	}
	// On a standard queue the move kept the time of the first send, on a FIFO
	// queue it set a new one; the queue's retention counts from it in both
	// ("Amazon SQS Developer Guide", page "Dead-letter queue retention", read
	// 2026-11-30). Worked: sent 6 d 23 h ago, retention 7 d: lost in an hour.
	if !l.SentAt.IsZero() && retention > 0 {
		l.LostAt = l.SentAt.Add(retention)
	}
	return l
}

func payloadOf(m types.Message) dlqbridge.Payload {
	p := dlqbridge.Payload{
		Body:     []byte(aws.ToString(m.Body)),
		GroupKey: m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
	}
	for name, a := range m.MessageAttributes {
		kept := dlqbridge.Attribute{Name: name, Type: aws.ToString(a.DataType)}
		if isBinary(kept.Type) {
			kept.Value = a.BinaryValue
		} else {
			kept.Value = []byte(aws.ToString(a.StringValue))
		}
		p.Attributes = append(p.Attributes, kept)
	}
	p.Normalize()
	return p
}

// entryOf maps a message to send. Fields that hold nothing are left out: the
// service refuses an empty map, an empty value and an empty list.
func entryOf(o dlqbridge.Outgoing, id string, fifo bool) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{
		Id:                &id,
		MessageBody:       aws.String(string(o.Payload.Body)),
		MessageAttributes: attributesOf(o.Payload),
	}
	if o.TraceHeader != "" {
		e.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			string(types.MessageSystemAttributeNameForSendsAWSTraceHeader): {
				DataType: aws.String(typeString), StringValue: aws.String(o.TraceHeader),
			},
		}
	}
	if o.Payload.GroupKey != "" {
		e.MessageGroupId = aws.String(o.Payload.GroupKey)
	}
	// A standard queue refuses a deduplication id.
	if fifo {
		e.MessageDeduplicationId = aws.String(o.DedupID)
	}
	return e
}

func attributesOf(p dlqbridge.Payload) map[string]types.MessageAttributeValue {
	if len(p.Attributes) == 0 {
		return nil
	}
	out := make(map[string]types.MessageAttributeValue, len(p.Attributes))
	for _, a := range p.Attributes {
		v := types.MessageAttributeValue{DataType: aws.String(a.Type)}
		if isBinary(a.Type) {
			v.BinaryValue = a.Value
		} else {
			v.StringValue = aws.String(string(a.Value))
		}
		out[a.Name] = v
	}
	return out
}
