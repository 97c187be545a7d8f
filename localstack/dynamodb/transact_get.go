package dynamodb

func readTransactGet(t *transactRequest, r *reader, name string) error {
	if name != "Get" {
		return notServed("the parameter " + name + " of a transaction")
	}
	q := &request{}
	err := q.read(r, []string{"TableName", "Key", "ProjectionExpression", "ExpressionAttributeNames"})
	if err == nil && q.key == nil {
		err = required("transactItems.member.get.key")
	}
	t.gets = append(t.gets, q)
	return err
}

func (s *Service) transactGet(body []byte) ([]byte, error) {
	request, err := readTransaction(body, []string{"TransactItems", "ReturnConsumedCapacity"}, readTransactGet)
	if err != nil {
		return nil, err
	}
	wanted := make([]*projection, len(request.gets))
	for i, q := range request.gets {
		if err := q.check(); err != nil {
			return nil, err
		}
		if wanted[i], err = q.projected(); err != nil {
			return nil, err
		}
	}
	tables, err := s.takePart(len(request.gets), func(i int) string { return request.gets[i].table })
	if err != nil {
		return nil, err
	}
	rows, err := request.snapshot(tables)
	if err != nil {
		return nil, err
	}
	var meters []*meter
	byTable := map[*table]*meter{}
	a := newAnswer()
	a.name("Responses")
	a.buf = append(a.buf, '[')
	for i, r := range rows {
		m := byTable[tables[i]]
		if m == nil {
			m = &meter{table: tables[i].TableName}
			byTable[tables[i]] = m
			meters = append(meters, m)
		}
		m.halves += 2 * readHalves(sizeOfRow(r), true)
		if i > 0 {
			a.buf = append(a.buf, ',')
		}
		a.buf = append(a.buf, '{')
		if r != nil {
			a.item("Item", wanted[i].of(r.item))
		}
		a.buf = append(a.buf, '}')
	}
	a.buf = append(a.buf, ']')
	for _, m := range meters {
		s.units.add(m)
	}
	a.capacities(request.returnCapacity, meters)
	return a.bytes(), nil
}

// snapshot reads all rows at one moment.
func (t *transactRequest) snapshot(tables []*table) ([]*row, error) {
	rows := make([]*row, len(tables))
	seen := map[*table]map[string]bool{}
	for _, part := range inOrder(tables) {
		seen[part] = map[string]bool{}
		part.mu.RLock()
		defer part.mu.RUnlock()
	}
	total := 0
	for i, part := range tables {
		key := t.gets[i].key
		if err := part.keys.checkKey(key); err != nil {
			return nil, err
		}
		rowKey := part.keys.rowKey(key)
		if seen[part][rowKey] {
			return nil, invalid("Transaction request cannot include multiple operations on one item")
		}
		seen[part][rowKey] = true
		rows[i] = part.rows.get(rowKey)
		total += sizeOfRow(rows[i])
	}
	if total > maxTransactionBytes {
		return nil, invalid("Collection size exceeded: the items of the transaction are more than 4 MB")
	}
	return rows, nil
}
