package gcppubsub

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/dlqbridge/dlqbridge"
)

// typeString is the type of every attribute here.
const typeString = "String"

// What the service adds to a message that it forwards to a dead-letter topic
// (page "Handle message failures", read 2026-11-30).
const (
	sourcePrefix       = "CloudPubSubDeadLetterSource"
	sourceDeliveries   = sourcePrefix + "DeliveryCount"
	sourceSubscription = sourcePrefix + "Subscription"
	sourceProject      = sourcePrefix + "SubscriptionProject"
	sourcePublished    = sourcePrefix + "TopicPublishTime"
)

// reservedPrefix begins names that no producer may use (page "Use attributes
// to publish a message", read 2026-11-30).
const reservedPrefix = "goog"

// Names in Letter.System of what is no attribute, as the API's JSON spells them.
const (
	systemMessageID = "messageId"
	systemPublished = "publishTime"
	systemAttempt   = "deliveryAttempt"
)

// isService says whether an attribute is the service's or a client library's
// own and not the user's. Names are compared exactly: goods is the user's.
func isService(name string) bool {
	return strings.HasPrefix(name, sourcePrefix) || strings.HasPrefix(name, reservedPrefix)
}

// letterOf maps a received message. It never fails: whatever the service hands
// over becomes a letter, and what it does not say stays unknown.
func letterOf(m *pubsubpb.ReceivedMessage, place string, retention time.Duration) dlqbridge.Letter {
	message := m.GetMessage()
	l := dlqbridge.Letter{
		Provider:  dlqbridge.PubSub,
		Place:     place,
		MessageID: message.GetMessageId(),
		Payload:   dlqbridge.Payload{Body: message.GetData(), GroupKey: message.GetOrderingKey()},
		System:    map[string]string{systemMessageID: message.GetMessageId()},
		Receipt:   m.GetAckId(),
	}
	for name, value := range message.GetAttributes() {
		if isService(name) {
			l.System[name] = value
		} else {
			l.Payload.Attributes = append(l.Payload.Attributes, dlqbridge.Attribute{Name: name, Type: typeString, Value: []byte(value)})
		}
	}
	l.Payload.Normalize()
	l.Source = sourceOf(l.System)
	l.Deliveries = deliveriesOf(l.System)
	if t := message.GetPublishTime(); t.IsValid() {
		published := t.AsTime()
		l.System[systemPublished] = published.Format(time.RFC3339Nano)
		l.SentAt = published
		// The subscription's clock runs from the publishing of the forwarded
		// message, not of the first one (the proto,
		// Subscription.message_retention_duration). Worked: forwarded 6 d 23 h
		// ago, retention 7 d: lost in an hour.
		if retention > 0 {
			l.LostAt = published.Add(retention)
		}
	}
	if first, ok := publishedOf(l.System); ok {
		l.SentAt = first
	}
	// Zero says that the subscription has no dead-letter policy of its own, so
	// that nobody counts (C58).
	if n := m.GetDeliveryAttempt(); n > 0 {
		l.System[systemAttempt] = strconv.Itoa(int(n))
	}
	return l
}

// sourceOf is the full name of the subscription that gave the message up; empty
// if the service does not say, or not in its own form.
func sourceOf(system map[string]string) string {
	name, project := system[sourceSubscription], system[sourceProject]
	if strings.Contains(name, "/") || project == "" {
		return "" // the service gives the short name and the project apart
	}
	full, err := fullName(name, project, subscriptionKind)
	if err != nil {
		return ""
	}
	return full
}

// deliveriesOf is how often the source tried; what is absent or no count is
// unknown, never 0.
func deliveriesOf(system map[string]string) *int {
	n, err := strconv.Atoi(system[sourceDeliveries])
	if err != nil || n < 1 {
		return nil
	}
	return &n
}

// publishedTime is how the service writes the time of the first publishing:
// with an offset and not with Z (2022-08-12T15:56:29.732+00:00). Others that
// RFC 3339 allows are read too, but nothing looser: the time is part of what a
// letter without task id is known by.
var publishedTime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$`)

func publishedOf(system map[string]string) (time.Time, bool) {
	text := system[sourcePublished]
	if !publishedTime.MatchString(text) {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UTC(), err == nil && t.Year() > 0
}

// messageOf maps a message to send: the user's bytes, attributes and key,
// without what is the service's, and with the short name of the subscription
// it is meant for, if there is one and a place for it.
func messageOf(o dlqbridge.Outgoing, to string) *pubsubpb.PubsubMessage {
	m := &pubsubpb.PubsubMessage{Data: o.Payload.Body, OrderingKey: o.Payload.GroupKey}
	attributes := userAttributes(o.Payload)
	// The user's own hundredth attribute goes before ours.
	if to != "" && len(attributes) < MaxAttributes {
		attributes = append(attributes, dlqbridge.Attribute{Name: dlqbridge.MarkToName, Value: []byte(to)})
	}
	if len(attributes) > 0 {
		m.Attributes = make(map[string]string, len(attributes))
	}
	for _, a := range attributes {
		m.Attributes[a.Name] = string(a.Value)
	}
	return m
}

// userAttributes leaves out what is the service's, and our own
// agent.redrive.to of an earlier redrive.
func userAttributes(p dlqbridge.Payload) []dlqbridge.Attribute {
	return slices.DeleteFunc(slices.Clone(p.Attributes), func(a dlqbridge.Attribute) bool {
		return isService(a.Name) || a.Name == dlqbridge.MarkToName
	})
}
