package localstack

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"sync"
	"time"
	"unicode/utf8"
)

// The recording keeps the last calls: so many, and so many bytes of them (a
// thousand batches of a megabyte must not fill the machine).
const (
	recordedCalls = 10_000
	recordedBytes = 256 << 20
)

// Request is one recorded call.
type Request struct {
	// N numbers the calls from 1 in the order in which they were answered.
	N int64
	// After is the N of the last call answered before this one came in: a
	// call with N <= After was over when this one began.
	After int64
	// At is when the call was answered, by the cloud's clock.
	At time.Time
	// Service is "sqs", "dynamodb" or "sts"; Operation as the service names it.
	Service, Operation string
	// Request and Response are the bodies as sent. The receiver must not
	// change them. A call that got no answer has an empty Response.
	Request, Response []byte
	// Status is the HTTP status of the answer; 0 when the call was not
	// carried out and its connection cut.
	Status int
	// Fault is what was done to the call by order ("throttle", "drop_after"),
	// empty if nothing.
	Fault string
}

// MarshalJSON implements json.Marshaler: bodies as text, or in base64 where
// they are not UTF-8.
func (r Request) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		N         int64  `json:"n"`
		After     int64  `json:"after"`
		At        string `json:"at"`
		Service   string `json:"service"`
		Operation string `json:"operation"`
		Request   string `json:"request"`
		Status    int    `json:"status"`
		Response  string `json:"response"`
		Fault     string `json:"fault"`
	}{r.N, r.After, r.At.Format(time.RFC3339Nano), r.Service, r.Operation, readable(r.Request), r.Status, readable(r.Response), r.Fault})
}

func readable(body []byte) string {
	if utf8.Valid(body) {
		return string(body)
	}
	return base64.StdEncoding.EncodeToString(body)
}

// Units are DynamoDB capacity units.
type Units struct {
	Read  float64 `json:"read"`
	Write float64 `json:"write"`
}

// Counters count calls and units since the start or the last ForgetRequests.
type Counters struct {
	// Calls is by service and operation, faults included.
	Calls map[string]map[string]int64 `json:"calls"`
	Units Units                       `json:"units"`
}

// recording is the ring of recorded calls and the counters.
type recording struct {
	mu    sync.Mutex
	last  int64
	ring  []Request // ring[first:], ring[:first] in order, once it is full
	first int
	bytes int
	calls map[string]map[string]int64
	base  Units // what was used before the counters were cleared
}

func (r *recording) clear(used Units) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring, r.first, r.bytes = nil, 0, 0
	r.base = used
	r.calls = map[string]map[string]int64{}
}

// seen is the N of the last answered call.
func (r *recording) seen() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *recording) add(call Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	call.N = r.last
	byOperation := r.calls[call.Service]
	if byOperation == nil {
		byOperation = map[string]int64{}
		r.calls[call.Service] = byOperation
	}
	byOperation[call.Operation]++
	r.bytes += call.size()
	if len(r.ring) < recordedCalls {
		r.ring = append(r.ring, call)
	} else {
		r.bytes -= r.ring[r.first].size()
		r.ring[r.first] = call
		r.first = (r.first + 1) % recordedCalls
	}
	// The bodies of the oldest go first; their lines stay.
	for at := 0; r.bytes > recordedBytes && at < len(r.ring)-1; at++ {
		old := &r.ring[(r.first+at)%len(r.ring)]
		r.bytes -= old.size()
		old.Request, old.Response = nil, nil
	}
}

func (r Request) size() int { return len(r.Request) + len(r.Response) }

// list gives the recorded calls after number since, of one service or all.
func (r *recording) list(service string, since int64) []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := []Request{}
	for at := range r.ring {
		call := r.ring[(r.first+at)%len(r.ring)]
		if call.N > since && (service == "" || call.Service == service) {
			found = append(found, call)
		}
	}
	return found
}

// previous finds the latest good answer to an identical call.
func (r *recording) previous(service, operation string, request []byte) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.ring {
		call := &r.ring[(r.first+len(r.ring)-1-at)%len(r.ring)]
		if call.Status == 200 && call.Service == service && call.Operation == operation && string(call.Request) == string(request) {
			return call.Response, true
		}
	}
	return nil, false
}

func (r *recording) counters(used Units) Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := Counters{
		Calls: map[string]map[string]int64{"sqs": {}, "dynamodb": {}, "pubsub": {}},
		Units: Units{Read: used.Read - r.base.Read, Write: used.Write - r.base.Write},
	}
	for service, operations := range r.calls {
		c.Calls[service] = maps.Clone(operations)
	}
	return c
}

// Requests returns the recorded calls with N greater than since, of one
// service or, with an empty service, of all.
func (c *Cloud) Requests(service string, since int64) []Request { return c.record.list(service, since) }

// ForgetRequests empties the recording and sets the counters to zero.
func (c *Cloud) ForgetRequests() { c.record.clear(c.units()) }

// Counters returns how many calls there were and what they used.
func (c *Cloud) Counters() Counters { return c.record.counters(c.units()) }
