package ledger_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const tableName = "agent-ledger"

// world is a local cloud with an empty ledger.
type world struct {
	t      *testing.T
	cloud  *localstack.Cloud
	client *dynamodb.Client
	clock  *testClock
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	// One try per call: the code under test has its own.
	client := dynamodb.NewFromConfig(cloud.AWSConfig(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	if _, err := client.CreateTable(t.Context(), ledger.TableSchema(tableName)); err != nil {
		t.Fatal(err)
	}
	return &world{t: t, cloud: cloud, client: client, clock: &testClock{now: time.Now().UTC().Truncate(time.Millisecond)}}
}

// testClock is a clock that a test moves.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (w *world) kit(change ...func(*ledger.Options)) *ledger.Kit {
	w.t.Helper()
	o := ledger.Options{Client: w.client, Table: tableName, Owner: "test", Now: w.clock.Now}
	for _, c := range change {
		c(&o)
	}
	k, err := ledger.NewKit(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

func (w *world) begin(k *ledger.Kit, t ledger.Task) *ledger.Run {
	w.t.Helper()
	r, err := k.Begin(w.t.Context(), t)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

func (w *world) reader(change ...func(*ledger.ReaderOptions)) *ledger.Reader {
	w.t.Helper()
	o := ledger.ReaderOptions{Client: w.client, Table: tableName}
	for _, c := range change {
		c(&o)
	}
	r, err := ledger.NewReader(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// ask asks for one task, now.
func (w *world) ask(task string) dlqbridge.Testimony {
	w.t.Helper()
	return w.reader().Ask(w.t.Context(), []dlqbridge.Question{{TaskID: task, Record: "r_a", Now: w.clock.Now()}})[0]
}

// fold is the effect that follows from the ledger alone, once no run can be
// going any more.
func (w *world) fold(task string) dlqbridge.Folded {
	w.t.Helper()
	a := w.ask(task)
	if a.Unavailable != "" {
		w.t.Fatalf("the ledger is unavailable: %s", a.Unavailable)
	}
	return dlqbridge.Fold(dlqbridge.FoldInput{Findings: a.Findings, Checkpoint: a.Checkpoint})
}

// put writes a row as a plain writer would.
func (w *world) put(task, entry string, fields map[string]any) {
	w.t.Helper()
	item := map[string]types.AttributeValue{"task_id": value(task), "entry": value(entry)}
	for name, v := range fields {
		item[name] = value(v)
	}
	if _, err := w.client.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: item}); err != nil {
		w.t.Fatal(err)
	}
}

// row reads one row, as texts.
func (w *world) row(task, entry string) map[string]types.AttributeValue {
	w.t.Helper()
	out, err := w.client.GetItem(w.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(tableName), ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{"task_id": value(task), "entry": value(entry)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Item
}

func text(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

// number is a value that is written as a number.
type number string

func value(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return &types.AttributeValueMemberS{Value: v}
	case number:
		return &types.AttributeValueMemberN{Value: string(v)}
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case time.Time:
		return &types.AttributeValueMemberS{Value: v.Format(time.RFC3339)}
	case []string:
		list := &types.AttributeValueMemberL{}
		for _, s := range v {
			list.Value = append(list.Value, value(s))
		}
		return list
	case map[string]any:
		m := map[string]types.AttributeValue{}
		for name, inner := range v {
			m[name] = value(inner)
		}
		return &types.AttributeValueMemberM{Value: m}
	case nil:
		return &types.AttributeValueMemberNULL{Value: true}
	}
	panic("a test wrote a type that it does not know")
}
