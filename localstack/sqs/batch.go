package sqs

import (
	"context"
	"regexp"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// maxEntries is the most a batch may have (page "Amazon SQS batch actions").
const maxEntries = 10

var entryID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// failure is one entry of a batch that was refused; the others are carried out.
type failure struct {
	Id          string
	Code        string
	Message     string
	SenderFault bool
}

func failed(id string, err *wire.Error) failure {
	return failure{Id: id, Code: entryCode(err), Message: err.Message, SenderFault: err.Status < 500}
}

// checkEntries refuses a batch as a whole.
func checkEntries[T any](entries []T, action string, id func(*T) string) error {
	switch {
	case len(entries) == 0:
		return refuse("EmptyBatchRequest", "There should be at least one %sRequestEntry in the request.", action)
	case len(entries) > maxEntries:
		return refuse("TooManyEntriesInBatchRequest", "Maximum number of entries per request are %d. You have sent %d.", maxEntries, len(entries))
	}
	seen := map[string]bool{}
	for i := range entries {
		name := id(&entries[i])
		if !entryID.MatchString(name) {
			return refuse("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
		}
		if seen[name] {
			return refuse("BatchEntryIdsNotDistinct", "Id %s repeated.", name)
		}
		seen[name] = true
	}
	return nil
}

type sendEntry struct {
	Id string
	letter
}

type sendMessageBatchIn struct {
	QueueUrl string
	Entries  []sendEntry
}

type sendEntryResult struct {
	Id string
	sendResult
}

type sendMessageBatchOut struct {
	Successful []sendEntryResult
	Failed     []failure `json:",omitempty"`
}

func (s *Service) sendMessageBatch(ctx context.Context, in *sendMessageBatchIn) (*sendMessageBatchOut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if err := checkEntries(in.Entries, "SendMessageBatch", func(e *sendEntry) string { return e.Id }); err != nil {
		return nil, err
	}
	total := 0
	for i := range in.Entries {
		if in.Entries[i].MessageBody != nil {
			total += size(*in.Entries[i].MessageBody, in.Entries[i].MessageAttributes)
		}
	}
	if total > maxMessageBytes {
		return nil, refuse("BatchRequestTooLong", "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxMessageBytes, total)
	}
	now := s.clock.Now()
	q.tick(s, now)
	out := &sendMessageBatchOut{Successful: []sendEntryResult{}}
	for i := range in.Entries {
		entry := &in.Entries[i]
		if refused := q.check(&entry.letter); refused != nil {
			out.Failed = append(out.Failed, failed(entry.Id, refused))
			continue
		}
		out.Successful = append(out.Successful, sendEntryResult{entry.Id, *q.accept(ctx, s, &entry.letter, now)})
	}
	return out, nil
}

type deleteEntry struct {
	Id            string
	ReceiptHandle string
}

type deleteMessageBatchIn struct {
	QueueUrl string
	Entries  []deleteEntry
}

type entryDone struct {
	Id string
}

type entriesOut struct {
	Successful []entryDone
	Failed     []failure `json:",omitempty"`
}

func (o *entriesOut) add(id string, err *wire.Error) {
	if err != nil {
		o.Failed = append(o.Failed, failed(id, err))
		return
	}
	o.Successful = append(o.Successful, entryDone{id})
}

func (s *Service) deleteMessageBatch(_ context.Context, in *deleteMessageBatchIn) (*entriesOut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if err := checkEntries(in.Entries, "DeleteMessageBatch", func(e *deleteEntry) string { return e.Id }); err != nil {
		return nil, err
	}
	q.tick(s, s.clock.Now())
	out := &entriesOut{Successful: []entryDone{}}
	for i := range in.Entries {
		out.add(in.Entries[i].Id, q.delete(in.Entries[i].ReceiptHandle))
	}
	return out, nil
}

type visibilityEntry struct {
	Id                string
	ReceiptHandle     string
	VisibilityTimeout *int
}

type changeMessageVisibilityBatchIn struct {
	QueueUrl string
	Entries  []visibilityEntry
}

func (s *Service) changeMessageVisibilityBatch(_ context.Context, in *changeMessageVisibilityBatchIn) (*entriesOut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if err := checkEntries(in.Entries, "ChangeMessageVisibilityBatch", func(e *visibilityEntry) string { return e.Id }); err != nil {
		return nil, err
	}
	now := s.clock.Now()
	q.tick(s, now)
	out := &entriesOut{Successful: []entryDone{}}
	for i := range in.Entries {
		e := &in.Entries[i]
		out.add(e.Id, q.changeVisibility(e.ReceiptHandle, e.VisibilityTimeout, now))
	}
	return out, nil
}
