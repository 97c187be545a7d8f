package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
)

// Ten times the records take the program hardly more memory, whether it lists,
// plans or sends them: what grows is the ids that a plan has seen, some forty
// bytes each. DLQBRIDGE_SCALE asks for a number of its own (make scale).
func TestSoakRedriveStaysFlat(t *testing.T) {
	sizes := map[string][]int{"short": {2_000, 20_000}, "long": {10_000, 100_000}}[os.Getenv("DLQBRIDGE_SOAK")]
	if n, err := strconv.Atoi(os.Getenv("DLQBRIDGE_SCALE")); err == nil && n > 0 {
		sizes = []int{n}
	}
	if sizes == nil {
		kills(t) // skips with the reason
	}
	peaks := map[string][]int64{}
	for _, n := range sizes {
		// The cloud is in this process and keeps 13 KB a record in the end, so at
		// the collector's usual pace a million would take 26 GB.
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(17 << 30))
		w := newWorld(t, withoutLedger)
		w.queues("orders", false)
		w.run(0, "tables", "create")
		began := time.Now()
		w.generate(n)
		t.Logf("%d records: generated in %s", n, time.Since(began).Round(time.Second))
		plan := filepath.Join(w.dir, "plan.json")
		for _, step := range []struct {
			name string
			args []string
		}{
			{"list", []string{"records", "list", "--cause", "timeout", "--limit", "0", "-o", "json"}},
			{"plan as a table", []string{"redrive", "plan", "--cause", "timeout", "--fix", "deploy:1"}},
			{"plan", []string{"redrive", "plan", "--cause", "timeout", "--fix", "deploy:1", fast, "-o", "json"}},
			{"run", []string{"redrive", "run", "--plan", plan, "--reason", "read and agreed", "-o", "json"}},
		} {
			if step.name == "plan as a table" && n > 100_000 {
				continue // which says nothing more
			}
			into := filepath.Join(w.dir, strings.ReplaceAll(step.name, " ", "-")+".json")
			peak, took := w.measuredInto(into, step.args...)
			t.Logf("%d records: %-16s %6.1fs, %6.0f/s, peak memory %d MiB", n, step.name, took.Seconds(), float64(n)/took.Seconds(), peak>>20)
			peaks[step.name] = append(peaks[step.name], peak)
			if bound := int64(300 << 20); peak > bound {
				t.Errorf("%s of %d records took %d MiB, at most %d", step.name, n, peak>>20, bound>>20)
			}
		}
		if got := w.lines(filepath.Join(w.dir, "list.json"), `"id":"r_`); got != n {
			t.Errorf("%d of %d records were listed", got, n)
		}
		var run runDoc
		if text, err := os.ReadFile(filepath.Join(w.dir, "run.json")); err != nil || json.Unmarshal(text, &run) != nil || run.Sent != n || run.Selected != n || run.State != "done" {
			t.Errorf("%d of %d sent: %s %v", run.Sent, n, run.State, err)
		}
	}
	for name, peak := range peaks {
		// A short run ends before the collector has found its pace, which alone
		// is worth some 30 MiB.
		if len(peak) == 2 && peak[1] > peak[0]+peak[0]/2+32<<20 {
			t.Errorf("%s: peak memory grew from %d MiB to %d MiB", name, peak[0]>>20, peak[1]>>20)
		}
	}
}

// generate writes n records as intake would have, without their letters: one in
// a hundred is made by the store, and the others are copies of those with ids of
// their own, which takes a tenth of the time.
func (w *world) generate(n int) {
	w.t.Helper()
	db := dynamodb.NewFromConfig(w.cloud.AWSConfig(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	const patterns = 100
	var made []map[string][]map[string]types.AttributeValue // by pattern and table
	for i := range min(n, patterns) {
		made = append(made, w.pattern(db, i))
	}
	var writers sync.WaitGroup
	defer writers.Wait()
	slots := make(chan struct{}, 4)
	batch, size := map[string][]types.WriteRequest{}, 0
	flush := func() {
		requests := batch
		batch, size = map[string][]types.WriteRequest{}, 0
		slots <- struct{}{}
		writers.Go(func() {
			defer func() { <-slots }()
			if out, err := db.BatchWriteItem(w.t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: requests}); err != nil || len(out.UnprocessedItems) > 0 {
				w.t.Errorf("%d unprocessed, %v", len(out.UnprocessedItems), err)
			}
		})
	}
	for i := patterns; i < n; i++ {
		p := i % patterns
		renamed := strings.NewReplacer(scaleRecord(p), scaleRecord(i), scaleTask(p), scaleTask(i))
		for table, items := range made[p] {
			for _, it := range items {
				copied := maps.Clone(it)
				for name, v := range it {
					if text, ok := v.(*types.AttributeValueMemberS); ok {
						copied[name] = &types.AttributeValueMemberS{Value: renamed.Replace(text.Value)}
					}
				}
				batch[table] = append(batch[table], types.WriteRequest{PutRequest: &types.PutRequest{Item: copied}})
				if size++; size == 25 {
					flush()
				}
			}
		}
	}
	if size > 0 {
		flush()
	}
}

const scaleSource = "arn:aws:sqs:us-east-1:000000000000:orders"

func scaleTask(i int) string { return fmt.Sprintf("t-%07d", i) }
func scaleRecord(i int) string {
	return dlqbridge.RecordID(dlqbridge.IdentityTask, scaleSource, "", scaleTask(i), 0)
}

// pattern makes record number i and returns its items.
func (w *world) pattern(db *dynamodb.Client, i int) map[string][]map[string]types.AttributeValue {
	w.t.Helper()
	store, err := awsdynamodb.New(awsdynamodb.Options{Client: db, Records: "dlqbridge-records", Payloads: "dlqbridge-payloads"})
	if err != nil {
		w.t.Fatal(err)
	}
	id, task, tenant, key := scaleRecord(i), scaleTask(i), fmt.Sprintf("tenant-%d", i), fmt.Sprintf("%024d", i)
	seen := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Duration(i) * time.Second)
	p := dlqbridge.Payload{Body: fmt.Appendf(nil, `{"pattern":%d}`, i)}
	arrival := dlqbridge.Arrival{
		Key: key, Place: scaleSource + "-dlq", MessageID: key, Source: scaleSource, SentAt: seen, PayloadSHA256: p.Hash(), PayloadBytes: p.Size(),
		Task:    dlqbridge.Task{TaskID: task, TaskType: "bill", Tenant: tenant},
		Failure: dlqbridge.Failure{Cause: dlqbridge.CauseTimeout, Code: "ETIMEDOUT"},
	}
	control := dlqbridge.Control{
		ID: id, Version: 1, Identity: dlqbridge.IdentityTask, Route: "orders", Provider: dlqbridge.SQS, Source: scaleSource,
		TaskID: task, TaskType: "bill", Tenant: tenant, Status: dlqbridge.StatusClassified, Cause: dlqbridge.CauseTimeout,
		Effect: dlqbridge.EffectNone, Uncovered: dlqbridge.EffectNone, Action: dlqbridge.ActionRetry, Why: dlqbridge.WhyRetryable,
		PayloadVersion: 1, Arrivals: 1, Newest: key, FirstSeen: seen, LastSeen: seen,
		Move: dlqbridge.Move{Version: 1, At: seen, By: "intake", Verb: dlqbridge.VerbReceive, To: dlqbridge.StatusClassified, Arrival: key},
	}
	if i%3 == 0 {
		control.Deadline = seen.Add(24 * time.Hour)
	}
	for _, err := range store.Put(w.t.Context(), []dlqbridge.Evidence{{Record: id, Item: dlqbridge.StoredPayload{Arrival: key, Payload: p}}, {Record: id, Item: arrival}}) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if made := store.Create(w.t.Context(), []dlqbridge.Control{control}); made[0].Err != nil {
		w.t.Fatal(made[0].Err)
	}
	out := map[string][]map[string]types.AttributeValue{}
	for table, pk := range map[string]string{"dlqbridge-records": "R#" + id, "dlqbridge-payloads": "P#" + id} {
		got, err := db.Query(w.t.Context(), &dynamodb.QueryInput{
			TableName: &table, KeyConditionExpression: aws.String("pk = :pk"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: pk}},
		})
		if err != nil || len(got.Items) == 0 {
			w.t.Fatal(len(got.Items), err)
		}
		out[table] = got.Items
	}
	return out
}

// measuredInto is measured with the answer in a file.
func (w *world) measuredInto(file string, args ...string) (peak int64, took time.Duration) {
	w.t.Helper()
	out, err := os.Create(file)
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	return w.measured(out, args...)
}

// lines counts a text in a file of any length.
func (w *world) lines(file, text string) int {
	w.t.Helper()
	in, err := os.Open(file)
	if err != nil {
		w.t.Fatal(err)
	}
	defer in.Close()
	n, rest := 0, []byte(nil)
	for buffer := make([]byte, 1<<16); ; {
		k, err := in.Read(buffer)
		rest = append(rest, buffer[:k]...)
		n += bytes.Count(rest, []byte(text))
		rest = append([]byte(nil), rest[max(0, len(rest)-len(text)+1):]...)
		if err == io.EOF {
			return n
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}
