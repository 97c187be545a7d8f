package main_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
)

// wireCall is one call of a process as it leaves it.
type wireCall struct{ operation, body string }

// mortal is the network of a process that dies: around the first call that is
// the moment's, and then nothing of the process reaches the cloud any more.
type mortal struct {
	moment func(wireCall) bool
	after  bool
	kill   func()

	mu   sync.Mutex
	dead bool
}

// fate is what becomes of one call.
type fate int

const (
	fatePass   fate = iota
	fateBefore      // the process dies before the call
	fateAfter       // it is carried out, and nobody hears the answer
	fateDead        // the process was dead before
)

func (m *mortal) fate(c wireCall) fate {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.dead:
		return fateDead
	case !m.moment(c):
		return fatePass
	}
	m.dead = true
	if m.after {
		return fateAfter
	}
	return fateBefore
}

type mortalHTTP struct {
	*mortal
	inner aws.HTTPClient
}

// Do implements aws.HTTPClient. What is left of a dead process is told no, so
// that it ends: trying again would go on for hours of its clock.
func (m mortalHTTP) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch m.fate(wireCall{r.Header.Get("X-Amz-Target"), string(body)}) {
	case fatePass:
		return m.inner.Do(r)
	case fateAfter:
		if out, err := m.inner.Do(r); err == nil {
			_ = out.Body.Close() // a buffer
		}
		m.kill()
	case fateBefore:
		m.kill()
	case fateDead:
	}
	return &http.Response{
		StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"__type":"AccessDeniedException","message":"the process is dead"}`)),
	}, nil
}

func (m *mortal) invoke(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	body, err := protojson.Marshal(in.(proto.Message))
	if err != nil {
		return err
	}
	switch m.fate(wireCall{method, string(body)}) {
	case fatePass:
		return invoke(ctx, method, in, out, conn, options...)
	case fateAfter:
		_ = invoke(ctx, method, in, out, conn, options...) // nobody hears the answer
		m.kill()
	case fateBefore:
		m.kill()
	case fateDead:
	}
	return status.Error(codes.PermissionDenied, "the process is dead")
}

// dies runs the program in a process of its own that is killed at the moment,
// and returns when it is dead, or has ended; it reports whether it was killed.
// What is left of the process goes on by itself and reaches nobody.
func (a *agents) dies(moment func(wireCall) bool, after bool, args ...string) bool {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	killed, ended := make(chan struct{}), make(chan struct{})
	m := &mortal{moment: moment, after: after, kill: func() { close(killed); cancel() }}
	p := *a.bench
	p.network = func(c aws.HTTPClient) aws.HTTPClient { return mortalHTTP{m, c} }
	if a.place.google {
		p.pubsub = func(ctx context.Context) (*gcppubsub.Client, error) {
			return gcppubsub.NewClient(ctx, option.WithGRPCConn(a.cloud.PubSubConn(grpc.WithUnaryInterceptor(m.invoke))), option.WithTelemetryDisabled())
		}
	}
	a.ghosts.Go(func() {
		defer close(ended)
		defer cancel()
		p.runCtx(ctx, args...)
	})
	select {
	case <-killed:
		return true
	case <-ended:
		return false
	}
}

// on is a call of an operation that carries these texts.
func on(operation string, parts ...string) func(wireCall) bool {
	return func(c wireCall) bool {
		return strings.HasSuffix(c.operation, operation) && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(c.body, p) })
	}
}

// either is a call that is one of these.
func either(calls ...func(wireCall) bool) func(wireCall) bool {
	return func(c wireCall) bool {
		return slices.ContainsFunc(calls, func(is func(wireCall) bool) bool { return is(c) })
	}
}

// written is a write of such an item, alone or among others.
func written(parts ...string) func(wireCall) bool {
	return either(on("PutItem", parts...), on("BatchWriteItem", parts...))
}

// without is such a call that does not carry a text.
func without(part string, call func(wireCall) bool) func(wireCall) bool {
	return func(c wireCall) bool { return call(c) && !strings.Contains(c.body, part) }
}
