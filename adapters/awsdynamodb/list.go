package awsdynamodb

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
)

const (
	// FewPartitions is how many index partitions are asked one by one at once;
	// for more, one page of the whole index is tried first.
	fewPartitions = 64
	// HeldItems bounds what the pages of all partitions hold together in
	// memory: some 8 MB.
	heldItems = 4096
	// MinPage and maxPage bound one page of one partition.
	minPage, maxPage = 4, 250
)

// List implements dlqbridge.WorkIndex. It reads the index partition of each
// route, cause, status and shard that the filter allows and merges them; where
// those are many and the records few, it reads the index in one page instead.
// Memory does not grow with the number of records.
func (s *Store) List(ctx context.Context, f dlqbridge.Filter) iter.Seq2[dlqbridge.Listed, error] {
	return func(yield func(dlqbridge.Listed, error) bool) {
		var err error
		switch {
		case f.Closed:
			err = s.listAll(ctx, f, yield)
		default:
			err = s.listOpen(ctx, f, yield)
		}
		if err != nil {
			yield(dlqbridge.Listed{}, fmt.Errorf("list records: %w", err))
		}
	}
}

type yieldFunc = func(dlqbridge.Listed, error) bool

func (s *Store) listOpen(ctx context.Context, f dlqbridge.Filter, yield yieldFunc) error {
	after, err := readPosition(positionWork, f.After)
	if err != nil {
		return err
	}
	routes, shards, err := s.registry(ctx)
	if err != nil {
		return err
	}
	if len(f.Routes) > 0 {
		routes = f.Routes
	}
	m := &merge{store: s, filter: f, bySignature: f.Signature != ""}
	var pks []string
	if m.bySignature {
		for shard := range shards {
			pks = append(pks, signaturePK(f.Signature, shard))
		}
	} else {
		pks = workPartitions(f, routes, shards)
	}
	if len(pks) > fewPartitions {
		done, err := s.listPage(ctx, f, after, yield)
		if done || err != nil {
			return err
		}
	}
	return m.run(ctx, pks, after, yield)
}

// workPartitions lists the index partitions that a filter allows.
func workPartitions(f dlqbridge.Filter, routes []string, shards int) []string {
	causes, statuses := f.Causes, f.Status
	if len(causes) == 0 {
		causes = dlqbridge.Causes()
	}
	if len(statuses) == 0 {
		statuses = dlqbridge.OpenStatuses()
	}
	seen := map[string]bool{}
	var pks []string
	for _, route := range routes {
		for _, cause := range causes {
			if f.Lane != "" && dlqbridge.DefaultCausePolicy(cause).Lane != f.Lane {
				continue
			}
			for _, status := range statuses {
				for shard := range shards {
					pk := workPK(route, workCause(cause), workStatus(status), shard)
					if !status.Closed() && !seen[pk] {
						seen[pk] = true
						pks = append(pks, pk)
					}
				}
			}
		}
	}
	return pks
}

// listPage lists from one page of the whole index. It says false, and has
// yielded nothing, if the index does not fit into one.
func (s *Store) listPage(ctx context.Context, f dlqbridge.Filter, after string, yield yieldFunc) (done bool, err error) {
	var out *dynamodb.ScanOutput
	err = s.repeat(ctx, func(ctx context.Context) error {
		var err error
		out, err = s.client.Scan(ctx, &dynamodb.ScanInput{TableName: aws.String(s.records), IndexName: aws.String(indexWork)})
		return fail("Scan", s.records, "index "+indexWork, err)
	})
	if err != nil || len(out.LastEvaluatedKey) > 0 {
		return false, err
	}
	items := slices.DeleteFunc(out.Items, func(it item) bool {
		_, _, _, open := parseWorkPK(textOf(it, attrWorkPK))
		return !open || s.gone(it) || textOf(it, attrWorkSK) <= after
	})
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(textOf(a, attrWorkSK), textOf(b, attrWorkSK)) })
	controls, err := s.decodeAll(ctx, items)
	if err != nil {
		return false, err
	}
	for i, c := range controls {
		if f.Matches(c) && !yield(dlqbridge.Listed{Control: c, Next: writePosition(positionWork, textOf(items[i], attrWorkSK))}, nil) {
			return true, nil
		}
	}
	return true, nil
}

// merge reads many partitions of one index as one list in sort key order.
type merge struct {
	store       *Store
	filter      dlqbridge.Filter
	bySignature bool
	page        int32
	cursors     []*cursor // a heap: the one with the nearest record first
}

// cursor is one partition with the rest of the page read last.
type cursor struct {
	query dynamodb.QueryInput
	rows  []row
	ended bool
}

type row struct {
	sk      string
	control dlqbridge.Control
}

func (m *merge) run(ctx context.Context, pks []string, after string, yield yieldFunc) error {
	m.page = pageOf(len(pks))
	all := make([]*cursor, len(pks))
	errs := make([]error, len(pks))
	m.store.parallel(len(pks), func(i int) {
		all[i] = &cursor{query: m.query(pks[i], after)}
		errs[i] = m.fill(ctx, all[i])
	})
	for i, err := range errs {
		if err != nil {
			return err
		}
		if len(all[i].rows) > 0 {
			m.cursors = append(m.cursors, all[i])
		}
	}
	heap.Init(m)
	m.page = pageOf(len(m.cursors)) // most partitions are empty: the others get their share
	for len(m.cursors) > 0 {
		first := m.cursors[0]
		next := first.rows[0]
		first.rows = first.rows[1:]
		if m.filter.Matches(next.control) && !yield(dlqbridge.Listed{Control: next.control, Next: writePosition(positionWork, next.sk)}, nil) {
			return nil
		}
		if len(first.rows) == 0 {
			if err := m.fill(ctx, first); err != nil {
				return err
			}
		}
		if len(first.rows) == 0 {
			heap.Pop(m)
		} else {
			heap.Fix(m, 0)
		}
	}
	return nil
}

// pageOf is the page of each of so many partitions.
func pageOf(partitions int) int32 {
	return int32(min(max(heldItems/max(partitions, 1), minPage), maxPage))
}

// query reads one partition behind a sort key. A filter for near deadlines
// bounds it from above, so that nothing else is read.
func (m *merge) query(pk, after string) dynamodb.QueryInput {
	index, attrP, attrS := indexWork, attrWorkPK, attrWorkSK
	if m.bySignature {
		index, attrP, attrS = indexSignature, attrSigPK, attrSigSK
	}
	in := dynamodb.QueryInput{
		TableName: aws.String(m.store.records), IndexName: aws.String(index), Limit: aws.Int32(m.page),
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrP},
		ExpressionAttributeValues: item{":pk": text(pk)},
	}
	switch near := m.filter.NearDeadline; {
	case near > 0:
		// "$" is the character behind "#", which follows the time. The lower
		// bound is inclusive; fill drops the one at it.
		upper := "D#" + keyTime(m.filter.Now.Add(near)) + "$"
		if after >= upper {
			after = upper
		}
		in.KeyConditionExpression = aws.String("#pk = :pk AND #sk BETWEEN :after AND :upper")
		in.ExpressionAttributeNames["#sk"] = attrS
		in.ExpressionAttributeValues[":after"] = text(max(after, "D#"))
		in.ExpressionAttributeValues[":upper"] = text(upper)
	case after != "":
		in.KeyConditionExpression = aws.String("#pk = :pk AND #sk > :after")
		in.ExpressionAttributeNames["#sk"] = attrS
		in.ExpressionAttributeValues[":after"] = text(after)
	}
	return in
}

// fill reads pages of a partition until there is a row or the partition ends.
func (m *merge) fill(ctx context.Context, c *cursor) error {
	c.rows = nil
	c.query.Limit = aws.Int32(m.page)
	for len(c.rows) == 0 && !c.ended {
		var out *dynamodb.QueryOutput
		err := m.store.repeat(ctx, func(ctx context.Context) error {
			var err error
			out, err = m.store.client.Query(ctx, &c.query)
			return fail("Query", m.store.records, "index "+aws.ToString(c.query.IndexName), err)
		})
		if err != nil {
			return err
		}
		c.ended = len(out.LastEvaluatedKey) == 0
		c.query.ExclusiveStartKey = out.LastEvaluatedKey
		if c.rows, err = m.rows(ctx, out.Items, c); err != nil {
			return err
		}
	}
	return nil
}

// rows are the records of one page. The signature index holds keys only, so
// the records are read from the table.
func (m *merge) rows(ctx context.Context, items []item, c *cursor) ([]row, error) {
	attrS := attrWorkSK
	if m.bySignature {
		attrS = attrSigSK
	}
	var after string
	if m.filter.NearDeadline > 0 {
		after = textOf(c.query.ExpressionAttributeValues, ":after")
	}
	sks := map[key]string{}
	kept := make([]item, 0, len(items))
	keys := make([]key, 0, len(items))
	for _, it := range items {
		if sk := textOf(it, attrS); sk > after && !m.store.gone(it) {
			sks[keyOf(it)] = sk
			kept, keys = append(kept, it), append(keys, keyOf(it))
		}
	}
	if m.bySignature {
		found, err := m.store.getAll(ctx, keys)
		if err != nil {
			return nil, err
		}
		kept = kept[:0]
		for _, k := range keys {
			if it := found[k]; it != nil {
				kept = append(kept, it)
			}
		}
	}
	controls, err := m.store.decodeAll(ctx, kept)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(controls))
	for i, ctl := range controls {
		rows[i] = row{sks[keyOf(kept[i])], ctl}
	}
	return rows, nil
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *merge) Len() int           { return len(m.cursors) }
func (m *merge) Less(i, j int) bool { return m.cursors[i].rows[0].sk < m.cursors[j].rows[0].sk }
func (m *merge) Swap(i, j int)      { m.cursors[i], m.cursors[j] = m.cursors[j], m.cursors[i] }

// Push implements heap.Interface.
func (m *merge) Push(x any) { m.cursors = append(m.cursors, x.(*cursor)) } //nolint:forcetypeassert // only cursors are pushed

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	last := m.cursors[len(m.cursors)-1]
	m.cursors = m.cursors[:len(m.cursors)-1]
	return last
}

// sortedRecords is how many records a list with closed ones keeps in memory
// while it brings the table into order of ids: some 30 MB. A table with more
// of them is read once for each so many.
const sortedRecords = 20_000

// listAll reads the whole table, which stands in no order of use, and yields
// what the filter selects in order of ids.
func (s *Store) listAll(ctx context.Context, f dlqbridge.Filter, yield yieldFunc) error {
	after, err := readPosition(positionID, f.After)
	if err != nil {
		return err
	}
	for {
		records, more, err := s.lowest(ctx, f, after, sortedRecords)
		if err != nil {
			return err
		}
		for _, c := range records {
			after = c.ID
			if !yield(dlqbridge.Listed{Control: c, Next: writePosition(positionID, after)}, nil) {
				return nil
			}
		}
		if !more {
			return nil
		}
	}
}

// lowest returns the selected records with the lowest ids above after, at most
// n of them, and whether there are more.
func (s *Store) lowest(ctx context.Context, f dlqbridge.Filter, after string, n int) (list []dlqbridge.Control, more bool, err error) {
	cut := func() {
		slices.SortFunc(list, func(a, b dlqbridge.Control) int { return strings.Compare(a.ID, b.ID) })
		if len(list) > n {
			list, more = slices.Delete(list, n, len(list)), true
		}
	}
	in := dynamodb.ScanInput{
		TableName: aws.String(s.records), FilterExpression: aws.String("#sk = :control"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeNames: map[string]string{"#sk": attrSK}, ExpressionAttributeValues: item{":control": text(skControl)},
	}
	for {
		var out *dynamodb.ScanOutput
		err := s.repeat(ctx, func(ctx context.Context) error {
			var err error
			out, err = s.client.Scan(ctx, &in)
			return fail("Scan", s.records, "all records", err)
		})
		if err != nil {
			return nil, false, err
		}
		items := slices.DeleteFunc(out.Items, func(it item) bool {
			return s.gone(it) || strings.TrimPrefix(textOf(it, attrPK), "R#") <= after
		})
		controls, err := s.decodeAll(ctx, items)
		if err != nil {
			return nil, false, err
		}
		for _, c := range controls {
			if f.Matches(c) {
				list = append(list, c)
			}
		}
		if len(list) > 2*n {
			cut()
		}
		if len(out.LastEvaluatedKey) == 0 {
			cut()
			return list, more, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
