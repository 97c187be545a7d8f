package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// maxBatch is what one call takes ("BatchGetItem", DynamoDB API Reference, read
// 2026-11-30).
const maxBatch = 100

// BatchGetter is what Outcomes needs of a DynamoDB client besides. One that has
// it not, or not the right to it, is asked with Ask.
type BatchGetter interface {
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

var _ dlqbridge.OutcomeStore = (*Reader)(nil)

// Outcomes implements dlqbridge.OutcomeStore: one consistent read of the headers
// of a hundred tasks, and no step of theirs.
func (r *Reader) Outcomes(ctx context.Context, questions []dlqbridge.Question) ([]*dlqbridge.Completion, error) {
	client, ok := r.o.Client.(BatchGetter)
	if !ok {
		return nil, errors.New("ledger: its client reads no batches")
	}
	byKey := map[string][]int{}
	var keys []string
	for i, q := range questions {
		key := r.o.Routes[q.Route].Prefix + q.TaskID
		if q.TaskID == "" || checkTaskKey(key) != nil {
			continue // there can be no entry under it
		}
		if byKey[key] == nil {
			keys = append(keys, key)
		}
		byKey[key] = append(byKey[key], i)
	}
	out := make([]*dlqbridge.Completion, len(questions))
	for len(keys) > 0 {
		chunk := keys[:min(maxBatch, len(keys))]
		keys = keys[len(chunk):]
		items, err := r.headers(ctx, client, chunk)
		if err != nil {
			return nil, fmt.Errorf("read ledger headers: %w", err)
		}
		for _, it := range items {
			h := item(it).header()
			for _, i := range byKey[item(it).text(KeyTask, maxHashKey)] {
				if q := questions[i]; !h.stranger(q) {
					out[i] = h.completion(q.Record)
				}
			}
		}
	}
	return out, nil
}

// stranger says whether the header may be of somebody else's work under the same
// id: it names another tenant, and not the record either. Whoever asks in full
// weighs that with what else is known.
func (h Header) stranger(q dlqbridge.Question) bool {
	return h.Tenant != "" && q.Tenant != "" && dlqbridge.Short(h.Tenant) != dlqbridge.Short(q.Tenant) && (h.RedriveRecord == "" || h.RedriveRecord != q.Record)
}

// headers reads the headers of up to a hundred tasks.
func (r *Reader) headers(ctx context.Context, client BatchGetter, keys []string) ([]map[string]types.AttributeValue, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	ask := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, k := range keys {
		ask.Keys = append(ask.Keys, map[string]types.AttributeValue{KeyTask: str(k), KeyEntry: str(EntryHeader)})
	}
	policy := r.retry
	policy.Repeatable = true // a read
	var items []map[string]types.AttributeValue
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		out, err := client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{r.o.Table: ask}})
		if err != nil {
			return awserr.Wrap(err)
		}
		items = append(items, out.Responses[r.o.Table]...)
		if left, ok := out.UnprocessedKeys[r.o.Table]; ok && len(left.Keys) > 0 {
			ask.Keys = left.Keys
			return fmt.Errorf("%w: %d headers were handed back as unprocessed", dlqbridge.ErrThrottled, len(left.Keys))
		}
		return nil
	})
	return items, err
}

// completion is who completed the task as far as the header says; nil is nobody.
func (h Header) completion(record string) *dlqbridge.Completion {
	if h.Status != TaskCompleted {
		return nil
	}
	return &dlqbridge.Completion{Store: StoreName, Run: h.RunID, At: h.UpdatedAt, RedriveN: h.redriveOf(record)}
}
