package dynamodb

import (
	"maps"
	"slices"
	"strconv"
)

// Bounds of a batch (API Reference, BatchWriteItem and BatchGetItem).
const (
	maxBatchWrites = 25
	maxBatchGets   = 100
	maxBatchBytes  = 16 << 20
)

// batchEntry is one put or delete of a batch.
type batchEntry struct {
	put    Item
	delete Item
}

// batchRequest is the body of a batch call.
type batchRequest struct {
	tables         []string // in the order of the request
	writes         map[string][]batchEntry
	gets           map[string]*batchGet
	returnCapacity string
	returnMetrics  string
}

// batchGet is what a BatchGetItem wants of one table.
type batchGet struct {
	request
	keys []Item
}

func readBatch(body []byte, members []string, table func(r *reader, b *batchRequest, name string) error) (*batchRequest, error) {
	r := &reader{data: body}
	b := &batchRequest{writes: map[string][]batchEntry{}, gets: map[string]*batchGet{}}
	err := r.object(func(name string) (err error) {
		switch {
		case r.null():
		case !slices.Contains(members, name):
			return notServed("the parameter " + name + " of this operation")
		case name == "ReturnConsumedCapacity":
			b.returnCapacity, err = r.text()
		case name == "ReturnItemCollectionMetrics":
			b.returnMetrics, err = r.text()
		case name == "RequestItems":
			return r.object(func(name string) error {
				b.tables = append(b.tables, name)
				return table(r, b, name)
			})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return b, b.check()
}

func (b *batchRequest) check() error {
	if len(b.tables) == 0 {
		return constraint("{}", "requestItems", "Member must have length greater than or equal to 1")
	}
	for _, name := range b.tables {
		if err := checkTableName(name); err != nil {
			return err
		}
	}
	if err := checkChoice("returnConsumedCapacity", b.returnCapacity, capacityChoices); err != nil {
		return err
	}
	return checkChoice("returnItemCollectionMetrics", b.returnMetrics, metricsChoices)
}

func (s *Service) batchWrite(body []byte) ([]byte, error) {
	if len(body) > maxBatchBytes {
		return nil, invalid("Request size exceeded the limit of 16 MB")
	}
	b, err := readBatch(body, []string{"RequestItems", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics"}, readWrites)
	if err != nil {
		return nil, err
	}
	count := 0
	for _, name := range b.tables {
		if len(b.writes[name]) == 0 {
			return nil, constraint("[]", "requestItems."+name+".member", "Member must have length greater than or equal to 1")
		}
		count += len(b.writes[name])
	}
	if count > maxBatchWrites {
		return nil, invalid("Too many items requested for the BatchWriteItem call")
	}
	// Everything is checked before anything is written: one bad entry refuses
	// the whole batch.
	var writes []*write
	meters := map[*table]*meter{}
	var order []*meter
	for _, name := range b.tables {
		t, err := s.table(name)
		if err != nil {
			return nil, err
		}
		checked, err := t.prepareBatch(b.writes[name])
		if err != nil {
			return nil, err
		}
		writes = append(writes, checked...)
		if meters[t] == nil {
			meters[t] = &meter{table: t.TableName}
			order = append(order, meters[t])
		}
	}
	for _, w := range writes {
		if _, _, err := w.run(meters[w.table]); err != nil {
			return nil, err // cannot happen: a batch has no conditions and no updates
		}
	}
	for _, m := range order {
		s.units.add(m)
	}
	a := newAnswer()
	a.name("UnprocessedItems")
	a.buf = append(a.buf, "{}"...)
	a.capacities(b.returnCapacity, order)
	return a.bytes(), nil
}

func readWrites(r *reader, b *batchRequest, table string) error {
	return r.array(func() error {
		var e batchEntry
		err := r.object(func(kind string) error {
			if r.null() {
				return nil
			}
			member, into := "Item", &e.put
			switch kind {
			case "DeleteRequest":
				member, into = "Key", &e.delete
			case "PutRequest":
			default:
				return notServed("the parameter " + kind + " of a batch entry")
			}
			return r.object(func(name string) (err error) {
				if name != member {
					return notServed("the parameter " + name + " of a " + kind)
				}
				*into, err = r.item()
				return err
			})
		})
		if err != nil {
			return err
		}
		if (e.put == nil) == (e.delete == nil) {
			return invalid("Supplied WriteRequest must contain exactly one of PutRequest or DeleteRequest")
		}
		b.writes[table] = append(b.writes[table], e)
		return nil
	})
}

// prepareBatch checks the entries for one table; a key may come once.
func (t *table) prepareBatch(entries []batchEntry) ([]*write, error) {
	writes := make([]*write, 0, len(entries))
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		var w *write
		var err error
		if e.put != nil {
			w, err = t.preparePut(e.put)
		} else {
			w, err = t.prepareKey(e.delete)
		}
		if err != nil {
			return nil, err
		}
		if seen[w.rowKey] {
			return nil, invalid("Provided list of item keys contains duplicates")
		}
		seen[w.rowKey] = true
		writes = append(writes, w)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, w := range writes {
		if w.fresh == nil {
			continue
		}
		if err := t.checkIndexKeys(w.fresh.item); err != nil {
			return nil, err
		}
	}
	return writes, nil
}

func (s *Service) batchGet(body []byte) ([]byte, error) {
	b, err := readBatch(body, []string{"RequestItems", "ReturnConsumedCapacity"}, readGets)
	if err != nil {
		return nil, err
	}
	count := 0
	for _, name := range b.tables {
		g := b.gets[name]
		if len(g.keys) == 0 {
			return nil, constraint("[]", "requestItems."+name+".member.keys", "Member must have length greater than or equal to 1")
		}
		count += len(g.keys)
	}
	if count > maxBatchGets {
		return nil, invalid("Too many items requested for the BatchGetItem call")
	}
	reads := make([]*tableGets, 0, len(b.tables))
	for _, name := range b.tables {
		read, err := s.prepareGets(name, b.gets[name])
		if err != nil {
			return nil, err
		}
		reads = append(reads, read)
	}
	return s.answerGets(b, reads), nil
}

func readGets(r *reader, b *batchRequest, table string) error {
	g := &batchGet{}
	b.gets[table] = g
	return r.object(func(name string) error {
		switch {
		case r.null():
			return nil
		case name == "Keys":
			return r.array(func() error {
				key, err := r.item()
				g.keys = append(g.keys, key)
				return err
			})
		case name == "ProjectionExpression", name == "ExpressionAttributeNames", name == "ConsistentRead":
			return g.member(r, name)
		case name == "AttributesToGet":
			return notServed("the legacy parameter AttributesToGet; it has expressions")
		}
		return notServed("the parameter " + name + " of this operation")
	})
}

// tableGets are the checked reads of one table in a batch.
type tableGets struct {
	table      *table
	keys       []Item
	wanted     *projection
	consistent bool
}

func (s *Service) prepareGets(name string, g *batchGet) (*tableGets, error) {
	wanted, err := g.projected()
	if err != nil {
		return nil, err
	}
	t, err := s.table(name)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(g.keys))
	for _, key := range g.keys {
		if err := t.keys.checkKey(key); err != nil {
			return nil, err
		}
		rowKey := t.keys.rowKey(key)
		if seen[rowKey] {
			return nil, invalid("Provided list of item keys contains duplicates")
		}
		seen[rowKey] = true
	}
	return &tableGets{t, g.keys, wanted, g.consistent}, nil
}

// answerGets reads until 16 MB are full; the rest comes back unprocessed, as
// from the service (API Reference, BatchGetItem).
func (s *Service) answerGets(b *batchRequest, reads []*tableGets) []byte {
	found := map[string][]Item{}
	left := map[string][]Item{}
	total := 0
	meters := make([]*meter, 0, len(reads))
	for at, read := range reads {
		name := b.tables[at]
		found[name] = []Item{}
		m := &meter{table: read.table.TableName}
		for _, key := range read.keys {
			r := read.table.get(key)
			if total += sizeOfRow(r); total > maxBatchBytes {
				left[name] = append(left[name], key)
				continue
			}
			m.halves += readHalves(sizeOfRow(r), read.consistent)
			if r != nil {
				found[name] = append(found[name], read.wanted.of(r.item))
			}
		}
		s.units.add(m)
		meters = append(meters, m)
	}
	a := newAnswer()
	a.name("Responses")
	a.buf = append(a.buf, '{')
	for _, name := range slices.Sorted(maps.Keys(found)) {
		a.items(name, found[name])
	}
	a.buf = append(a.buf, '}')
	a.name("UnprocessedKeys")
	a.unprocessed(b, left)
	a.capacities(b.returnCapacity, meters)
	return a.bytes()
}

// unprocessed repeats what was not read, as a request that can be sent as it is.
func (a *answer) unprocessed(b *batchRequest, left map[string][]Item) {
	a.buf = append(a.buf, '{')
	for _, name := range slices.Sorted(maps.Keys(left)) {
		g := b.gets[name]
		a.name(name)
		a.buf = append(a.buf, '{')
		a.items("Keys", left[name])
		a.name("ConsistentRead")
		a.buf = strconv.AppendBool(a.buf, g.consistent)
		if g.projection != nil {
			a.name("ProjectionExpression")
			a.buf = appendText(a.buf, *g.projection)
		}
		if len(g.names) > 0 {
			a.name("ExpressionAttributeNames")
			a.buf = append(a.buf, '{')
			for _, placeholder := range slices.Sorted(maps.Keys(g.names)) {
				a.name(placeholder)
				a.buf = appendText(a.buf, g.names[placeholder])
			}
			a.buf = append(a.buf, '}')
		}
		a.buf = append(a.buf, '}')
	}
	a.buf = append(a.buf, '}')
}
