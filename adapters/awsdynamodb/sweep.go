package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge"
)

const (
	// LetterLife is how long after its send a message can still come back as a
	// letter: 14 days in the source and 14 in the dead-letter queue (the most
	// that SQS keeps a message: "Amazon SQS quotas", read 2026-11-30), and two
	// for observation and clocks.
	letterLife = 30 * 24 * time.Hour
	// ChildrenFirst is how much earlier the other items of a closed record
	// expire than its control item, so that no reader finds a record's
	// evidence without the record.
	childrenFirst = 24 * time.Hour
	// SweepFor is how long the sweep of one record may take; reopening waits
	// for it, and twice as long for one that has died.
	sweepFor = time.Minute
)

// Attributes of a closed control item while Sweep sees to its children. The
// next move writes the item without them.
const (
	attrSweep = "sweep" // the token of the last sweep
	attrBusy  = "busy"  // until when it may be going on
)

// controlExpiry is when a closed record's control item may go: never while a
// letter of it can still arrive, which would open it as new (I7).
func (s *Store) controlExpiry(c dlqbridge.Control) time.Time {
	return closedAt(c).Add(max(s.recordRetention, letterLife) + childrenFirst)
}

// How the clocks of a closed record start: the move that closes it sets the
// control item's expiry and leaves it in the work index under closed#<shard>,
// where no list looks. Sweep finds it there, gives the other items theirs and
// takes it out of the index. A sweep that dies in between is done again.
//
// A sweep and a reopening exclude each other: the sweep marks the control item
// before it touches the children, and the reopening's move is conditional on
// the mark that it saw before it took the expiry away again.

// Sweep gives the items of at most limit closed records (0: all) their expiry
// and says how many records it did. Records that fail do not stop the others.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	_, shards, err := s.registry(ctx)
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	var ids []string
	for shard := range shards {
		in := partition(s.records, closedPK(shard), "")
		in.IndexName, in.ConsistentRead = aws.String(indexWork), nil // an index has no consistent reads
		in.ExpressionAttributeNames = map[string]string{"#pk": attrWorkPK}
		err := s.query(ctx, in, func(it item) bool {
			ids = append(ids, strings.TrimPrefix(textOf(it, attrPK), "R#"))
			return limit <= 0 || len(ids) < limit
		})
		if err != nil {
			return 0, fmt.Errorf("sweep: %w", err)
		}
		if limit > 0 && len(ids) >= limit {
			break
		}
	}
	errs := make([]error, len(ids))
	s.parallel(len(ids), func(i int) { errs[i] = s.sweep(ctx, ids[i]) })
	done := 0
	for i, err := range errs {
		if err == nil {
			done++
		} else {
			errs[i] = fmt.Errorf("sweep record %s: %w", ids[i], err)
		}
	}
	return done, errors.Join(errs...)
}

func (s *Store) sweep(ctx context.Context, id string) error {
	it, err := s.get(ctx, controlKey(id))
	if err != nil || it == nil {
		return err
	}
	c, err := s.decode(ctx, it)
	if err != nil || !c.Status.Closed() {
		return err // the index was behind
	}
	ctx, cancel := context.WithTimeout(ctx, sweepFor)
	defer cancel()
	atVersion := item{":v": number(int64(c.Version))}
	err = s.update(ctx, update{
		table: s.records, key: controlKey(id), expression: "SET #s = :s, #b = :b",
		condition: "#v = :v AND (attribute_not_exists(#b) OR #b <= :now OR #s = :s)", // #s = :s is our own first try
		names:     map[string]string{"#s": attrSweep, "#b": attrBusy, "#v": attrVersion},
		values: item{
			":v": atVersion[":v"], ":s": text(newToken()), ":now": text(keyTime(s.now())), ":b": text(keyTime(s.now().Add(2 * sweepFor))),
		},
	})
	if isRefused(err) {
		return nil // another sweep is at it, or it moved; if it is closed still, it is in the index again
	}
	if err != nil {
		return err
	}
	closed := closedAt(c)
	records, payloads := closed.Add(s.recordRetention), closed.Add(s.payloadRetention)
	err = s.eachChild(ctx, id, func(table string, child item) error {
		at := records
		switch {
		case table == s.payloads:
			at = payloads
		case strings.HasPrefix(textOf(child, attrSK), prefixWide):
			at = s.controlExpiry(c) // without its texts a control item cannot be read
		}
		if numberOf(child, attrExpires) == at.Unix() {
			return nil
		}
		return s.setExpiry(ctx, table, keyOf(child), "SET #ex = :ex", item{":ex": expiry(at)})
	})
	if err != nil {
		return err
	}
	err = s.update(ctx, update{
		table: s.records, key: controlKey(id), expression: "REMOVE #wp, #ws, #b", condition: "#v = :v",
		names:  map[string]string{"#wp": attrWorkPK, "#ws": attrWorkSK, "#b": attrBusy, "#v": attrVersion},
		values: atVersion,
	})
	if isRefused(err) {
		return nil
	}
	return err
}

// reopenTries bounds how often a reopening starts over because a sweep passed.
const reopenTries = 5

// reopen puts the control item that opens a closed record, after the expiry of
// its other items was taken away.
func (s *Store) reopen(ctx context.Context, it item, c condition) error {
	k, id := keyOf(it), strings.TrimPrefix(textOf(it, attrPK), "R#")
	for range reopenTries {
		there, err := s.get(ctx, k)
		if err != nil {
			return err
		}
		if textOf(there, attrBusy) > keyTime(s.now()) {
			return s.explain(k, dlqbridge.ErrConflict, "its items are being given their expiry; try again in a minute")
		}
		if err := s.Unexpire(ctx, id); err != nil {
			return err
		}
		seen := condition{c.expression + " AND attribute_not_exists(#s)", maps.Clone(c.names), maps.Clone(c.values)}
		seen.names["#s"] = attrSweep
		if mark := textOf(there, attrSweep); mark != "" {
			seen.expression = c.expression + " AND #s = :s"
			seen.values[":s"] = text(mark)
		}
		err = s.putIf(ctx, it, seen)
		refused, ok := errors.AsType[*refusedError](err)
		if !ok || numberOf(refused.existing, attrVersion) != numberOf(there, attrVersion) || textOf(refused.existing, attrSweep) == textOf(there, attrSweep) {
			return err
		}
	}
	return s.explain(k, dlqbridge.ErrConflict, "it is being swept again and again")
}

// Unexpire takes the expiry from all items of a record that has been closed,
// except the control item, whose next move decides. What has expired already
// stays expired. Move does it by itself when it opens a closed record.
func (s *Store) Unexpire(ctx context.Context, id string) error {
	err := s.eachChild(ctx, id, func(table string, child item) error {
		if _, expires := child[attrExpires]; !expires || s.gone(child) {
			return nil
		}
		return s.setExpiry(ctx, table, keyOf(child), "REMOVE #ex", nil)
	})
	if err != nil {
		return fmt.Errorf("keep the items of record %s: %w", id, err)
	}
	return nil
}

// eachChild calls do for every item of a record but its control item, with its
// key and expiry.
func (s *Store) eachChild(ctx context.Context, id string, do func(table string, child item) error) error {
	for _, p := range []struct{ table, pk string }{{s.payloads, payloadPK(id)}, {s.records, recordPK(id)}} {
		in := partition(p.table, p.pk, "")
		in.ProjectionExpression = aws.String("#pk, #sk, #ex")
		in.ExpressionAttributeNames["#sk"], in.ExpressionAttributeNames["#ex"] = attrSK, attrExpires
		var failed error
		err := s.query(ctx, in, func(it item) bool {
			if textOf(it, attrSK) != skControl {
				failed = do(p.table, it)
			}
			return failed == nil
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// setExpiry changes an item's expiry, unless the item is gone: it must not
// come back as an empty one.
func (s *Store) setExpiry(ctx context.Context, table string, k key, expression string, values item) error {
	err := s.update(ctx, update{
		table: table, key: k, expression: expression, condition: "attribute_exists(#pk)",
		names: map[string]string{"#pk": attrPK, "#ex": attrExpires}, values: values,
	})
	if isRefused(err) {
		return nil
	}
	return err
}
