package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/dlqbridge/dlqbridge/localstack"
)

const bothBrokers = `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
routes:
  - name: orders
    sqs: {dead_letter_queue: orders-dlq, source_queue: orders}
    effects: none
  - name: invoices
    pubsub: {project: ` + localstack.Project + `, dead_letter_subscription: invoices-dead, source_topic: invoices}
    effects: none
`

// newMixedWorld also serves Pub/Sub and tells the binary where.
func newMixedWorld(t *testing.T, config string) (*world, *google) {
	t.Helper()
	w := newWorld(t, config)
	w.env = append(w.env, "PUBSUB_EMULATOR_HOST="+servePubSub(t, w.cloud))
	return w, newGoogle(t, w.cloud)
}

type intakeResult struct{ Letters, Records, Arrivals, Unstored int }

// The main job over both brokers, black-box: letters of either become records,
// one redrive by cause sends them home, each to its own, byte for byte.
func TestStoryBothBrokers(t *testing.T) {
	t.Parallel()
	const each = 140
	w, g := newMixedWorld(t, bothBrokers)
	w.queues("orders", false)
	g.consumer("invoices")
	wantOrders := w.send("orders", 0, each, false)
	var messages []*pubsubpb.PubsubMessage
	for i := range each {
		messages = append(messages, failed(i))
	}
	wantInvoices := g.publish("invoices", messages...)
	w.die("orders")
	g.die("invoices")

	w.run(0, "tables", "create")
	w.run(0, "check")
	if counts := runJSON[intakeResult](w, 0, "intake", "--until-empty"); counts.Letters != 2*each || counts.Records != 2*each || counts.Unstored != 0 {
		t.Fatalf("intake: %+v", counts)
	}
	plan := runJSON[struct {
		Selected int
		Jobs     []struct {
			Destination string
			Receivers   []string
		}
	}](w, 0, "redrive", "plan", "--cause", "timeout", "--fix", "deploy:1.4.2")
	if plan.Selected != 2*each || len(plan.Jobs) != 2 {
		t.Fatalf("plan: %+v", plan)
	}
	for _, j := range plan.Jobs {
		if j.Destination == topicName("invoices") && (len(j.Receivers) != 1 || j.Receivers[0] != subscriptionName("invoices")) {
			t.Errorf("the plan names %q as receivers", j.Receivers)
		}
	}
	result := runJSON[redriveResult](w, 0, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "the outage is over", "--rate", "500/s")
	if result.Sent != 2*each || len(result.Excluded) != 0 {
		t.Fatalf("redrive: %+v", result)
	}
	gotOrders, _ := w.drain("orders")
	diffSums(t, "orders", gotOrders, wantOrders)
	gotInvoices, marks := g.drain("invoices")
	diffSums(t, "invoices", gotInvoices, wantInvoices)
	if marks[""] != each/7 {
		t.Errorf("%d messages without mark, want those with a hundred attributes only (%d)", marks[""], each/7)
	}
	for mark := range marks {
		if mark != "" && !json.Valid([]byte(mark)) {
			t.Errorf("the mark is %q", mark)
		}
	}
}

// What went home and fails again is the same record, although a dead letter is
// always a new message here.
func TestPubSubRecurrence(t *testing.T) {
	t.Parallel()
	w, g := newMixedWorld(t, bothBrokers)
	w.queues("orders", false)
	g.consumer("invoices")
	g.publish("invoices", failed(0), failed(1), failed(2))
	g.die("invoices")
	w.run(0, "tables", "create")
	w.run(0, "intake", "--until-empty")
	w.run(0, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "x")
	g.die("invoices")
	if counts := runJSON[intakeResult](w, 0, "intake", "--until-empty"); counts.Letters != 3 || counts.Records != 0 || counts.Arrivals != 3 {
		t.Fatalf("intake: %+v", counts)
	}
	for _, r := range runJSON[listResult](w, 0, "records", "list").Records {
		d := runJSON[record](w, 0, "records", "show", r.ID)
		if len(d.Redrives) != 1 || d.Redrives[0].Outcome != "recurred" {
			t.Errorf("%s: %+v", r.TaskID, d.Redrives)
		}
	}
}

// twoConsumers makes a topic with the failed consumer and a second one.
func twoConsumers(g *google) {
	g.consumer("invoices")
	g.subscription("accounting", "invoices", nil)
	g.publish("invoices", failed(0), failed(1), failed(5))
	g.drain("accounting") // it did its part
	g.die("invoices")
}

// C45: a topic with two subscriptions gets nothing, and the second is named.
func TestC45TwoSubscriptionsGetNothing(t *testing.T) {
	t.Parallel()
	w, g := newMixedWorld(t, bothBrokers)
	w.queues("orders", false)
	twoConsumers(g)
	w.run(0, "tables", "create")
	w.run(0, "intake", "--until-empty")
	if out := string(w.run(0, "check")); !strings.Contains(out, "nothing can be sent back") || !strings.Contains(out, subscriptionName("accounting")) {
		t.Errorf("check says\n%s", out)
	}
	var result struct {
		Sent     int
		Excluded []struct{ Reason, Detail string }
	}
	out := w.run(3, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "x", "-o", "json")
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatal(err)
	}
	if result.Sent != 0 || len(result.Excluded) != 3 {
		t.Fatalf("redrive: %s", out)
	}
	for _, x := range result.Excluded {
		if x.Reason != "fan_out" || !strings.Contains(x.Detail, subscriptionName("accounting")) || strings.Contains(x.Detail, subscriptionName("invoices")+" ") {
			t.Errorf("excluded with %+v", x)
		}
	}
	for _, s := range []string{"accounting", "invoices"} {
		if got, _ := g.drain(s); len(got) != 0 {
			t.Errorf("%s got %d messages", s, len(got))
		}
	}
}

// C45: with a redrive topic only the failed consumer gets the copies; with the
// fan-out accepted and filters on the mark, too.
func TestC45OnlyTheFailedConsumerGetsIt(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		setting string
		prepare func(*google)
		reads   string
	}{
		"a redrive topic": {"redrive_topic: invoices-again", func(g *google) {
			twoConsumers(g)
			g.topic("invoices-again")
			g.subscription("invoices-again", "invoices-again", nil)
		}, "invoices-again"},
		"filters": {"fan_out: accept", func(g *google) {
			g.consumer("invoices")
			g.subscription("accounting", "invoices", func(s *pubsubpb.Subscription) {
				s.Filter = `NOT attributes:"agent.redrive.to" OR attributes."agent.redrive.to" = "accounting"`
			})
			g.publish("invoices", failed(0), failed(1), failed(5))
			g.drain("accounting")
			g.die("invoices")
		}, "invoices"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, g := newMixedWorld(t, strings.Replace(bothBrokers, "source_topic: invoices", "source_topic: invoices, "+how.setting, 1))
			w.queues("orders", false)
			how.prepare(g)
			w.run(0, "tables", "create")
			w.run(0, "intake", "--until-empty")
			result := runJSON[redriveResult](w, 0, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "x")
			if result.Sent != 3 {
				t.Fatalf("redrive: %+v", result)
			}
			if got, _ := g.drain("accounting"); len(got) != 0 {
				t.Errorf("accounting got %d messages", len(got))
			}
			if got, _ := g.drain(how.reads); len(got) != 3 {
				t.Errorf("%s got %d messages, want 3", how.reads, len(got))
			}
			if got, _ := g.drain("invoices"); len(got) != 0 {
				t.Errorf("invoices got %d messages more", len(got))
			}
		})
	}
}

// What Pub/Sub would refuse is refused before anything is sent, and fails
// nobody else (C08): a message that is too large with our marks.
func TestC08TooLargeForTheWayBack(t *testing.T) {
	t.Parallel()
	w, g := newMixedWorld(t, bothBrokers)
	w.queues("orders", false)
	g.consumer("invoices")
	large := failed(0)
	large.Data = make([]byte, 10_000_000-150)
	g.publish("invoices", large)
	g.publish("invoices", failed(7))
	g.die("invoices")
	w.run(0, "tables", "create")
	// On a busy machine ten megabytes may not arrive within one short pull; they
	// stay in the subscription and come with a later one.
	for taken, tries := 0, 0; taken < 2; tries++ {
		taken += runJSON[intakeResult](w, 0, "intake", "--until-empty").Records
		if tries == 5 {
			t.Fatalf("%d records after %d intakes", taken, tries)
		}
	}
	result := runJSON[redriveResult](w, 3, "redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "x")
	if result.Sent != 1 || len(result.Excluded) != 1 || result.Excluded[0].Reason != "too_large" {
		t.Errorf("redrive: %+v", result)
	}
}

// What is missing is named, with what would be right.
func TestPubSubThatIsNotThere(t *testing.T) {
	t.Parallel()
	w, g := newMixedWorld(t, strings.Replace(bothBrokers, "project: "+localstack.Project, "project: another", 1))
	w.queues("orders", false)
	g.consumer("invoices")
	w.run(0, "tables", "create")
	if _, code, stderr := w.try("intake", "--until-empty"); code != 1 || !strings.Contains(stderr, "projects/another/subscriptions/invoices-dead") || !strings.Contains(stderr, "not found") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if out := string(w.run(1, "check")); !strings.Contains(out, "the dead-letter subscription does not exist") || !strings.Contains(out, "the source topic does not exist") {
		t.Errorf("check says\n%s", out)
	}
}
