package reconcile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// answer is what the system said, once it has said it all.
type answer struct {
	at     time.Time
	status int
	hash   string // of the body, or of its first MaxAnswer bytes
	long   bool   // there was more
	body   []byte
}

// newClient returns a client that follows no redirect, uses no proxy, keeps no
// cookies and dials only what the guard lets pass.
func newClient(o Options, plain bool) *http.Client {
	dialer := &net.Dialer{Timeout: o.Timeout, Control: guard{o.AllowAddresses, plain}.control}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // the hash is of what the system sent
			MaxResponseHeaderBytes: 64 << 10,
			MaxConnsPerHost:        o.Parallel,
			MaxIdleConnsPerHost:    o.Parallel,
			IdleConnTimeout:        30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call asks once. Its errors are sentences without any value of the question:
// what net/http says holds the whole URL.
func (r *Reconciler) call(ctx context.Context, a ask) (answer, error) {
	bounded, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	var body io.Reader
	if a.body != "" {
		body = bytes.NewReader([]byte(a.body))
	}
	request, err := http.NewRequestWithContext(bounded, r.o.Method, a.url, body)
	if err != nil {
		return answer{}, errors.New("the question does not make a request")
	}
	request.Header = r.headers().Clone()
	if a.body != "" && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json")
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "dlqbridge") // so that its owner knows who reads
	}
	response, err := r.client.Do(request)
	if err != nil {
		return answer{}, r.meaning(ctx, bounded, err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(io.LimitReader(response.Body, int64(r.o.MaxAnswer)+1))
	if err != nil {
		// Half an answer says nothing, and least of all that something is absent.
		return answer{}, r.meaning(ctx, bounded, err)
	}
	out := answer{at: r.o.Now(), status: response.StatusCode, long: len(read) > r.o.MaxAnswer}
	out.body = read[:min(len(read), r.o.MaxAnswer)]
	sum := sha256.Sum256(out.body)
	out.hash = hex.EncodeToString(sum[:])
	return out, nil
}

// meaning turns an error into a sentence for the person who wonders why the
// system is silent.
func (r *Reconciler) meaning(ctx, bounded context.Context, err error) error {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused
	}
	_, unresolved := errors.AsType[*net.DNSError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.New("no answer within the time for all questions")
	case ctx.Err() != nil:
		return errors.New("stopped before it answered")
	case bounded.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", r.o.Timeout)
	case unresolved:
		return errors.New("the host's name cannot be resolved")
	case untrusted || authority:
		return errors.New("the host's certificate is not valid or not trusted")
	case noTLS:
		return errors.New("the host does not speak TLS there")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("the connection broke before the answer was complete")
	}
	return errors.New("cannot be reached")
}

// asOwn says in words why an answer with this status is none; empty where it is
// an answer.
func asOwn(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "denied: the credentials are missing, wrong or expired (status 401)"
	case status == http.StatusForbidden:
		return "denied: the credentials may not read this (status 403)"
	case status == http.StatusTooManyRequests:
		return "throttled (status 429)"
	case status >= 300 && status < 400 && ownStatus(status):
		return fmt.Sprintf("redirected, and redirects are not followed (status %d)", status)
	case ownStatus(status):
		return fmt.Sprintf("answered with an error of its own (status %d)", status)
	}
	return ""
}
