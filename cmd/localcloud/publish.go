package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/dlqbridge/dlqbridge/localstack"
)

const publishHelp = `localcloud publish publishes one message on the local cloud, as gcloud pubsub
topics publish does on the real one. PUBSUB_EMULATOR_HOST names where, so that
it can reach no real topic.

  go run ./cmd/localcloud publish --topic invoices-dead --data '{"invoice":7}' \
    --attribute agent.task.id=t-7 --attribute agent.cause=timeout

It prints the id of the message.

Flags:
`

// publishWithin bounds the wait for an answer: without one the client would
// try for ever.
const publishWithin = 10 * time.Second

// attributes are those of a message, as --attribute gives them.
type attributes map[string]string

// String implements flag.Value.
func (a attributes) String() string { return "" }

// Set implements flag.Value.
func (a attributes) Set(given string) error {
	name, value, ok := strings.Cut(given, "=")
	if !ok || name == "" {
		return errors.New("want NAME=VALUE")
	}
	if _, twice := a[name]; twice {
		return fmt.Errorf("%s is given twice", name)
	}
	a[name] = value
	return nil
}

// publish publishes one message. Exit codes are those of run.
func publish(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("localcloud publish", flag.ContinueOnError)
	topic := flags.String("topic", "", "`topic` of the local project (required)")
	data := flags.String("data", "", "the `body`")
	given := attributes{}
	flags.Var(given, "attribute", "`NAME=VALUE` of an attribute; may be repeated")
	if code, done := parse(flags, publishHelp, args, stdout, stderr); done {
		return code
	}
	switch {
	case *topic == "":
		fmt.Fprintln(stderr, "localcloud publish: --topic is missing: see --help")
		return 2
	case *data == "" && len(given) == 0:
		fmt.Fprintln(stderr, "localcloud publish: a message needs --data or an --attribute")
		return 2
	case os.Getenv("PUBSUB_EMULATOR_HOST") == "":
		fmt.Fprintln(stderr, "localcloud publish: PUBSUB_EMULATOR_HOST is not set: export what localcloud printed at its start")
		return 2
	}
	id, err := send(ctx, *topic, &pubsub.Message{Data: []byte(*data), Attributes: given})
	if err != nil {
		fmt.Fprintf(stderr, "localcloud publish: %v\n", err)
		return 1
	}
	fmt.Fprintln(stdout, id)
	return 0
}

func send(ctx context.Context, topic string, m *pubsub.Message) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	client, err := pubsub.NewClient(ctx, localstack.Project)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	publisher := client.Publisher(topic)
	defer publisher.Stop()
	return publisher.Publish(ctx, m).Get(ctx)
}
