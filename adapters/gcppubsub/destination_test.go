package gcppubsub_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
)

// mark is our mark as redrive writes it.
const mark = `{"rec":"r_aaaaaaaaaaaaaaaaaaaaaaaaaa","job":"j_1","n":1,"act":"retry"}`

func marked(body string, attributes ...string) dlqbridge.Outgoing {
	return text(body, "", append(attributes, dlqbridge.MarkName, mark)...)
}

// C45: everybody who would get a copy is named before anything is sent.
func TestC45ReceiversAreNamed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("nobody")
		w.subscription("mail", "orders", nil)
		w.subscription("detached", "orders", nil)
		_, err := w.topics.DetachSubscription(t.Context(), &pubsubpb.DetachSubscriptionRequest{Subscription: subscriptionName("detached")})
		must(t, err)
		for topic, want := range map[string][]string{
			"orders":      {subscriptionName("billing"), subscriptionName("mail")},
			"orders-dead": {subscriptionName("billing-dead")},
			"nobody":      {},
		} {
			facts, err := w.destination(topic, "").Facts(t.Context())
			must(t, err)
			if facts.Receivers == nil || !slices.Equal(facts.Receivers, want) {
				t.Errorf("%s: receivers %q, want %q", topic, facts.Receivers, want)
			}
			if facts.URN != topicName(topic) || facts.FIFO {
				t.Errorf("%s: %+v", topic, facts)
			}
		}
	})
}

func TestC45ManyReceiversAreAllListed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 250 {
			w.subscription(fmt.Sprintf("s-%03d", i), "orders", nil)
		}
		facts, err := w.destination("orders", "").Facts(t.Context())
		must(t, err)
		if n := len(facts.Receivers); n != 251 {
			t.Errorf("%d receivers, want 251", n)
		}
	})
}

// C45: with a redrive topic, and with filters on the mark, only the consumer
// that failed gets a copy.
func TestC45TheTwoWaysBackToOneConsumer(t *testing.T) {
	filter := func(name string) func(*pubsubpb.Subscription) {
		return func(s *pubsubpb.Subscription) {
			s.Filter = fmt.Sprintf(`NOT attributes:"agent.redrive.to" OR attributes."agent.redrive.to" = "%s"`, name)
		}
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("invoices")
		w.subscription("ledger", "invoices", filter("ledger"))
		w.subscription("mail", "invoices", filter("mail"))
		w.publish("invoices", &pubsubpb.PubsubMessage{Data: []byte("first")})
		meanings(t, "send", send(t.Context(), w.destination("invoices", "ledger"), marked("again")), nil)
		if got := w.arrived("ledger"); !slices.Equal(got, []string{"first", "again"}) {
			t.Errorf("ledger got %q", got)
		}
		if got := w.arrived("mail"); !slices.Equal(got, []string{"first"}) {
			t.Errorf("mail got %q", got)
		}

		w.topic("invoices-again")
		w.subscription("ledger-again", "invoices-again", nil)
		meanings(t, "send", send(t.Context(), w.destination("invoices-again", "ledger"), marked("once more")), nil)
		for subscription, want := range map[string]int{"ledger-again": 1, "ledger": 0, "mail": 0} {
			if got := w.arrived(subscription); len(got) != want {
				t.Errorf("%s got %q", subscription, got)
			}
		}
	})
}

// C45: where several would get a message that has no place for the name of the
// one it is meant for, it is not sent; where there is only one, it is.
func TestC45NoPlaceForTheName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		full := text("full", "")
		for i := range 100 {
			full.Payload = full.Payload.With(dlqbridge.Attribute{Name: fmt.Sprintf("a%03d", i), Type: "String"})
		}
		d := w.destination("orders", "billing")
		meanings(t, "one receiver", send(t.Context(), d, full), nil)
		w.subscription("mail", "orders", nil)
		_, err := d.Facts(t.Context())
		must(t, err)
		meanings(t, "two receivers", send(t.Context(), d, full, marked("ok")), dlqbridge.ErrInvalid, nil)
		if got := w.arrived("billing"); !slices.Equal(got, []string{"full", "ok"}) {
			t.Errorf("arrived %q", got)
		}
	})
}

// C48: what is within the limits in bytes goes, to the last byte; what is over
// them is refused before the request and fails nobody else.
func TestC48LimitsAreBytes(t *testing.T) {
	with := func(n int) (attributes []string) {
		for i := range n {
			attributes = append(attributes, fmt.Sprintf("a%03d", i), "v")
		}
		return attributes
	}
	inWorld(t, func(t *testing.T, w *world) {
		batch := []dlqbridge.Outgoing{
			text("1", "", "x-last-error", strings.Repeat("x", 1024)),
			text("2", "", "x-last-error", strings.Repeat("é", 512)),
			text("3", "", "x-last-error", strings.Repeat("é", 600)),
			text("4", "", "x-last-error", strings.Repeat("x", 5<<10)),
			text("5", "", strings.Repeat("n", 256), "v"),
			text("6", "", strings.Repeat("é", 129), "v"),
			marked("7", with(99)...),
			text("8", "", with(100)...),
			text("9", "", with(101)...),
			text("10", strings.Repeat("k", 1024)),
			text("11", strings.Repeat("k", 1025)),
			text("12", "", "", "no name"),
			text("13", "", "bad", "\xc3"),
			text("14", "\xc3"),
			text("15", "", "empty", ""),
		}
		refused := map[int]bool{3: true, 4: true, 6: true, 9: true, 11: true, 12: true, 13: true, 14: true}
		want := make([]error, len(batch))
		var arrive []string
		for i := range batch {
			if refused[i+1] {
				want[i] = dlqbridge.ErrInvalid
			} else {
				arrive = append(arrive, strconv.Itoa(i+1))
			}
		}
		meanings(t, "send", send(t.Context(), w.destination("orders", "billing"), batch...), want...)
		got := w.arrived("billing")
		slices.Sort(got)
		slices.Sort(arrive)
		if !slices.Equal(got, arrive) {
			t.Errorf("arrived %q, want %q", got, arrive)
		}
	})
}

// C49: what the service and client libraries added does not go back; what is
// the user's does, also where it looks alike.
func TestC49ServiceAttributesStayBehind(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		user := map[string]string{"goods": "1", "cloudpubsub": "2", "x-goog": "3"}
		w.publish("orders", &pubsubpb.PubsubMessage{Data: []byte("x"), Attributes: user})
		w.die("billing")
		l := receive(t, w.open("billing-dead"), 1)[0]
		equalMaps(t, "letter", attributesOf(l.Payload), user)

		// A payload that was stored with them, by whatever way.
		o := dlqbridge.Outgoing{Payload: l.Payload}
		for name, value := range l.System {
			if strings.HasPrefix(name, "CloudPubSub") {
				o.Payload = o.Payload.With(dlqbridge.Attribute{Name: name, Type: "String", Value: []byte(value)})
			}
		}
		for _, name := range []string{"googclient_deliveryattempt", "googclient_traceparent", dlqbridge.MarkToName} {
			o.Payload = o.Payload.With(dlqbridge.Attribute{Name: name, Type: "String", Value: []byte("5")})
		}
		meanings(t, "send", send(t.Context(), w.destination("orders", ""), o), nil)
		arrived := w.consume("billing")
		if len(arrived) != 1 {
			t.Fatalf("%d arrived", len(arrived))
		}
		equalMaps(t, "arrived", attributesOf(arrived[0].Payload), user)
	})
}

// The name of the consumer goes along, once, whatever an earlier redrive left;
// the letter that comes back hashes like the one that was sent.
func TestTheConsumersNameGoesAlong(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.publish("orders", &pubsubpb.PubsubMessage{Data: []byte("x"), Attributes: map[string]string{"a": "1"}})
		d := w.destination("orders", "billing")
		var hashes []string
		for range 3 {
			w.die("billing")
			l := receive(t, w.open("billing-dead"), 1)[0]
			must(t, w.open("billing-dead").Delete(t.Context(), []dlqbridge.Letter{l})...)
			hashes = append(hashes, l.Payload.Hash())
			p := l.Payload.With(dlqbridge.Attribute{Name: dlqbridge.MarkName, Type: "String", Value: []byte(mark)})
			meanings(t, "send", send(t.Context(), d, dlqbridge.Outgoing{Payload: p}), nil)
		}
		if hashes[0] != hashes[1] || hashes[1] != hashes[2] {
			t.Errorf("hashes %q", hashes)
		}
		equalMaps(t, "arrived", attributesOf(w.consume("billing")[0].Payload),
			map[string]string{"a": "1", dlqbridge.MarkName: mark, dlqbridge.MarkToName: "billing"})
	})
}

// The redelivery settings are those of the subscription that gets the message.
func TestFactsAboutRedelivery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("again")
		w.subscription("slow", "again", func(s *pubsubpb.Subscription) {
			s.AckDeadlineSeconds = 60
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("orders-dead")}
			s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(10 * time.Second)}
		})
		facts, err := w.destination("again", "billing").Facts(t.Context())
		must(t, err)
		if facts.MaxReceives != 5 || facts.Visibility != 90*time.Second || facts.DeadLetterPlace != topicName("orders-dead") {
			t.Errorf("alone: %+v", facts)
		}
		w.subscription("other", "again", nil)
		if facts, err = w.destination("again", "billing").Facts(t.Context()); err != nil || facts.Visibility != time.Minute || facts.MaxReceives != 5 {
			t.Errorf("of two, the consumer's: %+v (%v)", facts, err)
		}
		if facts, err = w.destination("again", "missing").Facts(t.Context()); err != nil || facts.Visibility != 0 {
			t.Errorf("gone: %+v (%v)", facts, err)
		}
	})
}

func TestOpenDestinationErrors(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			topic, consumer string
			want            error
		}{
			{"orders", "", nil},
			{topicName("orders"), subscriptionName("billing"), nil},
			{"", "", dlqbridge.ErrInvalid},
			{"missing", "", dlqbridge.ErrNotFound},
			{subscriptionName("billing"), "", dlqbridge.ErrInvalid},
			{"orders", topicName("orders"), dlqbridge.ErrInvalid},
		} {
			o := w.options()
			o.Topic, o.Subscription = tt.topic, tt.consumer
			_, err := gcppubsub.OpenDestination(t.Context(), o)
			meanings(t, tt.topic+" for "+tt.consumer, []error{err}, tt.want)
		}
	})
}
