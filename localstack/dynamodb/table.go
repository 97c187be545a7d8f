package dynamodb

import (
	"encoding/binary"
	"sync"
	"time"
)

// table is a table with its items and indexes. Its lock guards everything
// below it; items themselves are immutable and outlive the lock.
type table struct {
	definition

	mu sync.RWMutex
	settings
	rows     sorted
	indexes  []*index
	ttl      string // the attribute that says when items expire; empty is off
	expiring sorted // items with a time to live, by that time
	tags     map[string]string

	backups      time.Time // since when point-in-time recovery is on; zero is off
	recoveryDays int
}

// index is a secondary index: entries sorted by hash, range key and then the
// table's own key, so that ties page cleanly.
type index struct {
	indexDefinition
	keys   schema
	covers *projection // what an entry holds; nil is the whole item
	rows   sorted
}

// index is the index of that name, or nil.
func (t *table) index(name string) *index {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, i := range t.indexes {
		if i.IndexName == name {
			return i
		}
	}
	return nil
}

// entryKey is the entry's place in the index; ok is false for an item that
// lacks an index key and therefore is not in the index.
func (i *index) entryKey(t *table, item Item) (key string, ok bool) {
	for _, part := range i.keys.parts() {
		// Another type or an empty value can only be from before the index was
		// added; a backfill leaves such items out.
		v, there := item[part.name]
		if !there || v.kind() != part.kind || part.kind != "N" && v.size() == 0 {
			return "", false
		}
	}
	encoded := []byte(i.keys.rowKey(item))
	for _, part := range t.keys.parts() {
		encoded = appendKey(encoded, item[part.name])
	}
	return string(encoded), true
}

// entry is the index's row for a table row, or nil.
func (i *index) entry(t *table, r *row) *row {
	if r == nil {
		return nil
	}
	key, ok := i.entryKey(t, r.item)
	if !ok {
		return nil
	}
	if i.covers == nil {
		return &row{key, r.item, r.size}
	}
	item := i.covers.of(r.item)
	return &row{key, item, item.itemSize()}
}

// checkIndexKeys refuses an item whose value for an index key is empty or of
// another type than declared; NULL counts as another type (Developer Guide,
// "Using global secondary indexes").
func (t *table) checkIndexKeys(item Item) error {
	for _, i := range t.indexes {
		for at, part := range i.keys.parts() {
			v, there := item[part.name]
			limit := maxHashKey
			if at == 1 {
				limit = maxRangeKey
			}
			switch {
			case !there:
			case v.kind() != part.kind:
				return invalidParameter("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", part.name, part.kind, v.kind(), i.IndexName)
			case v.kind() != "N" && v.size() == 0:
				return emptyIndexKey(v, i.IndexName, part.name)
			case v.size() > limit:
				return invalidParameter("Size of index key %s has exceeded the maximum size limit of %d bytes, IndexName: %s", part.name, limit, i.IndexName)
			}
		}
	}
	return nil
}

func emptyIndexKey(v Value, index, key string) error {
	what := "string"
	if v.kind() == "B" {
		what = "binary"
	}
	return invalid("One or more parameter values are not valid. A value specified for a secondary index key is not supported. "+
		"The AttributeValue for a key attribute cannot contain an empty %s value. IndexName: %s, IndexKey: %s", what, index, key)
}

// replace commits one write: fresh instead of old, either may be nil. The
// caller holds the lock. It returns what the write costs.
func (t *table) replace(old, fresh *row) writeCost {
	cost := writeCost{table: writeUnits(max(sizeOfRow(old), sizeOfRow(fresh)))}
	switch {
	case fresh != nil:
		t.rows.set(fresh)
	case old != nil:
		t.rows.remove(old.key)
	}
	for _, i := range t.indexes {
		units := i.replace(i.entry(t, old), i.entry(t, fresh))
		if units > 0 {
			cost.index(i, units)
		}
	}
	t.expire(old, fresh)
	return cost
}

// replace keeps the index up to date and returns the write units: a new or
// removed entry costs one write, a changed key two, an unchanged entry none
// (Developer Guide, "Using global secondary indexes", "Write capacity units").
func (i *index) replace(old, fresh *row) int {
	switch {
	case old == nil && fresh == nil:
		return 0
	case old == nil:
		i.rows.set(fresh)
		return writeUnits(fresh.size)
	case fresh == nil:
		i.rows.remove(old.key)
		return writeUnits(old.size)
	case old.key != fresh.key:
		i.rows.remove(old.key)
		i.rows.set(fresh)
		return writeUnits(old.size) + writeUnits(fresh.size)
	case equalItems(old.item, fresh.item):
		return 0
	}
	i.rows.set(fresh)
	return writeUnits(max(old.size, fresh.size))
}

// expire keeps the list of expiring items up to date.
func (t *table) expire(old, fresh *row) {
	if t.ttl == "" {
		return
	}
	if key, ok := t.expiryKey(old); ok {
		t.expiring.remove(key)
	}
	if key, ok := t.expiryKey(fresh); ok {
		t.expiring.set(&row{key: key, item: fresh.item})
	}
}

// expiryKey orders expiring items by time. An attribute that is no number is
// ignored (Developer Guide, "Using time to live").
func (t *table) expiryKey(r *row) (string, bool) {
	if r == nil {
		return "", false
	}
	n, ok := r.item[t.ttl].(Number)
	if !ok || n.negative {
		return "", false
	}
	seconds, ok := n.unix()
	if !ok {
		return "", false
	}
	return string(binary.BigEndian.AppendUint64(nil, uint64(seconds))) + r.key, true
}

// oldestExpiry is how far back an expiry may lie: an item that expired more
// than five years ago is not deleted (Developer Guide, "Using time to live").
const oldestExpiry = 5 * 365 * 24 * time.Hour

// expired are the items whose time has come.
func (t *table) expired(now time.Time) span {
	return span{
		string(binary.BigEndian.AppendUint64(nil, uint64(max(0, now.Add(-oldestExpiry).Unix())))),
		string(binary.BigEndian.AppendUint64(nil, uint64(max(0, now.Unix()+1)))),
	}
}

// sweep deletes the items whose time to live is over. The caller holds the lock.
func (t *table) sweep(now time.Time) {
	var keys []string
	for r := range t.expiring.rows(t.expired(now), false) {
		keys = append(keys, t.keys.rowKey(r.item))
	}
	for _, key := range keys {
		t.replace(t.rows.get(key), nil)
	}
}

// due tells whether sweep would delete anything. The caller may hold the lock
// for reading only.
func (t *table) due(now time.Time) bool {
	for range t.expiring.rows(t.expired(now), false) {
		return true
	}
	return false
}

func sizeOfRow(r *row) int {
	if r == nil {
		return 0
	}
	return r.size
}
