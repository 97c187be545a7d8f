package sqs

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

type receiveMessageIn struct {
	QueueUrl                    string
	AttributeNames              []string // the older spelling of the next
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
	ReceiveRequestAttemptId     string
}

type receiveMessageOut struct {
	Messages []receivedMessage `json:",omitempty"`
}

type receivedMessage struct {
	MessageId              string
	ReceiptHandle          string
	MD5OfBody              string
	Body                   string
	Attributes             map[string]string    `json:",omitempty"`
	MD5OfMessageAttributes string               `json:",omitempty"`
	MessageAttributes      map[string]attribute `json:",omitempty"`
}

// attempt is what a FIFO queue remembers of a receive, to answer a repeat
// with the same ReceiveRequestAttemptId (page "ReceiveMessage").
type attempt struct {
	at       time.Time
	messages []*message
	receipts []uint32
	broken   bool // one of the messages was changed since
}

// wish is a receive request after its checks.
type wish struct {
	most       int
	visibility *int
	wait       *int
	attempt    string
}

func (in *receiveMessageIn) check() (wish, error) {
	w := wish{most: 1, visibility: in.VisibilityTimeout, wait: in.WaitTimeSeconds, attempt: in.ReceiveRequestAttemptId}
	if in.MaxNumberOfMessages != nil {
		w.most = *in.MaxNumberOfMessages
	}
	if w.most < 1 || w.most > maxEntries {
		return w, badParameter(w.most, "MaxNumberOfMessages", "Must be between 1 and 10, if provided.")
	}
	if w.visibility != nil && (*w.visibility < 0 || *w.visibility > maxVisibility) {
		return w, badParameter(*w.visibility, "VisibilityTimeout", "Must be between 0 and %d, if provided.", maxVisibility)
	}
	if w.wait != nil && (*w.wait < 0 || *w.wait > 20) {
		return w, badParameter(*w.wait, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
	}
	for _, name := range slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames) {
		if !systemAttributes[name] {
			return w, refuse("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	return w, nil
}

// systemAttributes are the names one may ask for (page "ReceiveMessage").
var systemAttributes = map[string]bool{
	"All": true, "SenderId": true, "SentTimestamp": true, "ApproximateReceiveCount": true,
	"ApproximateFirstReceiveTimestamp": true, "SequenceNumber": true, "MessageDeduplicationId": true,
	"MessageGroupId": true, "AWSTraceHeader": true, "DeadLetterQueueSourceArn": true,
}

// receiveMessage waits until there is something to give, the wait is over or
// the client is gone.
func (s *Service) receiveMessage(ctx context.Context, in *receiveMessageIn) (*receiveMessageOut, error) {
	w, err := in.check()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if w.attempt != "" {
		if !q.fifo {
			return nil, badParameter(w.attempt, "ReceiveRequestAttemptId", "The request includes a parameter that is not valid for this queue type.")
		}
		if err := checkID(w.attempt, "ReceiveRequestAttemptId"); err != nil {
			return nil, err
		}
	}
	wait := q.wait
	if w.wait != nil {
		wait = *w.wait
	}
	deadline := s.clock.Now().Add(time.Duration(wait) * time.Second)
	for {
		// The client may be gone when the lock or the wait is over; it must
		// not take messages with it.
		if ctx.Err() != nil {
			return &receiveMessageOut{}, nil
		}
		if q.removed {
			return nil, noSuchQueue()
		}
		now := s.clock.Now()
		q.tick(s, now)
		taken, err := s.collect(q, w, now)
		if err != nil {
			return nil, err
		}
		if len(taken) > 0 || !now.Before(deadline) {
			return q.answer(taken, in), nil
		}
		until := deadline
		if due, waits := q.dues.earliest(); waits && due.Before(until) {
			until = due
		}
		if due, runs := s.nextMove(); runs && due.Before(until) {
			until = due
		}
		wake := q.wake
		q.waiters++
		s.mu.Unlock()
		// Whatever ends the wait, the next turn looks for itself.
		_ = s.clock.Wait(ctx, until, wake)
		s.mu.Lock()
		q.waiters--
	}
}

// collect receives up to w.most messages. Messages that were received too
// often move to the dead-letter queue on the way, and the call looks past them.
func (s *Service) collect(q *queue, w wish, now time.Time) ([]*message, error) {
	if w.attempt != "" {
		if again, ok := q.repeatAttempt(w, now); ok {
			return again, nil
		}
	}
	if q.counts[inFlight] >= s.inFlightLimit {
		if q.fifo {
			return nil, nil // page "Amazon SQS FIFO queue quotas": no error, no messages
		}
		return nil, refuse("OverLimit", "The maximum number of in flight messages is reached: %d.", s.inFlightLimit)
	}
	until := now.Add(q.hide(w))
	var taken []*message
	for len(taken) < w.most && len(q.open) > 0 && q.counts[inFlight] < s.inFlightLimit {
		l := q.open[0]
		// A FIFO queue gives as much of one group as it can, in order; of a
		// standard queue each lane gives one and is ordered anew.
		for at := 0; at < len(l.messages) && len(taken) < w.most && q.counts[inFlight] < s.inFlightLimit; {
			m := l.messages[at]
			if m.state != ready {
				break
			}
			if target := s.exhausted(q, m); target != nil {
				s.moveToDeadLetters(q, target, m, now)
				if len(l.messages) == 0 {
					break
				}
				continue
			}
			q.receive(m, until, now)
			taken = append(taken, m)
			if !q.fifo {
				break
			}
			at++
		}
		q.settle(l)
	}
	if w.attempt != "" && len(taken) > 0 {
		q.remember(w.attempt, taken, now)
	}
	return taken, nil
}

func (q *queue) hide(w wish) time.Duration {
	seconds := q.visibility
	if w.visibility != nil {
		seconds = *w.visibility
	}
	return time.Duration(seconds) * time.Second
}

func (q *queue) receive(m *message, until, now time.Time) {
	q.takeOut(m, until)
	m.receives++
	m.receivesHere++
	m.receipt++
	m.received = now
	if m.firstReceive.IsZero() {
		m.firstReceive = now
	}
}

// exhausted returns the dead-letter queue if m has had its receives, nil if
// it may be received once more. Without the queue that the policy names, a
// message stays where it is and is received on.
func (s *Service) exhausted(q *queue, m *message) *queue {
	if q.redrive == nil || m.receivesHere < q.redrive.max {
		return nil
	}
	return s.byARN(q.redrive.target)
}

// moveToDeadLetters keeps body, attributes, message id, receive count and, on
// standard queues, the time of the first send, from which the dead-letter
// queue's retention counts. On FIFO queues the time starts anew and the
// deduplication id becomes the message id (pages "Configure a dead-letter
// queue" and "Dead-letter queue retention").
func (s *Service) moveToDeadLetters(from, to *queue, m *message, now time.Time) {
	from.remove(m)
	copied := *m
	moved := &copied
	moved.sourceARN = from.arn()
	moved.receivesHere = 0
	to.expire(s, now)
	if to.fifo {
		moved.sentAt, moved.enqueued = now, now
		moved.dedup = moved.id
		moved.sequence = sequence(s.order + 1)
		to.recent[to.dedupKey(moved)] = sent{now, moved.id, moved.sequence}
	}
	to.add(s, moved, now, now)
}

// attemptWindow is how long a receive may be repeated (page "ReceiveMessage").
const attemptWindow = 5 * time.Minute

func (q *queue) remember(id string, taken []*message, now time.Time) {
	for old, a := range q.attempts {
		if !now.Before(a.at.Add(attemptWindow)) {
			delete(q.attempts, old)
		}
	}
	a := attempt{at: now, messages: taken}
	for _, m := range taken {
		a.receipts = append(a.receipts, m.receipt)
	}
	q.attempts[id] = a
}

// repeatAttempt gives the same messages and handles again and hides them
// anew, if none of them was touched since.
func (q *queue) repeatAttempt(w wish, now time.Time) ([]*message, bool) {
	a, known := q.attempts[w.attempt]
	if !known || a.broken || !now.Before(a.at.Add(attemptWindow)) {
		return nil, false
	}
	for i, m := range a.messages {
		if m.state != inFlight || m.receipt != a.receipts[i] {
			return nil, false
		}
	}
	for _, m := range a.messages {
		q.postpone(m, now.Add(q.hide(w)))
	}
	return a.messages, true
}

// touched breaks the receive attempts that gave m.
func (q *queue) touched(m *message) {
	for id, a := range q.attempts {
		if slices.Contains(a.messages, m) {
			a.broken = true
			q.attempts[id] = a
		}
	}
}

func (q *queue) answer(taken []*message, in *receiveMessageIn) *receiveMessageOut {
	out := &receiveMessageOut{}
	wanted := slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames)
	for _, m := range taken {
		attributes := pick(m.attributes, in.MessageAttributeNames)
		out.Messages = append(out.Messages, receivedMessage{
			MessageId:         m.id,
			ReceiptHandle:     q.handle(m),
			MD5OfBody:         m.bodyMD5,
			Body:              m.body,
			Attributes:        m.system(wanted),
			MessageAttributes: attributes,
			// Of the attributes in the answer: the receiver checks what it got.
			MD5OfMessageAttributes: attributesMD5(attributes),
		})
	}
	return out
}

// pick chooses message attributes by name: all with "All" or ".*", those that
// begin with "bar." with "bar.*" (page "ReceiveMessage").
func pick(attributes map[string]attribute, names []string) map[string]attribute {
	if len(names) == 0 || len(attributes) == 0 {
		return nil
	}
	picked := maps.Clone(attributes)
	maps.DeleteFunc(picked, func(name string, _ attribute) bool {
		return !slices.ContainsFunc(names, func(wanted string) bool {
			prefix, isPrefix := strings.CutSuffix(wanted, ".*")
			return wanted == "All" || wanted == name || isPrefix && strings.HasPrefix(name, prefix)
		})
	})
	return picked
}

// system gives a message's system attributes of those names.
func (m *message) system(names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}
	all := map[string]string{
		"SenderId":                         m.sender,
		"SentTimestamp":                    milliseconds(m.sentAt),
		"ApproximateReceiveCount":          strconv.Itoa(m.receives),
		"ApproximateFirstReceiveTimestamp": milliseconds(m.firstReceive),
	}
	for name, value := range map[string]string{
		"SequenceNumber":           m.sequence,
		"MessageDeduplicationId":   m.dedup,
		"MessageGroupId":           m.group,
		"AWSTraceHeader":           m.trace,
		"DeadLetterQueueSourceArn": m.sourceARN,
	} {
		if value != "" {
			all[name] = value
		}
	}
	if !slices.Contains(names, "All") {
		maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(names, name) })
	}
	return all
}

func milliseconds(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
