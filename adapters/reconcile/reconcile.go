package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Reconciler asks one outside system. It may be used concurrently.
type Reconciler struct {
	o         Options
	url       address
	body      template
	selectors selectors
	receipt   []string
	perRun    bool
	budget    *budget
	client    *http.Client
	secrets   []string
	// headers returns what is sent besides the question. A function, because
	// printing a struct prints its fields and secrets are among them.
	headers func() http.Header
	advice  []string
	// handBack is how long before the asker's deadline Ask answers.
	handBack time.Duration
}

var _ dlqbridge.Store = (*Reconciler)(nil)

// New returns a Reconciler; the error names the setting that is wrong.
func New(o Options) (*Reconciler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Reconciler{o: o, handBack: handBack}
	if err := r.compile(); err != nil {
		return nil, fmt.Errorf("reconciler %s: %w", o.Name, err)
	}
	r.budget = newBudget(o.CallsPerMinute)
	r.client = newClient(o, r.url.scheme == "http")
	return r, nil
}

func (r *Reconciler) compile() error {
	var err error
	if r.url, err = parseURL(r.o.URL); err != nil {
		return err
	}
	if r.o.Body != "" {
		if r.body, err = parseBody(r.o.Body); err != nil {
			return err
		}
	}
	all := slices.Concat(r.url.template, r.body)
	if !all.uses(func(p placeholder) bool { return p.task }) {
		return errors.New("url: nothing says which task is asked about; write {idempotencyKey}, {taskId} or {runId} into url or body")
	}
	r.perRun = all.uses(func(p placeholder) bool { return p.name == "runId" })
	if r.url.scheme == "http" && len(r.o.AllowAddresses) == 0 {
		return errors.New("url: http:// is for addresses in allow_addresses only, because anybody on the way can write such an answer; use https://")
	}
	h, err := parseHeaders(r.o.Headers, r.o.Env)
	if err != nil {
		return err
	}
	r.headers, r.secrets = func() http.Header { return h.set }, h.secrets
	r.o.Headers, r.o.Env = nil, nil
	if r.o.Receipt != "" {
		if r.receipt, err = parsePointer(r.o.Receipt); err != nil {
			return fmt.Errorf("receipt %q: %w", r.o.Receipt, err)
		}
	}
	for _, list := range []struct {
		name    string
		in      []Match
		out     *[]match
		allowed func(int) bool
	}{
		{"done", r.o.Done, &r.selectors.done, func(code int) bool { return !ownStatus(code) }},
		{"not_done", r.o.NotDone, &r.selectors.notDone, absentStatus},
		{"unknown", r.o.Unknown, &r.selectors.unknown, func(int) bool { return true }},
	} {
		if *list.out, err = compileMatches(list.name, list.in, list.allowed); err != nil {
			return err
		}
	}
	if r.o.Authoritative && slices.ContainsFunc(r.selectors.notDone, match.weak) {
		r.advice = append(r.advice, "not_done looks at no value in the body, so a wrong address or a gateway in between says \"not done\" too; "+
			"add a value that only this system gives, such as its error code")
	}
	return nil
}

// Name implements dlqbridge.Store.
func (r *Reconciler) Name() string { return r.o.Name }

// String names the reconciler and nothing of its settings.
func (r *Reconciler) String() string { return "reconciler " + r.o.Name }

// GoString is String.
func (r *Reconciler) GoString() string { return r.String() }

// Advice lists what is allowed in its settings and unwise, as sentences.
func (r *Reconciler) Advice() []string { return slices.Clone(r.advice) }

// Close closes connections that are kept for later questions.
func (r *Reconciler) Close() { r.client.CloseIdleConnections() }

// ask is one request as it goes out. Questions that make the same one are put
// once.
type ask struct{ url, body string }

// handBack leaves time to hand back what was answered: an asker takes nothing
// from a store that answers after its deadline, so one slow object would cost
// the answers about all others.
const handBack = 250 * time.Millisecond

// Ask implements dlqbridge.Store: one call per different question, Parallel at
// a time and within the budget. It answers a moment before ctx's deadline, with
// what is still open as unavailable.
func (r *Reconciler) Ask(ctx context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	if deadline, ok := ctx.Deadline(); ok {
		earlier, cancel := context.WithDeadline(ctx, deadline.Add(-r.handBack))
		defer cancel()
		ctx = earlier
	}
	out := make([]dlqbridge.Testimony, len(questions))
	same := map[ask][]int{}
	var order []ask
	for i, q := range questions {
		a, err := r.render(q)
		if err != nil {
			out[i] = r.unasked(q, err)
			continue
		}
		if _, seen := same[a]; !seen {
			order = append(order, a)
		}
		same[a] = append(same[a], i)
	}
	slots := make(chan struct{}, r.o.Parallel)
	var wait sync.WaitGroup
	for _, a := range order {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			answered, err := r.put(ctx, a)
			for _, i := range same[a] {
				if err != nil {
					out[i] = r.unavailable(err.Error())
					continue
				}
				out[i] = r.testify(questions[i], answered)
			}
		})
	}
	wait.Wait()
	return out
}

func (r *Reconciler) render(q dlqbridge.Question) (ask, error) {
	url, err := r.url.render(q)
	if err != nil {
		return ask{}, err
	}
	body, err := r.body.render(q)
	return ask{url, body}, err
}

// put puts a question if the budget allows it. A call costs its token whatever
// comes of it.
func (r *Reconciler) put(ctx context.Context, a ask) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, errors.New("stopped before it was asked")
	}
	if !r.budget.take(r.o.Now()) {
		return answer{}, fmt.Errorf("the budget of %d calls a minute is used up", r.o.CallsPerMinute)
	}
	return r.call(ctx, a)
}

func (r *Reconciler) unavailable(why string) dlqbridge.Testimony {
	return dlqbridge.Testimony{Store: r.o.Name, Unavailable: why}
}

// unasked answers a question that cannot be put. Without anything to ask by
// that is silence; a key that does not fit may well be known to the system.
func (r *Reconciler) unasked(q dlqbridge.Question, err error) dlqbridge.Testimony {
	if u, ok := errors.AsType[*unasked](err); ok && u.silent {
		return r.says(r.silence(q, u.why))
	}
	return r.unavailable(err.Error())
}

func (r *Reconciler) says(f dlqbridge.Finding) dlqbridge.Testimony {
	return dlqbridge.Testimony{Store: r.o.Name, Findings: []dlqbridge.Finding{f}}
}

// silence is a finding that proves nothing and stands in nobody's way.
func (r *Reconciler) silence(q dlqbridge.Question, detail string) dlqbridge.Finding {
	return dlqbridge.Finding{
		Store: r.o.Name, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: q.Now, Detail: detail,
	}
}

// testify turns an answer into a finding.
func (r *Reconciler) testify(q dlqbridge.Question, a answer) dlqbridge.Testimony {
	evidence := fmt.Sprintf("%s answered %d at %s, sha256 %s", r.o.Method, a.status, dlqbridge.FormatTime(a.at), a.hash)
	f := dlqbridge.Finding{
		Store: r.o.Name, Step: r.o.Step, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofSystemRead, AsOf: q.Now, Detail: evidence,
	}
	if r.perRun {
		f.Run = q.RunID
	}
	if a.long {
		return r.says(doubtful(f, q, fmt.Sprintf("longer than %d bytes: %s", r.o.MaxAnswer, evidence)))
	}
	body, err := readJSON(a.body)
	if err != nil {
		body = nil
	}
	switch r.selectors.judge(q, a.status, body) {
	case saysDone:
		f.State, f.Receipt = dlqbridge.EffectConfirmed, r.receiptIn(body)
	case saysNotDone:
		return r.absent(f, q, evidence)
	case saysPending: // a sign of life as of now, whoever looked before
		f.Detail = "the system itself does not know yet: " + evidence
		return r.again(f, later(q))
	case saysBoth:
		f.AsOf, f.Detail = lastSign(q), "done and not done at once: "+evidence
	case saysNothing:
		if why := asOwn(a.status); why != "" {
			return r.unavailable(why)
		}
		f = doubtful(f, q, "no selector matches: "+evidence)
	}
	return r.says(f)
}

// doubtful is what remains of an answer that nobody understands: somebody must
// look. It names no step, since it does not say that one began, and a person who
// looked after the task was last worked on can end it.
func doubtful(f dlqbridge.Finding, q dlqbridge.Question, detail string) dlqbridge.Finding {
	f.Step, f.Run, f.AsOf, f.Detail = dlqbridge.AllSteps, "", lastSign(q), detail
	return f
}

// lastSign is what a doubt speaks for that is about the answer and not about
// the task: spoken for each new now, no person's word could end it.
func lastSign(q dlqbridge.Question) time.Time {
	if q.LastActivity.IsZero() {
		return q.Now
	}
	return q.LastActivity
}

// absent is what "not done" proves. The system shows everything that was done
// until the delay ago, so that is the time the finding speaks for.
func (r *Reconciler) absent(f dlqbridge.Finding, q dlqbridge.Question, evidence string) dlqbridge.Testimony {
	shown := q.Now.Add(-r.o.ConsistencyDelay)
	switch {
	case !r.o.Authoritative:
		return r.says(r.silence(q, "not done, but the system is not declared authoritative: "+evidence))
	case q.LastActivity.IsZero() || q.Now.IsZero():
		return r.says(r.silence(q, "not done, but when the task was last worked on is unknown: "+evidence))
	case shown.Before(q.LastActivity):
		early := fmt.Sprintf("not done, but asked within %s of the last activity: %s", r.o.ConsistencyDelay, evidence)
		return r.again(r.silence(q, early), q.LastActivity.Add(r.o.ConsistencyDelay))
	}
	f.State, f.AsOf = dlqbridge.EffectNone, shown
	return r.says(f)
}

// again is a finding that another look may change.
func (r *Reconciler) again(f dlqbridge.Finding, at time.Time) dlqbridge.Testimony {
	t := r.says(f)
	t.AskAgain = at
	return t
}

// Something that is pending is looked at again after a while that grows with
// its age, so that what hangs for days costs a few calls a day.
const (
	againFirst = 5 * time.Minute
	againLast  = 6 * time.Hour
)

func later(q dlqbridge.Question) time.Time {
	wait := againFirst
	if !q.LastActivity.IsZero() {
		wait = min(max(q.Now.Sub(q.LastActivity)/2, againFirst), againLast)
	}
	return q.Now.Add(wait)
}

// maxReceipt bounds a receipt: longer ones are no reference.
const maxReceipt = 256

// receiptIn takes the system's reference out of an answer. A system that sends
// our credentials back gets no receipt for it.
func (r *Reconciler) receiptIn(body any) *string {
	if len(r.receipt) == 0 {
		return nil
	}
	v, _ := at(body, r.receipt)
	text, ok := scalar(v)
	if !ok || text == "" || len(text) > maxReceipt {
		return nil
	}
	if slices.ContainsFunc(r.secrets, func(s string) bool { return strings.Contains(text, s) }) {
		return nil
	}
	return &text
}
