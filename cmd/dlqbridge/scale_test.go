package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

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
			{"plan", []string{"redrive", "plan", "--cause", "timeout", "--fix", "deploy:1", fast, "--max-in-flight", "400", "-o", "json"}},
			{"run", []string{"redrive", "run", "--plan", plan, "--reason", "read and agreed", "-o", "json"}},
		} {
			into := filepath.Join(w.dir, strings.ReplaceAll(step.name, " ", "-")+".json")
			peak, took := w.measured(into, step.args...)
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

// generate writes n records as intake would have, without their letters.
func (w *world) generate(n int) {
	w.t.Helper()
	store, err := awsdynamodb.New(awsdynamodb.Options{
		Client:  dynamodb.NewFromConfig(w.cloud.AWSConfig(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }),
		Records: "dlqbridge-records", Payloads: "dlqbridge-payloads",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	const source = "arn:aws:sqs:us-east-1:000000000000:orders"
	now := time.Now().UTC().Truncate(time.Millisecond)
	for from := 0; from < n; from += 5000 {
		var evidence []dlqbridge.Evidence
		var controls []dlqbridge.Control
		for i := from; i < min(n, from+5000); i++ {
			task, tenant := fmt.Sprintf("t-%07d", i), fmt.Sprintf("tenant-%d", i%100)
			id, key := dlqbridge.RecordID(dlqbridge.IdentityTask, source, tenant, task, 0), fmt.Sprintf("%024d", i)
			p := dlqbridge.Payload{Body: fmt.Appendf(nil, `{"order":%d}`, i)}
			seen := now.Add(-time.Duration(n-i) * time.Millisecond)
			evidence = append(evidence,
				dlqbridge.Evidence{Record: id, Item: dlqbridge.StoredPayload{Arrival: key, Payload: p}},
				dlqbridge.Evidence{Record: id, Item: dlqbridge.Arrival{
					Key: key, Place: source + "-dlq", MessageID: key, Source: source, SentAt: seen, PayloadSHA256: p.Hash(), PayloadBytes: p.Size(),
					Task:    dlqbridge.Task{TaskID: task, TaskType: "bill", Tenant: tenant},
					Failure: dlqbridge.Failure{Cause: dlqbridge.CauseTimeout, Code: "ETIMEDOUT"},
				}})
			control := dlqbridge.Control{
				ID: id, Version: 1, Identity: dlqbridge.IdentityTask, Route: "orders", Provider: dlqbridge.SQS, Source: source,
				TaskID: task, TaskType: "bill", Tenant: tenant, Status: dlqbridge.StatusClassified, Cause: dlqbridge.CauseTimeout,
				Effect: dlqbridge.EffectNone, Uncovered: dlqbridge.EffectNone, Action: dlqbridge.ActionRetry, Why: dlqbridge.WhyRetryable,
				PayloadVersion: 1, Arrivals: 1, Newest: key, FirstSeen: seen, LastSeen: seen,
				Move: dlqbridge.Move{Version: 1, At: seen, By: "intake", Verb: dlqbridge.VerbReceive, To: dlqbridge.StatusClassified, Arrival: key},
			}
			if i%3 == 0 {
				control.Deadline = now.Add(time.Duration(n-i) * time.Second) // the last come first
			}
			controls = append(controls, control)
		}
		for _, err := range store.Put(w.t.Context(), evidence) {
			if err != nil {
				w.t.Fatal(err)
			}
		}
		for _, made := range store.Create(w.t.Context(), controls) {
			if made.Err != nil {
				w.t.Fatal(made.Err)
			}
		}
	}
}

// measured runs the program with its answer in a file and returns the most
// memory that its process had.
func (w *world) measured(into string, args ...string) (peak int64, took time.Duration) {
	w.t.Helper()
	out, err := os.Create(into)
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	cmd := w.command(args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				w.t.Fatalf("dlqbridge %s: %v\n%s", strings.Join(args, " "), err, said.String())
			}
			if peak == 0 {
				w.t.Skip("this system has no /proc that tells how much memory a process had")
			}
			return peak, time.Since(began)
		case <-look.C:
			peak = max(peak, highWater(cmd.Process.Pid))
		}
	}
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
