package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Limits of the batch calls ("BatchWriteItem" and "BatchGetItem", DynamoDB API
// Reference, read 2026-11-30).
const (
	maxBatchWrites = 25
	maxBatchReads  = 100
	// MaxBatchBytes leaves room within 16 MB for base64, which makes payload
	// chunks a third larger on their way.
	maxBatchBytes = 11 << 20
)

// write is one item to be put, whatever is there.
type write struct {
	table string
	item  item
	size  int
}

func newWrite(table string, it item) write { return write{table, it, itemSize(it)} }

// place names a key of a table.
type place struct {
	table string
	key   key
}

func (w write) place() place { return place{w.table, keyOf(w.item)} }

// putAll puts items, each at least once, and answers by position. What the
// service hands back as unprocessed is tried again (C68). Of two items with one
// key the last is written, for both.
func (s *Store) putAll(ctx context.Context, writes []write) []error {
	at := make(map[place]int, len(writes)) // a batch must not name a key twice
	once := make([]write, 0, len(writes))
	of := make([]int, len(writes))
	for i, w := range writes {
		where := w.place()
		n, twice := at[where]
		if !twice {
			n, at[where] = len(once), len(once)
			once = append(once, w)
		}
		once[n], of[i] = w, n
	}
	done := retry.Each(ctx, s.repeatable(), len(once), func(ctx context.Context, positions []int) []error {
		todo := make([]write, len(positions))
		for n, p := range positions {
			todo[n] = once[p]
		}
		return s.putBatches(ctx, todo)
	})
	errs := make([]error, len(writes))
	for i, n := range of {
		errs[i] = done[n]
	}
	return errs
}

// putBatches puts each item once, in as few calls as there can be.
func (s *Store) putBatches(ctx context.Context, writes []write) []error {
	errs := make([]error, len(writes))
	var batches [][]int
	bytes := 0
	for i, w := range writes {
		if w.size > maxItemBytes {
			errs[i] = fail("PutItem", w.table, keyOf(w.item).String(), fmt.Errorf("%w: %d bytes, an item has at most %d", dlqbridge.ErrTooLarge, w.size, maxItemBytes))
			continue
		}
		full := len(batches) == 0 || len(batches[len(batches)-1]) == maxBatchWrites || bytes+w.size > maxBatchBytes
		if full {
			batches, bytes = append(batches, nil), 0
		}
		bytes += w.size
		batches[len(batches)-1] = append(batches[len(batches)-1], i)
	}
	s.parallel(len(batches), func(b int) { s.putBatch(ctx, writes, batches[b], errs) })
	return errs
}

// putBatch puts one batch and notes each item's error at its position.
func (s *Store) putBatch(ctx context.Context, writes []write, batch []int, errs []error) {
	if len(batch) == 1 {
		errs[batch[0]] = s.put(ctx, writes[batch[0]])
		return
	}
	request := map[string][]types.WriteRequest{}
	for _, i := range batch {
		w := writes[i]
		request[w.table] = append(request[w.table], types.WriteRequest{PutRequest: &types.PutRequest{Item: w.item}})
	}
	out, err := s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: request})
	if err = awserr.Wrap(err); err != nil {
		if permanent(err) {
			// One bad item, or a missing right on one table, refuses the whole
			// batch: alone, only the culprit fails.
			for _, i := range batch {
				errs[i] = s.put(ctx, writes[i])
			}
			return
		}
		for _, i := range batch {
			errs[i] = fail("BatchWriteItem", writes[i].table, keyOf(writes[i].item).String(), err)
		}
		return
	}
	for table, left := range out.UnprocessedItems {
		for _, r := range left {
			if r.PutRequest == nil {
				continue
			}
			back := place{table, keyOf(r.PutRequest.Item)}
			if n := slices.IndexFunc(batch, func(i int) bool { return writes[i].place() == back }); n >= 0 {
				errs[batch[n]] = fail("BatchWriteItem", table, back.key.String(), fmt.Errorf("%w: handed back as unprocessed", dlqbridge.ErrThrottled))
			}
		}
	}
}

func (s *Store) put(ctx context.Context, w write) error {
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(w.table), Item: w.item})
	return fail("PutItem", w.table, keyOf(w.item).String(), err)
}

// permanent says that the same call will fail again.
func permanent(err error) bool {
	for _, e := range []error{dlqbridge.ErrInvalid, dlqbridge.ErrTooLarge, dlqbridge.ErrDenied, dlqbridge.ErrNotFound} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// getAll reads items of the records table consistently. What does not exist or
// has expired is absent.
func (s *Store) getAll(ctx context.Context, keys []key) (map[key]item, error) {
	return s.getFrom(ctx, s.records, keys)
}

// getFrom is getAll for either table.
func (s *Store) getFrom(ctx context.Context, table string, keys []key) (map[key]item, error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b key) int { return slices.Compare([]string{a.pk, a.sk}, []string{b.pk, b.sk}) })
	keys = slices.Compact(keys) // a batch must not name a key twice
	batches := slices.Collect(slices.Chunk(keys, maxBatchReads))
	found := make([]map[key]item, len(batches))
	errs := make([]error, len(batches))
	s.parallel(len(batches), func(b int) { found[b], errs[b] = s.getBatch(ctx, table, batches[b]) })
	all := make(map[key]item, len(keys))
	for _, f := range found {
		maps.Copy(all, f)
	}
	return all, errors.Join(errs...)
}

// getBatch reads at most maxBatchReads keys.
func (s *Store) getBatch(ctx context.Context, table string, keys []key) (map[key]item, error) {
	found := make(map[key]item, len(keys))
	errs := retry.Each(ctx, s.repeatable(), len(keys), func(ctx context.Context, positions []int) []error {
		errs := make([]error, len(positions))
		request := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
		position := make(map[key]int, len(positions))
		for n, p := range positions {
			request.Keys = append(request.Keys, keys[p].attributes())
			position[keys[p]] = n
		}
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: request}})
		if err != nil {
			err = fail("BatchGetItem", table, fmt.Sprintf("%s and %d more", keys[positions[0]], len(positions)-1), err)
			for n := range errs {
				errs[n] = err
			}
			return errs
		}
		for _, it := range out.Responses[table] {
			if !s.gone(it) {
				found[keyOf(it)] = it
			}
		}
		for _, k := range out.UnprocessedKeys[table].Keys {
			if n, ok := position[keyOf(k)]; ok {
				errs[n] = fail("BatchGetItem", table, keyOf(k).String(), fmt.Errorf("%w: handed back as unprocessed", dlqbridge.ErrThrottled))
			}
		}
		return errs
	})
	for _, err := range errs {
		if err != nil {
			return nil, err // one stands for all: a reading that lacks something is none
		}
	}
	return found, nil
}

// get reads one item of the records table consistently; nil if there is none
// or it has expired.
func (s *Store) get(ctx context.Context, k key) (item, error) {
	var found item
	err := s.repeat(ctx, func(ctx context.Context) error {
		out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(s.records), Key: k.attributes(), ConsistentRead: aws.Bool(true)})
		if err != nil {
			return fail("GetItem", s.records, k.String(), err)
		}
		found = out.Item
		return nil
	})
	if err != nil || s.gone(found) {
		return nil, err
	}
	return found, nil
}

// query yields the items of one partition in key order, page by page.
func (s *Store) query(ctx context.Context, in dynamodb.QueryInput, yield func(item) bool) error {
	for {
		var out *dynamodb.QueryOutput
		err := s.repeat(ctx, func(ctx context.Context) error {
			var err error
			out, err = s.client.Query(ctx, &in)
			where := "partition"
			if in.IndexName != nil {
				where = "index " + *in.IndexName
			}
			return fail("Query", aws.ToString(in.TableName), where, err)
		})
		if err != nil {
			return err
		}
		for _, it := range out.Items {
			if !yield(it) {
				return nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// partition is the consistent query of a partition's items whose sort key
// begins with prefix (empty: all of them).
func partition(table, pk, prefix string) dynamodb.QueryInput {
	in := dynamodb.QueryInput{
		TableName: aws.String(table), ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK},
		ExpressionAttributeValues: item{":pk": text(pk)},
	}
	if prefix != "" {
		in.KeyConditionExpression = aws.String("#pk = :pk AND begins_with(#sk, :sk)")
		in.ExpressionAttributeNames["#sk"] = attrSK
		in.ExpressionAttributeValues[":sk"] = text(prefix)
	}
	return in
}
