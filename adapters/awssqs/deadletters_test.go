package awssqs_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func text(dataType, value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: &dataType, StringValue: &value}
}

// C09, C10, C14, C15, C44: nothing of a letter is lost on the way in.
func TestC09ReceiveKeepsEverything(t *testing.T) {
	b := newBench(t)
	dlq := b.queue(t, "dead", "MessageRetentionPeriod", "1209600")
	source := b.source(t, "jobs", dlq)
	sent := b.Clock().Now()
	id := b.send(t, source, &sqs.SendMessageInput{
		MessageBody:    aws.String("{\"k\":\t1}"),
		MessageGroupId: aws.String("tenant-17"),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"flags":   text("String.json", `{"a":[1]}`),
			"retries": text("Number.int", "007"),
			"started": text("Number.java.lang.Long", "1732000000000"),
			"blob":    {DataType: aws.String("Binary.protobuf"), BinaryValue: []byte{0, 0xFF, 8}},
		},
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-aaaabbbb-000011112222333344445555;Sampled=1")},
		},
	})
	b.die(t, source)
	b.Clock().Advance(time.Hour)

	d := b.open(t, "dead")
	got := receive(t, d, 1)[0]
	two := 2
	want := dlqbridge.Letter{
		Provider:  dlqbridge.SQS,
		Place:     dlq,
		Source:    source,
		MessageID: id,
		Payload: dlqbridge.Payload{
			Body:     []byte("{\"k\":\t1}"),
			GroupKey: "tenant-17",
			Attributes: []dlqbridge.Attribute{
				{Name: "blob", Type: "Binary.protobuf", Value: []byte{0, 0xFF, 8}},
				{Name: "flags", Type: "String.json", Value: []byte(`{"a":[1]}`)},
				{Name: "retries", Type: "Number.int", Value: []byte("007")},
				{Name: "started", Type: "Number.java.lang.Long", Value: []byte("1732000000000")},
			},
		},
		TraceHeader: "Root=1-aaaabbbb-000011112222333344445555;Sampled=1",
		Deliveries:  &two,
	}
	for _, name := range []string{"SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp", "MessageGroupId", "AWSTraceHeader", "DeadLetterQueueSourceArn"} {
		if got.System[name] == "" {
			t.Errorf("system attribute %s is not there: %v", name, got.System)
		}
	}
	if got.SentAt.Sub(sent).Abs() > time.Minute {
		t.Errorf("sent at %v, want the first send at %v", got.SentAt, sent)
	}
	// C74: the clock that was running before goes on.
	if want := got.SentAt.Add(14 * 24 * time.Hour); !got.LostAt.Equal(want) {
		t.Errorf("lost at %v, want %v", got.LostAt, want)
	}
	if got.ReceivedAt.Sub(b.Clock().Now()).Abs() > time.Minute {
		t.Errorf("received at %v, now is %v", got.ReceivedAt, b.Clock().Now())
	}
	got.System, got.SentAt, got.LostAt, got.ReceivedAt, got.Receipt = nil, time.Time{}, time.Time{}, time.Time{}, ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("letter (-want +got):\n%s", diff)
	}
	// C50: a short poll asks some of the servers only.
	for _, r := range b.requests(t, "ReceiveMessage")[2:] {
		if wait, _ := r["WaitTimeSeconds"].(float64); wait < 1 || wait > 20 {
			t.Errorf("the adapter asked to wait %v s", r["WaitTimeSeconds"])
		}
	}
}

// C44: each letter says which queue it is from; one that was sent to the
// dead-letter queue by hand says nothing, whatever its attributes claim.
func TestC44SourceIsWhatTheTransportSays(t *testing.T) {
	b := newBench(t)
	dlq := b.queue(t, "dlq-common")
	mail, invoice := b.source(t, "mail", dlq), b.source(t, "invoice", dlq)
	for range 5 {
		b.send(t, mail, &sqs.SendMessageInput{MessageBody: aws.String("mail")})
		b.send(t, invoice, &sqs.SendMessageInput{MessageBody: aws.String("invoice")})
	}
	b.die(t, mail)
	b.die(t, invoice)
	b.send(t, dlq, &sqs.SendMessageInput{
		MessageBody:       aws.String("by hand"),
		MessageAttributes: map[string]types.MessageAttributeValue{"DeadLetterQueueSourceArn": text("String", mail)},
	})
	count := map[string]int{}
	for _, l := range receive(t, b.open(t, dlq), 11) {
		count[string(l.Payload.Body)+"@"+l.Source]++
	}
	want := map[string]int{"mail@" + mail: 5, "invoice@" + invoice: 5, "by hand@": 1}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

// C38, C74: of a FIFO queue the group is kept, and the time is that of the move.
func TestC38LettersOfAFIFOQueueKeepGroupAndOrder(t *testing.T) {
	b := newBench(t)
	dlq := b.queue(t, "dead.fifo", "FifoQueue", "true", "MessageRetentionPeriod", "3600")
	source := b.source(t, "jobs.fifo", dlq, "FifoQueue", "true")
	for i := range 6 {
		group := string(rune('a' + i%3))
		b.send(t, source, &sqs.SendMessageInput{MessageBody: aws.String(group + strconv.Itoa(i/3)), MessageGroupId: &group, MessageDeduplicationId: aws.String(strconv.Itoa(i))})
	}
	b.Clock().Advance(time.Minute)
	moved := b.Clock().Now()
	b.die(t, source)
	seen := map[string][]string{}
	for _, l := range receive(t, b.open(t, dlq), 6) {
		seen[l.Payload.GroupKey] = append(seen[l.Payload.GroupKey], string(l.Payload.Body))
		if l.SentAt.Before(moved.Truncate(time.Second)) || !l.LostAt.Equal(l.SentAt.Add(time.Hour)) {
			t.Errorf("sent at %v, lost at %v, moved at %v", l.SentAt, l.LostAt, moved)
		}
	}
	want := map[string][]string{"a": {"a0", "a1"}, "b": {"b0", "b1"}, "c": {"c0", "c1"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("order in each group (-want +got):\n%s", diff)
	}
}

// C50: no letters and no error is a normal answer.
func TestC50AnEmptyAnswerIsNoError(t *testing.T) {
	b := newBench(t)
	d := b.open(t, b.queue(t, "dead"))
	b.fault(t, localstack.Fault{Operation: "ReceiveMessage", Do: localstack.DoEmpty})
	if letters, err := d.Receive(t.Context(), 10, 20*time.Second); err != nil || len(letters) != 0 {
		t.Errorf("got %d letters, error %v", len(letters), err)
	}
}

// C53: a queue at its in-flight limit says so, and Depth has the numbers.
func TestC53InFlightLimitIsAnErrorOfItsOwn(t *testing.T) {
	b := newBench(t)
	d := b.open(t, b.queue(t, "dead"))
	b.fault(t, localstack.Fault{Operation: "ReceiveMessage", Do: localstack.DoError, Code: "OverLimit", Status: 403, Times: -1})
	_, err := d.Receive(t.Context(), 10, 0)
	if !errors.Is(err, awssqs.ErrInFlightLimit) || !errors.Is(err, dlqbridge.ErrThrottled) || len(b.requests(t, "ReceiveMessage")) != 1 {
		t.Errorf("error %v after %d tries", err, len(b.requests(t, "ReceiveMessage")))
	}
	if depth, err := d.Depth(t.Context()); err != nil || depth != (dlqbridge.Depth{InFlightLimit: 120_000}) {
		t.Errorf("depth %+v, error %v", depth, err)
	}
}

func TestDepthCountsAndLearnsTheRetention(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "dead")
	for _, body := range numbered(3) {
		b.send(t, arn, &sqs.SendMessageInput{MessageBody: &body})
	}
	b.send(t, arn, &sqs.SendMessageInput{MessageBody: aws.String("later"), DelaySeconds: 60})
	d := b.open(t, arn)
	first, err := d.Receive(t.Context(), 1, 0)
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	if _, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: aws.String(url(arn)), Attributes: map[string]string{"MessageRetentionPeriod": "7200"},
	}); err != nil {
		t.Fatal(err)
	}
	depth, err := d.Depth(t.Context())
	if want := (dlqbridge.Depth{Visible: 2, InFlight: 1, Delayed: 1, InFlightLimit: awssqs.MaxInFlight}); err != nil || depth != want {
		t.Errorf("depth %+v, want %+v, error %v", depth, want, err)
	}
	if l := receive(t, d, 2)[0]; !l.LostAt.Equal(l.SentAt.Add(2 * time.Hour)) {
		t.Errorf("sent at %v, lost at %v: the new retention is two hours", l.SentAt, l.LostAt)
	}
}

func TestReceiveTriesAThrottledCallAgain(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "dead")
	d := b.open(t, arn)
	b.send(t, arn, &sqs.SendMessageInput{MessageBody: aws.String("x")})
	b.fault(t, localstack.Fault{Operation: "ReceiveMessage", Do: localstack.DoThrottle, Times: 2})
	receive(t, d, 1)
	if len(b.waits) != 2 {
		t.Errorf("waits %v, want two", b.waits)
	}
}

// A lost answer is reported at once; its letters come again by themselves.
func TestReceiveReportsALostAnswer(t *testing.T) {
	b := newBench(t)
	o := b.options(b.queue(t, "dead", "VisibilityTimeout", "30"))
	o.Retry.Repeatable = true
	d, err := awssqs.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	b.send(t, o.Queue, &sqs.SendMessageInput{MessageBody: aws.String("x")})
	b.fault(t, localstack.Fault{Operation: "ReceiveMessage", Do: localstack.DoDropAfter})
	if _, err := d.Receive(t.Context(), 10, 0); !errors.Is(err, dlqbridge.ErrUnclear) || len(b.requests(t, "ReceiveMessage")) != 1 {
		t.Errorf("error %v after %d requests", err, len(b.requests(t, "ReceiveMessage")))
	}
	b.Clock().Advance(31 * time.Second)
	receive(t, d, 1)
}

// filled makes a dead-letter queue with n letters and receives them all.
func filled(t *testing.T, b *bench, n int, settings ...string) (*awssqs.DeadLetters, []dlqbridge.Letter) {
	t.Helper()
	name := "dead"
	fifo := slices.Contains(settings, "FifoQueue")
	if fifo {
		name += ".fifo"
	}
	arn := b.queue(t, name, settings...)
	for i, body := range numbered(n) {
		in := &sqs.SendMessageInput{MessageBody: &body}
		if fifo {
			in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"+strconv.Itoa(i)), &body
		}
		b.send(t, arn, in)
	}
	d := b.open(t, arn)
	return d, receive(t, d, n)
}

// C02: of a delete with one failed entry only that entry is tried again.
func TestC02OnlyTheFailedDeleteIsTriedAgain(t *testing.T) {
	b := newBench(t)
	d, letters := filled(t, b, 10)
	b.fault(t, localstack.Fault{Operation: "DeleteMessageBatch", Do: localstack.DoFailEntries, Entries: localstack.Entries{Positions: []int{3}}, Code: "InternalError"})
	wantErrors(t, d.Delete(t.Context(), letters), nil)
	got := b.entries(t, "DeleteMessageBatch")
	if len(got) != 2 || len(got[0]) != 10 || len(got[1]) != 1 || got[0][3]["ReceiptHandle"] != got[1][0]["ReceiptHandle"] {
		t.Errorf("requests %v", got)
	}
	if len(b.waits) != 1 || b.waits[0] <= 0 {
		t.Errorf("waits %v, want one", b.waits)
	}
	if n := b.total(t, d.Place()); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// C02: entries that stay failed are answered by position, the others are done.
func TestC02HideAnswersByPosition(t *testing.T) {
	b := newBench(t)
	d, letters := filled(t, b, 10)
	b.fault(t, localstack.Fault{Operation: "ChangeMessageVisibilityBatch", Do: localstack.DoFailEntries, Entries: localstack.Entries{Positions: []int{0, 4, 9}}, Code: "AccessDenied", SenderFault: true})
	denied := dlqbridge.ErrDenied
	wantErrors(t, d.Hide(t.Context(), letters, time.Minute), map[int]error{0: denied, 4: denied, 9: denied})
	if n := len(b.entries(t, "ChangeMessageVisibilityBatch")); n != 1 {
		t.Errorf("%d requests, want 1: denied does not get better", n)
	}
}

// A lost answer to a delete is asked for again, since deleting twice is fine.
func TestDeleteIsRepeatedWhenItsAnswerIsLost(t *testing.T) {
	for _, settings := range [][]string{nil, {"FifoQueue", "true"}} {
		b := newBench(t)
		d, letters := filled(t, b, 10, settings...)
		b.fault(t, localstack.Fault{Operation: "DeleteMessageBatch", Do: localstack.DoDropAfter})
		wantErrors(t, d.Delete(t.Context(), letters), nil)
		wantErrors(t, d.Delete(t.Context(), letters), nil)
		if n := b.total(t, d.Place()); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	}
}

// C06: two copies of one message with different handles go in one request.
func TestC06TheSameMessageTwiceInOneBatch(t *testing.T) {
	b := newBench(t)
	arn := b.queue(t, "dead", "VisibilityTimeout", "30")
	for _, body := range numbered(9) {
		b.send(t, arn, &sqs.SendMessageInput{MessageBody: &body})
	}
	d := b.open(t, arn)
	first, err := d.Receive(t.Context(), 1, 0)
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	b.Clock().Advance(31 * time.Second)
	letters := slices.Concat(first, receive(t, d, 9))
	if n := slices.IndexFunc(letters[1:], func(l dlqbridge.Letter) bool { return l.MessageID == first[0].MessageID }); n < 0 {
		t.Fatal("the first message did not come again")
	}
	wantErrors(t, d.Delete(t.Context(), letters), nil)
	if got := b.entries(t, "DeleteMessageBatch"); len(got) != 1 || len(got[0]) != 10 {
		t.Errorf("requests %v, want one of ten", got)
	}
	if n := b.total(t, arn); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// C07, C04: ids are positions, and batches are of ten at most.
func TestC07EntryIDsArePositions(t *testing.T) {
	b := newBench(t)
	d, letters := filled(t, b, 25)
	wantErrors(t, d.Delete(t.Context(), letters), nil)
	got := b.entries(t, "DeleteMessageBatch")
	if len(got) != 3 {
		t.Fatalf("%d requests, want 3", len(got))
	}
	for _, entries := range got {
		for i, e := range entries {
			if e["Id"] != strconv.Itoa(i) {
				t.Errorf("entry %d has id %v", i, e["Id"])
			}
		}
	}
}

// C51: twelve hours in total. Extensions are capped to what is left, and at
// the end nothing is asked for and nothing deleted.
func TestC51HideIsCappedToWhatIsLeft(t *testing.T) {
	b := newBench(t)
	d, letters := filled(t, b, 1)
	asked := func() float64 {
		requests := b.entries(t, "ChangeMessageVisibilityBatch")
		return requests[len(requests)-1][0]["VisibilityTimeout"].(float64)
	}
	wantErrors(t, d.Hide(t.Context(), letters, 11*time.Hour), nil)
	if got := asked(); got != 39_600 {
		t.Errorf("asked for %v s of 11 h", got)
	}
	b.Clock().Advance(10 * time.Hour)
	wantErrors(t, d.Hide(t.Context(), letters, 12*time.Hour), nil)
	if got := asked(); got > 7200 || got < 7190 {
		t.Errorf("asked for %v s with two hours left", got)
	}
	b.Clock().Advance(2 * time.Hour)
	n := len(b.Requests("sqs", 0))
	wantErrors(t, d.Hide(t.Context(), letters, time.Minute), map[int]error{0: awssqs.ErrReceiveOver})
	wantErrors(t, d.Delete(t.Context(), letters), map[int]error{0: awssqs.ErrReceiveOver})
	if len(b.Requests("sqs", 0)) != n {
		t.Error("the service was asked about a letter whose time is over")
	}
	wantErrors(t, d.Delete(t.Context(), receive(t, d, 1)), nil)
}

// waiting is a service whose receives take twenty seconds to answer.
type waiting struct {
	*sqs.Client
	clock interface{ Advance(time.Duration) }
}

func (w waiting) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, o ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	out, err := w.Client.ReceiveMessage(ctx, in, o...)
	w.clock.Advance(20 * time.Second)
	return out, err
}

// C51: the arithmetic counts from the request, so a letter whose answer was
// long under way is never judged too young.
func TestC51TimeCountsFromTheRequest(t *testing.T) {
	b := newBench(t)
	o := b.options(b.queue(t, "dead", "VisibilityTimeout", "43200"))
	o.Client = waiting{b.client, b.Clock()}
	b.send(t, o.Queue, &sqs.SendMessageInput{MessageBody: aws.String("x")})
	d, err := awssqs.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	letters := receive(t, d, 1)
	if age := b.Clock().Now().Sub(letters[0].ReceivedAt); age > 10*time.Second {
		t.Errorf("received %v ago, want the time of the answer", age)
	}
	// The service refuses a second too much; so this must ask for less.
	wantErrors(t, d.Hide(t.Context(), letters, 12*time.Hour), nil)
	b.Clock().Advance(12*time.Hour - 22*time.Second)
	wantErrors(t, d.Delete(t.Context(), letters), map[int]error{0: awssqs.ErrReceiveOver})
}

func TestHideGivesBackAtOnceAndRoundsUp(t *testing.T) {
	b := newBench(t)
	d, letters := filled(t, b, 1)
	for _, row := range []struct {
		d    time.Duration
		want float64
	}{{1500 * time.Millisecond, 2}, {time.Second, 1}, {time.Millisecond, 1}, {-time.Second, 0}} {
		wantErrors(t, d.Hide(t.Context(), letters, row.d), nil)
		requests := b.entries(t, "ChangeMessageVisibilityBatch")
		if got := requests[len(requests)-1][0]["VisibilityTimeout"]; got != row.want {
			t.Errorf("hide for %v asked for %v s, want %v", row.d, got, row.want)
		}
	}
	wantErrors(t, d.Delete(t.Context(), receive(t, d, 1)), nil)
}

// C52: handles that have expired abort nothing; the letters come again and are
// deleted by their new handles.
func TestC52ExpiredHandlesAreRecognised(t *testing.T) {
	over := awssqs.ErrReceiveOver
	t.Run("FIFO queue refuses them", func(t *testing.T) {
		b := newBench(t)
		d, letters := filled(t, b, 10, "FifoQueue", "true", "VisibilityTimeout", "30")
		wantErrors(t, d.Delete(t.Context(), letters[:7]), nil)
		b.Clock().Advance(40 * time.Second)
		got := d.Delete(t.Context(), letters)
		wantErrors(t, got, map[int]error{7: over, 8: over, 9: over})
		if !errors.Is(got[9], dlqbridge.ErrNotFound) {
			t.Errorf("%v has not the meaning not found", got[9])
		}
		wantErrors(t, d.Delete(t.Context(), receive(t, d, 3)), nil)
		if n := b.total(t, d.Place()); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
	t.Run("in the other spelling", func(t *testing.T) {
		b := newBench(t)
		d, letters := filled(t, b, 10)
		b.fault(t, localstack.Fault{Operation: "DeleteMessageBatch", Do: localstack.DoFailEntries, Entries: localstack.Entries{Positions: []int{0, 1, 2}}, Code: "ReceiptHandleIsInvalid", SenderFault: true})
		wantErrors(t, d.Delete(t.Context(), letters), map[int]error{0: over, 1: over, 2: over})
		if n := len(b.requests(t, "DeleteMessageBatch")); n != 1 {
			t.Errorf("%d requests, want 1: an expired handle does not get better", n)
		}
	})
	t.Run("hidden too late", func(t *testing.T) {
		b := newBench(t)
		d, letters := filled(t, b, 2, "VisibilityTimeout", "30")
		b.Clock().Advance(31 * time.Second)
		wantErrors(t, d.Hide(t.Context(), letters, time.Minute), map[int]error{0: over, 1: over})
	})
}

func TestDeleteOfAForeignReceipt(t *testing.T) {
	b := newBench(t)
	d, letters := filled(t, b, 2)
	letters[0].Receipt = "projects/p/subscriptions/s"
	got := d.Delete(t.Context(), letters)
	wantErrors(t, got, map[int]error{0: dlqbridge.ErrInvalid})
	if requests := b.entries(t, "DeleteMessageBatch"); len(requests) != 1 || len(requests[0]) != 1 {
		t.Errorf("requests %v, want one for the one letter that is ours", requests)
	}
	wantErrors(t, d.Delete(t.Context(), nil), nil)
}

// forgetful is a service that does not mention the first entry, once.
type forgetful struct {
	*sqs.Client
	once sync.Once
}

func (f *forgetful) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, o ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	out, err := f.Client.DeleteMessageBatch(ctx, in, o...)
	f.once.Do(func() { out.Successful = out.Successful[1:] })
	return out, err
}

// C02: what an answer does not mention is not taken for done.
func TestC02DeleteThatIsNotMentionedIsAskedForAgain(t *testing.T) {
	b := newBench(t)
	o := b.options(b.queue(t, "dead"))
	o.Client = &forgetful{Client: b.client}
	for _, body := range numbered(3) {
		b.send(t, o.Queue, &sqs.SendMessageInput{MessageBody: &body})
	}
	d, err := awssqs.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	wantErrors(t, d.Delete(t.Context(), receive(t, d, 3)), nil)
	if got := b.entries(t, "DeleteMessageBatch"); len(got) != 2 || len(got[1]) != 1 {
		t.Errorf("requests %v, want a second one for the first letter", got)
	}
}

// C75: keys that expire in a long run are replaced, and nothing is lost to it.
// The client's own provider is told, of whichever kind it is.
func TestC75NewCredentialsArePickedUp(t *testing.T) {
	loads := 0
	chain := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		loads++
		return aws.Credentials{AccessKeyID: "key" + strconv.Itoa(loads), SecretAccessKey: "s"}, nil
	})
	for name, provider := range map[string]aws.CredentialsProvider{
		"the SDK's cache": aws.NewCredentialsCache(chain),
		"ours":            &awserr.Credentials{Load: func(context.Context) (aws.CredentialsProvider, error) { return chain, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			loads = 0
			b := newBench(t)
			o := b.options(b.queue(t, "dead"))
			b.send(t, o.Queue, &sqs.SendMessageInput{MessageBody: aws.String("x")})
			cfg := b.AWSConfig()
			cfg.Credentials = provider
			o.Client = sqs.NewFromConfig(cfg)
			d, err := awssqs.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			b.fault(t, localstack.Fault{Operation: "ReceiveMessage", Do: localstack.DoError, Code: "ExpiredToken", Status: 403, Times: 3})
			letters := receive(t, d, 1)
			if loads != 4 {
				t.Errorf("credentials were got %d times, want once and after each refusal", loads)
			}
			b.fault(t, localstack.Fault{Operation: "DeleteMessageBatch", Do: localstack.DoError, Code: "ExpiredTokenException", Status: 403, Times: -1})
			wantErrors(t, d.Delete(t.Context(), letters), map[int]error{0: dlqbridge.ErrCredentials})
			if n := len(b.requests(t, "DeleteMessageBatch")); n < 3 || n > 20 {
				t.Errorf("%d tries, want a few", n)
			}
		})
	}
}

// A cancelled receive ends at once and says so.
func TestReceiveEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	d := b.open(t, b.queue(t, "dead"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Receive(ctx, 10, 20*time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to be context.Canceled", err)
	}
}
