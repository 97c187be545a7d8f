package localstack

import (
	"context"
	"math"
	"net"
	"strings"
	"sync"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/dlqbridge/dlqbridge/localstack/pubsub"
)

// Project is the Pub/Sub project that seeds are made in. The cloud serves all
// others too.
const Project = "dlqbridge-local"

// maxRPCBytes bounds a gRPC request: more than the service takes, so that it
// is the service that refuses what is too large.
const maxRPCBytes = 64 << 20

// pipeBytes is the buffer of a connection inside the process.
const pipeBytes = 256 << 10

// rpcDoor is the cloud's gRPC address. It comes into being with its first use,
// because a server and its connections have goroutines.
type rpcDoor struct {
	service *pubsub.Service

	mu     sync.Mutex
	server *grpc.Server // nil before the first use and after the end
	pipes  *bufconn.Listener
	conns  []*grpc.ClientConn
	closed bool
}

// PubSubConn is a new connection to the cloud's Pub/Sub without a socket. It
// works inside testing/synctest too, as long as whoever uses it does: unary
// calls do, Subscriber.Receive leaves goroutines behind. Close closes it if
// the caller has not. Further options are the connection's, such as an
// interceptor that stands for a process's network.
func (c *Cloud) PubSubConn(options ...grpc.DialOption) *grpc.ClientConn {
	pipes := c.startRPC()
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipes.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithIdleTimeout(0),
	}, options...)...)
	if err != nil {
		panic(err) // the target is a constant, and so are the options but a test's
	}
	c.rpc.mu.Lock()
	defer c.rpc.mu.Unlock()
	c.rpc.conns = append(c.rpc.conns, conn)
	return conn
}

// PubSubOptions lets a client of Pub/Sub reach this cloud over a connection of
// its own:
//
//	client, err := pubsub.NewClient(ctx, localstack.Project, cloud.PubSubOptions()...)
func (c *Cloud) PubSubOptions() []option.ClientOption {
	return []option.ClientOption{option.WithGRPCConn(c.PubSubConn()), option.WithTelemetryDisabled()}
}

// ServePubSub serves Pub/Sub on a listener until Close, or until the listener
// fails. It may be called for several.
func (c *Cloud) ServePubSub(l net.Listener) error {
	c.startRPC()
	c.rpc.mu.Lock()
	server := c.rpc.server
	c.rpc.mu.Unlock()
	if server == nil {
		return l.Close()
	}
	return server.Serve(l)
}

// startRPC brings the gRPC address into being.
func (c *Cloud) startRPC() *bufconn.Listener {
	c.rpc.mu.Lock()
	defer c.rpc.mu.Unlock()
	if c.rpc.pipes != nil {
		return c.rpc.pipes
	}
	c.rpc.pipes = bufconn.Listen(pipeBytes)
	if c.rpc.closed {
		// A connection to a closed cloud is refused, as anywhere.
		_ = c.rpc.pipes.Close() // it never fails
		return c.rpc.pipes
	}
	c.rpc.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRPCBytes),
		grpc.UnaryInterceptor(c.serveRPC),
		grpc.StreamInterceptor(c.serveStream),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			return status.Errorf(codes.Unimplemented, "The local cloud does not serve %s.", method)
		}),
	)
	c.rpc.service.Register(c.rpc.server)
	// It ends with stopRPC, which closes its listener.
	go c.rpc.server.Serve(c.rpc.pipes) //nolint:errcheck // the pipe fails only by being closed
	return c.rpc.pipes
}

// stopRPC ends connections and server. Calls have been told to end before.
func (c *Cloud) stopRPC() {
	c.rpc.mu.Lock()
	server, conns := c.rpc.server, c.rpc.conns
	c.rpc.server, c.rpc.conns, c.rpc.closed = nil, nil, true
	c.rpc.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // a client may have closed its own
	}
	if server != nil {
		server.Stop()
	}
}

// operationOf is the last part of a method's name.
func operationOf(method string) string {
	return method[strings.LastIndexByte(method, '/')+1:]
}

// closedRPC is the answer of a cloud that is closed.
func closedRPC() error {
	return status.Error(codes.Unavailable, "The local cloud is closed.")
}

// during lives as long as the call and the cloud do.
func (c *Cloud) during(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(call)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
