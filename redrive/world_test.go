package redrive_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// world is the durable side of everything: the record store, the stores that
// know the agents, and the queues. Processes come and go on top of it.
type world struct {
	mu       sync.Mutex
	controls map[string]dlqbridge.Control
	history  map[string][]dlqbridge.Move
	evidence map[string]map[string]dlqbridge.Item
	payloads map[string]dlqbridge.Payload
	sends    map[string]map[int]dlqbridge.Send
	leases   map[string]dlqbridge.Lease
	jobs     map[string]dlqbridge.Job
	members  map[string][]dlqbridge.Member
	holds    []dlqbridge.Hold
	approved []dlqbridge.Approval
	done     map[dlqbridge.GroupKey]dlqbridge.GroupDone
	queues   map[string]*queue
	routes   map[string]redrive.Route
	// knows is what the stores say of a record, beyond "nothing happened".
	knows map[string]knowledge
	// home is the queue that everything is expected to arrive in.
	home string
	// index, if set, is a stale answer of the index.
	index []dlqbridge.Control
}

// knowledge is what the stores say about one record.
type knowledge struct {
	effect     dlqbridge.Effect
	repeatSafe bool
	running    time.Time
	completed  *dlqbridge.Completion
	seenN      int
	approvers  []string
	// checkpoint is where a resume goes on; uncovered is the effect beyond it.
	checkpoint string
	uncovered  dlqbridge.Effect
	findings   []dlqbridge.Finding
	expired    bool
	policy     *dlqbridge.CausePolicy
	// unsent is the effect without the send in doubt; empty is the same.
	unsent dlqbridge.Effect
}

const (
	orders  = "arn:aws:sqs:us-east-1:000000000000:orders"
	refunds = "arn:aws:sqs:us-east-1:000000000000:refunds"
)

func newWorld() *world {
	w := &world{
		controls: map[string]dlqbridge.Control{}, history: map[string][]dlqbridge.Move{},
		evidence: map[string]map[string]dlqbridge.Item{}, payloads: map[string]dlqbridge.Payload{},
		sends: map[string]map[int]dlqbridge.Send{}, leases: map[string]dlqbridge.Lease{},
		jobs: map[string]dlqbridge.Job{}, members: map[string][]dlqbridge.Member{},
		queues: map[string]*queue{}, knows: map[string]knowledge{},
		routes: map[string]redrive.Route{"orders": {Name: "orders"}}, home: orders,
	}
	w.queues[orders] = newQueue(orders, false)
	return w
}

// add makes a record that waits with a cause; change may alter it.
func (w *world) add(id string, change func(*dlqbridge.Control, *dlqbridge.Payload)) {
	c := dlqbridge.Control{
		ID: id, Version: 1, Identity: dlqbridge.IdentityTask, Route: "orders", Provider: dlqbridge.SQS, Source: orders,
		TaskID: "task-" + id, TaskType: "charge", Tenant: "acme", Status: dlqbridge.StatusClassified,
		Cause: dlqbridge.CauseTimeout, Effect: dlqbridge.EffectNone, Uncovered: dlqbridge.EffectNone,
		Action: dlqbridge.ActionRetry, Why: dlqbridge.WhyRetryable, PayloadVersion: 1, Arrivals: 1, Newest: "a-" + id,
		FirstSeen: time.Now(), LastSeen: time.Now(),
	}
	p := dlqbridge.Payload{Body: []byte("body of " + id), Attributes: []dlqbridge.Attribute{{Name: "k", Type: "String.x", Value: []byte("v")}}}
	if change != nil {
		change(&c, &p)
	}
	c.Move = dlqbridge.Move{Version: 1, At: time.Now(), By: "intake", Verb: dlqbridge.VerbReceive, To: c.Status, Arrival: c.Newest}
	w.controls[id] = c
	w.history[id] = []dlqbridge.Move{c.Move}
	w.payloads[id+"/"+c.Newest] = p
}

func (w *world) addMany(n int) []string {
	var ids []string
	for i := range n {
		id := fmt.Sprintf("r_%05d", i)
		w.add(id, nil)
		ids = append(ids, id)
	}
	return ids
}

func (w *world) control(id string) dlqbridge.Control {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.controls[id]
}

func (w *world) count(s dlqbridge.Status) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.controls {
		if c.Status == s {
			n++
		}
	}
	return n
}

// process is one running dlqbridge: every call goes through its gate, where it
// can be killed. A killed process changes nothing any more.
type process struct {
	w     *world
	mu    sync.Mutex
	calls int
	ops   []string
	// killAt is the number of the call around which it dies; after says whether
	// the call itself still took effect.
	killAt int
	after  bool
	dead   bool
	kill   context.CancelFunc
	// fault may fail a call before it has any effect.
	fault func(op string) error
	// late runs after a call took effect and may lose its answer.
	late func(op string) error
	// latency is how long each call takes.
	latency func() time.Duration
}

var errKilled = errors.New("killed")

func (p *process) call(op string, do func() error) error {
	p.mu.Lock()
	p.calls++
	here := p.calls == p.killAt
	p.ops = append(p.ops, op)
	if here && !p.after {
		p.dead = true
	}
	dead, fault, late, latency := p.dead, p.fault, p.late, p.latency
	p.mu.Unlock()
	if dead {
		p.stopped()
		return errKilled
	}
	if latency != nil {
		time.Sleep(latency())
	}
	if fault != nil {
		if err := fault(op); err != nil {
			return err
		}
	}
	err := do()
	if here {
		p.mu.Lock()
		p.dead = true
		p.mu.Unlock()
		p.stopped()
		return errKilled
	}
	if late != nil {
		if lost := late(op); lost != nil {
			return lost
		}
	}
	return err
}

func (p *process) stopped() {
	if p.kill != nil {
		p.kill()
	}
}

func (p *process) counted(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, o := range p.ops {
		if o == op {
			n++
		}
	}
	return n
}

func all(n int, err error) []error {
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}

func (p *process) Put(_ context.Context, items []dlqbridge.Evidence) []error {
	err := p.call("put", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		for _, e := range items {
			p.w.keep(e.Record, e.Item)
		}
		return nil
	})
	return all(len(items), err)
}

func (w *world) keep(id string, it dlqbridge.Item) {
	if s, ok := it.(dlqbridge.Send); ok {
		if w.sends[id] == nil {
			w.sends[id] = map[int]dlqbridge.Send{}
		}
		w.sends[id][s.N] = s
		return
	}
	if w.evidence[id] == nil {
		w.evidence[id] = map[string]dlqbridge.Item{}
	}
	switch v := it.(type) {
	case dlqbridge.Context:
		w.evidence[id]["context#"+v.Name] = v
	case dlqbridge.Note:
		w.evidence[id]["note#"+v.Name] = v
	}
}

func (p *process) PutDoubt(_ context.Context, id string, s dlqbridge.Send) error {
	return p.call("doubt", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		if _, ok := p.w.sends[id][s.N]; ok {
			return dlqbridge.ErrExists
		}
		p.w.keep(id, s)
		return nil
	})
}

func (p *process) Create(context.Context, []dlqbridge.Control) []dlqbridge.Created {
	panic("not used by redrive")
}

func (p *process) Move(_ context.Context, steps []dlqbridge.Step) []error {
	out := make([]error, len(steps))
	err := p.call("move", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		for i, s := range steps {
			out[i] = p.w.move(s)
		}
		return nil
	})
	if err != nil {
		return all(len(steps), err)
	}
	return out
}

func (w *world) move(s dlqbridge.Step) error {
	have, ok := w.controls[s.From.ID]
	switch {
	case !ok || have.Version != s.From.Version:
		return dlqbridge.ErrConflict
	case s.To.Version != s.From.Version+1 || s.To.Move.Version != s.To.Version:
		panic("a move skips a version")
	case !s.To.Move.Verb.Allows(s.From.Status, s.To.Status):
		panic(fmt.Sprintf("move %s is not in the table: %s to %s", s.To.Move.Verb, s.From.Status, s.To.Status))
	case s.To.Move.From != s.From.Status || s.To.Move.To != s.To.Status:
		panic("a history entry does not say what the move did")
	}
	if n := s.To.Move.Note; n != "" && w.evidence[s.From.ID]["note#"+n] == nil {
		panic("a move names a note that is not there")
	}
	if c := s.To.Move.Context; c != "" && w.evidence[s.From.ID]["context#"+c] == nil {
		panic("a move names a context that is not there")
	}
	if s.To.Claim != nil && s.To.Claim.Until.IsZero() {
		panic("a claim that never ends (C63)")
	}
	w.controls[s.From.ID] = s.To
	w.history[s.From.ID] = append(w.history[s.From.ID], s.To.Move)
	return nil
}

func (p *process) Read(_ context.Context, ids []string) (out map[string]dlqbridge.Control, err error) {
	err = p.call("read", func() error {
		out = p.w.read(ids)
		return nil
	})
	return out, err
}

func (w *world) read(ids []string) map[string]dlqbridge.Control {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]dlqbridge.Control{}
	for _, id := range ids {
		if c, ok := w.controls[id]; ok {
			out[id] = c
		}
	}
	return out
}

func (p *process) Case(context.Context, string) (dlqbridge.Case, error) {
	panic("redrive leaves cases to the judge")
}

func (p *process) Counted(_ context.Context, controls []dlqbridge.Control) (out map[string]dlqbridge.Case, err error) {
	err = p.call("counted", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		out = map[string]dlqbridge.Case{}
		for _, c := range controls {
			out[c.ID] = dlqbridge.Case{
				Control: c, History: p.w.history[c.ID],
				Arrivals: []dlqbridge.Arrival{{Key: c.Newest, System: map[string]string{"SequenceNumber": sequence(c)}}},
			}
		}
		return nil
	})
	return out, err
}

func (p *process) Payload(_ context.Context, id, arrival string) (out dlqbridge.Payload, err error) {
	err = p.call("payload", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		var ok bool
		if out, ok = p.w.payloads[id+"/"+arrival]; !ok {
			return dlqbridge.ErrNotFound
		}
		return nil
	})
	return out, err
}

func (p *process) Payloads(_ context.Context, arrivals map[string]string) (map[string]dlqbridge.Payload, error) {
	out := map[string]dlqbridge.Payload{}
	err := p.call("payloads", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		for id, a := range arrivals {
			if v, ok := p.w.payloads[id+"/"+a]; ok {
				out[id] = v
			}
		}
		return nil
	})
	return out, err
}

func (p *process) Sends(_ context.Context, ns map[string]int) (map[string]dlqbridge.Send, error) {
	out := map[string]dlqbridge.Send{}
	err := p.call("sends", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		for id, n := range ns {
			if s, ok := p.w.sends[id][n]; ok {
				out[id] = s
			}
		}
		return nil
	})
	return out, err
}

func (p *process) List(_ context.Context, f dlqbridge.Filter) iter.Seq2[dlqbridge.Listed, error] {
	return func(yield func(dlqbridge.Listed, error) bool) {
		var found []dlqbridge.Control
		err := p.call("list", func() error {
			p.w.mu.Lock()
			defer p.w.mu.Unlock()
			if found = p.w.index; found == nil {
				found = slices.Collect(maps.Values(p.w.controls))
			}
			return nil
		})
		if err != nil {
			yield(dlqbridge.Listed{}, err)
			return
		}
		sort.Slice(found, func(i, j int) bool { return found[i].ID < found[j].ID })
		for _, c := range found {
			if f.Matches(c) && !yield(dlqbridge.Listed{Control: c, Next: c.ID}, nil) {
				return
			}
		}
	}
}

func (p *process) Take(_ context.Context, l dlqbridge.Lease) (previous dlqbridge.Lease, err error) {
	err = p.call("take", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		have := p.w.leases[l.Destination]
		if have.Token != "" && have.Token != l.Token && have.Until.After(time.Now()) {
			return &dlqbridge.LeaseHeldError{Destination: l.Destination, Job: have.Job, Holder: have.Holder, Until: have.Until}
		}
		previous = have
		l.Batches, l.NextFree = maps.Clone(have.Batches), have.NextFree
		p.w.leases[l.Destination] = l
		return nil
	})
	return previous, err
}

func (p *process) Keep(_ context.Context, l dlqbridge.Lease) error {
	return p.call("keep", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		if p.w.leases[l.Destination].Token != l.Token {
			return dlqbridge.ErrConflict
		}
		if len(l.Batches) > dlqbridge.MaxOpenBatches {
			panic("more open batches than a lease can hold")
		}
		l.Batches = maps.Clone(l.Batches)
		p.w.leases[l.Destination] = l
		return nil
	})
}

func (p *process) Release(_ context.Context, l dlqbridge.Lease) error {
	return p.call("release", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		have := p.w.leases[l.Destination]
		if have.Token != l.Token {
			return nil
		}
		have.Token, have.Until = "", time.Time{}
		p.w.leases[l.Destination] = have
		return nil
	})
}

func (p *process) Lease(_ context.Context, d string) (dlqbridge.Lease, error) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.leases[d], nil
}

func (p *process) CreateJob(_ context.Context, j dlqbridge.Job, members iter.Seq2[dlqbridge.Member, error]) error {
	return p.call("create-job", func() error {
		var m []dlqbridge.Member
		for one, err := range members {
			if err != nil {
				return err
			}
			m = append(m, one)
		}
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.jobs[j.ID], p.w.members[j.ID] = j, m
		return nil
	})
}

func (p *process) MoveJob(_ context.Context, j dlqbridge.Job) error {
	return p.call("move-job", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		if p.w.jobs[j.ID].Version != j.Version-1 {
			return dlqbridge.ErrConflict
		}
		p.w.jobs[j.ID] = j
		return nil
	})
}

func (p *process) Job(_ context.Context, id string) (j dlqbridge.Job, err error) {
	err = p.call("job", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		var ok bool
		if j, ok = p.w.jobs[id]; !ok {
			return dlqbridge.ErrNotFound
		}
		return nil
	})
	return j, err
}

func (p *process) ListJobs(context.Context, int) ([]dlqbridge.Job, error) { return nil, nil }

func (p *process) Members(_ context.Context, job string, from int) iter.Seq2[dlqbridge.Member, error] {
	return func(yield func(dlqbridge.Member, error) bool) {
		var list []dlqbridge.Member
		err := p.call("members", func() error {
			p.w.mu.Lock()
			defer p.w.mu.Unlock()
			list = p.w.members[job]
			return nil
		})
		if err != nil {
			yield(dlqbridge.Member{}, err)
			return
		}
		for _, m := range list[min(from, len(list)):] {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (p *process) AddHold(_ context.Context, h dlqbridge.Hold) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.holds = append(p.w.holds, h)
	return nil
}

func (p *process) RemoveHold(context.Context, string) error { return nil }

func (p *process) ListHolds(context.Context) (h []dlqbridge.Hold, err error) {
	err = p.call("holds", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		h = slices.Clone(p.w.holds)
		return nil
	})
	return h, err
}

func (p *process) AddApproval(_ context.Context, a dlqbridge.Approval) error {
	return p.call("approve", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.approved = append(p.w.approved, a)
		return nil
	})
}

func (p *process) ListApprovals(_ context.Context, plan string) (out []dlqbridge.Approval, err error) {
	err = p.call("approvals", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		for _, a := range p.w.approved {
			if a.Plan == plan {
				out = append(out, a)
			}
		}
		return nil
	})
	return out, err
}

func (p *process) NoteDone(_ context.Context, d dlqbridge.GroupDone) error {
	return p.call("done", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		if p.w.done == nil {
			p.w.done = map[dlqbridge.GroupKey]dlqbridge.GroupDone{}
		}
		if p.w.done[d.GroupKey].Order < d.Order {
			p.w.done[d.GroupKey] = d
		}
		return nil
	})
}

func (p *process) GroupsDone(_ context.Context, groups []dlqbridge.GroupKey) (map[dlqbridge.GroupKey]dlqbridge.GroupDone, error) {
	out := map[dlqbridge.GroupKey]dlqbridge.GroupDone{}
	err := p.call("groups", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		for _, g := range groups {
			if d, ok := p.w.done[g]; ok {
				out[g] = d
			}
		}
		return nil
	})
	return out, err
}

func (p *process) Look(_ context.Context, ids []string, job string) (v dlqbridge.View, err error) {
	err = p.call("look", func() error {
		v.Controls = p.w.read(ids)
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		v.Job, v.Holds = p.w.jobs[job], slices.Clone(p.w.holds)
		return nil
	})
	return v, err
}

// Judge is a small stand-in for enrichment: it decides by the real rules.
func (p *process) Judge(_ context.Context, asks []redrive.Ask) []redrive.Judgement {
	out := make([]redrive.Judgement, len(asks))
	err := p.call("judge", func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		for i, a := range asks {
			out[i] = p.w.judge(a)
		}
		return nil
	})
	if err != nil {
		for i := range out {
			out[i].Err = err
		}
	}
	return out
}

func (w *world) judge(a redrive.Ask) redrive.Judgement {
	c, k := a.Control, w.knows[a.Control.ID]
	policy := dlqbridge.DefaultCausePolicy(c.Cause)
	if k.policy != nil {
		policy = *k.policy
	}
	fix := c.Fix
	approvers := slices.Clone(k.approvers)
	if a.Note != nil {
		if a.Note.Fix != nil {
			fix = a.Note.Fix.String()
		}
		if a.Note.Approval && a.Note.Actor.Authenticated {
			approvers = append(approvers, a.Note.Actor.Name)
		}
		if s := a.Note.Second; s != nil && s.By.Authenticated {
			approvers = append(approvers, s.By.Name)
		}
	}
	effect := cmp.Or(k.effect, dlqbridge.EffectNone)
	if k.running.After(time.Now()) {
		effect = dlqbridge.EffectUnknown
	}
	folded := dlqbridge.Folded{State: effect, Uncovered: cmp.Or(k.uncovered, effect)}
	x := dlqbridge.Context{
		At: time.Now(), Folded: folded, RepeatSafe: k.repeatSafe, RunningUntil: k.running, CompletedBy: k.completed,
		Task: dlqbridge.Task{TaskID: c.TaskID, IdempotencyKey: "idem-" + c.ID},
	}
	if effect == dlqbridge.EffectConfirmed && c.TaskID != "" {
		receipt := "ch_" + c.ID
		x.Findings = []dlqbridge.Finding{{Store: "ledger", Step: "0003#charge", Run: "run-1", State: dlqbridge.EffectConfirmed, Proof: dlqbridge.ProofReceipt, AsOf: c.FirstSeen, Receipt: &receipt}}
		x.Findings = append(x.Findings, k.findings...)
	}
	if a.Completed != nil {
		x.CompletedBy = a.Completed
	}
	if k.checkpoint != "" {
		x.Checkpoint = &dlqbridge.Checkpoint{Ref: k.checkpoint}
	}
	x.Name = dlqbridge.Fingerprint(c.ID, strconv.Itoa(c.Version), string(effect), dlqbridge.FormatTime(time.Now()))
	d := dlqbridge.Decide(dlqbridge.DecisionInput{
		Completed: k.completed != nil, Policy: policy, Approved: len(approvers) > 1, Effect: folded, RepeatSafe: k.repeatSafe,
		Expired: k.expired, Resumable: k.checkpoint != "", Redrives: c.Redrives, Fixed: fix != "",
	})
	to := c
	to.Effect, to.Uncovered, to.RepeatSafe, to.Action, to.Why, to.Context, to.Fix = folded.State, folded.Uncovered, k.repeatSafe, d.Action, d.Why, x.Name, fix
	stands := c.Action == d.Action && c.Effect == folded.State && c.Uncovered == folded.Uncovered && c.RepeatSafe == k.repeatSafe && !c.Conflict
	if c.Claim == nil && (c.Status != dlqbridge.StatusAuthorized || !stands) {
		to.Status = d.Status
	}
	return redrive.Judgement{
		Context: x, Decision: d, Policy: policy, Applied: to, Approvers: approvers, Stands: stands,
		Arrival:     dlqbridge.Arrival{Key: c.Newest, System: map[string]string{"SequenceNumber": sequence(c)}},
		Compensates: w.routes[c.Route].CompensateTo != "", CompensatesAgain: w.routes[c.Route].CompensateIdempotent,
		SeenRedriveN: k.seenN, SeenRun: fmt.Sprintf("run-%d", k.seenN),
		Unsent: dlqbridge.Folded{State: cmp.Or(k.unsent, folded.State), Uncovered: cmp.Or(k.unsent, folded.Uncovered)},
	}
}

// sequence is the number in a record's id, as a FIFO queue would write it.
func sequence(c dlqbridge.Control) string {
	_, n, _ := strings.Cut(c.ID, "_")
	return n
}

// queue is a destination: what arrives, and when.
type queue struct {
	facts dlqbridge.DestinationFacts

	mu      sync.Mutex
	arrived []arrival
	dedup   map[string]time.Time
	// fault decides about one entry before it arrives; nil arrives.
	fault func(o dlqbridge.Outgoing) error
	// lose loses the answer for one entry that did arrive.
	lose func(o dlqbridge.Outgoing) bool
	// latency is how long before an arrival and after it.
	latency  func() (before, after time.Duration)
	missing  bool
	requests []int // bytes
}

type arrival struct {
	at      time.Time
	out     dlqbridge.Outgoing
	mark    string
	request int
}

func newQueue(urn string, fifo bool) *queue {
	return &queue{dedup: map[string]time.Time{}, facts: dlqbridge.DestinationFacts{
		URN: urn, FIFO: fifo, Ordered: fifo, MaxBytes: 1 << 20, BatchBytes: 1 << 20, BatchCount: 10, MaxAttributes: 10,
		Visibility: 30 * time.Second, MaxReceives: 3,
	}}
}

// sender is a queue as one process reaches it.
type sender struct {
	p *process
	q *queue
}

func (s sender) Facts(context.Context) (f dlqbridge.DestinationFacts, err error) {
	err = s.p.call("facts", func() error {
		if s.q.missing {
			return dlqbridge.ErrNotFound
		}
		f = s.q.facts
		return nil
	})
	return f, err
}

func (s sender) Send(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	out := make([]dlqbridge.SendResult, len(batch))
	err := s.p.call("send", func() error {
		for i, r := range s.q.take(ctx, batch) {
			out[i] = r
		}
		return nil
	})
	if err != nil {
		if errors.Is(err, errKilled) { // nobody reads the answer
			err = fmt.Errorf("%w: %w", dlqbridge.ErrUnclear, err)
		}
		for i := range out {
			out[i] = dlqbridge.SendResult{Err: err}
		}
	}
	return out
}

func (q *queue) take(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	out := make([]dlqbridge.SendResult, len(batch))
	var after time.Duration
	if q.latency != nil {
		var before time.Duration
		before, after = q.latency()
		time.Sleep(before)
	}
	q.mu.Lock()
	bytes := 0
	for _, o := range batch {
		bytes += o.Size()
	}
	q.requests = append(q.requests, bytes)
	for i, o := range batch {
		var err error
		if q.fault != nil {
			err = q.fault(o)
		}
		if q.missing {
			err = dlqbridge.ErrNotFound
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].MessageID = fmt.Sprintf("m-%d", len(q.arrived))
		if at, known := q.dedup[o.DedupID]; !known || o.DedupID == "" || time.Since(at) >= 5*time.Minute {
			q.dedup[o.DedupID] = time.Now()
			m, _ := o.Payload.Attribute(dlqbridge.MarkName)
			q.arrived = append(q.arrived, arrival{time.Now(), o, string(m.Value), len(q.requests)})
		}
		if q.lose != nil && q.lose(o) {
			out[i] = dlqbridge.SendResult{Err: dlqbridge.ErrUnclear}
		}
	}
	q.mu.Unlock()
	if after > 0 {
		time.Sleep(after)
		if ctx.Err() != nil {
			for i := range out {
				out[i] = dlqbridge.SendResult{Err: dlqbridge.ErrUnclear}
			}
		}
	}
	return out
}

func (q *queue) all() []arrival {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.arrived)
}

// bodies counts the arrivals of each body.
func (q *queue) bodies() map[string]int {
	out := map[string]int{}
	for _, a := range q.all() {
		out[string(a.out.Payload.Body)]++
	}
	return out
}

var (
	deploy = &dlqbridge.Fix{Kind: "deploy", Text: "1.4.2"}
	alice  = dlqbridge.Actor{Name: "arn:aws:iam::000000000000:user/alice", Authenticated: true}
	bob    = dlqbridge.Actor{Name: "arn:aws:iam::000000000000:user/bob", Authenticated: true}
)

// start makes a process and its controller; change may alter both.
func (w *world) start(t testing.TB, change func(*process, *redrive.Options)) (*process, *redrive.Controller) {
	t.Helper()
	p := &process{w: w}
	o := redrive.Options{
		Index: p, Controls: p, Cases: p, Evidence: p, Leases: p, Jobs: p, Holds: p, Gate: p, Approvals: p, Groups: p, Payloads: p, Counted: p, Judge: p,
		Destination: func(_ context.Context, _, urn string) (dlqbridge.Destination, error) {
			q, ok := w.queues[urn]
			if !ok {
				return nil, dlqbridge.ErrNotFound
			}
			return sender{p, q}, nil
		},
		Route:  func(name string) (redrive.Route, bool) { r, ok := w.routes[name]; return r, ok },
		Holder: "test", Rate: dlqbridge.Rate{Count: 1000, Per: time.Second}, Burst: 1000,
	}
	if change != nil {
		change(p, &o)
	}
	return p, redrive.New(o)
}

func request() redrive.Request {
	return redrive.Request{Cause: dlqbridge.CauseTimeout, Fix: deploy, Reason: "the outage is over", Actor: alice}
}

// whole is a list in memory.
func whole[T any](l redrive.List[T]) []T {
	list, err := l.Slice()
	if err != nil {
		panic(err)
	}
	return list
}

// reasons maps the excluded ids to their reasons.
func reasons(x redrive.List[dlqbridge.Exclusion]) map[string]dlqbridge.ExcludeReason {
	out := map[string]dlqbridge.ExcludeReason{}
	for _, e := range whole(x) {
		out[e.ID] = e.Reason
	}
	return out
}
