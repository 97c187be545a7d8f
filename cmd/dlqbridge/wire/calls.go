package wire

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
)

// CountCalls returns a configuration whose clients report each attempt of each
// request: the service's name, and ok, throttled or failed. A refused condition
// is an answer and counts as ok.
func CountCalls(c aws.Config, count func(service, result string)) aws.Config {
	c = c.Copy()
	c.APIOptions = append(c.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("dlqbridge:count", func(
			ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
		) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleDeserialize(ctx, in)
			result := "ok"
			switch wrapped := awserr.Wrap(err); {
			case err == nil, errors.Is(wrapped, dlqbridge.ErrConflict), errors.Is(wrapped, dlqbridge.ErrExists), errors.Is(wrapped, dlqbridge.ErrNotFound):
			case errors.Is(wrapped, dlqbridge.ErrThrottled):
				result = "throttled"
			default:
				result = "failed"
			}
			count(awsmiddleware.GetServiceID(ctx), result)
			return out, meta, err
		}), middleware.Before)
	})
	return c
}
