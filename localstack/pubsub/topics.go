package pubsub

import (
	"context"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// topic is where messages are published. The service's lock protects it.
type topic struct {
	config        *pubsubpb.Topic // replaced whole, never changed
	subscriptions map[string]*subscription
	retained      []*message // with a retention of its own: what can be sought, oldest first
}

func (t *topic) retention() time.Duration {
	return t.config.GetMessageRetentionDuration().AsDuration()
}

// expire forgets what the topic's own retention no longer covers.
func (t *topic) expire(now time.Time) {
	old := 0
	for old < len(t.retained) && !t.retained[old].published.Add(t.retention()).After(now) {
		t.retained[old] = nil
		old++
	}
	t.retained = t.retained[old:]
}

// CreateTopic implements pubsubpb.PublisherServer.
func (s *Service) CreateTopic(_ context.Context, in *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	if err := known(in); err != nil {
		return nil, err
	}
	if err := checkName(in.GetName(), topicKind); err != nil {
		return nil, err
	}
	config, err := topicSettings(in)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	if _, exists := s.topics[in.GetName()]; exists {
		return nil, alreadyExists(in.GetName())
	}
	s.topics[in.GetName()] = &topic{config: config, subscriptions: map[string]*subscription{}}
	return config, nil
}

// topicSettings checks what a topic is asked to be.
func topicSettings(in *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	switch {
	case in.GetKmsKeyName() != "":
		return nil, unserved("kms_key_name of a topic")
	case in.GetSchemaSettings() != nil:
		return nil, unserved("schema_settings of a topic")
	case in.GetIngestionDataSourceSettings() != nil:
		return nil, unserved("ingestion_data_source_settings of a topic")
	case len(in.GetMessageTransforms()) > 0:
		return nil, unserved("message_transforms of a topic")
	case len(in.GetTags()) > 0:
		return nil, unserved("tags of a topic")
	}
	if err := checkLabels(in.GetLabels()); err != nil {
		return nil, err
	}
	if policy := in.GetMessageStoragePolicy(); policy != nil && len(policy.GetAllowedPersistenceRegions()) == 0 {
		// The proto: an empty list is not a valid configuration.
		return nil, invalid("The message storage policy must allow at least one region.")
	}
	if in.GetMessageRetentionDuration() != nil {
		if err := checkRetention(in.GetMessageRetentionDuration()); err != nil {
			return nil, err
		}
	}
	config := proto.Clone(in).(*pubsubpb.Topic)
	config.State = pubsubpb.Topic_ACTIVE
	config.SatisfiesPzs = false // output only, ignored in requests
	return config, nil
}

// UpdateTopic implements pubsubpb.PublisherServer.
func (s *Service) UpdateTopic(_ context.Context, in *pubsubpb.UpdateTopicRequest) (*pubsubpb.Topic, error) {
	if err := known(in); err != nil {
		return nil, err
	}
	wanted := in.GetTopic()
	if err := checkName(wanted.GetName(), topicKind); err != nil {
		return nil, err
	}
	if len(in.GetUpdateMask().GetPaths()) == 0 {
		return nil, invalid("The update_mask in the UpdateTopicRequest must be set, and must contain a non-empty paths list.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tick()
	t, exists := s.topics[wanted.GetName()]
	if !exists {
		return nil, notFound(wanted.GetName())
	}
	changed := proto.Clone(t.config).(*pubsubpb.Topic)
	for _, path := range in.GetUpdateMask().GetPaths() {
		switch path {
		case "labels":
			changed.Labels = wanted.GetLabels()
		case "message_retention_duration":
			changed.MessageRetentionDuration = wanted.GetMessageRetentionDuration()
		case "message_storage_policy":
			changed.MessageStoragePolicy = wanted.GetMessageStoragePolicy()
		case "kms_key_name", "schema_settings", "ingestion_data_source_settings", "message_transforms":
			return nil, unserved(path + " of a topic")
		default:
			return nil, invalid("Invalid update_mask provided in the UpdateTopicRequest: '%s' is not a known Topic field or cannot be updated.", path)
		}
	}
	changed, err := topicSettings(changed)
	if err != nil {
		return nil, err
	}
	t.config = changed
	t.expire(now)
	for _, sub := range t.subscriptions {
		sub.change(func(c *pubsubpb.Subscription) {
			c.TopicMessageRetentionDuration = changed.GetMessageRetentionDuration()
		})
	}
	return changed, nil
}

// GetTopic implements pubsubpb.PublisherServer.
func (s *Service) GetTopic(_ context.Context, in *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	if err := checkName(in.GetTopic(), topicKind); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	t, exists := s.topics[in.GetTopic()]
	if !exists {
		return nil, notFound(in.GetTopic())
	}
	return t.config, nil
}

// DeleteTopic implements pubsubpb.PublisherServer. The subscriptions stay,
// with what they hold (the proto, Publisher.DeleteTopic).
func (s *Service) DeleteTopic(_ context.Context, in *pubsubpb.DeleteTopicRequest) (*emptypb.Empty, error) {
	if err := checkName(in.GetTopic(), topicKind); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	t, exists := s.topics[in.GetTopic()]
	if !exists {
		return nil, notFound(in.GetTopic())
	}
	delete(s.topics, in.GetTopic())
	for _, sub := range t.subscriptions {
		sub.topic = nil
		sub.change(func(c *pubsubpb.Subscription) {
			c.Topic = deletedTopic
			c.TopicMessageRetentionDuration = nil
		})
	}
	for _, sub := range s.subscriptions {
		if sub.config.GetDeadLetterPolicy().GetDeadLetterTopic() == in.GetTopic() {
			// A topic that is made again under the name is another one.
			sub.change(func(c *pubsubpb.Subscription) { c.DeadLetterPolicy.DeadLetterTopic = deletedTopic })
		}
	}
	return &emptypb.Empty{}, nil
}
