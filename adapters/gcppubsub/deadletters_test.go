package gcppubsub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// C58: the count is the source's, in an attribute; that our own subscription
// does not count is unknown and not 0. All other facts are told apart too.
func TestC58WhatADeadLetterSays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		sent := w.Clock().Now()
		w.publish("orders", &pubsubpb.PubsubMessage{Data: []byte("pay"), Attributes: map[string]string{"agent.task.id": "t-1"}, OrderingKey: "cust-9"})
		w.Clock().Advance(3 * time.Hour)
		w.die("billing")
		forwarded := w.Clock().Now()
		w.Clock().Advance(time.Hour)
		l := receive(t, w.open("billing-dead"), 1)[0]

		if l.Provider != dlqbridge.PubSub || l.Place != subscriptionName("billing-dead") || l.Source != subscriptionName("billing") {
			t.Errorf("provider %s, place %s, source %s", l.Provider, l.Place, l.Source)
		}
		if l.Deliveries == nil || *l.Deliveries != 5 {
			t.Errorf("deliveries %v, want 5", l.Deliveries)
		}
		if !l.SentAt.Equal(sent.Truncate(time.Millisecond)) {
			t.Errorf("sent %v, want the first publishing, %v", l.SentAt, sent)
		}
		if want := forwarded.Add(7 * 24 * time.Hour); !l.LostAt.Equal(want) {
			t.Errorf("lost %v, want %v: seven days after it was forwarded", l.LostAt, want)
		}
		if !l.ReceivedAt.Equal(w.Clock().Now()) {
			t.Errorf("received %v", l.ReceivedAt)
		}
		if string(l.Payload.Body) != "pay" || l.Payload.GroupKey != "cust-9" {
			t.Errorf("payload %+v", l.Payload)
		}
		equalMaps(t, "user attributes", attributesOf(l.Payload), map[string]string{"agent.task.id": "t-1"})
		if _, there := l.System["deliveryAttempt"]; there {
			t.Errorf("an attempt that nobody counts: %v", l.System)
		}
		for _, name := range []string{"messageId", "publishTime", "CloudPubSubDeadLetterSourceSubscription", "CloudPubSubDeadLetterSourceTopicPublishTime"} {
			if l.System[name] == "" {
				t.Errorf("System lacks %s: %v", name, l.System)
			}
		}
	})
}

// C58: what a worker sent to the dead-letter topic itself says nothing about
// deliveries and source, and a subscription with a policy of its own counts.
func TestC58NothingIsMadeUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.subscription("counting", "orders-dead", func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("orders"), MaxDeliveryAttempts: 9}
		})
		w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: []byte("x")})
		l := receive(t, w.open("billing-dead"), 1)[0]
		if l.Deliveries != nil || l.Source != "" || !l.SentAt.Equal(w.Clock().Now()) {
			t.Errorf("deliveries %v, source %q, sent %v", l.Deliveries, l.Source, l.SentAt)
		}
		if l := receive(t, w.open("counting"), 1)[0]; l.System["deliveryAttempt"] != "1" || l.Deliveries != nil {
			t.Errorf("attempt %q, deliveries %v", l.System["deliveryAttempt"], l.Deliveries)
		}
	})
}

// C19, C22: bytes that are no text, and no bytes at all, survive the whole way
// round.
func TestC19C22ExactBytesAllTheWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bodies := []string{"\xff\xfe\x61\x00", "\xc3", `{"k":"\ud800"}`, `{"a":1,"a":2}`, ""}
		for _, b := range bodies {
			w.publish("orders", &pubsubpb.PubsubMessage{Data: []byte(b), Attributes: map[string]string{"op": "purge"}})
		}
		w.die("billing")
		letters := receive(t, w.open("billing-dead"), len(bodies))
		d := w.destination("orders", "")
		for _, l := range letters {
			meanings(t, "send", send(t.Context(), d, dlqbridge.Outgoing{Payload: l.Payload}), nil)
		}
		var got []string
		for _, o := range w.consume("billing") {
			got = append(got, string(o.Payload.Body))
			equalMaps(t, "attributes", attributesOf(o.Payload), map[string]string{"op": "purge"})
		}
		slices.Sort(got)
		slices.Sort(bodies)
		if !slices.Equal(got, bodies) {
			t.Errorf("got %q, want %q", got, bodies)
		}
	})
}

// C56: a letter in hand is hidden for longer than the service's ten seconds,
// until intake first extends; where the subscription hides for long enough, no
// call is made.
func TestC56ALeaseLongEnoughToStore(t *testing.T) {
	for deadline, calls := range map[int32]int{10: 1, 29: 1, 30: 0, 600: 0} {
		t.Run(strconv.Itoa(int(deadline)), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.subscription("dead", "orders-dead", func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = deadline })
				w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: []byte("x")})
				d := w.open("dead")
				letters := receive(t, d, 1)
				if n := len(w.requests("ModifyAckDeadline")); n != calls {
					t.Errorf("%d extensions, want %d", n, calls)
				}
				w.Clock().Advance(23 * time.Second) // and five seconds for the look
				if again, err := d.Receive(t.Context(), 10, 0); err != nil || len(again) != 0 {
					t.Errorf("after 28 s %d letters came again (%v)", len(again), err)
				}
				meanings(t, "delete", d.Delete(t.Context(), letters), nil)
			})
		})
	}
}

// C56: with exactly-once delivery a letter whose lease ended on its way to us
// is not handed out: it could not be acknowledged, and it comes again.
func TestC56ExpiredOnArrival(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.subscription("dead", "orders-dead", func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true })
		w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: []byte("x")})
		d := w.open("dead")
		w.fault(localstack.Fault{Operation: "ModifyAckDeadline", Do: localstack.DoDelay, Ms: 11_000})
		letters, err := d.Receive(t.Context(), 10, time.Second)
		if err != nil || len(letters) != 0 {
			t.Errorf("got %d letters and %v, want none", len(letters), err)
		}
		meanings(t, "delete", d.Delete(t.Context(), receive(t, d, 1)), nil)
	})
}

// A receive takes what was asked for and no more, so that a poller never has
// more in hand than it can store (C56).
func TestReceiveBoundsWhatIsInHand(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 30 {
			w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: fmt.Append(nil, i)})
		}
		letters, err := w.open("billing-dead").Receive(t.Context(), 10, time.Second)
		if err != nil || len(letters) > 10 {
			t.Errorf("got %d letters and %v", len(letters), err)
		}
	})
}

// Failures of a pull are told apart: what may come right by itself is tried
// again, no answer within the wait is no letters, the rest has its meaning.
func TestReceiveErrors(t *testing.T) {
	for _, tt := range []struct {
		fault localstack.Fault
		want  error
		pulls int
	}{
		{localstack.Fault{Do: localstack.DoThrottle, Times: 2}, nil, 3},
		{localstack.Fault{Do: localstack.DoError, Code: "PERMISSION_DENIED"}, dlqbridge.ErrDenied, 1},
		{localstack.Fault{Do: localstack.DoError, Code: "UNAUTHENTICATED"}, dlqbridge.ErrCredentials, 1},
		{localstack.Fault{Do: localstack.DoError, Code: "NOT_FOUND"}, dlqbridge.ErrNotFound, 1},
		{localstack.Fault{Do: localstack.DoError, Code: "FAILED_PRECONDITION"}, dlqbridge.ErrInvalid, 1},
		{localstack.Fault{Do: localstack.DoError, Code: "UNAVAILABLE"}, dlqbridge.ErrUnclear, 1},
		{localstack.Fault{Do: localstack.DoError, Code: "INTERNAL"}, dlqbridge.ErrUnclear, 1},
		{localstack.Fault{Do: localstack.DoError, Code: "DEADLINE_EXCEEDED"}, nil, 1},
		{localstack.Fault{Do: localstack.DoBlackHole}, nil, 1},
	} {
		t.Run(tt.fault.Do+" "+tt.fault.Code, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				d := w.open("billing-dead")
				tt.fault.Operation = "Pull"
				w.fault(tt.fault)
				letters, err := d.Receive(t.Context(), 10, 2*time.Second)
				meanings(t, "receive", []error{err}, tt.want)
				if len(letters) != 0 {
					t.Errorf("%d letters", len(letters))
				}
				if n := len(w.requests("Pull")); n != tt.pulls {
					t.Errorf("%d pulls, want %d", n, tt.pulls)
				}
			})
		})
	}
}

// The wait covers the answer's way: what takes a slow link some seconds arrives
// within a one-shot run's one-second polls too, and is not lost on the way each
// time.
func TestReceiveOverASlowLink(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: []byte("large")})
		d := w.open("billing-dead")
		w.fault(localstack.Fault{Operation: "Pull", Do: localstack.DoDelay, Ms: 4000, Times: -1})
		if letters, err := d.Receive(t.Context(), 10, time.Second); err != nil || len(letters) != 1 {
			t.Errorf("received %d letters: %v", len(letters), err)
		}
	})
}

// There are no counters, and zeros would say that the place is empty; asking
// learns the retention anew.
func TestDepthIsUnknown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := w.open("billing-dead")
		_, err := w.subscriptions.UpdateSubscription(t.Context(), &pubsubpb.UpdateSubscriptionRequest{
			Subscription: &pubsubpb.Subscription{Name: subscriptionName("billing-dead"), MessageRetentionDuration: durationpb.New(time.Hour)},
			UpdateMask:   mask("message_retention_duration"),
		})
		must(t, err)
		depth, err := d.Depth(t.Context())
		must(t, err)
		if depth != (dlqbridge.Depth{Unknown: true}) {
			t.Errorf("got %+v", depth)
		}
		w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: []byte("x")})
		if l := receive(t, d, 1)[0]; !l.LostAt.Equal(w.Clock().Now().Add(time.Hour)) {
			t.Errorf("lost %v, want an hour from now", l.LostAt)
		}
	})
}

func TestOpenRefusesWhatCannotBeRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.subscription("detached", "orders-dead", nil)
		_, err := w.topics.DetachSubscription(t.Context(), &pubsubpb.DetachSubscriptionRequest{Subscription: subscriptionName("detached")})
		must(t, err)
		for _, tt := range []struct {
			change func(*gcppubsub.Options)
			want   error
		}{
			{func(o *gcppubsub.Options) {}, nil},
			{func(o *gcppubsub.Options) { o.Subscription = subscriptionName("billing-dead"); o.Project = "" }, nil},
			{func(o *gcppubsub.Options) { o.Project = "" }, dlqbridge.ErrInvalid},
			{func(o *gcppubsub.Options) { o.Client = nil }, dlqbridge.ErrInvalid},
			{func(o *gcppubsub.Options) { o.Subscription = "" }, dlqbridge.ErrInvalid},
			{func(o *gcppubsub.Options) { o.Subscription = topicName("orders-dead") }, dlqbridge.ErrInvalid},
			{func(o *gcppubsub.Options) { o.Subscription = "detached" }, dlqbridge.ErrInvalid},
			{func(o *gcppubsub.Options) { o.Subscription = "missing" }, dlqbridge.ErrNotFound},
			{func(o *gcppubsub.Options) { o.Project = "another" }, dlqbridge.ErrNotFound},
		} {
			o := w.options()
			o.Subscription = "billing-dead"
			tt.change(&o)
			d, err := gcppubsub.Open(t.Context(), o)
			meanings(t, fmt.Sprintf("%s in %q", o.Subscription, o.Project), []error{err}, tt.want)
			if err == nil && d.Place() != subscriptionName("billing-dead") {
				t.Errorf("place %s", d.Place())
			}
		}
	})
}

// A stop in the middle of a wait is the caller's own error.
func TestReceiveEndsWithItsContext(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := w.open("billing-dead").Receive(ctx, 10, 20*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
