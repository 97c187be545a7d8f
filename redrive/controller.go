package redrive

import (
	"context"
	"log/slog"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Defaults of Options, each with its reason.
const (
	// DefaultLease is long against a garbage collection or a slow disk, short
	// against the patience of the person who restarts a job.
	DefaultLease = 30 * time.Second
	// DefaultSendDeadline is far above a slow answer of a healthy broker.
	DefaultSendDeadline = 10 * time.Second
	// DefaultAuthorizeTTL: what a person saw yesterday may not be so today.
	DefaultAuthorizeTTL = 24 * time.Hour
	// DefaultAtOnce fits twenty full SQS batches: as many as a lease item holds,
	// and some that are being claimed or noted meanwhile.
	DefaultAtOnce = 200
	// DefaultRate is gentle to a system that has just recovered.
	DefaultRate = 20
	// DefaultObserveFor is the shortest observation that `auto` chooses.
	DefaultObserveFor = 10 * time.Minute
	// DefaultPauseAtRecurrence: one of five came back, so the fix does not hold
	// for everybody.
	DefaultPauseAtRecurrence = 0.2
	// DefaultPauseAtFailure: half of what was to be sent could not be, or nobody
	// knows; more of it would make more of that.
	DefaultPauseAtFailure = 0.5
)

// Options are what a Controller needs. Ports and functions must be set, except
// where a comment says what nil means; zero numbers take their default.
type Options struct {
	Index    dlqbridge.WorkIndex
	Controls dlqbridge.Controls
	Cases    dlqbridge.CaseReader
	Evidence dlqbridge.EvidenceWriter
	Leases   dlqbridge.Leases
	Jobs     dlqbridge.Jobs
	Holds    dlqbridge.Holds
	Gate     dlqbridge.Gate
	// Approvals keeps approvals of plans; nil has none, and takes none.
	Approvals dlqbridge.Approvals
	// Groups keeps how far ordered groups have come; nil finds nothing overtaken.
	Groups dlqbridge.Groups
	// Payloads reads payloads in batches; nil reads them one by one from Cases.
	Payloads dlqbridge.PayloadReader
	// Counted reads histories in batches; nil reads them one by one from Cases.
	Counted dlqbridge.CountedReader
	Judge   Judge
	// Glance looks at outcomes with few calls; nil asks the judge about each.
	Glance Glancer
	// Destination opens where a route's work for a source is sent to. It is
	// called once per job; errors keep their meaning.
	Destination func(ctx context.Context, route, urn string) (dlqbridge.Destination, error)
	// Route returns what is configured about a route; ok is false if it is not.
	Route func(name string) (route Route, ok bool)

	// Probe asks whether what a route's tasks depend on is there, before a job
	// sends its first message and after each pause. An error pauses the job. Nil
	// asks nobody.
	Probe func(ctx context.Context, route string) error
	// Environment names the tables that records stand in; a plan made for another
	// one is refused.
	Environment string

	// Now is the clock; timers run on the runtime's own.
	Now func() time.Time
	// Log gets no payload bytes, attribute values or findings.
	Log *slog.Logger
	// Holder says who holds a lease, for the person who is told to wait.
	Holder string
	// Progress is called when a job exists, before it sends anything, and then now
	// and then, from one goroutine at a time; nil is fine.
	Progress func(Progress)

	Lease, SendDeadline, AuthorizeTTL, Skew time.Duration
	// Rate, Burst and MaxInFlight hold where a request names none. MaxInFlight
	// bounds a job's messages whose outcome is not known; 0 is no bound.
	Rate        dlqbridge.Rate
	Burst       int
	MaxInFlight int
	// AtOnce bounds a job's messages between their claim and the note of their send.
	AtOnce int
	// SecondPersonFrom is from how many records on a run needs a plan that a
	// second person approved; 0 is never.
	SecondPersonFrom int
	// Hours bind what policy sends alone; nil is any time.
	Hours *Hours
	// Canary is the sizes of the first steps; empty is none. A step pauses its
	// job when at least that share of it came back, or could not be sent.
	Canary                            []int
	PauseAtRecurrence, PauseAtFailure float64
	// Backoff is the wait before the first repetition of a call that was surely
	// not carried out; it doubles up to 5 s. Tries bounds the calls in all.
	Backoff time.Duration
	Tries   int
}

// Route is what redrive must know about a configured route.
type Route struct {
	Name string
	// Source is the URN of the configured source; empty where each letter's own
	// source decides (a shared dead-letter queue).
	Source string
	// Target is the URN of where work is sent where that is not the source
	// itself: on Pub/Sub a topic, while the source is a subscription. Empty is
	// the source.
	Target string
	// Sources are, with Target, the sources whose work belongs there: a shared
	// dead-letter place may bring letters of others.
	Sources []string
	// FanOut: a target with several receivers is fine, since the route says so
	// or names a place of its own for what goes back.
	FanOut bool
	// ResumeTo is the URN of where resumes go; empty is where retries do.
	// CompensateTo is where compensations go; empty sends none.
	ResumeTo, CompensateTo string
	// CompensateIdempotent: repeating a compensation does no harm.
	CompensateIdempotent bool
	// FanOutAside: a place besides the source with several receivers is fine.
	FanOutAside bool
	// Kit: its workers refuse a second run of the same redrive number, so a
	// send in doubt may be repeated.
	Kit bool
	// Absence: nothing seen until the end of the observation is a completion.
	Absence bool
	// CancelExpired: policy closes work past its valid_until when its turn comes;
	// without it a person does.
	CancelExpired bool
	// ObserveFor is how long an outcome is waited for; 0 is auto, the larger of
	// 10 m and the source's maximum receives times its visibility timeout.
	ObserveFor time.Duration
}

// Controller plans, runs and observes redrive jobs. Its methods may be called
// concurrently; one destination is only ever used by one job at a time.
type Controller struct {
	o Options
}

// New returns a controller.
func New(o Options) *Controller {
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the clock where none was given
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	o.Lease = positive(o.Lease, DefaultLease)
	o.SendDeadline = positive(o.SendDeadline, DefaultSendDeadline)
	o.AuthorizeTTL = positive(o.AuthorizeTTL, DefaultAuthorizeTTL)
	o.Skew = positive(o.Skew, dlqbridge.DefaultSkew)
	o.AtOnce = positive(o.AtOnce, DefaultAtOnce)
	o.Backoff = positive(o.Backoff, 100*time.Millisecond)
	o.Tries = positive(o.Tries, 10)
	o.PauseAtRecurrence = positive(o.PauseAtRecurrence, DefaultPauseAtRecurrence)
	o.PauseAtFailure = positive(o.PauseAtFailure, DefaultPauseAtFailure)
	if o.Rate.Count == 0 {
		o.Rate = dlqbridge.Rate{Count: DefaultRate, Per: time.Second}
	}
	return &Controller{o: o}
}

func positive[T int | float64 | time.Duration](v, def T) T {
	if v > 0 {
		return v
	}
	return def
}

// Progress is how far a job is, for the person who watches.
type Progress struct {
	Job         string
	Destination string
	State       dlqbridge.JobState
	Reason      string
	// Selected counts the members; the others say what became of them so far.
	Selected, Sent, InDoubt, Excluded int
	// Doing says what the job is at: which canary step, sent or observed.
	Doing string
	// Until is when a canary step's observation ends at the latest, as far as is
	// known: a run that is seen going is waited for. Zero is no observation.
	Until time.Time
}

// Result is what a run did. Its JSON form is public.
type Result struct {
	// Job is the first job, Jobs all of them: one per destination.
	Job      string                    `json:"job"`
	Jobs     []string                  `json:"jobs"`
	Selected int                       `json:"selected"`
	Sent     int                       `json:"sent"`
	Excluded List[dlqbridge.Exclusion] `json:"excluded"`
	// ExcludedByPlan counts by reason what the plan did not select, ExcludedByRun
	// what it did and the run left out. What a plan file leaves out is listed there
	// and only counted here.
	ExcludedByPlan map[dlqbridge.ExcludeReason]int `json:"excludedByPlan"`
	ExcludedByRun  map[dlqbridge.ExcludeReason]int `json:"excludedByRun"`
	// InDoubt are the ids of those of which nobody knows whether they went out.
	InDoubt List[string] `json:"inDoubtRecords"`
	// ByAction counts what was sent, by action and destination.
	ByAction []ActionCount `json:"byAction"`
	// Outcomes counts members by what is known about their sends.
	Outcomes map[dlqbridge.SendOutcome]int `json:"outcomes"`
	// State is that of the job that got least far; Reason is why, or why there is
	// no job although there may be something to send.
	State  dlqbridge.JobState `json:"state"`
	Reason string             `json:"reason,omitempty"`
	// Records are the ids that were sent, in no order, for `--wait`.
	Records List[string] `json:"-"`
	// Looked: outcomes of some sends may be known already, since a canary waited
	// for them or an earlier life of the job sent them.
	Looked bool `json:"-"`
	// untold is what no job counts yet.
	untold dlqbridge.LeftOut
}

func newResult() Result {
	return Result{
		Jobs: []string{}, ByAction: []ActionCount{}, Outcomes: map[dlqbridge.SendOutcome]int{},
		ExcludedByPlan: map[dlqbridge.ExcludeReason]int{}, ExcludedByRun: map[dlqbridge.ExcludeReason]int{},
		untold: dlqbridge.LeftOut{Plan: map[dlqbridge.ExcludeReason]int{}, Start: map[dlqbridge.ExcludeReason]int{}},
	}
}

// leaveOut lists what is left out before there is a job: by its plan, or by the
// run, since it changed after it was planned.
func (r *Result) leaveOut(list List[dlqbridge.Exclusion], byRun bool) error {
	for x, err := range list.All() {
		if err != nil {
			return err
		}
		x.ByRun = byRun
		r.Excluded.Add(x)
		if byRun {
			r.ExcludedByRun[x.Reason]++
			r.untold.Start[x.Reason]++
		} else {
			r.leftByPlan(x.Reason)
		}
	}
	return nil
}

// leftByPlan counts what the plan did not select.
func (r *Result) leftByPlan(reason dlqbridge.ExcludeReason) {
	r.ExcludedByPlan[reason]++
	r.untold.Plan[reason]++
}

func sumOf(counts map[dlqbridge.ExcludeReason]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// told hands what no job counts yet to one that does.
func (r *Result) told() dlqbridge.LeftOut {
	l := r.untold
	r.untold = newResult().untold
	return l
}

// Clean says whether everything selected was sent and nothing was left out.
func (r Result) Clean() bool {
	return r.Excluded.Len() == 0 && r.Outcomes[dlqbridge.OutcomeInDoubt] == 0 &&
		(r.State == dlqbridge.JobDone || r.State == "")
}
