// Package dynamodb is the local cloud's DynamoDB: tables, indexes, the
// expression language and exact decimals, in memory and without a network.
//
// It is strict: it refuses what the real service refuses, with the service's
// own error code and, where known, its wording. What the real service can do
// and this one cannot (streams, PartiQL, import and export, legacy parameters)
// is refused too, never silently ignored.
//
// Documents named in comments are Amazon's: the "Developer Guide" is the
// Amazon DynamoDB Developer Guide, the "API Reference" the Amazon DynamoDB API
// Reference, both as of August 2026.
package dynamodb

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dlqbridge/dlqbridge/localstack/clock"
	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// Service is one account's DynamoDB in one region. Its methods may be called
// concurrently.
type Service struct {
	clock      *clock.Clock
	keepForTTL atomic.Bool
	units      units

	mu     sync.RWMutex
	tables map[string]*table

	transactions transactions
}

var (
	_ wire.Service = (*Service)(nil)
	_ wire.Metered = (*Service)(nil)
)

// New returns an empty service that lives by the clock.
func New(c *clock.Clock) *Service {
	return &Service{clock: c, tables: map[string]*table{}}
}

// Name is "dynamodb".
func (*Service) Name() string { return "dynamodb" }

// SetTTLDeletes switches the deletion of expired items off or on again (the
// default is on). Off shows a caller what the real service may show for days:
// items that are expired and still there.
func (s *Service) SetTTLDeletes(on bool) { s.keepForTTL.Store(!on) }

// Units are the read and write capacity units served since the start, failed
// conditions included.
func (s *Service) Units() (read, write float64) {
	return float64(s.units.read.Load()) / 2, float64(s.units.write.Load()) / 2
}

// Call carries out one operation; see wire.Service.
func (s *Service) Call(ctx context.Context, operation string, body []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch operation {
	case "PutItem":
		return s.write(body, putKind)
	case "GetItem":
		return s.getItem(body)
	case "UpdateItem":
		return s.write(body, updateKind)
	case "DeleteItem":
		return s.write(body, deleteKind)
	case "Query":
		return s.query(body)
	case "Scan":
		return s.scan(body)
	case "BatchWriteItem":
		return s.batchWrite(body)
	case "BatchGetItem":
		return s.batchGet(body)
	case "TransactWriteItems":
		return s.transactWrite(body)
	case "TransactGetItems":
		return s.transactGet(body)
	case "CreateTable":
		return control(body, s.createTable)
	case "DescribeTable":
		return control(body, s.describeTable)
	case "DeleteTable":
		return control(body, s.deleteTable)
	case "ListTables":
		return control(body, s.listTables)
	case "UpdateTable":
		return control(body, s.updateTable)
	case "UpdateTimeToLive":
		return control(body, s.updateTimeToLive)
	case "DescribeTimeToLive":
		return control(body, s.describeTimeToLive)
	case "DescribeContinuousBackups":
		return control(body, s.describeBackups)
	case "UpdateContinuousBackups":
		return control(body, s.updateBackups)
	case "TagResource":
		return control(body, s.tagResource)
	case "UntagResource":
		return control(body, s.untagResource)
	case "ListTagsOfResource":
		return control(body, s.listTags)
	}
	return nil, unknownOperation(operation)
}

// table finds a table by name or ARN for a data call and deletes what has expired.
func (s *Service) table(name string) (*table, error) {
	t := s.lookup(name)
	if t == nil {
		return nil, noTable()
	}
	s.sweep(t)
	return t, nil
}

func (s *Service) lookup(name string) *table {
	if strings.HasPrefix(name, "arn:") {
		_, name, _ = strings.Cut(name, ":table/")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[name]
}

// sweep deletes expired items lazily: whoever looks at the table finds it as
// if they had been deleted in time.
func (s *Service) sweep(t *table) {
	if s.keepForTTL.Load() {
		return
	}
	t.mu.RLock()
	due := t.ttl != "" && t.due(s.clock.Now())
	t.mu.RUnlock()
	if due {
		t.mu.Lock()
		t.sweep(s.clock.Now())
		t.mu.Unlock()
	}
}
