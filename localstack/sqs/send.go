package sqs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// letter is what a send and an entry of a batch have in common.
type letter struct {
	MessageBody             *string
	DelaySeconds            *int
	MessageAttributes       map[string]attribute
	MessageSystemAttributes map[string]attribute
	MessageDeduplicationId  *string
	MessageGroupId          *string
}

type sendMessageIn struct {
	QueueUrl string
	letter
}

type sendResult struct {
	MD5OfMessageBody             string
	MD5OfMessageAttributes       string `json:",omitempty"`
	MD5OfMessageSystemAttributes string `json:",omitempty"`
	MessageId                    string
	SequenceNumber               string `json:",omitempty"`
}

// sent is what a FIFO queue remembers of a send, to answer a repeat.
type sent struct {
	at           time.Time
	id, sequence string
}

// dedupWindow is how long a FIFO queue swallows repeats (page "Exactly-once
// processing in Amazon SQS").
const dedupWindow = 5 * time.Minute

func (s *Service) sendMessage(ctx context.Context, in *sendMessageIn) (*sendResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	q.tick(s, now)
	if refused := q.check(&in.letter); refused != nil {
		return nil, refused
	}
	return q.accept(ctx, s, &in.letter, now), nil
}

// check refuses what the service refuses of one message.
func (q *queue) check(in *letter) *wire.Error {
	if in.MessageBody == nil || *in.MessageBody == "" {
		return missing("MessageBody")
	}
	if size(*in.MessageBody, in.MessageAttributes) > q.maxSize {
		return badValue("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", q.maxSize)
	}
	if err := checkCharacters(*in.MessageBody, "message body"); err != nil {
		return err
	}
	if err := checkAttributes(in.MessageAttributes); err != nil {
		return err
	}
	for name, a := range in.MessageSystemAttributes {
		if name != "AWSTraceHeader" {
			return badValue("Message system attribute name '%s' is invalid.", name)
		}
		if a.DataType != "String" || a.StringValue == nil || *a.StringValue == "" {
			return badValue("The message system attribute 'AWSTraceHeader' must be of type String and not empty.")
		}
	}
	if in.DelaySeconds != nil && (*in.DelaySeconds < 0 || *in.DelaySeconds > 900) {
		return badParameter(*in.DelaySeconds, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")
	}
	if in.MessageGroupId != nil {
		if err := checkID(*in.MessageGroupId, "MessageGroupId"); err != nil {
			return err
		}
	}
	if q.fifo {
		return q.checkFIFO(in)
	}
	if in.MessageDeduplicationId != nil {
		return badParameter(*in.MessageDeduplicationId, "MessageDeduplicationId", "The request includes a parameter that is not valid for this queue type.")
	}
	return nil
}

func (q *queue) checkFIFO(in *letter) *wire.Error {
	if in.MessageGroupId == nil {
		return missing("MessageGroupId")
	}
	if in.DelaySeconds != nil && *in.DelaySeconds != 0 {
		// Page "SendMessage": a FIFO queue has one delay for all messages.
		return badParameter(*in.DelaySeconds, "DelaySeconds", "The request include parameter that is not valid for this queue type.")
	}
	if in.MessageDeduplicationId == nil {
		if !q.contentBase {
			return badValue("The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
		}
		return nil
	}
	return checkID(*in.MessageDeduplicationId, "MessageDeduplicationId")
}

// accept takes in a message that check let through.
func (q *queue) accept(ctx context.Context, s *Service, in *letter, now time.Time) *sendResult {
	m := &message{
		id:         newID(),
		body:       *in.MessageBody,
		bodyMD5:    md5Hex(*in.MessageBody),
		attributes: in.MessageAttributes,
		sender:     senderOf(ctx),
		sentAt:     now,
		enqueued:   now,
	}
	if trace, traced := in.MessageSystemAttributes["AWSTraceHeader"]; traced {
		m.trace = *trace.StringValue
	}
	if in.MessageGroupId != nil {
		m.group = *in.MessageGroupId
	}
	result := &sendResult{
		MD5OfMessageBody:             m.bodyMD5,
		MD5OfMessageAttributes:       attributesMD5(in.MessageAttributes),
		MD5OfMessageSystemAttributes: attributesMD5(in.MessageSystemAttributes),
		MessageId:                    m.id,
	}
	wait := q.delay
	if q.fifo {
		m.dedup = dedupOf(in)
		if first, repeated := q.repeated(m, now); repeated {
			result.MessageId, result.SequenceNumber = first.id, first.sequence
			return result
		}
		m.sequence = sequence(s.order + 1)
		result.SequenceNumber = m.sequence
		q.recent[q.dedupKey(m)] = sent{now, m.id, m.sequence}
	} else if in.DelaySeconds != nil {
		wait = *in.DelaySeconds
	}
	q.add(s, m, now.Add(time.Duration(wait)*time.Second), now)
	return result
}

func dedupOf(in *letter) string {
	if in.MessageDeduplicationId != nil {
		return *in.MessageDeduplicationId
	}
	sum := sha256.Sum256([]byte(*in.MessageBody))
	return hex.EncodeToString(sum[:])
}

func (q *queue) dedupKey(m *message) string {
	if q.scope == scopeGroup {
		return m.group + "\n" + m.dedup
	}
	return m.dedup
}

// repeated looks for an earlier send with the same deduplication id, also of
// a message that was received and deleted since.
func (q *queue) repeated(m *message, now time.Time) (sent, bool) {
	if len(q.recent) > q.sweepAt {
		for key, earlier := range q.recent {
			if !now.Before(earlier.at.Add(dedupWindow)) {
				delete(q.recent, key)
			}
		}
		q.sweepAt = max(1000, 2*len(q.recent))
	}
	earlier, seen := q.recent[q.dedupKey(m)]
	return earlier, seen && now.Before(earlier.at.Add(dedupWindow))
}

// firstSequence gives sequence numbers the twenty digits of the real ones.
var firstSequence, _ = new(big.Int).SetString("18849496460467696128", 10)

func sequence(n uint64) string {
	value := new(big.Int).SetUint64(n)
	value.Mul(value, big.NewInt(256))
	return value.Add(value, firstSequence).String()
}

// senderOf is the SenderId: the account's user of the access key.
func senderOf(ctx context.Context) string {
	if key := wire.CallerOf(ctx).AccessKey; key != "" {
		return "AIDA" + key
	}
	return "AIDALOCALCLOUD"
}

// redelay applies a FIFO queue's new delay to the messages that wait already
// (page "Amazon SQS delay queues": retroactive for FIFO queues).
func (q *queue) redelay() {
	for _, m := range q.byID {
		if m.state == delayed {
			q.postpone(m, m.enqueued.Add(time.Duration(q.delay)*time.Second))
		}
	}
}
