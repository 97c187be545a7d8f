package awssqs

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dlqbridge/dlqbridge"
)

// queue is a queue's address with its attributes as last read.
type queue struct {
	url, arn   string
	attributes attributes
}

// find resolves a name, URL or ARN and reads the queue's attributes, which
// alone say what kind of queue it is.
func find(ctx context.Context, o Options) (queue, error) {
	url, err := resolve(ctx, o)
	if err != nil {
		return queue{}, fmt.Errorf("find queue %s: %w", o.Queue, err)
	}
	q := queue{url: url}
	if q.attributes, err = read(ctx, o, url); err != nil {
		return queue{}, fmt.Errorf("read attributes of queue %s: %w", o.Queue, err)
	}
	q.arn = q.attributes.text(types.QueueAttributeNameQueueArn)
	if strings.HasPrefix(o.Queue, "arn:") && q.arn != o.Queue {
		// A client of another region finds a queue of the same name there.
		return queue{}, fmt.Errorf("find queue %s: %w: the client finds %s, which is another queue", o.Queue, dlqbridge.ErrInvalid, q.arn)
	}
	return q, nil
}

func resolve(ctx context.Context, o Options) (url string, err error) {
	in := &sqs.GetQueueUrlInput{QueueName: &o.Queue}
	switch {
	case strings.Contains(o.Queue, "://"):
		return o.Queue, nil
	case strings.HasPrefix(o.Queue, "arn:"):
		// arn:partition:sqs:region:account:name
		part := strings.Split(o.Queue, ":")
		if len(part) != 6 || part[2] != "sqs" || part[4] == "" || part[5] == "" {
			return "", fmt.Errorf("%w: not the ARN of an SQS queue", dlqbridge.ErrInvalid)
		}
		in = &sqs.GetQueueUrlInput{QueueName: &part[5], QueueOwnerAWSAccountId: &part[4]}
	}
	out, err := ask(ctx, o, in, o.Client.GetQueueUrl)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.QueueUrl), nil
}

// read asks for all attributes: a request that names one which the kind of
// queue does not have is refused.
func read(ctx context.Context, o Options, url string) (attributes, error) {
	out, err := ask(ctx, o, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	}, o.Client.GetQueueAttributes)
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// attributes are a queue's, by the service's names.
type attributes map[string]string

func (a attributes) text(name types.QueueAttributeName) string { return a[string(name)] }

func (a attributes) is(name types.QueueAttributeName) bool { return a.text(name) == "true" }

// number is 0 for what is absent or no number: unknown.
func (a attributes) number(name types.QueueAttributeName) int64 {
	n, _ := strconv.ParseInt(a.text(name), 10, 64)
	return n
}

func (a attributes) seconds(name types.QueueAttributeName) time.Duration {
	return time.Duration(a.number(name)) * time.Second
}

func (a attributes) fifo() bool { return a.is(types.QueueAttributeNameFifoQueue) }

func (a attributes) depth() dlqbridge.Depth {
	return dlqbridge.Depth{
		Visible:       a.number(types.QueueAttributeNameApproximateNumberOfMessages),
		InFlight:      a.number(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
		Delayed:       a.number(types.QueueAttributeNameApproximateNumberOfMessagesDelayed),
		InFlightLimit: MaxInFlight,
	}
}

// redrivePolicy is where failures go; zero where there is no policy. The
// service gives the count as a number or as a text, as it was set.
func (a attributes) redrivePolicy() (target string, maxReceives int) {
	var p struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"`
	}
	if json.Unmarshal([]byte(a.text(types.QueueAttributeNameRedrivePolicy)), &p) != nil {
		return "", 0
	}
	maxReceives, _ = strconv.Atoi(strings.Trim(string(p.Max), `"`))
	return p.Target, maxReceives
}

// allowPolicy says which queues may name this one as their dead-letter queue.
func (a attributes) allowPolicy() (permission string, sources []string) {
	var p struct {
		Permission string   `json:"redrivePermission"`
		Sources    []string `json:"sourceQueueArns"`
	}
	if json.Unmarshal([]byte(a.text(types.QueueAttributeNameRedriveAllowPolicy)), &p) != nil {
		return "", nil
	}
	return p.Permission, p.Sources
}
