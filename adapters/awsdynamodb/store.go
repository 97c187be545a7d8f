// Package awsdynamodb keeps records, history, payloads, jobs, leases and holds
// in two DynamoDB tables. One type, [Store], implements all of the root's
// contracts of the record store.
//
// # Delivery
//
// Every move is one conditional write of the record's control item. Evidence
// is written before the move that names it, and a history entry before the
// move that replaces it. No transactions are used.
//
// # Acknowledgement
//
// A write whose answer was lost is judged by the writer token on the item: a
// condition that failed because of our own first try is a success. Calls that
// are safe to repeat are tried again within the context.
//
// # Attributes
//
// Bodies are one JSON text in the attribute doc, so that numbers from payloads
// never become table numbers. Times in keys are fixed-width UTC with
// milliseconds; a control item's own times are kept to the millisecond. Texts
// that are not UTF-8 are stored with U+FFFD in place of the bad bytes; payload
// bytes are binary and exact.
//
// # Limits
//
// A control item is at most 1,024 bytes as DynamoDB counts, so that a move
// costs one write unit; texts that do not fit go to an item of their own
// (wide#…) that is written first. Every other item must fit into 400 KB, except
// payloads, which are stored in chunks.
//
// # Errors
//
// They carry the root's meanings and name table and key. ErrDenied names the
// action that the caller lacks.
//
// # Permissions needed
//
// On both tables: dynamodb:GetItem, PutItem, UpdateItem, Query, BatchGetItem,
// BatchWriteItem; Query and Scan on the records table's indexes; Scan on the
// records table for lists with closed records. UpdateItem is for leases and
// Sweep. For CreateTables and InspectTables also CreateTable, DescribeTable,
// UpdateTimeToLive, DescribeTimeToLive, UpdateContinuousBackups and
// DescribeContinuousBackups.
package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
}

// Defaults of Options, each with its reason.
const (
	// DefaultShards spreads one route, cause and status over eight index
	// partitions, each good for 1,000 writes a second ("Burst and adaptive
	// capacity", DynamoDB Developer Guide, read 2026-11-30).
	DefaultShards = 8
	// DefaultPayloadRetention is how long payloads outlive the closing.
	DefaultPayloadRetention = 30 * 24 * time.Hour
	// DefaultRecordRetention is how long records outlive the closing: a year
	// and a month, so that last year's case is still there to compare with.
	DefaultRecordRetention = 400 * 24 * time.Hour
	// DefaultConcurrency bounds the parallel calls of one call of a Store: ten
	// letters of a receive at once, with room for one more batch's half.
	DefaultConcurrency = 16
)

// Options are the choices of a Store.
type Options struct {
	// Client is usually a *dynamodb.Client. Required.
	Client Client
	// Records and Payloads are table names. Required.
	Records, Payloads string
	// Shards is over how many partitions each route, cause and status is
	// spread in the indexes; 0 means DefaultShards. It may be changed at any
	// time: lists cover the highest number ever used.
	Shards int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// PayloadRetention and RecordRetention count from a record's closing; 0
	// means the defaults.
	PayloadRetention, RecordRetention time.Duration
	// Concurrency bounds the parallel calls of one call; 0 means DefaultConcurrency.
	Concurrency int
	// Retry says how calls are tried again; Repeatable is decided per call.
	Retry retry.Policy
}

// Store is the record store in DynamoDB. Its methods may be called concurrently.
type Store struct {
	client            Client
	records, payloads string
	shards            int
	now               func() time.Time
	payloadRetention  time.Duration
	recordRetention   time.Duration
	concurrency       int
	retry             retry.Policy

	// routes are the routes known to stand in the registry with our shards.
	routes sync.Map
	// leaseWrites numbers this process's writes to leases.
	leaseWrites atomic.Int64
	// leaseTurns has one channel of one place per destination.
	leaseTurns sync.Map
}

var (
	_ dlqbridge.EvidenceWriter = (*Store)(nil)
	_ dlqbridge.Controls       = (*Store)(nil)
	_ dlqbridge.CaseReader     = (*Store)(nil)
	_ dlqbridge.CountedReader  = (*Store)(nil)
	_ dlqbridge.PayloadReader  = (*Store)(nil)
	_ dlqbridge.MessageFinder  = (*Store)(nil)
	_ dlqbridge.WorkIndex      = (*Store)(nil)
	_ dlqbridge.Leases         = (*Store)(nil)
	_ dlqbridge.Jobs           = (*Store)(nil)
	_ dlqbridge.Holds          = (*Store)(nil)
	_ dlqbridge.Approvals      = (*Store)(nil)
	_ dlqbridge.Groups         = (*Store)(nil)
	_ dlqbridge.Mutes          = (*Store)(nil)
	_ dlqbridge.ContextReader  = (*Store)(nil)
	_ dlqbridge.Gate           = (*Store)(nil)
)

// maxShards keeps a shard's number within two digits.
const maxShards = 100

// New makes a Store, or says which option is wrong.
func New(o Options) (*Store, error) {
	switch {
	case o.Client == nil:
		return nil, errors.New("awsdynamodb: Client is missing")
	case o.Records == "":
		return nil, errors.New("awsdynamodb: Records, the name of the records table, is missing")
	case o.Payloads == "":
		return nil, errors.New("awsdynamodb: Payloads, the name of the payload table, is missing")
	case o.Records == o.Payloads:
		return nil, fmt.Errorf("awsdynamodb: Records and Payloads are both %q: payloads need a table of their own", o.Records)
	case o.Shards < 0 || o.Shards > maxShards:
		return nil, fmt.Errorf("awsdynamodb: Shards is %d: want 1 to %d", o.Shards, maxShards)
	case o.PayloadRetention < 0 || o.RecordRetention < 0:
		return nil, errors.New("awsdynamodb: a retention cannot be negative")
	case o.Concurrency < 0:
		return nil, fmt.Errorf("awsdynamodb: Concurrency is %d: it cannot be negative", o.Concurrency)
	}
	s := &Store{
		client: o.Client, records: o.Records, payloads: o.Payloads, shards: o.Shards, now: o.Now,
		payloadRetention: o.PayloadRetention, recordRetention: o.RecordRetention,
		concurrency: o.Concurrency, retry: o.Retry,
	}
	if s.shards == 0 {
		s.shards = DefaultShards
	}
	if s.now == nil {
		s.now = time.Now //nolint:forbidigo // the default of a clock that can be set
	}
	if s.payloadRetention == 0 {
		s.payloadRetention = DefaultPayloadRetention
	}
	if s.recordRetention == 0 {
		s.recordRetention = DefaultRecordRetention
	}
	if s.concurrency == 0 {
		s.concurrency = DefaultConcurrency
	}
	return s, nil
}

// repeat tries a call again that is the same when made twice.
func (s *Store) repeat(ctx context.Context, do func(context.Context) error) error {
	return retry.Do(ctx, s.repeatable(), do)
}

func (s *Store) repeatable() retry.Policy {
	p := s.retry
	p.Repeatable = true
	return p
}

// fail says what was tried where; a refusal for lack of rights names the action.
func fail(action, table, where string, err error) error {
	if err == nil {
		return nil
	}
	err = awserr.Wrap(err)
	if errors.Is(err, dlqbridge.ErrDenied) {
		return fmt.Errorf("%s %s in table %s (needs dynamodb:%s on it): %w", action, where, table, action, err)
	}
	return fmt.Errorf("%s %s in table %s: %w", action, where, table, err)
}

// callStack is what a call takes of a stack, in bytes: more than 16 KB.
const callStack = 20 << 10

// growStack makes a new goroutine's stack as large as a call through the SDK's
// middleware needs while there is nothing on it. Else the call has it doubled and
// all its frames moved again and again on the way down, which took a twentieth
// of intake's time. It grows on the way in, so with -1 nobody uses the room, and
// it need not be cleared.
//
//go:noinline
func growStack(at int) byte {
	if at < 0 {
		return 0
	}
	var room [callStack]byte
	return room[at]
}

// parallel runs do for 0..n-1, at most as many at once as the store may, and
// returns when all are done. The caller's own goroutine is one of those that work.
func (s *Store) parallel(n int, do func(int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
			do(i - 1)
		}
	}
	var others sync.WaitGroup
	for range min(n, s.concurrency) - 1 {
		others.Go(func() {
			growStack(-1)
			work()
		})
	}
	work()
	others.Wait()
}
