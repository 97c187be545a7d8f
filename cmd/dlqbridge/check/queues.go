package check

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

// shortVisibility is below the time that a slow store and a few tries of a
// throttled write may take: letters would come again while they are stored.
const shortVisibility = 30 * time.Second

// queues looks at a route's queues on SQS.
func (c *routeCheck) queues(ctx context.Context) {
	dead, deadOK := c.inspect(ctx, c.r.SQS.DeadLetterQueue, "dead-letter queue")
	if deadOK {
		c.deadLetters(dead)
		if c.r.ResumeTo != "" {
			c.resumeQueue(ctx, dead)
		}
	}
	if c.r.CompensateTo != "" {
		c.compensations(ctx)
	}
	if name := c.r.Completions; name != "" {
		if q, ok := c.inspect(ctx, name, "queue of completions"); ok && q.DeadLetterPlace == "" {
			c.say(LevelWarning, name, "give it a redrive policy", "it has no redrive policy: a message that is not believed comes again until it expires, and is then gone")
		}
	}
	if c.r.SQS.SourceQueue != "" {
		if source, ok := c.inspect(ctx, c.r.SQS.SourceQueue, "source queue"); ok {
			c.observed(c.r.SQS.SourceQueue, source)
			if deadOK {
				c.pair(source, dead)
			}
		}
	} else if deadOK {
		c.shared(ctx, dead)
	}
}

func (c *routeCheck) inspect(ctx context.Context, queue, what string) (awssqs.QueueFacts, bool) {
	facts, err := awssqs.Inspect(ctx, c.b.Queue(queue))
	switch {
	case errors.Is(err, dlqbridge.ErrNotFound):
		c.say(LevelError, queue, "create it, or name the right one (a queue of another account needs its URL or ARN)", "the %s does not exist", what)
	case err != nil:
		c.say(LevelError, queue, hintFor(err), "%v", err)
	}
	return facts, err == nil
}

func (c *routeCheck) deadLetters(q awssqs.QueueFacts) {
	name := c.r.SQS.DeadLetterQueue
	if q.DeadLetterPlace != "" {
		c.say(LevelWarning, name, "take the redrive policy off the dead-letter queue",
			"it has a redrive policy itself: a letter that is received %d times without being stored moves on to %s", q.MaxReceives, q.DeadLetterPlace)
	}
	if q.Visibility < shortVisibility {
		c.say(LevelWarning, name, "set it to "+config.Duration(shortVisibility).String()+" or more",
			"its visibility timeout is %s: letters may come again while they are being stored", config.Duration(q.Visibility))
	}
	if q.SourcesErr != nil {
		c.say(LevelWarning, name, hintFor(q.SourcesErr), "which queues dead-letter into it cannot be asked: %v", q.SourcesErr)
	}
}

// pair looks at the two queues together.
func (c *routeCheck) pair(source, dead awssqs.QueueFacts) {
	name := c.r.SQS.DeadLetterQueue
	switch {
	case source.ARN == dead.ARN:
		c.say(LevelError, name, "name the queue that the workers read as source_queue", "source and dead-letter queue are the same")
		return
	case source.FIFO != dead.FIFO:
		c.say(LevelError, name, "both must be FIFO, or neither", "%s is %s and %s is %s", c.r.SQS.SourceQueue, kind(source), name, kind(dead))
	case source.DeadLetterPlace == "":
		c.say(LevelWarning, c.r.SQS.SourceQueue, "give the source a redrive policy, unless its workers dead-letter by themselves",
			"the source has no redrive policy: a task that keeps failing never becomes a letter")
	case source.DeadLetterPlace != dead.ARN:
		c.say(LevelError, c.r.SQS.SourceQueue, "name that queue as dead_letter_queue, or mend the redrive policy",
			"the source dead-letters into %s, not into %s", source.DeadLetterPlace, dead.ARN)
	}
	// On a standard queue the clock of retention runs on from the first send
	// through the move; on FIFO it starts anew.
	if !dead.FIFO && dead.Retention <= source.Retention {
		c.say(LevelWarning, name, "make the dead-letter queue's retention longer than the source's, best 14d",
			"it keeps a message for %s from its first send, the source for %s: a letter may be lost soon after it dies",
			config.Duration(dead.Retention), config.Duration(source.Retention))
	}
	if dead.AllowPermission == "denyAll" || dead.AllowPermission == "byQueue" && !slices.Contains(dead.AllowedSources, source.ARN) {
		c.say(LevelWarning, name, "allow the source in its redrive allow policy", "its redrive allow policy (%s) does not let %s in", dead.AllowPermission, source.ARN)
	}
	var others []string
	for _, url := range dead.SourceURLs {
		if url != source.URL && !c.resumes(url) {
			others = append(others, url)
		}
	}
	if len(others) > 0 {
		c.say(LevelWarning, name, "leave source_queue out: then each letter's own source decides",
			"other queues dead-letter into it too (%s): their records are never sent to this route's source", strings.Join(others, ", "))
	}
	if source.MaxBytes < dead.MaxBytes {
		c.say(LevelWarning, c.r.SQS.SourceQueue, "raise MaximumMessageSize of the source", "it takes messages of %d bytes, the dead-letter queue of %d: larger letters cannot go back", source.MaxBytes, dead.MaxBytes)
	}
}

func kind(q awssqs.QueueFacts) string {
	if q.FIFO {
		return "FIFO"
	}
	return "standard"
}

// shared looks at a dead-letter queue whose letters name their own sources.
func (c *routeCheck) shared(ctx context.Context, dead awssqs.QueueFacts) {
	name := c.r.SQS.DeadLetterQueue
	if len(dead.SourceURLs) == 0 && dead.SourcesErr == nil {
		c.say(LevelWarning, name, "name a source_queue", "no queue dead-letters into it and the route has no source_queue: nothing could be sent back")
	}
	for _, url := range dead.SourceURLs {
		source, err := awssqs.Inspect(ctx, c.b.Queue(url))
		if err != nil {
			c.say(LevelWarning, url, hintFor(err), "a source of %s cannot be looked at: %v", name, err)
			continue
		}
		if !dead.FIFO && dead.Retention <= source.Retention {
			c.say(LevelWarning, name, "make the dead-letter queue's retention longer than the source's, best 14d",
				"it keeps a message for %s from its first send, its source %s for %s: a letter may be lost soon after it dies",
				config.Duration(dead.Retention), url, config.Duration(source.Retention))
		}
	}
}
