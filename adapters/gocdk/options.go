package gocdk

import (
	"fmt"
	"net/url"
	"time"

	"gocloud.dev/pubsub"

	"github.com/dlqbridge/dlqbridge"
)

// Provider is what letters of this package name as their provider.
const Provider dlqbridge.Provider = "gocdk"

// Options say which place and how to read it.
type Options struct {
	// URL is a pubsub URL of the Go CDK, such as "rabbit://jobs-dead". Required.
	URL string
	// Mux finds the driver by the URL's scheme; nil means the library's own,
	// with which imported drivers register.
	Mux *pubsub.URLMux
	// Describe, if set, adds to a letter what the driver knows of it: a true
	// MessageID, SentAt, Deliveries. It is for dead-letter places only.
	Describe func(*pubsub.Message, *dlqbridge.Letter)
	// MaxBytes and MaxAttributes are the broker's limits for one message; zero
	// is unknown. They are for destinations only.
	MaxBytes, MaxAttributes int
	// Gather is how long Receive waits for one more letter when it has some
	// already, and at least for the first; zero means DefaultGather.
	Gather time.Duration
	// Now tells the time; nil means time.Now.
	Now func() time.Time
}

// DefaultGather is long enough to take letters out of the library's own queue
// in memory, and short enough not to be felt.
const DefaultGather = 20 * time.Millisecond

// withDefaults also returns the URL as a place is called: without credentials.
func (o Options) withDefaults() (Options, string, error) {
	if o.URL == "" {
		return o, "", fmt.Errorf("%w: Options.URL is not set", dlqbridge.ErrInvalid)
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme == "" {
		// The error would repeat the URL, and with it a password.
		return o, "", fmt.Errorf("%w: Options.URL is not a URL", dlqbridge.ErrInvalid)
	}
	u.User = nil
	if o.Mux == nil {
		o.Mux = pubsub.DefaultURLMux()
	}
	if o.Gather == 0 {
		o.Gather = DefaultGather
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the clock where none was given
	}
	return o, u.String(), nil
}
