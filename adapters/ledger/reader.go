package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Querier is what the reader needs of a DynamoDB client.
type Querier interface {
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Defaults of ReaderOptions, each with its reason.
const (
	// DefaultParallel keeps one batch of ten letters in one round.
	DefaultParallel = 10
	// DefaultTimeout is long for a query and short for the thirty seconds that
	// a received letter is invisible by default.
	DefaultTimeout = 5 * time.Second
)

// ReaderOptions are the choices of a Reader.
type ReaderOptions struct {
	// Client and Table are required.
	Client Querier
	Table  string
	// Routes says what is different for a route; one that is not there has no
	// prefix and DefaultMaxRun.
	Routes map[string]RouteOptions
	// Parallel is how many tasks are asked for at once; 0 means DefaultParallel.
	Parallel int
	// Timeout is how long one task's answer may take, retries included; 0
	// means DefaultTimeout.
	Timeout time.Duration
}

// RouteOptions is what the ledger must know about a route.
type RouteOptions struct {
	// Prefix stands before the task id in the table's key, with its separator
	// ("billing/"), so that routes whose ids are not unique can share a table.
	Prefix string
	// MaxRun is how long after its last sign of life a run without a lease may
	// still be going; 0 means DefaultMaxRun.
	MaxRun time.Duration
}

// Reader reads the ledger as a store of findings. It may be used concurrently.
type Reader struct {
	o     ReaderOptions
	retry retry.Policy
}

var _ dlqbridge.Store = (*Reader)(nil)

// NewReader returns a Reader; an error names the option that is missing.
func NewReader(o ReaderOptions) (*Reader, error) {
	switch {
	case o.Client == nil:
		return nil, errors.New("ledger: Client is required")
	case o.Table == "":
		return nil, errors.New("ledger: Table is required")
	}
	if o.Parallel <= 0 {
		o.Parallel = DefaultParallel
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return &Reader{o, retryPolicy(o.Client)}, nil
}

// Name implements dlqbridge.Store.
func (*Reader) Name() string { return StoreName }

// Ask implements dlqbridge.Store: one consistent query per task, all its
// pages. Questions about the same task are asked once.
func (r *Reader) Ask(ctx context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	answers := make([]dlqbridge.Testimony, len(questions))
	type subject struct{ route, task string }
	same := map[subject][]int{}
	var order []subject
	for i, q := range questions {
		s := subject{q.Route, q.TaskID}
		if _, seen := same[s]; !seen {
			order = append(order, s)
		}
		same[s] = append(same[s], i)
	}
	slots := make(chan struct{}, r.o.Parallel)
	var wg sync.WaitGroup
	for _, s := range order {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found, unavailable := r.read(ctx, s.route, s.task)
			for _, i := range same[s] {
				if unavailable != "" {
					answers[i] = dlqbridge.Testimony{Store: StoreName, Unavailable: unavailable}
					continue
				}
				answers[i] = found.testify(questions[i], r.maxRun(s.route))
			}
		})
	}
	wg.Wait()
	return answers
}

func (r *Reader) maxRun(route string) time.Duration {
	if d := r.o.Routes[route].MaxRun; d > 0 {
		return d
	}
	return DefaultMaxRun
}

// read reads one task. A key that the table cannot have is no failure: there
// can be no entry under it.
func (r *Reader) read(ctx context.Context, route, task string) (found rows, unavailable string) {
	key := r.o.Routes[route].Prefix + task
	if task == "" || checkTaskKey(key) != nil {
		return rows{}, ""
	}
	bounded, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	items, err := queryTask(bounded, r.o.Client, r.retry, r.o.Table, key)
	switch {
	case err == nil:
		return decodeRows(items), ""
	case ctx.Err() != nil:
		return rows{}, "stopped before the ledger answered"
	case bounded.Err() != nil:
		return rows{}, fmt.Sprintf("no answer within %s", r.o.Timeout)
	}
	return rows{}, r.meaning(err)
}

// meaning is a sentence for the person who wonders why the ledger is silent.
func (r *Reader) meaning(err error) string {
	switch {
	case errors.Is(err, dlqbridge.ErrThrottled):
		return "throttled"
	case errors.Is(err, dlqbridge.ErrDenied):
		return "denied: needs dynamodb:Query on table " + r.o.Table
	case errors.Is(err, dlqbridge.ErrNotFound):
		return fmt.Sprintf("table %s does not exist", r.o.Table)
	case errors.Is(err, dlqbridge.ErrCredentials):
		return "credentials missing or expired"
	case errors.Is(err, dlqbridge.ErrInvalid):
		return fmt.Sprintf("table %s does not take the query: are its keys %s and %s, both strings?", r.o.Table, KeyTask, KeyEntry)
	}
	return "cannot be reached"
}

// queryTask reads all rows of a task, consistently: what was written before
// the letter died must be seen.
func queryTask(ctx context.Context, client Querier, policy retry.Policy, table, key string) ([]map[string]types.AttributeValue, error) {
	var items []map[string]types.AttributeValue
	in := &dynamodb.QueryInput{
		TableName:                 aws.String(table),
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("#k = :k"),
		ExpressionAttributeNames:  map[string]string{"#k": KeyTask},
		ExpressionAttributeValues: map[string]types.AttributeValue{":k": str(key)},
	}
	policy.Repeatable = true // a read
	for {
		var out *dynamodb.QueryOutput
		err := retry.Do(ctx, policy, func(ctx context.Context) error {
			var err error
			out, err = client.Query(ctx, in)
			return awserr.Wrap(err)
		})
		if err != nil {
			return nil, fmt.Errorf("query ledger entries: %w", err)
		}
		items = append(items, out.Items...)
		if len(out.LastEvaluatedKey) == 0 {
			return items, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// retryPolicy is how calls are tried again. Credentials that expire are asked
// for anew where the client says where it has them from, as the SDK's does.
func retryPolicy(client any) retry.Policy {
	c, ok := client.(interface{ Options() dynamodb.Options })
	if !ok {
		return retry.Policy{}
	}
	return retry.Policy{Renew: awserr.Renew(c.Options().Credentials)}
}
