package dynamodb

import "slices"

// writeKind is one of the writes of single items, alone or in a transaction.
type writeKind struct {
	members     []string
	key, update bool     // it takes a key (and not an item); an update expression
	returns     []string // values of ReturnValues beside NONE
}

// The kinds of write. A check writes nothing; it stands only in transactions.
var (
	putKind    = &writeKind{members: putMembers, returns: []string{"ALL_OLD"}}
	deleteKind = &writeKind{members: deleteMembers, key: true, returns: []string{"ALL_OLD"}}
	updateKind = &writeKind{
		members: updateMembers, key: true, update: true,
		returns: []string{"ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"},
	}
)

// parsedWrite is a write whose request has been checked as far as that goes
// without a table.
type parsedWrite struct {
	kind   *writeKind
	q      *request
	when   condition
	change *update // of an update
}

// parse checks the request and parses its expressions.
func (k *writeKind) parse(q *request) (*parsedWrite, error) {
	switch {
	case k.key && q.key == nil:
		return nil, required("key")
	case !k.key && q.item == nil:
		return nil, required("item")
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if r := q.returnValues; r != "" && r != "NONE" && !slices.Contains(k.returns, r) {
		return nil, invalid("Return values set to invalid value")
	}
	members := "ConditionExpression is"
	if k.update {
		members = "UpdateExpression and ConditionExpression are"
	}
	binds, err := q.bindings(members, q.update, q.condition)
	if err != nil {
		return nil, err
	}
	p := &parsedWrite{kind: k, q: q}
	if k.update {
		p.change = &update{} // none at all creates the item if it is not there
	}
	if q.update != nil {
		if p.change, err = parseUpdate(*q.update, binds); err != nil {
			return nil, err
		}
	}
	if q.condition != nil {
		if p.when, _, err = parseCondition("ConditionExpression", *q.condition, binds); err != nil {
			return nil, err
		}
	}
	return p, binds.allUsed()
}

// prepare checks the write against its table.
func (p *parsedWrite) prepare(t *table) (w *write, err error) {
	if p.kind.key {
		w, err = t.prepareKey(p.q.key)
	} else {
		w, err = t.preparePut(p.q.item)
	}
	if err != nil {
		return nil, err
	}
	w.condition, w.returnOld = p.when, p.q.returnOnFailure == "ALL_OLD"
	if p.change != nil {
		err = w.prepareUpdate(p.change)
	}
	return w, err
}

// write carries out PutItem, UpdateItem or DeleteItem.
func (s *Service) write(body []byte, kind *writeKind) ([]byte, error) {
	q, err := readRequest(body, kind.members)
	if err != nil {
		return nil, err
	}
	parsed, err := kind.parse(q)
	if err != nil {
		return nil, err
	}
	t, err := s.table(q.table)
	if err != nil {
		return nil, err
	}
	w, err := parsed.prepare(t)
	if err != nil {
		return nil, err
	}
	m := &meter{table: t.TableName}
	old, fresh, err := w.run(m)
	s.units.add(m)
	if err != nil {
		return nil, err
	}
	a := newAnswer()
	if returned := returned(q.returnValues, old, fresh, parsed.change); returned != nil {
		a.item("Attributes", returned)
	}
	a.capacity(q.returnCapacity, m)
	return a.bytes(), nil
}

// returned are the attributes that ReturnValues asks for, or nil.
func returned(want string, old, fresh *row, change *update) Item {
	switch {
	case want == "ALL_OLD" && old != nil:
		return old.item
	case want == "ALL_NEW":
		return fresh.item
	case want == "UPDATED_OLD" && old != nil:
		return touched(change, old.item)
	case want == "UPDATED_NEW":
		return touched(change, fresh.item)
	}
	return nil
}

// touched is the part of the item that the update is about, or nil.
func touched(change *update, item Item) Item {
	paths := change.paths()
	if len(paths) == 0 {
		return nil
	}
	if part := projectionOf(paths).of(item); len(part) > 0 {
		return part
	}
	return nil
}

func (s *Service) getItem(body []byte) ([]byte, error) {
	q, err := readRequest(body, getMembers)
	if err != nil {
		return nil, err
	}
	if q.key == nil {
		return nil, required("key")
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	wanted, err := q.projected()
	if err != nil {
		return nil, err
	}
	t, err := s.table(q.table)
	if err != nil {
		return nil, err
	}
	if err := t.keys.checkKey(q.key); err != nil {
		return nil, err
	}
	found := t.get(q.key)
	m := &meter{table: t.TableName, halves: readHalves(sizeOfRow(found), q.consistent)}
	s.units.add(m)
	a := newAnswer()
	if found != nil {
		a.item("Item", wanted.of(found.item))
	}
	a.capacity(q.returnCapacity, m)
	return a.bytes(), nil
}

// projected is the projection of a request whose only expression it is.
func (q *request) projected() (*projection, error) {
	binds, err := q.bindings("ProjectionExpression is", q.projection)
	if err != nil || q.projection == nil {
		return nil, err
	}
	wanted, err := parseProjection(*q.projection, binds)
	if err != nil {
		return nil, err
	}
	return wanted, binds.allUsed()
}

// get is the row with the key, or nil.
func (t *table) get(key Item) *row {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.rows.get(t.keys.rowKey(key))
}
