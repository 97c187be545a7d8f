package localstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// maxRequestBytes bounds what is read of a request: DynamoDB's batches have
// up to 16 MB, which JSON and base64 make larger.
const maxRequestBytes = 64 << 20

// Handler is the cloud's AWS address: SQS, DynamoDB and STS by what the
// request says it wants, and the control interface under /_local/.
func (c *Cloud) Handler() http.Handler {
	door := http.NewServeMux()
	c.control(door)
	door.HandleFunc("/", c.serve)
	return door
}

// call is one request to a service on its way through the cloud.
type call struct {
	service   wire.Service
	operation string
	request   []byte
	after     int64
}

func (c *Cloud) serve(w http.ResponseWriter, r *http.Request) {
	if !c.enter() {
		refuse(w, &wire.Error{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailable", Message: "The local cloud is closed."})
		return
	}
	defer c.calls.Done()
	after := c.record.seen()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		refuse(w, &wire.Error{Status: http.StatusRequestEntityTooLarge, Type: "RequestEntityTooLarge", Message: fmt.Sprintf("read the request: %v", err)})
		return
	}
	ctx, cancel := context.WithCancel(wire.WithCaller(r.Context(), wire.Caller{Host: r.Host, AccessKey: accessKey(r)}))
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() //nolint:contextcheck // ends the call with the cloud; the call has its own context
	service, operation, known := c.addressee(r, body)
	if !known {
		refuse(w, &wire.Error{
			Status: http.StatusBadRequest, Type: "com.amazon.coral.service#UnknownOperationException",
			Message: fmt.Sprintf("The local cloud does not serve %s %s (X-Amz-Target %q).", r.Method, r.URL.Path, r.Header.Get("X-Amz-Target")),
		})
		return
	}
	c.answer(ctx, w, call{service, operation, body, after})
}

// enter counts a call in; false once the cloud is closed.
func (c *Cloud) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.calls.Add(1)
	return true
}

// addressee finds the service and the operation that a request is for.
func (c *Cloud) addressee(r *http.Request, body []byte) (wire.Service, string, bool) {
	if prefix, operation, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		service, known := c.services[prefix]
		return service, operation, known && r.Method == http.MethodPost
	}
	if operation, ok := identityAction(r, body); ok {
		return identity{}, operation, true
	}
	return nil, "", false
}

// answer carries a call out, with whatever faults were ordered, and writes
// the recording and the response.
func (c *Cloud) answer(ctx context.Context, w http.ResponseWriter, in call) {
	done := c.carryOut(ctx, in)
	recorded := Request{
		After: in.after, At: c.clock.Now(), Service: in.service.Name(), Operation: in.operation, Request: in.request, Fault: done.fault,
	}
	if done.carriedOut() {
		recorded.Status, recorded.Response = done.status, done.body
	}
	c.record.add(recorded)
	if done.cut {
		// The server and the in-process client both understand this as:
		// close the connection without an answer.
		panic(http.ErrAbortHandler)
	}
	done.write(w)
}

// outcome is what a call came to.
type outcome struct {
	status int
	header http.Header
	body   []byte
	fault  string // what was done to it by order
	cut    bool   // the client gets no answer
}

// carriedOut says whether there is an answer, sent or not.
func (o outcome) carriedOut() bool { return o.status != 0 }

// call asks the service and puts its answer or its refusal into words.
func (in call) ask(ctx context.Context, request []byte) outcome {
	response, err := in.service.Call(ctx, in.operation, request)
	if err != nil {
		refusal, known := errors.AsType[*wire.Error](err)
		if !known {
			refusal = &wire.Error{Status: http.StatusInternalServerError, Type: "InternalFailure", Message: err.Error()}
		}
		return in.refused(refusal)
	}
	return outcome{status: http.StatusOK, body: response, header: in.header(response)}
}

func (in call) header(response []byte) http.Header {
	if _, xml := in.service.(identity); xml {
		return http.Header{"Content-Type": {"text/xml"}}
	}
	header := http.Header{"Content-Type": {contentType}}
	if in.service.Name() == "dynamodb" {
		// SDKs of DynamoDB compare it.
		header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(response)), 10))
	}
	return header
}

const contentType = "application/x-amz-json-1.0"

// refused words a refusal in the protocol of the call's service.
func (in call) refused(e *wire.Error) outcome {
	if _, xml := in.service.(identity); xml {
		return refusedXML(e)
	}
	o := refused(e)
	maps.Copy(o.header, in.header(o.body))
	return o
}

func refused(e *wire.Error) outcome {
	fields := map[string]any{"__type": e.Type, "message": e.Message}
	maps.Copy(fields, e.Fields)
	body, err := json.Marshal(fields)
	if err != nil {
		body = []byte(`{"__type":"InternalFailure","message":"the refusal cannot be encoded"}`)
	}
	header := http.Header{"Content-Type": {contentType}}
	if e.QueryCode != "" {
		header.Set("X-Amzn-Query-Error", e.QueryCode)
	}
	return outcome{status: e.Status, header: header, body: body}
}

func refuse(w http.ResponseWriter, e *wire.Error) { refused(e).write(w) }

func (o outcome) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), o.header)
	w.Header().Set("X-Amzn-Requestid", requestID())
	w.Header().Set("Content-Length", strconv.Itoa(len(o.body)))
	w.WriteHeader(o.status)
	// A client that went away has nothing to be told.
	_, _ = w.Write(o.body)
}

// accessKey reads the key ID from a signature of version 4; signatures
// themselves are not checked.
func accessKey(r *http.Request) string {
	_, rest, ok := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if !ok {
		return ""
	}
	key, _, _ := strings.Cut(rest, "/")
	return key
}
