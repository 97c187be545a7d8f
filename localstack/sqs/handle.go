package sqs

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// A receipt handle says which receive of which message in which queue it
// stands for, so nothing has to be remembered about old ones:
// queue (8 bytes), message id (16), number of the receive (4), checksum (4).
const handleBytes = 32

func (q *queue) handle(m *message) string {
	raw := make([]byte, 0, handleBytes)
	raw = binary.BigEndian.AppendUint64(raw, q.id)
	id, _ := hex.DecodeString(strings.ReplaceAll(m.id, "-", ""))
	raw = append(raw, id...)
	raw = binary.BigEndian.AppendUint32(raw, m.receipt)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
	return base64.StdEncoding.EncodeToString(raw)
}

// open reads a handle. The message is nil if it is deleted or expired;
// current says that it was not received again since.
func (q *queue) openHandle(handle string) (m *message, current bool, refused *wire.Error) {
	if handle == "" {
		return nil, false, missing("ReceiptHandle")
	}
	raw, err := base64.StdEncoding.DecodeString(handle)
	// Written back, because the decoder passes over line breaks.
	if err != nil || len(raw) != handleBytes || base64.StdEncoding.EncodeToString(raw) != handle ||
		binary.BigEndian.Uint32(raw[28:]) != crc32.ChecksumIEEE(raw[:28]) || binary.BigEndian.Uint64(raw) != q.id {
		return nil, false, refuse("ReceiptHandleIsInvalid", `The input receipt handle "%s" is not a valid receipt handle.`, handle)
	}
	id := hex.EncodeToString(raw[8:24])
	m = q.byID[id[:8]+"-"+id[8:12]+"-"+id[12:16]+"-"+id[16:20]+"-"+id[20:]]
	return m, m != nil && m.receipt == binary.BigEndian.Uint32(raw[24:]), nil
}

type deleteMessageIn struct {
	QueueUrl      string
	ReceiptHandle string
}

func (s *Service) deleteMessage(_ context.Context, in *deleteMessageIn) (*nothing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	q.tick(s, s.clock.Now())
	if refused := q.delete(in.ReceiptHandle); refused != nil {
		return nil, refused
	}
	return nil, nil //nolint:nilnil // the action has no answer
}

// delete follows the page "DeleteMessage": deleting again is fine; an old
// handle of a standard queue succeeds without deleting; an expired handle of
// a FIFO queue is refused, because the message may be with somebody else.
func (q *queue) delete(handle string) *wire.Error {
	m, current, refused := q.openHandle(handle)
	switch {
	case refused != nil:
		return refused
	case m == nil:
		return nil
	case q.fifo && (!current || m.state != inFlight):
		return badParameter(handle, "ReceiptHandle", "The receipt handle has expired.")
	case current:
		q.remove(m)
	}
	return nil
}

type changeMessageVisibilityIn struct {
	QueueUrl          string
	ReceiptHandle     string
	VisibilityTimeout *int
}

func (s *Service) changeMessageVisibility(_ context.Context, in *changeMessageVisibilityIn) (*nothing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	q.tick(s, now)
	if refused := q.changeVisibility(in.ReceiptHandle, in.VisibilityTimeout, now); refused != nil {
		return nil, refused
	}
	return nil, nil //nolint:nilnil // the action has no answer
}

func (q *queue) changeVisibility(handle string, timeout *int, now time.Time) *wire.Error {
	if timeout == nil {
		return missing("VisibilityTimeout")
	}
	if *timeout < 0 || *timeout > maxVisibility {
		return badParameter(*timeout, "VisibilityTimeout", "VisibilityTimeout must be an integer between 0 and %d.", maxVisibility)
	}
	m, current, refused := q.openHandle(handle)
	switch {
	case refused != nil:
		return refused
	case m == nil || !current:
		return badParameter(handle, "ReceiptHandle", "Message does not exist or is not available for visibility timeout change.")
	case m.state != inFlight:
		return refuse("MessageNotInflight", "The specified message isn't in flight.")
	}
	// Page "Amazon SQS visibility timeout": twelve hours in total, counted in
	// whole seconds from the receive; what is too long is refused, not cut.
	spent := int(now.Sub(m.received) / time.Second)
	if spent+*timeout > maxVisibility {
		return badParameter(*timeout, "VisibilityTimeout", "Total VisibilityTimeout for the message is beyond the limit [%d seconds].", maxVisibility)
	}
	q.touched(m)
	q.postpone(m, now.Add(time.Duration(*timeout)*time.Second))
	return nil
}
