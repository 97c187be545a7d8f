package wire

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
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

// CountRPCs is CountCalls for Pub/Sub. A connection that somebody else makes is
// not counted.
func CountRPCs(connect func(context.Context) (*gcppubsub.Client, error), count func(service, result string)) func(context.Context) (*gcppubsub.Client, error) {
	if connect != nil {
		return connect
	}
	return func(ctx context.Context) (*gcppubsub.Client, error) {
		return gcppubsub.NewClient(ctx, option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
		) error {
			err := invoke(ctx, method, in, out, conn, options...)
			result := "failed"
			switch status.Code(err) { //nolint:exhaustive // all others are failures
			case codes.OK, codes.NotFound, codes.AlreadyExists:
				result = "ok"
			case codes.ResourceExhausted:
				result = "throttled"
			case codes.DeadlineExceeded, codes.Canceled:
				if strings.HasSuffix(method, "/Pull") {
					result = "ok" // a pull is ended by us when its wait is over
				}
			default:
			}
			count("PubSub", result)
			return err
		})))
	}
}
