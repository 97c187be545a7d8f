package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var sqsQueueRows = map[string]func(*queueBench, *testing.T){
	"a queue is created, found by name and listed":         (*queueBench).createFindList,
	"creating again is fine with the same attributes only": (*queueBench).createAgain,
	"names are checked":                                        (*queueBench).queueNames,
	"a missing queue is a typed QueueDoesNotExist":             (*queueBench).missingQueue,
	"attributes have defaults and can be set at once or later": (*queueBench).queueAttributes,
	"attributes are checked":                                   (*queueBench).attributesChecked,
	"lists come in pages":                                      (*queueBench).listPages,
	"tags are added, listed and taken away":                    (*queueBench).tags,
	"a purge empties the queue, once a minute":                 (*queueBench).purge,
	"a deleted queue is gone, its name free after a minute":    (*queueBench).deleteQueue,
	"a redrive policy needs a dead-letter queue that exists":   (*queueBench).redriveTarget,
	"a dead-letter queue may refuse its sources":               (*queueBench).redriveAllow,
	"sources of a dead-letter queue are listed":                (*queueBench).deadLetterSources,
	"operations that are not served are refused":               (*queueBench).unknownOperation,
	"depth counters tell visible, in flight and delayed apart": (*queueBench).depthCounters,
	"a policy is taken away by an empty value":                 (*queueBench).policyRemoved,
	"a queue of another account does not exist":                (*queueBench).otherAccount,
}

func (b *queueBench) createFindList(t *testing.T) {
	name := b.name("")
	made, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil || *found.QueueUrl != *made.QueueUrl {
		t.Errorf("got %v, %v, want %s", found, err, *made.QueueUrl)
	}
	if !strings.HasSuffix(*made.QueueUrl, "/"+name) {
		t.Errorf("got URL %s, want it to end in the name %s", *made.QueueUrl, name)
	}
	listed, err := b.client.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: &name})
	if err != nil || !slices.Equal(listed.QueueUrls, []string{*made.QueueUrl}) {
		t.Errorf("got %v, %v, want only %s", listed, err, *made.QueueUrl)
	}
}

func (b *queueBench) createAgain(t *testing.T) {
	name := b.name("")
	create := func(attributes ...string) error {
		_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: settingsOf(attributes)})
		return err
	}
	if err := create("VisibilityTimeout", "7"); err != nil {
		t.Fatal(err)
	}
	if err := create("VisibilityTimeout", "7"); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := create(); err != nil {
		t.Errorf("without attributes: %v", err)
	}
	wantType[*types.QueueNameExists](t, create("VisibilityTimeout", "8"))
}

func (b *queueBench) queueNames(t *testing.T) {
	for _, name := range []string{"with space", "with.dot", strings.Repeat("a", 81), "ends.fifo"} {
		_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
		wantRefusal(t, err, invalidParameter)
	}
	_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("no-suffix"), Attributes: map[string]string{"FifoQueue": "true"}})
	wantRefusal(t, err, invalidParameter)
}

func (b *queueBench) missingQueue(t *testing.T) {
	url := b.queue(t)
	gone := url + "-gone"
	_, err := b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("check-nowhere")})
	wantType[*types.QueueDoesNotExist](t, err)
	_, err = b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &gone, MessageBody: aws.String("x")})
	wantType[*types.QueueDoesNotExist](t, err)
	_, err = b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &gone})
	wantType[*types.QueueDoesNotExist](t, err)
	_, err = b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &gone})
	wantType[*types.QueueDoesNotExist](t, err)
	wantRefusal(t, err, "NonExistentQueue") // the older spelling, which old programs compare
}

func (b *queueBench) queueAttributes(t *testing.T) {
	url := b.queue(t, "VisibilityTimeout", "5", "DelaySeconds", "2")
	want := map[string]string{
		"VisibilityTimeout": "5", "DelaySeconds": "2", "MaximumMessageSize": "1048576", "MessageRetentionPeriod": "345600",
		"ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "true",
	}
	got := b.attributes(t, url)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: got %q, want %q", name, got[name], value)
		}
	}
	if !strings.HasPrefix(got["QueueArn"], "arn:aws:sqs:") || !strings.HasSuffix(got["QueueArn"], url[strings.LastIndex(url, "/")+1:]) {
		t.Errorf("got QueueArn %q", got["QueueArn"])
	}
	b.set(t, url, "VisibilityTimeout", "9", "ReceiveMessageWaitTimeSeconds", "1")
	if got := b.attributes(t, url); got["VisibilityTimeout"] != "9" || got["ReceiveMessageWaitTimeSeconds"] != "1" || got["DelaySeconds"] != "2" {
		t.Errorf("after setting two, got %v", got)
	}
	some, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"DelaySeconds"}})
	if err != nil || len(some.Attributes) != 1 || some.Attributes["DelaySeconds"] != "2" {
		t.Errorf("asked for one, got %v, %v", some, err)
	}
}

func (b *queueBench) attributesChecked(t *testing.T) {
	url := b.queue(t)
	for name, value := range map[string]string{
		"VisibilityTimeout": "43201", "DelaySeconds": "901", "MessageRetentionPeriod": "59", "MaximumMessageSize": "1048577",
		"ReceiveMessageWaitTimeSeconds": "21",
	} {
		_, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{name: value}})
		wantRefusal(t, err, "InvalidAttributeValue", invalidParameter)
	}
	for _, name := range []string{"NoSuchThing", "ContentBasedDeduplication"} {
		_, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{name: "true"}})
		wantRefusal(t, err, "InvalidAttributeName")
	}
	_, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"Nonsense"}})
	wantRefusal(t, err, "InvalidAttributeName")
}

func (b *queueBench) listPages(t *testing.T) {
	prefix := b.name("-page")
	for _, end := range []string{"-a", "-b", "-c"} {
		if _, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(prefix + end)}); err != nil {
			t.Fatal(err)
		}
	}
	pages := sqs.NewListQueuesPaginator(b.client, &sqs.ListQueuesInput{QueueNamePrefix: &prefix, MaxResults: aws.Int32(2)})
	sizes := []int{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page.QueueUrls))
	}
	if !slices.Equal(sizes, []int{2, 1}) {
		t.Errorf("got pages of %v, want 2 and 1", sizes)
	}
	none, err := b.client.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: aws.String(prefix + "-nothing")})
	if err != nil || len(none.QueueUrls) != 0 {
		t.Errorf("got %v, %v, want none", none, err)
	}
}

func (b *queueBench) tags(t *testing.T) {
	name := b.name("")
	made, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Tags: map[string]string{"team": "agents"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: made.QueueUrl, Tags: map[string]string{"env": "test", "team": "tools"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: made.QueueUrl, TagKeys: []string{"env"}}); err != nil {
		t.Fatal(err)
	}
	got, err := b.client.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: made.QueueUrl})
	if err != nil || len(got.Tags) != 1 || got.Tags["team"] != "tools" {
		t.Errorf("got %v, %v, want team=tools", got, err)
	}
}

func (b *queueBench) purge(t *testing.T) {
	url := b.queue(t)
	for range 3 {
		b.send(t, url, "x")
	}
	b.receive(t, url)
	b.send(t, url, "y")
	if _, err := b.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &url}); err != nil {
		t.Fatal(err)
	}
	b.wantDepths(t, url, 0, 0, 0)
	_, err := b.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &url})
	wantType[*types.PurgeQueueInProgress](t, err)
	b.advance(t, time.Minute)
	if _, err := b.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &url}); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

func (b *queueBench) deleteQueue(t *testing.T) {
	name := b.name("")
	create := func() (*sqs.CreateQueueOutput, error) {
		return b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
	}
	made, err := create()
	if err != nil {
		t.Fatal(err)
	}
	b.send(t, *made.QueueUrl, "x")
	if _, err := b.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl}); err != nil {
		t.Fatal(err)
	}
	_, err = b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	wantType[*types.QueueDoesNotExist](t, err)
	_, err = create()
	wantType[*types.QueueDeletedRecently](t, err)
	b.advance(t, time.Minute)
	if _, err := create(); err != nil {
		t.Fatalf("a minute later: %v", err)
	}
	b.wantDepths(t, *made.QueueUrl, 0, 0, 0)
}

func (b *queueBench) redriveTarget(t *testing.T) {
	source, dead := b.queue(t), b.queue(t)
	arn := b.attributes(t, dead)["QueueArn"]
	fifo := b.attributes(t, b.queue(t, "FifoQueue", "true"))["QueueArn"]
	for _, policy := range []string{
		redrive(arn+"-missing", 3), redrive(fifo, 3), redrive(arn, 0), redrive(arn, 1001),
		`{"deadLetterTargetArn":"` + arn + `"}`, `{"maxReceiveCount":3}`, "no json",
	} {
		_, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &source, Attributes: map[string]string{"RedrivePolicy": policy}})
		wantRefusal(t, err, invalidParameter, "InvalidAttributeValue", "NonExistentQueue")
	}
	b.set(t, source, "RedrivePolicy", redrive(arn, 3))
	if got := b.attributes(t, source)["RedrivePolicy"]; !strings.Contains(got, arn) {
		t.Errorf("got policy %q, want one with %s", got, arn)
	}
	_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(b.name("")), Attributes: map[string]string{"RedrivePolicy": redrive(arn+"-missing", 3)}})
	wantRefusal(t, err, invalidParameter, "InvalidAttributeValue", "NonExistentQueue")
}

func (b *queueBench) redriveAllow(t *testing.T) {
	source, dead := b.queue(t), b.queue(t)
	arn := b.attributes(t, dead)["QueueArn"]
	try := func() error {
		_, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &source, Attributes: map[string]string{"RedrivePolicy": redrive(arn, 3)}})
		return err
	}
	b.set(t, dead, "RedriveAllowPolicy", `{"redrivePermission":"denyAll"}`)
	wantRefusal(t, try(), invalidParameter)
	b.set(t, dead, "RedriveAllowPolicy", `{"redrivePermission":"byQueue","sourceQueueArns":["`+b.attributes(t, source)["QueueArn"]+`"]}`)
	if err := try(); err != nil {
		t.Errorf("named in sourceQueueArns: %v", err)
	}
}

func (b *queueBench) deadLetterSources(t *testing.T) {
	source, dead := b.deadLettered(t, 3)
	got, err := b.client.ListDeadLetterSourceQueues(t.Context(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &dead})
	if err != nil || !slices.Equal(got.QueueUrls, []string{source}) {
		t.Errorf("got %v, %v, want %s", got, err, source)
	}
	none, err := b.client.ListDeadLetterSourceQueues(t.Context(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &source})
	if err != nil || len(none.QueueUrls) != 0 {
		t.Errorf("got %v, %v, want none", none, err)
	}
}

func (b *queueBench) unknownOperation(t *testing.T) {
	url := b.queue(t)
	_, err := b.client.AddPermission(t.Context(), &sqs.AddPermissionInput{QueueUrl: &url, Label: aws.String("l"), AWSAccountIds: []string{"000000000000"}, Actions: []string{"SendMessage"}})
	wantRefusal(t, err, "UnsupportedOperation")
}

func (b *queueBench) depthCounters(t *testing.T) {
	url := b.queue(t)
	for range 3 {
		b.send(t, url, "x")
	}
	b.sendInput(t, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("late"), DelaySeconds: 600})
	b.wantDepths(t, url, 3, 0, 1)
	in := receiveInput(url)
	in.MaxNumberOfMessages = 2
	got := b.receiveWith(t, in)
	b.wantDepths(t, url, 1, 2, 1)
	b.delete(t, url, got[0])
	b.wantDepths(t, url, 1, 1, 1)
	b.release(t, url, got[1])
	b.wantDepths(t, url, 2, 0, 1)
}

func (b *queueBench) policyRemoved(t *testing.T) {
	source, dead := b.deadLettered(t, 3)
	b.set(t, source, "RedrivePolicy", "")
	if got, present := b.attributes(t, source)["RedrivePolicy"]; present {
		t.Errorf("got policy %q, want none", got)
	}
	none, err := b.client.ListDeadLetterSourceQueues(t.Context(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &dead})
	if err != nil || len(none.QueueUrls) != 0 {
		t.Errorf("got %v, %v, want none", none, err)
	}
}

func (b *queueBench) otherAccount(t *testing.T) {
	url := b.queue(t)
	_, err := b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{
		QueueName: aws.String(url[strings.LastIndex(url, "/")+1:]), QueueOwnerAWSAccountId: aws.String("999999999999"),
	})
	wantType[*types.QueueDoesNotExist](t, err)
}
