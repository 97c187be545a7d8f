package redrive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// cloud is the local cloud with tables and a source queue.
type cloud struct {
	*localstack.Cloud
	queues *sqs.Client
	url    string
	arn    string
	store  *awsdynamodb.Store
}

var tables = awsdynamodb.TableNames{Records: "records", Payloads: "payloads", Ledger: "ledger"}

func newCloud(t testing.TB, fifo bool) *cloud {
	t.Helper()
	c := &cloud{Cloud: localstack.New(localstack.Options{})}
	t.Cleanup(c.Close)
	ctx := context.Background()
	c.queues = sqs.NewFromConfig(c.AWSConfig())
	in := &sqs.CreateQueueInput{QueueName: aws.String("orders")}
	if fifo {
		in.QueueName, in.Attributes = aws.String("orders.fifo"), map[string]string{"FifoQueue": "true"}
	}
	q, err := c.queues.CreateQueue(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	c.url = *q.QueueUrl
	c.arn = fmt.Sprintf("arn:aws:sqs:%s:%s:%s", localstack.Region, localstack.Account, *in.QueueName)
	db := dynamodb.NewFromConfig(c.AWSConfig())
	if err := awsdynamodb.CreateTables(ctx, db, tables); err != nil {
		t.Fatal(err)
	}
	c.store = newStore(t, c.HTTPClient(), c)
	return c
}

func newStore(t testing.TB, client aws.HTTPClient, c *cloud) *awsdynamodb.Store {
	t.Helper()
	cfg := c.AWSConfig()
	cfg.HTTPClient = client
	s, err := awsdynamodb.New(awsdynamodb.Options{
		Client:  dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }),
		Records: tables.Records, Payloads: tables.Payloads,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add stores n records as intake would.
func (c *cloud) add(t testing.TB, n int, change func(i int, p *dlqbridge.Payload)) map[string]dlqbridge.Payload {
	t.Helper()
	ctx := context.Background()
	out := map[string]dlqbridge.Payload{}
	var evidence []dlqbridge.Evidence
	var controls []dlqbridge.Control
	now := time.Now().UTC().Truncate(time.Millisecond)
	for i := range n {
		id := fmt.Sprintf("r_%05d", i)
		p := dlqbridge.Payload{
			Body:       fmt.Appendf(nil, "body of %s \x09 \u00e9", id),
			Attributes: []dlqbridge.Attribute{{Name: "bin", Type: "Binary.x", Value: []byte{0, 255}}, {Name: "n", Type: "Number", Value: []byte("1.50")}},
		}
		if change != nil {
			change(i, &p)
		}
		out[id] = p
		key := fmt.Sprintf("%024d", i)
		evidence = append(evidence,
			dlqbridge.Evidence{Record: id, Item: dlqbridge.StoredPayload{Arrival: key, Payload: p}},
			dlqbridge.Evidence{Record: id, Item: dlqbridge.Arrival{Key: key, SentAt: now, PayloadSHA256: p.Hash(), PayloadBytes: p.Size()}})
		controls = append(controls, dlqbridge.Control{
			ID: id, Version: 1, Identity: dlqbridge.IdentityTask, Route: "orders", Provider: dlqbridge.SQS, Source: c.arn,
			TaskID: "task-" + id, Status: dlqbridge.StatusClassified, Cause: dlqbridge.CauseTimeout, Effect: dlqbridge.EffectNone,
			Uncovered: dlqbridge.EffectNone, Action: dlqbridge.ActionRetry, Why: dlqbridge.WhyRetryable, PayloadVersion: 1,
			Arrivals: 1, Newest: key, FirstSeen: now, LastSeen: now,
			Move: dlqbridge.Move{Version: 1, At: now, By: "intake", Verb: dlqbridge.VerbReceive, To: dlqbridge.StatusClassified, Arrival: key},
		})
	}
	for _, err := range c.store.Put(ctx, evidence) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, made := range c.store.Create(ctx, controls) {
		if made.Err != nil {
			t.Fatal(made.Err)
		}
	}
	return out
}

// start makes a controller on a cloud through an HTTP client of its own.
func (c *cloud) start(t testing.TB, client aws.HTTPClient, change func(*redrive.Options)) *redrive.Controller {
	t.Helper()
	store := newStore(t, client, c)
	cfg := c.AWSConfig()
	cfg.HTTPClient = client
	w := newWorld() // its judge knows nothing in particular
	o := redrive.Options{
		Index: store, Controls: store, Cases: store, Evidence: store, Leases: store, Jobs: store, Holds: store, Gate: store, Payloads: store,
		Judge: judgeFunc(func(_ context.Context, asks []redrive.Ask) []redrive.Judgement {
			out := make([]redrive.Judgement, len(asks))
			for i, a := range asks {
				out[i] = w.judge(a)
			}
			return out
		}),
		Destination: func(ctx context.Context, _, urn string) (dlqbridge.Destination, error) {
			return awssqs.OpenDestination(ctx, awssqs.Options{Client: sqs.NewFromConfig(cfg), Queue: urn})
		},
		Route: func(name string) (redrive.Route, bool) { return redrive.Route{Name: name}, true },
		Rate:  dlqbridge.Rate{Count: 5000, Per: time.Second}, Burst: 500, Holder: "test",
	}
	if change != nil {
		change(&o)
	}
	return redrive.New(o)
}

// received takes everything out of the source queue.
func (c *cloud) received(t testing.TB) []sqstypes.Message {
	t.Helper()
	var out []sqstypes.Message
	for {
		got, err := c.queues.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{
			QueueUrl: &c.url, MaxNumberOfMessages: 10, VisibilityTimeout: 600,
			MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"All"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) == 0 {
			return out
		}
		out = append(out, got.Messages...)
		for _, m := range got.Messages { // so that the next of a FIFO group comes
			if _, err := c.queues.DeleteMessage(context.Background(), &sqs.DeleteMessageInput{QueueUrl: &c.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func recordOf(m sqstypes.Message) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(*m.Body, "body of "), " ")
	return id
}

// With real clients against the local cloud: every byte as it was, every record
// once, and not many calls.
func TestOnTheLocalCloud(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		t.Run(map[bool]string{false: "standard", true: "fifo"}[fifo], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(t, fifo)
				want := c.add(t, 200, func(i int, p *dlqbridge.Payload) {
					if fifo {
						p.GroupKey = fmt.Sprintf("g%d", i%20)
					}
					for k := range i % 9 {
						p.Attributes = append(p.Attributes, dlqbridge.Attribute{Name: fmt.Sprintf("x%d", k), Type: "String.label", Value: []byte("v")})
					}
					p.Normalize()
				})
				c.ForgetRequests()
				res, err := c.start(t, c.HTTPClient(), nil).Run(t.Context(), request())
				if err != nil || res.Sent != 200 || !res.Clean() {
					t.Fatalf("%+v, %v", res, err)
				}
				seen := map[string]int{}
				for _, m := range c.received(t) {
					id := recordOf(m)
					seen[id]++
					p := want[id]
					if !bytes.Equal([]byte(*m.Body), p.Body) {
						t.Errorf("%s: body %q", id, *m.Body)
					}
					_, hasMark := m.MessageAttributes[dlqbridge.MarkName]
					if hasMark != (len(p.Attributes) < 10) {
						t.Errorf("%s: mark %v with %d attributes", id, hasMark, len(p.Attributes))
					}
					for _, a := range p.Attributes {
						got := m.MessageAttributes[a.Name]
						value := got.BinaryValue
						if got.StringValue != nil {
							value = []byte(*got.StringValue)
						}
						if aws.ToString(got.DataType) != a.Type || !bytes.Equal(value, a.Value) {
							t.Errorf("%s: attribute %s is %+v", id, a.Name, got)
						}
					}
				}
				for id := range want {
					if seen[id] != 1 {
						t.Errorf("%s arrived %d times", id, seen[id])
					}
				}
				calls := c.Counters().Calls
				t.Logf("calls for 200 messages: %v", calls)
				one, err := c.store.Case(t.Context(), "r_00007")
				if err != nil || len(one.History) != 3 || len(one.Sends) != 1 || one.Control.Claim == nil {
					t.Errorf("%+v, %v", one, err)
				}
			})
		})
	}
}

// killer is a process's network: around one call it dies, and then nothing of
// the process reaches the cloud any more.
type killer struct {
	inner *http.Client
	at    int
	after bool
	kill  context.CancelFunc

	mu    sync.Mutex
	calls int
	dead  bool
}

func (k *killer) Do(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	k.calls++
	here := k.calls == k.at
	if here && !k.after {
		k.dead = true
	}
	dead := k.dead
	k.mu.Unlock()
	if dead {
		k.stop()
		return nil, errors.New("connection refused")
	}
	out, err := k.inner.Do(r)
	if here {
		k.mu.Lock()
		k.dead = true
		k.mu.Unlock()
		k.stop()
		return nil, errors.New("connection reset")
	}
	return out, err
}

func (k *killer) stop() {
	if k.kill != nil {
		k.kill()
	}
}

// The kill test again, with every HTTP call of the real adapters.
func TestKilledOnTheLocalCloud(t *testing.T) {
	stride := 3
	if testing.Short() {
		stride = 11
	}
	for _, fifo := range []bool{false, true} {
		t.Run(map[bool]string{false: "standard", true: "fifo"}[fifo], func(t *testing.T) {
			total := 0
			round := func(at int, after bool) {
				synctest.Test(t, func(t *testing.T) {
					c := newCloud(t, fifo)
					c.add(t, 9, func(i int, p *dlqbridge.Payload) {
						if fifo {
							p.GroupKey = fmt.Sprintf("g%d", i%3)
						}
					})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					k := &killer{inner: c.HTTPClient(), at: at, after: after, kill: cancel}
					small := func(o *redrive.Options) { o.Burst = 8 }
					_, _ = c.start(t, k, small).Run(ctx, request())
					total = max(total, k.calls)
					if at == 0 {
						return
					}
					time.Sleep(time.Minute)
					res, err := c.start(t, c.HTTPClient(), small).Run(t.Context(), request())
					if err != nil {
						t.Fatalf("run after call %d: %v", at, err)
					}
					seen := map[string]int{}
					for _, m := range c.received(t) {
						seen[recordOf(m)]++
					}
					for i := range 9 {
						id := fmt.Sprintf("r_%05d", i)
						doubt := reasons(res.Excluded)[id] == dlqbridge.ExcludeInDoubt
						switch {
						case seen[id] > 1:
							t.Errorf("call %d, after %v: %s arrived %d times", at, after, id, seen[id])
						case seen[id] == 0 && !doubt, doubt && fifo:
							t.Errorf("call %d, after %v: %s arrived %d times: %+v", at, after, id, seen[id], res)
						}
					}
				})
			}
			round(0, false)
			for at := 1; at <= total; at += stride {
				round(at, false)
				round(at, true)
			}
			t.Logf("%d calls", total)
		})
	}
}
