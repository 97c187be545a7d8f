package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// address is the cloud's name where no socket is involved.
const address = "localcloud"

// AWSConfig is a configuration for the clients of the AWS SDK that reaches
// this cloud without a socket, so that it works inside testing/synctest too:
//
//	client := sqs.NewFromConfig(cloud.AWSConfig())
func (c *Cloud) AWSConfig() aws.Config {
	return aws.Config{
		Region:       Region,
		BaseEndpoint: aws.String("http://" + address),
		HTTPClient:   c.HTTPClient(),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local", Source: "localcloud"}, nil
		}),
	}
}

// HTTPClient calls the cloud's handler directly. It honours the request's
// context, and a connection cut by order of a fault is a transport error.
func (c *Cloud) HTTPClient() *http.Client {
	return &http.Client{Transport: transport{c.Handler()}}
}

// transport is an http.RoundTripper into a handler of the same process.
type transport struct {
	handler http.Handler
}

// ErrCut is the transport error of a connection that a fault has cut.
var ErrCut = errors.New("the local cloud cut the connection")

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (response *http.Response, err error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	incoming := r.Clone(r.Context())
	if incoming.Host == "" {
		incoming.Host = r.URL.Host
	}
	if incoming.Body == nil {
		incoming.Body = http.NoBody
	}
	incoming.RequestURI = r.URL.RequestURI()
	incoming.RemoteAddr = address
	w := &answer{header: http.Header{}, status: http.StatusOK}
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			response, err = nil, fmt.Errorf("%s %s: %w: %w", r.Method, r.URL, ErrCut, io.ErrUnexpectedEOF)
			if gone := r.Context().Err(); gone != nil {
				err = gone
			}
		default:
			panic(cause)
		}
	}()
	t.handler.ServeHTTP(w, incoming)
	if err := r.Context().Err(); err != nil {
		// The caller gave up while the handler worked; a socket would have
		// told it the same.
		return nil, err
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(bytes.NewReader(w.body)),
		ContentLength: int64(len(w.body)),
		Request:       r,
	}, nil
}

// answer is an http.ResponseWriter that keeps everything.
type answer struct {
	header http.Header
	status int
	body   []byte
	wrote  bool
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if !a.wrote {
		a.status, a.wrote = status, true
	}
}

// Write implements http.ResponseWriter. The cloud writes a body once and
// leaves it alone, so there is no need for a copy of it.
func (a *answer) Write(body []byte) (int, error) {
	a.wrote = true
	if a.body == nil {
		a.body = body
	} else {
		a.body = append(bytes.Clone(a.body), body...)
	}
	return len(body), nil
}
