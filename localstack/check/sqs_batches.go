package check

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var sqsBatchRows = map[string]func(*queueBench, *testing.T){
	"a batch is sent, hidden and deleted":                     (*queueBench).batches,
	"a bad entry of a send fails alone":                       (*queueBench).sendEntryFails,
	"a bad entry of a delete fails alone":                     (*queueBench).deleteEntryFails,
	"a bad entry of a visibility change fails alone":          (*queueBench).visibilityEntryFails,
	"no entries, eleven entries and repeated ids are refused": (*queueBench).batchShape,
	"entry ids are checked":                                   (*queueBench).entryIDs,
	"one MiB per message counts body and attributes in bytes": (*queueBench).messageSize,
	"one MiB per batch counts bodies and attributes in bytes": (*queueBench).batchSize,
	"the queue's own maximum size is kept":                    (*queueBench).queueMaximum,
}

func sendEntries(bodies ...string) []types.SendMessageBatchRequestEntry {
	list := []types.SendMessageBatchRequestEntry{}
	for i, body := range bodies {
		list = append(list, types.SendMessageBatchRequestEntry{Id: aws.String("e" + strconv.Itoa(i)), MessageBody: aws.String(body)})
	}
	return list
}

func (b *queueBench) batches(t *testing.T) {
	url := b.queue(t)
	sent, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: sendEntries("a", "b", "c")})
	if err != nil || len(sent.Successful) != 3 || len(sent.Failed) != 0 || *sent.Successful[1].Id != "e1" || *sent.Successful[1].MessageId == "" {
		t.Fatalf("got %v, %v", sent, err)
	}
	got := b.receive(t, url)
	change := []types.ChangeMessageVisibilityBatchRequestEntry{}
	for i, m := range got {
		change = append(change, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0})
	}
	changed, err := b.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: change})
	if err != nil || len(changed.Successful) != 3 || len(changed.Failed) != 0 {
		t.Fatalf("got %v, %v", changed, err)
	}
	remove := []types.DeleteMessageBatchRequestEntry{}
	for i, m := range b.receive(t, url) {
		remove = append(remove, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
	}
	removed, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: remove})
	if err != nil || len(removed.Successful) != 3 || len(removed.Failed) != 0 {
		t.Fatalf("got %v, %v", removed, err)
	}
	b.wantDepths(t, url, 0, 0, 0)
}

func wantFailed(t *testing.T, failed []types.BatchResultErrorEntry, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, f := range failed {
		got[*f.Id] = strings.TrimSuffix(strings.TrimPrefix(*f.Code, queryPrefix), "Exception")
		if !f.SenderFault {
			t.Errorf("%s: got SenderFault false, want true", *f.Id)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got failures %v, want %v", got, want)
	}
	for id, code := range want {
		if got[id] != code {
			t.Errorf("%s: got code %q, want %q", id, got[id], code)
		}
	}
}

func (b *queueBench) sendEntryFails(t *testing.T) {
	url := b.queue(t)
	list := sendEntries("good", "\x00", "good", "good")
	list[2].MessageAttributes = map[string]types.MessageAttributeValue{"n": typed("Number", "no number")}
	list[3].DelaySeconds = 1000
	out, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: list})
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, out.Failed, map[string]string{"e1": "InvalidMessageContents", "e2": invalidParameter, "e3": invalidParameter})
	if len(out.Successful) != 1 || *out.Successful[0].Id != "e0" {
		t.Errorf("got successful %v, want e0", out.Successful)
	}
	b.wantBodies(t, url, "good")
}

func (b *queueBench) deleteEntryFails(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	out, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{
		{Id: aws.String("bad"), ReceiptHandle: aws.String("garbage")}, {Id: aws.String("good"), ReceiptHandle: m.ReceiptHandle},
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, out.Failed, map[string]string{"bad": "ReceiptHandleIsInvalid"})
	b.wantDepths(t, url, 0, 0, 0)
}

func (b *queueBench) visibilityEntryFails(t *testing.T) {
	url := b.queue(t)
	b.send(t, url, "x")
	m := b.receiveOne(t, url)
	out, err := b.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
		{Id: aws.String("bad"), ReceiptHandle: aws.String("garbage")},
		{Id: aws.String("long"), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 43_201},
		{Id: aws.String("good"), ReceiptHandle: m.ReceiptHandle},
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, out.Failed, map[string]string{"bad": "ReceiptHandleIsInvalid", "long": invalidParameter})
	b.wantDepths(t, url, 1, 0, 0)
}

func (b *queueBench) batchShape(t *testing.T) {
	url := b.queue(t)
	send := func(list []types.SendMessageBatchRequestEntry) error {
		_, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: list})
		return err
	}
	wantType[*types.EmptyBatchRequest](t, send([]types.SendMessageBatchRequestEntry{}))
	wantType[*types.TooManyEntriesInBatchRequest](t, send(sendEntries(strings.Split(strings.Repeat("x", 11), "")...)))
	twice := sendEntries("a", "b")
	twice[1].Id = twice[0].Id
	wantType[*types.BatchEntryIdsNotDistinct](t, send(twice))
	_, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{}})
	wantType[*types.EmptyBatchRequest](t, err)
	_, err = b.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{}})
	wantType[*types.EmptyBatchRequest](t, err)
	b.wantDepths(t, url, 0, 0, 0)
}

func (b *queueBench) entryIDs(t *testing.T) {
	url := b.queue(t)
	for _, id := range []string{"", "with space", "dot.dot", strings.Repeat("i", 81)} {
		list := sendEntries("x")
		list[0].Id = &id
		_, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: list})
		wantType[*types.InvalidBatchEntryId](t, err)
	}
	list := sendEntries("x")
	list[0].Id = aws.String(strings.Repeat("i", 80))
	if _, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: list}); err != nil {
		t.Errorf("80 characters: %v", err)
	}
}

// largestMessage is the limit of a message and of a batch.
const largestMessage = 1 << 20

func (b *queueBench) messageSize(t *testing.T) {
	url := b.queue(t)
	whole := strings.Repeat("x", largestMessage)
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &whole})
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(whole + "x")}, invalidParameter)
	// Two bytes each: characters are not what counts.
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(strings.Repeat("ü", largestMessage/2+1))}, invalidParameter)
	// Name, type and value of an attribute count: a + String + vv = 9 bytes.
	attribute := map[string]types.MessageAttributeValue{"a": typed("String", "vv")}
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(whole[9:]), MessageAttributes: attribute})
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(whole[8:]), MessageAttributes: attribute}, invalidParameter)
}

func (b *queueBench) batchSize(t *testing.T) {
	url := b.queue(t)
	half := strings.Repeat("x", largestMessage/2)
	send := func(list []types.SendMessageBatchRequestEntry) error {
		_, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: list})
		return err
	}
	if err := send(sendEntries(half, half)); err != nil {
		t.Errorf("exactly 1 MiB: %v", err)
	}
	wantType[*types.BatchRequestTooLong](t, send(sendEntries(half, half+"x")))
	list := sendEntries(half, half)
	list[0].MessageAttributes = map[string]types.MessageAttributeValue{"a": typed("String", "v")}
	wantType[*types.BatchRequestTooLong](t, send(list))
}

func (b *queueBench) queueMaximum(t *testing.T) {
	url := b.queue(t, "MaximumMessageSize", "1024")
	b.send(t, url, strings.Repeat("x", 1024))
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(strings.Repeat("x", 1025))}, invalidParameter)
	out, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: sendEntries("small", strings.Repeat("x", 1025))})
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, out.Failed, map[string]string{"e1": invalidParameter})
	if got := bodiesOf(b.receive(t, url)); !slices.Contains(got, "small") || len(got) != 2 {
		t.Errorf("got %d messages", len(got))
	}
}
