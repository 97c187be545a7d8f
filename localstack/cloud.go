// Package localstack is the local cloud: Amazon SQS, DynamoDB and STS and
// Google Pub/Sub in one Go program, strict where the services are strict, with a clock that can be
// moved, a recording of every call and faults made to order. It is not the
// product of the same name, and it never goes into the service binary.
package localstack

import (
	"context"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
	"github.com/dlqbridge/dlqbridge/localstack/dynamodb"
	"github.com/dlqbridge/dlqbridge/localstack/pubsub"
	"github.com/dlqbridge/dlqbridge/localstack/sqs"
	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// Account and Region are those of everything in the local cloud.
const (
	Account = wire.Account
	Region  = wire.Region
)

// Options are the choices of a new cloud; the zero value is a good one.
type Options struct {
	// Now is the base of the cloud's clock; nil means time.Now, which is the
	// virtual time inside testing/synctest.
	Now func() time.Time
	// InFlightLimit is how many received and undeleted messages an SQS queue
	// may have; zero means the service's 120,000.
	InFlightLimit int
}

// Cloud is one isolated cloud: nothing is shared with another one. All
// methods may be called concurrently.
type Cloud struct {
	clock    *clock.Clock
	services map[string]wire.Service // by target prefix
	tables   *dynamodb.Service
	rpc      rpcDoor
	faults   faults
	record   recording

	// Calls that hang by order of a fault end when the cloud does.
	ctx   context.Context //nolint:containedctx // the life of the cloud itself, ended by Close
	close context.CancelFunc
	mu    sync.Mutex // between coming in and closing
	calls sync.WaitGroup
}

// Prefixes of X-Amz-Target, by which the services share one address.
const (
	sqsTarget      = "AmazonSQS"
	dynamodbTarget = "DynamoDB_20120810"
)

// New returns an empty cloud.
func New(o Options) *Cloud {
	c := clock.New(o.Now)
	ctx, cancel := context.WithCancel(context.Background())
	tables := dynamodb.New(c)
	cloud := &Cloud{
		clock:  c,
		tables: tables,
		rpc:    rpcDoor{service: pubsub.New(c)},
		services: map[string]wire.Service{
			sqsTarget:      sqs.New(c, o.InFlightLimit),
			dynamodbTarget: tables,
		},
		ctx:   ctx,
		close: cancel,
	}
	cloud.record.clear(cloud.units())
	return cloud
}

// Clock is the cloud's clock; advancing it ends visibility timeouts, delays
// and waits that are due by then.
func (c *Cloud) Clock() *clock.Clock { return c.clock }

// SetTTLDeletes switches DynamoDB's deletion of expired items off or on again;
// it is on at first. The real service may take days over it.
func (c *Cloud) SetTTLDeletes(on bool) { c.tables.SetTTLDeletes(on) }

// Close ends the calls that still wait. The cloud answers no more.
func (c *Cloud) Close() {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.calls.Wait()
	c.stopRPC()
}

// units asks the services that count capacity units how many were used.
func (c *Cloud) units() Units {
	var total Units
	for _, s := range c.services {
		if m, counts := s.(wire.Metered); counts {
			read, write := m.Units()
			total.Read += read
			total.Write += write
		}
	}
	return total
}
