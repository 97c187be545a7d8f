// Command localcloud serves the local cloud on an address of this machine:
// SQS, DynamoDB and STS for any client of AWS and Pub/Sub for any client of
// Google Cloud, without an account and without containers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const help = `localcloud serves SQS, DynamoDB, STS and Pub/Sub on this machine, strict as the
real ones.

  go run ./cmd/localcloud [--aws 127.0.0.1:4566] [--pubsub 127.0.0.1:8085] [--seed FILE]

It prints the environment for clients, as lines to paste into another shell,
and then "ready". Ctrl-C stops it, and everything in it is gone.

  aws --endpoint-url http://127.0.0.1:4566 sqs list-queues

A message for Pub/Sub, in a shell with that environment:

  go run ./cmd/localcloud publish --topic invoices-dead --data '{"invoice":7}' --attribute agent.task.id=t-7

A seed file fills it at the start:

  queues:
    - {name: orders-dlq}
    - {name: orders, visibility_timeout: 30, redrive: {to: orders-dlq, max_receive_count: 3}}
  tables:
    - {name: ledger, partition_key: pk, sort_key: sk, ttl: expires_at}
  topics: [invoices, invoices-dead]
  subscriptions:
    - {name: invoices, topic: invoices, dead_letter: {topic: invoices-dead, max_attempts: 5}}
    - {name: invoices-dead, topic: invoices-dead}

The AWS address has a control interface: the calls so far, faults to order, a
clock to move.

  curl http://127.0.0.1:4566/_local/requests?service=sqs
  curl -d '{"service":"sqs","operation":"SendMessage","do":"drop_after"}' http://127.0.0.1:4566/_local/faults
  curl -d '{"advance":"13h"}' http://127.0.0.1:4566/_local/clock

localstack/README.md has the rest.

Flags:
`

// shutdownGrace is how long answers that are being written may take at the end.
const shutdownGrace = 5 * time.Second

// run serves until ctx ends. Exit codes: 0 stopped, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "publish" {
		return publish(ctx, args[1:], stdout, stderr)
	}
	flags := flag.NewFlagSet("localcloud", flag.ContinueOnError)
	aws := flags.String("aws", "127.0.0.1:4566", "`address` to serve AWS and the control interface on; port 0 picks a free one")
	pubsub := flags.String("pubsub", "127.0.0.1:8085", "`address` to serve Pub/Sub on; empty serves none")
	seed := flags.String("seed", "", "YAML `file` of queues, tables, topics and subscriptions to start with")
	if code, done := parse(flags, help, args, stdout, stderr); done {
		return code
	}

	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	if *seed != "" {
		if err := plant(cloud, *seed); err != nil { //nolint:contextcheck // seeding is over before there is anything to stop
			fmt.Fprintf(stderr, "localcloud: %v\n", err)
			return 2
		}
	}
	if err := serve(ctx, cloud, *aws, *pubsub, stdout); err != nil {
		fmt.Fprintf(stderr, "localcloud: %v\n", err)
		return 1
	}
	return 0
}

// parse reads a command's flags; done says that there is nothing more to do, and
// with which exit code. Help that was asked for is an answer, not a complaint.
func parse(flags *flag.FlagSet, help string, args []string, stdout, stderr io.Writer) (code int, done bool) {
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), help)
		flags.PrintDefaults()
	}
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "-h" || arg == "--help" || arg == "-help" }) {
		flags.SetOutput(stdout)
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0, true
	case err != nil:
		return 2, true
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "%s: unexpected argument %q: see --help\n", flags.Name(), flags.Arg(0))
		return 2, true
	}
	return 0, false
}

func plant(cloud *localstack.Cloud, path string) error {
	file, err := os.Open(path) //nolint:gosec // the file that its user names
	if err != nil {
		return fmt.Errorf("open the seed: %w", err)
	}
	defer file.Close()
	if err := cloud.Seed(file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func serve(ctx context.Context, cloud *localstack.Cloud, aws, pubsub string, stdout io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", aws)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	environment := []string{
		"AWS_ENDPOINT_URL=http://" + listener.Addr().String(),
		"AWS_REGION=" + localstack.Region,
		"AWS_DEFAULT_REGION=" + localstack.Region,
		"AWS_ACCESS_KEY_ID=local",
		"AWS_SECRET_ACCESS_KEY=local",
	}
	served := make(chan error, 2)
	if pubsub != "" {
		rpc, err := (&net.ListenConfig{}).Listen(ctx, "tcp", pubsub)
		if err != nil {
			_ = listener.Close() // nothing was accepted on it
			return fmt.Errorf("listen for Pub/Sub: %w", err)
		}
		environment = append(environment,
			"PUBSUB_EMULATOR_HOST="+rpc.Addr().String(),
			"PUBSUB_PROJECT_ID="+localstack.Project,
			"GOOGLE_CLOUD_PROJECT="+localstack.Project,
		)
		go func() { served <- cloud.ServePubSub(rpc) }()
	}
	server := &http.Server{Handler: cloud.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { served <- server.Serve(listener) }()

	for _, line := range environment {
		fmt.Fprintln(stdout, "export "+line)
	}
	fmt.Fprintln(stdout, "ready")

	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	// First the waiting receives, which would otherwise hold up the server.
	cloud.Close()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
