package awssqs

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
)

// QueueFacts is how a queue is set up, for those who check a configuration.
type QueueFacts struct {
	URL, ARN string
	FIFO     bool
	// Retention is how long the queue keeps a message; a dead-letter queue's
	// should be longer than its source's, since a standard queue's clock runs
	// on through the move.
	Retention time.Duration
	// Visibility is how long a received message is hidden; Delay how long a
	// sent one is, at first.
	Visibility, Delay time.Duration
	// MaxBytes is the queue's own limit for one message.
	MaxBytes int
	// DeadLetterPlace and MaxReceives are its redrive policy; empty and 0
	// without one.
	DeadLetterPlace string
	MaxReceives     int
	// AllowPermission is its redrive allow policy ("allowAll", "denyAll",
	// "byQueue"; empty without one), AllowedSources the ARNs of "byQueue".
	AllowPermission string
	AllowedSources  []string
	// SourceURLs are the queues that name this one as their dead-letter queue.
	// SourcesErr says why they could not be listed, such as a missing right.
	SourceURLs []string
	SourcesErr error
	// KMSKey is the key it is encrypted under; empty without a key of KMS.
	KMSKey string
	// ContentDedup: a FIFO queue that deduplicates by content if a send has no id.
	ContentDedup bool
	Depth        dlqbridge.Depth
}

// Inspect reads how a queue is set up: dlqbridge.ErrNotFound, ErrDenied. That
// its sources cannot be listed is no error, see QueueFacts.
func Inspect(ctx context.Context, o Options) (QueueFacts, error) {
	o, err := o.withDefaults()
	if err != nil {
		return QueueFacts{}, err
	}
	q, err := find(ctx, o)
	if err != nil {
		return QueueFacts{}, err
	}
	a := q.attributes
	facts := QueueFacts{
		URL:          q.url,
		ARN:          q.arn,
		FIFO:         a.fifo(),
		Retention:    a.seconds(types.QueueAttributeNameMessageRetentionPeriod),
		Visibility:   a.seconds(types.QueueAttributeNameVisibilityTimeout),
		Delay:        a.seconds(types.QueueAttributeNameDelaySeconds),
		MaxBytes:     int(a.number(types.QueueAttributeNameMaximumMessageSize)),
		KMSKey:       a.text(types.QueueAttributeNameKmsMasterKeyId),
		ContentDedup: a.is(types.QueueAttributeNameContentBasedDeduplication),
		Depth:        a.depth(),
	}
	facts.DeadLetterPlace, facts.MaxReceives = a.redrivePolicy()
	facts.AllowPermission, facts.AllowedSources = a.allowPolicy()
	facts.SourceURLs, facts.SourcesErr = sources(ctx, o, q)
	return facts, nil
}

func sources(ctx context.Context, o Options, q queue) ([]string, error) {
	var urls []string
	in := &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &q.url, MaxResults: aws.Int32(maxSourcesPage)}
	for {
		out, err := ask(ctx, o, in, o.Client.ListDeadLetterSourceQueues)
		if err != nil {
			return nil, fmt.Errorf("list the sources of %s: %w", q.arn, err)
		}
		urls = append(urls, out.QueueUrls...)
		if aws.ToString(out.NextToken) == "" {
			return urls, nil
		}
		in.NextToken = out.NextToken
	}
}
