package dynamodb

import (
	"strconv"
)

// pageRead is a checked Query or Scan: which rows, in which order, and what
// becomes of them.
type pageRead struct {
	table    *table
	index    *index // nil reads the table itself
	in       span
	backward bool
	only     func(key string) bool // nil, or which row keys belong to a scan's segment

	filter     condition
	wanted     *projection
	countOnly  bool
	fetch      bool // the whole item from the table behind a local index
	limit      int
	consistent bool
}

func (s *Service) query(body []byte) ([]byte, error) {
	q, err := readRequest(body, queryMembers)
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if q.keyCondition == nil {
		return nil, invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	binds, err := q.bindings("FilterExpression and KeyConditionExpression are", q.keyCondition, q.filter, q.projection)
	if err != nil {
		return nil, err
	}
	read, filtered, err := q.pageRead(binds)
	if err != nil {
		return nil, err
	}
	where, _, err := parseCondition("KeyConditionExpression", *q.keyCondition, binds)
	if err != nil {
		return nil, err
	}
	if err := binds.allUsed(); err != nil {
		return nil, err
	}
	if err := s.locate(q, read); err != nil {
		return nil, err
	}
	keys := read.keys()
	asked, err := keyRangeOf(where, keys)
	if err != nil {
		return nil, err
	}
	for _, name := range filtered {
		if keys.has(name) {
			return nil, invalid("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
		}
	}
	read.in, read.backward = asked.span(keys), q.backward
	if q.start != nil {
		at, err := read.startKey(q.start)
		if err != nil {
			return nil, err
		}
		if !prefixed(string(keys.partition(asked.hash))).holds(at) {
			return nil, invalid("The provided starting key is outside query boundaries based on provided conditions")
		}
		if !read.in.holds(at) {
			return nil, invalid("The provided starting key does not match the range key predicate")
		}
		read.in = read.in.after(at, q.backward)
	}
	return s.page(q, read), nil
}

func (s *Service) scan(body []byte) ([]byte, error) {
	q, err := readRequest(body, scanMembers)
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	segment, err := q.scanSegment()
	if err != nil {
		return nil, err
	}
	binds, err := q.bindings("FilterExpression is", q.filter, q.projection)
	if err != nil {
		return nil, err
	}
	read, _, err := q.pageRead(binds)
	if err != nil {
		return nil, err
	}
	if err := binds.allUsed(); err != nil {
		return nil, err
	}
	if err := s.locate(q, read); err != nil {
		return nil, err
	}
	read.only = segment
	if q.start != nil {
		at, err := read.startKey(q.start)
		if err != nil {
			return nil, err
		}
		if segment != nil && !segment(at) {
			return nil, invalid("The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", *q.segments, *q.segment)
		}
		read.in = read.in.after(at, false)
	}
	return s.page(q, read), nil
}

// scanSegment tells which row keys belong to the segment of a parallel scan:
// row keys start with a hash of the partition, and segments share out its first
// two bytes.
func (q *request) scanSegment() (func(key string) bool, error) {
	switch {
	case q.segment == nil && q.segments == nil:
		return nil, nil
	case q.segments == nil:
		return nil, invalid("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case q.segment == nil:
		return nil, invalid("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case *q.segments < 1:
		return nil, constraint(strconv.Itoa(*q.segments), "totalSegments", "Member must have value greater than or equal to 1")
	case *q.segments > 1_000_000: // API Reference, Scan
		return nil, constraint(strconv.Itoa(*q.segments), "totalSegments", "Member must have value less than or equal to 1000000")
	case *q.segment < 0:
		return nil, constraint(strconv.Itoa(*q.segment), "segment", "Member must have value greater than or equal to 0")
	case *q.segment >= *q.segments:
		return nil, invalid("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", *q.segment, *q.segments)
	}
	segment, segments := *q.segment, *q.segments
	return func(key string) bool {
		return (int(key[0])<<8|int(key[1]))*segments>>16 == segment
	}, nil
}

// pageRead parses what Query and Scan have in common. It tells which
// attributes the filter mentions.
func (q *request) pageRead(binds *bindings) (read *pageRead, filtered []string, err error) {
	read = &pageRead{backward: q.backward, consistent: q.consistent, countOnly: q.selected == "COUNT"}
	if q.filter != nil {
		if read.filter, filtered, err = parseCondition("FilterExpression", *q.filter, binds); err != nil {
			return nil, nil, err
		}
	}
	if q.projection != nil {
		if read.wanted, err = parseProjection(*q.projection, binds); err != nil {
			return nil, nil, err
		}
	}
	if q.limit != nil {
		read.limit = *q.limit
	}
	switch {
	case q.selected == "SPECIFIC_ATTRIBUTES" && q.projection == nil:
		return nil, nil, invalid("One or more parameter values were invalid: SPECIFIC_ATTRIBUTES requires a ProjectionExpression")
	case q.selected != "" && q.selected != "SPECIFIC_ATTRIBUTES" && q.projection != nil:
		return nil, nil, invalid("Cannot specify the ProjectionExpression when choosing to get %s", q.selected)
	case q.selected == "ALL_PROJECTED_ATTRIBUTES" && q.index == "":
		return nil, nil, invalid("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return read, filtered, nil
}

// locate finds table and index and checks what only they can tell.
func (s *Service) locate(q *request, read *pageRead) (err error) {
	if read.table, err = s.table(q.table); err != nil || q.index == "" {
		return err
	}
	i := read.table.index(q.index)
	if i == nil {
		return invalid("The table does not have the specified index: %s", q.index)
	}
	read.index = i
	if i.local {
		read.fetch = q.selected == "ALL_ATTRIBUTES"
		return nil
	}
	switch {
	case q.consistent:
		return invalid("Consistent reads are not supported on global secondary indexes")
	case i.covers == nil:
		return nil
	case q.selected == "ALL_ATTRIBUTES":
		return invalidParameter("Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", i.IndexName)
	case read.wanted != nil:
		for name := range read.wanted.names {
			if i.covers.names[name] == nil {
				return invalidParameter("Global secondary index %s does not project [%s]", i.IndexName, name)
			}
		}
	}
	return nil
}

func (r *pageRead) keys() schema {
	if r.index != nil {
		return r.index.keys
	}
	return r.table.keys
}

// positionKeys are the attributes that name a row's place: the index's keys
// and the table's.
func (r *pageRead) positionKeys(item Item) Item {
	key := r.table.keys.key(item)
	if r.index != nil {
		for _, part := range r.index.keys.parts() {
			key[part.name] = item[part.name]
		}
	}
	return key
}

// startKey is the row key that an ExclusiveStartKey stands for.
func (r *pageRead) startKey(start Item) (string, error) {
	parts := r.table.keys.parts()
	if r.index != nil {
		parts = append(parts, r.index.keys.parts()...)
	}
	names := map[string]bool{}
	for _, part := range parts {
		names[part.name] = true
		if v, ok := start[part.name]; !ok || v.kind() != part.kind {
			return "", invalid("The provided starting key is invalid")
		}
	}
	if len(names) != len(start) {
		return "", invalid("The provided starting key is invalid")
	}
	if err := r.table.keys.checkSizes(start); err != nil {
		return "", err
	}
	if r.index == nil {
		return r.table.keys.rowKey(start), nil
	}
	key, _ := r.index.entryKey(r.table, start)
	return key, nil
}

// holds tells whether the key lies in the span.
func (s span) holds(key string) bool { return key >= s.low && (s.high == "" || key < s.high) }

// after is the part of the span that is read after the row with the key.
func (s span) after(key string, backward bool) span {
	if backward {
		return span{s.low, key}
	}
	return span{key + "\x00", s.high}
}

// page reads one page and writes the answer. Units are paid for what is read,
// not for what the filter lets through.
func (s *Service) page(q *request, read *pageRead) []byte {
	p := read.page()
	m := &meter{table: read.table.TableName}
	switch cost := readHalves(p.bytes, q.consistent); {
	case read.index != nil:
		m.index(indexCost{read.index.IndexName, read.index.local, cost})
	default:
		m.halves = cost
	}
	s.units.add(m)
	a := newAnswer()
	if !read.countOnly {
		a.items("Items", p.items)
	}
	a.integer("Count", p.count)
	a.integer("ScannedCount", p.scanned)
	if p.last != nil {
		a.item("LastEvaluatedKey", p.last)
	}
	a.capacity(q.returnCapacity, m)
	return a.bytes()
}

// page is what one read found.
type page struct {
	items          []Item
	count, scanned int
	bytes          int
	last           Item // where the next page starts; nil when there is none
}

func (r *pageRead) page() page {
	t := r.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	rows := &t.rows
	if r.index != nil {
		rows = &r.index.rows
	}
	var p page
	var before *row
	for at := range rows.rows(r.in, r.backward) {
		if r.only != nil && !r.only(at.key) {
			continue
		}
		// A page is full at 1 MB, whatever the filter drops, and holds at least
		// one item (Developer Guide, "Paginating table query results").
		if before != nil && p.bytes+at.size > maxPageBytes {
			p.last = r.positionKeys(before.item)
			break
		}
		p.bytes += at.size
		p.scanned++
		before = at
		p.take(r, at.item)
		// A page that fills Limit exactly has a LastEvaluatedKey even when
		// nothing comes after it: the service does not look ahead.
		if p.scanned == r.limit {
			p.last = r.positionKeys(at.item)
			break
		}
	}
	return p
}

func (p *page) take(r *pageRead, item Item) {
	if r.index != nil && r.index.local && (r.fetch || r.wanted != nil) {
		item = r.table.rows.get(r.table.keys.rowKey(item)).item
	}
	if r.filter != nil && !r.filter.holds(item) {
		return
	}
	p.count++
	if !r.countOnly {
		p.items = append(p.items, r.wanted.of(item))
	}
}
