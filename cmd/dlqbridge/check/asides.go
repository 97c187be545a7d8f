package check

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

// resumeQueue looks at the queue that resumes go to. What dies there must come
// back to this route, which knows whose it is.
func (c *routeCheck) resumeQueue(ctx context.Context, dead awssqs.QueueFacts) {
	name := c.r.ResumeTo
	q, ok := c.inspect(ctx, name, "queue of resume_to")
	if !ok {
		return
	}
	c.observed(name, q)
	switch {
	case q.FIFO != dead.FIFO:
		c.say(LevelError, name, "both must be FIFO, or neither", "%s is %s and %s is %s", name, kind(q), c.r.SQS.DeadLetterQueue, kind(dead))
	case q.DeadLetterPlace == "":
		c.say(LevelWarning, name, "give it a redrive policy, unless its workers dead-letter by themselves",
			"it has no redrive policy: a resume that keeps failing never comes back")
	case q.DeadLetterPlace != dead.ARN:
		c.say(LevelWarning, name, "let it dead-letter into this route's dead-letter queue",
			"it dead-letters into %s: a resume that fails is not recognised as one, and its record stays without outcome", q.DeadLetterPlace)
	}
}

// compensations looks at the queue that compensations go to. What dies there
// should become a record somewhere, or nobody sees that nothing was undone.
func (c *routeCheck) compensations(ctx context.Context) {
	name := c.r.CompensateTo
	q, ok := c.inspect(ctx, name, "queue of compensate_to")
	if !ok {
		return
	}
	c.observed(name, q)
	c.deadCompensations(name, "redrive policy", q.DeadLetterPlace, func(r config.Route) bool {
		return r.SQS != nil && short(r.SQS.DeadLetterQueue) == short(q.DeadLetterPlace)
	})
}

// deadCompensations warns where what dies on the way to be undone is not read.
func (c *routeCheck) deadCompensations(name, policy, place string, reads func(config.Route) bool) {
	switch {
	case place == "":
		c.say(LevelWarning, name, "give it a "+policy+", unless its workers dead-letter by themselves", "it has no %s: a compensation that keeps failing is never seen again", policy)
	case !slices.ContainsFunc(c.b.Config.Routes, reads):
		c.say(LevelWarning, name, "add a route that reads it", "it dead-letters into %s, which no route reads: a compensation that fails is not seen", place)
	}
}

// observed compares the observation with the redelivery of a queue.
func (c *routeCheck) observed(name string, q awssqs.QueueFacts) {
	auto := max(config.MinObserve, time.Duration(q.MaxReceives)*q.Visibility)
	if window := time.Duration(c.b.Config.Redrive.ObserveFor); window > 0 && window < auto {
		c.say(LevelError, name, "leave redrive.observe_for at auto, or make it "+config.Duration(auto).String()+" or longer",
			"redrive.observe_for %s is shorter than the %s it needs (maxReceiveCount %d x visibility timeout %s)",
			config.Duration(window), config.Duration(auto), q.MaxReceives, config.Duration(q.Visibility))
	}
}

// resumeTopic looks at the topic that resumes go to.
func (c *routeCheck) resumeTopic(ctx context.Context, o gcppubsub.Options, p config.PubSub, dead string) {
	name := c.r.ResumeTo
	t, ok := c.topic(ctx, o, name, "topic of resume_to")
	if !ok {
		return
	}
	c.readers(ctx, o, name, t, p)
	for _, reader := range t.Receivers {
		s, ok := c.subscription(ctx, o, reader, "subscription of resume_to")
		switch {
		case !ok || s.DeadLetterErr != nil:
		case s.DeadLetterTopic == "":
			c.say(LevelWarning, reader, "give it a dead-letter policy, unless its workers dead-letter by themselves",
				"it has no dead-letter policy: a resume that keeps failing never comes back")
		case s.DeadLetterTopic != dead:
			c.say(LevelWarning, reader, "let it dead-letter into the topic that this route reads",
				"it dead-letters into %s: a resume that fails is not recognised as one, and its record stays without outcome", s.DeadLetterTopic)
		}
	}
}

// compensationTopic looks at the topic that compensations go to.
func (c *routeCheck) compensationTopic(ctx context.Context, o gcppubsub.Options, p config.PubSub) {
	name := c.r.CompensateTo
	t, ok := c.topic(ctx, o, name, "topic of compensate_to")
	if !ok {
		return
	}
	c.readers(ctx, o, name, t, p)
	for _, reader := range t.Receivers {
		s, ok := c.subscription(ctx, o, reader, "subscription of compensate_to")
		if !ok || s.DeadLetterErr != nil {
			continue
		}
		c.deadCompensations(reader, "dead-letter policy", s.DeadLetterTopic, func(r config.Route) bool {
			return r.PubSub != nil && slices.Contains(s.DeadLetterReceivers, r.PubSub.Full("subscriptions", r.PubSub.DeadLetterSubscription))
		})
	}
}

// readers looks at who gets what is sent to a topic besides the source.
func (c *routeCheck) readers(ctx context.Context, o gcppubsub.Options, name string, t gcppubsub.TopicFacts, p config.PubSub) {
	all := strings.Join(t.Receivers, ", ")
	switch {
	case len(t.Receivers) == 0:
		c.say(LevelError, name, "create the subscription that its workers read", "it has no subscription: what is sent there is lost, and so nothing is sent")
	case len(t.Receivers) > 1 && p.FanOut == config.FanOutAccept:
		c.say(LevelOK, name, "", "fan_out is accepted; each of these gets a copy unless its filter keeps it out: %s", all)
	case len(t.Receivers) > 1:
		c.say(LevelWarning, name, "leave it one subscription, or say fan_out: accept", "nothing can be sent there, since each of these would get a copy: %s", all)
	}
	if t.Schema != "" {
		c.say(LevelWarning, name, "name a topic without one", "it has a schema (%s), which may refuse what is sent", t.Schema)
	}
	c.rights(name, t.MissingRights, t.RightsErr, "the caller may not send there", LevelWarning)
	c.window(ctx, name, t.Name)
}

// resumes says whether a queue's URL is that of where this route's resumes go.
func (c *routeCheck) resumes(url string) bool {
	return c.r.ResumeTo != "" && short(url) == short(c.r.ResumeTo)
}

// short is the name of a queue that is given by name, URL or ARN.
func short(queue string) string { return queue[strings.LastIndexAny(queue, ":/")+1:] }
