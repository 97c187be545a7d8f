package awsdynamodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Attributes of a lease item.
const (
	attrHolder = "token" // the holder's; absent when the lease was given back
	attrUntil  = "until"
	// AttrRev counts writes: a taker-over writes only over what it has read.
	attrRev = "rev"
	// AttrSeq numbers one holder's writes: one that was delayed on its way must
	// not undo a later one.
	attrSeq = "seq"
)

// leaseDoc is the body of a lease item. The pace's state is kept to the
// nanosecond, which a fast rate needs.
type leaseDoc struct {
	Destination  string                     `json:"destination"`
	Job          string                     `json:"job"`
	Holder       string                     `json:"holder"`
	Until        time.Time                  `json:"until,omitzero"`
	SendDeadline time.Duration              `json:"sendDeadline"`
	Batches      map[string]dlqbridge.Batch `json:"batches,omitempty"`
	NextFree     time.Time                  `json:"nextFree,omitzero"`
}

func decodeLease(it item) (dlqbridge.Lease, error) {
	if len(it) == 0 {
		return dlqbridge.Lease{}, nil
	}
	var d leaseDoc
	if err := decodeDoc(it, &d); err != nil {
		return dlqbridge.Lease{}, err
	}
	return dlqbridge.Lease{
		Destination: d.Destination, Job: d.Job, Holder: d.Holder, Token: textOf(it, attrHolder), Until: d.Until,
		SendDeadline: d.SendDeadline, Batches: d.Batches, NextFree: d.NextFree,
	}, nil
}

// leaseBody is the doc of a lease and its end as a text to compare, rounded up.
func leaseBody(l dlqbridge.Lease) (doc, until string, err error) {
	l.Until, l.NextFree = bounded(l.Until).UTC(), bounded(l.NextFree).UTC()
	doc, err = compact(leaseDoc{l.Destination, l.Job, l.Holder, l.Until, l.SendDeadline, l.Batches, l.NextFree})
	if err != nil {
		return "", "", fmt.Errorf("%w: encode the lease: %w", dlqbridge.ErrInvalid, err)
	}
	return doc, keyTime(l.Until.Add(timeUnit - 1)), nil
}

// takeTries bounds how often Take looks again after losing a race; each time
// somebody else has written, so the next look usually finds a holder.
const takeTries = 10

// Take implements dlqbridge.Leases. The open batches and the pace that the
// last holder left stay on the lease until the first Keep, so that they are
// not lost if the taker dies before it has seen to them.
func (s *Store) Take(ctx context.Context, l dlqbridge.Lease) (dlqbridge.Lease, error) {
	previous, err := s.take(ctx, l)
	if err != nil {
		if _, held := errors.AsType[*dlqbridge.LeaseHeldError](err); held {
			return dlqbridge.Lease{}, err
		}
		return dlqbridge.Lease{}, fmt.Errorf("take the lease of %s: %w", l.Destination, err)
	}
	return previous, nil
}

func (s *Store) take(ctx context.Context, l dlqbridge.Lease) (dlqbridge.Lease, error) {
	if l.Destination == "" || l.Token == "" {
		return dlqbridge.Lease{}, fmt.Errorf("%w: a lease needs a destination and a token", dlqbridge.ErrInvalid)
	}
	k := leaseKey(l.Destination)
	for range takeTries {
		there, err := s.get(ctx, k)
		if err != nil {
			return dlqbridge.Lease{}, err
		}
		previous, err := decodeLease(there)
		if err != nil {
			return dlqbridge.Lease{}, err
		}
		held := previous.Token != "" && previous.Token != l.Token && textOf(there, attrUntil) > keyTime(s.now())
		if held {
			return dlqbridge.Lease{}, &dlqbridge.LeaseHeldError{Destination: l.Destination, Job: previous.Job, Holder: previous.Holder, Until: previous.Until}
		}
		it, err := leaseItem(k, inherit(l, previous), numberOf(there, attrRev)+1)
		if err != nil {
			return dlqbridge.Lease{}, err
		}
		if err = s.putIf(ctx, it, unchanged(there, attrRev)); !isRefused(err) {
			return previous, err
		}
	}
	return dlqbridge.Lease{}, s.explain(k, dlqbridge.ErrConflict, "others keep writing it")
}

// inherit is the lease with what its last holder left.
func inherit(l, previous dlqbridge.Lease) dlqbridge.Lease {
	batches := maps.Clone(previous.Batches)
	if batches == nil {
		batches = map[string]dlqbridge.Batch{}
	}
	maps.Copy(batches, l.Batches)
	l.Batches = batches
	if previous.NextFree.After(l.NextFree) {
		l.NextFree = previous.NextFree
	}
	return l
}

func leaseItem(k key, l dlqbridge.Lease, rev int64) (item, error) {
	doc, until, err := leaseBody(l)
	if err != nil {
		return nil, err
	}
	it := k.attributes()
	it[attrDoc], it[attrUntil], it[attrHolder] = text(doc), text(until), text(l.Token)
	it[attrRev], it[attrSeq], it[attrToken] = number(rev), number(0), text(newToken())
	return it, nil
}

// unchanged: the item is still as it was read, by its counter.
func unchanged(there item, counter string) condition {
	if len(there) == 0 {
		return condition{"attribute_not_exists(#pk)", map[string]string{"#pk": attrPK}, nil}
	}
	return condition{"#n = :n", map[string]string{"#n": counter}, item{":n": number(numberOf(there, counter))}}
}

// Keep implements dlqbridge.Leases.
func (s *Store) Keep(ctx context.Context, l dlqbridge.Lease) error {
	doc, until, err := leaseBody(l)
	if err == nil {
		err = s.writeLease(ctx, l, "SET #doc = :doc, #until = :until, #seq = :seq, #tk = :tk ADD #rev :one",
			map[string]string{"#doc": attrDoc, "#until": attrUntil}, item{":doc": text(doc), ":until": text(until)})
	}
	if err != nil {
		return fmt.Errorf("keep the lease of %s: %w", l.Destination, err)
	}
	return nil
}

// keepTries bounds how often a write of the holder starts over because the
// holder's other store, of another process, has numbered higher.
const keepTries = 3

// writeLease changes the lease while its token is still l's. One holder's
// writes go one after the other and are numbered, so that a try that was
// delayed on its way cannot undo a later write.
func (s *Store) writeLease(ctx context.Context, l dlqbridge.Lease, expression string, names map[string]string, values item) error {
	k := leaseKey(l.Destination)
	turn := s.turn(l.Destination)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: waiting for the write before this one: %w", dlqbridge.ErrUnavailable, ctx.Err())
	}
	for range keepTries {
		seq, writer := s.leaseWrites.Add(1), newToken()
		u := update{
			table: s.records, key: k, expression: expression, condition: "#token = :token AND #seq < :seq",
			names:  map[string]string{"#token": attrHolder, "#seq": attrSeq, "#rev": attrRev, "#tk": attrToken},
			values: item{":token": text(l.Token), ":seq": number(seq), ":one": number(1), ":tk": text(writer)},
		}
		maps.Copy(u.names, names)
		maps.Copy(u.values, values)
		err := s.update(ctx, u)
		refused, ok := errors.AsType[*refusedError](err)
		switch {
		case !ok:
			return err
		case l.Token == "" || textOf(refused.existing, attrHolder) != l.Token:
			return s.explain(k, dlqbridge.ErrConflict, "somebody took the lease over, or it was given back")
		case textOf(refused.existing, attrToken) == writer:
			return nil // our own first try was carried out, its answer was lost
		}
		s.countPast(numberOf(refused.existing, attrSeq))
	}
	return s.explain(k, dlqbridge.ErrConflict, "its holder writes it from several places at once")
}

// turn is the right to write the lease of a destination.
func (s *Store) turn(destination string) chan struct{} {
	t, _ := s.leaseTurns.LoadOrStore(destination, make(chan struct{}, 1))
	return t.(chan struct{}) //nolint:forcetypeassert // only such channels are stored
}

// countPast lets the next number be higher than n.
func (s *Store) countPast(n int64) {
	for {
		at := s.leaseWrites.Load()
		if at >= n || s.leaseWrites.CompareAndSwap(at, n) {
			return
		}
	}
}

// Release implements dlqbridge.Leases. Batches that l does not mention at all
// (nil) stay as they are on the lease.
func (s *Store) Release(ctx context.Context, l dlqbridge.Lease) error {
	err := s.release(ctx, l)
	if err != nil && !errors.Is(err, dlqbridge.ErrConflict) {
		return fmt.Errorf("release the lease of %s: %w", l.Destination, err)
	}
	return nil
}

func (s *Store) release(ctx context.Context, l dlqbridge.Lease) error {
	there, err := s.get(ctx, leaseKey(l.Destination))
	if err != nil {
		return err
	}
	stored, err := decodeLease(there)
	if err != nil {
		return err
	}
	if stored.Token != l.Token || l.Token == "" {
		return nil
	}
	if l.Batches == nil {
		l.Batches = stored.Batches
	}
	if stored.NextFree.After(l.NextFree) {
		l.NextFree = stored.NextFree
	}
	l.Job, l.Holder = cmp.Or(l.Job, stored.Job), cmp.Or(l.Holder, stored.Holder)
	l.SendDeadline = cmp.Or(l.SendDeadline, stored.SendDeadline)
	l.Until = time.Time{}
	doc, _, err := leaseBody(l)
	if err != nil {
		return err
	}
	return s.writeLease(ctx, l, "SET #doc = :doc, #seq = :seq, #tk = :tk ADD #rev :one REMOVE #token, #until",
		map[string]string{"#doc": attrDoc, "#until": attrUntil}, item{":doc": text(doc)})
}

// Lease implements dlqbridge.Leases. One that was given back has no token and
// no Until.
func (s *Store) Lease(ctx context.Context, destination string) (dlqbridge.Lease, error) {
	there, err := s.get(ctx, leaseKey(destination))
	if err != nil {
		return dlqbridge.Lease{}, fmt.Errorf("read the lease of %s: %w", destination, err)
	}
	l, err := decodeLease(there)
	if err != nil {
		return dlqbridge.Lease{}, fmt.Errorf("read the lease of %s: %w", destination, err)
	}
	return l, nil
}
