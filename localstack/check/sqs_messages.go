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

var messageRows = map[string]func(*testing.T, *bench){
	"attributes of each type and label come back byte for byte": attributesRoundTrip,
	"digests cover body, attributes and system attributes":      digests,
	"system attributes come with the message when asked for":    systemAttributes,
	"names choose which attributes come, also by prefix":        nameFilters,
	"forbidden characters are refused":                          characters,
	"an empty body is refused":                                  emptyBody,
	"ten attributes are accepted, eleven refused":               tenAttributes,
	"attribute names are checked":                               attributeNames,
	"attribute types and values are checked":                    attributeValues,
	"numbers must be numbers":                                   attributeNumbers,
	"a delay is checked":                                        delayChecked,
	"an attribute may not be a system attribute we do not know": systemAttributeChecked,
	"a deduplication id belongs to FIFO queues":                 dedupOnStandard,
	"a group id on a standard queue is kept and orders nothing": fairQueue,
	"a noisy group does not hold up the others on standard":     fairShare,
}

func text(kind, value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: &kind, StringValue: &value}
}

func attributesRoundTrip(t *testing.T, b *bench) {
	url := b.queue(t)
	sent := map[string]types.MessageAttributeValue{
		"plain":       text("String", "<ü & \u2028 😀>"),
		"label":       text("String.json", `{"a":1}`),
		"count":       text("Number", "1.50"),
		"typed-count": text("Number.int", "-00012345678901234567890"),
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

func digests(t *testing.T, b *bench) {
	url := b.queue(t)
	out := b.sendInput(t, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: aws.String("hello"),
		MessageAttributes:       map[string]types.MessageAttributeValue{"my_attribute": text("String", "my_attribute_value_1")},
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(trace)}},
	})
	// Computed by hand after the Developer Guide's description of the digest.
	if got, want := aws.ToString(out.MD5OfMessageBody), "5d41402abc4b2a76b9719d911017c592"; got != want {
		t.Errorf("body: got %s, want %s", got, want)
	}
	if got, want := aws.ToString(out.MD5OfMessageAttributes), digest("my_attribute", "String", "my_attribute_value_1"); got != want {
		t.Errorf("attributes: got %s, want %s", got, want)
	}
	if got, want := aws.ToString(out.MD5OfMessageSystemAttributes), digest("AWSTraceHeader", "String", trace); got != want {
		t.Errorf("system attributes: got %s, want %s", got, want)
	}
	got := b.receiveOne(t, url)
	if *got.MD5OfBody != *out.MD5OfMessageBody || aws.ToString(got.MD5OfMessageAttributes) != *out.MD5OfMessageAttributes {
		t.Errorf("received digests %s, %v differ from the sent ones", *got.MD5OfBody, got.MD5OfMessageAttributes)
	}
}

const trace = "Root=1-5e3d83c1-e6a0db584850d61342823d4c;Parent=3d61b0b4a3b0c1f2;Sampled=1"

func systemAttributes(t *testing.T, b *bench) {
	url := b.queue(t)
	before := time.Now().Add(-time.Minute).UnixMilli()
	b.sendInput(t, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: aws.String("x"),
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(trace)}},
	})
	got := b.receiveOne(t, url)
	if system(got, "AWSTraceHeader") != trace || system(got, "SenderId") == "" || system(got, "ApproximateReceiveCount") != "1" {
		t.Errorf("got %v", got.Attributes)
	}
	for _, name := range []types.MessageSystemAttributeName{"SentTimestamp", "ApproximateFirstReceiveTimestamp"} {
		if at, err := strconv.ParseInt(system(got, name), 10, 64); err != nil || at < before || at > before+int64(time.Hour/time.Millisecond) {
			t.Errorf("%s: got %q, want milliseconds of about now", name, system(got, name))
		}
	}
	if source, set := got.Attributes["DeadLetterQueueSourceArn"]; set {
		t.Errorf("a sent message has DeadLetterQueueSourceArn %s", source)
	}
	b.release(t, url, got)
	again := b.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"SenderId"}, VisibilityTimeout: 1})
	if len(again) != 1 || len(again[0].Attributes) != 1 || again[0].Attributes["SenderId"] == "" {
		t.Fatalf("asked the old way for SenderId, got %v", again)
	}
	b.release(t, url, again...)
	bare := b.receiveWith(t, &sqs.ReceiveMessageInput{QueueUrl: &url})
	if len(bare) != 1 || len(bare[0].Attributes) != 0 || len(bare[0].MessageAttributes) != 0 {
		t.Errorf("asked for nothing, got %v", bare)
	}
}

func nameFilters(t *testing.T, b *bench) {
	url := b.queue(t, "VisibilityTimeout", "0")
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
		"agent.task": text("String", "1"), "agent.run": text("String", "2"), "other": text("String", "3"),
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
		// The SDK has compared the body's digest; that of the attributes
		// covers those that came.
		if names := slices.Sorted(maps.Keys(got[0].MessageAttributes)); !slices.Equal(names, row.want) {
			t.Errorf("%v: got %v, want %v", row.ask, names, row.want)
		}
	}
}

func characters(t *testing.T, b *bench) {
	url := b.queue(t)
	for _, body := range []string{"a\x00b", "\x1b", "\ufffe", "\uffff", "\x08"} {
		b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}, "InvalidMessageContents")
	}
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
		"a": text("String", "\x01"),
	}}, "InvalidMessageContents", invalidParameter)
}

func emptyBody(t *testing.T, b *bench) {
	url := b.queue(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("")}, missingParameter)
}

func tenAttributes(t *testing.T, b *bench) {
	url := b.queue(t)
	many := map[string]types.MessageAttributeValue{}
	for i := range 10 {
		many["a"+strconv.Itoa(i)] = text("String", "v")
	}
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: many})
	many["eleventh"] = text("String", "v")
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: many}, invalidParameter)
}

func attributeNames(t *testing.T, b *bench) {
	url := b.queue(t)
	for _, name := range []string{"AWS.thing", "aws.thing", "Amazon.thing", "AMAZON.x", ".a", "a.", "a..b", "a b", "ü", "a/b", strings.Repeat("n", 257)} {
		b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			name: text("String", "v"),
		}}, invalidParameter)
	}
	for _, name := range []string{"AWSthing", "a.b-c_D9", strings.Repeat("n", 256)} {
		b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			name: text("String", "v"),
		}})
	}
}

func attributeValues(t *testing.T, b *bench) {
	url := b.queue(t)
	for name, value := range map[string]types.MessageAttributeValue{
		"empty string":    text("String", ""),
		"empty number":    text("Number", ""),
		"empty binary":    {DataType: aws.String("Binary"), BinaryValue: []byte{}},
		"no value":        {DataType: aws.String("String")},
		"unknown type":    text("Text", "v"),
		"small letters":   text("string", "v"),
		"string as bytes": {DataType: aws.String("Binary"), StringValue: aws.String("v")},
		"empty type":      text("", "v"),
		"long type":       text("String."+strings.Repeat("x", 256), "v"),
		"a list":          {DataType: aws.String("String"), StringListValues: []string{"v"}},
	} {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{"a": value}})
		if err == nil {
			t.Errorf("%s: was accepted", name)
			continue
		}
		wantCode(t, err, invalidParameter, missingParameter, "UnsupportedOperation")
	}
}

func attributeNumbers(t *testing.T, b *bench) {
	url := b.queue(t)
	for _, value := range []string{"x", "1x", "0x10", "NaN", "Infinity", "1e127", "-1e129", "1 ", "--1", strings.Repeat("1", 39)} {
		b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			"n": text("Number", value),
		}}, invalidParameter)
	}
	for _, value := range []string{"0", "-1.5", "1e10", "+7", "007", strings.Repeat("9", 38)} {
		b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			"n": text("Number", value),
		}})
	}
}

func delayChecked(t *testing.T, b *bench) {
	url := b.queue(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), DelaySeconds: 901}, invalidParameter)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), DelaySeconds: -1}, invalidParameter)
}

func systemAttributeChecked(t *testing.T, b *bench) {
	url := b.queue(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
		"SenderId": {DataType: aws.String("String"), StringValue: aws.String("me")},
	}}, invalidParameter)
}

func dedupOnStandard(t *testing.T, b *bench) {
	url := b.queue(t)
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageDeduplicationId: aws.String("d")}, invalidParameter)
}

func fairQueue(t *testing.T, b *bench) {
	url := b.queue(t)
	for range 2 {
		b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageGroupId: aws.String("tenant-1")})
	}
	// Both at once: a group of a standard queue blocks nothing.
	got := b.receive(t, url)
	if len(got) != 2 || system(got[0], "MessageGroupId") != "tenant-1" || system(got[1], "MessageGroupId") != "tenant-1" {
		t.Errorf("got %v", got)
	}
	b.refusesToSend(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageGroupId: aws.String(strings.Repeat("g", 129))}, invalidParameter)
}

func fairShare(t *testing.T, b *bench) {
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
		t.Errorf("got %v, want the quiet tenant's message next", bodies(got))
	}
}
