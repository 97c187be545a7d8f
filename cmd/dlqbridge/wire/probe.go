package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// probeTimeout is long for a health check and short for the person who waits
// with a terminal.
const probeTimeout = 10 * time.Second

// probe asks the URL of a route, if it has one. Its text goes into the job, so
// it names the status and never the body.
func (b *Bridge) probe(ctx context.Context, route string) error {
	r, ok := b.Config.Route(route)
	if !ok || r.Probe == "" {
		return nil
	}
	return Probe(ctx, http.DefaultClient, r.Probe)
}

// Probe asks a URL whether what stands behind it is there: any status from 200
// to 299 says so.
func Probe(ctx context.Context, client *http.Client, address string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("ask the probe: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // its text would repeat the whole URL, query included
		}
		return fmt.Errorf("GET %s: %w", req.URL.Host+req.URL.Path, err)
	}
	_ = res.Body.Close() // nothing in it is read
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("GET %s: %s", req.URL.Host+req.URL.Path, res.Status)
	}
	return nil
}
