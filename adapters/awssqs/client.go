package awssqs

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Client is what this package uses of *sqs.Client. Calls may be concurrent.
type Client interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	ListDeadLetterSourceQueues(context.Context, *sqs.ListDeadLetterSourceQueuesInput, ...func(*sqs.Options)) (*sqs.ListDeadLetterSourceQueuesOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
}

var _ Client = (*sqs.Client)(nil)

// Options say which queue and how to talk to it.
type Options struct {
	// Client reaches the queue's region. Required.
	Client Client
	// Queue is a queue's name, URL or ARN; an ARN may be of another account.
	// Required.
	Queue string
	// Retry is how calls are tried again; the zero value is a good one. Without
	// a Renew, that of the client's own credentials provider is used.
	Retry retry.Policy
	// CallTimeout bounds one request, besides what a receive waits for
	// messages; zero means DefaultCallTimeout.
	CallTimeout time.Duration
	// Now tells the time; nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Client == nil:
		return o, fmt.Errorf("%w: Options.Client is not set", dlqbridge.ErrInvalid)
	case o.Queue == "":
		return o, fmt.Errorf("%w: Options.Queue is not set", dlqbridge.ErrInvalid)
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the clock where none was given
	}
	if o.Retry.Renew == nil {
		if c, ok := o.Client.(interface{ Options() sqs.Options }); ok {
			o.Retry.Renew = awserr.Renew(c.Options().Credentials)
		}
	}
	return o, nil
}

// once switches the SDK's own retries off: they report the last attempt only,
// and an earlier one may have been carried out.
func once(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }

// call makes one bounded request and gives its error a meaning.
func call[In, Out any](ctx context.Context, timeout time.Duration, in In, do func(context.Context, In, ...func(*sqs.Options)) (Out, error)) (Out, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := do(ctx, in, once)
	return out, awserr.Wrap(err)
}

// ask is call for requests that only read: they are tried again.
func ask[In, Out any](ctx context.Context, o Options, in In, do func(context.Context, In, ...func(*sqs.Options)) (Out, error)) (out Out, err error) {
	p := o.Retry
	p.Repeatable = true
	err = retry.Do(ctx, p, func(ctx context.Context) (err error) {
		out, err = call(ctx, o.CallTimeout, in, do)
		return err
	})
	return out, err
}
