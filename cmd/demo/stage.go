package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/cli"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const (
	ledgerTable = "agent-ledger"
	// How long visibility hides a dead worker's message, and how long its
	// lease stands: short, so that the story goes on.
	visibility = time.Second
	// The size of the fleet is workers.
	workers = 4
	// The size of the one on Pub/Sub is noteWorkers.
	noteWorkers = 2
)

// settings is the configuration of the demo, as a team would write it.
const settings = `tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - name: invoices
    sqs: {dead_letter_queue: invoices-dlq, source_queue: invoices}
    effects: mutating
    kit: true
    stores: [message, ledger]
  - name: notes
    pubsub: {project: ` + localstack.Project + `, dead_letter_subscription: notes-dead, source_topic: notes}
    effects: mutating
    kit: true
    stores: [message, ledger]
    pollers: 6             # so that it is soon seen to be empty
causes:
  dependency_unavailable: {owner: payments-team}
  permission: {owner: platform}
  output_contract: {owner: agent-team}
redrive: {rate: 50/s, canary: none}
`

const seed = `queues:
  - {name: invoices-dlq}
  - {name: invoices, visibility_timeout: 1, redrive: {to: invoices-dlq, max_receive_count: 3}}
topics: [notes, notes-dead]
subscriptions:
  - {name: notes-dead, topic: notes-dead, never_expires: true}
  - {name: notes-dead-count, topic: notes-dead, never_expires: true}
  - {name: notes, topic: notes, ack_deadline: 10, never_expires: true, dead_letter: {topic: notes-dead, max_attempts: 5}}
`

// stage is where the story plays: the local cloud, the outside world, the
// fleet and the command line.
type stage struct {
	*teller

	cloud    *localstack.Cloud
	outside  *outside
	servers  []*http.Server
	endpoint string
	dir      string
	aws      aws.Config
	sqs      *sqs.Client
	fleet    *fleet
	orders   []order

	// notes and notesFleet are the second team, on Pub/Sub.
	notes      *notes
	notesFleet *fleet
}

func newStage(ctx context.Context, t *teller) (*stage, error) {
	s := &stage{teller: t, cloud: localstack.New(localstack.Options{}), outside: newOutside(), orders: orders()}
	cloudAddress, err := s.serve(ctx, s.cloud.Handler())
	if err != nil {
		return nil, err
	}
	outsideAddress, err := s.serve(ctx, s.outside)
	if err != nil {
		s.close()
		return nil, err
	}
	s.endpoint = cloudAddress
	s.aws = aws.Config{
		Region: localstack.Region, BaseEndpoint: aws.String(cloudAddress),
		Credentials: credentials.NewStaticCredentialsProvider("demo", "demo", ""),
	}
	s.sqs = sqs.NewFromConfig(s.aws)
	if s.dir, err = os.MkdirTemp("", "dlqbridge-demo-"); err != nil {
		s.close()
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "dlqbridge.yaml"), []byte(settings), 0o600); err != nil {
		s.close()
		return nil, err
	}
	if err := s.cloud.Seed(strings.NewReader(seed)); err != nil { //nolint:contextcheck // in memory, at once
		s.close()
		return nil, err
	}
	if s.notes, err = newNotes(ctx, s.cloud); err != nil {
		s.close()
		return nil, err
	}
	s.fleet = &fleet{size: workers, env: append(s.environment(), envQueue+"="+s.url("invoices"), envDead+"="+s.url("invoices-dlq"), envOutside+"="+outsideAddress)}
	s.notesFleet = &fleet{size: noteWorkers, env: append(s.environment(), envSubscription+"="+notesSubscription, envDead+"="+deadTopic, envOutside+"="+outsideAddress)}
	return s, nil
}

// environment is what a client of the local cloud exports.
func (s *stage) environment() []string {
	var google []string
	if s.notes != nil {
		google = []string{"PUBSUB_EMULATOR_HOST=" + s.notes.address}
	}
	return append(google,
		"AWS_ENDPOINT_URL="+s.endpoint, "AWS_REGION="+localstack.Region, "AWS_ACCESS_KEY_ID=demo",
		"AWS_SECRET_ACCESS_KEY=demo", "AWS_EC2_METADATA_DISABLED=true",
	)
}

func (s *stage) url(queue string) string {
	return s.endpoint + "/" + localstack.Account + "/" + queue
}

// serve listens on a free port of this machine.
func (s *stage) serve(ctx context.Context, h http.Handler) (address string, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.servers = append(s.servers, server)
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

func (s *stage) close() {
	s.cloud.Close()
	for _, server := range s.servers {
		_ = server.Close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// keep leaves everything running until the person has seen enough.
func (s *stage) keep(ctx context.Context) {
	fmt.Fprintf(s.problems, "\nEverything is still running; Ctrl-C ends it. In another terminal:\n")
	for _, v := range s.environment() {
		fmt.Fprintf(s.problems, "  export %s\n", v)
	}
	fmt.Fprintf(s.problems, "  export DLQBRIDGE_CONFIG=%s\n  go run ./cmd/dlqbridge records list\n", filepath.Join(s.dir, "dlqbridge.yaml"))
	<-ctx.Done()
}

// dlqbridge runs the real command line in this process and returns its output;
// an exit code that is not expected is an error.
func (s *stage) dlqbridge(ctx context.Context, want int, args ...string) (string, error) {
	var out, problems bytes.Buffer
	env := map[string]string{"DLQBRIDGE_CONFIG": filepath.Join(s.dir, "dlqbridge.yaml")}
	p := &cli.Program{
		Args: args, Stdout: &out, Stderr: &problems,
		Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		AWS: func(context.Context) (aws.Config, error) { return s.aws, nil }, PubSub: s.connect,
	}
	if code := p.Run(ctx); code != want {
		return "", fmt.Errorf("dlqbridge %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, out.String(), problems.String())
	}
	return out.String(), nil
}

// typed shows a command and at most so many lines of what it says.
func (s *stage) typed(ctx context.Context, want, lines int, args ...string) error {
	s.command(args)
	out, err := s.dlqbridge(ctx, want, args...)
	if err != nil {
		return err
	}
	s.show(out, lines)
	return nil
}

// record is what the story needs of a listed record.
type record struct {
	ID, Status, Cause, Effect, Action, TaskID, Route string
}

// records lists all records, closed ones too.
func (s *stage) records(ctx context.Context) ([]record, error) {
	out, err := s.dlqbridge(ctx, 0, "records", "list", "--all", "--limit", "0", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct{ Records []record }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("records list: %w", err)
	}
	return list.Records, nil
}

// of picks the records of tasks with one trouble.
func of(list []record, t trouble) []record {
	var out []record
	for _, r := range list {
		if strings.HasSuffix(r.TaskID, "-"+string(t)) {
			out = append(out, r)
		}
	}
	return out
}

// send puts all tasks where their team sends them.
func (s *stage) send(ctx context.Context) error {
	if err := s.notes.publish(ctx, on(onPubSub, s.orders)); err != nil {
		return err
	}
	orders := on(onSQS, s.orders)
	for i := 0; i < len(orders); i += 10 {
		var batch []types.SendMessageBatchRequestEntry
		for n, o := range orders[i:min(i+10, len(orders))] {
			body, err := json.Marshal(o.job)
			if err != nil {
				return err
			}
			facts, err := o.facts().Context()
			if err != nil {
				return err
			}
			batch = append(batch, types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(n)), MessageBody: aws.String(string(body)),
				MessageAttributes: map[string]types.MessageAttributeValue{
					ledger.ContextAttribute: {DataType: aws.String("String"), StringValue: aws.String(facts)},
				},
			})
		}
		out, err := s.sqs.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: aws.String(s.url("invoices")), Entries: batch})
		switch {
		case err != nil:
			return fmt.Errorf("send tasks: %w", err)
		case len(out.Failed) > 0:
			return fmt.Errorf("send tasks: %s", aws.ToString(out.Failed[0].Message))
		}
	}
	return nil
}

// depth counts what is in a queue, in flight too.
func (s *stage) depth(ctx context.Context, queue string) (int, error) {
	out, err := s.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(s.url(queue)), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return 0, fmt.Errorf("depth of %s: %w", queue, err)
	}
	total := 0
	for _, name := range []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible} {
		var n int
		if _, err := fmt.Sscan(out.Attributes[string(name)], &n); err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// work lets both fleets work until everything is done or dead; of the tasks on
// Pub/Sub, these.
func (s *stage) work(ctx context.Context, tasks []string, extra ...string) error {
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.fleet.work(bothCtx, s.quietQueue, extra...) })
	both.Go(func() error {
		return s.notesFleet.work(bothCtx, func(ctx context.Context) error {
			return s.notes.until(ctx, tasks, func() map[string]int { return s.outside.happened("mail") })
		}, extra...)
	})
	return both.Wait()
}

// quietQueue waits until the work queue is empty: everything is done or dead.
func (s *stage) quietQueue(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := s.depth(ctx, "invoices")
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(errors.New("the work queue does not become empty"), ctx.Err())
		}
	}
}
