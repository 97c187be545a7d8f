package localstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// Seed fills the cloud from a YAML text: the queues, tables, topics and
// subscriptions it lists.
//
//	queues:
//	  - {name: orders-dlq}
//	  - {name: orders, visibility_timeout: 30, redrive: {to: orders-dlq, max_receive_count: 3}}
//	tables:
//	  - {name: ledger, partition_key: pk, sort_key: sk, ttl: expires_at}
//	topics: [invoices, invoices-dead]
//	subscriptions:
//	  - {name: invoices, topic: invoices, dead_letter: {topic: invoices-dead, max_attempts: 5}}
//
// Errors name the line and the field. What was made before an error stays.
// Seeding is not recorded and meets no faults.
func (c *Cloud) Seed(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read the seed: %w", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return fmt.Errorf("read the seed: %w", err)
	}
	if len(root.Content) == 0 {
		return nil // an empty file seeds nothing
	}
	var s seed
	if err := s.read(root.Content[0]); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return s.plant(c)
}

// seed is the file after reading: what to make, and where it says so.
type seed struct {
	queues        []seedQueue
	tables        []seedTable
	topics        []seedTopic
	subscriptions []seedSubscription
}

type seedQueue struct {
	line       int
	name       string
	attributes map[string]string
	redrive    *seedRedrive
}

type seedRedrive struct {
	line int
	to   string
	most int
}

type seedTable struct {
	line    int
	name    string
	hash    seedKey
	sort    seedKey
	ttl     string
	indexes []seedIndex
}

type seedIndex struct {
	name string
	hash seedKey
	sort seedKey
}

// seedKey is a key attribute; its type is S unless written as "name:N".
type seedKey struct {
	name, kind string
}

// fields reads a mapping member by member and refuses keys it has no reader
// for.
type fields map[string]func(*yaml.Node) error

func at(n *yaml.Node, field string, err error) error {
	return fmt.Errorf("line %d: %s: %w", n.Line, field, err)
}

func (f fields) read(n *yaml.Node, where string) error {
	if n.Kind != yaml.MappingNode {
		return at(n, where, errors.New("want a mapping"))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, known := f[key.Value]
		if !known {
			return at(key, key.Value, fmt.Errorf("unknown key in %s: want %s", where, strings.Join(slices.Sorted(maps.Keys(f)), ", ")))
		}
		if seen[key.Value] {
			return at(key, key.Value, fmt.Errorf("is given twice in %s", where))
		}
		seen[key.Value] = true
		if err := read(value); err != nil {
			if _, placed := errors.AsType[placedError](err); placed {
				return err
			}
			return placedError{at(value, key.Value, err)}
		}
	}
	return nil
}

// placedError says already where it happened.
type placedError struct{ error }

// Unwrap implements the errors convention.
func (e placedError) Unwrap() error { return e.error }

func eachOf(n *yaml.Node, where string, read func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return errors.New("want a list")
	}
	for i, item := range n.Content {
		if err := read(item); err != nil {
			if _, placed := errors.AsType[placedError](err); placed {
				return err
			}
			return placedError{at(item, where+"["+strconv.Itoa(i)+"]", err)}
		}
	}
	return nil
}

func text(into *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null" {
			return errors.New("want a text")
		}
		*into = n.Value
		return nil
	}
}

func truth(into *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Tag != "!!bool" {
			return fmt.Errorf("%q is neither true nor false", n.Value)
		}
		return n.Decode(into)
	}
}

func whole(into *int) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			return fmt.Errorf("%q is not a whole number", n.Value)
		}
		*into = v
		return nil
	}
}

// seconds reads a number of seconds or a duration such as 12h.
func seconds(attributes map[string]string, name string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		v, err := strconv.Atoi(n.Value)
		if err != nil {
			d, err := time.ParseDuration(n.Value)
			if err != nil || d%time.Second != 0 {
				return fmt.Errorf("%q is neither a number of seconds nor a duration such as 30s", n.Value)
			}
			v = int(d / time.Second)
		}
		attributes[name] = strconv.Itoa(v)
		return nil
	}
}

func (s *seed) read(n *yaml.Node) error {
	return fields{
		"queues":        func(n *yaml.Node) error { return eachOf(n, "queues", s.readQueue) },
		"tables":        func(n *yaml.Node) error { return eachOf(n, "tables", s.readTable) },
		"topics":        func(n *yaml.Node) error { return eachOf(n, "topics", s.readTopic) },
		"subscriptions": func(n *yaml.Node) error { return eachOf(n, "subscriptions", s.readSubscription) },
	}.read(n, "the seed")
}

func (s *seed) readQueue(n *yaml.Node) error {
	q := seedQueue{line: n.Line, attributes: map[string]string{}}
	var fifo, content bool
	var size int
	err := fields{
		"name":                        text(&q.name),
		"fifo":                        truth(&fifo),
		"content_based_deduplication": truth(&content),
		"visibility_timeout":          seconds(q.attributes, "VisibilityTimeout"),
		"retention":                   seconds(q.attributes, "MessageRetentionPeriod"),
		"delay":                       seconds(q.attributes, "DelaySeconds"),
		"receive_wait":                seconds(q.attributes, "ReceiveMessageWaitTimeSeconds"),
		"maximum_message_size":        whole(&size),
		"redrive": func(n *yaml.Node) error {
			q.redrive = &seedRedrive{line: n.Line, most: 10} // the service's default
			return fields{"to": text(&q.redrive.to), "max_receive_count": whole(&q.redrive.most)}.read(n, "redrive")
		},
	}.read(n, "a queue")
	if err != nil {
		return err
	}
	if q.name == "" {
		return errors.New("a queue needs a name")
	}
	if fifo {
		q.attributes["FifoQueue"] = "true"
	}
	if content {
		q.attributes["ContentBasedDeduplication"] = "true"
	}
	if size != 0 {
		q.attributes["MaximumMessageSize"] = strconv.Itoa(size)
	}
	s.queues = append(s.queues, q)
	return nil
}

func key(into *seedKey) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var whole string
		if err := text(&whole)(n); err != nil {
			return err
		}
		name, kind, typed := strings.Cut(whole, ":")
		if !typed {
			kind = "S"
		}
		if name == "" || (kind != "S" && kind != "N" && kind != "B") {
			return fmt.Errorf("%q is no key: want a name, or name:N or name:B for numbers and bytes", whole)
		}
		*into = seedKey{name, kind}
		return nil
	}
}

func (s *seed) readTable(n *yaml.Node) error {
	t := seedTable{line: n.Line}
	err := fields{
		"name":          text(&t.name),
		"partition_key": key(&t.hash),
		"sort_key":      key(&t.sort),
		"ttl":           text(&t.ttl),
		"indexes": func(n *yaml.Node) error {
			return eachOf(n, "indexes", func(n *yaml.Node) error {
				var i seedIndex
				err := fields{"name": text(&i.name), "partition_key": key(&i.hash), "sort_key": key(&i.sort)}.read(n, "an index")
				if err == nil && (i.name == "" || i.hash.name == "") {
					err = errors.New("an index needs a name and a partition_key")
				}
				t.indexes = append(t.indexes, i)
				return err
			})
		},
	}.read(n, "a table")
	if err != nil {
		return err
	}
	if t.name == "" || t.hash.name == "" {
		return errors.New("a table needs a name and a partition_key")
	}
	s.tables = append(s.tables, t)
	return nil
}

// plant makes what the seed lists: queues first without their dead-letter
// queues, so that the file's order does not matter.
func (s *seed) plant(c *Cloud) error {
	sqs, tables := c.services[sqsTarget], c.services[dynamodbTarget]
	for _, q := range s.queues {
		if err := order(sqs, "CreateQueue", map[string]any{"QueueName": q.name, "Attributes": q.attributes}); err != nil {
			return fmt.Errorf("seed: line %d: queue %s: %w", q.line, q.name, err)
		}
	}
	for _, q := range s.queues {
		if q.redrive == nil {
			continue
		}
		policy := fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:%s:%s:%s","maxReceiveCount":%d}`, Region, Account, q.redrive.to, q.redrive.most)
		url := "http://" + address + "/" + Account + "/" + q.name
		if err := order(sqs, "SetQueueAttributes", map[string]any{"QueueUrl": url, "Attributes": map[string]string{"RedrivePolicy": policy}}); err != nil {
			return fmt.Errorf("seed: line %d: queue %s: redrive: %w", q.redrive.line, q.name, err)
		}
	}
	for _, t := range s.tables {
		if err := order(tables, "CreateTable", t.request()); err != nil {
			return fmt.Errorf("seed: line %d: table %s: %w", t.line, t.name, err)
		}
		if t.ttl == "" {
			continue
		}
		ttl := map[string]any{"TableName": t.name, "TimeToLiveSpecification": map[string]any{"AttributeName": t.ttl, "Enabled": true}}
		if err := order(tables, "UpdateTimeToLive", ttl); err != nil {
			return fmt.Errorf("seed: line %d: table %s: ttl: %w", t.line, t.name, err)
		}
	}
	return s.plantPubSub(c)
}

func (t seedTable) request() map[string]any {
	kinds := map[string]string{}
	schema := func(hash, sort seedKey) []map[string]string {
		kinds[hash.name] = hash.kind
		keys := []map[string]string{{"AttributeName": hash.name, "KeyType": "HASH"}}
		if sort.name != "" {
			kinds[sort.name] = sort.kind
			keys = append(keys, map[string]string{"AttributeName": sort.name, "KeyType": "RANGE"})
		}
		return keys
	}
	request := map[string]any{"TableName": t.name, "BillingMode": "PAY_PER_REQUEST", "KeySchema": schema(t.hash, t.sort)}
	var indexes []map[string]any
	for _, i := range t.indexes {
		indexes = append(indexes, map[string]any{
			"IndexName": i.name, "KeySchema": schema(i.hash, i.sort), "Projection": map[string]string{"ProjectionType": "ALL"},
		})
	}
	if len(indexes) > 0 {
		request["GlobalSecondaryIndexes"] = indexes
	}
	var attributes []map[string]string
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		attributes = append(attributes, map[string]string{"AttributeName": name, "AttributeType": kinds[name]})
	}
	request["AttributeDefinitions"] = attributes
	return request
}

// order has a service carry out an operation of the seed.
func order(s wire.Service, operation string, request any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, err = s.Call(context.Background(), operation, body)
	return err
}
