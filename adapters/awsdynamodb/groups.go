package awsdynamodb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// attrOrder is where in its group the kept member stands.
const attrOrder = "ord"

// groupKey hashes the group: its key is an attribute of the messages.
func groupKey(g dlqbridge.GroupKey) key {
	h := sha256.New()
	for _, part := range []string{g.Destination, g.Place, g.Group} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	return key{"G#" + hex.EncodeToString(h.Sum(nil)[:16]), "done"}
}

// NoteDone implements dlqbridge.Groups: one conditional put per group, which a
// member that is not newer loses without harm.
func (s *Store) NoteDone(ctx context.Context, d dlqbridge.GroupDone) error {
	d.At = bounded(d.At).UTC()
	if err := s.noteDone(ctx, d); err != nil {
		return fmt.Errorf("keep that %s completed in its group: %w", d.Record, err)
	}
	return nil
}

func (s *Store) noteDone(ctx context.Context, d dlqbridge.GroupDone) error {
	if d.Record == "" || d.Order == "" {
		return fmt.Errorf("%w: it needs a record and its place", dlqbridge.ErrInvalid)
	}
	it, err := docItem(groupKey(d.GroupKey), d)
	if err != nil {
		return fmt.Errorf("%w: encode it: %w", dlqbridge.ErrInvalid, err)
	}
	it[attrOrder], it[attrToken] = text(d.Order), text(newToken())
	// An older one may die for as long as its record would be kept.
	it[attrExpires] = expiry(s.now().Add(max(s.recordRetention, letterLife)))
	c := s.absent()
	c.expression += " OR #ord < :ord"
	c.names["#ord"], c.values[":ord"] = attrOrder, text(d.Order)
	if err = s.putIf(ctx, it, c); isRefused(err) {
		return nil // a newer one is there
	}
	return err
}

// GroupsDone implements dlqbridge.Groups.
func (s *Store) GroupsDone(ctx context.Context, groups []dlqbridge.GroupKey) (map[dlqbridge.GroupKey]dlqbridge.GroupDone, error) {
	keys := make([]key, len(groups))
	for i, g := range groups {
		keys[i] = groupKey(g)
	}
	found, err := s.getAll(ctx, keys)
	out := map[dlqbridge.GroupKey]dlqbridge.GroupDone{}
	for i, g := range groups {
		it := found[keys[i]]
		if it == nil || err != nil {
			continue
		}
		d := dlqbridge.GroupDone{}
		if bad := decodeDoc(it, &d); bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		d.GroupKey = g
		out[g] = d
	}
	if err != nil {
		return nil, fmt.Errorf("read what completed of %d groups: %w", len(groups), err)
	}
	return out, nil
}
