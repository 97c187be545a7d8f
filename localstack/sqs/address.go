package sqs

import (
	"context"
	"net/url"
	"strings"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// arnPrefix starts the ARN of every queue.
const arnPrefix = "arn:aws:sqs:" + wire.Region + ":" + wire.Account + ":"

// defaultHost stands in queue URLs when nobody says under which address the
// cloud is known (calls that do not come over HTTP).
const defaultHost = "localcloud"

// urlOf is the address of a queue for whoever asks.
func urlOf(ctx context.Context, name string) string {
	host := wire.CallerOf(ctx).Host
	if host == "" {
		host = defaultHost
	}
	return "http://" + host + "/" + wire.Account + "/" + name
}

// find returns the queue with that URL. The host does not matter: a container
// and its owner know the same cloud under different names. The caller holds
// the lock.
func (s *Service) find(queueURL string) (*queue, error) {
	if queueURL == "" {
		return nil, missing("QueueUrl")
	}
	address, err := url.Parse(queueURL)
	if err != nil || address.Host == "" {
		return nil, refuse("InvalidAddress", "The address %s is not valid for this endpoint.", queueURL)
	}
	account, name, ok := strings.Cut(strings.Trim(address.Path, "/"), "/")
	if !ok || strings.Contains(name, "/") {
		return nil, refuse("InvalidAddress", "The address %s is not valid for this endpoint.", queueURL)
	}
	if account != wire.Account {
		return nil, noSuchQueue()
	}
	q, exists := s.queues[name]
	if !exists {
		return nil, noSuchQueue()
	}
	return q, nil
}

// byARN returns the queue with that ARN, or nil. The caller holds the lock.
func (s *Service) byARN(arn string) *queue {
	name, ours := strings.CutPrefix(arn, arnPrefix)
	if !ours {
		return nil
	}
	return s.queues[name]
}
