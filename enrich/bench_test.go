package enrich_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// kilobyte is a letter of about 1 KB as agents send them.
func kilobyte(i int) (body, ctx string) {
	ctx = fmt.Sprintf(`{"v":"1","task":"task-%06d","run":"run-%06d","type":"charge_order","tenant":"acme","idem":"task-%06d/charge","cause":"timeout","code":"ETIMEDOUT","msg":"payments did not answer within 30 s","step":"0003#charge","tool":"charge_card","dep":"payments","n":3,"max":5}`, i, i, i)
	body = fmt.Sprintf(`{"order":%d,"items":[%s],"note":"%s"}`, i, strings.TrimSuffix(strings.Repeat(`{"sku":"a-1","n":2},`, 10), ","), strings.Repeat("x", 350))
	return body, ctx
}

// BenchmarkEnrich is extracting and judging one 1 KB letter without stores.
func BenchmarkEnrich(b *testing.B) {
	e := plain(b)
	body, ctx := kilobyte(1)
	l := sqsLetter(body, text("agent.ctx", ctx), text("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	b.ReportAllocs()
	used := cpu()
	for b.Loop() {
		a := e.Extract(l)
		e.Judge(b.Context(), start, []enrich.Subject{{Arrival: &a}})
	}
	b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "cpu-µs/letter")
}

// fill puts n letters of 1 KB into the dead-letter queue.
func (w *world) fill(n int) {
	w.t.Helper()
	for i := 0; i < n; i += 10 {
		in := &sqs.SendMessageBatchInput{QueueUrl: &w.dlq}
		for k := range min(10, n-i) {
			body, ctx := kilobyte(i + k)
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(k)), MessageBody: &body,
				MessageAttributes: map[string]types.MessageAttributeValue{"agent.ctx": {DataType: aws.String("String"), StringValue: &ctx}},
			})
		}
		_, err := w.queues.SendMessageBatch(w.t.Context(), in)
		must(w.t, err)
	}
}

// tape keeps the writes of a store, ready to be made again.
type tape struct {
	awsdynamodb.Client
	mu     sync.Mutex
	puts   []*dynamodb.PutItemInput
	writes []*dynamodb.BatchWriteItemInput
}

func (t *tape) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	t.mu.Lock()
	t.puts = append(t.puts, in)
	t.mu.Unlock()
	return t.Client.PutItem(ctx, in, o...)
}

func (t *tape) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	t.mu.Lock()
	t.writes = append(t.writes, in)
	t.mu.Unlock()
	return t.Client.BatchWriteItem(ctx, in, o...)
}

// take takes the next n of a list, or what is left.
func take[T any](list *[]T, n int) []T {
	n = min(n, len(*list))
	out := (*list)[:n]
	*list = (*list)[n:]
	return out
}

// write makes one batch's writes as the store makes them.
func (w *world) write(ctx context.Context, db *dynamodb.Client, writes []*dynamodb.BatchWriteItemInput, puts []*dynamodb.PutItemInput) {
	for _, in := range writes {
		if _, err := db.BatchWriteItem(ctx, in); err != nil {
			w.t.Error(err)
		}
	}
	var all sync.WaitGroup
	for _, in := range puts {
		all.Go(func() {
			// What the store had to try again is on the tape twice.
			_, err := db.PutItem(ctx, in)
			if _, twice := errors.AsType[*ddb.ConditionalCheckFailedException](err); err != nil && !twice {
				w.t.Error(err)
			}
		})
	}
	all.Wait()
}

// bare makes the same calls with ready-made bytes for n letters: receive, write,
// delete.
func (w *world) bare(db *dynamodb.Client, ready *tape, n int) {
	var mu sync.Mutex
	var pollers sync.WaitGroup
	ctx, done := context.WithCancel(w.t.Context())
	for range enrich.DefaultPollers {
		pollers.Go(func() {
			for ctx.Err() == nil {
				out, err := w.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
					QueueUrl: &w.dlq, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
					MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
				})
				if err != nil || len(out.Messages) == 0 {
					continue
				}
				mu.Lock()
				writes, puts := take(&ready.writes, 2), take(&ready.puts, len(out.Messages))
				mu.Unlock()
				w.write(ctx, db, writes, puts)
				del := &sqs.DeleteMessageBatchInput{QueueUrl: &w.dlq}
				for i, m := range out.Messages {
					del.Entries = append(del.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
				}
				if _, err := w.queues.DeleteMessageBatch(ctx, del); err != nil {
					w.t.Error(err)
				}
				mu.Lock()
				if n -= len(out.Messages); n == 0 {
					done()
				}
				mu.Unlock()
			}
		})
	}
	pollers.Wait()
	done()
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// overSocket puts the cloud behind a real socket, as a provider is, and points
// the queue client at it.
func (w *world) overSocket() aws.Config {
	server := httptest.NewServer(w.Handler())
	w.t.Cleanup(server.Close)
	cfg := w.AWSConfig()
	cfg.BaseEndpoint = &server.URL
	// As the program has it: connections are kept, so that nobody's time is spent
	// on making them.
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 256 })
	w.queues = sqs.NewFromConfig(cfg)
	return cfg
}

// overhead compares intake with a bare loop over the same calls. The first round
// of a process is not counted: in it the first touch of memory and of code would
// be held against whoever goes first.
type overhead struct {
	b                            *testing.B
	ours, bare, oursCPU, bareCPU time.Duration
}

// timed adds the time that do takes. Each begins without the other's garbage.
func timed(wall, processor *time.Duration, do func()) {
	runtime.GC()
	began, used := time.Now(), cpu()
	do()
	*wall, *processor = *wall+time.Since(began), *processor+cpu()-used
}

// finish is an observer that sees the last of so many records made.
type finish struct {
	left atomic.Int64
	seen chan struct{}
}

// Observe implements enrich.Observer.
func (f *finish) Observe(e enrich.Event) {
	if e.Kind == enrich.EventRecord && f.left.Add(int64(-e.N)) == 0 {
		close(f.seen)
	}
}

// intake runs intake until a round's letters are records. It then stops in its own
// time, waiting for nothing but an empty answer.
func (o *overhead) intake(r *round, options enrich.IntakeOptions) *enrich.Intake {
	last := &finish{seen: make(chan struct{})}
	last.left.Store(perRound)
	options.Observer = last
	in, err := enrich.NewIntake(options)
	must(r, err)
	ctx, stop := context.WithCancel(o.b.Context())
	done := make(chan error)
	timed(&o.ours, &o.oursCPU, func() {
		go func() { done <- in.Run(ctx) }()
		<-last.seen
	})
	stop()
	r.Cleanup(func() { must(o.b, <-done) })
	return in
}

// A round takes less than half a second, and what else the machine does in it can
// move its ratio by a tenth; so there are many.
const rounds, perRound = 15, 2000

// round is the life of two clouds: what it leaves is not in memory during the next.
type round struct {
	testing.TB
	ends []func()
}

// Cleanup calls f when the round ends, the last one first.
func (r *round) Cleanup(f func()) { r.ends = append(r.ends, f) }

// race does the rounds, and one before them that is not counted.
func (o *overhead) race(do func(*round)) {
	once := func() {
		r := &round{TB: o.b}
		do(r)
		for _, end := range slices.Backward(r.ends) {
			end()
		}
	}
	once()
	o.ours, o.bare, o.oursCPU, o.bareCPU = 0, 0, 0, 0
	for o.b.Loop() {
		for range rounds {
			once()
		}
	}
}

// report gives the ratios: ratio is bare time over intake time, 1 would be no
// overhead; cpu-ratio is the same of processor time.
func (o *overhead) report() {
	letters := float64(o.b.N * rounds * perRound)
	o.b.ReportMetric(o.bare.Seconds()/o.ours.Seconds(), "ratio")
	o.b.ReportMetric(o.bareCPU.Seconds()/o.oursCPU.Seconds(), "cpu-ratio")
	o.b.ReportMetric(o.ours.Seconds()/letters*1e6, "µs/letter")
	o.b.ReportMetric(o.bare.Seconds()/letters*1e6, "bare-µs/letter")
}

// BenchmarkIntake takes in 30,000 letters and compares with a bare loop over the
// same calls, both in turn two thousand letters at a time, so that a slow second of
// the machine is nobody's alone.
func BenchmarkIntake(b *testing.B) {
	o := &overhead{b: b}
	o.race(func(r *round) {
		w := newWorld(r, "")
		ready := &tape{Client: dynamodb.NewFromConfig(w.overSocket())}
		store, err := awsdynamodb.New(awsdynamodb.Options{Client: ready, Records: "records", Payloads: "payloads"})
		must(b, err)
		w.store = store
		w.fill(perRound)
		o.intake(r, w.options(w.ports()))

		w = newWorld(r, "")
		db := dynamodb.NewFromConfig(w.overSocket())
		w.fill(perRound)
		timed(&o.bare, &o.bareCPU, func() { w.bare(db, ready, perRound) })
	})
	o.report()
}

// calls counts all calls of a cloud, but for those that set it up.
func (w *world) calls(skip ...string) int64 {
	total := int64(0)
	for _, byOperation := range w.Counters().Calls {
		for operation, n := range byOperation {
			if !strings.Contains(strings.Join(skip, " "), operation) {
				total += n
			}
		}
	}
	return total
}

// At most 1.5 calls per letter without a ledger, and a batch of ten is one
// receive, two batch writes, ten puts and one delete.
func TestCallsPerLetter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 1000
		w.fill(n)
		w.ForgetRequests()
		if counts := w.drain(); counts.Records != n {
			t.Fatalf("counts: %+v", counts)
		}
		got := w.Counters().Calls
		if per := float64(w.calls()) / n; per > 1.5 {
			t.Errorf("%.2f calls per letter: %v", per, got)
		}
		if b, p, d := got["dynamodb"]["BatchWriteItem"], got["dynamodb"]["PutItem"], got["sqs"]["DeleteMessageBatch"]; b > 2*n/10 || p > n+2 || d > n/10 {
			t.Errorf("%d batch writes, %d puts, %d deletes for %d letters", b, p, d, n)
		}
	})
}

var _ dlqbridge.Store = teller{}

// BenchmarkEnrichEnveloped is the same for letters inside envelopes.
func BenchmarkEnrichEnveloped(b *testing.B) {
	e := enricher(b, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Topics: []string{topic}})
	body, _ := kilobyte(1)
	celery := `{"body":"W10=","content-type":"application/json","headers":{"task":"app.bill","id":"c-1","retries":2,"argsrepr":"` + strings.Repeat("x", 600) + `"},"properties":{"body_encoding":"base64"}}`
	for name, body := range map[string]string{"sns": notification(body), "celery": inBase64([]byte(celery)), "gzip": inBase64(gzipped(b, body))} {
		b.Run(name, func(b *testing.B) {
			l := sqsLetter(body)
			b.ReportAllocs()
			for b.Loop() {
				a := e.Extract(l)
				e.Judge(b.Context(), start, []enrich.Subject{{Arrival: &a}})
			}
		})
	}
}
