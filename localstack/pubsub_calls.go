package localstack

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/dlqbridge/dlqbridge/localstack/pubsub"
)

const pubsubName = "pubsub"

// serveRPC carries out a unary call, with whatever faults were ordered, and
// writes the recording.
func (c *Cloud) serveRPC(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if !c.enter() {
		return nil, closedRPC()
	}
	defer c.calls.Done()
	ctx, cancel := c.during(ctx)
	defer cancel()
	in := rpc{
		operation: operationOf(info.FullMethod), request: request.(proto.Message), handler: handler,
		body: jsonOf(request.(proto.Message)), after: c.record.seen(),
	}
	done := c.carryOutRPC(ctx, in)
	if c.ctx.Err() != nil && status.Code(done.err) == codes.Canceled {
		done.err = closedRPC()
	}
	recorded := Request{After: in.after, At: c.clock.Now(), Service: pubsubName, Operation: in.operation, Request: in.body, Fault: done.fault}
	switch {
	case done.err != nil:
		recorded.Status, recorded.Response = refusalJSON(done.err)
	case done.response != nil:
		recorded.Status, recorded.Response = http.StatusOK, jsonOf(done.response)
	}
	c.record.add(recorded)
	if done.cut {
		return nil, cutRPC()
	}
	return done.response, done.err
}

// rpc is one unary call on its way through the cloud.
type rpc struct {
	operation string
	request   proto.Message
	handler   grpc.UnaryHandler
	body      []byte
	after     int64
}

// rpcOutcome is what a call came to; neither response nor error if it was not
// carried out.
type rpcOutcome struct {
	response proto.Message
	err      error
	fault    string
	cut      bool
}

func (in rpc) ask(ctx context.Context, request proto.Message) rpcOutcome {
	response, err := in.handler(ctx, request)
	if err != nil {
		return rpcOutcome{err: err}
	}
	return rpcOutcome{response: response.(proto.Message)}
}

func (c *Cloud) carryOutRPC(ctx context.Context, in rpc) rpcOutcome {
	fault, wait := c.pickRPC(in.operation, in.request, in.body, func(f *Fault) bool {
		acks, ok := in.request.(*pubsubpb.AcknowledgeRequest)
		return f.Do != DoFailAck || (ok && c.fails(f, acks.GetSubscription(), acks.GetAckIds()))
	})
	if wait > 0 && c.clock.Wait(ctx, c.clock.Now().Add(wait), nil) != nil {
		return rpcOutcome{cut: true, fault: DoDelay}
	}
	var done rpcOutcome
	switch {
	case fault == nil && wait > 0:
		done = in.ask(ctx, in.request)
		done.fault = DoDelay
		return done
	case fault == nil:
		return in.ask(ctx, in.request)
	}
	switch fault.Do {
	case DoError, DoThrottle:
		done.err = rpcError(fault)
	case DoEmpty:
		done.response = &pubsubpb.PullResponse{}
	case DoFailAck:
		done = c.failAck(ctx, in, fault)
	case DoDropAfter:
		done = in.ask(ctx, in.request)
		done.cut = true
	case DoDropBefore:
		done.cut = true
	case DoBlackHole:
		<-ctx.Done()
		done.cut = true
	}
	done.fault = fault.Do
	return done
}

// pickRPC finds the rule for a call. What a rule looks for in a request is
// looked for in its JSON, in the data of its messages as they are, and, where
// it is about ack IDs, in the messages they stand for.
func (c *Cloud) pickRPC(operation string, request proto.Message, body []byte, applies func(*Fault) bool) (*Fault, time.Duration) {
	if c.faults.none() {
		return nil, 0
	}
	var more []byte
	switch r := request.(type) {
	case *pubsubpb.PublishRequest:
		for _, m := range r.GetMessages() {
			more = append(append(more, '\n'), m.GetData()...)
		}
	case *pubsubpb.AcknowledgeRequest:
		more = c.contents(r.GetSubscription(), r.GetAckIds())
	case *pubsubpb.ModifyAckDeadlineRequest:
		more = c.contents(r.GetSubscription(), r.GetAckIds())
	}
	text := body
	if len(more) > 0 {
		text = slices.Concat(body, more)
	}
	return c.faults.pick(pubsubName, operation, text, applies)
}

func (c *Cloud) contents(subscription string, ids []string) []byte {
	var all []byte
	for _, id := range ids {
		message, data := c.rpc.service.Content(subscription, id)
		all = append(append(all, "\n"+message+"\n"...), data...)
	}
	return all
}

// failing chooses the ack IDs that a rule lets fail: its entries or, if it
// looks for a text, those of the messages that have it. It may be a message's
// whole ID too.
func (c *Cloud) failing(f *Fault, subscription string, ids []string) (kept, failed []string) {
	narrow := f.Contains != "" && f.Entries.all()
	for position, id := range ids {
		hit := f.Entries.chosen(position, len(ids))
		if narrow {
			message, data := c.rpc.service.Content(subscription, id)
			hit = id == f.Contains || message == f.Contains || bytes.Contains(data, []byte(f.Contains))
		}
		if hit {
			failed = append(failed, id)
		} else {
			kept = append(kept, id)
		}
	}
	return kept, failed
}

// fails says whether a rule is about any of the ack IDs.
func (c *Cloud) fails(f *Fault, subscription string, ids []string) bool {
	_, failed := c.failing(f, subscription, ids)
	return len(failed) > 0
}

// failAck carries out an acknowledgement without the chosen ack IDs. Only an
// exactly-once subscription tells; the others answer as if all were well.
func (c *Cloud) failAck(ctx context.Context, in rpc, f *Fault) rpcOutcome {
	request := in.request.(*pubsubpb.AcknowledgeRequest)
	kept, failed := c.failing(f, request.GetSubscription(), request.GetAckIds())
	done := rpcOutcome{response: &emptypb.Empty{}}
	if len(kept) > 0 {
		done = in.ask(ctx, &pubsubpb.AcknowledgeRequest{Subscription: request.GetSubscription(), AckIds: kept})
	}
	if len(failed) == 0 || !c.rpc.service.ExactlyOnce(request.GetSubscription()) {
		return done
	}
	reason := f.Code
	if reason == "" {
		reason = pubsub.InvalidAckID
	}
	all := map[string]string{}
	for _, id := range failed {
		all[id] = reason
	}
	if done.err != nil {
		own := ackFailures(done.err)
		if own == nil {
			return done // refused as a whole
		}
		maps.Copy(all, own)
	}
	return rpcOutcome{err: pubsub.RefuseAcks(all)}
}

// ackFailures reads what a refusal says about single ack IDs.
func ackFailures(err error) map[string]string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetMetadata()
		}
	}
	return nil
}

// cutRPC is what a client is told of a connection that ends without an
// answer. Only the one call meets it: others that share the connection would
// be faults that nobody ordered.
func cutRPC() error {
	return status.Error(codes.Unavailable, "error reading from server: EOF: "+ErrCut.Error())
}

// rpcError is the refusal that a rule asks for.
func rpcError(f *Fault) error {
	message := f.Message
	if f.Do == DoThrottle {
		if message == "" {
			message = "Quota exceeded for quota metric and limit of the local cloud."
		}
		refusal, err := status.New(codes.ResourceExhausted, message).WithDetails(
			&errdetails.ErrorInfo{Reason: "RATE_LIMIT_EXCEEDED", Domain: "googleapis.com", Metadata: map[string]string{"service": "pubsub.googleapis.com"}})
		if err != nil {
			return status.Error(codes.ResourceExhausted, message)
		}
		return refusal.Err()
	}
	if message == "" {
		message = "A fault that was ordered from the local cloud."
	}
	code, known := codeNamed(f.Code)
	if !known {
		code = codes.Internal
	}
	return status.Error(code, message)
}

// codeNamed reads the name of a gRPC error, such as "NOT_FOUND".
func codeNamed(name string) (codes.Code, bool) {
	var code codes.Code
	if name == "" || code.UnmarshalJSON([]byte(`"`+name+`"`)) != nil || code == codes.OK {
		return 0, false
	}
	return code, true
}

// statusNames are the gRPC errors as they are written, and the HTTP status of
// each (google/rpc/code.proto).
var statusNames = map[codes.Code]struct {
	name string
	http int
}{
	codes.Canceled:           {"CANCELLED", 499},
	codes.Unknown:            {"UNKNOWN", 500},
	codes.InvalidArgument:    {"INVALID_ARGUMENT", 400},
	codes.DeadlineExceeded:   {"DEADLINE_EXCEEDED", 504},
	codes.NotFound:           {"NOT_FOUND", 404},
	codes.AlreadyExists:      {"ALREADY_EXISTS", 409},
	codes.PermissionDenied:   {"PERMISSION_DENIED", 403},
	codes.ResourceExhausted:  {"RESOURCE_EXHAUSTED", 429},
	codes.FailedPrecondition: {"FAILED_PRECONDITION", 400},
	codes.Aborted:            {"ABORTED", 409},
	codes.OutOfRange:         {"OUT_OF_RANGE", 400},
	codes.Unimplemented:      {"UNIMPLEMENTED", 501},
	codes.Internal:           {"INTERNAL", 500},
	codes.Unavailable:        {"UNAVAILABLE", 503},
	codes.DataLoss:           {"DATA_LOSS", 500},
	codes.Unauthenticated:    {"UNAUTHENTICATED", 401},
}

// codeNames are the names of all gRPC errors.
func codeNames() []string {
	names := make([]string, 0, len(statusNames))
	for _, one := range statusNames {
		names = append(names, one.name)
	}
	slices.Sort(names)
	return names
}

// refusalJSON words a refusal as the service does over HTTP.
func refusalJSON(err error) (int, []byte) {
	refusal := status.Convert(err)
	name := statusNames[refusal.Code()]
	body, err := json.Marshal(map[string]any{"error": map[string]any{"code": name.http, "message": refusal.Message(), "status": name.name}})
	if err != nil {
		panic(err) // numbers and strings
	}
	return name.http, body
}

// jsonOf is a message in the JSON of the service's HTTP interface.
func jsonOf(m proto.Message) []byte {
	text, err := protojson.Marshal(m)
	if err != nil {
		// Only texts that are no UTF-8, and gRPC lets none of those through.
		return nil
	}
	return compact(text)
}

// compact takes the spaces between the tokens of a JSON text out, in place.
// Go's encoder puts some in at random so that nobody depends on its bytes; a
// fault looks for texts in them. It jumps over strings, which are nearly all
// of such a text, where json.Compact looks at each byte.
func compact(text []byte) []byte {
	out := text[:0]
	for len(text) > 0 {
		quote := bytes.IndexByte(text, '"')
		if quote < 0 {
			quote = len(text)
		}
		for _, c := range text[:quote] {
			if c != ' ' && c != '\n' {
				out = append(out, c)
			}
		}
		end := min(quote+1, len(text))
		for end < len(text) {
			next := bytes.IndexByte(text[end:], '"')
			if next < 0 {
				end = len(text)
				break
			}
			end += next + 1
			if !escaped(text[quote+1 : end-1]) {
				break
			}
		}
		out = append(out, text[quote:end]...)
		text = text[end:]
	}
	return out
}

// escaped says whether a quote after the text is part of the string: behind
// an odd number of backslashes.
func escaped(before []byte) bool {
	n := 0
	for n < len(before) && before[len(before)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// statusOf is the HTTP status of a gRPC error by name; 0 if there is none.
func statusOf(name string) int {
	code, _ := codeNamed(name)
	return statusNames[code].http
}
