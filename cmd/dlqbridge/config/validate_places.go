package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// What a place's name may look like.
var (
	queueName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$|^[a-zA-Z0-9_-]{1,75}\.fifo$`)
	queueURL  = regexp.MustCompile(`^https?://[^/\s@]+/\d{12}/([a-zA-Z0-9_-]{1,80}|[a-zA-Z0-9_-]{1,75}\.fifo)$`)
	queueARN  = regexp.MustCompile(`^arn:[a-z-]+:sqs:[a-z0-9-]+:\d{12}:([a-zA-Z0-9_-]{1,80}|[a-zA-Z0-9_-]{1,75}\.fifo)$`)
	// Names of Google's resources, short or full (the proto, Topic.name).
	project   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.:-]{0,99}$`)
	shortName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._~%+-]{2,254}$`)
	fullName  = regexp.MustCompile(`^projects/[a-zA-Z0-9][a-zA-Z0-9.:-]{0,99}/(topics|subscriptions)/[a-zA-Z][a-zA-Z0-9._~%+-]{2,254}$`)
)

// routeKinds are the keys of which a route has exactly one.
var routeKinds = []string{"sqs", "pubsub", "url"}

const someKind = "name the places: sqs: {dead_letter_queue: …, source_queue: …}, pubsub: {project: …, dead_letter_subscription: …, source_topic: …} or url: {dead_letter: …, target: …}"

// deadLetterPlace is where a route reads, in a form that two routes that read
// the same place share, and its field; empty if it is not said.
func deadLetterPlace(r Route) (field, place string) {
	switch {
	case r.SQS != nil:
		return "sqs.dead_letter_queue", r.SQS.DeadLetterQueue
	case r.PubSub != nil:
		return "pubsub.dead_letter_subscription", r.PubSub.Full("subscriptions", r.PubSub.DeadLetterSubscription)
	case r.URL != nil:
		return "url.dead_letter", r.URL.DeadLetter
	}
	return "", ""
}

func validatePlaces(d *decoder, path string, r Route) {
	var kinds []string
	for _, one := range []struct {
		kind string
		set  bool
	}{{"sqs", r.SQS != nil}, {"pubsub", r.PubSub != nil}, {"url", r.URL != nil}} {
		if one.set {
			kinds = append(kinds, one.kind)
		}
	}
	switch {
	case len(kinds) == 0:
		d.reportAt(path+".sqs", "missing", someKind)
	case len(kinds) > 1:
		d.reportAt(path+"."+kinds[1], "the route has "+kinds[0]+" already", "make a route of its own for each dead-letter place")
	case r.SQS != nil:
		validateQueues(d, path+".sqs", *r.SQS)
	case r.PubSub != nil:
		validatePubSub(d, path+".pubsub", *r.PubSub)
	default:
		validateURLs(d, path+".url", *r.URL)
	}
}

func validateQueues(d *decoder, path string, q SQS) {
	if q.DeadLetterQueue == "" {
		d.reportAt(path+".dead_letter_queue", "missing", "name the queue to read, by name, URL or ARN")
	}
	for _, one := range []struct{ key, queue string }{{"dead_letter_queue", q.DeadLetterQueue}, {"source_queue", q.SourceQueue}} {
		validateQueue(d, path+"."+one.key, one.queue)
	}
	if q.DeadLetterQueue != "" && q.DeadLetterQueue == q.SourceQueue {
		d.reportAt(path+".source_queue", "is the dead-letter queue itself", "name the queue that the workers read")
	}
}

func validateQueue(d *decoder, at, queue string) {
	if queue != "" && !queueName.MatchString(queue) && !queueURL.MatchString(queue) && !queueARN.MatchString(queue) {
		d.reportAt(at, fmt.Sprintf("%q is no queue", queue), "write a name of up to 80 letters, digits, - and _ (.fifo at the end of a FIFO queue's), a URL or an ARN")
	}
}

func validatePubSub(d *decoder, path string, p PubSub) {
	if p.Project != "" && !project.MatchString(p.Project) {
		d.reportAt(path+".project", fmt.Sprintf("%q is no project", p.Project), "write the project's id, such as acme-prod")
	}
	for _, one := range []struct {
		key, name, kind string
		required        bool
	}{
		{"dead_letter_subscription", p.DeadLetterSubscription, "subscriptions", true},
		{"source_topic", p.SourceTopic, "topics", true},
		{"source_subscription", p.SourceSubscription, "subscriptions", false},
		{"redrive_topic", p.RedriveTopic, "topics", false},
	} {
		if one.name == "" && one.required {
			d.reportAt(path+"."+one.key, "missing", resourceForm(one.kind))
		}
		validateResource(d, path, path+"."+one.key, one.name, one.kind, p.Project)
	}
	if p.RedriveTopic != "" && p.Full("topics", p.RedriveTopic) == p.Full("topics", p.SourceTopic) {
		d.reportAt(path+".redrive_topic", "is the source topic itself", "name a topic that only the failed consumer reads, or leave it out")
	}
	if p.SourceSubscription != "" && p.Full("subscriptions", p.SourceSubscription) == p.Full("subscriptions", p.DeadLetterSubscription) {
		d.reportAt(path+".source_subscription", "is the dead-letter subscription itself", "name the subscription that the workers read")
	}
}

func resourceForm(kind string) string {
	return fmt.Sprintf("write its short name of 3 to 255 characters that begins with a letter, or projects/PROJECT/%s/NAME", kind)
}

// validateResource checks the name of a topic or a subscription at a field;
// path is that of the places, which name the project.
func validateResource(d *decoder, path, at, name, kind, project string) {
	switch full := strings.Contains(name, "/"); {
	case name == "":
	case full && (!fullName.MatchString(name) || !strings.Contains(name, "/"+kind+"/")),
		!full && (!shortName.MatchString(name) || strings.HasPrefix(name, "goog")):
		d.reportAt(at, fmt.Sprintf("%q cannot be the name of one of the %s", name, kind), resourceForm(kind))
	case !full && project == "":
		d.reportAt(path+".project", "missing, and "+at[strings.LastIndexByte(at, '.')+1:]+" is a short name", "write the project's id, or full names")
	}
}

// better are schemes of brokers with an adapter of their own.
var better = map[string]string{"awssqs": "sqs", "awssns": "sqs", "gcppubsub": "pubsub", "gcppubsubv2": "pubsub"}

// validateURLs repeats no URL: it may hold a password.
func validateURLs(d *decoder, path string, u URL) {
	for _, one := range []struct{ key, url string }{{"dead_letter", u.DeadLetter}, {"target", u.Target}} {
		at := path + "." + one.key
		parsed, err := url.Parse(one.url)
		switch {
		case one.url == "":
			d.reportAt(at, "missing", "write a pubsub URL of the Go CDK, such as rabbit://jobs-dead")
		case err != nil || parsed.Scheme == "":
			d.reportAt(at, "is no URL", "write a pubsub URL of the Go CDK, such as rabbit://jobs-dead")
		case better[parsed.Scheme] != "":
			d.reportAt(at, "the Go CDK changes messages of this broker on the way", "write the route with "+better[parsed.Scheme]+":")
		}
	}
	if u.DeadLetter != "" && u.DeadLetter == u.Target {
		d.reportAt(path+".target", "is the dead-letter place itself", "name the place that the workers read")
	}
	for _, one := range []struct {
		key string
		n   int
	}{{"max_bytes", u.MaxBytes}, {"max_attributes", u.MaxAttributes}} {
		if one.n < 0 {
			d.reportAt(path+"."+one.key, fmt.Sprintf("%d is out of range", one.n), "0 is unknown")
		}
	}
}
