package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// cloudOf is the cloud that a script runs against.
type cloudOf struct {
	cloud  *localstack.Cloud
	sqs    *sqs.Client
	tables *dynamodb.Client
}

// TestScripts runs the real program as a user does, each script against a
// cloud of its own behind a real socket. Besides testscript's own commands:
//
//	seed FILE             fills the cloud
//	letter QUEUE BODY CTX sends a message; CTX is the attribute agent.ctx
//	ledger TASK ENTRY K=V…  writes a ledger row
//	moves QUEUE           lets every message fail once, which moves it
//	neutral FILE          writes standard output to a file, without ids and times
//	id VAR                puts the first record id of standard output into $VAR
//	body QUEUE TEXT       takes one message and compares its body
//	pass DURATION         lets the cloud's clock pass
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("DLQBRIDGE_UPDATE") != "",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			cloud := localstack.New(localstack.Options{})
			server := httptest.NewServer(cloud.Handler())
			e.Defer(func() { cloud.Close(); server.Close() })
			e.Values["cloud"] = &cloudOf{cloud, sqs.NewFromConfig(cloud.AWSConfig()), dynamodb.NewFromConfig(cloud.AWSConfig())}
			e.Vars = append(e.Vars, "AWS_ENDPOINT_URL="+server.URL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=ann", "AWS_SECRET_ACCESS_KEY=local", "AWS_EC2_METADATA_DISABLED=true")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"seed": scripted(1, func(ts *testscript.TestScript, c *cloudOf, args []string) error {
				return c.cloud.Seed(strings.NewReader(ts.ReadFile(args[0])))
			}),
			"letter": scripted(3, (*cloudOf).letter), "ledger": scripted(-2, (*cloudOf).ledger), "moves": scripted(1, (*cloudOf).moves),
			"neutral": scripted(1, (*cloudOf).neutral), "id": scripted(1, (*cloudOf).id), "body": scripted(2, (*cloudOf).body), "pass": scripted(1, (*cloudOf).pass),
			"exits": scripted(-2, (*cloudOf).exits),
		},
	})
}

// scripted makes a command of n arguments (-n: at least n).
func scripted[F func(*testscript.TestScript, *cloudOf, []string) error | func(*cloudOf, *testscript.TestScript, []string) error](n int, do F) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || n >= 0 && len(args) != n || len(args) < -n {
			ts.Fatalf("wrong use")
		}
		c := ts.Value("cloud").(*cloudOf)
		var err error
		switch f := any(do).(type) {
		case func(*testscript.TestScript, *cloudOf, []string) error:
			err = f(ts, c, args)
		case func(*cloudOf, *testscript.TestScript, []string) error:
			err = f(c, ts, args)
		}
		ts.Check(err)
	}
}

func (c *cloudOf) url(queue string) (*string, error) {
	out, err := c.sqs.GetQueueUrl(context.Background(), &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		return nil, err
	}
	return out.QueueUrl, nil
}

func (c *cloudOf) letter(_ *testscript.TestScript, args []string) error {
	url, err := c.url(args[0])
	if err != nil {
		return err
	}
	_, err = c.sqs.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: &args[1], MessageAttributes: contextAttribute(args[2])})
	return err
}

func (c *cloudOf) ledger(_ *testscript.TestScript, args []string) error {
	item := map[string]any{"task_id": args[0], "entry": args[1]}
	for _, pair := range args[2:] {
		k, v, _ := strings.Cut(pair, "=")
		item[k] = v
		if v == "true" || v == "false" {
			item[k] = v == "true"
		}
	}
	_, err := c.tables.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: aws.String("agent-ledger"), Item: attributes(item)})
	return err
}

func (c *cloudOf) moves(_ *testscript.TestScript, args []string) error {
	url, err := c.url(args[0])
	if err != nil {
		return err
	}
	for range 2 {
		for {
			out, err := c.sqs.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 1})
			if err != nil {
				return err
			}
			if len(out.Messages) == 0 {
				break
			}
		}
		c.cloud.Clock().Advance(2 * time.Second)
	}
	return nil
}

func (c *cloudOf) pass(_ *testscript.TestScript, args []string) error {
	d, err := time.ParseDuration(args[0])
	c.cloud.Clock().Advance(d)
	return err
}

func (c *cloudOf) body(_ *testscript.TestScript, args []string) error {
	url, err := c.url(args[0])
	if err != nil {
		return err
	}
	out, err := c.sqs.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: url})
	if err != nil {
		return err
	}
	got := ""
	if len(out.Messages) > 0 {
		got = *out.Messages[0].Body
		if _, err := c.sqs.DeleteMessage(context.Background(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: out.Messages[0].ReceiptHandle}); err != nil {
			return err
		}
	}
	if got != args[1] {
		return fmt.Errorf("got body %q, want %q", got, args[1])
	}
	return nil
}

func (c *cloudOf) id(ts *testscript.TestScript, args []string) error {
	id := anyRecord.FindString(ts.ReadFile("stdout"))
	if id == "" {
		return fmt.Errorf("no record id in %q", ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], id)
	return nil
}

var anyJob = regexp.MustCompile(`j_[a-z2-7]{16}`)

// neutral writes standard output without what differs from run to run to a file.
func (c *cloudOf) neutral(ts *testscript.TestScript, args []string) error {
	text := anyJob.ReplaceAllString(neutral(ts.ReadFile("stdout")), "j_0000000000000000")
	return os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600)
}

// exits runs a program and demands its exit code, without a shell.
func (c *cloudOf) exits(ts *testscript.TestScript, args []string) error {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		return err
	}
	if code != args[0] {
		return fmt.Errorf("exit %s, want %s", code, args[0])
	}
	return nil
}
