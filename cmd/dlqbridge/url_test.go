package main_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"gocloud.dev/pubsub"
	_ "gocloud.dev/pubsub/mempubsub" // mem://

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/check"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/localstack"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// silent observes nothing.
type silent struct{}

// Observe implements enrich.Observer.
func (silent) Observe(enrich.Event) {}

const byURL = `
routes:
  - name: jobs
    url: {dead_letter: "mem://jobs-dead-RUN?ackdeadline=1m", target: "mem://jobs-RUN", max_bytes: 1000, max_attributes: 5}
    effects: none
    pollers: 8
`

// The main job over another broker, by URLs of the Go CDK: a letter becomes a
// record, goes home, and what does not fit is refused before sending. The check
// says what the acknowledgement does not promise.
func TestAnyBrokerByURL(t *testing.T) {
	t.Parallel()
	run := dlqbridge.NewToken() // topics in memory outlive a run of the test
	dead, err := pubsub.OpenTopic(t.Context(), "mem://jobs-dead-"+run)
	if err != nil {
		t.Fatal(err)
	}
	// The bridge opens and closes this one too.
	if _, err := pubsub.OpenTopic(t.Context(), "mem://jobs-"+run); err != nil {
		t.Fatal(err)
	}
	worker, err := pubsub.OpenSubscription(t.Context(), "mem://jobs-"+run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, end := range []func(context.Context) error{dead.Shutdown, worker.Shutdown} {
			if err := end(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	file := filepath.Join(t.TempDir(), "dlqbridge.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(byURL, "RUN", run)), 0o600); err != nil {
		t.Fatal(err)
	}
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	b := &bench{t: t, cloud: cloud, sqs: sqs.NewFromConfig(cloud.AWSConfig()), tables: dynamodb.NewFromConfig(cloud.AWSConfig()), config: file, person: "ann", env: map[string]string{}}
	b.ok("tables", "create")
	// One bridge for all: a topic in memory is shared by the process, and ends
	// for everybody with the first command that closes it.
	c, err := config.Load(config.Source{File: file, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := wire.New(wire.Options{Config: c, AWS: cloud.AWSConfig(), Now: time.Now, Log: slog.New(slog.DiscardHandler), Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	said := check.Route(t.Context(), bridge, c.Routes[0])
	if !slices.ContainsFunc(said, func(f check.Finding) bool {
		return f.Level == check.LevelOK && strings.Contains(f.Text, "made in the background and not confirmed")
	}) {
		t.Errorf("check does not say that the acknowledgement is weak: %+v", said)
	}

	// A subscription in memory gets only what comes after it, so the letters
	// come while intake reads.
	facts := func(task string) map[string]string {
		return map[string]string{"agent.v": "1", "agent.task.id": task, "agent.cause": "timeout"}
	}
	sent := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() {
		err := dead.Send(context.Background(), &pubsub.Message{Body: []byte{0xff, 0, 1}, Metadata: facts("t-1")})
		if err == nil {
			err = dead.Send(context.Background(), &pubsub.Message{Body: []byte(strings.Repeat("x", 900)), Metadata: facts("t-2")})
		}
		sent <- err
	})
	in, _, err := bridge.Intake(t.Context(), c.Routes[0], silent{})
	if err != nil {
		t.Fatal(err)
	}
	counts, err := in.UntilEmpty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if counts.Letters != 2 || counts.Records != 2 {
		t.Fatalf("intake: %+v", counts)
	}
	result, err := bridge.Controller().Run(t.Context(), redrive.Request{
		Cause: dlqbridge.CauseTimeout, Fix: &dlqbridge.Fix{Kind: "deploy", Text: "1"}, Reason: "x", Actor: dlqbridge.Actor{Name: "ann"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := result.Excluded.Slice(); err != nil || result.Sent != 1 || len(left) != 1 || left[0].Reason != "too_large" {
		t.Fatalf("redrive: %+v", result)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	m, err := worker.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.Ack()
	if err := bridge.Close(ctx); err != nil {
		t.Error(err)
	}
	if string(m.Body) != "\xff\x00\x01" || m.Metadata["agent.task.id"] != "t-1" || m.Metadata["agent.redrive"] == "" {
		t.Errorf("got %q with %v", m.Body, m.Metadata)
	}
}
