package localstack_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// bus is a cloud with a topic and a subscription, and generated clients whose
// publishes and pulls are not repeated.
type bus struct {
	*localstack.Cloud

	topics *pubsub.TopicAdminClient
	subs   *pubsub.SubscriptionAdminClient
}

const (
	topicPath = "projects/" + localstack.Project + "/topics/work"
	subPath   = "projects/" + localstack.Project + "/subscriptions/work"
)

// onBus runs a test with a bus in virtual time. The settings of the
// subscription are those of a seed.
func onBus(t *testing.T, settings string, test func(t *testing.T, b *bus)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := localstack.New(localstack.Options{})
		t.Cleanup(cloud.Close)
		if err := cloud.Seed(strings.NewReader("topics: [work, dead]\nsubscriptions: [{name: work, topic: work" + settings + "}]")); err != nil {
			t.Fatal(err)
		}
		ctx := context.WithoutCancel(t.Context())
		topics, err := pubsub.NewTopicAdminClient(ctx, cloud.PubSubOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		subs, err := pubsub.NewSubscriptionAdminClient(ctx, cloud.PubSubOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		topics.CallOptions.Publish, subs.CallOptions.Pull = nil, nil
		test(t, &bus{cloud, topics, subs})
	})
}

func (b *bus) order(t *testing.T, f localstack.Fault) {
	t.Helper()
	f.Service = "pubsub"
	if _, err := b.AddFault(f); err != nil {
		t.Fatal(err)
	}
}

func (b *bus) publish(ctx context.Context, bodies ...string) error {
	in := &pubsubpb.PublishRequest{Topic: topicPath}
	for _, body := range bodies {
		in.Messages = append(in.Messages, &pubsubpb.PubsubMessage{Data: []byte(body)})
	}
	_, err := b.topics.Publish(ctx, in)
	return err
}

// look pulls what is there.
func (b *bus) look(ctx context.Context) ([]*pubsubpb.ReceivedMessage, error) {
	out, err := b.subs.Pull(ctx, &pubsubpb.PullRequest{Subscription: subPath, MaxMessages: 100, ReturnImmediately: true}) //nolint:staticcheck // it must not wait
	return out.GetReceivedMessages(), err
}

// wantHeld checks what the subscription gives.
func (b *bus) wantHeld(t *testing.T, want ...string) []*pubsubpb.ReceivedMessage {
	t.Helper()
	got, err := b.look(t.Context())
	var all []string
	for _, m := range got {
		all = append(all, string(m.GetMessage().GetData()))
	}
	if err != nil || !slices.Equal(all, want) {
		t.Errorf("got %q, %v, want %q", all, err, want)
	}
	return got
}

func (b *bus) ack(ctx context.Context, got ...*pubsubpb.ReceivedMessage) error {
	in := &pubsubpb.AcknowledgeRequest{Subscription: subPath}
	for _, m := range got {
		in.AckIds = append(in.AckIds, m.GetAckId())
	}
	return b.subs.Acknowledge(ctx, in)
}

func wantRPC(t *testing.T, err error, want codes.Code, text string) {
	t.Helper()
	if status.Code(err) != want || (err != nil && !strings.Contains(err.Error(), text)) {
		t.Errorf("got %v, want %v with %q", err, want, text)
	}
}

// lastRPC is the latest recorded call of an operation.
func (b *bus) lastRPC(t *testing.T, operation string) localstack.Request {
	t.Helper()
	all := b.Requests("pubsub", 0)
	for _, call := range slices.Backward(all) {
		if call.Operation == operation {
			return call
		}
	}
	t.Fatalf("no %s is recorded", operation)
	return localstack.Request{}
}

func TestPubSubErrorAndThrottle(t *testing.T) {
	onBus(t, "", func(t *testing.T, b *bus) {
		b.order(t, localstack.Fault{Operation: "Publish", Do: "error", Code: "PERMISSION_DENIED", Message: "not yours"})
		wantRPC(t, b.publish(t.Context(), "a"), codes.PermissionDenied, "not yours")
		if call := b.lastRPC(t, "Publish"); call.Status != 403 || call.Fault != "error" || !strings.Contains(string(call.Response), `"PERMISSION_DENIED"`) {
			t.Errorf("recorded %+v", call)
		}
		b.order(t, localstack.Fault{Do: "error"})
		wantRPC(t, b.publish(t.Context(), "a"), codes.Internal, "ordered")
		b.order(t, localstack.Fault{Do: "throttle"})
		wantRPC(t, b.publish(t.Context(), "a"), codes.ResourceExhausted, "uota")
		b.wantHeld(t)
		// A client that repeats gets through.
		patient, err := pubsub.NewTopicAdminClient(t.Context(), b.PubSubOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		b.order(t, localstack.Fault{Operation: "Publish", Do: "throttle", Times: 2})
		_, err = patient.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topicPath, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}})
		wantRPC(t, err, codes.OK, "")
		b.wantHeld(t, "x")
	})
}

func TestPubSubDrops(t *testing.T) {
	onBus(t, "", func(t *testing.T, b *bus) {
		b.order(t, localstack.Fault{Operation: "Publish", Do: "drop_before"})
		wantRPC(t, b.publish(t.Context(), "lost"), codes.Unavailable, "EOF")
		if call := b.lastRPC(t, "Publish"); call.Status != 0 || call.Fault != "drop_before" || len(call.Response) != 0 {
			t.Errorf("recorded %+v", call)
		}
		b.order(t, localstack.Fault{Operation: "Publish", Do: "drop_after"})
		wantRPC(t, b.publish(t.Context(), "out"), codes.Unavailable, "EOF")
		if call := b.lastRPC(t, "Publish"); call.Status != 200 || !strings.Contains(string(call.Response), "messageIds") {
			t.Errorf("recorded %+v, want the answer that got lost", call)
		}
		// A pull whose answer is lost has delivered all the same.
		b.order(t, localstack.Fault{Operation: "Pull", Do: "drop_after"})
		_, err := b.look(t.Context())
		wantRPC(t, err, codes.Unavailable, "EOF")
		b.wantHeld(t)
		b.Clock().Advance(11 * time.Second)
		b.wantHeld(t, "out")
	})
}

func TestPubSubBlackHoleAndDelay(t *testing.T) {
	onBus(t, "", func(t *testing.T, b *bus) {
		b.order(t, localstack.Fault{Operation: "Publish", Do: "black_hole"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		wantRPC(t, b.publish(ctx, "never"), codes.DeadlineExceeded, "")
		if spent := time.Since(began); spent != time.Minute {
			t.Errorf("it took %v, want the client's own minute", spent)
		}
		b.order(t, localstack.Fault{Operation: "Publish", Do: "delay", Ms: 90_000})
		began = time.Now()
		wantRPC(t, b.publish(t.Context(), "late"), codes.OK, "")
		if spent := time.Since(began); spent != 90*time.Second {
			t.Errorf("it took %v, want 90s", spent)
		}
		// A client that gives up meanwhile has nothing carried out.
		b.order(t, localstack.Fault{Operation: "Publish", Do: "delay", Ms: 90_000})
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		wantRPC(t, b.publish(ctx, "given up"), codes.DeadlineExceeded, "")
		synctest.Wait()
		b.wantHeld(t, "late")
	})
}

func TestPubSubEmptyContainsSkipAndTimes(t *testing.T) {
	onBus(t, "", func(t *testing.T, b *bus) {
		b.order(t, localstack.Fault{Do: "empty", Times: 2})
		if err := b.publish(t.Context(), "here"); err != nil {
			t.Fatal(err)
		}
		b.wantHeld(t)
		b.wantHeld(t)
		b.wantHeld(t, "here")
		// The text is looked for in the data itself, which JSON has in base64.
		b.order(t, localstack.Fault{Operation: "Publish", Do: "error", Code: "UNAVAILABLE", Contains: "order-3", Skip: 1, Times: -1})
		for body, want := range map[string]codes.Code{"order-1": codes.OK, "order-2": codes.OK} {
			wantRPC(t, b.publish(t.Context(), body), want, "")
		}
		wantRPC(t, b.publish(t.Context(), "order-3"), codes.OK, "")
		for range 3 {
			wantRPC(t, b.publish(t.Context(), "order-3"), codes.Unavailable, "")
		}
		b.ClearFaults()
		wantRPC(t, b.publish(t.Context(), "order-3"), codes.OK, "")
	})
}

func TestPubSubFailAckIsSilent(t *testing.T) {
	onBus(t, "", func(t *testing.T, b *bus) {
		if err := b.publish(t.Context(), "order-1", "order-2", "order-3"); err != nil {
			t.Fatal(err)
		}
		b.order(t, localstack.Fault{Do: "fail_ack", Contains: "order-2"})
		wantRPC(t, b.ack(t.Context(), b.wantHeld(t, "order-1", "order-2", "order-3")...), codes.OK, "")
		b.Clock().Advance(11 * time.Second)
		b.order(t, localstack.Fault{Do: "fail_ack"})
		wantRPC(t, b.ack(t.Context(), b.wantHeld(t, "order-2")...), codes.OK, "")
		b.Clock().Advance(11 * time.Second)
		wantRPC(t, b.ack(t.Context(), b.wantHeld(t, "order-2")...), codes.OK, "")
		b.Clock().Advance(11 * time.Second)
		b.wantHeld(t)
	})
}

func TestPubSubFailAckIsToldWithExactlyOnce(t *testing.T) {
	onBus(t, ", exactly_once: true", func(t *testing.T, b *bus) {
		if err := b.publish(t.Context(), "1", "2", "3"); err != nil {
			t.Fatal(err)
		}
		got := b.wantHeld(t, "1", "2", "3")
		b.order(t, localstack.Fault{Do: "fail_ack", Entries: localstack.Entries{Positions: []int{2}}})
		err := b.ack(t.Context(), got...)
		wantRPC(t, err, codes.InvalidArgument, "acknowledgement ids")
		reasons := func(err error) map[string]string {
			for _, detail := range status.Convert(err).Details() {
				if info, ok := detail.(*errdetails.ErrorInfo); ok {
					return info.GetMetadata()
				}
			}
			return nil
		}
		if r := reasons(err); len(r) != 1 || r[got[2].GetAckId()] != "PERMANENT_FAILURE_INVALID_ACK_ID" {
			t.Errorf("got reasons %v", r)
		}
		b.order(t, localstack.Fault{Do: "fail_ack", Code: "TRANSIENT_FAILURE_UNAVAILABLE"})
		if r := reasons(b.ack(t.Context(), got[2])); r[got[2].GetAckId()] != "TRANSIENT_FAILURE_UNAVAILABLE" {
			t.Errorf("got reasons %v", r)
		}
		b.Clock().Advance(11 * time.Second)
		b.wantHeld(t, "3")
	})
}

func TestPubSubStreamFaults(t *testing.T) {
	onBus(t, "", func(t *testing.T, b *bus) {
		open := func() pubsubpb.Subscriber_StreamingPullClient {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			s, err := b.subs.StreamingPull(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&pubsubpb.StreamingPullRequest{Subscription: subPath, StreamAckDeadlineSeconds: 10}); err != nil {
				t.Fatal(err)
			}
			return s
		}
		for do, want := range map[string]codes.Code{"error": codes.Internal, "throttle": codes.ResourceExhausted, "drop_before": codes.Unavailable, "black_hole": codes.DeadlineExceeded} {
			b.order(t, localstack.Fault{Operation: "StreamingPull", Do: do})
			_, err := open().Recv()
			wantRPC(t, err, want, "")
		}
		if err := b.publish(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		b.order(t, localstack.Fault{Operation: "StreamingPull", Do: "drop_after"})
		_, err := open().Recv()
		wantRPC(t, err, codes.Unavailable, "EOF")
		if call := b.lastRPC(t, "StreamingPull"); call.Fault != "drop_after" || !strings.Contains(string(call.Response), "receivedMessages") {
			t.Errorf("recorded %+v", call)
		}
		b.wantHeld(t) // delivered, and lost on the way

		s := open()
		got, err := s.Recv() // after the missed deadline
		if err != nil || len(got.GetReceivedMessages()) != 1 {
			t.Fatalf("got %v, %v", got, err)
		}
		b.order(t, localstack.Fault{Operation: "StreamingPull", Do: "fail_ack"})
		if err := s.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{got.GetReceivedMessages()[0].GetAckId()}}); err != nil {
			t.Fatal(err)
		}
		for again := 0; again == 0; again = len(got.GetReceivedMessages()) {
			if got, err = s.Recv(); err != nil {
				t.Fatalf("got %v, want the message again", err)
			}
		}
	})
}

func TestPubSubIsRecordedAndCounted(t *testing.T) {
	onBus(t, "", func(t *testing.T, b *bus) {
		if err := b.publish(t.Context(), "hello"); err != nil {
			t.Fatal(err)
		}
		if err := b.ack(t.Context(), b.wantHeld(t, "hello")...); err != nil {
			t.Fatal(err)
		}
		_, err := b.topics.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: topicPath + "-none"})
		wantRPC(t, err, codes.NotFound, "")
		counted := b.Counters().Calls["pubsub"]
		for operation, want := range map[string]int64{"Publish": 1, "Pull": 1, "Acknowledge": 1, "GetTopic": 1} {
			if counted[operation] != want {
				t.Errorf("%s is counted %d times, want %d", operation, counted[operation], want)
			}
		}
		if call := b.lastRPC(t, "Publish"); string(call.Request) != `{"topic":"`+topicPath+`","messages":[{"data":"aGVsbG8="}]}` || call.Status != 200 {
			t.Errorf("recorded %s", call.Request)
		}
		if call := b.lastRPC(t, "GetTopic"); call.Status != 404 || !strings.Contains(string(call.Response), `"status":"NOT_FOUND"`) {
			t.Errorf("recorded %+v", call)
		}
		if call := b.lastRPC(t, "Pull"); !strings.Contains(string(call.Response), `"ackId":"`) {
			t.Errorf("recorded %s", call.Response)
		}
	})
}

func TestPubSubRulesThatMakeNoSenseAreRefused(t *testing.T) {
	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	for _, f := range []localstack.Fault{
		{Do: "error", Code: "SOME_CODE"},
		{Do: "error", Code: "NOT_FOUND", Status: 404},
		{Do: "stale"},
		{Do: "fail_entries"},
		{Operation: "Publish", Do: "fail_ack"},
		{Operation: "Publish", Do: "empty"},
		{Do: "fail_ack", Message: "x"},
	} {
		f.Service = "pubsub"
		if id, err := cloud.AddFault(f); err == nil || len(err.Error()) < 20 {
			t.Errorf("%+v: got id %q, error %v, want a sentence", f, id, err)
		}
	}
}

func TestClosingTheCloudEndsPullsAndStreams(t *testing.T) {
	onBus(t, "", func(t *testing.T, b *bus) {
		ended := make(chan error, 2)
		go func() {
			_, err := b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: subPath, MaxMessages: 1})
			ended <- err
		}()
		go func() {
			s, err := b.subs.StreamingPull(t.Context())
			if err == nil {
				err = errors.Join(s.Send(&pubsubpb.StreamingPullRequest{Subscription: subPath, StreamAckDeadlineSeconds: 10}))
			}
			if err == nil {
				_, err = s.Recv()
			}
			ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		b.Close()
		for range 2 {
			if err := <-ended; err == nil {
				t.Error("it ended without an error")
			}
		}
		if spent := time.Since(began); spent != 0 {
			t.Errorf("closing took %v", spent)
		}
		if err := b.publish(t.Context(), "x"); err == nil {
			t.Error("a closed cloud takes messages")
		}
	})
}

func TestPubSubDiesWithinVirtualTime(t *testing.T) {
	onBus(t, ", dead_letter: {topic: dead, max_attempts: 5}, retry: {minimum_backoff: 1m, maximum_backoff: 10m}, ack_deadline: 600", func(t *testing.T, b *bus) {
		if _, err := b.subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: subPath + "-dead", Topic: "projects/" + localstack.Project + "/topics/dead"}); err != nil {
			t.Fatal(err)
		}
		if err := b.publish(t.Context(), "doomed"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 5 {
			for {
				out, err := b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: subPath, MaxMessages: 1})
				if err != nil {
					t.Fatal(err)
				}
				if len(out.GetReceivedMessages()) > 0 {
					break
				}
			}
		}
		var letter *pubsubpb.ReceivedMessage
		for letter == nil {
			out, err := b.subs.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: subPath + "-dead", MaxMessages: 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(out.GetReceivedMessages()) > 0 {
				letter = out.GetReceivedMessages()[0]
			}
		}
		if at := letter.GetMessage().GetAttributes()["CloudPubSubDeadLetterSourceTopicPublishTime"]; at != began.UTC().Format("2006-01-02T15:04:05.000")+"+00:00" {
			t.Errorf("published %q, want %v with an offset", at, began)
		}
		// Five deadlines of ten minutes, and backoffs of 1, 2, 4 and 8.
		if spent := time.Since(began); spent != 65*time.Minute {
			t.Errorf("it died after %v, want 65m", spent)
		}
	})
}

// BenchmarkPubSub publishes, pulls and acknowledges messages of 1 KiB in
// batches; the figure is messages per second over all three.
func BenchmarkPubSub(b *testing.B) {
	cloud := localstack.New(localstack.Options{})
	defer cloud.Close()
	if err := cloud.Seed(strings.NewReader("topics: [work]\nsubscriptions: [{name: work, topic: work}]")); err != nil {
		b.Fatal(err)
	}
	topics, err := pubsub.NewTopicAdminClient(b.Context(), cloud.PubSubOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	subs, err := pubsub.NewSubscriptionAdminClient(b.Context(), cloud.PubSubOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	const batch = 100
	in := &pubsubpb.PublishRequest{Topic: topicPath}
	for range batch {
		in.Messages = append(in.Messages, &pubsubpb.PubsubMessage{Data: make([]byte, 1024), Attributes: map[string]string{"agent.task": "t1"}})
	}
	for b.Loop() {
		if _, err := topics.Publish(b.Context(), in); err != nil {
			b.Fatal(err)
		}
		out, err := subs.Pull(b.Context(), &pubsubpb.PullRequest{Subscription: subPath, MaxMessages: batch})
		if err != nil || len(out.GetReceivedMessages()) != batch {
			b.Fatalf("got %d messages, %v", len(out.GetReceivedMessages()), err)
		}
		ack := &pubsubpb.AcknowledgeRequest{Subscription: subPath}
		for _, m := range out.GetReceivedMessages() {
			ack.AckIds = append(ack.AckIds, m.GetAckId())
		}
		if err := subs.Acknowledge(b.Context(), ack); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "messages/s")
}
