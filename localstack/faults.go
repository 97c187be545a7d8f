package localstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack/sqs"
	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// What a fault can do.
const (
	// DoError refuses with Code, Message and Status; nothing is carried out.
	DoError = "error"
	// DoThrottle refuses as the service does when it is asked too often.
	DoThrottle = "throttle"
	// DoFailEntries lets Entries of an SQS batch fail with Code; they are not
	// carried out, the others are.
	DoFailEntries = "fail_entries"
	// DoUnprocessed hands Count items (or the Entries) of a BatchWriteItem or
	// BatchGetItem back as unprocessed; the others are carried out.
	DoUnprocessed = "unprocessed"
	// DoEmpty answers a receive, query or scan with nothing; nothing is
	// carried out.
	DoEmpty = "empty"
	// DoDropAfter carries the call out and cuts the connection.
	DoDropAfter = "drop_after"
	// DoDropBefore cuts the connection before anything is carried out.
	DoDropBefore = "drop_before"
	// DoBlackHole never answers; the call ends when its client gives up.
	DoBlackHole = "black_hole"
	// DoDelay waits Ms milliseconds of the cloud's clock, then goes on.
	DoDelay = "delay"
	// DoStale answers with the latest recorded answer to an identical
	// request; without one the rule waits for the next match.
	DoStale = "stale"
	// DoFailAck lets the acknowledgement of Entries, or of the messages that
	// contain Contains, not happen (Pub/Sub); the others are carried out. An
	// exactly-once subscription says so, with Code for each.
	DoFailAck = "fail_ack"
)

// Fault is a rule: what to do to which calls. The first rule that matches a
// call is applied to it; rules that delay are applied besides.
type Fault struct {
	// Service is "sqs", "dynamodb", "pubsub" or "sts". Required.
	Service string `json:"service"`
	// Operation is the operation's name; empty means any that the fault can
	// be done to.
	Operation string `json:"operation,omitempty"`
	// Contains is a text that the request must contain, as it was sent.
	Contains string `json:"contains,omitempty"`
	// Skip lets that many matching calls pass first.
	Skip int `json:"skip,omitempty"`
	// Times is how many calls the rule applies to: -1 is for ever, 0 means 1.
	Times int `json:"times,omitempty"`
	// Do is one of the Do constants. Required.
	Do string `json:"do"`

	// Code, Message and Status word an error (DoError) or a failed entry
	// (DoFailEntries: Code, Message). Default: the service's internal error.
	// Errors of Pub/Sub have gRPC's codes, such as "UNAVAILABLE", and no Status.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Status  int    `json:"status,omitempty"`
	// Entries are the positions, from 0, in the batch; the zero value is all.
	Entries Entries `json:"entries,omitzero"`
	// SenderFault says of a failed entry that it is the sender's fault.
	SenderFault bool `json:"sender_fault,omitempty"`
	// Count is how many items are unprocessed, counted from the end of the
	// batch; 0 with no Entries means all.
	Count int `json:"count,omitempty"`
	// Ms is the length of a delay.
	Ms int `json:"ms,omitempty"`
}

// Entries chooses entries of a batch: positions from 0, or with the zero
// value all of them. In JSON it is an array of positions, "all", or a number
// of entries from the end.
type Entries struct {
	Positions []int
	// Last is a number of entries from the end of the batch.
	Last int
}

// MarshalJSON implements json.Marshaler.
func (e Entries) MarshalJSON() ([]byte, error) {
	switch {
	case e.Last > 0:
		return json.Marshal(e.Last)
	case e.Positions == nil:
		return []byte(`"all"`), nil
	}
	return json.Marshal(e.Positions)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Entries) UnmarshalJSON(text []byte) error {
	*e = Entries{}
	if string(text) == `"all"` || (json.Unmarshal(text, &e.Last) == nil && e.Last > 0) {
		return nil
	}
	if err := json.Unmarshal(text, &e.Positions); err != nil || len(e.Positions) == 0 {
		return fmt.Errorf(`entries must be "all", an array of positions from 0 or a number of entries, not %s`, text)
	}
	return nil
}

// chosen says whether the entry at position is one of them, in a batch of
// total entries.
func (e Entries) chosen(position, total int) bool {
	if e.Last > 0 {
		return position >= total-e.Last
	}
	return e.Positions == nil || slices.Contains(e.Positions, position)
}

// all says that nothing was chosen in particular.
func (e Entries) all() bool { return e.Positions == nil && e.Last == 0 }

// faultKind says where a fault can be done and which fields belong to it.
type faultKind struct {
	services   []string
	operations []string // empty: all
	fields     []string
}

var everywhere = []string{"sqs", "dynamodb", "pubsub", "sts"}

var faultKinds = map[string]faultKind{
	DoError:       {services: everywhere, fields: []string{"code", "message", "status"}},
	DoThrottle:    {services: everywhere, fields: []string{"message"}},
	DoFailEntries: {services: []string{"sqs"}, operations: []string{"SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"}, fields: []string{"entries", "code", "message", "sender_fault"}},
	DoUnprocessed: {services: []string{"dynamodb"}, operations: []string{"BatchWriteItem", "BatchGetItem"}, fields: []string{"entries", "count"}},
	DoEmpty:       {services: []string{"sqs", "dynamodb", "pubsub"}, operations: []string{"ReceiveMessage", "Query", "Scan", "Pull"}},
	DoDropAfter:   {services: everywhere},
	DoDropBefore:  {services: everywhere},
	DoBlackHole:   {services: everywhere},
	DoDelay:       {services: everywhere, fields: []string{"ms"}},
	DoStale:       {services: []string{"sqs", "dynamodb"}},
	DoFailAck:     {services: []string{"pubsub"}, operations: []string{"Acknowledge", "StreamingPull"}, fields: []string{"entries", "code"}},
}

// validate says in a sentence what is wrong with a rule.
func (f Fault) validate() error {
	kind, known := faultKinds[f.Do]
	switch {
	case f.Do == "":
		return fmt.Errorf("the rule lacks do: one of %s", kinds())
	case !known:
		return fmt.Errorf("unknown do %q: want one of %s", f.Do, kinds())
	case f.Service == "":
		return fmt.Errorf("the rule lacks service: one of %s", strings.Join(everywhere, ", "))
	case !slices.Contains(everywhere, f.Service):
		return fmt.Errorf("unknown service %q: want one of %s", f.Service, strings.Join(everywhere, ", "))
	case !slices.Contains(kind.services, f.Service):
		return fmt.Errorf("%s cannot be done to %s, only to %s", f.Do, f.Service, strings.Join(kind.services, ", "))
	case f.Operation != "" && len(kind.operations) > 0 && !slices.Contains(kind.operations, f.Operation):
		return fmt.Errorf("%s cannot be done to %s, only to %s", f.Do, f.Operation, strings.Join(kind.operations, ", "))
	case f.Skip < 0:
		return fmt.Errorf("skip is %d, it cannot be negative", f.Skip)
	case f.Times < -1:
		return fmt.Errorf("times is %d: want a number of calls, or -1 for ever", f.Times)
	case f.Do == DoDelay && f.Ms <= 0:
		return errors.New("a delay needs ms, the milliseconds to wait")
	case f.Status != 0 && (f.Status < 300 || f.Status > 599):
		return fmt.Errorf("status is %d: want an HTTP error from 300 to 599", f.Status)
	case f.Service == pubsubName && f.Status != 0:
		return errors.New("errors of pubsub have a code and no status")
	case f.Service == pubsubName && f.Do == DoError && f.Code != "" && statusOf(f.Code) == 0:
		return fmt.Errorf("unknown code %q: want one of %s", f.Code, strings.Join(codeNames(), ", "))
	case f.Count < 0:
		return fmt.Errorf("count is %d, it cannot be negative", f.Count)
	case f.Count > 0 && !f.Entries.all():
		return errors.New("count and entries exclude each other")
	}
	if f.Entries.Last < 0 || (f.Entries.Last > 0 && f.Entries.Positions != nil) {
		return errors.New("entries is a number of entries or their positions, not both")
	}
	for _, position := range f.Entries.Positions {
		if position < 0 {
			return fmt.Errorf("entries holds %d: positions count from 0", position)
		}
	}
	set := map[string]bool{
		"code": f.Code != "", "message": f.Message != "", "status": f.Status != 0, "entries": !f.Entries.all(),
		"sender_fault": f.SenderFault, "count": f.Count != 0, "ms": f.Ms != 0,
	}
	for _, field := range []string{"code", "message", "status", "entries", "sender_fault", "count", "ms"} {
		if set[field] && !slices.Contains(kind.fields, field) {
			return fmt.Errorf("%s has no field %s", f.Do, field)
		}
	}
	return nil
}

func kinds() string {
	names := make([]string, 0, len(faultKinds))
	for name := range faultKinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// faults are the rules in force.
type faults struct {
	mu    sync.Mutex
	last  int
	rules []*rule
}

type rule struct {
	Fault

	id   string
	skip int
	left int // -1 is for ever
}

// AddFault puts a rule in force and returns its id, or says what is wrong
// with it.
func (c *Cloud) AddFault(f Fault) (id string, err error) {
	if err := f.validate(); err != nil {
		return "", err
	}
	if f.Times == 0 {
		f.Times = 1
	}
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.last++
	id = "f" + strconv.Itoa(c.faults.last)
	c.faults.rules = append(c.faults.rules, &rule{Fault: f, id: id, skip: f.Skip, left: f.Times})
	return id, nil
}

// ClearFaults takes all rules out of force. Calls that hang already stay so.
func (c *Cloud) ClearFaults() {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.rules = nil
}

// none says that no rule is in force.
func (f *faults) none() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rules) == 0
}

// matches says whether the rule is about such a call.
func (r *rule) matches(service, operation string, request []byte) bool {
	if r.Service != service || (r.Operation != "" && r.Operation != operation) {
		return false
	}
	if only := faultKinds[r.Do].operations; len(only) > 0 && !slices.Contains(only, operation) {
		return false
	}
	return r.Contains == "" || strings.Contains(string(request), r.Contains)
}

// pick counts a call against the rules and returns the one to apply, if any,
// and how long to wait before.
func (f *faults) pick(service, operation string, request []byte, applies func(*Fault) bool) (*Fault, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var wait time.Duration
	for _, r := range f.rules {
		if r.left == 0 || !r.matches(service, operation, request) || !applies(&r.Fault) {
			continue
		}
		if r.skip > 0 {
			r.skip--
			continue
		}
		if r.left > 0 {
			r.left--
		}
		if r.Do == DoDelay {
			wait += time.Duration(r.Ms) * time.Millisecond
			continue
		}
		return &r.Fault, wait
	}
	return nil, wait
}

// carryOut takes a call through the faults to its service and back.
func (c *Cloud) carryOut(ctx context.Context, in call) outcome {
	name := in.service.Name()
	var stale []byte
	fault, wait := c.faults.pick(name, in.operation, in.request, func(f *Fault) bool {
		if f.Do != DoStale {
			return true
		}
		answer, found := c.record.previous(name, in.operation, in.request)
		stale = answer
		return found
	})
	if wait > 0 {
		if c.clock.Wait(ctx, c.clock.Now().Add(wait), nil) != nil {
			return outcome{cut: true, fault: DoDelay}
		}
	}
	var done outcome
	switch {
	case fault == nil && wait > 0:
		done = in.ask(ctx, in.request)
		done.fault = DoDelay
		return done
	case fault == nil:
		return in.ask(ctx, in.request)
	}
	switch fault.Do {
	case DoError:
		done = in.refused(errorOf(name, fault))
	case DoThrottle:
		done = in.refused(throttled(name, fault))
	case DoFailEntries:
		done = in.failEntries(ctx, fault)
	case DoUnprocessed:
		done = in.unprocessed(ctx, fault)
	case DoEmpty:
		done = in.empty()
	case DoStale:
		done = outcome{status: http.StatusOK, body: stale, header: in.header(stale)}
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

// dynamodbPrefix starts the error types of DynamoDB.
const dynamodbPrefix = "com.amazonaws.dynamodb.v20120810#"

// errorOf is the refusal that a rule asks for, with the service's internal
// error where it does not say.
func errorOf(service string, f *Fault) *wire.Error {
	code, status := f.Code, f.Status
	if code == "" {
		code = map[string]string{"sqs": "InternalError", "dynamodb": "InternalServerError", "sts": "InternalFailure"}[service]
		if status == 0 {
			status = http.StatusInternalServerError
		}
	}
	if status == 0 {
		status = http.StatusBadRequest
	}
	message := f.Message
	if message == "" {
		message = "A fault that was ordered from the local cloud."
	}
	switch {
	case strings.Contains(code, "#"):
		return &wire.Error{Status: status, Type: code, Message: message}
	case service == "sqs":
		return sqs.Refusal(status, code, message)
	case service == "dynamodb":
		return &wire.Error{Status: status, Type: dynamodbPrefix + code, Message: message}
	}
	return &wire.Error{Status: status, Type: code, Message: message}
}

func throttled(service string, f *Fault) *wire.Error {
	message := f.Message
	if service == "dynamodb" {
		if message == "" {
			message = "The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API."
		}
		return &wire.Error{Status: http.StatusBadRequest, Type: dynamodbPrefix + "ProvisionedThroughputExceededException", Message: message}
	}
	if message == "" {
		message = "The request was denied due to request throttling."
	}
	if service == "sqs" {
		return sqs.Refusal(http.StatusBadRequest, "RequestThrottled", message)
	}
	return &wire.Error{Status: http.StatusBadRequest, Type: "Throttling", Message: message}
}
