package awssqs_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// C05: each queue's own limit is asked for.
func TestC05FactsAreTheQueuesOwn(t *testing.T) {
	b := newBench(t)
	dead := b.queue(t, "dead")
	small := b.source(t, "small", dead, "MaximumMessageSize", "262144", "VisibilityTimeout", "45")
	large := b.queue(t, "large.fifo", "FifoQueue", "true")
	facts := func(arn string) dlqbridge.DestinationFacts {
		got, err := b.destination(t, arn).Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := dlqbridge.DestinationFacts{
		URN: small, MaxBytes: 262_144, BatchBytes: 1_048_576, BatchCount: 10, MaxAttributes: 10,
		Visibility: 45 * time.Second, MaxReceives: 1, DeadLetterPlace: dead,
	}
	if diff := cmp.Diff(want, facts(small)); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	want = dlqbridge.DestinationFacts{
		URN: large, FIFO: true, Ordered: true, MaxBytes: 1_048_576, BatchBytes: 1_048_576, BatchCount: 10, MaxAttributes: 10, Visibility: 30 * time.Second,
	}
	if diff := cmp.Diff(want, facts(large)); diff != "" {
		t.Errorf("facts of a FIFO queue (-want +got):\n%s", diff)
	}
	message := dlqbridge.Outgoing{Payload: dlqbridge.Payload{Body: bytes.Repeat([]byte("x"), 700<<10), GroupKey: "g"}}
	if err := awssqs.Check(message, facts(large)); err != nil {
		t.Errorf("700 KiB to a queue of 1 MiB: %v", err)
	}
	err := awssqs.Check(message, facts(small))
	if !errors.Is(err, dlqbridge.ErrTooLarge) || !strings.Contains(err.Error(), "262144") {
		t.Errorf("700 KiB to a queue of 256 KiB: %v", err)
	}
	tiny := b.queue(t, "tiny", "MaximumMessageSize", "1024")
	for size, want := range map[int]error{1024: nil, 1025: dlqbridge.ErrTooLarge} {
		message.Payload.Body = bytes.Repeat([]byte("x"), size)
		if err := awssqs.Check(message, facts(tiny)); !errors.Is(err, want) {
			t.Errorf("%d bytes to a queue of 1,024: %v", size, err)
		}
	}
	// What the service alone knows fails that one message.
	message.Payload.Body = bytes.Repeat([]byte("x"), 1025)
	got := b.destination(t, tiny).Send(t.Context(), append(outgoing("a", "b"), message))
	wantErrors(t, errorsOf(got), map[int]error{2: dlqbridge.ErrTooLarge})
}

// C02: what the answer says about each message, by position.
func TestC02SendAnswersForEachMessage(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "jobs")
	d := b.destination(t, arn)
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoFailEntries, Entries: localstack.Entries{Positions: []int{2, 5}}, Code: "InternalError"})
	got := d.Send(t.Context(), outgoing(numbered(10)...))
	unavailable := dlqbridge.ErrUnavailable
	wantErrors(t, errorsOf(got), map[int]error{2: unavailable, 5: unavailable})
	for i, r := range got {
		if (r.MessageID != "") != (r.Err == nil) {
			t.Errorf("message %d: id %q, error %v", i, r.MessageID, r.Err)
		}
	}
	for code, want := range map[string]error{
		"RequestThrottled": dlqbridge.ErrThrottled, "KMS.AccessDeniedException": dlqbridge.ErrDenied,
		"InvalidMessageContents": dlqbridge.ErrInvalid, "InvalidParameterValue": dlqbridge.ErrInvalid,
	} {
		b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoFailEntries, Entries: localstack.Entries{Positions: []int{0}}, Code: code, SenderFault: true})
		wantErrors(t, errorsOf(d.Send(t.Context(), outgoing("a", "b"))), map[int]error{0: want})
	}
	if n := len(b.requests(t, "SendMessageBatch")); n != 5 || len(b.waits) != 0 {
		t.Errorf("%d requests and waits %v for 5 sends: a send tries nothing again", n, b.waits)
	}
	if n := b.total(t, arn); n != 8+4 {
		t.Errorf("%d messages in the queue, want 12", n)
	}
}

// C02, C76: what refuses the request refuses every message, in both spellings.
func TestC76RefusalsOfTheRequest(t *testing.T) {
	for _, row := range []struct {
		code string
		want error
	}{
		{"AWS.SimpleQueueService.NonExistentQueue", dlqbridge.ErrNotFound},
		{"QueueDoesNotExist", dlqbridge.ErrNotFound},
		{"AccessDenied", dlqbridge.ErrDenied},
		{"AccessDeniedException", dlqbridge.ErrDenied},
		{"RequestThrottled", dlqbridge.ErrThrottled},
		{"ThrottlingException", dlqbridge.ErrThrottled},
		{"ExpiredToken", dlqbridge.ErrCredentials},
		{"BatchRequestTooLong", dlqbridge.ErrTooLarge},
	} {
		for _, kind := range []string{"jobs", "jobs.fifo"} {
			t.Run(row.code+" "+kind, func(t *testing.T) {
				b := newBench(t)
				d := b.kind(t, kind)
				b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoError, Code: row.code, Times: -1})
				wantErrors(t, errorsOf(d.Send(t.Context(), grouped("a", "b"))), map[int]error{0: row.want, 1: row.want})
				if n := len(b.requests(t, "SendMessageBatch")); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		}
	}
}

// kind opens a queue to send to, FIFO by its name.
func (b *bench) kind(t *testing.T, name string) *awssqs.Destination {
	t.Helper()
	if strings.HasSuffix(name, ".fifo") {
		return b.destination(t, b.queue(t, name, "FifoQueue", "true"))
	}
	return b.destination(t, b.queue(t, name))
}

// grouped makes messages that FIFO queues take too.
func grouped(bodies ...string) []dlqbridge.Outgoing {
	out := outgoing(bodies...)
	for i := range out {
		out[i].Payload.GroupKey = "tenant-17"
		out[i].DedupID = "dedup-" + bodies[i]
	}
	return out
}

// A standard queue would take a repeated request as new messages, so a lost
// answer is reported and nothing is sent again, neither by us nor by the SDK.
func TestLostAnswerOfAStandardQueueIsUnclear(t *testing.T) {
	unclear := dlqbridge.ErrUnclear
	for _, do := range []string{localstack.DoDropAfter, localstack.DoDropBefore, localstack.DoError} {
		b := newBench(t)
		d := b.kind(t, "jobs")
		b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: do, Times: -1})
		wantErrors(t, errorsOf(d.Send(t.Context(), outgoing("a", "b"))), map[int]error{0: unclear, 1: unclear})
		if n := len(b.requests(t, "SendMessageBatch")); n != 1 {
			t.Errorf("%s: %d requests, want 1", do, n)
		}
	}
}

// C39: the deduplication id protects a repeated send on a FIFO queue.
func TestC39LostAnswerOfAFIFOQueueIsAskedForAgain(t *testing.T) {
	b := newBench(t)
	d := b.kind(t, "jobs.fifo")
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoDropAfter, Times: 2})
	got := d.Send(t.Context(), grouped("a", "b"))
	wantErrors(t, errorsOf(got), nil)
	requests := b.entries(t, "SendMessageBatch")
	if len(requests) != 3 {
		t.Fatalf("%d requests, want 3", len(requests))
	}
	for _, entries := range requests[1:] {
		if diff := cmp.Diff(requests[0], entries); diff != "" {
			t.Errorf("a repeated request differs:\n%s", diff)
		}
	}
	messages := b.contents(t, "arn:aws:sqs:"+localstack.Region+":"+localstack.Account+":jobs.fifo")
	if diff := cmp.Diff([]string{"a", "b"}, bodies(messages)); diff != "" {
		t.Errorf("in the queue (-want +got):\n%s", diff)
	}
	for _, m := range messages {
		if !slices.ContainsFunc(got, func(r dlqbridge.SendResult) bool { return r.MessageID == *m.MessageId }) {
			t.Errorf("message %s is in no answer", *m.MessageId)
		}
	}
}

// The window of the deduplication id is five minutes; a send is not repeated
// when much of it has gone by.
func TestC39NoRepeatLateInTheWindow(t *testing.T) {
	b := newBench(t)
	o := b.options(b.queue(t, "jobs.fifo", "FifoQueue", "true"))
	o.Now = func() time.Time { b.Clock().Advance(3 * time.Minute); return b.Clock().Now() }
	d := must(t)(awssqs.OpenDestination(t.Context(), o))
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoDropAfter, Times: -1})
	wantErrors(t, errorsOf(d.Send(t.Context(), grouped("a"))), map[int]error{0: dlqbridge.ErrUnclear})
	if n := len(b.requests(t, "SendMessageBatch")); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// A refusal after a lost answer does not say that nothing was sent.
func TestRefusalAfterALostAnswerIsUnclear(t *testing.T) {
	b := newBench(t)
	d := b.kind(t, "jobs.fifo")
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoDropAfter})
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoThrottle, Times: -1})
	unclear := dlqbridge.ErrUnclear
	wantErrors(t, errorsOf(d.Send(t.Context(), grouped("a", "b"))), map[int]error{0: unclear, 1: unclear})
	if n := len(b.requests(t, "SendMessageBatch")); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}

	b.ClearFaults()
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoDropBefore})
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoFailEntries, Entries: localstack.Entries{Positions: []int{1}}, Code: "RequestThrottled"})
	wantErrors(t, errorsOf(d.Send(t.Context(), grouped("c", "d"))), map[int]error{1: unclear})
}

func TestSendThatIsNotBegunIsNotInDoubt(t *testing.T) {
	b := newBench(t)
	d := b.kind(t, "jobs")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := d.Send(ctx, outgoing("a"))
	if err := got[0].Err; !errors.Is(err, dlqbridge.ErrUnavailable) || !errors.Is(err, context.Canceled) || errors.Is(err, dlqbridge.ErrUnclear) {
		t.Errorf("got %v", err)
	}
	if n := len(b.requests(t, "SendMessageBatch")); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// A request that is never answered ends by its own bound, and is in doubt.
func TestSendIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		d := b.kind(t, "jobs")
		b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoBlackHole})
		began := time.Now()
		wantErrors(t, errorsOf(d.Send(t.Context(), outgoing("a"))), map[int]error{0: dlqbridge.ErrUnclear})
		if took := time.Since(began); took != awssqs.DefaultCallTimeout {
			t.Errorf("gave up after %v, want %v", took, awssqs.DefaultCallTimeout)
		}
	})
}

func must(t *testing.T) func(*awssqs.Destination, error) *awssqs.Destination {
	t.Helper()
	return func(d *awssqs.Destination, err error) *awssqs.Destination {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// partial is a service that forgets to mention some messages.
type partial struct {
	*sqs.Client
	drop int
}

func (p partial) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, o ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	out, err := p.Client.SendMessageBatch(ctx, in, o...)
	if err == nil {
		out.Successful = slices.Delete(out.Successful, p.drop, p.drop+1)
		slices.Reverse(out.Successful) // the order of an answer is nobody's promise
	}
	return out, err
}

// C07: results are mapped by id, in whatever order they come; what the answer
// does not mention is unclear.
func TestC07ResultsAreMappedByID(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "jobs")
	o := b.options(arn)
	o.Client = partial{b.client, 3}
	d := must(t)(awssqs.OpenDestination(t.Context(), o))
	got := d.Send(t.Context(), outgoing(numbered(10)...))
	wantErrors(t, errorsOf(got), map[int]error{3: dlqbridge.ErrUnclear})
	for _, m := range b.contents(t, arn) {
		i, _ := strconv.Atoi((*m.Body)[1:])
		if i != 3 && got[i].MessageID != *m.MessageId {
			t.Errorf("message %d has id %s, the answer says %s", i, *m.MessageId, got[i].MessageID)
		}
	}
	// One that is refused before the request must not shift the others.
	batch := outgoing("a", "", "c", "d")
	o.Client = b.client
	d = must(t)(awssqs.OpenDestination(t.Context(), o))
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoFailEntries, Entries: localstack.Entries{Positions: []int{1}}, Code: "RequestThrottled"})
	wantErrors(t, errorsOf(d.Send(t.Context(), batch)), map[int]error{1: dlqbridge.ErrInvalid, 2: dlqbridge.ErrThrottled})
}

// C16, C13: one message that SQS would refuse fails alone.
func TestC16OneBadMessageFailsAlone(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "jobs")
	d := b.destination(t, arn)
	batch := outgoing("ok 0", "bell \x07", "ok 2", "\xFF\xFE", "", "ok 5", "ok 6")
	batch[5].Payload.Attributes = []dlqbridge.Attribute{{Name: "tenant", Type: "String", Value: nil}}
	invalid := dlqbridge.ErrInvalid
	got := d.Send(t.Context(), batch)
	wantErrors(t, errorsOf(got), map[int]error{1: invalid, 3: invalid, 4: invalid, 5: invalid})
	if text := got[1].Err.Error(); !strings.Contains(text, "byte 5") || !strings.Contains(text, "U+0007") {
		t.Errorf("the text lacks position or code point: %s", text)
	}
	if diff := cmp.Diff([]string{"ok 0", "ok 2", "ok 6"}, bodies(b.contents(t, arn))); diff != "" {
		t.Errorf("in the queue (-want +got):\n%s", diff)
	}
	// All bad: nothing is asked.
	n := len(b.requests(t, "SendMessageBatch"))
	d.Send(t.Context(), outgoing("\x00"))
	if len(b.requests(t, "SendMessageBatch")) != n {
		t.Error("a request without entries was made")
	}
}

// C13: a message without attributes is sent without the key for them.
func TestC13NothingEmptyIsSent(t *testing.T) {
	b := newBench(t)
	d := b.kind(t, "jobs")
	batch := outgoing("bare", "with")
	batch[1].Payload.Attributes = []dlqbridge.Attribute{{Name: "a", Type: "String", Value: []byte("1")}, {Name: "b", Type: "Binary", Value: []byte{0}}}
	wantErrors(t, errorsOf(d.Send(t.Context(), batch)), nil)
	entries := b.entries(t, "SendMessageBatch")[0]
	want := map[string]any{"Id": "0", "MessageBody": "bare"}
	if got := entries[0]; !onlyKeys(got, want) {
		t.Errorf("bare message sent as %v, want %v", got, want)
	}
	for name, a := range entries[1]["MessageAttributes"].(map[string]any) {
		if fields := a.(map[string]any); len(fields) != 2 {
			t.Errorf("attribute %s sent as %v, want a type and one value", name, fields)
		}
	}
}

// onlyKeys compares, apart from zero numbers, which say the same as nothing.
func onlyKeys(got, want map[string]any) bool {
	n := 0
	for key, v := range got {
		if v == float64(0) {
			continue
		}
		n++
		if want[key] != v {
			return false
		}
	}
	return n == len(want)
}

// C15, C38: the group goes along on both kinds of queue, the deduplication id
// on FIFO queues only.
func TestC15GroupAndDeduplication(t *testing.T) {
	for _, kind := range []string{"jobs", "jobs.fifo"} {
		b := newBench(t)
		d := b.kind(t, kind)
		wantErrors(t, errorsOf(d.Send(t.Context(), grouped("a"))), nil)
		entry := b.entries(t, "SendMessageBatch")[0][0]
		if entry["MessageGroupId"] != "tenant-17" {
			t.Errorf("%s: group %v", kind, entry["MessageGroupId"])
		}
		if _, sent := entry["MessageDeduplicationId"]; sent != (kind == "jobs.fifo") {
			t.Errorf("%s: deduplication id %v", kind, entry["MessageDeduplicationId"])
		}
	}
	// A queue that makes ids from contents would take a message without one,
	// and swallow a deliberate redrive of the same body.
	b := newBench(t)
	d := b.destination(t, b.queue(t, "jobs.fifo", "FifoQueue", "true", "ContentBasedDeduplication", "true"))
	batch := grouped("a", "b", "c")
	batch[0].DedupID, batch[1].Payload.GroupKey = "", ""
	invalid := dlqbridge.ErrInvalid
	wantErrors(t, errorsOf(d.Send(t.Context(), batch)), map[int]error{0: invalid, 1: invalid})
	if got := b.entries(t, "SendMessageBatch"); len(got) != 1 || len(got[0]) != 1 {
		t.Errorf("requests %v, want one with the one message that is right", got)
	}
}

// C09, C10, C14, C17: what was received goes back byte for byte.
func TestC10RoundTrip(t *testing.T) {
	b := newBench(t)
	dead := b.queue(t, "dead")
	source := b.source(t, "jobs", dead)
	o := dlqbridge.Outgoing{
		Payload: dlqbridge.Payload{
			Body:     []byte("SGVsbG8= \u2028 <&> \U00010000 \r\n\t"),
			GroupKey: "tenant-18",
			Attributes: []dlqbridge.Attribute{
				{Name: "blob", Type: "Binary.protobuf", Value: []byte{0, 1, 0xFE, 0xFF}},
				{Name: "exact", Type: "Number.java.lang.Long", Value: []byte("+0012.50e1")},
				{Name: "flags", Type: "String.json", Value: []byte(`{"a": "\u00e9"}`)},
			},
		},
		TraceHeader: "Root=1-aaaabbbb-000011112222333344445555;Sampled=1",
	}
	wantErrors(t, errorsOf(b.destination(t, source).Send(t.Context(), []dlqbridge.Outgoing{o})), nil)
	b.die(t, source)
	l := receive(t, b.open(t, dead), 1)[0]
	if diff := cmp.Diff(o, dlqbridge.Outgoing{Payload: l.Payload, TraceHeader: l.TraceHeader}); diff != "" {
		t.Errorf("after the round (-sent +received):\n%s", diff)
	}
}

// C75: after a refusal of the keys nothing was sent, and the next send has new ones.
func TestC75SendRenewsCredentials(t *testing.T) {
	b := newBench(t)
	renewed := 0
	o := b.options(b.queue(t, "jobs"))
	o.Retry.Renew = func() { renewed++ }
	d := must(t)(awssqs.OpenDestination(t.Context(), o))
	b.fault(t, localstack.Fault{Operation: "SendMessageBatch", Do: localstack.DoError, Code: "ExpiredToken", Status: 403})
	wantErrors(t, errorsOf(d.Send(t.Context(), outgoing("a"))), map[int]error{0: dlqbridge.ErrCredentials})
	if renewed != 1 {
		t.Errorf("renewed %d times, want once", renewed)
	}
	wantErrors(t, errorsOf(d.Send(t.Context(), outgoing("a"))), nil)
}

func TestSendOfTooManyIsRefused(t *testing.T) {
	b := newBench(t)
	d := b.kind(t, "jobs")
	for i, err := range errorsOf(d.Send(t.Context(), outgoing(numbered(11)...))) {
		if !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if got := d.Send(t.Context(), nil); len(got) != 0 {
		t.Errorf("no messages: %v", got)
	}
	if n := len(b.requests(t, "SendMessageBatch")); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// I12: neither bodies nor values nor groups are in error texts.
func TestSendErrorsTellNoSecrets(t *testing.T) {
	const secret = "s3cr3t"
	b := newBench(t)
	d := b.kind(t, "jobs.fifo")
	batch := grouped(secret+"\x00", "b", "c", "d")
	batch[1].Payload.Attributes = []dlqbridge.Attribute{{Name: "a", Type: "String", Value: []byte(secret + "\x01")}}
	batch[2].Payload.GroupKey = secret + " "
	batch[3].Payload.Attributes = []dlqbridge.Attribute{{Name: "n", Type: "Number", Value: []byte(secret)}}
	for i, err := range errorsOf(d.Send(t.Context(), batch)) {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	b.fault(t, localstack.Fault{
		Operation: "SendMessageBatch", Do: localstack.DoFailEntries, Code: "InvalidParameterValue", SenderFault: true,
		Message: "Value " + secret + " for parameter MessageGroupId is invalid. Reason: no.",
	})
	if err := d.Send(t.Context(), grouped("e"))[0].Err; err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "MessageGroupId") {
		t.Errorf("service's refusal: %v", err)
	}
}

func TestFactsOfAQueueThatIsGone(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "jobs")
	d := b.destination(t, arn)
	if _, err := b.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: aws.String(url(arn))}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Facts(t.Context()); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	b.fault(t, localstack.Fault{Operation: "GetQueueAttributes", Do: localstack.DoError, Code: "AccessDenied", Status: 403})
	if _, err := d.Facts(t.Context()); !errors.Is(err, dlqbridge.ErrDenied) {
		t.Errorf("got %v, want denied", err)
	}
}
