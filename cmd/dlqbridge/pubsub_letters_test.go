package main_test

import (
	"maps"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/dlqbridge/dlqbridge/localstack"
)

// forwarded are the attributes that the service adds to what a subscription
// gave up.
func forwarded(subscription string) map[string]string {
	return map[string]string{
		"CloudPubSubDeadLetterSourceDeliveryCount":       "5",
		"CloudPubSubDeadLetterSourceSubscription":        subscription,
		"CloudPubSubDeadLetterSourceSubscriptionProject": localstack.Project,
		"CloudPubSubDeadLetterSourceTopicPublishTime":    "2026-11-30T11:59:59.732+00:00",
	}
}

// A message that the service forwards twice comes as two new messages. Without
// a task id they are one record with two arrivals, neither lost nor sent twice.
func TestTwoForwardsAreOneRecord(t *testing.T) {
	inGoogleBubble(t, onePubSub, func(g *google) { g.consumer("invoices") }, func(b *bench, g *google) {
		for range 2 {
			g.publish("invoices-dead", &pubsubpb.PubsubMessage{Data: []byte("no task id"), Attributes: forwarded("invoices")})
		}
		counts := document[intakeResult](b, 0, "intake", "--until-empty")
		if counts.Letters != 2 || counts.Records != 1 || counts.Arrivals != 2 {
			t.Fatalf("intake: %+v", counts)
		}
		list := document[listResult](b, 0, "records", "list")
		b.ok("triage", "classify", list.Records[0].ID, "--cause", "timeout", "--reason", "seen in the log")
		result := document[redriveResult](b, 0, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1", "--reason", "x")
		if got, _ := g.drain("invoices"); result.Sent != 1 || len(got) != 1 {
			t.Errorf("sent %d, excluded %+v, arrived %d", result.Sent, result.Excluded, len(got))
		}
	})
}

// Whoever may publish to the dead-letter topic can write the service's
// attributes too; that chooses no target.
func TestAForgedSourceIsNotSentBack(t *testing.T) {
	inGoogleBubble(t, onePubSub, func(g *google) { g.consumer("invoices"); g.consumer("payroll") }, func(b *bench, g *google) {
		m := failed(0)
		maps.Copy(m.Attributes, forwarded("payroll"))
		g.publish("invoices-dead", m)
		if counts := document[intakeResult](b, 0, "intake", "--until-empty"); counts.Records != 1 {
			t.Fatalf("intake: %+v", counts)
		}
		result := document[redriveResult](b, 3, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1", "--reason", "x")
		if result.Sent != 0 || len(result.Excluded) != 1 || result.Excluded[0].Reason != "source_mismatch" {
			t.Errorf("redrive: %+v", result)
		}
		for _, s := range []string{"invoices", "payroll"} {
			if got, _ := g.drain(s); len(got) != 0 {
				t.Errorf("%s got %d messages", s, len(got))
			}
		}
	})
}
