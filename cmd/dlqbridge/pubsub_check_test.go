package main_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const onePubSub = `
routes:
  - name: invoices
    pubsub: {project: ` + localstack.Project + `, dead_letter_subscription: invoices-dead, source_topic: invoices}
    effects: none
`

// inGoogleBubble is inBubble with Pub/Sub; prepare fills it before the
// program's first look.
func inGoogleBubble(t *testing.T, config string, prepare func(*google), do func(*bench, *google)) {
	t.Helper()
	inBubble(t, config, nil, func(b *bench) {
		b.pubsub = connect(b.cloud)
		g := newGoogle(b.t, b.cloud)
		prepare(g)
		do(b, g)
	})
}

func TestCheckFindsNothingWrongOnPubSub(t *testing.T) {
	inGoogleBubble(t, onePubSub, func(g *google) { g.consumer("invoices") }, func(b *bench, _ *google) {
		r := document[reportDoc](b, 0, "check")
		if !r.OK || r.Errors != 0 || r.Warnings != 0 {
			t.Errorf("got %+v", r)
		}
		if !r.finds("ok", "rights are unknown: this endpoint cannot be asked") {
			t.Errorf("rights that cannot be asked for are not said to be unknown: %+v", r)
		}
		if text := b.ok("check").stdout; strings.Count(text, "rights are unknown") != 1 || strings.Contains(text, "Unimplemented") {
			t.Errorf("it is said twice, or as the machine says it:\n%s", text)
		}
	})
}

func TestCheckFindsOnPubSub(t *testing.T) {
	dead := func(set func(*pubsubpb.Subscription)) func(*google) {
		return func(g *google) {
			g.topic("invoices")
			g.topic("invoices-dead")
			g.subscription("invoices-dead", "invoices-dead", set)
			g.subscription("invoices", "invoices", func(s *pubsubpb.Subscription) {
				s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("invoices-dead"), MaxDeliveryAttempts: 5}
			})
		}
	}
	source := func(set func(*pubsubpb.Subscription)) func(*google) {
		return func(g *google) {
			for _, topic := range []string{"invoices", "invoices-dead", "elsewhere"} {
				g.topic(topic)
			}
			g.subscription("invoices-dead", "invoices-dead", nil)
			g.subscription("invoices", "invoices", set)
		}
	}
	with := func(setting string) string {
		return strings.Replace(onePubSub, "source_topic: invoices", "source_topic: invoices, "+setting, 1)
	}
	for name, c := range map[string]struct {
		config      string
		make        func(*google)
		level, want string
	}{
		"no dead-letter subscription": {strings.Replace(onePubSub, "invoices-dead", "invoice-dead", 1), dead(nil), "error", "invoice-dead: the dead-letter subscription does not exist"},
		"no source topic":             {strings.Replace(onePubSub, "source_topic: invoices", "source_topic: invoice", 1), dead(nil), "error", "invoice: the source topic does not exist"},
		"no redrive topic":            {with("redrive_topic: again"), dead(nil), "error", "again: the redrive topic does not exist"},
		"it expires":                  {onePubSub, dead(func(s *pubsubpb.Subscription) { s.ExpirationPolicy = nil }), "warning", "deleted after 31d without use"},
		"it filters":                  {onePubSub, dead(func(s *pubsubpb.Subscription) { s.Filter = `attributes:x` }), "warning", "letters that do not match are lost"},
		"it keeps less than the source": {onePubSub, dead(func(s *pubsubpb.Subscription) {
			s.MessageRetentionDuration = durationpb.New(24 * time.Hour)
		}), "warning", "keeps a letter for 1d, less than the 7d"},
		"C45: others would get a copy": {onePubSub, func(g *google) { dead(nil)(g); g.subscription("mail", "invoices", nil) }, "warning", subscriptionName("mail")},
		"C45: they are fine with it":   {with("fan_out: accept"), func(g *google) { dead(nil)(g); g.subscription("mail", "invoices", nil) }, "ok", "fan_out is accepted"},
		"nobody would get it":          {with("redrive_topic: again"), func(g *google) { dead(nil)(g); g.topic("again") }, "error", "has no subscription: what is sent there is lost"},
		"the source has no policy":     {onePubSub, source(nil), "warning", "nothing that arrives is known to belong here"},
		"a named one has no policy":    {with("source_subscription: invoices"), source(nil), "warning", "it has no dead-letter policy"},
		"it dead-letters to where nobody reads": {with("source_subscription: invoices"), source(func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("elsewhere"), MaxDeliveryAttempts: 5}
		}), "error", "the dead-letter topic has no subscription"},
		"several consumers": {onePubSub, func(g *google) {
			dead(nil)(g)
			g.subscription("second", "invoices", func(s *pubsubpb.Subscription) {
				s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("invoices-dead"), MaxDeliveryAttempts: 5}
			})
		}, "warning", "several consumers dead-letter here"},
		"the window is too short": {onePubSub + "redrive: {observe_for: 20m}\n", func(g *google) {
			source(func(s *pubsubpb.Subscription) {
				s.AckDeadlineSeconds = 600
				s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName("invoices-dead"), MaxDeliveryAttempts: 5}
			})(g)
		}, "error", "observe_for 20m is shorter than"},
	} {
		t.Run(name, func(t *testing.T) {
			inGoogleBubble(t, c.config, c.make, func(b *bench, _ *google) {
				exit := 0
				if c.level == "error" {
					exit = 1
				}
				if r := document[reportDoc](b, exit, "check"); !r.finds(c.level, c.want) {
					t.Errorf("no %s with %q in\n%s", c.level, c.want, b.run("check").stdout)
				}
			})
		})
	}
}

// Each cloud's credentials are needed by its own routes alone.
func TestCredentialsOnlyWhereTheyAreNeeded(t *testing.T) {
	t.Run("queues alone need none of Google's", func(t *testing.T) {
		inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
			b.pubsub = func(context.Context) (*gcppubsub.Client, error) {
				return nil, errors.New("asked for Google credentials")
			}
			b.ok("check")
			b.ok("intake", "--until-empty")
			b.ok("redrive", "plan", "--cause", "timeout")
		})
	})
	t.Run("subscriptions alone need no queue", func(t *testing.T) {
		inGoogleBubble(t, onePubSub, func(g *google) { g.consumer("invoices") }, func(b *bench, g *google) {
			g.publish("invoices", failed(0))
			g.die("invoices")
			b.ok("check")
			b.ok("intake", "--until-empty")
			b.ok("redrive", "run", "--cause", "timeout", "--fix", "deploy:1", "--reason", "x")
			if calls := b.cloud.Requests("sqs", 0); len(calls) != 0 {
				t.Errorf("%d calls of SQS", len(calls))
			}
		})
	})
	t.Run("and who has none is told what to do", func(t *testing.T) {
		inBubble(t, onePubSub, nil, func(b *bench) {
			b.pubsub = func(context.Context) (*gcppubsub.Client, error) {
				return nil, errors.New("could not find default credentials")
			}
			if c := b.want(1, "intake", "--until-empty"); !strings.Contains(c.stderr, "route invoices") || !strings.Contains(c.stderr, "default credentials") {
				t.Errorf("got %s", c.stderr)
			}
		})
	})
}

// serve takes in from a queue and from a subscription at the same time.
func TestServeReadsBothBrokers(t *testing.T) {
	s := startService(t, bothBrokers, func(b *bench) {
		b.pubsub = connect(b.cloud)
		g := newGoogle(b.t, b.cloud)
		g.consumer("invoices")
		g.publish("invoices", failed(0), failed(1))
		g.die("invoices")
		b.send("orders-dlq", `{"order":1}`, map[string]any{"v": 1, "task": "t-1", "cause": "timeout"})
	})
	s.until("a record of each letter", func() bool {
		routes := map[string]int{}
		for _, r := range document[struct{ Records []struct{ Route string } }](s.bench, 0, "records", "list").Records {
			routes[r.Route]++
		}
		return routes["orders"] == 1 && routes["invoices"] == 2
	})
	s.until("readiness", func() bool { code, _ := s.get("/readyz"); return code == http.StatusOK })
}
