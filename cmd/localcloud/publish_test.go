package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/dlqbridge/dlqbridge/localstack"
)

func TestPublishesOneMessage(t *testing.T) {
	environment, stop := start(t, "--aws", "127.0.0.1:0", "--pubsub", "127.0.0.1:0", "--seed", seedFile(t, `
topics: [invoices-dead]
subscriptions:
  - {name: invoices-dead, topic: invoices-dead}
`))
	t.Setenv("PUBSUB_EMULATOR_HOST", environment["PUBSUB_EMULATOR_HOST"])
	publish := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run(t.Context(), append([]string{"publish"}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	code, id, said := publish("--topic", "invoices-dead", "--data", `{"invoice":7}`, "--attribute", "agent.task.id=t-7", "--attribute", "formula=a=b")
	if code != 0 || strings.TrimSpace(id) == "" {
		t.Fatalf("exit %d: %s", code, said)
	}
	if code, _, said := publish("--topic", "nope", "--data", "x"); code != 1 || !strings.Contains(said, "nope") {
		t.Errorf("a topic that is not there: exit %d, %s", code, said)
	}
	client, err := pubsub.NewClient(t.Context(), localstack.Project)
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	var got *pubsub.Message
	err = client.Subscriber("invoices-dead").Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		got = m
		m.Ack()
		done()
	})
	if err != nil || got == nil || got.ID != strings.TrimSpace(id) || string(got.Data) != `{"invoice":7}` || got.Attributes["agent.task.id"] != "t-7" || got.Attributes["formula"] != "a=b" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if code := stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestPublishRefusesWhatCannotBeMeant(t *testing.T) {
	for host, cases := range map[string]map[string]string{
		"127.0.0.1:1": {
			"--data x":                "--topic is missing",
			"--topic t":               "needs --data or an --attribute",
			"--topic t --data x more": "unexpected argument",
			"--topic t --attribute x": "want NAME=VALUE",
			"--topic t --bogus":       "bogus",
			"--topic t --attribute a=1 --attribute a=2": "a is given twice",
		},
		"": {"--topic t --data x": "PUBSUB_EMULATOR_HOST is not set"}, // never a real topic
	} {
		t.Setenv("PUBSUB_EMULATOR_HOST", host)
		for line, want := range cases {
			var out, errs bytes.Buffer
			if code := run(t.Context(), append([]string{"publish"}, strings.Fields(line)...), &out, &errs); code != 2 || !strings.Contains(errs.String(), want) {
				t.Errorf("%s: exit %d, %s", line, code, errs.String())
			}
		}
	}
}
