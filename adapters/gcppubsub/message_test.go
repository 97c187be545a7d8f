package gcppubsub

import (
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/dlqbridge/dlqbridge"
)

func TestSourceIsMadeOfBothAttributesOrUnknown(t *testing.T) {
	for _, tt := range []struct{ name, project, want string }{
		{"billing", "acme", "projects/acme/subscriptions/billing"},
		{"billing", "example.com:acme", "projects/example.com:acme/subscriptions/billing"},
		{"billing", "", ""},
		{"", "acme", ""},
		{"projects/evil/subscriptions/billing", "acme", ""},
		{"a/b", "acme", ""},
		{"billing", "acme/subscriptions/x", ""},
		{"bi lling", "acme", ""},
		{"billing\n", "acme", ""},
		{"googling", "acme", ""},
		{"b", "acme", ""},
	} {
		if got := sourceOf(map[string]string{sourceSubscription: tt.name, sourceProject: tt.project}); got != tt.want {
			t.Errorf("%q of %q: got %q, want %q", tt.name, tt.project, got, tt.want)
		}
	}
}

// The service writes an offset and not Z. What is no such time is unknown, and
// the letter's own publish time stands.
func TestTimeOfTheFirstPublishing(t *testing.T) {
	published := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	first := time.Date(2022, 8, 12, 15, 56, 29, 732_000_000, time.UTC)
	for text, want := range map[string]time.Time{
		"2022-08-12T15:56:29.732+00:00": first,
		"2022-08-12T15:56:29.732Z":      first,
		"2022-08-12T17:56:29.732+02:00": first,
		"":                              published,
		"yesterday":                     published,
		"2022-08-12 15:56:29":           published,
		"2022-13-12T15:56:29+00:00":     published,
		"0000-01-01T00:00:00+00:00":     published,
		"2022-08-12T15:56:29,732+00:00": published,
	} {
		l := letterOf(&pubsubpb.ReceivedMessage{Message: &pubsubpb.PubsubMessage{
			PublishTime: timestamppb.New(published), Attributes: map[string]string{sourcePublished: text},
		}}, "place", time.Hour)
		if !l.SentAt.Equal(want) || l.SentAt.Location() != time.UTC {
			t.Errorf("%q: got %v, want %v", text, l.SentAt, want)
		}
		if !l.LostAt.Equal(published.Add(time.Hour)) {
			t.Errorf("%q: lost %v: the retention counts from the forwarded message", text, l.LostAt)
		}
	}
}

// C58: a count that is absent or no count is unknown, never 0.
func TestC58CountsThatAreNone(t *testing.T) {
	for text, want := range map[string]int{"5": 5, "": 0, "0": 0, "-3": 0, "many": 0, "5.0": 0, "99999999999999999999": 0} {
		got := deliveriesOf(map[string]string{sourceDeliveries: text})
		if (got == nil) != (want == 0) || got != nil && *got != want {
			t.Errorf("%q: got %v, want %d (0: unknown)", text, got, want)
		}
	}
}

// A message without anything in it is a letter still.
func TestEmptyMessageIsALetter(t *testing.T) {
	for _, m := range []*pubsubpb.ReceivedMessage{nil, {}, {Message: &pubsubpb.PubsubMessage{}}, {Message: &pubsubpb.PubsubMessage{PublishTime: &timestamppb.Timestamp{Nanos: -1}}}} {
		l := letterOf(m, "place", time.Hour)
		if l.Place != "place" || !l.SentAt.IsZero() || !l.LostAt.IsZero() || l.Deliveries != nil {
			t.Errorf("got %+v", l)
		}
	}
}

// What a user published comes back the same through a dead letter, whatever
// else the service and clients have put on it, and passes Check.
func FuzzLetterGoesBackUnchanged(f *testing.F) {
	f.Add([]byte("body"), "key", "name", "value", "goods", "1", int32(0))
	f.Add([]byte{0xff, 0xfe}, "", "agent.ctx", "{}", "googclient_x", "5", int32(3))
	f.Add([]byte(nil), "k", "CloudPubSubDeadLetterSourceX", "v", "", "", int32(-1))
	f.Fuzz(func(t *testing.T, body []byte, key, name, value, name2, value2 string, attempt int32) {
		user := map[string]string{"always": "there"}
		for n, v := range map[string]string{name: value, name2: value2} {
			if !isService(n) && n != dlqbridge.MarkToName {
				user[n] = v
			}
		}
		original := &pubsubpb.PubsubMessage{Data: body, OrderingKey: key, Attributes: user}
		if _, err := proto.Marshal(original); err != nil {
			return // it cannot have been published
		}
		forwarded := proto.CloneOf(original)
		maps.Copy(forwarded.Attributes, map[string]string{
			sourceSubscription: "billing", sourceProject: "acme", sourceDeliveries: "5", "googclient_deliveryattempt": "5",
		})
		forwarded.MessageId, forwarded.PublishTime = "17", timestamppb.New(time.Unix(1_800_000_000, 0))
		l := letterOf(&pubsubpb.ReceivedMessage{AckId: "a", Message: forwarded, DeliveryAttempt: attempt}, "place", time.Hour)
		if l.Source != "projects/acme/subscriptions/billing" || *l.Deliveries != 5 || l.MessageID != "17" {
			t.Errorf("letter %+v", l)
		}
		o := dlqbridge.Outgoing{Payload: l.Payload}
		if back := messageOf(o, ""); !proto.Equal(back, original) {
			t.Errorf("got %v, want %v", back, original)
		}
		fits := len(body) < 1<<20 && len(key) <= MaxKeyBytes
		for n, v := range user {
			fits = fits && n != "" && len(n) <= MaxNameBytes && len(v) <= MaxValueBytes
		}
		if err := Check(o, dlqbridge.DestinationFacts{}); (err == nil) != fits {
			t.Errorf("check says %v, fits is %v", err, fits)
		}
	})
}

// Check never quotes a value, only names and sizes (I12).
func TestCheckQuotesNoValue(t *testing.T) {
	secret := "hunter2" + strings.Repeat("x", MaxValueBytes)
	for _, o := range []dlqbridge.Outgoing{
		{Payload: dlqbridge.Payload{Attributes: []dlqbridge.Attribute{{Name: "a", Type: "String", Value: []byte(secret)}}}},
		{Payload: dlqbridge.Payload{Attributes: []dlqbridge.Attribute{{Name: "a", Type: "String", Value: []byte("hunter2\xff")}}}},
		{Payload: dlqbridge.Payload{Body: []byte("x"), GroupKey: secret}},
		{Payload: dlqbridge.Payload{Body: []byte(secret + strings.Repeat("x", MaxMessageBytes))}},
	} {
		err := Check(o, dlqbridge.DestinationFacts{URN: "t"})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !utf8.ValidString(err.Error()) {
			t.Errorf("got %.300v", err)
		}
	}
}
