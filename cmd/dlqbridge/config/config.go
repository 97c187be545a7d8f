// Package config reads dlqbridge.yaml: strictly, with every problem reported
// at once and each with its place in the file, the field's path and what would
// be right.
//
// A value comes from a flag, else from the environment, else from the file,
// else it is the default. The names in the environment follow the paths:
// redrive.rate is DLQBRIDGE_REDRIVE_RATE. Lists and maps (routes, causes) come
// from the file alone.
//
// What people may expect but this version does not do is refused with a
// sentence, so that nobody believes in something that is not there.
package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// FileVariable names the environment variable with the configuration's path.
const FileVariable = "DLQBRIDGE_CONFIG"

// Config is the whole configuration. Each field's yaml tag is its key, its doc
// tag the sentence in the JSON Schema.
type Config struct {
	Tables   Tables                    `yaml:"tables" doc:"DynamoDB tables, by name or ARN."`
	Payloads Payloads                  `yaml:"payloads" doc:"How payload snapshots are kept."`
	Routes   []Route                   `yaml:"routes" doc:"Pairs of a dead-letter place and the place to send work back to."`
	Stores   map[string]Store          `yaml:"stores" doc:"Where agent context comes from besides the letter and the ledger, by the names that routes list."`
	Classify []Rule                    `yaml:"classify" doc:"Rules for the cause of a failure, after each route's own and before what worker, ledger and built-in knowledge say; the first that is true decides."`
	Causes   map[dlqbridge.Cause]Cause `yaml:"causes" doc:"How each cause of failure is handled; what is left out keeps its safe default."`
	Redrive  Redrive                   `yaml:"redrive" doc:"How redrive jobs send."`
	Listen   string                    `yaml:"listen" doc:"Address of /healthz, /readyz and /metrics on serve."`
	Log      Log                       `yaml:"log" doc:"Logs on standard error."`
	Skew     Duration                  `yaml:"skew" doc:"How far the clocks of two machines may differ."`
	Shards   int                       `yaml:"shards" doc:"Over how many partitions each route, cause and status is spread in the indexes."`

	// File is where it was read from; empty if there was no file.
	File string `yaml:"-"`
	// origins says where the value at each path came from.
	origins map[string]origin
}

// Tables names the tables. They are made by your own tool or `tables create`.
type Tables struct {
	Records  string `yaml:"records" doc:"Records, jobs, leases and holds."`
	Payloads string `yaml:"payloads" doc:"Exact snapshots of letters, apart so that rights can differ."`
	Ledger   string `yaml:"ledger" doc:"Where agent workers note intent, receipt and checkpoint of each step."`
}

// Payloads says how payload snapshots are kept.
type Payloads struct {
	Retention Duration `yaml:"retention" doc:"How long a payload is kept after its record was closed."`
}

// Route is a pair of a dead-letter place and the place to send work back to.
type Route struct {
	Name              string              `yaml:"name" doc:"Unique name: a-z, 0-9, - and _, at most 64 characters." pattern:"^[a-z0-9_-]{1,64}$" required:"true"`
	SQS               *SQS                `yaml:"sqs" doc:"The route's queues on Amazon SQS. A route has exactly one of sqs, pubsub and url."`
	PubSub            *PubSub             `yaml:"pubsub" doc:"The route's subscription and topics on Google Pub/Sub."`
	URL               *URL                `yaml:"url" doc:"The route's places on any other broker, by URLs of the Go CDK (gocloud.dev/pubsub). Weaker: acknowledgements are made in the background and not confirmed, so a failed one shows later and its letter comes again; nothing can extend the time in hand; there are no message ids and no counts."`
	Effects           Effects             `yaml:"effects" doc:"What the tasks may change outside; mutating declares nothing."`
	IdempotencyWindow Duration            `yaml:"idempotency_window" doc:"With effects idempotent: how long every mutating tool honours its idempotency key."`
	Kit               bool                `yaml:"kit" doc:"The workers use the kit, which refuses a second run of one redrive number."`
	TrustWorker       bool                `yaml:"trust_worker" doc:"Believe a worker's own none_confirmed about its own run, on letters it sent to the dead-letter place itself."`
	Resume            bool                `yaml:"resume" doc:"The tasks of this route can be resumed from a checkpoint."`
	ResumeTo          string              `yaml:"resume_to" doc:"With resume: the queue or topic that resumes go to, where that is not the source; named like the source and on the same broker."`
	CompensateTo      string              `yaml:"compensate_to" doc:"The queue or topic that compensations go to, on the same broker; without it a record whose effect is confirmed waits for a person."`
	CompensateAgain   bool                `yaml:"compensate_idempotent" doc:"Whoever reads compensations honours their idempotency keys, so that one in doubt may be sent again; without it a person decides."`
	Completions       string              `yaml:"completions" doc:"A queue or subscription of completion messages, in which workers say that what was sent back to them is done."`
	Outcome           Outcome             `yaml:"outcome" doc:"What completes a redrive: evidence, or also the absence of a recurrence until the observation ends."`
	MaxRun            Duration            `yaml:"max_run" doc:"How long a run without a lease may still be going after its last sign of life."`
	Stores            []string            `yaml:"stores" doc:"Where agent context comes from, asked in this order: message, ledger and the names under stores; [message, ledger] if left out." pattern:"^[a-z0-9][a-z0-9_-]{0,62}$"`
	LedgerPrefix      string              `yaml:"ledger_prefix" doc:"Put before the task id in the ledger, where several routes share a table."`
	Fields            map[string][]string `yaml:"fields" doc:"Selectors per field, before the well-known spellings: attr:NAME, sys:NAME, body:/json/pointer or jmespath:EXPRESSION."`
	SNSTopics         []string            `yaml:"sns_topics" doc:"ARNs of the SNS topics that are subscribed to the source without raw delivery. Their envelopes are opened, which says that nobody else may send to the queue; those of other topics are shown as looking like one." pattern:"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\\.fifo)?$"`
	Classify          []Rule              `yaml:"classify" doc:"Rules for the cause of a failure, before those of all routes."`
	Probe             string              `yaml:"probe" doc:"An http or https URL that is asked before a job sends its first message and after each pause; an answer outside 200 to 299 pauses the job." pattern:"^https?://[^@]+$"`
	AutoCancelExpired bool                `yaml:"auto_cancel_expired" doc:"Close records past their valid_until as cancelled_expired when a run comes to them; without it they wait for a person."`
	Schema            string              `yaml:"schema" doc:"A JSON Schema that a repaired body must satisfy: a file, looked for beside this one."`
	TaskSchemas       map[string]string   `yaml:"task_schemas" doc:"The same by type of task, before schema."`
	Pollers           int                 `yaml:"pollers" doc:"How many receive loops read the dead-letter place."`
}

// Cause is how one cause of failure is handled.
type Cause struct {
	Owner         string   `yaml:"owner" doc:"Team or person a new record is given to."`
	TriageWithin  Duration `yaml:"triage_within" doc:"How soon a person must have looked."`
	AutoAuthorize bool     `yaml:"auto_authorize" doc:"Let policy authorise retries alone, after the back-off; retryable causes only."`
	SecondPerson  bool     `yaml:"second_person" doc:"Authorising needs two different authenticated people."`
	RedriveBudget int      `yaml:"redrive_budget" doc:"How often one record may be sent back in all."`
	Backoff       Duration `yaml:"backoff" doc:"How long policy waits before the first redrive at most; it doubles with each further one."`
	BackoffMax    Duration `yaml:"backoff_max" doc:"Where the doubling ends."`
	Runbook       string   `yaml:"runbook" doc:"Link for the person who triages."`
}

// Redrive says how jobs send.
type Redrive struct {
	Rate              Rate     `yaml:"rate" doc:"Messages per span of time to one destination: 20/s, 600/m, 1000/h."`
	Burst             int      `yaml:"burst" doc:"Messages above the rate at most; 0 is a tenth of a second's worth, at least 10."`
	MaxInFlight       int      `yaml:"max_in_flight" doc:"Messages of a job that are out without a known outcome, at most: when so many are, the job waits until one completed, came back or was observed to the end. 0 is no bound."`
	Canary            Canary   `yaml:"canary" doc:"none, or the sizes of a job's first steps; the outcomes of each are waited for before the next one begins."`
	ObserveFor        Observe  `yaml:"observe_for" doc:"How long an outcome is waited for: auto (the larger of 10 m and maxReceiveCount x visibility timeout of the source) or longer."`
	Lease             Duration `yaml:"lease" doc:"How long a job holds its destination without a sign of life."`
	SendDeadline      Duration `yaml:"send_deadline" doc:"The longest one send may take; shorter than the lease."`
	AuthorizeTTL      Duration `yaml:"authorize_ttl" doc:"When an authorisation lapses by itself, and the approval of a plan."`
	Hours             *Hours   `yaml:"hours" doc:"Business hours of redrive run --policy; a person's run is not bound by them. Any time if left out."`
	SecondPersonFrom  int      `yaml:"second_person_from" doc:"From how many records on a run needs a plan that a second authenticated person approved; 0 is never, 1 always."`
	PauseAtRecurrence float64  `yaml:"pause_at_recurrence" doc:"Share of a canary step that came back at which the job pauses by itself, above 0 and at most 1; 0.2 if left out. Only with canary steps."`
	PauseAtFailure    float64  `yaml:"pause_at_failure" doc:"Share of a canary step that was refused or is in doubt at which the job pauses by itself, above 0 and at most 1; 0.5 if left out. Only with canary steps."`
}

// Log says what is logged and how.
type Log struct {
	Format LogFormat `yaml:"format" doc:"text or json."`
	Level  LogLevel  `yaml:"level" doc:"The least level that is logged."`
}

// Defaults with their reasons; those of causes stand in the domain.
const (
	defaultListen       = "127.0.0.1:9464" // loopback: metrics are not for everybody
	defaultRetention    = 30 * 24 * time.Hour
	defaultMaxRun       = 15 * time.Minute    // longer than most agent runs, shorter than a shift
	defaultRate         = redrive.DefaultRate // per second
	defaultLease        = redrive.DefaultLease
	defaultSendDeadline = redrive.DefaultSendDeadline
	defaultAuthorizeTTL = redrive.DefaultAuthorizeTTL
	defaultShards       = 8
	defaultPollers      = 2 // one receives while the other stores
)

// Default is the configuration without file, environment and flags.
func Default() Config {
	c := Config{
		Tables:   Tables{Records: "dlqbridge-records", Payloads: "dlqbridge-payloads", Ledger: "agent-ledger"},
		Payloads: Payloads{Retention: Duration(defaultRetention)},
		Causes:   map[dlqbridge.Cause]Cause{},
		Redrive: Redrive{
			Rate:         Rate{Count: defaultRate, Per: time.Second},
			Lease:        Duration(defaultLease),
			SendDeadline: Duration(defaultSendDeadline),
			AuthorizeTTL: Duration(defaultAuthorizeTTL),
		},
		Listen:  defaultListen,
		Log:     Log{Format: "text", Level: "info"},
		Skew:    Duration(dlqbridge.DefaultSkew),
		Shards:  defaultShards,
		origins: map[string]origin{},
	}
	for _, cause := range dlqbridge.Causes() {
		p := dlqbridge.DefaultCausePolicy(cause)
		c.Causes[cause] = Cause{
			Owner: p.Owner, TriageWithin: Duration(p.TriageWithin), AutoAuthorize: p.AutoAuthorize, SecondPerson: p.SecondPerson,
			RedriveBudget: p.RedriveBudget, Backoff: Duration(p.BackoffBase), BackoffMax: Duration(p.BackoffMax), Runbook: p.Runbook,
		}
	}
	return c
}

// defaultRoute is a route that says only its name and places.
func defaultRoute() Route {
	return Route{
		Effects: Effects(dlqbridge.EffectsMutating), Outcome: OutcomeEvidence, MaxRun: Duration(defaultMaxRun),
		Stores: []string{"message", "ledger"}, Pollers: defaultPollers,
	}
}

// Policy is how a cause is handled, with what configuration may not change.
func (c Config) Policy(cause dlqbridge.Cause) dlqbridge.CausePolicy {
	p := dlqbridge.DefaultCausePolicy(cause)
	set, ok := c.Causes[p.Cause]
	if !ok {
		return p
	}
	p.Owner, p.Runbook = set.Owner, set.Runbook
	p.TriageWithin, p.BackoffBase, p.BackoffMax = time.Duration(set.TriageWithin), time.Duration(set.Backoff), time.Duration(set.BackoffMax)
	p.AutoAuthorize, p.SecondPerson = set.AutoAuthorize, set.SecondPerson
	p.RedriveBudget = set.RedriveBudget
	return p
}

// Policies are those of all causes.
func (c Config) Policies() map[dlqbridge.Cause]dlqbridge.CausePolicy {
	out := map[dlqbridge.Cause]dlqbridge.CausePolicy{}
	for _, cause := range dlqbridge.Causes() {
		out[cause] = c.Policy(cause)
	}
	return out
}

// Route returns the route of that name.
func (c Config) Route(name string) (Route, bool) {
	for _, r := range c.Routes {
		if r.Name == name {
			return r, true
		}
	}
	return Route{}, false
}

// SchemaFile is the JSON Schema that a route's repaired bodies must satisfy for
// a type of task; empty is none.
func (c Config) SchemaFile(r Route, taskType string) string {
	file := r.Schema
	if own, ok := r.TaskSchemas[taskType]; ok {
		file = own
	}
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(c.File), file)
}

// SchemaFiles lists all that a route names, without repeats.
func (c Config) SchemaFiles(r Route) []string {
	files := []string{c.SchemaFile(Route{Schema: r.Schema}, "")}
	for _, taskType := range sortedKeys(r.TaskSchemas) {
		files = append(files, c.SchemaFile(r, taskType))
	}
	slices.Sort(files)
	return slices.DeleteFunc(slices.Compact(files), func(f string) bool { return f == "" })
}

// Source says where configuration comes from.
type Source struct {
	// File is the path given by flag; empty asks the environment.
	File string
	// Env looks up the environment, as os.LookupEnv does.
	Env func(string) (string, bool)
	// Flags are the values given by flags, by path ("redrive.rate"). FlagNames
	// says how each is called where an error must name it.
	Flags, FlagNames map[string]string
	// ReadFile reads the file; nil is os.ReadFile.
	ReadFile func(string) ([]byte, error)
}

// Load reads, completes and validates the configuration. Its errors are
// Problems: all there are, with their places.
func Load(s Source) (Config, error) {
	c := Default()
	d := &decoder{origins: c.origins, at: map[string]place{}}
	path := s.File
	if path == "" {
		path, _ = s.Env(FileVariable)
	}
	if path != "" {
		read := s.ReadFile
		if read == nil {
			read = os.ReadFile
		}
		text, err := read(path)
		if err != nil {
			return Config{}, Problems{{Text: fmt.Sprintf("read the configuration: %v", err), Hint: "name the file by --config or " + FileVariable}}
		}
		c.File, d.file = path, path
		d.document(text, &c)
	}
	d.overlay(&c, s)
	validate(d, &c)
	if len(d.problems) > 0 {
		return Config{}, d.sorted()
	}
	return c, nil
}

// ErrConfig is what all problems of a configuration are.
var ErrConfig = errors.New("wrong configuration")
