package pubsub

import (
	"maps"
	"strconv"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// What the service adds to a message that it forwards to a dead-letter topic
// (page "Handle message failures"). The last is added by push and export
// subscriptions only, which are not served here.
const (
	deadLetterCount       = "CloudPubSubDeadLetterSourceDeliveryCount"
	deadLetterSource      = "CloudPubSubDeadLetterSourceSubscription"
	deadLetterProject     = "CloudPubSubDeadLetterSourceSubscriptionProject"
	deadLetterPublishTime = "CloudPubSubDeadLetterSourceTopicPublishTime"
	deadLetterTime        = "2006-01-02T15:04:05.000-07:00" // an offset, never Z
)

// forward publishes a message to the subscription's dead-letter topic as a new
// message; false if there is no such topic any more. The size of attributes
// is not checked: what was published once must not be lost for a few more.
func (s *Service) forward(sub *subscription, d *delivery, at time.Time) bool {
	t, exists := s.topics[sub.config.GetDeadLetterPolicy().GetDeadLetterTopic()]
	if !exists {
		return false
	}
	attributes := maps.Clone(d.proto.GetAttributes())
	if attributes == nil {
		attributes = map[string]string{}
	}
	attributes[deadLetterCount] = strconv.Itoa(d.attempts)
	attributes[deadLetterSource] = shortName(sub.name)
	attributes[deadLetterProject] = projectOf(sub.name)
	attributes[deadLetterPublishTime] = d.published.Format(deadLetterTime)
	s.publish(t, &pubsubpb.PubsubMessage{Data: d.proto.GetData(), Attributes: attributes, OrderingKey: d.proto.GetOrderingKey()}, at)
	return true
}
