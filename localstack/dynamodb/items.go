package dynamodb

func (s *Service) putItem(body []byte) ([]byte, error) {
	q, err := readRequest(body, putMembers)
	if err != nil {
		return nil, err
	}
	if q.item == nil {
		return nil, required("item")
	}
	if err := q.checkWrite("ALL_OLD"); err != nil {
		return nil, err
	}
	binds, err := q.bindings("ConditionExpression is", q.condition)
	if err != nil {
		return nil, err
	}
	return s.write(q, binds, func(t *table) (*write, error) { return t.preparePut(q.item) }, nil)
}

func (s *Service) deleteItem(body []byte) ([]byte, error) {
	q, err := readRequest(body, deleteMembers)
	if err != nil {
		return nil, err
	}
	if q.key == nil {
		return nil, required("key")
	}
	if err := q.checkWrite("ALL_OLD"); err != nil {
		return nil, err
	}
	binds, err := q.bindings("ConditionExpression is", q.condition)
	if err != nil {
		return nil, err
	}
	return s.write(q, binds, func(t *table) (*write, error) { return t.prepareKey(q.key) }, nil)
}

func (s *Service) updateItem(body []byte) ([]byte, error) {
	q, err := readRequest(body, updateMembers)
	if err != nil {
		return nil, err
	}
	if q.key == nil {
		return nil, required("key")
	}
	if err := q.checkWrite("ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"); err != nil {
		return nil, err
	}
	binds, err := q.bindings("UpdateExpression and ConditionExpression are", q.update, q.condition)
	if err != nil {
		return nil, err
	}
	change := &update{} // none at all creates the item if it is not there
	if q.update != nil {
		if change, err = parseUpdate(*q.update, binds); err != nil {
			return nil, err
		}
	}
	prepare := func(t *table) (*write, error) {
		w, err := t.prepareKey(q.key)
		if err != nil {
			return nil, err
		}
		return w, w.prepareUpdate(change)
	}
	return s.write(q, binds, prepare, change)
}

// checkWrite checks the members of a single write; returns are the values of
// ReturnValues that the operation knows beside NONE.
func (q *request) checkWrite(returns ...string) error {
	if err := q.check(); err != nil {
		return err
	}
	switch q.returnValues {
	case "", "NONE":
		return nil
	}
	for _, r := range returns {
		if q.returnValues == r {
			return nil
		}
	}
	return invalid("ReturnValues can only be ALL_OLD or NONE")
}

// write carries out a single write: the condition is parsed, the placeholders
// are checked, then the table and the item.
func (s *Service) write(q *request, binds *bindings, prepare func(*table) (*write, error), change *update) ([]byte, error) {
	var when condition
	if q.condition != nil {
		var err error
		if when, _, err = parseCondition("ConditionExpression", *q.condition, binds); err != nil {
			return nil, err
		}
	}
	if err := binds.allUsed(); err != nil {
		return nil, err
	}
	t, err := s.table(q.table)
	if err != nil {
		return nil, err
	}
	w, err := prepare(t)
	if err != nil {
		return nil, err
	}
	w.condition, w.returnOld = when, q.returnOnFailure == "ALL_OLD"
	m := &meter{table: t.TableName}
	old, fresh, err := w.run(m)
	s.units.add(m)
	if err != nil {
		return nil, err
	}
	a := newAnswer()
	if returned := returned(q.returnValues, old, fresh, change); returned != nil {
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
