package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// world is a local cloud on a real socket and the real binary beside it.
type world struct {
	t      *testing.T
	cloud  *localstack.Cloud
	sqs    *sqs.Client
	binary string
	dir    string
	env    []string
}

// newWorld serves a fresh cloud and writes the configuration.
func newWorld(t *testing.T, config string) *world {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(func() { cloud.Close(); server.Close() })
	w := &world{t: t, cloud: cloud, sqs: sqs.NewFromConfig(cloud.AWSConfig()), binary: buildBinary(t), dir: t.TempDir()}
	w.env = append(os.Environ(), "AWS_ENDPOINT_URL="+server.URL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local",
		"AWS_SECRET_ACCESS_KEY=local", "AWS_EC2_METADATA_DISABLED=true", "DLQBRIDGE_CONFIG="+filepath.Join(w.dir, "dlqbridge.yaml"))
	if err := os.WriteFile(filepath.Join(w.dir, "dlqbridge.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// command prepares a call of the binary.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.t.Context(), w.binary, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

// run calls the binary and returns its standard output; any exit code but want
// fails the test.
func (w *world) run(want int, args ...string) []byte {
	w.t.Helper()
	out, code, stderr := w.try(args...)
	if code != want {
		w.t.Fatalf("dlqbridge %s: exit %d, want %d\n%s\n%s", strings.Join(args, " "), code, want, out, stderr)
	}
	return out
}

func (w *world) try(args ...string) (stdout []byte, code int, stderr string) {
	w.t.Helper()
	cmd := w.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return out.Bytes(), cmd.ProcessState.ExitCode(), errs.String()
}

// runJSON is run with -o json, decoded.
func runJSON[T any](w *world, want int, args ...string) T {
	w.t.Helper()
	out := w.run(want, append(args, "-o", "json")...)
	var v T
	dec := json.NewDecoder(bytes.NewReader(out))
	if err := dec.Decode(&v); err != nil {
		w.t.Fatalf("dlqbridge %s: %v in %s", strings.Join(args, " "), err, out)
	}
	if dec.More() {
		w.t.Fatalf("dlqbridge %s printed more than one document: %s", strings.Join(args, " "), out)
	}
	return v
}

func (w *world) url(queue string) *string {
	w.t.Helper()
	out, err := w.sqs.GetQueueUrl(w.t.Context(), &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.QueueUrl
}

// queues makes a source queue with its dead-letter queue (name-dlq) that dies
// at the first failure.
func (w *world) queues(name string, fifo bool) {
	w.t.Helper()
	suffix, attributes := "", map[string]string{}
	if fifo {
		suffix = ".fifo"
		attributes["FifoQueue"] = "true"
	}
	dlq := name + "-dlq" + suffix
	if _, err := w.sqs.CreateQueue(w.t.Context(), &sqs.CreateQueueInput{QueueName: &dlq, Attributes: attributes}); err != nil {
		w.t.Fatal(err)
	}
	withPolicy := map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:` + dlq + `","maxReceiveCount":"1"}`}
	maps.Copy(withPolicy, attributes)
	if _, err := w.sqs.CreateQueue(w.t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(name + suffix), Attributes: withPolicy}); err != nil {
		w.t.Fatal(err)
	}
}

// die lets every message of a queue fail until all are in its dead-letter queue.
func (w *world) die(queue string) {
	w.t.Helper()
	for {
		out, err := w.sqs.ReceiveMessage(w.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: w.url(queue), MaxNumberOfMessages: 10, VisibilityTimeout: 1})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			depth, err := w.sqs.GetQueueAttributes(w.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: w.url(queue), AttributeNames: []types.QueueAttributeName{"All"}})
			if err != nil {
				w.t.Fatal(err)
			}
			if depth.Attributes["ApproximateNumberOfMessages"] == "0" && depth.Attributes["ApproximateNumberOfMessagesNotVisible"] == "0" {
				return
			}
			w.cloud.Clock().Advance(time.Second)
		}
	}
}

// sums of what is in a queue, each message once, deleted while read. A
// message's sum leaves our own mark out; marks counts messages by mark.
func (w *world) drain(queue string) (sums, marks map[string]int) {
	w.t.Helper()
	sums, marks = map[string]int{}, map[string]int{}
	for {
		out, err := w.sqs.ReceiveMessage(w.t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: w.url(queue), MaxNumberOfMessages: 10, VisibilityTimeout: 600,
			MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return sums, marks
		}
		for _, m := range out.Messages {
			mark := ""
			if a, ok := m.MessageAttributes["agent.redrive"]; ok {
				mark = aws.ToString(a.StringValue)
				delete(m.MessageAttributes, "agent.redrive")
			}
			marks[mark]++
			sums[sumOf(aws.ToString(m.Body), m.MessageAttributes, m.Attributes["MessageGroupId"], m.Attributes["AWSTraceHeader"])]++
			if _, err := w.sqs.DeleteMessage(w.t.Context(), &sqs.DeleteMessageInput{QueueUrl: w.url(queue), ReceiptHandle: m.ReceiptHandle}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func sumOf(body string, attributes map[string]types.MessageAttributeValue, group, trace string) string {
	names := make([]string, 0, len(attributes))
	for n := range attributes {
		names = append(names, n)
	}
	sort.Strings(names)
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q", body, group, trace)
	for _, n := range names {
		a := attributes[n]
		fmt.Fprintf(h, "%q %q %q %q", n, aws.ToString(a.DataType), aws.ToString(a.StringValue), a.BinaryValue)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// message is one task of mixed kind; all carry their number in the body.
func message(i int, group string) types.SendMessageBatchRequestEntry {
	text := func(s string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
	}
	e := types.SendMessageBatchRequestEntry{
		Id: aws.String(strconv.Itoa(i % 10)),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"agent.ctx": text(fmt.Sprintf(`{"v":1,"task":"t-%04d","type":"bill","tenant":"ten-%d","cause":"timeout","code":"ETIMEDOUT"}`, i, i%7)),
		},
	}
	body := fmt.Sprintf(`{"order":%d}`, i)
	switch i % 8 {
	case 1: // looks like base64
		body = fmt.Sprintf("deadbeef%04d", i)
	case 2: // a number beyond 2^53, a repeated key, spaces
		body = fmt.Sprintf("{ \"id\":616581622363398142 ,\"a\":1,\"a\":%d}\n", i)
	case 3: // typed attributes with labels
		e.MessageAttributes["flags"] = types.MessageAttributeValue{DataType: aws.String("String.json"), StringValue: aws.String(`{"x":1}`)}
		e.MessageAttributes["retries"] = types.MessageAttributeValue{DataType: aws.String("Number.int"), StringValue: aws.String("007.50")}
		e.MessageAttributes["blob"] = types.MessageAttributeValue{DataType: aws.String("Binary.protobuf"), BinaryValue: []byte{0, 0xff, 0xfe, byte(i)}}
	case 4: // nine attributes: ours is the tenth
		for n := range 8 {
			e.MessageAttributes[fmt.Sprintf("a%d", n)] = text(strconv.Itoa(i))
		}
	case 5: // ten attributes: ours has no place
		for n := range 9 {
			e.MessageAttributes[fmt.Sprintf("a%d", n)] = text(strconv.Itoa(i))
		}
	case 6: // text of all lengths of character, and what a terminal would obey
		body = fmt.Sprintf("%d é € 😀 \u202e right-to-left \t\r\n", i)
		e.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-aaaabbbb-000011112222333344445555;Sampled=1")},
		}
	case 7: // a larger one
		body = strings.Repeat(fmt.Sprintf("%d,", i), 2000)
	}
	e.MessageBody = &body
	if group != "" {
		e.MessageGroupId = aws.String(group)
	}
	return e
}

// send sends n messages and returns their sums.
func (w *world) send(queue string, first, n int, fifo bool) map[string]int {
	w.t.Helper()
	sums := map[string]int{}
	for i := first; i < first+n; i += 10 {
		var batch []types.SendMessageBatchRequestEntry
		for j := i; j < min(i+10, first+n); j++ {
			group := ""
			if fifo || j%3 == 0 { // on a standard queue it names the tenant (fair queues)
				group = fmt.Sprintf("g%d", j%5)
			}
			e := message(j, group)
			if fifo {
				e.MessageDeduplicationId = aws.String(fmt.Sprintf("first-send-%d", j))
			}
			sums[sumOf(*e.MessageBody, e.MessageAttributes, group, aws.ToString(e.MessageSystemAttributes["AWSTraceHeader"].StringValue))]++
			batch = append(batch, e)
		}
		out, err := w.sqs.SendMessageBatch(w.t.Context(), &sqs.SendMessageBatchInput{QueueUrl: w.url(queue), Entries: batch})
		if err != nil || len(out.Failed) > 0 {
			w.t.Fatal(err, out)
		}
	}
	return sums
}

const twoRoutes = `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - name: orders
    sqs: {dead_letter_queue: orders-dlq, source_queue: orders}
    effects: none
  - name: jobs
    sqs: {dead_letter_queue: jobs-dlq.fifo, source_queue: jobs.fifo}
    effects: none
`

type redriveResult struct {
	Job            string
	Selected, Sent int
	Excluded       []struct{ ID, Reason string }
	State          string
}

type listResult struct {
	Records []struct{ ID, Status, Cause, Effect, TaskID string }
}

// The main job, black-box: 1,000 letters of mixed kinds through a standard and
// a FIFO dead-letter queue come home byte for byte, once each, under the rate.
func TestStoryThousandLetters(t *testing.T) {
	const standard, fifo, rate = 700, 300, 400
	w := newWorld(t, twoRoutes)
	w.queues("orders", false)
	w.queues("jobs", true)
	wantOrders := w.send("orders", 0, standard, false)
	wantJobs := w.send("jobs.fifo", standard, fifo, true)
	w.die("orders")
	w.die("jobs.fifo")

	w.run(0, "tables", "create")
	counts := runJSON[struct{ Letters, Records, Arrivals, Unstored int }](w, 0, "intake", "--until-empty")
	if counts.Letters != standard+fifo || counts.Records != standard+fifo || counts.Unstored != 0 {
		t.Fatalf("intake: %+v", counts)
	}
	if list := runJSON[listResult](w, 0, "records", "list", "--limit", "0"); len(list.Records) != standard+fifo {
		t.Fatalf("%d records", len(list.Records))
	}

	w.cloud.ForgetRequests()
	result := runJSON[redriveResult](w, 0, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "the outage is over", "--rate", fmt.Sprintf("%d/s", rate))
	if result.Selected != standard+fifo || result.Sent != standard+fifo || len(result.Excluded) != 0 {
		t.Fatalf("redrive: %+v", result)
	}
	w.checkPace(rate, max(10, rate/10))

	gotOrders, marks := w.drain("orders")
	diffSums(t, "orders", gotOrders, wantOrders)
	if unmarked := marks[""]; unmarked != standard/8+1 && unmarked != standard/8 {
		t.Errorf("%d messages without mark, want those with ten attributes only", unmarked)
	}
	gotJobs, _ := w.drain("jobs.fifo")
	diffSums(t, "jobs.fifo", gotJobs, wantJobs)

	// What was sent waits for its outcome; nothing is sent a second time.
	again := runJSON[redriveResult](w, 3, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "once more")
	if again.Sent != 0 || len(again.Excluded) != standard+fifo || again.Excluded[0].Reason != "claimed" {
		t.Errorf("a second run sent %d and excluded %d", again.Sent, len(again.Excluded))
	}
}

func diffSums(t *testing.T, queue string, got, want map[string]int) {
	t.Helper()
	missing, extra := 0, 0
	for s, n := range want {
		missing += max(0, n-got[s])
	}
	for s, n := range got {
		extra += max(0, n-want[s])
	}
	if missing > 0 || extra > 0 {
		t.Errorf("%s: %d messages of the first send are missing or changed, %d are extra", queue, missing, extra)
	}
}

// checkPace holds the recording against rate and burst: in no second does one
// queue get more.
func (w *world) checkPace(rate, burst int) {
	w.t.Helper()
	for queue, list := range recorded(w.t, w.cloud) {
		if most, at := mostWithin(list, time.Second); most > rate+burst {
			w.t.Errorf("%s: %d messages within a second from %s, more than rate %d + burst %d", queue, most, at, rate, burst)
		}
	}
}

// recordedSend is a request that sent n messages.
type recordedSend struct {
	at time.Time
	n  int
}

// recorded are the sends in a cloud's recording, by queue.
func recorded(t *testing.T, cloud *localstack.Cloud) map[string][]recordedSend {
	t.Helper()
	byQueue := map[string][]recordedSend{}
	for _, r := range cloud.Requests("sqs", 0) {
		if r.Operation != "SendMessageBatch" && r.Operation != "SendMessage" {
			continue
		}
		var in struct {
			QueueUrl string
			Entries  []json.RawMessage
		}
		if err := json.Unmarshal(r.Request, &in); err != nil {
			t.Fatal(err)
		}
		byQueue[in.QueueUrl] = append(byQueue[in.QueueUrl], recordedSend{r.At, max(1, len(in.Entries))})
	}
	return byQueue
}

// mostWithin is the most messages in any window of that length, and where it begins.
func mostWithin(list []recordedSend, window time.Duration) (most int, at time.Time) {
	for i, first := range list {
		n := 0
		for _, s := range list[i:] {
			if s.at.Sub(first.at) >= window {
				break
			}
			n += s.n
		}
		if n > most {
			most, at = n, first.at
		}
	}
	return most, at
}

// buildBinary builds the program for this test.
func buildBinary(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "dlqbridge")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}
