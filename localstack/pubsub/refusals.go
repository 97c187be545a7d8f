package pubsub

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func notFound(name string) error {
	return status.Errorf(codes.NotFound, "Resource not found (resource=%s).", shortName(name))
}

func alreadyExists(name string) error {
	return status.Errorf(codes.AlreadyExists, "Resource already exists in the project (resource=%s).", shortName(name))
}

// unserved refuses what the real service would do and the local cloud cannot.
func unserved(what string) error {
	return status.Errorf(codes.Unimplemented, "The local cloud does not serve %s.", what)
}

// InvalidAckID is what exactly-once subscriptions say, per ack ID, of one that
// is expired or malformed (page "Exactly-once delivery").
const InvalidAckID = "PERMANENT_FAILURE_INVALID_ACK_ID"

// RefuseAcks is the answer to an acknowledgement or a change of deadlines of
// which some failed: by ack ID, what the clients read from the ErrorInfo.
func RefuseAcks(failed map[string]string) error {
	refusal := status.New(codes.InvalidArgument,
		"Some acknowledgement ids in the request were invalid. This could be because the acknowledgement ids have expired or the acknowledgement ids were malformed.")
	detailed, err := refusal.WithDetails(&errdetails.ErrorInfo{
		Reason: "EXACTLY_ONCE_ACKID_FAILURE", Domain: "pubsub.googleapis.com", Metadata: failed,
	})
	if err != nil {
		return refusal.Err() // still the refusal, with less in it
	}
	return detailed.Err()
}

// known refuses a request with fields that this version of the API does not
// know: a feature we do not have, and silence about it would be worse.
func known(request proto.Message) error {
	if field := unknownIn(request.ProtoReflect()); field != "" {
		return unserved(fmt.Sprintf("a field of %s that it does not know", field))
	}
	return nil
}

func unknownIn(m protoreflect.Message) (in protoreflect.FullName) {
	if len(m.GetUnknown()) > 0 {
		return m.Descriptor().FullName()
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() == nil {
				return true
			}
			value.Map().Range(func(_ protoreflect.MapKey, one protoreflect.Value) bool {
				in = unknownIn(one.Message())
				return in == ""
			})
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				if in = unknownIn(value.List().Get(i).Message()); in != "" {
					break
				}
			}
		default:
			in = unknownIn(value.Message())
		}
		return in == ""
	})
	return in
}
