package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/cli"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// bench runs the program in this process against a local cloud without
// sockets, in virtual time: an hour passes at once.
type bench struct {
	t      *testing.T
	cloud  *localstack.Cloud
	sqs    *sqs.Client
	tables *dynamodb.Client
	config string
	// person is the access key that the program runs with; the cloud's STS
	// names the principal after it.
	person         string
	env            map[string]string
	stdout, stderr bool // terminals
	// terminal gets both outputs of the program and makes both one; nil is none.
	terminal *bytes.Buffer
	// pubsub connects the program to Pub/Sub; nil is the process's own way.
	pubsub func(context.Context) (*gcppubsub.Client, error)
	// later is how far the program's clock is ahead.
	later time.Duration
	// states answers in the place of Step Functions.
	states http.Handler
	// network stands between the program and AWS; nil is nothing.
	network func(aws.HTTPClient) aws.HTTPClient
}

// inBubble makes a bench with tables and these queue pairs (a name ending in
// .fifo makes a FIFO pair).
func inBubble(t *testing.T, config string, queues []string, do func(*bench)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dlqbridge.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		cloud := localstack.New(localstack.Options{})
		defer cloud.Close()
		b := &bench{
			t: t, cloud: cloud, sqs: sqs.NewFromConfig(cloud.AWSConfig()), tables: dynamodb.NewFromConfig(cloud.AWSConfig()),
			config: file, person: "ann", env: map[string]string{},
		}
		for _, q := range queues {
			b.pair(q)
		}
		b.ok("tables", "create")
		do(b)
	})
}

// pair makes a source queue and its dead-letter queue, which a message reaches
// after one failure.
func (b *bench) pair(name string) {
	b.t.Helper()
	base, suffix := strings.CutSuffix(name, ".fifo")
	dlq := base + "-dlq"
	attributes := map[string]string{}
	if suffix {
		dlq += ".fifo"
		attributes["FifoQueue"] = "true"
	}
	dead := maps.Clone(attributes)
	dead["MessageRetentionPeriod"] = "1209600"
	if _, err := b.sqs.CreateQueue(b.t.Context(), &sqs.CreateQueueInput{QueueName: &dlq, Attributes: dead}); err != nil {
		b.t.Fatal(err)
	}
	attributes["RedrivePolicy"] = `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:` + dlq + `","maxReceiveCount":"1"}`
	if _, err := b.sqs.CreateQueue(b.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) url(queue string) *string {
	b.t.Helper()
	out, err := b.sqs.GetQueueUrl(b.t.Context(), &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.QueueUrl
}

// send sends a message whose agent.ctx holds the given facts.
func (b *bench) send(queue, body string, facts map[string]any) {
	b.t.Helper()
	in := &sqs.SendMessageInput{QueueUrl: b.url(queue), MessageBody: &body}
	if facts != nil {
		text, err := json.Marshal(facts)
		if err != nil {
			b.t.Fatal(err)
		}
		in.MessageAttributes = contextAttribute(string(text))
	}
	if strings.HasSuffix(queue, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), aws.String(dlqbridge.Fingerprint(body))
	}
	if _, err := b.sqs.SendMessage(b.t.Context(), in); err != nil {
		b.t.Fatal(err)
	}
}

// die lets every message of a queue fail once, which moves it.
func (b *bench) die(queue string) {
	b.t.Helper()
	for range 2 { // the second look moves what failed at the first
		for {
			out, err := b.sqs.ReceiveMessage(b.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url(queue), MaxNumberOfMessages: 10, VisibilityTimeout: 1})
			if err != nil {
				b.t.Fatal(err)
			}
			if len(out.Messages) == 0 {
				break
			}
		}
		time.Sleep(2 * time.Second) // virtual
	}
}

// receive takes one message out of a queue for good; nil if there is none.
func (b *bench) receive(queue string) *types.Message {
	b.t.Helper()
	out, err := b.sqs.ReceiveMessage(b.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: b.url(queue), MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(out.Messages) == 0 {
		return nil
	}
	if _, err := b.sqs.DeleteMessage(b.t.Context(), &sqs.DeleteMessageInput{QueueUrl: b.url(queue), ReceiptHandle: out.Messages[0].ReceiptHandle}); err != nil {
		b.t.Fatal(err)
	}
	return &out.Messages[0]
}

// ledger writes a row as any worker would, with plain SDK calls.
func (b *bench) ledger(task, entry string, row map[string]any) {
	b.t.Helper()
	item := attributes(row)
	item["task_id"], item["entry"] = attribute(task), attribute(entry)
	if _, err := b.tables.PutItem(b.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("agent-ledger"), Item: item}); err != nil {
		b.t.Fatal(err)
	}
}

func contextAttribute(text string) map[string]types.MessageAttributeValue {
	return map[string]types.MessageAttributeValue{"agent.ctx": {DataType: aws.String("String"), StringValue: &text}}
}

func attributes(row map[string]any) map[string]ddb.AttributeValue {
	out := map[string]ddb.AttributeValue{}
	for k, v := range row {
		out[k] = attribute(v)
	}
	return out
}

func attribute(v any) ddb.AttributeValue {
	switch v := v.(type) {
	case string:
		return &ddb.AttributeValueMemberS{Value: v}
	case bool:
		return &ddb.AttributeValueMemberBOOL{Value: v}
	case int:
		return &ddb.AttributeValueMemberN{Value: strconv.Itoa(v)}
	case time.Time:
		return &ddb.AttributeValueMemberS{Value: v.UTC().Format(time.RFC3339Nano)}
	case map[string]any:
		return &ddb.AttributeValueMemberM{Value: attributes(v)}
	}
	panic(fmt.Sprintf("no attribute for %T", v))
}

// statesBeside sends what is for Step Functions elsewhere, within the process.
type statesBeside struct {
	aws.HTTPClient
	states http.Handler
}

func (s statesBeside) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Target"), "AWSStepFunctions.") {
		return s.HTTPClient.Do(r)
	}
	w := httptest.NewRecorder()
	s.states.ServeHTTP(w, r)
	return w.Result(), nil
}

// call is one run of the program.
type call struct {
	stdout, stderr string
	code           int
}

func (b *bench) run(args ...string) call { return b.runCtx(b.t.Context(), args...) }

func (b *bench) runCtx(ctx context.Context, args ...string) call {
	var out, errs bytes.Buffer
	p := &cli.Program{
		Args: append([]string{"--config", b.config}, args...), Stdout: &out, Stderr: &errs, StdoutTerminal: b.stdout, StderrTerminal: b.stderr,
		Env:  func(name string) (string, bool) { v, ok := b.env[name]; return v, ok },
		User: func() string { return "os-" + b.person }, Now: func() time.Time { return time.Now().Add(b.later) }, Version: "test", PubSub: b.pubsub,
		AWS: func(context.Context) (aws.Config, error) {
			c := b.cloud.AWSConfig()
			if b.states != nil {
				c.HTTPClient = statesBeside{c.HTTPClient, b.states}
			}
			if b.network != nil {
				c.HTTPClient = b.network(c.HTTPClient)
			}
			person := b.person
			c.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: person, SecretAccessKey: "local"}, nil
			})
			return c, nil
		},
	}
	if b.terminal != nil { // one screen for both, as a person has it
		p.Stdout, p.Stderr = io.MultiWriter(&out, b.terminal), io.MultiWriter(&errs, b.terminal)
		p.StdoutTerminal, p.StderrTerminal = true, true
	}
	code := p.Run(ctx)
	return call{out.String(), errs.String(), code}
}

// want runs the program and fails the test on another exit code.
func (b *bench) want(code int, args ...string) call {
	b.t.Helper()
	c := b.run(args...)
	if c.code != code {
		b.t.Fatalf("dlqbridge %s: exit %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), c.code, code, c.stdout, c.stderr)
	}
	return c
}

func (b *bench) ok(args ...string) call { b.t.Helper(); return b.want(0, args...) }

// document runs with -o json and decodes exactly one document.
func document[T any](b *bench, code int, args ...string) T {
	b.t.Helper()
	c := b.want(code, append(args, "-o", "json")...)
	var v T
	d := json.NewDecoder(strings.NewReader(c.stdout))
	if err := d.Decode(&v); err != nil {
		b.t.Fatalf("dlqbridge %s: %v in %q", strings.Join(args, " "), err, c.stdout)
	}
	if d.More() {
		b.t.Fatalf("dlqbridge %s printed more than one document: %s", strings.Join(args, " "), c.stdout)
	}
	return v
}

// refused is the machine readable error of a call.
type refused struct {
	Error struct{ Code, Message, Hint string }
}

// record is the part of a record's document that tests look at.
type record struct {
	ID, Status, Route string
	Version           int
	Previous          *string
	Effect            struct {
		State, Uncovered string
		RepeatSafe       bool
		Findings         []struct{ Store, Step, State, Proof string }
	}
	Failure  struct{ Cause, Lane string }
	Decision struct {
		Action, Rule string
		Owner        *string
		Reason       *string
		TriageBy     *string
	}
	Task     struct{ TaskID *string }
	Redrives []struct {
		N       int
		Outcome string
		Marked  bool
	}
	Approvals []struct {
		By     string
		Reason *string
	}
	Payload   struct{ ExpiresAt *string }
	RecheckAt *string
	Conflict  bool
	Fix       *string
}

// byTask maps task ids to records, closed ones too.
func (b *bench) byTask() map[string]string {
	b.t.Helper()
	list := document[struct {
		Records []struct{ ID, TaskID string }
	}](b, 0, "records", "list", "--all", "--limit", "0")
	out := map[string]string{}
	for _, r := range list.Records {
		out[r.TaskID] = r.ID
	}
	return out
}

func (b *bench) show(id string) record {
	b.t.Helper()
	return document[record](b, 0, "records", "show", id)
}

// visibility sets a queue's visibility timeout, in seconds.
func (b *bench) visibility(queue, seconds string) {
	b.t.Helper()
	b.attributes(queue, map[string]string{"VisibilityTimeout": seconds})
}

func (b *bench) attributes(queue string, values map[string]string) {
	b.t.Helper()
	if _, err := b.sqs.SetQueueAttributes(b.t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: b.url(queue), Attributes: values}); err != nil {
		b.t.Fatal(err)
	}
}

// sendMarked sends a message as it came from us, with its mark.
func (b *bench) sendMarked(queue, body string, facts row, mark string) {
	b.t.Helper()
	text, err := json.Marshal(facts)
	if err != nil {
		b.t.Fatal(err)
	}
	in := &sqs.SendMessageInput{QueueUrl: b.url(queue), MessageBody: &body, MessageAttributes: contextAttribute(string(text))}
	in.MessageAttributes["agent.redrive"] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &mark}
	if strings.HasSuffix(queue, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), aws.String(dlqbridge.Fingerprint(mark))
	}
	if _, err := b.sqs.SendMessage(b.t.Context(), in); err != nil {
		b.t.Fatal(err)
	}
}

// sendAgain sends a message that was received as it came.
func (b *bench) sendAgain(queue string, m *types.Message) {
	b.t.Helper()
	if _, err := b.sqs.SendMessage(b.t.Context(), &sqs.SendMessageInput{QueueUrl: b.url(queue), MessageBody: m.Body, MessageAttributes: m.MessageAttributes}); err != nil {
		b.t.Fatal(err)
	}
}
