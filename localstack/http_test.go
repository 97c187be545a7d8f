package localstack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// serve puts a desk's cloud on a socket and points its queue client at it.
func serve(t *testing.T) (*desk, string) {
	t.Helper()
	d := newDesk(t)
	server := httptest.NewServer(d.Handler())
	t.Cleanup(func() {
		d.Close() // first, or the server waits for the calls that hang
		server.Close()
	})
	config := d.AWSConfig()
	config.HTTPClient, config.BaseEndpoint, config.RetryMaxAttempts = server.Client(), &server.URL, 1
	d.queues = sqs.NewFromConfig(config)
	d.url = aws.String(server.URL + "/000000000000/work")
	return d, server.URL
}

func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(answer))
}

func TestTheControlInterfaceOverHTTP(t *testing.T) {
	d, url := serve(t)
	if status, body := ask(t, "GET", url+"/_local/health", ""); status != 200 || body != `{"ready":true}` {
		t.Errorf("health: got %d %s", status, body)
	}
	status, body := ask(t, "POST", url+"/_local/faults", `{"service":"sqs","operation":"SendMessage","contains":"bad","skip":0,"times":-1,"do":"error","code":"Odd","status":503}`)
	if status != 200 || body != `{"id":"f1"}` {
		t.Errorf("fault: got %d %s", status, body)
	}
	wantCode(t, d.send(t, "bad"), "Odd")
	if err := d.send(t, "good"); err != nil {
		t.Error(err)
	}
	if status, _ := ask(t, "DELETE", url+"/_local/faults", ""); status != 200 {
		t.Errorf("delete faults: got %d", status)
	}
	if err := d.send(t, "bad"); err != nil {
		t.Error(err)
	}
	var calls []struct {
		N                                            int64
		At                                           time.Time
		Service, Operation, Request, Response, Fault string
		Status                                       int
	}
	_, body = ask(t, "GET", url+"/_local/requests?service=sqs&since=1", "")
	if err := json.Unmarshal([]byte(body), &calls); err != nil || len(calls) != 2 {
		t.Fatalf("requests: got %s, %v", body, err)
	}
	if c := calls[0]; c.N != 2 || c.Operation != "SendMessage" || c.Status != 200 || !strings.Contains(c.Request, `"good"`) ||
		!strings.Contains(c.Response, "MessageId") || c.Fault != "" || time.Since(c.At) > time.Minute {
		t.Errorf("got %+v", c)
	}
	var counters localstack.Counters
	_, body = ask(t, "GET", url+"/_local/counters", "")
	if err := json.Unmarshal([]byte(body), &counters); err != nil {
		t.Fatal(err)
	}
	want := localstack.Counters{Calls: map[string]map[string]int64{"sqs": {"SendMessage": 3}, "dynamodb": {}, "pubsub": {}}}
	if diff := cmp.Diff(want, counters); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	ask(t, "DELETE", url+"/_local/requests", "")
	if _, body := ask(t, "GET", url+"/_local/requests", ""); body != "[]" {
		t.Errorf("after forgetting: got %s", body)
	}
	before := d.Clock().Now()
	if status, _ := ask(t, "POST", url+"/_local/clock", `{"advance":"13h"}`); status != 200 || d.Clock().Now().Sub(before) < 13*time.Hour {
		t.Errorf("clock: got %d, moved by %v", status, d.Clock().Now().Sub(before))
	}
}

func TestTheControlInterfaceRefusesWithASentence(t *testing.T) {
	_, url := serve(t)
	for _, row := range []struct{ method, path, body, want string }{
		{"POST", "faults", `{"service":"sqs","do":"explode"}`, `unknown do "explode"`},
		{"POST", "faults", `{"service":"sqs","do":"error","colour":"red"}`, `unknown field "colour"`},
		{"POST", "faults", `{"service":"sqs","do":"fail_entries","entries":"some"}`, `entries must be "all"`},
		{"POST", "faults", `not json`, "not understood"},
		{"POST", "clock", `{"advance":"soon"}`, `advance is "soon"`},
		{"POST", "clock", `{"advance":"-1h"}`, "forward"},
		{"POST", "clock", `{"forward":"1h"}`, "unknown field"},
		{"GET", "requests?since=x", "", "since is"},
		{"GET", "requests?srvice=sqs", "", "unknown parameter"},
	} {
		status, body := ask(t, row.method, url+"/_local/"+row.path, row.body)
		var answer struct{ Error string }
		if json.Unmarshal([]byte(body), &answer) != nil || status != 400 || !strings.Contains(answer.Error, row.want) {
			t.Errorf("%s %s %s: got %d %s, want 400 with %q", row.method, row.path, row.body, status, body, row.want)
		}
	}
	if status, _ := ask(t, "GET", url+"/_local/nothing", ""); status != 404 {
		t.Errorf("an unknown path: got %d, want 404", status)
	}
}

func TestUnknownRequestsAreRefused(t *testing.T) {
	_, url := serve(t)
	for _, target := range []string{"", "AmazonSQS", "AmazonSQS.Fly", "DynamoDB_20120810.Fly", "Kinesis_20131202.ListStreams"} {
		request, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Amz-Target", target)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != 400 || !bytes.Contains(body, []byte(`"__type"`)) {
			t.Errorf("%q: got %d %s, want a refusal", target, response.StatusCode, body)
		}
	}
}

func TestDropsOverASocket(t *testing.T) {
	d, _ := serve(t)
	for do, carriedOut := range map[string]int{"drop_before": 0, "drop_after": 1} {
		d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Do: do})
		if err := d.send(t, "x"); err == nil || code(err) != "" {
			t.Errorf("%s: got %v, want a transport error", do, err)
		}
		if got := d.depth(t); got != carriedOut {
			t.Errorf("%s: got %d messages, want %d", do, got, carriedOut)
		}
		if _, err := d.queues.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: d.url}); err != nil {
			t.Fatal(err)
		}
		d.Clock().Advance(time.Minute)
	}
}

func TestBlackHoleOverASocket(t *testing.T) {
	d, _ := serve(t)
	d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Do: "black_hole"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: d.url, MessageBody: aws.String("x")})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the client's own deadline", err)
	}
	wantDepth(t, d, 0)
}

func TestAClientThatGoesAwayTakesNothingWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := d.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: d.url, WaitTimeSeconds: 20})
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := d.send(t, "x"); err != nil {
			t.Fatal(err)
		}
		wantDepth(t, d, 1)
	})
}

func TestIdentityFollowsTheAccessKey(t *testing.T) {
	d := newDesk(t)
	for _, key := range []string{"alice", "bob"} {
		config := d.AWSConfig()
		config.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: key, SecretAccessKey: "x"}, nil
		})
		got, err := sts.NewFromConfig(config).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
		if err != nil {
			t.Fatal(err)
		}
		if want := "arn:aws:iam::000000000000:user/" + key; *got.Arn != want || *got.Account != localstack.Account {
			t.Errorf("got %s in %s, want %s", *got.Arn, *got.Account, want)
		}
	}
	_, err := sts.NewFromConfig(d.AWSConfig()).GetSessionToken(t.Context(), &sts.GetSessionTokenInput{})
	wantCode(t, err, "InvalidAction")
}

// other runs a program of another language against the address.
func other(t *testing.T, url, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s: it is not installed", name)
	}
	command := exec.CommandContext(t.Context(), path, args...)
	command.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+url, "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, stderr.String())
	}
	return string(output)
}

func TestTheAWSCommandLineWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts other programs")
	}
	d, url := serve(t)
	queue := *d.url
	other(t, url, "aws", "--endpoint-url", url, "sqs", "send-message", "--queue-url", queue, "--message-body", "from the shell",
		"--message-attributes", `{"agent.task":{"DataType":"String.json","StringValue":"{}"}}`)
	got := other(t, url, "aws", "--endpoint-url", url, "sqs", "receive-message", "--queue-url", queue, "--attribute-names", "All", "--message-attribute-names", "All")
	if !strings.Contains(got, "from the shell") || !strings.Contains(got, "ApproximateReceiveCount") || !strings.Contains(got, "String.json") {
		t.Errorf("got %s", got)
	}
	if got := other(t, url, "aws", "--endpoint-url", url, "sts", "get-caller-identity"); !strings.Contains(got, "user/local") {
		t.Errorf("got %s", got)
	}
}

const botoStory = `
import boto3, botocore.exceptions
sqs = boto3.client("sqs")
dead = sqs.create_queue(QueueName="b-dlq")["QueueUrl"]
arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
work = sqs.create_queue(QueueName="b", Attributes={"RedrivePolicy": '{"deadLetterTargetArn":"%s","maxReceiveCount":"1"}' % arn})["QueueUrl"]
sent = sqs.send_message(QueueUrl=work, MessageBody="grüße 😀", MessageAttributes={"n": {"DataType": "Number", "StringValue": "1.5"}, "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}})
m = sqs.receive_message(QueueUrl=work)["Messages"][0]
sqs.change_message_visibility(QueueUrl=work, ReceiptHandle=m["ReceiptHandle"], VisibilityTimeout=0)
assert "Messages" not in sqs.receive_message(QueueUrl=work)
m = sqs.receive_message(QueueUrl=dead, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"])["Messages"][0]
assert m["MessageId"] == sent["MessageId"] and m["Body"] == "grüße 😀", m
assert m["Attributes"]["DeadLetterQueueSourceArn"].endswith(":b") and m["MessageAttributes"]["b"]["BinaryValue"] == b"\x00\xff", m
sqs.delete_message_batch(QueueUrl=dead, Entries=[{"Id": "1", "ReceiptHandle": m["ReceiptHandle"]}])
try:
    sqs.get_queue_url(QueueName="nowhere")
    raise SystemExit("found a queue that is not there")
except sqs.exceptions.QueueDoesNotExist as e:
    assert e.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue", e.response
db = boto3.client("dynamodb")
db.put_item(TableName="records", Item={"pk": {"S": "boto"}})
assert db.get_item(TableName="records", Key={"pk": {"S": "boto"}})["Item"] == {"pk": {"S": "boto"}}
print("done")
`

func TestBotoWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts other programs")
	}
	if output, err := exec.CommandContext(t.Context(), "python3", "-c", "import boto3").CombinedOutput(); err != nil {
		t.Skipf("needs boto3: python3 does not have it: %v: %s", err, output)
	}
	_, url := serve(t)
	if got := strings.TrimSpace(other(t, url, "python3", "-c", botoStory)); got != "done" {
		t.Errorf("got %s", got)
	}
}

func TestTheSetUpScriptWorksTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("starts other programs")
	}
	if _, err := exec.LookPath("aws"); err != nil {
		t.Skip("needs aws: it is not installed")
	}
	d, url := serve(t)
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	for range 2 {
		if got := other(t, url, "sh", "setup.sh"); !strings.Contains(got, "/orders") || !strings.Contains(got, "agent-ledger") {
			t.Errorf("got %s", got)
		}
	}
	if got := d.Counters().Calls["dynamodb"]["CreateTable"]; got != 1 {
		t.Errorf("made the table %d times", got)
	}
	// The ledger has its own keys; another table of that name would be refused.
	got := other(t, url, "aws", "--endpoint-url", url, "dynamodb", "describe-table", "--table-name", "agent-ledger", "--query", "Table.KeySchema[].AttributeName", "--output", "text")
	if strings.Join(strings.Fields(got), " ") != "task_id entry" {
		t.Errorf("the ledger's keys are %s", got)
	}
}

// The SDK holds DynamoDB's answers against their checksum, refusals too.
func TestARefusalOfDynamoDBHasItsChecksum(t *testing.T) {
	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localcloud/", strings.NewReader(`{"TableName":"none"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.DescribeTable")
	response, err := cloud.HTTPClient().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10); response.StatusCode != 400 || response.Header.Get("X-Amz-Crc32") != want {
		t.Errorf("%d %s: checksum %s, want %s", response.StatusCode, body, response.Header.Get("X-Amz-Crc32"), want)
	}
}
