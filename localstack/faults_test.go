package localstack_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// desk is a cloud with one queue and one table, and clients that try once.
type desk struct {
	*localstack.Cloud

	queues *sqs.Client
	tables *dynamodb.Client
	url    *string
}

const table = "records"

func newDesk(t *testing.T) *desk {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	config := cloud.AWSConfig()
	config.RetryMaxAttempts = 1
	d := &desk{Cloud: cloud, queues: sqs.NewFromConfig(config), tables: dynamodb.NewFromConfig(config)}
	err := cloud.Seed(strings.NewReader("queues: [{name: work}]\ntables: [{name: " + table + ", partition_key: pk}]"))
	if err != nil {
		t.Fatal(err)
	}
	d.url = aws.String("http://localcloud/000000000000/work")
	return d
}

func (d *desk) order(t *testing.T, f localstack.Fault) {
	t.Helper()
	if _, err := d.AddFault(f); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) send(t *testing.T, body string) error {
	t.Helper()
	_, err := d.queues.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: d.url, MessageBody: &body})
	return err
}

func (d *desk) put(t *testing.T, pk string) error {
	t.Helper()
	_, err := d.tables.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: item(pk)})
	return err
}

func item(pk string) map[string]ddbtypes.AttributeValue {
	return map[string]ddbtypes.AttributeValue{"pk": &ddbtypes.AttributeValueMemberS{Value: pk}}
}

func (d *desk) depth(t *testing.T) int {
	t.Helper()
	out, err := d.queues.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: d.url, AttributeNames: []types.QueueAttributeName{"All"}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(out.Attributes["ApproximateNumberOfMessages"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if code(err) != want {
		t.Errorf("got %q (%v), want %q", code(err), err, want)
	}
}

func wantDepth(t *testing.T, d *desk, want int) {
	t.Helper()
	if got := d.depth(t); got != want {
		t.Errorf("got %d messages in the queue, want %d", got, want)
	}
}

func TestErrorIsAsOrderedAndCarriesNothingOut(t *testing.T) {
	d := newDesk(t)
	d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Do: "error", Code: "KmsDisabled", Message: "no key", Status: 400})
	_, err := d.queues.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: d.url, MessageBody: aws.String("x")})
	typed, ok := errors.AsType[*types.KmsDisabled](err)
	if !ok || typed.ErrorMessage() != "no key" {
		t.Errorf("got %v, want KmsDisabled: no key", err)
	}
	d.order(t, localstack.Fault{Service: "dynamodb", Operation: "PutItem", Do: "error", Code: "AccessDeniedException"})
	wantCode(t, d.put(t, "a"), "AccessDeniedException")
	d.order(t, localstack.Fault{Service: "dynamodb", Do: "error"})
	wantCode(t, d.put(t, "a"), "InternalServerError")
	wantDepth(t, d, 0)
	if err := d.send(t, "after the rule"); err != nil {
		t.Error(err)
	}
}

func TestThrottleIsWhatTheSDKRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		patient := sqs.NewFromConfig(d.AWSConfig()) // three attempts
		d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Do: "throttle", Times: 2})
		if _, err := patient.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: d.url, MessageBody: aws.String("x")}); err != nil {
			t.Errorf("two throttles, three attempts: %v", err)
		}
		if got := d.Counters().Calls["sqs"]["SendMessage"]; got != 3 {
			t.Errorf("got %d calls, want 3", got)
		}
		wantDepth(t, d, 1)
		d.order(t, localstack.Fault{Service: "sqs", Do: "throttle"})
		wantCode(t, d.send(t, "x"), "RequestThrottled")
		d.order(t, localstack.Fault{Service: "dynamodb", Do: "throttle"})
		wantCode(t, d.put(t, "x"), "ProvisionedThroughputExceededException")
	})
}

func TestFailEntriesFailsThoseAndCarriesOutTheOthers(t *testing.T) {
	d := newDesk(t)
	d.order(t, localstack.Fault{
		Service: "sqs", Operation: "SendMessageBatch", Do: "fail_entries", Entries: localstack.Entries{Positions: []int{0, 2}},
		Code: "ServiceUnavailable", Message: "later",
	})
	batch := &sqs.SendMessageBatchInput{QueueUrl: d.url}
	for _, body := range []string{"a", "b", "c"} {
		batch.Entries = append(batch.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(body), MessageBody: aws.String(body)})
	}
	out, err := d.queues.SendMessageBatch(t.Context(), batch)
	if err != nil || len(out.Failed) != 2 || len(out.Successful) != 1 || *out.Successful[0].Id != "b" {
		t.Fatalf("got %+v, %v, want a and c failed", out, err)
	}
	if f := out.Failed[1]; *f.Id != "c" || *f.Code != "ServiceUnavailable" || *f.Message != "later" || f.SenderFault {
		t.Errorf("got %+v", f)
	}
	wantDepth(t, d, 1)

	received, err := d.queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: d.url})
	if err != nil {
		t.Fatal(err)
	}
	d.order(t, localstack.Fault{Service: "sqs", Operation: "DeleteMessageBatch", Do: "fail_entries", SenderFault: true})
	remove := &sqs.DeleteMessageBatchInput{QueueUrl: d.url, Entries: []types.DeleteMessageBatchRequestEntry{
		{Id: aws.String("x"), ReceiptHandle: received.Messages[0].ReceiptHandle},
	}}
	failed, err := d.queues.DeleteMessageBatch(t.Context(), remove)
	if err != nil || len(failed.Successful) != 0 || len(failed.Failed) != 1 || !failed.Failed[0].SenderFault {
		t.Errorf("got %+v, %v, want all failed", failed, err)
	}
	d.Clock().Advance(time.Minute)
	wantDepth(t, d, 1)
}

func TestDropAfterCarriesOutAndCutsTheConnection(t *testing.T) {
	d := newDesk(t)
	d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Do: "drop_after"})
	err := d.send(t, "x")
	if !errors.Is(err, localstack.ErrCut) || code(err) != "" {
		t.Errorf("got %v, want a transport error", err)
	}
	wantDepth(t, d, 1)
	call := last(d, "SendMessage")
	if call.Fault != "drop_after" || call.Status != 200 || !strings.Contains(string(call.Response), "MessageId") {
		t.Errorf("recorded %+v, want the answer that got lost", call)
	}
}

func TestDropBeforeCarriesNothingOut(t *testing.T) {
	d := newDesk(t)
	d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Do: "drop_before"})
	if err := d.send(t, "x"); !errors.Is(err, localstack.ErrCut) {
		t.Errorf("got %v, want a transport error", err)
	}
	wantDepth(t, d, 0)
	if call := last(d, "SendMessage"); call.Fault != "drop_before" || call.Status != 0 || len(call.Response) != 0 {
		t.Errorf("recorded %+v, want no answer", call)
	}
}

func last(d *desk, operation string) localstack.Request {
	calls := d.Requests("", 0)
	slices.Reverse(calls)
	for _, call := range calls {
		if call.Operation == operation {
			return call
		}
	}
	return localstack.Request{}
}

func TestBlackHoleHoldsUntilTheClientGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.order(t, localstack.Fault{Service: "dynamodb", Operation: "PutItem", Do: "black_hole"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := d.tables.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: item("a")})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("got %v after %v, want the client's own deadline", err, time.Since(began))
		}
		if call := last(d, "PutItem"); call.Fault != "black_hole" || call.Status != 0 {
			t.Errorf("recorded %+v", call)
		}
	})
}

func TestACallInABlackHoleEndsWithTheCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.order(t, localstack.Fault{Service: "sqs", Do: "black_hole"})
		answer := make(chan error)
		go func() { answer <- d.send(t, "x") }()
		synctest.Wait()
		d.Close()
		if err := <-answer; !errors.Is(err, localstack.ErrCut) {
			t.Errorf("got %v, want a transport error", err)
		}
	})
}

func TestEmptyAnswersWithNothing(t *testing.T) {
	d := newDesk(t)
	if err := errors.Join(d.send(t, "x"), d.put(t, "a")); err != nil {
		t.Fatal(err)
	}
	d.order(t, localstack.Fault{Service: "sqs", Do: "empty"}) // any operation that can be empty
	wantDepth(t, d, 1)
	for _, want := range []int{0, 1} {
		out, err := d.queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: d.url})
		if err != nil || len(out.Messages) != want {
			t.Errorf("got %v, %v, want %d messages", out, err, want)
		}
	}
	d.order(t, localstack.Fault{Service: "dynamodb", Operation: "Scan", Do: "empty", Times: 2})
	page, err := d.tables.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table)})
	if err != nil || page.Count != 0 || len(page.Items) != 0 || page.LastEvaluatedKey != nil {
		t.Errorf("got %+v, %v", page, err)
	}
	page, err = d.tables.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table), ExclusiveStartKey: item("0")})
	if err != nil || page.Count != 0 || page.LastEvaluatedKey["pk"].(*ddbtypes.AttributeValueMemberS).Value != "0" {
		t.Errorf("got %+v, %v, want an empty page that goes on", page, err)
	}
}

func TestDelayWaitsOnTheCloudsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Do: "delay", Ms: 1500, Times: 2})
		began := time.Now()
		if err := d.send(t, "x"); err != nil || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		wantDepth(t, d, 1)
		// A delay goes with another fault.
		d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Do: "throttle"})
		began = time.Now()
		wantCode(t, d.send(t, "y"), "RequestThrottled")
		if time.Since(began) != 1500*time.Millisecond {
			t.Errorf("the second took %v", time.Since(began))
		}
	})
}

func TestStaleGivesThePreviousIdenticalAnswer(t *testing.T) {
	d := newDesk(t)
	scan := func() int32 {
		t.Helper()
		out, err := d.tables.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table)})
		if err != nil {
			t.Fatal(err)
		}
		return out.Count
	}
	d.order(t, localstack.Fault{Service: "dynamodb", Operation: "Scan", Do: "stale"})
	if err := d.put(t, "a"); err != nil {
		t.Fatal(err)
	}
	if got := scan(); got != 1 { // nothing to repeat yet: the rule waits
		t.Errorf("got %d items, want 1", got)
	}
	if err := d.put(t, "b"); err != nil {
		t.Fatal(err)
	}
	if got := []int32{scan(), scan()}; !slices.Equal(got, []int32{1, 2}) {
		t.Errorf("got %v items, want the stale 1, then 2", got)
	}
}

func TestUnprocessedItemsAreHandedBack(t *testing.T) {
	d := newDesk(t)
	write := func(keys ...string) *dynamodb.BatchWriteItemOutput {
		t.Helper()
		var requests []ddbtypes.WriteRequest
		for _, key := range keys {
			requests = append(requests, ddbtypes.WriteRequest{PutRequest: &ddbtypes.PutRequest{Item: item(key)}})
		}
		out, err := d.tables.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]ddbtypes.WriteRequest{table: requests}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	d.order(t, localstack.Fault{Service: "dynamodb", Operation: "BatchWriteItem", Do: "unprocessed", Count: 2})
	out := write("a", "b", "c")
	if back := out.UnprocessedItems[table]; len(back) != 2 || pkOf(back[0].PutRequest.Item) != "b" || pkOf(back[1].PutRequest.Item) != "c" {
		t.Errorf("got back %v, want b and c", out.UnprocessedItems)
	}
	write("b")
	d.order(t, localstack.Fault{Service: "dynamodb", Do: "unprocessed", Entries: localstack.Entries{Positions: []int{0}}})
	get := &dynamodb.BatchGetItemInput{RequestItems: map[string]ddbtypes.KeysAndAttributes{table: {
		Keys: []map[string]ddbtypes.AttributeValue{item("a"), item("b"), item("c")}, ConsistentRead: aws.Bool(true),
	}}}
	got, err := d.tables.BatchGetItem(t.Context(), get)
	if err != nil || len(got.Responses[table]) != 1 || pkOf(got.Responses[table][0]) != "b" {
		t.Errorf("got %v, %v, want only b", got, err)
	}
	if back := got.UnprocessedKeys[table]; len(back.Keys) != 1 || pkOf(back.Keys[0]) != "a" || !aws.ToBool(back.ConsistentRead) {
		t.Errorf("got back %+v, want the key of a with its options", back)
	}
	var last localstack.Fault
	if err := json.Unmarshal([]byte(`{"service":"dynamodb","do":"unprocessed","entries":1}`), &last); err != nil {
		t.Fatal(err)
	}
	d.order(t, last)
	if back := write("d", "e").UnprocessedItems[table]; len(back) != 1 || pkOf(back[0].PutRequest.Item) != "e" {
		t.Errorf("got back %v, want the last", back)
	}
	d.order(t, localstack.Fault{Service: "dynamodb", Do: "unprocessed"})
	if out := write("d"); len(out.UnprocessedItems[table]) != 1 {
		t.Errorf("got back %v, want all", out.UnprocessedItems)
	}
}

func pkOf(i map[string]ddbtypes.AttributeValue) string {
	s, _ := i["pk"].(*ddbtypes.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

func TestRulesChooseTheirCalls(t *testing.T) {
	d := newDesk(t)
	d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Contains: "poison", Skip: 1, Times: 2, Do: "throttle"})
	var got []bool
	for _, body := range []string{"fine", "poison 1", "fine", "poison 2", "poison 3", "fine", "poison 4"} {
		got = append(got, d.send(t, body) == nil)
	}
	if want := []bool{true, true, true, false, false, true, true}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	d.order(t, localstack.Fault{Service: "sqs", Operation: "SendMessage", Times: -1, Do: "throttle"})
	for range 5 {
		wantCode(t, d.send(t, "x"), "RequestThrottled")
	}
	if err := d.put(t, "another service"); err != nil {
		t.Error(err)
	}
	d.ClearFaults()
	if err := d.send(t, "x"); err != nil {
		t.Error(err)
	}
}

func TestRulesThatMakeNoSenseAreRefused(t *testing.T) {
	d := newDesk(t)
	for _, f := range []localstack.Fault{
		{},
		{Service: "sqs"},
		{Service: "sqs", Do: "explode"},
		{Service: "s3", Do: "error"},
		{Do: "error"},
		{Service: "dynamodb", Do: "fail_entries"},
		{Service: "sqs", Operation: "SendMessage", Do: "fail_entries"},
		{Service: "sqs", Do: "unprocessed"},
		{Service: "sqs", Do: "fail_ack"},
		{Service: "sqs", Do: "delay"},
		{Service: "sqs", Do: "throttle", Ms: 5},
		{Service: "sqs", Do: "error", Status: 200},
		{Service: "sqs", Do: "error", Times: -2},
		{Service: "sqs", Do: "error", Skip: -1},
		{Service: "sqs", Do: "empty", Code: "X"},
		{Service: "dynamodb", Do: "unprocessed", Count: 1, Entries: localstack.Entries{Positions: []int{0}}},
		{Service: "sqs", Do: "fail_entries", Entries: localstack.Entries{Positions: []int{-1}}},
	} {
		if id, err := d.AddFault(f); err == nil || len(err.Error()) < 20 {
			t.Errorf("%+v: got id %q, error %v, want a sentence", f, id, err)
		}
	}
}

func TestTheRecordingHoldsEachCallInOrder(t *testing.T) {
	d := newDesk(t)
	if err := errors.Join(d.send(t, "one"), d.put(t, "a"), d.send(t, "two")); err != nil {
		t.Fatal(err)
	}
	type line struct {
		N, After           int64
		Service, Operation string
		Status             int
	}
	lines := func(calls []localstack.Request) (list []line) {
		for _, c := range calls {
			list = append(list, line{c.N, c.After, c.Service, c.Operation, c.Status})
		}
		return list
	}
	want := []line{{1, 0, "sqs", "SendMessage", 200}, {2, 1, "dynamodb", "PutItem", 200}, {3, 2, "sqs", "SendMessage", 200}}
	if diff := cmp.Diff(want, lines(d.Requests("", 0))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[2:], lines(d.Requests("sqs", 1))); diff != "" {
		t.Errorf("of sqs since 1 (-want +got):\n%s", diff)
	}
	if body := string(d.Requests("sqs", 2)[0].Request); !strings.Contains(body, `"MessageBody":"two"`) {
		t.Errorf("recorded the request %s", body)
	}
	d.ForgetRequests()
	if got := d.Requests("", 0); len(got) != 0 {
		t.Errorf("after forgetting got %v", lines(got))
	}
	if got := d.Counters(); got.Calls["sqs"]["SendMessage"] != 0 || got.Units.Write != 0 {
		t.Errorf("after forgetting got %+v", got)
	}
}

func TestTheRecordingKeepsTheLastTenThousandAndTheCountersAll(t *testing.T) {
	d := newDesk(t)
	const calls = 10_050
	for range calls {
		if err := d.send(t, "x"); err != nil {
			t.Fatal(err)
		}
	}
	got := d.Requests("sqs", 0)
	if len(got) != 10_000 || got[0].N != 51 || got[len(got)-1].N != calls {
		t.Errorf("got %d calls from %d", len(got), got[0].N)
	}
	if n := d.Counters().Calls["sqs"]["SendMessage"]; n != calls {
		t.Errorf("counted %d, want %d", n, calls)
	}
}

func TestUnitsAreCounted(t *testing.T) {
	d := newDesk(t)
	if err := d.put(t, "a"); err != nil {
		t.Fatal(err)
	}
	_, err := d.tables.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: item("a")})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.Counters().Units, (localstack.Units{Read: 0.5, Write: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
