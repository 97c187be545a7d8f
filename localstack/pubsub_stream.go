package localstack

import (
	"context"
	"net/http"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serveStream lets a streaming pull run with the recording and the faults in
// between. The recording has an entry for each thing that either side says;
// keep-alives are left out.
func (c *Cloud) serveStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !c.enter() {
		return closedRPC()
	}
	defer c.calls.Done()
	ctx, cancel := c.during(stream.Context())
	defer cancel()
	err := handler(service, &watchedStream{ServerStream: stream, cloud: c, ctx: ctx, operation: operationOf(info.FullMethod)})
	if c.ctx.Err() != nil && status.Code(err) == codes.Canceled {
		return closedRPC()
	}
	return err
}

// watchedStream is a streaming pull as the door sees it.
type watchedStream struct {
	grpc.ServerStream

	cloud        *Cloud
	ctx          context.Context //nolint:containedctx // the life of the stream, as in grpc.ServerStream
	operation    string
	opened       bool
	subscription string
}

// Context implements grpc.ServerStream.
func (w *watchedStream) Context() context.Context { return w.ctx }

// RecvMsg implements grpc.ServerStream.
func (w *watchedStream) RecvMsg(m any) error {
	if err := w.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	request, ok := m.(*pubsubpb.StreamingPullRequest)
	if !ok {
		return nil
	}
	after := w.cloud.record.seen()
	if w.opened && len(request.GetAckIds()) == 0 && len(request.GetModifyDeadlineAckIds()) == 0 {
		return nil
	}
	body := jsonOf(request)
	fault, err := w.meet(request, body)
	recorded := Request{After: after, At: w.cloud.clock.Now(), Service: pubsubName, Operation: w.operation, Request: body, Fault: fault}
	switch {
	case err == nil:
		recorded.Status = http.StatusOK
	case fault == DoError || fault == DoThrottle:
		recorded.Status, recorded.Response = refusalJSON(err)
	}
	w.cloud.record.add(recorded)
	return err
}

// meet does to a request on the stream what was ordered: to the one that opens
// the stream what ends it, to later ones that acknowledgements fail.
func (w *watchedStream) meet(request *pubsubpb.StreamingPullRequest, body []byte) (done string, err error) {
	c := w.cloud
	opening := !w.opened
	if opening {
		w.opened, w.subscription = true, request.GetSubscription()
	}
	text := slices.Concat(body, c.contents(w.subscription, request.GetAckIds()))
	fault, wait := c.faults.pick(pubsubName, w.operation, text, func(f *Fault) bool {
		if f.Do == DoFailAck {
			return c.fails(f, w.subscription, request.GetAckIds())
		}
		return opening && f.Do != DoDropAfter
	})
	if wait > 0 {
		done = DoDelay
		if err := c.clock.Wait(w.ctx, c.clock.Now().Add(wait), nil); err != nil {
			return done, status.FromContextError(err).Err()
		}
	}
	if fault == nil {
		return done, nil
	}
	switch fault.Do {
	case DoFailAck:
		request.AckIds, _ = c.failing(fault, w.subscription, request.GetAckIds())
	case DoError, DoThrottle:
		err = rpcError(fault)
	case DoDropBefore:
		err = cutRPC()
	case DoBlackHole:
		<-w.ctx.Done()
		err = status.FromContextError(w.ctx.Err()).Err()
	}
	return fault.Do, err
}

// SendMsg implements grpc.ServerStream. A stream is cut by order when it
// delivers: the messages are out, and nobody has them.
func (w *watchedStream) SendMsg(m any) error {
	response, ok := m.(*pubsubpb.StreamingPullResponse)
	if !ok || len(response.GetReceivedMessages()) == 0 {
		return w.ServerStream.SendMsg(m)
	}
	c := w.cloud
	body := jsonOf(response)
	recorded := Request{After: c.record.seen(), Service: pubsubName, Operation: w.operation, Status: http.StatusOK, Response: body}
	var fault *Fault
	if !c.faults.none() {
		fault, _ = c.faults.pick(pubsubName, w.operation, withData(body, response), func(f *Fault) bool { return f.Do == DoDropAfter })
	}
	var err error
	if fault != nil {
		recorded.Fault, err = fault.Do, cutRPC()
	} else {
		err = w.ServerStream.SendMsg(m)
	}
	recorded.At = c.clock.Now()
	c.record.add(recorded)
	return err
}

// withData adds the data of messages as they are to their JSON.
func withData(body []byte, response *pubsubpb.StreamingPullResponse) []byte {
	text := slices.Clip(body)
	for _, m := range response.GetReceivedMessages() {
		text = append(append(text, '\n'), m.GetMessage().GetData()...)
	}
	return text
}
