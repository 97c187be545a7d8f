package gcppubsub_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

// inHand receives n letters of an exactly-once subscription.
func inHand(t *testing.T, w *world, n int) (*gcppubsub.DeadLetters, []dlqbridge.Letter) {
	t.Helper()
	w.subscription("exact", "orders-dead", func(s *pubsubpb.Subscription) {
		s.EnableExactlyOnceDelivery = true
		s.AckDeadlineSeconds = 60
	})
	for i := range n {
		w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: fmt.Append(nil, "letter ", i)})
	}
	d := w.open("exact")
	return d, receive(t, d, n)
}

// C57: an acknowledgement that failed for good is told, for that letter alone,
// and the letter comes again.
func TestC57AnAcknowledgementThatDidNotHappen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d, letters := inHand(t, w, 5)
		w.fault(localstack.Fault{Operation: "Acknowledge", Contains: string(letters[2].Payload.Body), Do: localstack.DoFailAck, Times: -1})
		errs := d.Delete(t.Context(), letters)
		meanings(t, "delete", errs, nil, nil, gcppubsub.ErrReceiveOver, nil, nil)
		if !errors.Is(errs[2], dlqbridge.ErrNotFound) {
			t.Errorf("got %v: no meaning that intake knows", errs[2])
		}
		w.ClearFaults()
		w.Clock().Advance(61 * time.Second)
		again := receive(t, d, 1)
		if again[0].MessageID != letters[2].MessageID {
			t.Errorf("message %s came again, want %s", again[0].MessageID, letters[2].MessageID)
		}
		meanings(t, "second delivery", d.Delete(t.Context(), again), nil)
	})
}

// C57: what failed for now is tried again; what the answer does not mention is
// not taken for done.
func TestC57ATransientFailureIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d, letters := inHand(t, w, 3)
		w.fault(localstack.Fault{
			Operation: "Acknowledge", Contains: string(letters[1].Payload.Body), Do: localstack.DoFailAck,
			Code: "TRANSIENT_FAILURE_ACK_TIMEOUT", Times: 3,
		})
		meanings(t, "delete", d.Delete(t.Context(), letters), nil, nil, nil)
		w.Clock().Advance(2 * time.Minute)
		if left := w.arrived("exact"); len(left) != 0 {
			t.Errorf("came again: %q", left)
		}
	})
}

// C57: a transient failure without end is not tried for ever, and no other
// letter waits for it.
func TestC57TriesAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d, letters := inHand(t, w, 3)
		w.fault(localstack.Fault{
			Operation: "Acknowledge", Contains: string(letters[1].Payload.Body), Do: localstack.DoFailAck,
			Code: "TRANSIENT_FAILURE_ACK_TIMEOUT", Times: -1,
		})
		meanings(t, "delete", d.Delete(t.Context(), letters), nil, dlqbridge.ErrUnavailable, nil)
		// One more confirms at once what the first answer left out.
		if n := len(w.requests("Acknowledge")); n != gcppubsub.DefaultTries+1 {
			t.Errorf("%d requests, want %d", n, gcppubsub.DefaultTries+1)
		}
	})
}

// C52: one lease that is over aborts nothing.
func TestC57ALeaseThatIsOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d, letters := inHand(t, w, 2)
		w.Clock().Advance(61 * time.Second)
		fresh := receive(t, d, 2)
		mixed := []dlqbridge.Letter{letters[0], fresh[0], letters[1], fresh[1]}
		meanings(t, "hide", d.Hide(t.Context(), mixed, time.Minute), gcppubsub.ErrReceiveOver, nil, gcppubsub.ErrReceiveOver, nil)
		meanings(t, "delete", d.Delete(t.Context(), mixed), gcppubsub.ErrReceiveOver, nil, gcppubsub.ErrReceiveOver, nil)
	})
}

// A request that is refused whole for one malformed id is made for the others
// anyway, and in few requests.
func TestOneMalformedReceipt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 10 {
			w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: fmt.Append(nil, i)})
		}
		d := w.open("billing-dead")
		letters := receive(t, d, 10)
		want := make([]error, 10)
		letters[3].Receipt, want[3] = "not a receipt", gcppubsub.ErrReceiveOver
		letters[8].Receipt, want[8] = "", dlqbridge.ErrInvalid
		w.ForgetRequests()
		meanings(t, "delete", d.Delete(t.Context(), letters), want...)
		if n := len(w.requests("Acknowledge")); n > 8 {
			t.Errorf("%d requests", n)
		}
	})
}

// Hide sets whole seconds, rounded up, at most 600; nothing gives back at once.
func TestHideSeconds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.publish("orders-dead", &pubsubpb.PubsubMessage{Data: []byte("x")})
		d := w.open("billing-dead")
		letters := receive(t, d, 1)
		for _, tt := range []struct {
			wanted time.Duration
			want   any
		}{
			{time.Nanosecond, 1.0},
			{1500 * time.Millisecond, 2.0},
			{45 * time.Second, 45.0},
			{gcppubsub.MaxHide, 600.0},
			{12 * time.Hour, 600.0},
			{0, nil},
			{-time.Second, nil},
		} {
			w.ForgetRequests()
			must(t, d.Hide(t.Context(), letters, tt.wanted)...)
			if got := w.requests("ModifyAckDeadline")[0]["ackDeadlineSeconds"]; got != tt.want {
				t.Errorf("hide for %s: got %v seconds, want %v", tt.wanted, got, tt.want)
			}
		}
		receive(t, d, 1)
	})
}

// More letters than a request takes are settled in several, each answered.
func TestSettleInManyRequests(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := w.open("billing-dead")
		letters := make([]dlqbridge.Letter, 2500)
		for i := range letters {
			letters[i] = dlqbridge.Letter{MessageID: strconv.Itoa(i), Receipt: fmt.Sprintf("%0300d", i)}
		}
		w.fault(localstack.Fault{Operation: "Acknowledge", Do: localstack.DoFailAck, Times: -1}) // none is one of the cloud's own
		must(t, d.Delete(t.Context(), letters)...)
		for _, r := range w.requests("Acknowledge") {
			if n := len(r["ackIds"].([]any)); n > 1000 {
				t.Errorf("%d ids in one request", n)
			}
		}
		if n := len(w.requests("Acknowledge")); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}
