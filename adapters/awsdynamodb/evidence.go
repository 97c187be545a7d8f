package awsdynamodb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Attributes of payload chunks and of message items.
const (
	attrData   = "data"
	attrTotal  = "total"
	attrSHA    = "sha256"
	attrRecord = "record"
)

// chunkBytes is how much of a payload stands in one item: below 400 KB with
// room for names and keys.
const chunkBytes = 350_000

// Put implements dlqbridge.EvidenceWriter.
func (s *Store) Put(ctx context.Context, items []dlqbridge.Evidence) []error {
	errs := make([]error, len(items))
	var writes []write
	var owner []int // of each write, the position of its evidence
	for i, e := range items {
		made, err := s.writes(e)
		if err != nil {
			errs[i] = fmt.Errorf("store evidence of record %s: %w", e.Record, err)
			continue
		}
		for _, w := range made {
			writes, owner = append(writes, w), append(owner, i)
		}
	}
	for n, err := range s.putAll(ctx, writes) {
		if err != nil {
			errs[owner[n]] = worse(errs[owner[n]], err)
		}
	}
	return errs
}

// worse keeps the error that decides: one part that cannot be stored at all
// makes trying again useless.
func worse(a, b error) error {
	switch {
	case a == nil:
		return b
	case permanent(b) && !permanent(a):
		return b
	}
	return a
}

// writes are the items that one piece of evidence consists of.
func (s *Store) writes(e dlqbridge.Evidence) ([]write, error) {
	if e.Record == "" {
		return nil, fmt.Errorf("%w: the record id is missing", dlqbridge.ErrInvalid)
	}
	if p, ok := e.Item.(dlqbridge.StoredPayload); ok {
		return s.payloadWrites(e.Record, p), nil
	}
	var made []write
	k, doc, err := s.evidence(e)
	if err != nil {
		return nil, err
	}
	it, err := docItem(k, doc)
	if err != nil {
		return nil, fmt.Errorf("%w: encode %s: %w", dlqbridge.ErrInvalid, k, err)
	}
	made = append(made, newWrite(s.records, it))
	if send, ok := doc.(dlqbridge.Send); ok && send.MessageID != "" {
		made = append(made, newWrite(s.records, s.messageItem(e.Record, send.MessageID)))
	}
	return made, nil
}

func (s *Store) evidence(e dlqbridge.Evidence) (key, any, error) {
	switch v := e.Item.(type) {
	case dlqbridge.Arrival:
		if !writable(v.SentAt, v.LostAt, v.Task.Deadline, v.Task.ValidUntil) { // most are, and need no copy
			v.SentAt, v.LostAt = bounded(v.SentAt), bounded(v.LostAt)
			v.Task.Deadline, v.Task.ValidUntil = bounded(v.Task.Deadline), bounded(v.Task.ValidUntil)
			e.Item = v
		}
		return arrivalKey(e.Record, v.Key), e.Item, nil
	case dlqbridge.Context:
		if !writable(v.At, v.RunningUntil, v.Task.Deadline, v.Task.ValidUntil) {
			v.At, v.RunningUntil = bounded(v.At), bounded(v.RunningUntil)
			v.Task.Deadline, v.Task.ValidUntil = bounded(v.Task.Deadline), bounded(v.Task.ValidUntil)
			e.Item = v
		}
		return contextKey(e.Record, v.Name), e.Item, nil
	case dlqbridge.Note:
		return noteKey(e.Record, v.Name), v, nil
	case dlqbridge.Send:
		return sendKey(e.Record, v.N), v, nil
	}
	return key{}, nil, fmt.Errorf("%w: no evidence of type %T is known", dlqbridge.ErrInvalid, e.Item)
}

// messageItem lets a record be found by the id of a message that we sent. It
// is of use while that message can come back as a letter.
func (s *Store) messageItem(record, message string) item {
	it := messageKey(message).attributes()
	it[attrRecord] = text(record)
	it[attrExpires] = expiry(s.now().Add(max(s.recordRetention, letterLife)))
	return it
}

// payloadWrites cuts a payload into chunks; each says how many there are and
// what they hash to, so that a reader knows whether it has them all.
func (s *Store) payloadWrites(record string, p dlqbridge.StoredPayload) []write {
	data := p.Payload.Encode()
	sum := sha256.Sum256(data)
	total := max(1, (len(data)+chunkBytes-1)/chunkBytes)
	made := make([]write, 0, total)
	for n := range total {
		it := chunkKey(record, p.Arrival, n).attributes()
		it[attrData] = &types.AttributeValueMemberB{Value: data[n*chunkBytes : min(len(data), (n+1)*chunkBytes)]}
		it[attrTotal] = number(int64(total))
		it[attrSHA] = text(hex.EncodeToString(sum[:]))
		made = append(made, newWrite(s.payloads, it))
	}
	return made
}

// PutDoubt implements dlqbridge.EvidenceWriter.
func (s *Store) PutDoubt(ctx context.Context, record string, send dlqbridge.Send) error {
	made, err := s.writes(dlqbridge.Evidence{Record: record, Item: send})
	if err != nil {
		return fmt.Errorf("note doubt of record %s: %w", record, err)
	}
	it := made[0].item
	it[attrToken] = text(newToken())
	err = s.putIf(ctx, it, s.absent())
	if _, refused := errors.AsType[*refusedError](err); refused {
		return s.explain(keyOf(it), dlqbridge.ErrExists, "the send is noted already")
	}
	if err != nil || len(made) == 1 {
		return err
	}
	return s.repeat(ctx, func(ctx context.Context) error { return s.put(ctx, made[1]) })
}
