package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/cli"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// service is `dlqbridge serve` in this process, with real doors.
type service struct {
	*bench
	base string
	logs *syncBuffer
	stop context.CancelFunc
	done chan int
}

// syncBuffer is written by the service and read by the test.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// startService serves a fresh cloud. Stopping it is part of the test's end.
func startService(t *testing.T, config string, prepare ...func(*bench)) *service {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dlqbridge.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cloud := localstack.New(localstack.Options{})
	s := &service{bench: &bench{
		t: t, cloud: cloud, sqs: sqs.NewFromConfig(cloud.AWSConfig()), tables: dynamodb.NewFromConfig(cloud.AWSConfig()), config: file, person: "svc", env: map[string]string{},
	}, logs: &syncBuffer{}, done: make(chan int, 1)}
	s.pair("orders")
	s.ok("tables", "create")
	for _, do := range prepare {
		do(s.bench)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	listening := make(chan net.Addr, 1)
	p := &cli.Program{
		Args: []string{"--config", file, "--log-format", "json", "serve", "--listen", "127.0.0.1:0"}, Stdout: io.Discard, Stderr: s.logs,
		Env: func(string) (string, bool) { return "", false }, AWS: func(context.Context) (aws.Config, error) { return cloud.AWSConfig(), nil },
		Version: "test", PubSub: s.pubsub, Listening: func(a net.Addr) { listening <- a },
	}
	go func() { s.done <- p.Run(ctx) }()
	t.Cleanup(func() { stop(); cloud.Close() })
	select {
	case a := <-listening:
		s.base = "http://" + a.String()
	case code := <-s.done:
		t.Fatalf("serve ended with %d: %s", code, s.logs)
	}
	return s
}

// get asks a door once, without keeping the connection.
func (s *service) get(path string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// until asks again until what is asked for is there, at most for ten seconds.
func (s *service) until(what string, there func() bool) {
	s.t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-deadline.C:
			_, metrics := s.get("/metrics")
			s.t.Fatalf("%s is not there\n%s\n%s", what, s.logs, metrics)
		}
	}
}

func (s *service) metric(line string) bool {
	_, body := s.get("/metrics")
	return strings.Contains(body, line+"\n")
}

func TestServeTakesInAndTellsItsHealth(t *testing.T) {
	s := startService(t, oneRoute)
	if code, body := s.get("/healthz"); code != 200 {
		t.Errorf("healthz %d %s", code, body)
	}
	s.until("ready", func() bool { code, _ := s.get("/readyz"); return code == 200 })

	// Every label value is there from the start.
	_, body := s.get("/metrics")
	for _, line := range []string{
		`dlqbridge_letters_total{kind="unstored",route="orders"} 0`, `dlqbridge_records_created_total{cause="critical",route="orders"} 0`,
		`dlqbridge_redrive_outcomes_total{outcome="recurred"} 0`, `dlqbridge_provider_calls_total{result="throttled",service="SQS"} 0`,
		`dlqbridge_records_open{cause="timeout",route="orders",status="redriving"} 0`, `dlqbridge_build_info{version="test"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("%s is not in the metrics", line)
		}
	}

	s.send("orders-dlq", "x", row{"v": 1, "task": "t-1", "cause": "timeout"})
	s.until("the record", func() bool { return s.metric(`dlqbridge_records_created_total{cause="timeout",route="orders"} 1`) })
	if ids := s.byTask(); len(ids) != 1 {
		t.Errorf("records %v", ids)
	}

	s.stop()
	if code := <-s.done; code != 0 {
		t.Errorf("serve ended with %d: %s", code, s.logs)
	}
	for line := range strings.Lines(s.logs.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a log line is no JSON: %s", line)
		}
	}
}

// C74 at the start of the service.
func TestC74ServeWarnsOfRetention(t *testing.T) {
	s := startService(t, oneRoute, func(b *bench) { b.attributes("orders-dlq", map[string]string{"MessageRetentionPeriod": "3600"}) })
	s.until("the warning", func() bool {
		return strings.Contains(s.logs.String(), "keeps a message for 1h from its first send, the source for 4d")
	})
	s.stop()
	<-s.done
}

func TestServeIsNotReadyWithoutItsQueueOrTable(t *testing.T) {
	for name, fault := range map[string]localstack.Fault{
		"queue": {Service: "sqs", Operation: "GetQueueAttributes", Times: -1, Do: "error", Code: "AccessDenied", Status: 403},
		"table": {Service: "dynamodb", Operation: "BatchGetItem", Times: -1, Do: "error", Code: "AccessDeniedException", Status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			s := startService(t, oneRoute)
			if _, err := s.cloud.AddFault(fault); err != nil {
				t.Fatal(err)
			}
			// The first look may still be that of the start.
			code, body := s.get("/readyz")
			if code != 503 || !strings.Contains(body, `"ready":false`) || strings.Contains(body, "AccessDenied") {
				t.Errorf("readyz %d %s", code, body)
			}
			if code, _ := s.get("/healthz"); code != 200 {
				t.Errorf("healthz %d: the process lives all the same", code)
			}
			s.stop()
			<-s.done
		})
	}
}

func TestServeComesBackWhenARightDoes(t *testing.T) {
	s := startService(t, oneRoute)
	if _, err := s.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: "ReceiveMessage", Times: -1, Do: "error", Code: "AccessDenied", Status: 403}); err != nil {
		t.Fatal(err)
	}
	s.send("orders-dlq", "wakes the receive that waits", nil)
	s.until("the failure", func() bool {
		code, body := s.get("/readyz")
		return code == 503 && strings.Contains(body, "intake of orders")
	})
	s.cloud.ClearFaults()
	s.until("the record", func() bool { return s.metric(`dlqbridge_letters_total{kind="record",route="orders"} 1`) })
	if s.metric(`dlqbridge_loop_errors_total{loop="intake"} 0`) {
		t.Error("the failure is not counted")
	}
	s.stop()
	if code := <-s.done; code != 0 {
		t.Errorf("serve ended with %d", code)
	}
}

func TestServeNamesWhatIsMissingAtTheStart(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		if c := b.want(1, "serve", "--listen", "127.0.0.1:0"); !strings.Contains(c.stderr, "orders-dlq") {
			t.Error(c.stderr)
		}
		if c := b.want(2, "serve", "--listen", "nowhere"); !strings.Contains(c.stderr, "flag --listen") {
			t.Error(c.stderr)
		}
	})
}

// The real program: SIGTERM stops it in order, with exit code 0; so does
// SIGINT an intake, whose letters stay or are stored.
func TestSignalsStopInOrder(t *testing.T) {
	w := newWorld(t, twoRoutes)
	w.queues("orders", false)
	w.queues("jobs", true)
	w.run(0, "tables", "create")
	cmd := w.command("serve", "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var logs strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		logs.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "msg=serving") {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, logs.String())
	}
	stopping, stopped := strings.Index(logs.String(), "msg=stopping"), strings.Index(logs.String(), "msg=stopped")
	if stopping < 0 || stopped < stopping {
		t.Errorf("the stop is not told in order:\n%s", logs.String())
	}
}
