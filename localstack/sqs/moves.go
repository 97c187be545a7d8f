package sqs

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// Status words of a message move task (page "ListMessageMoveTasksResultEntry").
const (
	moveRunning   = "RUNNING"
	moveCompleted = "COMPLETED"
	moveCancelled = "CANCELLED"
	moveFailed    = "FAILED"
)

// maxMoveRate is the most messages a second that a task moves, and the rate
// of a task that asks for none (page "StartMessageMoveTask").
const maxMoveRate = 500

// maxMoveTasks is how many tasks of a source are listed (same page).
const maxMoveTasks = 10

// moveTask is a redrive of a dead-letter queue by the service itself. Nothing
// runs in the background: every call first moves what is due by then.
type moveTask struct {
	handle  string
	source  string // ARN
	target  string // ARN; empty sends each message where it came from
	asked   *int   // the rate as it was asked for
	rate    int
	started time.Time
	moved   int
	toMove  int
	status  string
	failure string
}

// due is when the task's next message moves.
func (t *moveTask) due() time.Time {
	return t.started.Add(time.Duration(t.moved+1) * time.Second / time.Duration(t.rate))
}

// runMoves moves what is due by now.
func (s *Service) runMoves(now time.Time) {
	for _, task := range s.moves {
		for task.status == moveRunning && !task.due().After(now) {
			s.moveNext(task, now)
		}
	}
}

func (s *Service) moveNext(task *moveTask, now time.Time) {
	source := s.byARN(task.source)
	if source == nil {
		task.status, task.failure = moveFailed, queryPrefix+"NonExistentQueue"
		return
	}
	source.expire(s, now)
	m := source.oldest()
	if m == nil {
		task.status = moveCompleted
		return
	}
	target := task.target
	if target == "" {
		target = m.sourceARN
	}
	to := s.byARN(target)
	switch {
	case target == "":
		// It was sent to the dead-letter queue by somebody, not moved there.
		task.status, task.failure = moveFailed, "CouldNotDetermineMessageSource"
		return
	case to == nil:
		task.status, task.failure = moveFailed, queryPrefix+"NonExistentQueue"
		return
	}
	source.remove(m)
	// A new message with the same content (page "Configure a dead-letter
	// queue redrive"): new id, new time, no receives.
	moved := &message{
		id: newID(), body: m.body, bodyMD5: m.bodyMD5, attributes: m.attributes, trace: m.trace, sender: m.sender,
		group: m.group, dedup: m.dedup, sentAt: now, enqueued: now,
	}
	to.expire(s, now)
	if to.fifo {
		moved.sequence = sequence(s.order + 1)
	}
	to.add(s, moved, now, now)
	task.moved++
	if source.oldest() == nil {
		task.status = moveCompleted
	}
}

// oldest is the visible message that has been here longest.
func (q *queue) oldest() *message {
	var first *message
	for _, l := range q.open {
		if m := l.messages[0]; first == nil || m.position < first.position {
			first = m
		}
	}
	return first
}

// nextMove is when the next message of any task moves.
func (s *Service) nextMove() (first time.Time, running bool) {
	for _, task := range s.moves {
		if task.status == moveRunning && (!running || task.due().Before(first)) {
			first, running = task.due(), true
		}
	}
	return first, running
}

type startMoveIn struct {
	SourceArn                    string
	DestinationArn               string
	MaxNumberOfMessagesPerSecond *int
}

type moveRef struct {
	TaskHandle string
}

func (s *Service) startMessageMoveTask(_ context.Context, in *startMoveIn) (*moveRef, error) {
	if in.SourceArn == "" {
		return nil, missing("SourceArn")
	}
	rate := maxMoveRate
	if in.MaxNumberOfMessagesPerSecond != nil {
		rate = *in.MaxNumberOfMessagesPerSecond
	}
	if rate < 1 || rate > maxMoveRate {
		return nil, badParameter(rate, "MaxNumberOfMessagesPerSecond", "Must be between 1 and %d.", maxMoveRate)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.runMoves(now)
	source := s.byARN(in.SourceArn)
	if source == nil {
		return nil, refuse("ResourceNotFoundException", "The resource that you specified for the SourceArn parameter doesn't exist.")
	}
	if !s.isDeadLetterQueue(source) {
		return nil, badValue("Source queue must be configured as a Dead Letter Queue.")
	}
	if in.DestinationArn != "" {
		target := s.byARN(in.DestinationArn)
		if target == nil {
			return nil, refuse("ResourceNotFoundException", "The resource that you specified for the DestinationArn parameter doesn't exist.")
		}
		if target.fifo != source.fifo || target == source {
			return nil, badParameter(in.DestinationArn, "DestinationArn", "The destination must be another queue of the same type.")
		}
	}
	for _, task := range s.moves {
		if task.source == in.SourceArn && task.status == moveRunning {
			return nil, refuse("UnsupportedOperation", "There is already a task running. Only one active task is allowed for a source queue arn at a given time.")
		}
	}
	source.expire(s, now)
	task := &moveTask{
		handle: base64.StdEncoding.EncodeToString([]byte(newID() + " " + in.SourceArn)),
		source: in.SourceArn, target: in.DestinationArn, asked: in.MaxNumberOfMessagesPerSecond, rate: rate,
		started: now, toMove: source.counts[ready], status: moveRunning,
	}
	s.moves = append(s.moves, task)
	for _, q := range s.queues {
		q.notify() // waiting receives reckon with the task from now on
	}
	return &moveRef{task.handle}, nil
}

func (s *Service) isDeadLetterQueue(q *queue) bool {
	for _, source := range s.queues {
		if source.redrive != nil && source.redrive.target == q.arn() {
			return true
		}
	}
	return false
}

type cancelMoveOut struct {
	ApproximateNumberOfMessagesMoved int
}

func (s *Service) cancelMessageMoveTask(_ context.Context, in *moveRef) (*cancelMoveOut, error) {
	if in.TaskHandle == "" {
		return nil, missing("TaskHandle")
	}
	text, err := base64.StdEncoding.DecodeString(in.TaskHandle)
	if err != nil || !strings.Contains(string(text), " "+arnPrefix) {
		return nil, badValue("Value for parameter TaskHandle is invalid.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runMoves(s.clock.Now())
	for _, task := range s.moves {
		if task.handle != in.TaskHandle {
			continue
		}
		if task.status != moveRunning {
			return nil, refuse("UnsupportedOperation", "Only active tasks can be cancelled.")
		}
		task.status = moveCancelled
		return &cancelMoveOut{task.moved}, nil
	}
	return nil, refuse("ResourceNotFoundException", "Task does not exist.")
}

type listMovesIn struct {
	SourceArn  string
	MaxResults *int
}

type moveEntry struct {
	TaskHandle                        string `json:",omitempty"`
	Status                            string
	SourceArn                         string
	DestinationArn                    string `json:",omitempty"`
	MaxNumberOfMessagesPerSecond      *int   `json:",omitempty"`
	ApproximateNumberOfMessagesMoved  int
	ApproximateNumberOfMessagesToMove int
	FailureReason                     string `json:",omitempty"`
	StartedTimestamp                  int64
}

type listMovesOut struct {
	Results []moveEntry
}

func (s *Service) listMessageMoveTasks(_ context.Context, in *listMovesIn) (*listMovesOut, error) {
	if in.SourceArn == "" {
		return nil, missing("SourceArn")
	}
	most := 1
	if in.MaxResults != nil {
		most = *in.MaxResults
	}
	if most < 1 || most > maxMoveTasks {
		return nil, badParameter(most, "MaxResults", "Must be between 1 and %d.", maxMoveTasks)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runMoves(s.clock.Now())
	if s.byARN(in.SourceArn) == nil {
		return nil, refuse("ResourceNotFoundException", "The resource that you specified for the SourceArn parameter doesn't exist.")
	}
	out := &listMovesOut{Results: []moveEntry{}}
	for _, task := range slices.Backward(s.moves) {
		if task.source != in.SourceArn || len(out.Results) == most {
			continue
		}
		entry := moveEntry{
			Status: task.status, SourceArn: task.source, DestinationArn: task.target, MaxNumberOfMessagesPerSecond: task.asked,
			ApproximateNumberOfMessagesMoved: task.moved, ApproximateNumberOfMessagesToMove: task.toMove,
			FailureReason: task.failure, StartedTimestamp: task.started.UnixMilli(),
		}
		if task.status == moveRunning {
			entry.TaskHandle = task.handle
		}
		out.Results = append(out.Results, entry)
	}
	return out, nil
}
