package dynamodb

// write is one checked write: what it does is decided when its turn comes,
// under the table's lock.
type write struct {
	table     *table
	rowKey    string
	key       Item    // of an update
	fresh     *row    // of a put
	update    *update // of an update
	condition condition
	returnOld bool // with a failed condition
	checkOnly bool // write nothing
}

// plan is what the write makes of the table now: the row before and after. The
// caller holds the lock; nothing is changed. The refusals here are those that
// depend on stored data.
func (w *write) plan() (old, fresh *row, err error) {
	if w.fresh != nil {
		if err := w.table.checkIndexKeys(w.fresh.item); err != nil {
			return nil, nil, err
		}
	}
	old = w.table.rows.get(w.rowKey)
	var stored Item
	if old != nil {
		stored = old.item
	}
	if w.condition != nil && !w.condition.holds(stored) {
		if !w.returnOld {
			stored = nil
		}
		return old, nil, conditionFailed(stored)
	}
	switch {
	case w.checkOnly:
		return old, old, nil
	case w.update == nil:
		return old, w.fresh, nil
	}
	base := stored
	if base == nil {
		base = w.key
	}
	item, err := w.update.apply(base)
	if err != nil {
		return old, nil, err
	}
	if fresh, err = checkedRow(w.rowKey, item, "Item size to update has exceeded the maximum allowed size"); err != nil {
		return old, nil, err
	}
	return old, fresh, w.table.checkIndexKeys(item)
}

// checkedRow is the row for an item that passes the checks of size and depth.
func checkedRow(key string, item Item, tooLarge string) (*row, error) {
	size := item.itemSize()
	if size > maxItemSize {
		return nil, invalid("%s", tooLarge)
	}
	if err := checkLevels(item); err != nil {
		return nil, err
	}
	return &row{key, item, size}, nil
}

// preparePut checks a put of the item.
func (t *table) preparePut(item Item) (*write, error) {
	if err := t.keys.checkItem(item); err != nil {
		return nil, err
	}
	key := t.keys.rowKey(item)
	fresh, err := checkedRow(key, item, "Item size has exceeded the maximum allowed size")
	if err != nil {
		return nil, err
	}
	return &write{table: t, rowKey: key, fresh: fresh}, nil
}

// prepareKey checks a delete or an update of the item with the key.
func (t *table) prepareKey(key Item) (*write, error) {
	if err := t.keys.checkKey(key); err != nil {
		return nil, err
	}
	return &write{table: t, rowKey: t.keys.rowKey(key), key: key}, nil
}

// prepareUpdate adds the update expression to a write; key attributes cannot
// be updated (API Reference, UpdateItem).
func (w *write) prepareUpdate(u *update) error {
	for _, where := range u.paths() {
		if name := where[0].name; w.table.keys.has(name) {
			if len(where) > 1 {
				return invalid("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: %s", name)
			}
			return invalidParameter("Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	w.update = u
	return nil
}

// run carries the write out.
func (w *write) run(m *meter) (old, fresh *row, err error) {
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	old, fresh, err = w.plan()
	if err != nil {
		// A failed condition costs what the write would have cost the table
		// (Developer Guide, "Working with items and attributes").
		m.write(writeCost{table: writeUnits(max(sizeOfRow(old), sizeOfRow(w.fresh)))})
		return old, nil, err
	}
	m.write(t.replace(old, fresh))
	return old, fresh, nil
}
