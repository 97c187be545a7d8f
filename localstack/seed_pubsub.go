package localstack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// seedTopic and seedSubscription are made in Project; their names are the
// short ones.
type seedTopic struct {
	line int
	name string
}

type seedSubscription struct {
	line   int
	config *pubsubpb.Subscription
}

func topicName(short string) string        { return "projects/" + Project + "/topics/" + short }
func subscriptionName(short string) string { return "projects/" + Project + "/subscriptions/" + short }

func (s *seed) readTopic(n *yaml.Node) error {
	t := seedTopic{line: n.Line}
	if err := text(&t.name)(n); err != nil {
		return errors.New("want the name of a topic")
	}
	s.topics = append(s.topics, t)
	return nil
}

func (s *seed) readSubscription(n *yaml.Node) error {
	var name, topic string
	sub := &pubsubpb.Subscription{}
	err := fields{
		"name":          text(&name),
		"topic":         text(&topic),
		"ack_deadline":  func(n *yaml.Node) error { return ackDeadline(n, sub) },
		"retention":     duration(&sub.MessageRetentionDuration),
		"retain_acked":  truth(&sub.RetainAckedMessages),
		"ordering":      truth(&sub.EnableMessageOrdering),
		"exactly_once":  truth(&sub.EnableExactlyOnceDelivery),
		"filter":        text(&sub.Filter),
		"never_expires": func(n *yaml.Node) error { return neverExpires(n, sub) },
		"retry": func(n *yaml.Node) error {
			sub.RetryPolicy = &pubsubpb.RetryPolicy{}
			return fields{
				"minimum_backoff": duration(&sub.RetryPolicy.MinimumBackoff),
				"maximum_backoff": duration(&sub.RetryPolicy.MaximumBackoff),
			}.read(n, "retry")
		},
		"dead_letter": func(n *yaml.Node) error { return deadLetter(n, sub) },
	}.read(n, "a subscription")
	if err != nil {
		return err
	}
	if name == "" || topic == "" {
		return errors.New("a subscription needs a name and a topic")
	}
	sub.Name, sub.Topic = subscriptionName(name), topicName(topic)
	s.subscriptions = append(s.subscriptions, seedSubscription{n.Line, sub})
	return nil
}

func deadLetter(n *yaml.Node, sub *pubsubpb.Subscription) error {
	var topic string
	var most int
	if err := (fields{"topic": text(&topic), "max_attempts": whole(&most)}).read(n, "dead_letter"); err != nil {
		return err
	}
	if topic == "" {
		return errors.New("dead_letter needs a topic")
	}
	sub.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName(topic), MaxDeliveryAttempts: int32(most)}
	return nil
}

func neverExpires(n *yaml.Node, sub *pubsubpb.Subscription) error {
	var never bool
	if err := truth(&never)(n); err != nil {
		return err
	}
	if never {
		sub.ExpirationPolicy = &pubsubpb.ExpirationPolicy{}
	}
	return nil
}

// duration reads a number of seconds or a duration such as 10m.
func duration(into **durationpb.Duration) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		found := map[string]string{}
		if err := seconds(found, "it")(n); err != nil {
			return err
		}
		d, err := time.ParseDuration(found["it"] + "s")
		if err != nil {
			return err
		}
		*into = durationpb.New(d)
		return nil
	}
}

func ackDeadline(n *yaml.Node, sub *pubsubpb.Subscription) error {
	var d *durationpb.Duration
	if err := duration(&d)(n); err != nil {
		return err
	}
	sub.AckDeadlineSeconds = int32(d.AsDuration() / time.Second)
	return nil
}

// plantPubSub makes topics, then the subscriptions that name them.
func (s *seed) plantPubSub(c *Cloud) error {
	ctx := context.Background()
	for _, t := range s.topics {
		if _, err := c.rpc.service.CreateTopic(ctx, &pubsubpb.Topic{Name: topicName(t.name)}); err != nil {
			return fmt.Errorf("seed: line %d: topic %s: %s", t.line, t.name, status.Convert(err).Message())
		}
	}
	for _, sub := range s.subscriptions {
		if _, err := c.rpc.service.CreateSubscription(ctx, sub.config); err != nil {
			return fmt.Errorf("seed: line %d: subscription %s: %s", sub.line, sub.config.GetName(), status.Convert(err).Message())
		}
	}
	return nil
}
