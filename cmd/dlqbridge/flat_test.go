package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Ten times the letters take no more memory, and no more provider calls per
// letter than promised: 1.5 without a ledger, 2.5 with one.
func TestSoakIntakeStaysFlat(t *testing.T) {
	few := map[string]int{"short": 1_000, "long": 10_000}[os.Getenv("DLQBRIDGE_SOAK")]
	if few == 0 {
		kills(t) // skips with the reason
	}
	for _, tt := range []struct {
		name, stores string
		calls        float64
	}{
		{"without a ledger", "[message]", 1.5},
		{"with a ledger", "[message, ledger]", 2.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var peaks []int64
			for _, n := range []int{few, 10 * few} {
				w := newWorld(t, fmt.Sprintf(`
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}, stores: %s}
`, tt.stores))
				w.queues("orders", false)
				w.run(0, "tables", "create")
				w.letters("orders-dlq", n)
				w.cloud.ForgetRequests()
				peak, counts := w.intakePeak()
				if counts.Letters != n || counts.Records != n || counts.Unstored != 0 {
					t.Fatalf("intake of %d: %+v", n, counts)
				}
				calls := int64(0)
				for _, service := range w.cloud.Counters().Calls {
					for _, c := range service {
						calls += c
					}
				}
				perLetter := float64(calls) / float64(n)
				t.Logf("%d letters: peak memory %d MiB, %.3f provider calls per letter", n, peak>>20, perLetter)
				if n > few && perLetter > tt.calls { // a small run pays the empty polls at its end with few letters
					t.Errorf("%.3f provider calls per letter, at most %.1f", perLetter, tt.calls)
				}
				peaks = append(peaks, peak)
			}
			if peaks[1] > peaks[0]+peaks[0]/2 {
				t.Errorf("peak memory grew from %d MiB to %d MiB", peaks[0]>>20, peaks[1]>>20)
			}
		})
	}
}

// letters puts n letters of about a kilobyte into a dead-letter queue.
func (w *world) letters(queue string, n int) {
	w.t.Helper()
	url := w.url(queue)
	for i := 0; i < n; i += 10 {
		var batch []types.SendMessageBatchRequestEntry
		for j := i; j < min(i+10, n); j++ {
			body := fmt.Sprintf(`{"order":%d,"note":"%0900d"}`, j, j)
			ctx := fmt.Sprintf(`{"v":1,"task":"t-%06d","type":"bill","cause":"timeout","code":"ETIMEDOUT"}`, j)
			batch = append(batch, types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(j - i)), MessageBody: &body,
				MessageAttributes: map[string]types.MessageAttributeValue{"agent.ctx": {DataType: aws.String("String"), StringValue: &ctx}},
			})
		}
		if out, err := w.sqs.SendMessageBatch(w.t.Context(), &sqs.SendMessageBatchInput{QueueUrl: url, Entries: batch}); err != nil || len(out.Failed) > 0 {
			w.t.Fatal(err, out)
		}
	}
}

type intakeCounts struct{ Letters, Records, Arrivals, Unstored int }

// intakePeak runs an intake and returns the most memory its process had.
func (w *world) intakePeak() (peak int64, counts intakeCounts) {
	w.t.Helper()
	var out bytes.Buffer
	peak, _ = w.measured(&out, "intake", "--until-empty", "-o", "json")
	if err := json.Unmarshal(out.Bytes(), &counts); err != nil {
		w.t.Fatal(err)
	}
	return peak, counts
}

// measured runs the program with its answer in out and returns the most memory
// that its process had, in bytes. The kernel's own sum at the end (rusage) is of
// no use here: it begins with the memory of the test that started the process.
func (w *world) measured(out io.Writer, args ...string) (peak int64, took time.Duration) {
	w.t.Helper()
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

// highWater is the most memory that a process has had so far, 0 if unknown.
func highWater(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var kilobytes int64
	if _, rest, ok := bytes.Cut(status, []byte("VmHWM:")); ok {
		_, _ = fmt.Sscan(string(rest), &kilobytes)
	}
	return kilobytes << 10
}
