package awsdynamodb

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Case implements dlqbridge.CaseReader.
func (s *Store) Case(ctx context.Context, id string) (dlqbridge.Case, error) {
	found := map[key]item{}
	err := s.query(ctx, partition(s.records, recordPK(id), ""), func(it item) bool {
		if !s.gone(it) {
			found[keyOf(it)] = it
		}
		return true
	})
	if err != nil {
		return dlqbridge.Case{}, fmt.Errorf("read record %s: %w", id, err)
	}
	control := found[controlKey(id)]
	if control == nil {
		return dlqbridge.Case{}, fmt.Errorf("read record %s: %w", id, s.explain(controlKey(id), dlqbridge.ErrNotFound, "there is no such record"))
	}
	current, err := decodeControl(control, found[wideKey(id, wideName(control))])
	if err != nil {
		// Its texts were written while we read.
		if current, err = s.decode(ctx, control); err != nil {
			return dlqbridge.Case{}, fmt.Errorf("read record %s: %w", id, err)
		}
	}
	c, err := assemble(current, found)
	if err != nil {
		return dlqbridge.Case{}, fmt.Errorf("read record %s: %w", id, err)
	}
	// The query is no snapshot: evidence that sorts before the control item may
	// have been written, and named by a move, after we had passed its place.
	if late := unread(c); len(late) > 0 {
		more, err := s.getAll(ctx, late)
		if err != nil {
			return dlqbridge.Case{}, fmt.Errorf("read record %s: %w", id, err)
		}
		if len(more) > 0 {
			maps.Copy(found, more)
			if c, err = assemble(current, found); err != nil {
				return dlqbridge.Case{}, fmt.Errorf("read record %s: %w", id, err)
			}
		}
	}
	return c, nil
}

// assemble puts a record's items in their places and in order.
func assemble(control dlqbridge.Control, items map[key]item) (dlqbridge.Case, error) {
	c := dlqbridge.Case{Control: control}
	events := map[int]dlqbridge.Move{}
	for k, it := range items {
		var err error
		switch {
		case strings.HasPrefix(k.sk, prefixArrival):
			err = appendDoc(&c.Arrivals, it)
		case strings.HasPrefix(k.sk, prefixContext):
			err = appendDoc(&c.Contexts, it)
		case strings.HasPrefix(k.sk, prefixNote):
			err = appendDoc(&c.Notes, it)
		case strings.HasPrefix(k.sk, prefixSend):
			err = appendDoc(&c.Sends, it)
		case strings.HasPrefix(k.sk, prefixEvent):
			var m dlqbridge.Move
			if m.Version, err = strconv.Atoi(strings.TrimPrefix(k.sk, prefixEvent)); err != nil {
				return c, fmt.Errorf("decode %s: %w", k, err)
			}
			version := m.Version
			err = decodeDoc(it, &m)
			events[version] = m
		}
		if err != nil {
			return c, err
		}
	}
	slices.SortFunc(c.Arrivals, func(a, b dlqbridge.Arrival) int {
		return cmp.Or(a.SentAt.Compare(b.SentAt), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(c.Contexts, func(a, b dlqbridge.Context) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(c.Notes, func(a, b dlqbridge.Note) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(c.Sends, func(a, b dlqbridge.Send) int { return cmp.Compare(a.N, b.N) })
	c.History = history(control, events)
	return c, nil
}

func appendDoc[T any](list *[]T, it item) error {
	var v T
	if err := decodeDoc(it, &v); err != nil {
		return err
	}
	*list = append(*list, v)
	return nil
}

// history lists the entries in order. An open record's cannot be missing,
// because each is written before the next move; should one be, its place says
// so. A closed record's go a little before its control item.
func history(control dlqbridge.Control, events map[int]dlqbridge.Move) []dlqbridge.Move {
	var list []dlqbridge.Move
	for version := 1; version < control.Version; version++ {
		m, ok := events[version]
		switch {
		case ok:
			m.Version = version
			list = append(list, m)
		case !control.Status.Closed():
			list = append(list, dlqbridge.Move{Version: version, Why: "this entry is missing from the table"})
		}
	}
	return append(list, control.Move)
}

// unread lists the items that history names and that were not read.
func unread(c dlqbridge.Case) []key {
	id := c.Control.ID
	var keys []key
	for _, m := range c.History {
		if m.Arrival != "" && c.Arrival(m.Arrival) == nil {
			keys = append(keys, arrivalKey(id, m.Arrival))
		}
		if m.Context != "" && c.Context(m.Context) == nil {
			keys = append(keys, contextKey(id, m.Context))
		}
		if m.Note != "" && !slices.ContainsFunc(c.Notes, func(n dlqbridge.Note) bool { return n.Name == m.Note }) {
			keys = append(keys, noteKey(id, m.Note))
		}
	}
	return keys
}

// IncompletePayloadError says that a payload is there but not whole: a writer
// died in the middle, or part of it was lost.
type IncompletePayloadError struct {
	Record, Arrival string
	// Why says what is missing or wrong.
	Why string
}

// Error implements error.
func (e *IncompletePayloadError) Error() string {
	return fmt.Sprintf("payload of arrival %s of record %s is incomplete: %s", e.Arrival, e.Record, e.Why)
}

// Payload implements dlqbridge.CaseReader. A payload that is there but not
// whole is *IncompletePayloadError.
func (s *Store) Payload(ctx context.Context, id, arrival string) (dlqbridge.Payload, error) {
	chunks := map[key]item{}
	err := s.query(ctx, partition(s.payloads, payloadPK(id), keyPart(arrival)+"#"), func(it item) bool {
		if !s.gone(it) {
			chunks[keyOf(it)] = it
		}
		return true
	})
	if err != nil {
		return dlqbridge.Payload{}, fmt.Errorf("read payload of record %s: %w", id, err)
	}
	if len(chunks) == 0 {
		return dlqbridge.Payload{}, fmt.Errorf("%w: the payload of arrival %s of record %s in table %s", dlqbridge.ErrNotFound, arrival, id, s.payloads)
	}
	return joinPayload(id, arrival, chunks)
}

// Payloads implements dlqbridge.PayloadReader: first the first chunk of each,
// which says how many there are, then the others. A payload that is not whole
// is absent.
func (s *Store) Payloads(ctx context.Context, arrivals map[string]string) (map[string]dlqbridge.Payload, error) {
	var keys []key
	for id, arrival := range arrivals {
		keys = append(keys, chunkKey(id, arrival, 0))
	}
	chunks, err := s.getFrom(ctx, s.payloads, keys)
	if err != nil {
		return nil, fmt.Errorf("read payloads: %w", err)
	}
	keys = nil
	for id, arrival := range arrivals {
		for n := 1; n < int(numberOf(chunks[chunkKey(id, arrival, 0)], attrTotal)); n++ {
			keys = append(keys, chunkKey(id, arrival, n))
		}
	}
	more, err := s.getFrom(ctx, s.payloads, keys)
	if err != nil {
		return nil, fmt.Errorf("read payloads: %w", err)
	}
	maps.Copy(chunks, more)
	out := make(map[string]dlqbridge.Payload, len(arrivals))
	for id, arrival := range arrivals {
		if chunks[chunkKey(id, arrival, 0)] == nil {
			continue
		}
		// One that is not whole stops no other; Payload says what is wrong with it.
		if p, err := joinPayload(id, arrival, chunks); err == nil {
			out[id] = p
		}
	}
	return out, nil
}

// joinPayload puts an arrival's chunks together and holds them against the
// hash that was stored with them.
func joinPayload(id, arrival string, chunks map[key]item) (dlqbridge.Payload, error) {
	broken := func(format string, args ...any) (dlqbridge.Payload, error) {
		return dlqbridge.Payload{}, &IncompletePayloadError{id, arrival, fmt.Sprintf(format, args...)}
	}
	first := chunks[chunkKey(id, arrival, 0)]
	total := int(numberOf(first, attrTotal))
	if first == nil || total < 1 {
		return broken("its first part is missing")
	}
	var data []byte
	for n := range total {
		part, ok := chunks[chunkKey(id, arrival, n)][attrData].(*types.AttributeValueMemberB)
		if !ok {
			return broken("part %d of %d is missing", n+1, total)
		}
		data = append(data, part.Value...)
	}
	sum := sha256.Sum256(data)
	if hex.EncodeToString(sum[:]) != textOf(first, attrSHA) {
		return broken("its parts do not hash to what was stored")
	}
	p, err := dlqbridge.DecodePayload(data)
	if err != nil {
		return broken("%v", err)
	}
	return p, nil
}

// Sends implements dlqbridge.CaseReader.
func (s *Store) Sends(ctx context.Context, ns map[string]int) (map[string]dlqbridge.Send, error) {
	keys := make([]key, 0, len(ns))
	for id, n := range ns {
		keys = append(keys, sendKey(id, n))
	}
	found, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read sends: %w", err)
	}
	sends := make(map[string]dlqbridge.Send, len(found))
	for id, n := range ns {
		it, ok := found[sendKey(id, n)]
		if !ok {
			continue
		}
		var send dlqbridge.Send
		if err := decodeDoc(it, &send); err != nil {
			return nil, fmt.Errorf("read sends: %w", err)
		}
		sends[id] = send
	}
	return sends, nil
}

// RecordsByMessage implements dlqbridge.MessageFinder.
func (s *Store) RecordsByMessage(ctx context.Context, messageIDs []string) (map[string]string, error) {
	keys := make([]key, 0, len(messageIDs))
	for _, id := range messageIDs {
		keys = append(keys, messageKey(id))
	}
	found, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("find records by message: %w", err)
	}
	records := make(map[string]string, len(found))
	for _, id := range messageIDs {
		if it, ok := found[messageKey(id)]; ok {
			records[id] = textOf(it, attrRecord)
		}
	}
	return records, nil
}

// Ready says whether both tables are there and can be read, by asking them for
// something that never is. A missing table is ErrNotFound and is named.
func (s *Store) Ready(ctx context.Context) error {
	const nobody = "r_ready"
	if _, err := s.Read(ctx, []string{nobody}); err != nil {
		return fmt.Errorf("records table %s: %w", s.records, err)
	}
	if _, err := s.Payloads(ctx, map[string]string{nobody: "ready"}); err != nil {
		return fmt.Errorf("payloads table %s: %w", s.payloads, err)
	}
	return nil
}
