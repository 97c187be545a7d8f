package check

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

// pubsub looks at a route's subscriptions and topics.
func (c *routeCheck) pubsub(ctx context.Context, p config.PubSub) {
	o, err := c.b.PubSubOptions(ctx, p)
	if err != nil {
		c.say(LevelError, "Pub/Sub", googleHint(err), "%v", err)
		return
	}
	dead, deadOK := c.subscription(ctx, o, p.DeadLetterSubscription, "dead-letter subscription")
	if deadOK {
		c.deadSubscription(ctx, o, dead)
	}
	source, sourceOK := c.topic(ctx, o, p.SourceTopic, "source topic")
	target := source
	if p.RedriveTopic != "" {
		target, sourceOK = c.topic(ctx, o, p.RedriveTopic, "redrive topic")
	}
	if sourceOK {
		c.target(ctx, p, target)
	}
	if deadOK {
		c.consumers(ctx, o, p, dead)
		if c.r.ResumeTo != "" {
			c.resumeTopic(ctx, o, p, dead.Topic)
		}
	}
	if c.r.CompensateTo != "" {
		c.compensationTopic(ctx, o, p)
	}
	if name := c.r.Completions; name != "" {
		if s, ok := c.subscription(ctx, o, name, "subscription of completions"); ok && s.DeadLetterErr == nil && s.DeadLetterTopic == "" {
			c.say(LevelWarning, name, "give it a dead-letter policy", "it has no dead-letter policy: a message that is not believed comes again until it expires, and is then gone")
		}
	}
}

func (c *routeCheck) subscription(ctx context.Context, o gcppubsub.Options, name, what string) (gcppubsub.SubscriptionFacts, bool) {
	o.Subscription = name
	facts, err := gcppubsub.InspectSubscription(ctx, o)
	c.inspected(name, what, err)
	return facts, err == nil
}

func (c *routeCheck) topic(ctx context.Context, o gcppubsub.Options, name, what string) (gcppubsub.TopicFacts, bool) {
	o.Topic = name
	facts, err := gcppubsub.InspectTopic(ctx, o)
	c.inspected(name, what, err)
	return facts, err == nil
}

func (c *routeCheck) inspected(name, what string, err error) {
	switch {
	case errors.Is(err, dlqbridge.ErrNotFound):
		c.say(LevelError, name, "create it, or name the right one and its project", "the %s does not exist", what)
	case err != nil:
		c.say(LevelError, name, googleHint(err), "%v", err)
	}
}

func googleHint(err error) string {
	switch {
	case errors.Is(err, dlqbridge.ErrCredentials):
		return "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
	case errors.Is(err, dlqbridge.ErrDenied):
		return "give the caller the right that is named; roles/pubsub.viewer lets it look"
	case errors.Is(err, dlqbridge.ErrUnavailable), errors.Is(err, dlqbridge.ErrUnclear):
		return "is Pub/Sub (PUBSUB_EMULATOR_HOST) reachable from here?"
	}
	return ""
}

// rights says what the caller may not do; where the endpoint does not answer
// that, it is unknown and no fault.
func (c *routeCheck) rights(name string, missing []string, err error, without string, level Level) {
	switch {
	case status.Code(err) == codes.Unimplemented:
		c.out = append(c.out, Finding{LevelOK, "", "Pub/Sub", "the caller's rights are unknown: this endpoint cannot be asked for them, as an emulator cannot", ""})
	case err != nil:
		c.say(LevelOK, name, "", "the caller's rights are unknown: %v", err)
	case len(missing) > 0:
		c.say(level, name, "give the caller "+strings.Join(missing, ", "), "%s", without)
	}
}

// agent warns where the service's own agent has no right of its own here: it
// may have it on the project, which cannot be seen from here.
func (c *routeCheck) agent(name string, has gcppubsub.AgentRight, role string) {
	if has == gcppubsub.AgentNotHere {
		c.say(LevelWarning, name, "give service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com the role "+role+" here, unless it has it on the project",
			"the service's own agent has no right here, without which a task that keeps failing is redelivered for ever and never becomes a letter")
	}
}

func (c *routeCheck) deadSubscription(ctx context.Context, o gcppubsub.Options, s gcppubsub.SubscriptionFacts) {
	name := c.r.PubSub.DeadLetterSubscription
	switch {
	case s.Detached:
		c.say(LevelError, name, "create a new subscription of the dead-letter topic", "it is detached from its topic and holds nothing")
	case s.Delivery != "pull":
		c.say(LevelError, name, "name a pull subscription of the dead-letter topic", "it delivers by %s and cannot be read from", s.Delivery)
	case s.Topic == "":
		c.say(LevelWarning, name, "create a dead-letter topic and a subscription anew", "its topic was deleted: no letter will come any more")
	}
	if s.DeadLetterTopic != "" {
		c.say(LevelWarning, name, "take the dead-letter policy off the dead-letter subscription",
			"it has a dead-letter policy itself: a letter that is delivered %d times without being stored moves on to %s", s.MaxAttempts, s.DeadLetterTopic)
	}
	if s.Expires > 0 {
		c.say(LevelWarning, name, "set its expiration policy to never", "it is deleted after %s without use, with all the letters in it", config.Duration(s.Expires))
	}
	if s.Filter != "" {
		c.say(LevelWarning, name, "create a subscription without a filter", "it has a filter: letters that do not match are lost")
	}
	if s.Transforms {
		c.say(LevelWarning, name, "let it hand on what the producer sent", "it changes messages on their way: what goes back is not what was published")
	}
	c.rights(name, s.MissingRights, s.RightsErr, "the caller may not read letters", LevelError)
	if s.Topic == "" {
		return
	}
	o.Topic = s.Topic
	if t, err := gcppubsub.InspectTopic(ctx, o); err == nil {
		c.agent(s.Topic, t.Agent, "roles/pubsub.publisher")
	} else {
		c.say(LevelOK, s.Topic, "", "the dead-letter topic cannot be looked at, so whether the service may publish to it is unknown: %v", err)
	}
}

// target looks at the topic that work goes back to.
func (c *routeCheck) target(ctx context.Context, p config.PubSub, t gcppubsub.TopicFacts) {
	name := p.Destination()
	all := strings.Join(t.Receivers, ", ")
	switch {
	case len(t.Receivers) == 0:
		c.say(LevelError, name, "create the consumer's subscription", "it has no subscription: what is sent there is lost, and so nothing is sent")
	case len(t.Receivers) == 1:
	case p.RedriveTopic != "":
		c.say(LevelWarning, name, "leave it the failed consumer's subscription alone", "the redrive topic has several subscriptions, each of which gets a copy: %s", all)
	case p.FanOut == config.FanOutAccept:
		c.say(LevelOK, name, "", "fan_out is accepted; each of these gets a copy unless its filter keeps it out: %s", all)
	default:
		c.say(LevelWarning, name, "name a redrive_topic that only the failed consumer reads, or say fan_out: accept",
			"nothing can be sent back, since each of these would get a copy: %s", all)
	}
	if t.Schema != "" {
		c.say(LevelWarning, name, "send back to a topic without one", "it has a schema (%s), which may refuse what goes back", t.Schema)
	}
	if t.Transforms {
		c.say(LevelWarning, name, "send back to a topic without transforms", "it changes messages on their way in")
	}
	// A deployment that only takes letters in is meant to lack it.
	c.rights(name, t.MissingRights, t.RightsErr, "the caller may not send back", LevelWarning)
	c.window(ctx, name, t.Name)
}

// window compares the observation with the consumer's redelivery.
func (c *routeCheck) window(ctx context.Context, name, urn string) {
	if c.b.Config.Redrive.ObserveFor == 0 {
		return
	}
	if _, err := c.b.Source(ctx, c.r); err != nil {
		return // said elsewhere
	}
	if _, ok := errors.AsType[*wire.WindowError](c.b.CheckWindow(ctx, c.r.Name, urn)); ok {
		c.say(LevelError, name, "leave redrive.observe_for at auto", "%v", c.b.CheckWindow(ctx, c.r.Name, urn))
	}
}

// consumers looks at whose failures arrive here.
func (c *routeCheck) consumers(ctx context.Context, o gcppubsub.Options, p config.PubSub, dead gcppubsub.SubscriptionFacts) {
	if p.SourceSubscription == "" {
		all, err := c.b.Consumers(ctx, p)
		switch {
		case errors.Is(err, dlqbridge.ErrNotFound): // said already
		case err != nil:
			c.say(LevelWarning, p.SourceTopic, "name the consumer's subscription as source_subscription", "whose failures arrive here cannot be found out: %v", err)
		case len(all) == 0:
			c.say(LevelWarning, p.SourceTopic, "give the consumer's subscription a dead-letter policy, or name it as source_subscription",
				"no subscription of it that can be looked at dead-letters into %s: nothing that arrives is known to belong here", dead.Topic)
		case len(all) > 1:
			c.say(LevelWarning, p.SourceTopic, "read each consumer's failures from a dead-letter topic of its own",
				"several consumers dead-letter here, and each letter's own source decides: %s", strings.Join(all, ", "))
		default:
			c.consumer(ctx, o, all[0], dead)
		}
		return
	}
	c.consumer(ctx, o, p.SourceSubscription, dead)
}

func (c *routeCheck) consumer(ctx context.Context, o gcppubsub.Options, name string, dead gcppubsub.SubscriptionFacts) {
	s, ok := c.subscription(ctx, o, name, "consumer's subscription")
	if !ok {
		return
	}
	p := *c.r.PubSub
	switch {
	case s.Topic != p.Full("topics", p.SourceTopic):
		c.say(LevelError, name, "name the topic that it is of as source_topic", "it is a subscription of %s, not of the source topic", s.Topic)
	case s.DeadLetterTopic == "" && s.DeadLetterErr == nil:
		c.say(LevelWarning, name, "give it a dead-letter policy, unless its workers dead-letter by themselves",
			"it has no dead-letter policy: a task that keeps failing never becomes a letter")
	case errors.Is(s.DeadLetterErr, dlqbridge.ErrNotFound):
		c.say(LevelError, name, "create the topic and a subscription of it anew", "its dead-letter topic was deleted: a task that keeps failing never becomes a letter")
	case s.DeadLetterErr == nil && len(s.DeadLetterReceivers) == 0:
		c.say(LevelError, s.DeadLetterTopic, "create a subscription of it now", "the dead-letter topic has no subscription: what %s gives up is lost", name)
	case s.DeadLetterTopic != dead.Topic:
		c.say(LevelError, name, "read a subscription of that topic as dead_letter_subscription, or mend the policy", "it dead-letters into %s, not into %s", s.DeadLetterTopic, dead.Topic)
	}
	if s.DeadLetterTopic != "" {
		c.agent(s.Name, s.Agent, "roles/pubsub.subscriber")
	}
	// The clock of a forwarded message starts anew, so that a letter has the
	// dead-letter subscription's own time.
	if dead.Retention < s.Retention {
		c.say(LevelWarning, p.DeadLetterSubscription, "set its retention to 31d, the longest", "it keeps a letter for %s, less than the %s that %s keeps a task",
			config.Duration(dead.Retention), config.Duration(s.Retention), name)
	}
}
