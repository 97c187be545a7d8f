package check

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var sqsMoveRows = map[string]func(*queueBench, *testing.T){
	"a move task takes dead letters home as new messages": (*queueBench).moveHome,
	"a move task keeps its rate and can be cancelled":     (*queueBench).moveRate,
	"a move task can go elsewhere, one at a time":         (*queueBench).moveElsewhere,
	"a move task needs a dead-letter queue":               (*queueBench).moveChecked,
	"a move task fails on a message without a source":     (*queueBench).moveSent,
	"a long poll wakes when a move task brings a message": (*queueBench).movePoll,
}

// died fills a dead-letter queue and returns it with its source.
func (b *queueBench) died(t *testing.T, count int) (source, dead, deadARN string) {
	t.Helper()
	source, dead = b.deadLettered(t, 1)
	for range count {
		b.send(t, source, "died")
	}
	for range (count + 9) / 10 {
		b.release(t, source, b.receive(t, source)...)
	}
	b.wantNothing(t, source)
	return source, dead, b.attributes(t, dead)["QueueArn"]
}

func (b *queueBench) startMove(t *testing.T, in *sqs.StartMessageMoveTaskInput) string {
	t.Helper()
	out, err := b.client.StartMessageMoveTask(t.Context(), in)
	if err != nil {
		t.Fatalf("start a move task: %v", err)
	}
	return *out.TaskHandle
}

func (b *queueBench) moveTask(t *testing.T, arn string) types.ListMessageMoveTasksResultEntry {
	t.Helper()
	out, err := b.client.ListMessageMoveTasks(t.Context(), &sqs.ListMessageMoveTasksInput{SourceArn: &arn})
	if err != nil || len(out.Results) != 1 {
		t.Fatalf("list the move tasks: got %v, %v, want the latest", out, err)
	}
	return out.Results[0]
}

func (b *queueBench) moveHome(t *testing.T) {
	source, dead, arn := b.died(t, 1)
	old := b.receiveOne(t, dead)
	b.release(t, dead, old)
	b.advance(t, time.Second)
	b.startMove(t, &sqs.StartMessageMoveTaskInput{SourceArn: &arn})
	b.advance(t, time.Second)
	got := b.receiveOne(t, source)
	if *got.Body != "died" || *got.MessageId == *old.MessageId || systemOf(got, "ApproximateReceiveCount") != "1" ||
		systemOf(got, "DeadLetterQueueSourceArn") != "" || systemOf(got, "SentTimestamp") == systemOf(old, "SentTimestamp") {
		t.Errorf("got %v after %v, want a new message", got, old)
	}
	b.wantDepths(t, dead, 0, 0, 0)
	if task := b.moveTask(t, arn); aws.ToString(task.Status) != "COMPLETED" || task.ApproximateNumberOfMessagesMoved != 1 || task.TaskHandle != nil {
		t.Errorf("got %+v", task)
	}
}

func (b *queueBench) moveRate(t *testing.T) {
	source, dead, arn := b.died(t, 10)
	handle := b.startMove(t, &sqs.StartMessageMoveTaskInput{SourceArn: &arn, MaxNumberOfMessagesPerSecond: aws.Int32(2)})
	b.advance(t, 1100*time.Millisecond)
	b.wantDepths(t, source, 2, 0, 0)
	task := b.moveTask(t, arn)
	if aws.ToString(task.Status) != "RUNNING" || aws.ToString(task.TaskHandle) != handle || task.ApproximateNumberOfMessagesMoved != 2 ||
		aws.ToInt64(task.ApproximateNumberOfMessagesToMove) != 10 || aws.ToInt32(task.MaxNumberOfMessagesPerSecond) != 2 {
		t.Errorf("got %+v", task)
	}
	out, err := b.client.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: &handle})
	if err != nil || out.ApproximateNumberOfMessagesMoved != 2 {
		t.Errorf("cancel: got %+v, %v, want 2 moved", out, err)
	}
	b.advance(t, time.Minute)
	b.wantDepths(t, dead, 8, 0, 0)
	if task := b.moveTask(t, arn); aws.ToString(task.Status) != "CANCELLED" {
		t.Errorf("got %+v", task)
	}
	_, err = b.client.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: &handle})
	wantRefusal(t, err, "UnsupportedOperation", "ResourceNotFound")
}

func (b *queueBench) moveElsewhere(t *testing.T) {
	source, _, arn := b.died(t, 3)
	other := b.queue(t)
	in := &sqs.StartMessageMoveTaskInput{SourceArn: &arn, DestinationArn: aws.String(b.attributes(t, other)["QueueArn"]), MaxNumberOfMessagesPerSecond: aws.Int32(1)}
	b.startMove(t, in)
	_, err := b.client.StartMessageMoveTask(t.Context(), in)
	wantRefusal(t, err, "UnsupportedOperation", invalidParameter)
	b.advance(t, 4*time.Second)
	b.wantDepths(t, other, 3, 0, 0)
	b.wantDepths(t, source, 0, 0, 0)
}

func (b *queueBench) moveChecked(t *testing.T) {
	_, _, arn := b.died(t, 1)
	plain := b.attributes(t, b.queue(t))["QueueArn"]
	_, err := b.client.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &plain})
	wantRefusal(t, err, invalidParameter)
	missing := plain + "-missing"
	_, err = b.client.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &missing})
	wantType[*types.ResourceNotFoundException](t, err)
	_, err = b.client.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &arn, DestinationArn: &missing})
	wantType[*types.ResourceNotFoundException](t, err)
	_, err = b.client.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &arn, MaxNumberOfMessagesPerSecond: aws.Int32(501)})
	wantRefusal(t, err, invalidParameter)
	_, err = b.client.ListMessageMoveTasks(t.Context(), &sqs.ListMessageMoveTasksInput{SourceArn: &missing})
	wantType[*types.ResourceNotFoundException](t, err)
	_, err = b.client.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: aws.String("garbage")})
	wantRefusal(t, err, invalidParameter, "ResourceNotFound")
}

func (b *queueBench) moveSent(t *testing.T) {
	_, dead := b.deadLettered(t, 1)
	b.send(t, dead, "by hand")
	arn := b.attributes(t, dead)["QueueArn"]
	b.startMove(t, &sqs.StartMessageMoveTaskInput{SourceArn: &arn})
	b.advance(t, time.Second)
	if task := b.moveTask(t, arn); aws.ToString(task.Status) != "FAILED" || aws.ToString(task.FailureReason) == "" {
		t.Errorf("got %+v", task)
	}
	b.wantDepths(t, dead, 1, 0, 0)
}

func (b *queueBench) movePoll(t *testing.T) {
	source, _, arn := b.died(t, 1)
	began := time.Now()
	poll := b.poll(t.Context(), source, 20)
	b.startMove(t, &sqs.StartMessageMoveTaskInput{SourceArn: &arn})
	got := <-poll
	if got.err != nil || !slices.Equal(bodiesOf(got.messages), []string{"died"}) {
		t.Errorf("got %v, %v", bodiesOf(got.messages), got.err)
	}
	if spent := time.Since(began); spent > 10*time.Second {
		t.Errorf("the poll took %v", spent)
	}
}
