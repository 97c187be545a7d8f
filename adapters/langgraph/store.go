package langgraph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// DefaultName is the store's name where none is given.
const DefaultName = "langgraph"

// Bounds of what is read about one thread, each with its reason.
const (
	// Each visit of a subgraph has a namespace of its own, and
	// only the newest can be in doubt. What is left out stays unknown.
	maxNamespaces = 20
	// How far back a checkpoint with its payload is looked for:
	// a crash leaves one without.
	maxCheckpoints = 10
	// How many nodes of all namespaces are told.
	maxTasks = 150
	// DynamoDB's bound, in bytes ("Quotas and limits in Amazon
	// DynamoDB", read 2026-11-30).
	maxHashKey = 2048
)

// Client is what the store needs of a DynamoDB client.
type Client interface {
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

// Options are the choices of a Store.
type Options struct {
	// Client and Table are required.
	Client Client
	Table  string
	// Name is the store's name on findings; empty means DefaultName.
	Name string
	// Thread is a task's thread id, with {taskId}, {runId}, {idempotencyKey} or
	// {tenant} in it; empty means "{runId}".
	Thread string
	// Mutating names the nodes that change something outside; nil means every
	// node, an empty list none. A task that does not say its node counts always.
	Mutating []string
	// Parallel and Timeout are as in awsread.Asking; 0 means its defaults.
	Parallel int
	Timeout  time.Duration
}

// Store reads checkpoints. It may be used concurrently.
type Store struct {
	o      Options
	asking awsread.Asking
	retry  retry.Policy
}

var _ dlqbridge.Store = (*Store)(nil)

var placeholders = []string{"{taskId}", "{runId}", "{idempotencyKey}", "{tenant}"}

// New returns a Store; an error names the option that is missing or wrong.
func New(o Options) (*Store, error) {
	o.Name, o.Thread = cmp.Or(o.Name, DefaultName), cmp.Or(o.Thread, "{runId}")
	rest := o.Thread
	for _, p := range placeholders {
		rest = strings.ReplaceAll(rest, p, "")
	}
	switch {
	case o.Client == nil:
		return nil, errors.New("langgraph: Client is required")
	case o.Table == "":
		return nil, errors.New("langgraph: Table is required")
	case strings.ContainsAny(rest, "{}"):
		return nil, fmt.Errorf("langgraph: Thread %q: only %s can stand in it", o.Thread, strings.Join(placeholders, ", "))
	case rest == o.Thread:
		return nil, fmt.Errorf("langgraph: Thread %q is the same for each task: put {runId} or {taskId} in it", o.Thread)
	case slices.Contains(o.Mutating, ""):
		return nil, errors.New("langgraph: Mutating names an empty node")
	}
	place := "table " + o.Table
	return &Store{o: o, retry: awsread.TablePolicy(o.Client), asking: awsread.Asking{
		Store: o.Name, Place: place, Needs: "dynamodb:Query and dynamodb:GetItem on " + place,
		Refused: "are its keys PK and SK, both strings?", Parallel: o.Parallel, Timeout: o.Timeout,
	}}, nil
}

// Name implements dlqbridge.Store.
func (s *Store) Name() string { return s.o.Name }

// Ask implements dlqbridge.Store: for each task the latest checkpoints, whether
// their payloads are there, and their pending writes.
func (s *Store) Ask(ctx context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	return s.asking.Ask(ctx, questions, s.read)
}

// thread is the task's thread id; empty if the task lacks what it is made of.
func (s *Store) thread(q dlqbridge.Question) string {
	values := map[string]string{"{taskId}": q.TaskID, "{runId}": q.RunID, "{idempotencyKey}": q.IdempotencyKey, "{tenant}": q.Tenant}
	var pairs []string
	for _, p := range placeholders {
		if strings.Contains(s.o.Thread, p) && values[p] == "" {
			return ""
		}
		pairs = append(pairs, p, values[p])
	}
	return strings.NewReplacer(pairs...).Replace(s.o.Thread)
}

func (s *Store) read(ctx context.Context, q dlqbridge.Question) (dlqbridge.Testimony, error) {
	thread := s.thread(q)
	if thread == "" {
		return s.silence(q, "no thread: the task has not all of "+s.o.Thread), nil
	}
	if len(checkpointHash(thread)) > maxHashKey {
		return s.silence(q, "no thread: its id is longer than any key"), nil
	}
	var k known
	var err error
	// The root graph's namespace is empty, so its keys begin with #.
	if k.root, err = s.checkpoints(ctx, thread, "#", maxCheckpoints); err != nil {
		return dlqbridge.Testimony{}, err
	}
	for _, c := range k.root {
		if c.location != inDynamoDB || expired(c.expires, q.Now) {
			// The saver may still find this one. Whoever went on from an older one
			// would run again what it stands on, so none is offered.
			break
		}
		there, err := s.hasPayload(ctx, q.Now, c)
		if err != nil {
			return dlqbridge.Testimony{}, err
		}
		if there {
			k.valid = &c
			break
		}
	}
	heads, err := s.heads(ctx, thread)
	if err != nil {
		return dlqbridge.Testimony{}, err
	}
	if len(k.root) > 0 {
		heads = append([]checkpoint{k.root[0]}, heads...)
		// Writes may be pending on the checkpoint that is gone on from, too, where
		// a newer one has lost its payload.
		if k.valid != nil && k.valid.id != k.root[0].id {
			heads = append(heads, *k.valid)
		}
	}
	for _, head := range heads {
		tasks, err := s.pending(ctx, thread, head)
		if err != nil {
			return dlqbridge.Testimony{}, err
		}
		if k.tasks = append(k.tasks, tasks...); len(k.tasks) > maxTasks {
			return dlqbridge.Testimony{}, awsread.UnavailableError(fmt.Sprintf("more than %d nodes have pending writes", maxTasks))
		}
	}
	k.checkpoints = len(heads)
	return s.testify(q, thread, k), nil
}

// heads finds the latest checkpoint of each namespace but the root's. Keys sort
// by namespace, so each query finds the last one before those known; the root's
// begin with # and come last.
func (s *Store) heads(ctx context.Context, thread string) ([]checkpoint, error) {
	var out []checkpoint
	in := s.query(checkpointHash(thread))
	for range maxNamespaces {
		found, err := s.items(ctx, in, 1)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			break
		}
		before := text(found[0][keyRange])
		if before <= "$" { // "$" follows "#"
			break
		}
		if c, ok := decodeCheckpoint(found[0]); ok {
			out = append(out, c)
			before = checkpointRange(c.ns, "") // before all of this namespace
		}
		in = s.query(checkpointHash(thread))
		in.KeyConditionExpression = aws.String("#pk = :pk AND #sk < :before")
		in.ExpressionAttributeNames["#sk"] = keyRange
		in.ExpressionAttributeValues[":before"] = str(before)
	}
	return out, nil
}

// checkpoints reads the newest of one namespace.
func (s *Store) checkpoints(ctx context.Context, thread, prefix string, limit int) ([]checkpoint, error) {
	in := s.query(checkpointHash(thread))
	in.KeyConditionExpression = aws.String("#pk = :pk AND begins_with(#sk, :prefix)")
	in.ExpressionAttributeNames["#sk"] = keyRange
	in.ExpressionAttributeValues[":prefix"] = str(prefix)
	items, err := s.items(ctx, in, limit)
	if err != nil {
		return nil, err
	}
	var out []checkpoint
	for _, it := range items {
		if c, ok := decodeCheckpoint(it); ok {
			out = append(out, c)
		}
	}
	return out, nil
}

// pending reads the writes that wait for the step after a checkpoint, by task.
func (s *Store) pending(ctx context.Context, thread string, c checkpoint) ([]task, error) {
	hash := writesHash(thread, c.ns, c.id)
	if len(hash) > maxHashKey {
		return nil, nil
	}
	items, err := s.items(ctx, s.query(hash), 0)
	if err != nil {
		return nil, err
	}
	return tasksOf(c, items), nil
}

// hasPayload says whether the payload that a checkpoint refers to is there.
// One past its ttl may be deleted at any moment, so it is not.
func (s *Store) hasPayload(ctx context.Context, now time.Time, c checkpoint) (bool, error) {
	if c.refKey == "" {
		return false, nil
	}
	out, err := awsread.Call(ctx, s.retry, func(ctx context.Context) (*dynamodb.GetItemOutput, error) {
		return s.o.Client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(s.o.Table), ConsistentRead: aws.Bool(true),
			Key:                      awsread.Item{keyHash: str(c.refKey), keyRange: str(chunkRange)},
			ProjectionExpression:     aws.String("#pk, #ttl"), // the payload itself stays where it is
			ExpressionAttributeNames: map[string]string{"#pk": keyHash, "#ttl": "ttl"},
		})
	})
	if err != nil {
		return false, fmt.Errorf("look for a checkpoint's payload: %w", err)
	}
	return len(out.Item) > 0 && !expired(ttl(out.Item["ttl"]), now), nil
}

func expired(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// query is a consistent one, newest first: what was written before the letter
// died must be seen.
func (s *Store) query(hash string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName: aws.String(s.o.Table), ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false),
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": keyHash},
		ExpressionAttributeValues: awsread.Item{":pk": str(hash)},
	}
}

// items reads at most limit items, or all (0).
func (s *Store) items(ctx context.Context, in *dynamodb.QueryInput, limit int) ([]awsread.Item, error) {
	if limit > 0 {
		in.Limit = aws.Int32(int32(limit))
	}
	var out []awsread.Item
	for {
		page, err := awsread.Call(ctx, s.retry, func(ctx context.Context) (*dynamodb.QueryOutput, error) { return s.o.Client.Query(ctx, in) })
		if err != nil {
			return nil, fmt.Errorf("query checkpoints: %w", err)
		}
		out = append(out, page.Items...)
		if len(page.LastEvaluatedKey) == 0 || limit > 0 && len(out) >= limit {
			return out, nil
		}
		in.ExclusiveStartKey = page.LastEvaluatedKey
	}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
