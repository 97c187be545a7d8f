package tablestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// Bounds, in rows and bytes. A task with more rows is not told in part.
const (
	maxRows = 150
	maxText = 1000
)

// Store reads a declared table. It may be used concurrently.
type Store struct {
	o                                                                 Options
	status, receipt, step, run, started, updated, code, message, tool selector
	asking                                                            awsread.Asking
	table                                                             awsread.Rows
}

var _ dlqbridge.Store = (*Store)(nil)

// New returns a Store; an error names the option that is missing or wrong.
func New(o Options) (*Store, error) {
	o.MaxRun = cmp.Or(o.MaxRun, DefaultMaxRun)
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("table store %s: %w", o.Name, err)
	}
	place := "table " + o.Table
	s := &Store{o: o, table: o.rows(), asking: awsread.Asking{
		Store: o.Name, Place: place, Needs: "dynamodb:Query on " + place, Refused: o.rows().Refused(),
		Parallel: o.Parallel, Timeout: o.Timeout,
	}}
	f := o.Fields
	for _, field := range []struct {
		name, text string
		into       *selector
	}{
		{"Status", f.Status, &s.status},
		{"Receipt", f.Receipt, &s.receipt},
		{"Step", f.Step, &s.step},
		{"Run", f.Run, &s.run},
		{"Started", f.Started, &s.started},
		{"Updated", f.Updated, &s.updated},
		{"Code", f.Code, &s.code},
		{"Message", f.Message, &s.message},
		{"Tool", f.Tool, &s.tool},
	} {
		compiled, err := compile(field.text)
		if err != nil {
			return nil, fmt.Errorf("table store %s: Fields.%s: %w", o.Name, field.name, err)
		}
		*field.into = compiled
	}
	return s, nil
}

// Name implements dlqbridge.Store.
func (s *Store) Name() string { return s.o.Name }

// Ask implements dlqbridge.Store: one consistent query per task, all its pages.
func (s *Store) Ask(ctx context.Context, questions []dlqbridge.Question) []dlqbridge.Testimony {
	return s.asking.Ask(ctx, questions, s.read)
}

func (s *Store) read(ctx context.Context, q dlqbridge.Question) (dlqbridge.Testimony, error) {
	items, why, err := s.table.Read(ctx, q)
	if err != nil {
		return dlqbridge.Testimony{}, err
	}
	if why != "" {
		return dlqbridge.Testimony{Findings: []dlqbridge.Finding{s.silence(q, why)}}, nil
	}
	var rows []row
	for _, it := range items {
		rows = append(rows, s.decode(it))
	}
	return s.testify(q, rows), nil
}

// row is what is selected from one item; what is not there is empty.
type row struct {
	status, receipt, step, run, code, message, tool string
	started, updated                                time.Time
}

func (s *Store) decode(it awsread.Item) row {
	plain := awsread.PlainItem(it)
	text := func(sel selector) string { return awsread.Text(sel(plain)) }
	r := row{
		status: text(s.status), step: text(s.step), run: text(s.run),
		code: dlqbridge.CutText(text(s.code), maxText), message: dlqbridge.CutText(text(s.message), maxText),
		tool:    dlqbridge.CutText(text(s.tool), maxText),
		started: awsread.Time(s.started(plain)), updated: awsread.Time(s.updated(plain)),
	}
	if v := s.receipt(plain); v != true && v != false { // a bare boolean refers to nothing
		r.receipt = dlqbridge.CutText(awsread.Text(v), 2*maxText)
	}
	return r
}

// testify says what the rows prove.
func (s *Store) testify(q dlqbridge.Question, rows []row) dlqbridge.Testimony {
	if len(rows) == 0 {
		return dlqbridge.Testimony{Findings: []dlqbridge.Finding{s.silence(q, "no row of this task")}}
	}
	var t dlqbridge.Testimony
	whole := false
	for _, r := range rows {
		f := s.judge(q, r)
		whole = whole || f.Step == dlqbridge.AllSteps
		t.Findings = append(t.Findings, f)
		if until := s.runningUntil(q, r); until.After(t.RunningUntil) {
			t.RunningUntil = until
		}
		if !r.started.IsZero() && (t.FirstAttempt.IsZero() || r.started.Before(t.FirstAttempt)) {
			t.FirstAttempt = r.started
		}
	}
	if !whole {
		t.Findings = append(t.Findings, s.silence(q, "the table knows the steps that have a row only"))
	}
	t.Failure = s.failure(rows)
	return t
}

// judge says what one row proves.
func (s *Store) judge(q dlqbridge.Question, r row) dlqbridge.Finding {
	f := dlqbridge.Finding{
		Store: s.o.Name, Step: dlqbridge.NamedStep(r.step), Run: r.run, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: awsread.LastSign(q, r.started, r.updated), Detail: "status " + dlqbridge.CutText(r.status, 64),
	}
	if s.o.Fields.Step == "" || f.Step == "" {
		// A row about no step in particular may be about any.
		f.Step = dlqbridge.AllSteps
	}
	switch {
	case slices.Contains(s.o.Confirmed, r.status) && s.o.ConfirmedNeedsReceipt && r.receipt == "":
		f.Detail += ", no receipt"
	case slices.Contains(s.o.Confirmed, r.status):
		f.State, f.Proof = dlqbridge.EffectConfirmed, dlqbridge.ProofReceipt
		if r.receipt != "" {
			f.Receipt = &r.receipt
		}
	case r.receipt != "":
		// Whatever the status says: the outside system has answered.
		f.Detail += ", and a receipt: " + dlqbridge.CutText(r.receipt, 200)
	case slices.Contains(s.o.None.Status, r.status):
		s.none(q, r, &f)
	case r.status == "":
		f.Detail = "no status"
	case slices.Contains(s.o.Running, r.status):
	default:
		f.Detail += ", which is declared to prove nothing"
	}
	if f.State == dlqbridge.EffectUnknown && f.Step == dlqbridge.AllSteps {
		f.Proof = dlqbridge.ProofSystemRead // not silence, which another store's proof may fill
	}
	return f
}

// none says that nothing happened, if the row may say so and early enough is
// not too early.
func (s *Store) none(q dlqbridge.Question, r row, f *dlqbridge.Finding) {
	n := s.o.None
	if n.Proof == dlqbridge.ProofNotStarted {
		// Read now, so it speaks for now: had it been begun, the row would say so.
		f.State, f.Proof, f.AsOf = dlqbridge.EffectNone, n.Proof, q.Now
		f.Detail += "; " + n.Because
		return
	}
	switch {
	case r.updated.IsZero() || r.updated.After(q.Now.Add(dlqbridge.DefaultSkew)):
		f.Detail += ", and no time that it was looked at"
	case q.LastActivity.IsZero():
		f.Detail += ", and nobody knows when the task was last worked on"
	case r.updated.Before(q.LastActivity.Add(n.Settled)):
		f.Detail += ", looked at too soon after the task was last worked on"
	default:
		f.State, f.Proof, f.AsOf = dlqbridge.EffectNone, n.Proof, r.updated
		f.Detail += "; " + n.Because
	}
}

// runningUntil is when the run that a row shows is over at the latest; zero if
// it shows none.
func (s *Store) runningUntil(q dlqbridge.Question, r row) time.Time {
	if !slices.Contains(s.o.Running, r.status) {
		return time.Time{}
	}
	return awsread.LastSign(q, r.started, r.updated).Add(s.o.MaxRun)
}

// failure is the newest that a row tells.
func (s *Store) failure(rows []row) *dlqbridge.Failure {
	var newest *row
	for i, r := range rows {
		if (r.code != "" || r.message != "") && (newest == nil || !r.updated.Before(newest.updated)) {
			newest = &rows[i]
		}
	}
	if newest == nil {
		return nil
	}
	return &dlqbridge.Failure{
		Step: newest.step, Tool: newest.tool, Code: newest.code, Message: newest.message,
		Attempts: []dlqbridge.Attempt{{Run: newest.run, At: newest.updated, Code: newest.code}},
	}
}

func (s *Store) silence(q dlqbridge.Question, detail string) dlqbridge.Finding {
	return dlqbridge.Finding{
		Store: s.o.Name, Step: dlqbridge.AllSteps, State: dlqbridge.EffectUnknown, Proof: dlqbridge.ProofNothingFound,
		AsOf: q.Now, Detail: detail,
	}
}
