package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// fate is what happens to one call of the table.
type fate int

const (
	fatePass fate = iota
	fateRefuse
	fateLoseAnswer // carried out, the answer is lost
	fateLoseCall   // not carried out, and nobody knows
	fateDieBefore  // the process dies before the call
	fateDieAfter   // the process dies after it
)

// errDied is the panic of a process that dies.
var errDied = errors.New("the process died")

var errCut = errors.New("connection reset by peer")

// flakyClient decides the fate of each call, counted from 1.
type flakyClient struct {
	ledger.Client

	mu     sync.Mutex
	n      int
	decide func(n int, operation string) fate
	dead   bool
}

func (c *flakyClient) set(decide func(int, string) fate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.decide = 0, decide
}

func (c *flakyClient) fate(operation string) fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.decide == nil {
		return fatePass
	}
	return c.decide(c.n, operation)
}

// around makes one call, or not.
func around[O any](c *flakyClient, operation string, call func() (*O, error)) (*O, error) {
	c.mu.Lock()
	dead := c.dead
	c.mu.Unlock()
	if dead { // what a dead process still tries has no effect
		return nil, errCut
	}
	switch c.fate(operation) {
	case fateRefuse:
		return nil, &types.ProvisionedThroughputExceededException{}
	case fateLoseAnswer:
		_, _ = call()
		return nil, errCut
	case fateLoseCall:
		return nil, errCut
	case fateDieBefore:
		c.die()
	case fateDieAfter:
		_, _ = call()
		c.die()
	case fatePass:
	}
	return call()
}

func (c *flakyClient) die() {
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	panic(errDied)
}

func (c *flakyClient) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return around(c, "Query", func() (*dynamodb.QueryOutput, error) { return c.Client.Query(ctx, in, opts...) })
}

func (c *flakyClient) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return around(c, "GetItem", func() (*dynamodb.GetItemOutput, error) { return c.Client.GetItem(ctx, in, opts...) })
}

func (c *flakyClient) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return around(c, "UpdateItem", func() (*dynamodb.UpdateItemOutput, error) { return c.Client.UpdateItem(ctx, in, opts...) })
}

// outside is the outside world of one task: what was really done.
type outside struct {
	charged map[string]int // by step
}

// workFlow is a worker with three steps, one of which fails once without
// changing anything, and a checkpoint.
func workFlow(ctx context.Context, k *ledger.Kit, task ledger.Task, world *outside) error {
	r, err := k.Begin(ctx, task)
	if err != nil {
		return err
	}
	defer r.Close(ctx) // of a dead process: nothing of it reaches the table
	for _, id := range []string{"0001#reserve", "0002#charge", "0003#mail"} {
		refused := id == "0001#reserve" && world.charged[id] == 0
		_, err := r.Step(ctx, ledger.StepSpec{ID: id, Tool: id, Input: task.ID}, func(context.Context, ledger.Call) (ledger.Result, error) {
			if refused {
				refused = false
				return ledger.Result{}, ledger.NothingChanged(ledger.Transient(errors.New("busy")))
			}
			world.charged[id]++
			return ledger.Result{Receipt: "receipt of " + id}, nil
		})
		if err != nil {
			return errors.Join(err, r.Fail(ctx, ledger.FailureOf(err)))
		}
		if id == "0002#charge" {
			if err := r.Checkpoint(ctx, "s3://state", id); err != nil {
				return err
			}
		}
	}
	return r.Complete(ctx)
}

// At each call of the table the process dies before or after it, or the answer
// is lost, or the table refuses for a while. Whatever the point: no step is
// carried out twice, and the ledger never says that nothing happened when
// something did.
func TestKilledAtEveryPoint(t *testing.T) {
	for _, how := range []struct {
		name string
		fate fate
		long bool // from then on, not once
	}{
		{"dies before", fateDieBefore, false},
		{"dies after", fateDieAfter, false},
		{"answer lost", fateLoseAnswer, false},
		{"call lost", fateLoseCall, false},
		{"throttled", fateRefuse, false},
		{"answers lost from then on", fateLoseAnswer, true},
		{"calls lost from then on", fateLoseCall, true},
		{"throttled from then on", fateRefuse, true},
	} {
		t.Run(how.name, func(t *testing.T) {
			for point := 1; ; point++ {
				reached := false
				synctest.Test(t, func(t *testing.T) {
					reached = killedAt(t, point, how.fate, how.long)
				})
				if !reached {
					if point < 12 {
						t.Fatalf("only %d calls were made", point-1)
					}
					return
				}
			}
		})
	}
}

func killedAt(t *testing.T, point int, what fate, long bool) (reached bool) {
	w := newWorld(t)
	w.clock = nil
	flaky := &flakyClient{Client: w.client, decide: func(n int, _ string) fate {
		if n == point || long && n > point {
			reached = true
			return what
		}
		return fatePass
	}}
	now := time.Now
	kit := func(c ledger.Client) *ledger.Kit {
		k, err := ledger.NewKit(ledger.Options{Client: c, Table: tableName, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	world := &outside{charged: map[string]int{}}
	task := ledger.Task{ID: "t1", MessageID: "m1"}
	died := false
	func() {
		defer func() {
			if p := recover(); p != nil {
				if p != errDied { //nolint:errorlint // a panic value, thrown as it is
					panic(p)
				}
				died = true
			}
		}()
		_ = workFlow(t.Context(), kit(flaky), task, world)
	}()
	where := fmt.Sprintf("point %d (died: %v, done: %v)", point, died, world.charged)
	check := func(when string) dlqbridge.Testimony {
		t.Helper()
		r, err := ledger.NewReader(ledger.ReaderOptions{Client: w.client, Table: tableName})
		if err != nil {
			t.Fatal(err)
		}
		a := r.Ask(t.Context(), []dlqbridge.Question{{TaskID: "t1", Now: now()}})[0]
		in := dlqbridge.FoldInput{Findings: a.Findings}
		if f := dlqbridge.Fold(in); f.State == dlqbridge.EffectNone && len(world.charged) > 0 {
			t.Fatalf("%s, %s: the fold says that nothing happened: %+v", where, when, a.Findings)
		}
		// A checkpoint must not hide a step in doubt.
		for _, f := range a.Findings {
			if a.Checkpoint.Covers(f) && f.State == dlqbridge.EffectUnknown {
				t.Fatalf("%s, %s: the checkpoint covers a doubt: %+v", where, when, f)
			}
		}
		if a.Completed != nil && len(world.charged) != 3 {
			t.Fatalf("%s, %s: completed", where, when)
		}
		return a
	}
	check("after the first run")
	time.Sleep(2 * ledger.DefaultLease)
	// The broker delivers again, twice, to healthy workers.
	for range 2 {
		_ = workFlow(t.Context(), kit(w.client), task, world)
		check("after a redelivery")
	}
	for step, n := range world.charged {
		if n > 1 {
			t.Fatalf("%s: %s was carried out %d times", where, step, n)
		}
	}
	if a := check("at the end"); a.Completed == nil && what != fateDieBefore && what != fateDieAfter && !long {
		t.Fatalf("%s: one bad answer must not stop the task: %+v", where, a.Findings)
	}
	return reached
}
