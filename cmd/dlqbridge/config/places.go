package config

import (
	"net/url"
	"strings"
)

// SQS names the queues of a route, by name, URL or ARN.
type SQS struct {
	DeadLetterQueue string `yaml:"dead_letter_queue" doc:"The dead-letter queue, by name, URL or ARN." required:"true"`
	SourceQueue     string `yaml:"source_queue" doc:"Where work goes back to, by name, URL or ARN; without it each letter's own source ARN decides."`
}

// PubSub names the subscriptions and topics of a route, by short name in the
// project or by full name (projects/P/topics/T).
type PubSub struct {
	Project                string `yaml:"project" doc:"The project that short names belong to." pattern:"^[a-zA-Z0-9][a-zA-Z0-9.:-]{0,99}$"`
	DeadLetterSubscription string `yaml:"dead_letter_subscription" doc:"The subscription of the dead-letter topic that letters are read from." required:"true"`
	SourceTopic            string `yaml:"source_topic" doc:"The topic that the work was published to; it goes back there, unless there is a redrive topic." required:"true"`
	SourceSubscription     string `yaml:"source_subscription" doc:"The consumer's subscription whose failures these are; without it the one subscription of the source topic that dead-letters here."`
	RedriveTopic           string `yaml:"redrive_topic" doc:"A topic that only the failed consumer reads, for work that goes back; without it work goes to the source topic."`
	FanOut                 FanOut `yaml:"fan_out" doc:"accept: send to a topic with several subscriptions, each of which gets a copy unless its filter keeps it out. Without it nothing is sent there."`
}

// Destination is the topic that work goes back to.
func (p PubSub) Destination() string {
	if p.RedriveTopic != "" {
		return p.RedriveTopic
	}
	return p.SourceTopic
}

// Full is the full name of a short or full one; kind is topics or subscriptions.
func (p PubSub) Full(kind, name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return "projects/" + p.Project + "/" + kind + "/" + name
}

// FanOut is what a route says to a topic with several subscriptions; empty is
// FanOutRefuse.
type FanOut string

// The answers.
const (
	FanOutRefuse FanOut = "refuse"
	FanOutAccept FanOut = "accept"
)

func (FanOut) values() []string { return []string{string(FanOutRefuse), string(FanOutAccept)} }

// UnmarshalText reads one of the closed set.
func (f *FanOut) UnmarshalText(b []byte) error { return choose(f, b) }

// MarshalText writes the word.
func (f FanOut) MarshalText() ([]byte, error) { return []byte(f), nil }

// URL names the places of a route by URLs of the Go CDK.
type URL struct {
	DeadLetter    string `yaml:"dead_letter" doc:"The subscription that letters are read from, such as rabbit://jobs-dead." required:"true"`
	Target        string `yaml:"target" doc:"The topic that work goes back to." required:"true"`
	MaxBytes      int    `yaml:"max_bytes" doc:"The broker's limit for one message with its metadata, in bytes; 0 is unknown, and then the broker alone refuses."`
	MaxAttributes int    `yaml:"max_attributes" doc:"The broker's limit for the attributes of one message; 0 is unknown."`
}

// DeadLetterPlace is where a route reads, as people call it: without secrets.
func (r Route) DeadLetterPlace() string {
	switch {
	case r.PubSub != nil:
		return "subscription " + r.PubSub.DeadLetterSubscription
	case r.URL != nil:
		return "place " + withoutUser(r.URL.DeadLetter)
	}
	return "queue " + r.SQS.DeadLetterQueue
}

// SourcePlace is where a route's work belongs, as people call it.
func (r Route) SourcePlace() string {
	switch {
	case r.PubSub != nil:
		return "topic " + r.PubSub.SourceTopic
	case r.URL != nil:
		return "target " + withoutUser(r.URL.Target)
	}
	return "queue " + r.SQS.SourceQueue
}

// Target is the URN of where a route sends to, where configuration alone says
// it: a topic's full name, a URL without its user. Empty for a queue, whose ARN
// only SQS knows.
func (r Route) Target() string {
	switch {
	case r.PubSub != nil:
		return r.PubSub.Full("topics", r.PubSub.Destination())
	case r.URL != nil:
		return withoutUser(r.URL.Target)
	}
	return ""
}

func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // not repeated: it may hold a password
	}
	u.User = nil
	return u.String()
}
