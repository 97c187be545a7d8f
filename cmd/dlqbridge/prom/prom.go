// Package prom keeps the numbers behind /metrics. All of them stand in one
// registry of its own; every label value is there from the start, so that a
// counter that has never moved is 0 and not absent; no label is an id.
package prom

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// Metrics are all numbers of one process. Methods may be called concurrently.
type Metrics struct {
	registry *prometheus.Registry
	routes   []string

	letters    *prometheus.CounterVec // route, kind
	created    *prometheus.CounterVec // route, cause
	lag        *prometheus.HistogramVec
	queueDepth *prometheus.GaugeVec // route, state
	stuck      *prometheus.GaugeVec // route
	outcomes   *prometheus.CounterVec
	// completions are completion messages, by route and result.
	completions *prometheus.CounterVec
	lapsed      prometheus.Counter
	waiting     *prometheus.GaugeVec
	rechecks    *prometheus.CounterVec
	swept       prometheus.Counter
	loops       *prometheus.CounterVec
	calls       *prometheus.CounterVec

	open       *prometheus.GaugeVec // route, cause, status
	effects    *prometheus.GaugeVec // route, effect
	oldest     *prometheus.GaugeVec // route
	near       *prometheus.GaugeVec
	overdue    *prometheus.GaugeVec
	muted      *prometheus.GaugeVec
	owners     *prometheus.GaugeVec // owner, state
	known      []string             // owners with a label of their own
	surveyed   prometheus.Gauge
	signatures prometheus.Gauge
	largest    prometheus.Gauge
	types      *topK
}

// letterKinds are what can become of a letter in intake.
var letterKinds = []enrich.EventKind{
	enrich.EventReceived, enrich.EventRecord, enrich.EventArrival, enrich.EventRecurrence, enrich.EventLate, enrich.EventLinked,
	enrich.EventDuplicate, enrich.EventBare, enrich.EventUnstored, enrich.EventDeleted, enrich.EventDeleteFailed, enrich.EventHeld, enrich.EventLost,
}

var outcomeKinds = []dlqbridge.SendOutcome{
	dlqbridge.OutcomeSent, dlqbridge.OutcomeInDoubt, dlqbridge.OutcomeCompleted, dlqbridge.OutcomeRecurred, dlqbridge.OutcomeUnconfirmed, dlqbridge.OutcomeRefused,
}

// Loops are the parts of the service that work by themselves.
var Loops = []string{"intake", "observe", "survey", "sweep"}

// Services and CallResults are the labels of provider calls.
var (
	Services    = []string{"SQS", "DynamoDB", "STS", "PubSub"}
	CallResults = []string{"ok", "throttled", "failed"}
)

// Options say what the closed label sets are made of.
type Options struct {
	// Routes are those that the process reads, Owners those of its causes; all
	// other owners count as other.
	Routes, Owners []string
	Version        string
}

// Owners that are no one's name.
const (
	ownerNobody = "nobody"
	ownerOther  = "other"
)

// New makes the metrics of a process.
func New(o Options) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{registry: r, routes: o.Routes, known: append([]string{ownerNobody, ownerOther}, o.Owners...)}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "dlqbridge", Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "dlqbridge", Name: name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	m.letters = counter("letters_total", "Letters by what became of them in intake; unstored ones stay in their queue, duplicates were stored before.", "route", "kind")
	m.created = counter("records_created_total", "Records made, by the cause of their first failure.", "route", "cause")
	m.lag = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "dlqbridge", Name: "intake_lag_seconds", Help: "How long a letter had been with the provider since its first send when it was taken in.",
		Buckets: []float64{1, 10, 60, 300, 1800, 3600, 6 * 3600, 86400, 4 * 86400, 14 * 86400},
	}, []string{"route"})
	r.MustRegister(m.lag)
	m.queueDepth = gauge("dead_letter_queue_messages", "Messages in the dead-letter queue by the provider's own counters; absent where it has none, and until they were read.", "route", "state")
	m.stuck = gauge("intake_stuck", "1 while a dead-letter queue shows messages and gives none.", "route")
	m.outcomes = counter("redrive_outcomes_total", "Redrives by how they ended, as this process settled them; recurrences are seen by intake.", "outcome")
	m.completions = counter("completion_messages_total", "Completion messages by what became of them: waiting and unknown ones stay in their place.", "route", "result")
	lapsed := counter("authorizations_lapsed_total", "Authorisations that ran out.")
	m.lapsed = lapsed.WithLabelValues()
	m.waiting = gauge("redrives_waiting", "Records sent whose outcome is open, as last observed.", "state")
	m.rechecks = counter("rechecks_total", "Records judged anew when that was due.", "result")
	swept := counter("records_swept_total", "Closed records whose items were given their expiry.")
	m.swept = swept.WithLabelValues()
	m.loops = counter("loop_errors_total", "Rounds of the service's own work that failed.", "loop")
	m.calls = counter("provider_calls_total", "Requests to the cloud by service and result, each attempt counted.", "service", "result")
	m.open = gauge("records_open", "Open records, as last surveyed.", "route", "cause", "status")
	m.effects = gauge("records_open_effect", "Open records by what is known about their effect, as last surveyed.", "route", "effect")
	m.oldest = gauge("oldest_open_record_age_seconds", "Age of the oldest open record, as last surveyed.", "route")
	m.near = gauge("records_near_deadline", "Open records whose task is due within an hour, as last surveyed.", "route")
	m.overdue = gauge("records_triage_overdue", "Open records past their triage deadline and not muted, as last surveyed.", "route")
	m.muted = gauge("records_muted", "Open records that a mute keeps quiet, as last surveyed.", "route")
	m.owners = gauge("records_owner", "Open records by owner, as last surveyed: all, and those past their triage deadline and not muted.", "owner", "state")
	m.surveyed = gauge("survey_timestamp_seconds", "When open records were surveyed last.").WithLabelValues()
	m.signatures = gauge("signatures_open", "Different signatures among open records, as last surveyed.").WithLabelValues()
	m.largest = gauge("largest_signature_records", "Open records of the largest group of one signature, as last surveyed.").WithLabelValues()
	m.types = newTopK(r)
	info := gauge("build_info", "1, with the version.", "version")
	info.WithLabelValues(o.Version).Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.initialise()
	return m
}

// initialise makes every label value present, but for what is not known yet.
func (m *Metrics) initialise() {
	for _, route := range m.routes {
		for _, k := range letterKinds {
			m.letters.WithLabelValues(route, string(k))
		}
		for _, c := range dlqbridge.Causes() {
			m.created.WithLabelValues(route, string(c))
		}
		m.lag.WithLabelValues(route)
		m.stuck.WithLabelValues(route)
	}
	for _, o := range outcomeKinds {
		m.outcomes.WithLabelValues(string(o))
	}
	m.waiting.WithLabelValues("waiting")
	m.waiting.WithLabelValues("in_doubt")
	m.rechecks.WithLabelValues("moved")
	m.rechecks.WithLabelValues("failed")
	for _, l := range Loops {
		m.loops.WithLabelValues(l)
	}
	for _, s := range Services {
		for _, r := range CallResults {
			m.calls.WithLabelValues(s, r)
		}
	}
	m.Survey(NewSurvey(m.routes, nil), time.Time{})
}

// Handler serves /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Observe implements enrich.Observer.
func (m *Metrics) Observe(e enrich.Event) {
	//exhaustive:ignore
	switch e.Kind {
	case enrich.EventStuck:
		m.stuck.WithLabelValues(e.Route).Set(1)
		return
	case enrich.EventMoving:
		m.stuck.WithLabelValues(e.Route).Set(0)
		return
	case enrich.EventDepth:
		if e.Depth.Unknown { // a 0 would tell an alarm that the place is empty
			m.queueDepth.DeletePartialMatch(prometheus.Labels{"route": e.Route})
			return
		}
		m.queueDepth.WithLabelValues(e.Route, "visible").Set(float64(e.Depth.Visible))
		m.queueDepth.WithLabelValues(e.Route, "in_flight").Set(float64(e.Depth.InFlight))
		m.queueDepth.WithLabelValues(e.Route, "delayed").Set(float64(e.Depth.Delayed))
		return
	default:
	}
	if !slices.Contains(letterKinds, e.Kind) {
		return // a kind of a later version must not open the label set
	}
	m.letters.WithLabelValues(e.Route, string(e.Kind)).Add(float64(max(1, e.N)))
	if e.Lag > 0 {
		m.lag.WithLabelValues(e.Route).Observe(e.Lag.Seconds())
	}
	if e.Control != nil && (e.Kind == enrich.EventRecord || e.Kind == enrich.EventLinked) {
		m.created.WithLabelValues(e.Route, string(e.Control.Cause)).Inc()
	}
	if e.Kind == enrich.EventRecurrence {
		m.outcomes.WithLabelValues(string(dlqbridge.OutcomeRecurred)).Inc()
	}
}

// Confirmed counts what became of a route's completion messages.
func (m *Metrics) Confirmed(route string, n redrive.Confirmations) {
	for result, count := range map[string]int{"completed": n.Completed, "repeated": n.Repeated, "waiting": n.Waiting, "unknown": n.Unknown} {
		m.completions.WithLabelValues(route, result).Add(float64(count))
	}
}

// Observed counts what one look at the outcomes settled.
func (m *Metrics) Observed(o redrive.Observed) {
	for outcome, n := range o.Outcomes {
		if slices.Contains(outcomeKinds, outcome) {
			m.outcomes.WithLabelValues(string(outcome)).Add(float64(n))
		}
	}
	m.waiting.WithLabelValues("waiting").Set(float64(o.Waiting))
	m.waiting.WithLabelValues("in_doubt").Set(float64(o.InDoubt))
	m.lapsed.Add(float64(o.Lapsed))
}

// Rechecked counts a record judged anew.
func (m *Metrics) Rechecked(err error) {
	if err != nil {
		m.rechecks.WithLabelValues("failed").Inc()
		return
	}
	m.rechecks.WithLabelValues("moved").Inc()
}

// Swept counts records given their expiry.
func (m *Metrics) Swept(n int) { m.swept.Add(float64(n)) }

// LoopFailed counts a round of a loop that failed.
func (m *Metrics) LoopFailed(loop string) { m.loops.WithLabelValues(loop).Inc() }

// Call counts one request to the cloud; labels outside of the closed sets are
// not counted.
func (m *Metrics) Call(service, result string) {
	if slices.Contains(Services, service) && slices.Contains(CallResults, result) {
		m.calls.WithLabelValues(service, result).Inc()
	}
}

// Survey is what one look at all open records found.
type Survey struct {
	routes  []string
	open    map[[3]string]float64
	effects map[[2]string]float64
	oldest  map[string]time.Time
	near    map[string]float64
	overdue map[string]float64
	mutes   []dlqbridge.Mute
	muted   map[string]float64
	owners  map[[2]string]float64
	groups  map[string]int
	types   map[[2]string]float64
}

// NewSurvey starts a survey. What mutes keep quiet is not overdue.
func NewSurvey(routes []string, mutes []dlqbridge.Mute) *Survey {
	return &Survey{
		routes: routes, mutes: mutes, muted: map[string]float64{}, open: map[[3]string]float64{}, effects: map[[2]string]float64{}, oldest: map[string]time.Time{},
		near: map[string]float64{}, overdue: map[string]float64{}, owners: map[[2]string]float64{}, groups: map[string]int{}, types: map[[2]string]float64{},
	}
}

// nearDeadline is when a task's deadline counts as near: the time that a
// person needs at least.
const nearDeadline = time.Hour

// Add counts one open record.
func (s *Survey) Add(c dlqbridge.Control, now time.Time) {
	if !slices.Contains(s.routes, c.Route) {
		return // of a route that is no longer configured
	}
	s.open[[3]string{c.Route, string(c.Cause), string(c.Status)}]++
	s.effects[[2]string{c.Route, string(c.Effect)}]++
	if first, ok := s.oldest[c.Route]; !ok || c.FirstSeen.Before(first) {
		s.oldest[c.Route] = c.FirstSeen
	}
	if !c.Deadline.IsZero() && c.Deadline.Sub(now) <= nearDeadline {
		s.near[c.Route]++
	}
	owner := cmp.Or(c.Owner, ownerNobody)
	s.owners[[2]string{owner, "open"}]++
	if _, quiet := dlqbridge.Muted(s.mutes, c, now); quiet {
		s.muted[c.Route]++
	} else if !c.TriageBy.IsZero() && now.After(c.TriageBy) {
		s.overdue[c.Route]++
		s.owners[[2]string{owner, "overdue"}]++
	}
	s.groups[c.Signature]++
	s.types[[2]string{c.Route, c.TaskType}]++
}

// Survey publishes a survey.
func (m *Metrics) Survey(s *Survey, now time.Time) {
	for _, route := range m.routes {
		for _, c := range dlqbridge.Causes() {
			for _, st := range dlqbridge.OpenStatuses() {
				m.open.WithLabelValues(route, string(c), string(st)).Set(s.open[[3]string{route, string(c), string(st)}])
			}
		}
		for _, e := range []dlqbridge.Effect{dlqbridge.EffectNone, dlqbridge.EffectConfirmed, dlqbridge.EffectUnknown} {
			m.effects.WithLabelValues(route, string(e)).Set(s.effects[[2]string{route, string(e)}])
		}
		age := 0.0
		if first, ok := s.oldest[route]; ok {
			age = max(0, now.Sub(first).Seconds())
		}
		m.oldest.WithLabelValues(route).Set(age)
		m.near.WithLabelValues(route).Set(s.near[route])
		m.overdue.WithLabelValues(route).Set(s.overdue[route])
		m.muted.WithLabelValues(route).Set(s.muted[route])
	}
	byOwner := map[[2]string]float64{}
	for k, n := range s.owners {
		if !slices.Contains(m.known, k[0]) {
			k[0] = ownerOther
		}
		byOwner[k] += n
	}
	for _, owner := range m.known {
		for _, state := range []string{"open", "overdue"} {
			m.owners.WithLabelValues(owner, state).Set(byOwner[[2]string{owner, state}])
		}
	}
	largest := 0
	for _, n := range s.groups {
		largest = max(largest, n)
	}
	m.signatures.Set(float64(len(s.groups)))
	m.largest.Set(float64(largest))
	m.types.set(s.types)
	if !now.IsZero() {
		m.surveyed.Set(float64(now.Unix()))
	}
}

// maxTypes bounds the task types that get a label of their own: the name comes
// from producers, and a label set must not grow with what they invent.
const maxTypes = 50

// topK counts open records by task type, the rest as "other".
type topK struct {
	mu    sync.Mutex
	gauge *prometheus.GaugeVec
	seen  []string
}

func newTopK(r *prometheus.Registry) *topK {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "dlqbridge", Name: "records_open_task_type", Help: "Open records by task type, as last surveyed; types beyond the first 50 count as other.",
	}, []string{"route", "task_type"})
	r.MustRegister(g)
	return &topK{gauge: g}
}

func (t *topK) set(counts map[[2]string]float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gauge.Reset()
	for k, n := range counts {
		kind := strings.ToValidUTF8(k[1], "?") // the client panics on anything else
		if !slices.Contains(t.seen, kind) {
			if len(t.seen) < maxTypes {
				t.seen = append(t.seen, kind)
			} else {
				kind = "other"
			}
		}
		t.gauge.WithLabelValues(k[0], kind).Add(n)
	}
}
