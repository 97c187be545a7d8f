package gcppubsub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"

	"github.com/dlqbridge/dlqbridge"
)

// SubscriptionFacts is how a subscription is set up, for those who check a
// configuration.
type SubscriptionFacts struct {
	// Name and Topic are full names; Topic is empty if it was deleted.
	Name, Topic string
	Detached    bool
	// Delivery is "pull", "push", "bigquery", "cloud_storage" or "bigtable";
	// only pull can be read from.
	Delivery string
	// AckDeadline is how long a received message is hidden; Retention how long
	// one is kept from its publishing.
	AckDeadline, Retention time.Duration
	// Expires is after how long without use the subscription is deleted, with
	// all it holds; 0 is never.
	Expires              time.Duration
	ExactlyOnce, Ordered bool
	Filter               string
	// Transforms: messages are changed on their way out of it.
	Transforms bool
	// DeadLetterTopic and MaxAttempts are its dead-letter policy; empty and 0
	// without one. DeadLetterReceivers are that topic's subscriptions: without
	// any, what it is given is lost. DeadLetterErr says why they are unknown;
	// it is dlqbridge.ErrNotFound where the topic is gone.
	DeadLetterTopic     string
	MaxAttempts         int
	DeadLetterReceivers []string
	DeadLetterErr       error
	// MissingRights are those that reading it needs and the caller has not;
	// RightsErr says why they could not be asked for.
	MissingRights []string
	RightsErr     error
	// Agent says whether the service's own agent may take messages off it,
	// which forwarding to a dead-letter topic needs.
	Agent AgentRight
}

// TopicFacts is how a topic is set up.
type TopicFacts struct {
	Name string
	// Receivers are its subscriptions: each gets a copy of what is published.
	Receivers []string
	// Retention is how long the topic itself keeps messages; 0 is not.
	Retention time.Duration
	// Schema and KMSKey are full names, empty without. A schema refuses
	// messages that do not fit it.
	Schema, KMSKey string
	// Transforms: messages are changed on their way in.
	Transforms bool
	// MissingRights are those that sending needs and the caller has not;
	// RightsErr says why they could not be asked for.
	MissingRights []string
	RightsErr     error
	// Agent says whether the service's own agent may publish to it, which
	// being a dead-letter topic needs.
	Agent AgentRight
}

// AgentRight is what the resource's own policy says about the service's agent
// (service-NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com). Without the right,
// messages are redelivered for ever instead of being forwarded.
type AgentRight string

// What can be known: a grant on the project is not seen here, so AgentNotHere
// is a hint to look there, no proof.
const (
	AgentGranted AgentRight = "granted"
	AgentNotHere AgentRight = "not_here"
	AgentUnknown AgentRight = "unknown"
)

// Rights that reading and sending need.
var (
	readRights = []string{"pubsub.subscriptions.consume", "pubsub.subscriptions.get"}
	sendRights = []string{"pubsub.topics.publish", "pubsub.topics.get"}
)

// InspectSubscription reads how Options.Subscription is set up:
// dlqbridge.ErrNotFound, ErrDenied. What else cannot be read is no error.
func InspectSubscription(ctx context.Context, o Options) (SubscriptionFacts, error) {
	o, err := o.withDefaults()
	if err != nil {
		return SubscriptionFacts{}, err
	}
	name, err := o.subscription()
	if err != nil {
		return SubscriptionFacts{}, err
	}
	config, err := getSubscription(ctx, o, name)
	if err != nil {
		return SubscriptionFacts{}, fmt.Errorf("inspect %s: %w", name, err)
	}
	f := SubscriptionFacts{
		Name: name, Topic: config.GetTopic(), Detached: config.GetDetached(), Delivery: delivery(config),
		AckDeadline: time.Duration(config.GetAckDeadlineSeconds()) * time.Second, Retention: retention(config),
		Expires: expires(config), ExactlyOnce: config.GetEnableExactlyOnceDelivery(), Ordered: config.GetEnableMessageOrdering(),
		Filter: config.GetFilter(), Transforms: len(config.GetMessageTransforms()) > 0,
	}
	if f.Topic == deletedTopic {
		f.Topic = ""
	}
	f.DeadLetterTopic, f.MaxAttempts = deadLetterPolicy(config)
	switch f.DeadLetterTopic {
	case "":
	case deletedTopic:
		f.DeadLetterErr = fmt.Errorf("dead-letter topic of %s: %w: it was deleted", name, dlqbridge.ErrNotFound)
	default:
		f.DeadLetterReceivers, f.DeadLetterErr = subscribers(ctx, o, f.DeadLetterTopic)
	}
	f.MissingRights, f.RightsErr = missing(ctx, o, name, readRights, o.Client.subscriptions.TestIamPermissions)
	f.Agent = agent(ctx, o, name, o.Client.subscriptions.GetIamPolicy, "roles/pubsub.subscriber")
	return f, nil
}

// InspectTopic reads how Options.Topic is set up: dlqbridge.ErrNotFound,
// ErrDenied. What else cannot be read is no error.
func InspectTopic(ctx context.Context, o Options) (TopicFacts, error) {
	o, err := o.withDefaults()
	if err != nil {
		return TopicFacts{}, err
	}
	name, err := o.topic()
	if err != nil {
		return TopicFacts{}, err
	}
	config, err := ask(ctx, o, &pubsubpb.GetTopicRequest{Topic: name}, o.Client.topics.GetTopic)
	if err != nil {
		return TopicFacts{}, fmt.Errorf("inspect %s: %w", name, err)
	}
	f := TopicFacts{
		Name: name, Retention: config.GetMessageRetentionDuration().AsDuration(), Schema: config.GetSchemaSettings().GetSchema(),
		KMSKey: config.GetKmsKeyName(), Transforms: len(config.GetMessageTransforms()) > 0,
	}
	if f.Receivers, err = subscribers(ctx, o, name); err != nil {
		return TopicFacts{}, fmt.Errorf("inspect %s: list its subscriptions: %w", name, err)
	}
	f.MissingRights, f.RightsErr = missing(ctx, o, name, sendRights, o.Client.topics.TestIamPermissions)
	f.Agent = agent(ctx, o, name, o.Client.topics.GetIamPolicy, "roles/pubsub.publisher")
	return f, nil
}

// expires reads the expiration policy (the proto,
// Subscription.expiration_policy): none is the default one, and one without a
// time is never.
func expires(config *pubsubpb.Subscription) time.Duration {
	policy := config.GetExpirationPolicy()
	if policy == nil {
		return defaultExpiration
	}
	return policy.GetTtl().AsDuration()
}

// missing asks which of the rights the caller has not.
func missing(ctx context.Context, o Options, resource string, rights []string,
	test func(context.Context, *iampb.TestIamPermissionsRequest, ...gax.CallOption) (*iampb.TestIamPermissionsResponse, error),
) ([]string, error) {
	out, err := ask(ctx, o, &iampb.TestIamPermissionsRequest{Resource: resource, Permissions: rights}, test)
	if err != nil {
		return nil, fmt.Errorf("ask for the rights on %s: %w", resource, err)
	}
	var absent []string
	for _, r := range rights {
		if !slices.Contains(out.GetPermissions(), r) {
			absent = append(absent, r)
		}
	}
	return absent, nil
}

// agentDomain is that of the service agents of all projects (page "Handle
// message failures", granting forwarding permissions, read 2026-11-30).
const agentDomain = "@gcp-sa-pubsub.iam.gserviceaccount.com"

// agent looks for the role, or a wider one, in the resource's own policy.
func agent(ctx context.Context, o Options, resource string, get func(context.Context, *iampb.GetIamPolicyRequest, ...gax.CallOption) (*iampb.Policy, error), role string) AgentRight {
	policy, err := ask(ctx, o, &iampb.GetIamPolicyRequest{Resource: resource}, get)
	if err != nil {
		return AgentUnknown
	}
	for _, b := range policy.GetBindings() {
		if b.GetRole() != role && b.GetRole() != "roles/pubsub.editor" && b.GetRole() != "roles/pubsub.admin" {
			continue
		}
		for _, member := range b.GetMembers() {
			if strings.HasPrefix(member, "serviceAccount:service-") && strings.HasSuffix(member, agentDomain) {
				return AgentGranted
			}
		}
	}
	return AgentNotHere
}
