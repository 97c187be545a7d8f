package config

import (
	"fmt"
	"strings"
)

// aside is a place besides the source, with its key.
type aside struct{ key, name string }

// asides are the places besides the source that a route names.
func (r Route) asides() []aside {
	var out []aside
	for _, one := range []aside{{"resume_to", r.ResumeTo}, {"compensate_to", r.CompensateTo}} {
		if one.name != "" {
			out = append(out, one)
		}
	}
	return out
}

// Aside is the URN of a place besides the source where configuration alone says
// it: a topic's full name, a queue's ARN. Empty for a queue by name or URL,
// whose ARN only SQS knows.
func (r Route) Aside(name string) string {
	switch {
	case r.PubSub != nil:
		return r.PubSub.Full("topics", name)
	case strings.HasPrefix(name, "arn:"):
		return name
	}
	return ""
}

// validateAsides checks the places besides the source: each of its own, and where
// messages of the source go, of the same kind.
func validateAsides(d *decoder, path string, r Route) {
	if r.ResumeTo != "" && !r.Resume {
		d.reportAt(path+".resume_to", "says nothing without resume: true", "add resume: true if the workers can go on from a checkpoint, or leave it out")
	}
	if r.CompensateAgain && r.CompensateTo == "" {
		d.reportAt(path+".compensate_idempotent", "says nothing without compensate_to", "name the queue or topic that compensations go to, or leave it out")
	}
	for _, one := range r.asides() {
		at := path + "." + one.key
		switch {
		case r.URL != nil:
			d.reportAt(at, "is not possible on a route by url, whose broker has one target", "leave it out")
		case r.PubSub != nil:
			validateResource(d, path+".pubsub", at, one.name, "topics", r.PubSub.Project)
			for _, other := range []aside{{"pubsub.source_topic", r.PubSub.SourceTopic}, {"pubsub.redrive_topic", r.PubSub.RedriveTopic}, r.before(one)} {
				if other.name != "" && r.PubSub.Full("topics", other.name) == r.PubSub.Full("topics", one.name) {
					d.reportAt(at, fmt.Sprintf("is %s already", other.key), "name a topic of its own, or leave it out")
				}
			}
		case r.SQS != nil:
			validateQueue(d, at, one.name)
			for _, other := range []aside{{"sqs.source_queue", r.SQS.SourceQueue}, {"sqs.dead_letter_queue", r.SQS.DeadLetterQueue}, r.before(one)} {
				if other.name != "" && queueOf(other.name) == queueOf(one.name) {
					d.reportAt(at, fmt.Sprintf("is %s already", other.key), "name a queue of its own, or leave it out")
				}
			}
			if one.key == "resume_to" && isFIFO(one.name) != isFIFO(r.SQS.DeadLetterQueue) {
				d.reportAt(at, "must be FIFO exactly where the dead-letter queue is", "a message keeps its group, or has none")
			}
		}
	}
}

// before is the place besides the source that is named before another one.
func (r Route) before(one aside) aside {
	if one.key == "compensate_to" {
		return aside{"resume_to", r.ResumeTo}
	}
	return aside{}
}

// Asides are the names of the places besides the source.
func (r Route) Asides() []string {
	var out []string
	for _, one := range r.asides() {
		out = append(out, one.name)
	}
	return out
}

// validateCompletions checks the place of completion messages, which one route
// reads: a message is believed of its own records alone.
func validateCompletions(d *decoder, path string, r Route, readers map[string]string) {
	if r.Completions == "" {
		return
	}
	at, place := path+".completions", r.Completions
	taken := []aside{}
	switch {
	case r.URL != nil:
		d.reportAt(at, "is not possible on a route by url", "leave it out; outcomes come from the ledger or by absence")
		return
	case r.PubSub != nil:
		validateResource(d, path+".pubsub", at, r.Completions, "subscriptions", r.PubSub.Project)
		place = r.PubSub.Full("subscriptions", r.Completions)
		taken = append(taken, aside{"pubsub.dead_letter_subscription", r.PubSub.Full("subscriptions", r.PubSub.DeadLetterSubscription)},
			aside{"pubsub.source_subscription", r.PubSub.Full("subscriptions", r.PubSub.SourceSubscription)})
	case r.SQS != nil:
		validateQueue(d, at, r.Completions)
		place = queueOf(r.Completions)
		taken = append(taken, aside{"sqs.source_queue", queueOf(r.SQS.SourceQueue)}, aside{"sqs.dead_letter_queue", queueOf(r.SQS.DeadLetterQueue)})
		for _, one := range r.asides() {
			taken = append(taken, aside{one.key, queueOf(one.name)})
		}
	}
	for _, other := range taken {
		if other.name == place {
			d.reportAt(at, fmt.Sprintf("is %s already", other.key), "name a place that nothing but completion messages is sent to")
		}
	}
	if other, twice := readers[place]; twice {
		d.reportAt(at, "is read by "+other+" already", "give each route a place of its own")
		return
	}
	readers[place] = path
}

// queueOf is the name of a queue that is given by name, URL or ARN.
func queueOf(queue string) string {
	return queue[strings.LastIndexAny(queue, ":/")+1:]
}

func isFIFO(queue string) bool { return strings.HasSuffix(queue, ".fifo") }
