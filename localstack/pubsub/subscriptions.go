package pubsub

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// CreateSubscription implements pubsubpb.SubscriberServer.
func (s *Service) CreateSubscription(_ context.Context, in *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if err := known(in); err != nil {
		return nil, err
	}
	if err := checkName(in.GetTopic(), topicKind); err != nil {
		return nil, err
	}
	config, err := subscriptionSettings(in)
	if err != nil {
		return nil, err
	}
	if config.GetName() == "" {
		// The proto: the server assigns a name in the project of the topic.
		var random [8]byte
		rand.Read(random[:])
		config.Name = "projects/" + projectOf(in.GetTopic()) + "/subscriptions/s" + hex.EncodeToString(random[:])
	}
	if err := checkName(config.GetName(), subscriptionKind); err != nil {
		return nil, err
	}
	if in.GetDetached() {
		return nil, invalid("A subscription cannot be created detached.")
	}
	match, err := compileFilter(config.GetFilter())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tick()
	s.sweep(now)
	if _, exists := s.subscriptions[config.GetName()]; exists {
		return nil, alreadyExists(config.GetName())
	}
	t, exists := s.topics[in.GetTopic()]
	if !exists {
		return nil, notFound(in.GetTopic())
	}
	if err := s.checkDeadLetterTopic(config.GetDeadLetterPolicy()); err != nil {
		return nil, err
	}
	config.TopicMessageRetentionDuration = t.config.GetMessageRetentionDuration()
	sub := newSubscription(s, config, t, match, now)
	s.subscriptions[sub.name] = sub
	t.subscriptions[sub.name] = sub
	return config, nil
}

// checkDeadLetterTopic says whether the policy can be carried out (the proto:
// the operation fails if the topic does not exist).
func (s *Service) checkDeadLetterTopic(policy *pubsubpb.DeadLetterPolicy) error {
	if policy == nil {
		return nil
	}
	if _, exists := s.topics[policy.GetDeadLetterTopic()]; !exists {
		return notFound(policy.GetDeadLetterTopic())
	}
	return nil
}

// find gets a subscription that exists and has not expired.
func (s *Service) find(name string) (*subscription, error) {
	if err := checkName(name, subscriptionKind); err != nil {
		return nil, err
	}
	sub, exists := s.subscriptions[name]
	if exists && sub.expired(s.clock.Now()) {
		s.remove(sub)
		exists = false
	}
	if !exists {
		return nil, notFound(name)
	}
	return sub, nil
}

// GetSubscription implements pubsubpb.SubscriberServer.
func (s *Service) GetSubscription(_ context.Context, in *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	sub, err := s.find(in.GetSubscription())
	if err != nil {
		return nil, err
	}
	return sub.config, nil
}

// UpdateSubscription implements pubsubpb.SubscriberServer.
func (s *Service) UpdateSubscription(_ context.Context, in *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription, error) {
	if err := known(in); err != nil {
		return nil, err
	}
	paths := in.GetUpdateMask().GetPaths()
	if len(paths) == 0 {
		return nil, invalid("The update_mask in the UpdateSubscriptionRequest must be set, and must contain a non-empty paths list.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tick()
	sub, err := s.find(in.GetSubscription().GetName())
	if err != nil {
		return nil, err
	}
	changed := proto.Clone(sub.config).(*pubsubpb.Subscription)
	if err := apply(changed, in.GetSubscription(), paths); err != nil {
		return nil, err
	}
	changed, err = subscriptionSettings(changed)
	if err != nil {
		return nil, err
	}
	if slices.Contains(paths, "dead_letter_policy") {
		if err := s.checkDeadLetterTopic(changed.GetDeadLetterPolicy()); err != nil {
			return nil, err
		}
	}
	if sub.config.GetDeadLetterPolicy() != nil && changed.GetDeadLetterPolicy() == nil {
		sub.forgetAttempts()
	}
	sub.config = changed
	sub.active = now
	sub.expire(now)
	return changed, nil
}

// DeleteSubscription implements pubsubpb.SubscriberServer.
func (s *Service) DeleteSubscription(_ context.Context, in *pubsubpb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	sub, err := s.find(in.GetSubscription())
	if err != nil {
		return nil, err
	}
	s.remove(sub)
	return &emptypb.Empty{}, nil
}

// remove deletes a subscription and tells those who wait for it.
func (s *Service) remove(sub *subscription) {
	delete(s.subscriptions, sub.name)
	if sub.topic != nil {
		delete(sub.topic.subscriptions, sub.name)
	}
	sub.clear()
	sub.gone = true
	sub.notify()
}

// DetachSubscription implements pubsubpb.PublisherServer. What the
// subscription holds is dropped (the proto, Subscription.detached).
func (s *Service) DetachSubscription(_ context.Context, in *pubsubpb.DetachSubscriptionRequest) (*pubsubpb.DetachSubscriptionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	sub, err := s.find(in.GetSubscription())
	if err != nil {
		return nil, err
	}
	if sub.topic != nil {
		delete(sub.topic.subscriptions, sub.name)
		sub.topic = nil
	}
	sub.change(func(c *pubsubpb.Subscription) { c.Detached = true })
	sub.clear()
	sub.notify()
	return &pubsubpb.DetachSubscriptionResponse{}, nil
}

// ModifyPushConfig implements pubsubpb.SubscriberServer: only the empty
// configuration, which means pull, is served.
func (s *Service) ModifyPushConfig(_ context.Context, in *pubsubpb.ModifyPushConfigRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	if _, err := s.find(in.GetSubscription()); err != nil {
		return nil, err
	}
	if in.GetPushConfig() != nil && proto.Size(in.GetPushConfig()) > 0 {
		return nil, unserved("push_config of a subscription")
	}
	return &emptypb.Empty{}, nil
}

// ExactlyOnce says whether a subscription exists and delivers exactly once.
func (s *Service) ExactlyOnce(subscription string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, exists := s.subscriptions[subscription]
	return exists && sub.config.GetEnableExactlyOnceDelivery()
}
