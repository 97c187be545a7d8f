// Package wire puts the parts together in the order a letter meets them:
// adapters for queues and tables, enrichment per route, intake, redrive. No
// other package knows all of them.
//
// New makes no call; queues are asked for when something needs them, so that a
// person with rights on the tables alone can read and triage.
package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/awssqs"
	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// ledgerTimeout bounds the ledger's answer about one task. It is shorter than
// what enrichment gives the store for a whole batch, so that one task that
// cannot be read is unknown by itself and does not take its batch along.
const ledgerTimeout = enrich.DefaultStoreTimeout * 3 / 5

// ledgerAtOnce bounds the tasks that the ledger is asked about at once: what a
// chunk of records takes two rounds of.
const ledgerAtOnce = 25

// Options are what a Bridge is made of.
type Options struct {
	Config config.Config
	AWS    aws.Config
	Now    func() time.Time
	Log    *slog.Logger
	// Env looks the secrets of stores up, as os.LookupEnv; nil is none set.
	Env func(string) (string, bool)
	// PubSub connects to Google Pub/Sub, when a route needs it; nil goes by the
	// default credentials, or PUBSUB_EMULATOR_HOST.
	PubSub func(ctx context.Context) (*gcppubsub.Client, error)
	// Holder names this process to people who wait for its lease.
	Holder string
	// Progress is called while a job runs; nil is fine.
	Progress func(redrive.Progress)
}

// Bridge is the whole program wired to its clouds. Its methods may be called
// concurrently. Close it at the end.
type Bridge struct {
	Config config.Config
	Store  *awsdynamodb.Store
	// DynamoDB is for the tables themselves: making and inspecting them.
	DynamoDB *dynamodb.Client
	SQS      *sqs.Client
	Log      *slog.Logger
	Now      func() time.Time

	tables   *dynamodb.Client // of store and ledger, without the SDK's retries
	holder   string
	progress func(redrive.Progress)
	judges   map[string]*enrich.Enricher
	stores   stores

	connect    func(ctx context.Context) (*gcppubsub.Client, error)
	connecting sync.Mutex
	google     *gcppubsub.Client // nil until a route needs it

	mu           sync.Mutex
	destinations map[string]dlqbridge.Destination // by name or URN
	sources      map[string]source                // by route
	asides       map[aside]string                 // URNs
	completions  map[string]dlqbridge.DeadLetters // by route
	closers      []func(context.Context) error
}

// New wires a Bridge.
func New(o Options) (*Bridge, error) {
	renew := awserr.Renew(o.AWS.Credentials)
	// The store judges every attempt itself, so the SDK's retries are off.
	tables := dynamodb.NewFromConfig(o.AWS, func(d *dynamodb.Options) { d.Retryer = aws.NopRetryer{} })
	store, err := awsdynamodb.New(awsdynamodb.Options{
		Client: tables, Records: o.Config.Tables.Records, Payloads: o.Config.Tables.Payloads, Shards: o.Config.Shards, Now: o.Now,
		PayloadRetention: time.Duration(o.Config.Payloads.Retention), Retry: retry.Policy{Renew: renew},
	})
	if err != nil {
		return nil, err
	}
	b := &Bridge{
		Config: o.Config, Store: store, tables: tables, DynamoDB: dynamodb.NewFromConfig(o.AWS), SQS: sqs.NewFromConfig(o.AWS), Log: o.Log, Now: o.Now,
		holder: o.Holder, progress: o.Progress,
		judges: map[string]*enrich.Enricher{}, destinations: map[string]dlqbridge.Destination{}, sources: map[string]source{}, asides: map[aside]string{}, completions: map[string]dlqbridge.DeadLetters{}, connect: o.PubSub,
	}
	if b.connect == nil {
		b.connect = func(ctx context.Context) (*gcppubsub.Client, error) { return gcppubsub.NewClient(ctx) }
	}
	if err := b.openStores(o.AWS, o.Env); err != nil {
		return nil, err
	}
	reader, err := b.ledger()
	if err != nil {
		return nil, err
	}
	for _, r := range o.Config.Routes {
		// To judge a stored record again, the route's places are not needed.
		if b.judges[r.Name], err = b.enricher(r, r.DeadLetterPlace(), "", nil, reader); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *Bridge) ledger() (*ledger.Reader, error) {
	routes := map[string]ledger.RouteOptions{}
	for _, r := range b.Config.Routes {
		routes[r.Name] = ledger.RouteOptions{Prefix: r.LedgerPrefix, MaxRun: time.Duration(r.MaxRun)}
	}
	return ledger.NewReader(ledger.ReaderOptions{Client: b.tables, Table: b.Config.Tables.Ledger, Routes: routes, Timeout: ledgerTimeout, Parallel: ledgerAtOnce})
}

func (b *Bridge) enricher(r config.Route, place, source string, resumed []string, reader *ledger.Reader) (*enrich.Enricher, error) {
	route := enrich.Route{
		Name: r.Name, Place: place, Source: source, Effects: dlqbridge.Effects(r.Effects), IdempotencyWindow: time.Duration(r.IdempotencyWindow),
		TrustWorker: r.TrustWorker, Resume: r.Resume, Resumed: resumed, Compensates: r.CompensateTo != "", CompensatesAgain: r.CompensateAgain, Stores: b.routeStores(r, reader), Fields: r.Fields, Topics: r.SNSTopics, Policies: b.Config.Policies(),
	}
	if err := addRules(b.Config, r, &route); err != nil {
		return nil, err
	}
	return enrich.New(route)
}

// Queue opens a queue's options for the SQS adapter.
func (b *Bridge) Queue(queue string) awssqs.Options {
	return awssqs.Options{Client: b.SQS, Queue: queue, Now: b.Now}
}

// onClose keeps how something that was opened is closed.
func (b *Bridge) onClose(end func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closers = append(b.closers, end)
}

// Close ends what was opened, the last first: places before the connections
// that they stand on. Letters in hand must be finished by then.
func (b *Bridge) Close(ctx context.Context) error {
	b.mu.Lock()
	closers := b.closers
	b.closers = nil
	b.mu.Unlock()
	var errs []error
	for _, end := range slices.Backward(closers) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}

// Auto is the observation window that auto chooses for a destination.
func Auto(f dlqbridge.DestinationFacts) time.Duration {
	return max(config.MinObserve, time.Duration(f.MaxReceives)*f.Visibility)
}

// AskLedger asks the ledger about a task that is never there, as enrichment
// would, to see whether it can be read.
func (b *Bridge) AskLedger(ctx context.Context) error {
	reader, err := b.ledger()
	if err != nil {
		return err
	}
	answer := reader.Ask(ctx, []dlqbridge.Question{{Route: "check", TaskID: "dlqbridge-check", Now: b.Now()}})
	if why := answer[0].Unavailable; why != "" {
		return fmt.Errorf("ledger %s cannot be read (needs dynamodb:Query on it): %s", b.Config.Tables.Ledger, why)
	}
	return nil
}
