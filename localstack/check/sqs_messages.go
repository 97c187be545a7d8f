package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var sqsMessageRows = map[string]func(*queueBench, *testing.T){
	"attributes of each type and label come back byte for byte": (*queueBench).attributesRoundTrip,
	"digests cover body, attributes and system attributes":      (*queueBench).digests,
	"system attributes come with the message when asked for":    (*queueBench).systemAttributes,
	"names choose which attributes come, also by prefix":        (*queueBench).nameFilters,
	"forbidden characters are refused":                          (*queueBench).characters,
	"an empty body is refused":                                  (*queueBench).emptyBody,
	"ten attributes are accepted, eleven refused":               (*queueBench).tenAttributes,
	"attribute names are checked":                               (*queueBench).attributeNames,
	"attribute types and values are checked":                    (*queueBench).attributeValues,
	"numbers must be numbers":                                   (*queueBench).attributeNumbers,
	"a delay is checked":                                        (*queueBench).delayChecked,
	"an attribute may not be a system attribute we do not know": (*queueBench).systemAttributeChecked,
	"a deduplication id belongs to FIFO queues":                 (*queueBench).dedupOnStandard,
	"a group id on a standard queue is kept and orders nothing": (*queueBench).fairQueue,
	"a noisy group does not hold up the others on standard":     (*queueBench).fairShare,
}

func typed(kind, value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: &kind, StringValue: &value}
}

func (b *queueBench) attributesRoundTrip(t *testing.T) {
	url := b.queue(t)
	sent := map[string]types.MessageAttributeValue{
		"plain":       typed("String", "<ü & \u2028 😀>"),
		"label":       typed("String.json", `{"a":1}`),
		"count":       typed("Number", "1.50"),
		"typed-count": typed("Number.int", "-00012345678901234567890"),
		"raw":         {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 0xff, 0xfe}},
		"raw.png_x-1": {DataType: aws.String("Binary.png"), BinaryValue: []byte("\x89PNG")},
	}
	body := "line\nnext\ttab\rü😀 \ufffd <&>"
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body, MessageAttributes: sent})
	got := b.receiveOne(t, url)
	if *got.Body != body {
		t.Errorf("got body %q, want %q", *got.Body, body)
	}
	if diff := cmp.Diff(sent, got.MessageAttributes, cmpopts.IgnoreUnexported(types.MessageAttributeValue{})); diff != "" {
		t.Errorf("attributes differ (-sent +received):\n%s", diff)
	}
}

func (b *queueBench) digests(t *testing.T) {
	url := b.queue(t)
	out := b.sendInput(t, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: aws.String("hello"),
		MessageAttributes:       map[string]types.MessageAttributeValue{"my_attribute": typed("String", "my_attribute_value_1")},
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(traceHeader)}},
	})
	// Computed by hand after the Developer Guide's description of the digest.
	if got, want := aws.ToString(out.MD5OfMessageBody), "5d41402abc4b2a76b9719d911017c592"; got != want {
		t.Errorf("body: got %s, want %s", got, want)
	}
	if got, want := aws.ToString(out.MD5OfMessageAttributes), attributeDigest("my_attribute", "String", "my_attribute_value_1"); got != want {
		t.Errorf("attributes: got %s, want %s", got, want)
	}
	if got, want := aws.ToString(out.MD5OfMessageSystemAttributes), attributeDigest("AWSTraceHeader", "String", traceHeader); got != want {
		t.Errorf("system attributes: got %s, want %s", got, want)
	}
	got := b.receiveOne(t, url)
	if *got.MD5OfBody != *out.MD5OfMessageBody || aws.ToString(got.MD5OfMessageAttributes) != *out.MD5OfMessageAttributes {
		t.Errorf("received digests %s, %v differ from the sent ones", *got.MD5OfBody, got.MD5OfMessageAttributes)
	}
}

const traceHeader = "Root=1-5e3d83c1-e6a0db584850d61342823d4c;Parent=3d61b0b4a3b0c1f2;Sampled=1"

func (b *queueBench) systemAttributes(t *testing.T) {
	url := b.queue(t)
	// The endpoint's clock may have been moved forward, never back.
	before := time.Now().Add(-time.Minute).UnixMilli()
	b.sendInput(t, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: aws.String("x"),
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(traceHeader)}},
	})
	got := b.receiveOne(t, url)
	if systemOf(got, "AWSTraceHeader") != traceHeader || systemOf(got, "SenderId") == "" || systemOf(got, "ApproximateReceiveCount") != "1" {
		t.Errorf("got %v", got.Attributes)
	}
	for _, name := range []types.MessageSystemAttributeName{"SentTimestamp", "ApproximateFirstReceiveTimestamp"} {
		if at, err := strconv.ParseInt(systemOf(got, name), 10, 64); err != nil || at < before {
			t.Errorf("%s: got %q, want milliseconds, not before the test", name, systemOf(got, name))
		}
	}
	if source, set := got.Attributes["DeadLetterQueueSourceArn"]; set {
		t.Errorf("a sent message has DeadLetterQueueSourceArn %s", source)
	}
	b.release(t, url, got)
	again := b.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"SenderId"}, VisibilityTimeout: 1}) //nolint:staticcheck // old programs ask so
	if len(again) != 1 || len(again[0].Attributes) != 1 || again[0].Attributes["SenderId"] == "" {
		t.Fatalf("asked the old way for SenderId, got %v", again)
	}
	b.release(t, url, again...)
	bare := b.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: &url})
	if len(bare) != 1 || len(bare[0].Attributes) != 0 || len(bare[0].MessageAttributes) != 0 {
		t.Errorf("asked for nothing, got %v", bare)
	}
}

func (b *queueBench) nameFilters(t *testing.T) {
	url := b.queue(t, "VisibilityTimeout", "0")
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
		"agent.task": typed("String", "1"), "agent.run": typed("String", "2"), "other": typed("String", "3"),
	}})
	for _, row := range []struct{ ask, want []string }{
		{nil, nil},
		{[]string{"All"}, []string{"agent.run", "agent.task", "other"}},
		{[]string{".*"}, []string{"agent.run", "agent.task", "other"}},
		{[]string{"agent.*"}, []string{"agent.run", "agent.task"}},
		{[]string{"other", "missing"}, []string{"other"}},
		{[]string{"agent.task", "oth.*"}, []string{"agent.task", "other"}},
	} {
		got := b.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: &url, MessageAttributeNames: row.ask})
		if len(got) != 1 {
			t.Fatalf("%v: got %d messages", row.ask, len(got))
		}
		// The digest covers the attributes that came, so that a receiver can
		// check it.
		var parts []string
		for _, name := range row.want {
			parts = append(parts, name, "String", aws.ToString(got[0].MessageAttributes[name].StringValue))
		}
		want := ""
		if parts != nil {
			want = attributeDigest(parts...)
		}
		if digest := aws.ToString(got[0].MD5OfMessageAttributes); digest != want {
			t.Errorf("%v: got digest %q, want %q", row.ask, digest, want)
		}
		if names := slices.Sorted(maps.Keys(got[0].MessageAttributes)); !slices.Equal(names, row.want) {
			t.Errorf("%v: got %v, want %v", row.ask, names, row.want)
		}
	}
}

func (b *queueBench) characters(t *testing.T) {
	url := b.queue(t)
	for _, body := range []string{"a\x00b", "\x1b", "\ufffe", "\uffff", "\x08"} {
		b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}, "InvalidMessageContents")
	}
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
		"a": typed("String", "\x01"),
	}}, "InvalidMessageContents", invalidParameter)
}

func (b *queueBench) emptyBody(t *testing.T) {
	url := b.queue(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("")}, missingParameter)
}

func (b *queueBench) tenAttributes(t *testing.T) {
	url := b.queue(t)
	many := map[string]types.MessageAttributeValue{}
	for i := range 10 {
		many["a"+strconv.Itoa(i)] = typed("String", "v")
	}
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: many})
	many["eleventh"] = typed("String", "v")
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: many}, invalidParameter)
}

func (b *queueBench) attributeNames(t *testing.T) {
	url := b.queue(t)
	for _, name := range []string{"AWS.thing", "aws.thing", "Amazon.thing", "AMAZON.x", ".a", "a.", "a..b", "a b", "ü", "a/b", strings.Repeat("n", 257)} {
		b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			name: typed("String", "v"),
		}}, invalidParameter)
	}
	for _, name := range []string{"AWSthing", "a.b-c_D9", strings.Repeat("n", 256)} {
		b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			name: typed("String", "v"),
		}})
	}
}

func (b *queueBench) attributeValues(t *testing.T) {
	url := b.queue(t)
	for name, value := range map[string]types.MessageAttributeValue{
		"empty string":    typed("String", ""),
		"empty number":    typed("Number", ""),
		"empty binary":    {DataType: aws.String("Binary"), BinaryValue: []byte{}},
		"no value":        {DataType: aws.String("String")},
		"unknown type":    typed("Text", "v"),
		"small letters":   typed("string", "v"),
		"string as bytes": {DataType: aws.String("Binary"), StringValue: aws.String("v")},
		"empty type":      typed("", "v"),
		"long type":       typed("String."+strings.Repeat("x", 256), "v"),
		"a list":          {DataType: aws.String("String"), StringListValues: []string{"v"}},
	} {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{"a": value}})
		if err == nil {
			t.Errorf("%s: was accepted", name)
			continue
		}
		wantRefusal(t, err, invalidParameter, missingParameter, "UnsupportedOperation")
	}
}

func (b *queueBench) attributeNumbers(t *testing.T) {
	url := b.queue(t)
	for _, value := range []string{"x", "1x", "0x10", "NaN", "Infinity", "1e127", "-1e129", "1 ", "--1", strings.Repeat("1", 39)} {
		b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			"n": typed("Number", value),
		}}, invalidParameter)
	}
	for _, value := range []string{"0", "-1.5", "1e10", "+7", "007", strings.Repeat("9", 38)} {
		b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			"n": typed("Number", value),
		}})
	}
}

func (b *queueBench) delayChecked(t *testing.T) {
	url := b.queue(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), DelaySeconds: 901}, invalidParameter)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), DelaySeconds: -1}, invalidParameter)
}

func (b *queueBench) systemAttributeChecked(t *testing.T) {
	url := b.queue(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
		"SenderId": {DataType: aws.String("String"), StringValue: aws.String("me")},
	}}, invalidParameter)
}

func (b *queueBench) dedupOnStandard(t *testing.T) {
	url := b.queue(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageDeduplicationId: aws.String("d")}, invalidParameter)
}

func (b *queueBench) fairQueue(t *testing.T) {
	url := b.queue(t)
	for range 2 {
		b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageGroupId: aws.String("tenant-1")})
	}
	// Both at once: a group of a standard queue blocks nothing.
	got := b.receive(t, url)
	if len(got) != 2 || systemOf(got[0], "MessageGroupId") != "tenant-1" || systemOf(got[1], "MessageGroupId") != "tenant-1" {
		t.Errorf("got %v", got)
	}
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageGroupId: aws.String(strings.Repeat("g", 129))}, invalidParameter)
}

func (b *queueBench) fairShare(t *testing.T) {
	url := b.queue(t)
	for range 8 {
		b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("noisy"), MessageGroupId: aws.String("noisy")})
	}
	in := receiveInput(url)
	in.MaxNumberOfMessages = 3
	b.receiveWith(t, in)
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("quiet"), MessageGroupId: aws.String("quiet")})
	in.MaxNumberOfMessages = 1
	if got := b.receiveWith(t, in); len(got) != 1 || *got[0].Body != "quiet" {
		t.Errorf("got %v, want the quiet tenant's message next", bodiesOf(got))
	}
}
