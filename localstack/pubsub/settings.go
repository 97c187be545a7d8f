package pubsub

import (
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// What the proto says of the settings of a subscription: Subscription,
// RetryPolicy, DeadLetterPolicy and ExpirationPolicy.
const (
	defaultAckDeadline = 10  // seconds
	minAckDeadline     = 10  // seconds, as a setting
	maxAckDeadline     = 600 // seconds, also in requests

	defaultRetention = 7 * 24 * time.Hour
	minRetention     = 10 * time.Minute
	maxRetention     = 31 * 24 * time.Hour

	defaultMinimumBackoff = 10 * time.Second
	defaultMaximumBackoff = 600 * time.Second
	maxBackoff            = 600 * time.Second

	defaultAttempts = 5
	minAttempts     = 5
	maxAttempts     = 100

	defaultExpiration = 31 * 24 * time.Hour
	minExpiration     = 24 * time.Hour

	maxFilterBytes = 256 // page "Filter messages from a subscription"
)

func checkRetention(d *durationpb.Duration) error {
	if d.CheckValid() != nil || d.AsDuration() < minRetention || d.AsDuration() > maxRetention {
		return invalid("The value for message_retention_duration is out of range. You passed %s in the request, but the value must be between 10m and 31 days.", d.AsDuration())
	}
	return nil
}

// subscriptionSettings checks what a subscription is asked to be and fills in
// the defaults. Names and topics are the caller's.
func subscriptionSettings(in *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	switch {
	case in.GetPushConfig() != nil && proto.Size(in.GetPushConfig()) > 0:
		return nil, unserved("push_config of a subscription")
	case in.GetBigqueryConfig() != nil:
		return nil, unserved("bigquery_config of a subscription")
	case in.GetCloudStorageConfig() != nil:
		return nil, unserved("cloud_storage_config of a subscription")
	case in.GetBigtableConfig() != nil:
		return nil, unserved("bigtable_config of a subscription")
	case len(in.GetMessageTransforms()) > 0:
		return nil, unserved("message_transforms of a subscription")
	case len(in.GetTags()) > 0:
		return nil, unserved("tags of a subscription")
	}
	config := proto.Clone(in).(*pubsubpb.Subscription)
	// Output only, ignored in requests.
	config.State = pubsubpb.Subscription_ACTIVE
	config.AnalyticsHubSubscriptionInfo = nil
	for _, check := range []func(*pubsubpb.Subscription) error{
		setAckDeadline, setRetention, setExpiration, setRetryPolicy, setDeadLetterPolicy,
		func(c *pubsubpb.Subscription) error { return checkLabels(c.GetLabels()) },
	} {
		if err := check(config); err != nil {
			return nil, err
		}
	}
	return config, nil
}

func setAckDeadline(c *pubsubpb.Subscription) error {
	if c.GetAckDeadlineSeconds() == 0 {
		c.AckDeadlineSeconds = defaultAckDeadline
	}
	if c.GetAckDeadlineSeconds() < minAckDeadline || c.GetAckDeadlineSeconds() > maxAckDeadline {
		return invalid("Invalid ack deadline given (ack_deadline_seconds=%d). It must be between %d and %d seconds.", c.GetAckDeadlineSeconds(), minAckDeadline, maxAckDeadline)
	}
	return nil
}

func setRetention(c *pubsubpb.Subscription) error {
	if c.GetMessageRetentionDuration() == nil {
		c.MessageRetentionDuration = durationpb.New(defaultRetention)
	}
	return checkRetention(c.GetMessageRetentionDuration())
}

func setExpiration(c *pubsubpb.Subscription) error {
	if c.GetExpirationPolicy() == nil {
		c.ExpirationPolicy = &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(defaultExpiration)}
	}
	if ttl := c.GetExpirationPolicy().GetTtl(); ttl != nil && (ttl.CheckValid() != nil || ttl.AsDuration() < minExpiration) {
		return invalid("Invalid expiration policy given (ttl=%s). The ttl must be at least 1 day.", ttl.AsDuration())
	}
	return nil
}

func setRetryPolicy(c *pubsubpb.Subscription) error {
	policy := c.GetRetryPolicy()
	if policy == nil {
		return nil
	}
	if policy.GetMinimumBackoff() == nil {
		policy.MinimumBackoff = durationpb.New(defaultMinimumBackoff)
	}
	if policy.GetMaximumBackoff() == nil {
		policy.MaximumBackoff = durationpb.New(defaultMaximumBackoff)
	}
	low, high := policy.GetMinimumBackoff(), policy.GetMaximumBackoff()
	for _, d := range []*durationpb.Duration{low, high} {
		if d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() > maxBackoff {
			return invalid("Invalid retry policy given: backoffs must be between 0 and 600 seconds, not %s.", d.AsDuration())
		}
	}
	if low.AsDuration() > high.AsDuration() {
		return invalid("Invalid retry policy given: the minimum backoff %s is above the maximum backoff %s.", low.AsDuration(), high.AsDuration())
	}
	return nil
}

func setDeadLetterPolicy(c *pubsubpb.Subscription) error {
	policy := c.GetDeadLetterPolicy()
	if policy == nil {
		return nil
	}
	if policy.GetDeadLetterTopic() == "" {
		return invalid("A dead letter policy needs a dead_letter_topic.")
	}
	if policy.GetDeadLetterTopic() != deletedTopic {
		if err := checkName(policy.GetDeadLetterTopic(), topicKind); err != nil {
			return err
		}
	}
	if policy.GetMaxDeliveryAttempts() == 0 {
		policy.MaxDeliveryAttempts = defaultAttempts
	}
	if policy.GetMaxDeliveryAttempts() < minAttempts || policy.GetMaxDeliveryAttempts() > maxAttempts {
		return invalid("The value for max_delivery_attempts is out of bounds. You passed %d in the request, but it must be between %d and %d.", policy.GetMaxDeliveryAttempts(), minAttempts, maxAttempts)
	}
	return nil
}

// apply copies the fields of a mask from wanted to changed, and refuses those
// that cannot be changed.
func apply(changed, wanted *pubsubpb.Subscription, paths []string) error {
	for _, path := range paths {
		switch path {
		case "ack_deadline_seconds":
			changed.AckDeadlineSeconds = wanted.GetAckDeadlineSeconds()
		case "retain_acked_messages":
			changed.RetainAckedMessages = wanted.GetRetainAckedMessages()
		case "message_retention_duration":
			changed.MessageRetentionDuration = wanted.GetMessageRetentionDuration()
		case "labels":
			changed.Labels = wanted.GetLabels()
		case "expiration_policy":
			changed.ExpirationPolicy = wanted.GetExpirationPolicy()
		case "dead_letter_policy":
			changed.DeadLetterPolicy = wanted.GetDeadLetterPolicy()
		case "retry_policy":
			changed.RetryPolicy = wanted.GetRetryPolicy()
		case "enable_exactly_once_delivery":
			changed.EnableExactlyOnceDelivery = wanted.GetEnableExactlyOnceDelivery()
		case "push_config":
			changed.PushConfig = wanted.GetPushConfig()
		case "bigquery_config", "cloud_storage_config", "bigtable_config", "message_transforms":
			return unserved(path + " of a subscription")
		default:
			return invalid("Invalid update_mask provided in the UpdateSubscriptionRequest: '%s' is not a known Subscription field or cannot be updated.", path)
		}
	}
	return nil
}
