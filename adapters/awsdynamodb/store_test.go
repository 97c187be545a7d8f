package awsdynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// start is the time of the tests, of the cloud and of the store.
var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

var names = awsdynamodb.TableNames{Records: "records", Payloads: "payloads", Ledger: "ledger"}

// bench is a store over a local cloud of its own.
type bench struct {
	*awsdynamodb.Store
	cloud  *localstack.Cloud
	client *dynamodb.Client
}

// at is the bench's clock: the cloud's, so that Advance moves both.
func (b *bench) at() time.Time { return b.cloud.Clock().Now() }

// open makes a bench. The client's own retries are off, so that each test says
// what is tried again; waits take no time.
func open(tb testing.TB, change ...func(*awsdynamodb.Options)) *bench {
	tb.Helper()
	cloud := localstack.New(localstack.Options{Now: func() time.Time { return start }})
	tb.Cleanup(cloud.Close)
	client := dynamodb.NewFromConfig(cloud.AWSConfig(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	if err := awsdynamodb.CreateTables(tb.Context(), client, names); err != nil {
		tb.Fatal(err)
	}
	b := &bench{cloud: cloud, client: client}
	b.Store = b.another(tb, change...)
	cloud.ForgetRequests()
	return b
}

// another is a second process's store over the same tables.
func (b *bench) another(tb testing.TB, change ...func(*awsdynamodb.Options)) *awsdynamodb.Store {
	tb.Helper()
	o := awsdynamodb.Options{
		Client: b.client, Records: names.Records, Payloads: names.Payloads, Now: b.at,
		Retry: retry.Policy{Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }},
	}
	for _, c := range change {
		c(&o)
	}
	store, err := awsdynamodb.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

func (b *bench) fault(tb testing.TB, f localstack.Fault) {
	tb.Helper()
	f.Service = "dynamodb"
	if _, err := b.cloud.AddFault(f); err != nil {
		tb.Fatal(err)
	}
}

// calls counts the calls of an operation since the bench was opened.
func (b *bench) calls(operation string) int64 {
	return b.cloud.Counters().Calls["dynamodb"][operation]
}

// same ignores what nobody can tell apart: nil and empty lists and maps.
var same = cmpopts.EquateEmpty()

func diff(tb testing.TB, what string, want, got any) {
	tb.Helper()
	if d := cmp.Diff(want, got, same); d != "" {
		tb.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func must(tb testing.TB, errs ...error) {
	tb.Helper()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
}

// record is a plausible new record.
func record(n int) dlqbridge.Control {
	id := dlqbridge.RecordID(dlqbridge.IdentityTask, "arn:aws:sqs:us-east-1:123456789012:orders", "acme", fmt.Sprint("task-", n), 0)
	at := start.Add(time.Duration(n) * time.Second)
	return dlqbridge.Control{
		ID: id, Version: 1, Identity: dlqbridge.IdentityTask, Route: "orders", Provider: dlqbridge.SQS,
		Source: "arn:aws:sqs:us-east-1:123456789012:orders", TaskID: fmt.Sprint("task-", n), TaskType: "invoice.create",
		Tenant: "acme", Owner: "platform", Signature: "sg_" + dlqbridge.Fingerprint("orders", "charge"),
		Status: dlqbridge.StatusUnderInvestigation, Cause: dlqbridge.CauseAmbiguousEffect,
		Effect: dlqbridge.EffectUnknown, Uncovered: dlqbridge.EffectUnknown, Action: dlqbridge.ActionHumanReview,
		Why: dlqbridge.WhyEffectUnknown, PayloadVersion: 1, Context: "c_" + dlqbridge.Fingerprint("context"), Arrivals: 1,
		Newest: "aaaabbbbccccddddeeeeffff", FirstSeen: at, LastSeen: at, LostAt: at.Add(14 * 24 * time.Hour), TriageBy: at.Add(4 * time.Hour),
		Move: dlqbridge.Move{
			Version: 1, At: at, By: "policy:default@1", Verb: dlqbridge.VerbReceive, To: dlqbridge.StatusUnderInvestigation,
			Why: "effect_unknown", Arrival: "aaaabbbbccccddddeeeeffff", Context: "c_" + dlqbridge.Fingerprint("context"),
		},
	}
}

// next is the record after one more move.
func next(c dlqbridge.Control, by string) dlqbridge.Control {
	c.Version++
	c.Owner = by
	c.Move = dlqbridge.Move{
		Version: c.Version, At: c.Move.At.Add(time.Minute), By: by, Verb: dlqbridge.VerbAssign,
		From: c.Status, To: c.Status, Why: "assigned", Note: "n_" + by,
	}
	return c
}

func step(from, to dlqbridge.Control) []dlqbridge.Step {
	return []dlqbridge.Step{{From: from, To: to}}
}

func (b *bench) create(tb testing.TB, controls ...dlqbridge.Control) {
	tb.Helper()
	for _, a := range b.Create(tb.Context(), controls) {
		must(tb, a.Err)
	}
}
