package pubsub

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// Pages have up to so many entries where a request does not say, and never
// more than the second (the reference does not say; nobody may rely on more).
const (
	defaultPage = 100
	maxPage     = 1000
)

// page cuts a page out of names in their order.
func page(names []string, size int32, token string) (cut []string, next string, err error) {
	switch {
	case size < 0:
		return nil, "", invalid("Invalid page size given (page_size=%d).", size)
	case size == 0:
		size = defaultPage
	case size > maxPage:
		size = maxPage
	}
	slices.Sort(names)
	if token != "" {
		last, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || !strings.HasPrefix(string(last), "projects/") {
			return nil, "", invalid("Invalid page token given (page_token=%s).", token)
		}
		at, found := slices.BinarySearch(names, string(last))
		if found {
			at++
		}
		names = names[at:]
	}
	if len(names) > int(size) {
		names = names[:size]
		next = base64.RawURLEncoding.EncodeToString([]byte(names[size-1]))
	}
	return names, next, nil
}

// within gives the names that belong to a project.
func within[R any](all map[string]R, project string) []string {
	names := []string{}
	for name := range all {
		if strings.HasPrefix(name, project+"/") {
			names = append(names, name)
		}
	}
	return names
}

// ListTopics implements pubsubpb.PublisherServer.
func (s *Service) ListTopics(_ context.Context, in *pubsubpb.ListTopicsRequest) (*pubsubpb.ListTopicsResponse, error) {
	if err := checkProject(in.GetProject()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	names, next, err := page(within(s.topics, in.GetProject()), in.GetPageSize(), in.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &pubsubpb.ListTopicsResponse{NextPageToken: next}
	for _, name := range names {
		out.Topics = append(out.Topics, s.topics[name].config)
	}
	return out, nil
}

// ListTopicSubscriptions implements pubsubpb.PublisherServer. Detached
// subscriptions are no longer attached, so they are not in it.
func (s *Service) ListTopicSubscriptions(_ context.Context, in *pubsubpb.ListTopicSubscriptionsRequest) (*pubsubpb.ListTopicSubscriptionsResponse, error) {
	if err := checkName(in.GetTopic(), topicKind); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(s.tick())
	t, exists := s.topics[in.GetTopic()]
	if !exists {
		return nil, notFound(in.GetTopic())
	}
	names, next, err := page(slices.Collect(maps.Keys(t.subscriptions)), in.GetPageSize(), in.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &pubsubpb.ListTopicSubscriptionsResponse{Subscriptions: names, NextPageToken: next}, nil
}

// ListSubscriptions implements pubsubpb.SubscriberServer.
func (s *Service) ListSubscriptions(_ context.Context, in *pubsubpb.ListSubscriptionsRequest) (*pubsubpb.ListSubscriptionsResponse, error) {
	if err := checkProject(in.GetProject()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(s.tick())
	names, next, err := page(within(s.subscriptions, in.GetProject()), in.GetPageSize(), in.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &pubsubpb.ListSubscriptionsResponse{NextPageToken: next}
	for _, name := range names {
		out.Subscriptions = append(out.Subscriptions, s.subscriptions[name].config)
	}
	return out, nil
}

// sweep deletes the subscriptions that nobody used for as long as their
// expiration policy says.
func (s *Service) sweep(now time.Time) {
	for _, sub := range s.subscriptions {
		if sub.expired(now) {
			s.remove(sub)
		}
	}
}
