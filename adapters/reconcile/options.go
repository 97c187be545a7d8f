package reconcile

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Defaults of Options, each with its reason.
const (
	// DefaultTimeout is long for a read of one object and leaves room within the
	// five seconds that a store has for a whole batch.
	DefaultTimeout = 3 * time.Second
	// DefaultCallsPerMinute is ten a second: a batch of letters at once, and no
	// load that a payment or ticket system would notice.
	DefaultCallsPerMinute = 600
	// DefaultMaxAnswer is far above one object and far below what hurts.
	DefaultMaxAnswer = 256 << 10
	// DefaultParallel keeps one batch of ten letters in one round.
	DefaultParallel = 10
)

const (
	maxTimeout        = 30 * time.Second
	maxCallsPerMinute = 60_000
	maxAnswerLimit    = 8 << 20
	maxParallel       = 100
)

// Options are the settings of one Reconciler.
type Options struct {
	// Name is its name in the configuration and on findings.
	Name string
	// Step is the id of the step it speaks for; empty is all steps.
	Step string
	// Method is GET or POST; empty is GET, or POST where there is a Body.
	Method string
	// URL may hold {idempotencyKey} {taskId} {runId} {tenant} in path and query,
	// and must name the task by the first or second or third of them, unless
	// Body does. With {runId} it speaks for that run only.
	URL string
	// Body is JSON in whose texts the same placeholders may stand.
	Body string
	// Headers are sent as they are; a value that ends in env:NAME gets that
	// variable's value in its place ("Bearer env:PAYMENTS_TOKEN").
	Headers map[string]string
	// Env looks a variable up, as os.LookupEnv does. Required where a header
	// names one.
	Env func(name string) (string, bool)
	// Done, NotDone and Unknown say what an answer means: any match of a list
	// counts. Unknown goes first; done and not done at once is unknown.
	Done, NotDone, Unknown []Match
	// Receipt points at the system's own reference in an answer that is done;
	// empty is none.
	Receipt string
	// Authoritative: what the system does not know did not happen.
	Authoritative bool
	// ConsistencyDelay is how long after an attempt the system may still not show
	// what it did; required with Authoritative.
	ConsistencyDelay time.Duration
	// Timeout bounds one call; 0 is DefaultTimeout.
	Timeout time.Duration
	// CallsPerMinute is the budget: no 60 seconds see more calls than that. 0
	// is DefaultCallsPerMinute.
	CallsPerMinute int
	// MaxAnswer is the longest body that is read, in bytes; 0 is DefaultMaxAnswer.
	MaxAnswer int
	// Parallel is how many calls may be under way; 0 is DefaultParallel.
	Parallel int
	// AllowAddresses lists the addresses that may be reached although they are
	// not public (loopback, private, link-local and the like).
	AllowAddresses []netip.Prefix
	// Roots are the certificate authorities to trust; nil is the machine's.
	Roots *x509.CertPool
	// Now is the clock; required.
	Now func() time.Time
}

// names that other findings carry: a reconciler may not speak in their place.
var takenNames = []string{"message", "ledger", "route", "operator"}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// check fills the defaults and names the first setting that is wrong.
func (o *Options) check() error {
	switch {
	case !namePattern.MatchString(o.Name):
		return fmt.Errorf("reconciler %q: name: write lower-case letters, digits, dots, dashes or underscores, at most 63", o.Name)
	case slices.Contains(takenNames, o.Name):
		return fmt.Errorf("reconciler %q: name: that is another store's", o.Name)
	}
	if err := o.checkSettings(); err != nil {
		return fmt.Errorf("reconciler %s: %w", o.Name, err)
	}
	return nil
}

func (o *Options) checkSettings() error {
	if o.Step == "" {
		o.Step = dlqbridge.AllSteps
	}
	switch o.Method {
	case "":
		o.Method = "GET"
		if o.Body != "" {
			o.Method = "POST"
		}
	case "GET":
		if o.Body != "" {
			return errors.New("body: a GET has none; leave it out or set method: POST")
		}
	case "POST":
	default:
		return fmt.Errorf("method %q: write GET or POST", o.Method)
	}
	if len(o.Done) == 0 && len(o.NotDone) == 0 {
		return errors.New("done and not_done are both missing: no answer would ever say anything")
	}
	if o.Authoritative && o.ConsistencyDelay <= 0 {
		return errors.New("consistency_delay: authoritative needs it: how long after an attempt the system may still not show what it did (2m is usual)")
	}
	if o.Authoritative && len(o.NotDone) == 0 {
		return errors.New("not_done: authoritative needs it: which answer says that nothing happened")
	}
	if o.ConsistencyDelay < 0 {
		return errors.New("consistency_delay: must not be negative")
	}
	if o.Now == nil {
		return errors.New("option Now is required")
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Timeout < 0 || o.Timeout > maxTimeout {
		return fmt.Errorf("timeout %s: at most %s", o.Timeout, maxTimeout)
	}
	for _, n := range []struct {
		name         string
		value        *int
		usual, limit int
	}{
		{"calls_per_minute", &o.CallsPerMinute, DefaultCallsPerMinute, maxCallsPerMinute},
		{"max_answer_bytes", &o.MaxAnswer, DefaultMaxAnswer, maxAnswerLimit},
		{"parallel", &o.Parallel, DefaultParallel, maxParallel},
	} {
		if *n.value == 0 {
			*n.value = n.usual
		}
		if *n.value < 0 || *n.value > n.limit {
			return fmt.Errorf("%s %d: write 1 to %d", n.name, *n.value, n.limit)
		}
	}
	return nil
}
