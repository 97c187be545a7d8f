package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// What a name may look like.
var (
	tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)
	tableARN  = regexp.MustCompile(`^arn:[a-z-]+:dynamodb:[a-z0-9-]+:\d{12}:table/[a-zA-Z0-9_.-]{3,255}$`)
	pointer   = regexp.MustCompile(`^(/([^~]|~[01])*)*$`)
)

// Bounds, each far outside what is sensible, to catch slips of the pen.
const (
	maxPollers  = 64
	maxShards   = 64
	maxBudget   = 100
	maxSkew     = 10 * time.Minute
	maxInFlight = 100_000
	maxBurst    = 10_000
	maxSelected = 10_000_000
	maxSpan     = 10 * 365 * day
)

// validate checks what a type alone cannot say.
func validate(d *decoder, c *Config) {
	validateTables(d, c.Tables)
	validateDeclared(d, c.Stores)
	validateRoutes(d, c.Routes, append(slices.Clone(builtInStores), sortedKeys(c.Stores)...))
	validateAllRules(d, *c)
	for _, cause := range dlqbridge.Causes() {
		validateCause(d, cause, c.Causes[cause])
	}
	validateRedrive(d, c.Redrive)
	d.span("payloads.retention", c.Payloads.Retention, time.Hour, maxSpan)
	d.span("skew", c.Skew, 0, maxSkew)
	d.number("shards", c.Shards, 1, maxShards)
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		d.reportAt("listen", fmt.Sprintf("%q is no address", c.Listen), "write host:port, such as "+defaultListen)
	}
}

func (d *decoder) span(path string, v Duration, least, most time.Duration) {
	if t := time.Duration(v); t < least || t > most {
		d.reportAt(path, fmt.Sprintf("%s is out of range", v), fmt.Sprintf("at least %s, at most %s", Duration(least), Duration(most)))
	}
}

func (d *decoder) number(path string, n, least, most int) {
	if n < least || n > most {
		d.reportAt(path, fmt.Sprintf("%d is out of range", n), fmt.Sprintf("at least %d, at most %d", least, most))
	}
}

func validateTables(d *decoder, t Tables) {
	seen := map[string]string{}
	for _, one := range []struct{ path, name string }{{"tables.records", t.Records}, {"tables.payloads", t.Payloads}, {"tables.ledger", t.Ledger}} {
		if !tableName.MatchString(one.name) && !tableARN.MatchString(one.name) {
			d.reportAt(one.path, fmt.Sprintf("%q is no table", one.name), "write a name of 3 to 255 letters, digits, - _ . or a table's ARN")
		}
		if other, twice := seen[one.name]; twice {
			d.reportAt(one.path, fmt.Sprintf("%q is %s already", one.name, other), "name three different tables")
		}
		seen[one.name] = one.path
	}
}

func validateRoutes(d *decoder, routes []Route, stores []string) {
	names, places := map[string]int{}, map[string]int{}
	readers := map[string]string{}
	for i, r := range routes {
		path := fmt.Sprintf("routes[%d]", i)
		validateRoute(d, path, r, stores)
		validateCompletions(d, path, r, readers)
		if first, twice := names[r.Name]; twice && r.Name != "" {
			d.reportAt(path+".name", fmt.Sprintf("%q is the name of routes[%d] already", r.Name, first), "give each route its own name")
		} else {
			names[r.Name] = i
		}
		field, place := deadLetterPlace(r)
		if place == "" {
			continue
		}
		if first, twice := places[place]; twice {
			hint := "keep one route for it"
			if r.SQS != nil {
				hint = "for a shared dead-letter queue keep one route and leave source_queue out: each letter's own source ARN decides"
			}
			what := strconv.Quote(place)
			if r.URL != nil {
				what = "it" // a URL may hold a password
			}
			d.reportAt(path+"."+field, fmt.Sprintf("%s is read by routes[%d] already", what, first), hint)
		} else {
			places[place] = i
		}
	}
}

var routeName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

func validateRoute(d *decoder, path string, r Route, stores []string) {
	switch {
	case r.Name == "":
		d.reportAt(path+".name", "missing", "give the route a name of a-z, 0-9, - and _")
	case !routeName.MatchString(r.Name):
		d.reportAt(path+".name", fmt.Sprintf("%q is no route name", r.Name), "write 1 to 64 characters of a-z, 0-9, - and _")
	}
	validatePlaces(d, path, r)
	validateAsides(d, path, r)
	switch idempotent := r.Effects == Effects(dlqbridge.EffectsIdempotent); {
	case idempotent && r.IdempotencyWindow == 0:
		d.reportAt(path+".idempotency_window", "missing", "effects: idempotent needs how long every mutating tool honours its key, such as 24h")
	case !idempotent && r.IdempotencyWindow != 0:
		d.reportAt(path+".idempotency_window", "says nothing without effects: idempotent", "declare effects: idempotent, or leave the window out")
	}
	d.span(path+".max_run", r.MaxRun, time.Second, 7*day)
	if u, err := url.Parse(r.Probe); r.Probe != "" && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https") {
		d.reportAt(path+".probe", "is no URL that can be asked", "write an http or https URL without a password, such as https://payments.internal/health")
	}
	d.number(path+".pollers", r.Pollers, 1, maxPollers)
	validateTopics(d, path, r)
	validateStores(d, path, r, stores)
	for _, taskType := range sortedKeys(r.TaskSchemas) {
		if taskType == "" || r.TaskSchemas[taskType] == "" {
			d.reportAt(path+".task_schemas."+taskType, "names nothing", "write TYPE: FILE, such as invoice.create: schemas/invoice.json")
		}
	}
	for _, name := range sortedKeys(r.Fields) {
		validateField(d, path+".fields."+name, name, r.Fields[name])
	}
}

var topicARN = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$`)

func validateTopics(d *decoder, path string, r Route) {
	if len(r.SNSTopics) > 0 && r.SQS == nil {
		d.reportAt(path+".sns_topics", "needs sqs", "SNS delivers to queues; leave it out on other brokers")
	}
	for i, topic := range r.SNSTopics {
		at := fmt.Sprintf("%s.sns_topics[%d]", path, i)
		switch {
		case !topicARN.MatchString(topic):
			d.reportAt(at, fmt.Sprintf("%q is no topic's ARN", topic), "write arn:aws:sns:REGION:ACCOUNT:NAME, as `records explain` shows it for a letter that was not opened")
		case slices.Index(r.SNSTopics, topic) < i:
			d.reportAt(at, fmt.Sprintf("%q is listed twice", topic), "keep one of them")
		}
	}
}

func validateStores(d *decoder, path string, r Route, known []string) {
	seen := map[string]bool{}
	for i, s := range r.Stores {
		at := fmt.Sprintf("%s.stores[%d]", path, i)
		switch {
		case !slices.Contains(known, s):
			d.reportAt(at, fmt.Sprintf("%q is no store", s), Suggestion(s, known)+" Others are declared under stores.")
		case seen[s]:
			d.reportAt(at, fmt.Sprintf("%q is listed twice", s), "keep one of them")
		}
		seen[s] = true
	}
	if !seen["message"] {
		d.reportAt(path+".stores", "lacks message, and the letter itself is always read", "begin the list with message, such as [message, ledger]")
	}
	for _, needs := range []struct {
		set   bool
		key   string
		store string
	}{{r.LedgerPrefix != "", "ledger_prefix", "ledger"}, {r.Kit, "kit", "ledger"}} {
		if needs.set && !seen[needs.store] {
			d.reportAt(path+"."+needs.key, "says nothing without the store "+needs.store, "add "+needs.store+" to stores")
		}
	}
}

const selectorForms = "write attr:NAME, sys:NAME, body:/json/pointer or jmespath:EXPRESSION"

func validateField(d *decoder, path, name string, selectors []string) {
	if !slices.Contains(enrich.FieldNames(), name) {
		d.reportAt(path, fmt.Sprintf("%q is no field", name), Suggestion(name, enrich.FieldNames()))
		return
	}
	for i, s := range selectors {
		at := fmt.Sprintf("%s[%d]", path, i)
		kind, rest, _ := strings.Cut(s, ":")
		switch {
		case !slices.Contains([]string{"attr", "sys", "body", "jmespath"}, kind):
			d.reportAt(at, fmt.Sprintf("%q is no selector", s), selectorForms)
		case rest == "":
			d.reportAt(at, fmt.Sprintf("%q names nothing", s), selectorForms)
		case kind == "jmespath":
			if why := wrongExpression(rest); why != "" {
				d.reportAt(at, fmt.Sprintf("%q: %s", s, why), "")
			}
		case kind == "body" && !pointer.MatchString(rest):
			d.reportAt(at, fmt.Sprintf("%q is no JSON pointer", rest), "begin with a slash, such as body:/order/id; ~0 stands for ~, ~1 for /")
		}
	}
}

func validateCause(d *decoder, cause dlqbridge.Cause, c Cause) {
	path := "causes." + string(cause)
	fixed := dlqbridge.DefaultCausePolicy(cause)
	d.span(path+".triage_within", c.TriageWithin, time.Minute, maxSpan)
	d.span(path+".backoff", c.Backoff, time.Second, 30*day)
	d.span(path+".backoff_max", c.BackoffMax, time.Second, 30*day)
	d.number(path+".redrive_budget", c.RedriveBudget, 0, maxBudget)
	if c.BackoffMax < c.Backoff {
		d.reportAt(path+".backoff_max", fmt.Sprintf("%s is shorter than backoff (%s)", c.BackoffMax, c.Backoff), "make it at least as long")
	}
	if c.AutoAuthorize && !fixed.Retryable {
		d.reportAt(path+".auto_authorize", "only retryable causes may be authorised by policy", "leave it out, or put it on timeout or dependency_unavailable")
	}
	if c.AutoAuthorize && c.SecondPerson {
		d.reportAt(path+".auto_authorize", "contradicts second_person, which needs two people", "keep one of them")
	}
	if fixed.SecondPerson && !c.SecondPerson {
		d.reportAt(path+".second_person", "cannot be switched off for this cause", "configuration may be stricter than the default, never looser")
	}
}

func validateRedrive(d *decoder, r Redrive) {
	d.span("redrive.lease", r.Lease, 500*time.Millisecond, time.Hour)
	d.span("redrive.send_deadline", r.SendDeadline, 100*time.Millisecond, time.Hour)
	d.span("redrive.authorize_ttl", r.AuthorizeTTL, time.Minute, 30*day)
	d.number("redrive.max_in_flight", r.MaxInFlight, 0, maxInFlight)
	d.number("redrive.burst", r.Burst, 0, maxBurst)
	d.number("redrive.second_person_from", r.SecondPersonFrom, 0, maxSelected)
	validateHours(d, r.Hours)
	if r.SendDeadline >= r.Lease {
		d.reportAt("redrive.send_deadline", fmt.Sprintf("%s is not shorter than the lease (%s)", r.SendDeadline, r.Lease), "a send must end inside its lease, or another job could send the same at once")
	}
	last := 0
	for _, step := range r.Canary {
		if step <= last {
			d.reportAt("redrive.canary", fmt.Sprintf("step %d does not follow %d", step, last), "write growing sizes from 1, such as [1, 5, 25, 100], or none")
			break
		}
		last = step
	}
	for _, one := range []struct {
		path  string
		share float64
	}{{"redrive.pause_at_recurrence", r.PauseAtRecurrence}, {"redrive.pause_at_failure", r.PauseAtFailure}} {
		_, given := d.origins[one.path]
		switch p := one.share; {
		case p < 0 || p > 1 || given && p == 0:
			d.reportAt(one.path, fmt.Sprintf("%v is no share", p), "write a number above 0 and at most 1")
		case p > 0 && len(r.Canary) == 0:
			d.reportAt(one.path, "says nothing without canary steps", "add canary: [1, 5, 25], or leave it out")
		}
	}
}

// reported says whether there is a problem already about the field or about
// what it is a part of.
func (d *decoder) reported(field string) bool {
	return slices.ContainsFunc(d.problems, func(p Problem) bool {
		rest, part := strings.CutPrefix(field, p.Field)
		return part && p.Field != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
