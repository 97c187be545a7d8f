package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Request says what to send back, and who wants it why.
type Request struct {
	// Cause is required: a job has one.
	Cause dlqbridge.Cause
	// The rest narrows the selection; empty selects everything of the cause.
	Route, Signature, Tenant, TaskType string
	// Actions selects only records that are sent by one of them; empty is by
	// whatever each needs.
	Actions []dlqbridge.Action
	// IDs names single records; they are read consistently, not from the index.
	IDs []string
	// Max bounds how many are selected; 0 is no bound.
	Max int
	// Fix is the verifiable change that the caller records with this run; nil
	// is none. Reason goes into history.
	Fix    *dlqbridge.Fix
	Reason string
	Actor  dlqbridge.Actor
	// Policy: nobody asked; only what policy may authorise alone is authorised.
	Policy bool
	// Zero values take the controller's, see Options.
	Rate        dlqbridge.Rate
	Burst       int
	MaxInFlight int
	// Plan is a plan made before, which is run as it stands: it says what is
	// selected, with which fix and under which pace. Nil plans now.
	Plan *Plan
	// ForApproval also selects what needs a second person: the plan then runs
	// only when one has approved it. Only for plans.
	ForApproval bool
	// SkipUndeliverable: where groups keep their order, one that cannot be sent
	// holds up no later one of its group.
	SkipUndeliverable bool
	// SendOvertaken also sends those of whose group a newer one completed.
	SendOvertaken bool

	canary []int
	// second is who else stands behind the run.
	second *dlqbridge.Approval
	// destination: only what leads there is authorised; empty is everything.
	destination string
}

// Plan is a frozen selection with everything left out and why. Its JSON form
// is public.
type Plan struct {
	Format int `json:"format"`
	// Environment is where it was made: its records are looked for nowhere else.
	Environment string          `json:"environment"`
	Cause       dlqbridge.Cause `json:"cause"`
	// Fix is what its authorisations will stand on; Policy: nobody's.
	Fix    *dlqbridge.Fix `json:"fix"`
	Policy bool           `json:"policy,omitempty"`
	// Actions are those that it was narrowed to; absent is whatever each needs.
	Actions []dlqbridge.Action `json:"actions,omitempty"`
	// ForApproval: it selects what needs a second person, so one must approve it.
	ForApproval bool `json:"forApproval,omitempty"`
	// SkipUndeliverable is a person's choice, see Request.
	SkipUndeliverable bool `json:"skipUndeliverable,omitempty"`
	SendOvertaken     bool `json:"sendOvertaken,omitempty"`
	// Jobs has one entry for each destination.
	Jobs     []PlannedJob              `json:"jobs"`
	Selected int                       `json:"selected"`
	Excluded List[dlqbridge.Exclusion] `json:"excluded"`
	Rate     dlqbridge.Rate            `json:"rate"`
	Burst    int                       `json:"burst"`
	// MaxInFlight and Canary are those of the run, see Options.
	MaxInFlight int      `json:"maxInFlight"`
	Canary      []int    `json:"canary"`
	Estimate    Estimate `json:"estimate"`
	// Hash is over the canonical content: equal plans hash equally.
	Hash string `json:"hash"`
}

// PlannedJob is the part of a plan that goes to one destination.
type PlannedJob struct {
	Destination string `json:"destination"`
	// Route is empty where several routes lead to the destination.
	Route string `json:"route"`
	// Receivers are those that each get a copy, as the destination names them;
	// absent where a message has one place to be.
	Receivers []string `json:"receivers,omitempty"`
	// Ordered: each group keeps its order there. DedupSeconds is how long the
	// destination drops a second message of one deduplication id.
	Ordered      bool                `json:"ordered,omitempty"`
	DedupSeconds int                 `json:"dedupSeconds,omitempty"`
	Members      List[PlannedMember] `json:"members"`

	window time.Duration // how long a canary step is observed at most
}

// PlannedMember is one record that would be sent.
type PlannedMember struct {
	ID      string           `json:"id"`
	Version int              `json:"v"`
	Action  dlqbridge.Action `json:"action"`
	// Authorized: somebody authorised it already; the run would not.
	Authorized bool `json:"authorized"`
	// Resend: its last send is in doubt and safe to repeat under its number.
	Resend bool `json:"resend,omitempty"`
	// SecondPerson: two people authorise it, so the plan's approval counts.
	SecondPerson bool `json:"secondPerson,omitempty"`
}

// Plan says what Run would do. It changes nothing.
func (c *Controller) Plan(ctx context.Context, r Request) (Plan, error) {
	r = c.defaults(r)
	if r.ForApproval && r.Policy {
		return Plan{}, fmt.Errorf("plan: %w: policy authorises nothing that needs a second person", dlqbridge.ErrInvalid)
	}
	if r.ForApproval {
		r.Actor, r.second = whoRuns, &dlqbridge.Approval{By: whoApproves}
	}
	p, err := c.survey(ctx, r, "")
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{
		Format: PlanFormat, Environment: c.o.Environment, Cause: r.Cause, Fix: r.Fix, Policy: r.Policy, Actions: r.Actions, ForApproval: r.ForApproval,
		SkipUndeliverable: r.SkipUndeliverable, SendOvertaken: r.SendOvertaken,
		Rate: r.Rate, Burst: r.Burst, MaxInFlight: r.MaxInFlight, Canary: append([]int{}, r.canary...),
		Jobs: []PlannedJob{}, Excluded: p.excluded,
	}
	for _, t := range p.targets {
		if err := plan.Excluded.AddAll(t.excluded.All()); err != nil {
			return Plan{}, err
		}
		if t.members.Len() > 0 {
			job := PlannedJob{Destination: t.urn, Route: t.route, Receivers: t.facts.Receivers, Members: t.members, Ordered: t.facts.Ordered, window: AutoWindow(t.facts)}
			if t.facts.FIFO {
				job.DedupSeconds = int(fifoWindow / time.Second)
			}
			if route, ok := c.o.Route(t.route); ok && route.ObserveFor > 0 {
				job.window = route.ObserveFor
			}
			plan.Jobs = append(plan.Jobs, job)
			plan.Selected += t.members.Len()
		}
	}
	if plan.Estimate, err = c.estimate(plan); err != nil {
		return Plan{}, err
	}
	plan.Hash, err = plan.sum()
	return plan, err
}

func (c *Controller) defaults(r Request) Request {
	if r.Rate.Count <= 0 {
		r.Rate = c.o.Rate
	}
	if r.Burst <= 0 {
		r.Burst = c.o.Burst
	}
	if r.Burst <= 0 {
		r.Burst = r.Rate.DefaultBurst()
	}
	if r.MaxInFlight <= 0 {
		r.MaxInFlight = c.o.MaxInFlight
	}
	if r.canary == nil {
		r.canary = c.o.Canary
	}
	if r.Policy {
		r.Actor, r.Fix = PolicyActor, nil
		if r.Reason == "" {
			r.Reason = "within policy, after the back-off"
		}
	}
	return r
}

// survey is a plan in the making.
type survey struct {
	targets  []*target
	excluded List[dlqbridge.Exclusion] // those without a destination
	holds    []dlqbridge.Hold
	seen     idSet
	// aside are those of them that go to another place than back.
	aside idSet
	// tasks are those of the candidates, by whether the record names a tenant.
	tasks map[bool]idSet
	now   time.Time
}

// twin notes a candidate's task, and says no to a record that names no tenant
// where one before it does, or the other way round: both may be of one task, which
// this run would then send twice.
func (s *survey) twin(ctl dlqbridge.Control) *dlqbridge.Exclusion {
	if ctl.TaskID == "" {
		return nil
	}
	named, key := ctl.Tenant != "", cmp.Or(ctl.Source, ctl.Route)+"\x00"+ctl.TaskID
	if s.tasks[named] == nil {
		s.tasks[named] = idSet{}
	}
	s.tasks[named].add(key)
	if !s.tasks[!named].has(key) {
		return nil
	}
	other := "names a tenant, and this one none"
	if named {
		other = "names no tenant"
	}
	return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeConflict, Detail: fmt.Sprintf(
		"another record of task %s %s: if it is the same task, reject one of the two; if not, send this one by itself (--record)", dlqbridge.CutText(ctl.TaskID, 64), other)}
}

// target is everything that a survey found for one destination.
type target struct {
	urn, route string
	dest       dlqbridge.Destination
	facts      dlqbridge.DestinationFacts
	missing    bool
	candidates sorter[candidate]
	// going counts the candidates that may go.
	going    int
	members  List[PlannedMember]
	excluded List[dlqbridge.Exclusion]
	// routes lead here; late is what a run closes as expired.
	routes map[string]bool
	late   List[dlqbridge.Member]
	// claimed: some records are claimed or in doubt, perhaps by a dead job;
	// orphans are those of them without a note.
	claimed bool
	orphans []dlqbridge.Member
}

// candidate is a member with what its place in the order depends on. It may
// have to wait in a file, which holds exported fields only.
type candidate struct {
	Planned                     PlannedMember
	Deadline, FirstSeen, SentAt time.Time
	Place, Sequence             string
	// Newest names the payload that would be sent. Out says why it is not: where
	// groups keep their order, those that do not go stand in line too.
	Newest, Out string
	// In is where in its group it stands.
	In string
	// Kind is what a canary's samples are spread over.
	Kind kind
}

// kind is a tenant, a type and a signature.
type kind [3]string

// survey reads the candidates and decides about each. With only set it looks at
// one destination.
func (c *Controller) survey(ctx context.Context, r Request, only string) (*survey, error) {
	if r.Plan != nil {
		return c.frozen(ctx, *r.Plan, only)
	}
	if !r.Cause.Valid() {
		return nil, fmt.Errorf("cause %q: %w: a job has exactly one cause", r.Cause, dlqbridge.ErrInvalid)
	}
	if err := knownActions(r.Actions); err != nil {
		return nil, err
	}
	s := &survey{seen: idSet{}, aside: idSet{}, tasks: map[bool]idSet{}, now: c.clock()}
	var err error
	if s.holds, err = c.o.Holds.ListHolds(ctx); err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	filter := dlqbridge.Filter{
		Causes: []dlqbridge.Cause{r.Cause}, Tenant: r.Tenant, TaskType: r.TaskType, Signature: r.Signature, Now: s.now,
	}
	if r.Route != "" {
		filter.Routes = []string{r.Route}
	}
	candidates := c.candidates(ctx, r.IDs, filter)
	look := func(ctx context.Context, ids []string) (looked, error) { return c.look(ctx, r, filter, s.now, ids) }
	for seen, err := range ahead(ctx, chunks(candidates, readChunk), chunksAtOnce, look) {
		if err != nil {
			return nil, err
		}
		if err := c.sortAll(ctx, r, s, seen, only); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	left := r.Max
	if left <= 0 {
		left = -1
	}
	for _, t := range s.targets {
		members := spread(&t.candidates, r.canary)
		if t.facts.Ordered { // whose groups keep their order instead
			members = c.keepOrder(ctx, r, s, t)
		}
		for m, err := range members {
			if err != nil {
				return nil, err
			}
			if left == 0 {
				break
			}
			left--
			t.members.Add(m)
		}
		t.candidates = sorter[candidate]{}
	}
	return s, nil
}

// looked is one chunk of candidates, read and judged.
type looked struct {
	asks       []Ask
	judgements []Judgement
	notes      map[string]dlqbridge.Send
	// unmatched were named and are not what was asked for.
	unmatched []dlqbridge.Exclusion
}

// look reads the candidates anew, because the index may lag, and judges those
// that match. Several chunks are looked at at once, so it touches no survey.
func (c *Controller) look(ctx context.Context, r Request, f dlqbridge.Filter, now time.Time, ids []string) (looked, error) {
	var l looked
	controls, err := c.read(ctx, ids)
	if err != nil {
		return l, err
	}
	ns := map[string]int{}
	for _, id := range ids {
		ctl, ok := controls[id]
		switch {
		case !ok && len(r.IDs) > 0:
			return l, fmt.Errorf("record %s: %w", id, dlqbridge.ErrNotFound)
		case !ok:
			continue
		case !f.Matches(ctl):
			if len(r.IDs) > 0 {
				l.unmatched = append(l.unmatched, unmatched(ctl, r))
			}
			continue
		}
		if ctl.Claim != nil {
			ns[id] = ctl.Claim.N
		}
		a := Ask{Control: ctl}
		if ctl.Claim == nil && ctl.Authorized == nil {
			n := noteFor(ctl, r, now)
			a.Note = &n
		}
		l.asks = append(l.asks, a)
	}
	if l.notes, err = c.notes(ctx, controls, ns); err != nil {
		return l, err
	}
	l.judgements = c.judge(ctx, l.asks)
	return l, nil
}

// sortAll puts a chunk's records where they belong.
func (c *Controller) sortAll(ctx context.Context, r Request, s *survey, l looked, only string) error {
	if only == "" {
		for _, x := range l.unmatched {
			s.excluded.Add(x)
		}
	}
	for i, a := range l.asks {
		if err := l.judgements[i].Err; err != nil {
			return fmt.Errorf("judge %s: %w", a.Control.ID, err)
		}
		if now := wouldSend(a.Control, l.judgements[i], l.notes); !r.wants(now) {
			// Not seen, so it stands in its group's line like any that was not asked for.
			if only == "" && len(r.IDs) > 0 {
				s.excluded.Add(dlqbridge.Exclusion{ID: a.Control.ID, Reason: dlqbridge.ExcludeChanged, Detail: fmt.Sprintf("it is decided %s, which is not what was asked for", now)})
			}
			continue
		}
		if !s.seen.add(a.Control.ID) {
			continue // listed twice: it moved in the index meanwhile
		}
		t, x, err := c.target(ctx, s, a.Control, coming(a.Control, l.judgements[i]), only)
		switch {
		case err != nil:
			return err
		case t != nil:
			c.sort(s, t, a.Control, l.judgements[i], r, l.notes)
		case x != nil && only == "":
			s.excluded.Add(*x)
		}
	}
	return nil
}

// unmatched says why a record that was named is not one of this request.
func unmatched(c dlqbridge.Control, r Request) dlqbridge.Exclusion {
	if c.Status.Closed() {
		return dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeClosed, Detail: string(c.Status)}
	}
	return dlqbridge.Exclusion{ID: c.ID, Reason: dlqbridge.ExcludeChanged, Detail: fmt.Sprintf("cause %s, route %s: not what was asked for (%s %s)", c.Cause, c.Route, r.Cause, r.Route)}
}

// target finds where a record belongs. Only transport facts and configuration
// decide: the letter's own source, which must be the route's where that names
// one (C44).
func (c *Controller) target(ctx context.Context, s *survey, ctl dlqbridge.Control, a dlqbridge.Action, only string) (*target, *dlqbridge.Exclusion, error) {
	no := func(r dlqbridge.ExcludeReason, detail string) (*target, *dlqbridge.Exclusion, error) {
		return nil, &dlqbridge.Exclusion{ID: ctl.ID, Reason: r, Detail: detail}, nil
	}
	route, ok := c.o.Route(ctl.Route)
	if !ok {
		return no(dlqbridge.ExcludeTargetMissing, "route "+ctl.Route+" is not configured")
	}
	source := cmp.Or(ctl.Source, route.Source)
	urn := route.leads(ctl, a)
	switch {
	case urn == "":
		return no(dlqbridge.ExcludeTargetMissing, "neither its letter nor its route names a source")
	case route.Source != "" && source != route.Source:
		return no(dlqbridge.ExcludeSourceMismatch, fmt.Sprintf("it came from %s, its route sends to %s", source, route.Source))
	case route.Target != "" && ctl.Source != "" && !slices.Contains(route.Sources, ctl.Source):
		return no(dlqbridge.ExcludeSourceMismatch, fmt.Sprintf("it came from %s, which is not known to belong to %s", source, urn))
	case only != "" && urn != only:
		return nil, nil, nil
	}
	for _, t := range s.targets {
		if t.urn == urn {
			t.routes[ctl.Route] = true
			if t.route != ctl.Route {
				t.route = ""
			}
			return t, nil, nil
		}
	}
	t := &target{urn: urn, route: ctl.Route, routes: map[string]bool{ctl.Route: true}}
	t.candidates.compare = t.order
	var err error
	if t.dest, err = c.o.Destination(ctx, ctl.Route, urn); err == nil {
		err = c.again(ctx, func() (err error) { t.facts, err = t.dest.Facts(ctx); return err })
	}
	switch {
	case errors.Is(err, dlqbridge.ErrNotFound):
		t.missing = true
	case err != nil:
		return nil, nil, fmt.Errorf("destination %s: %w", urn, err)
	}
	s.targets = append(s.targets, t)
	return t, nil, nil
}

// sort puts one record among the members or the excluded of its target.
func (c *Controller) sort(s *survey, t *target, ctl dlqbridge.Control, j Judgement, r Request, notes map[string]dlqbridge.Send) {
	m := candidate{
		Planned:  PlannedMember{ID: ctl.ID, Version: ctl.Version, Action: j.Decision.Action},
		Deadline: ctl.Deadline, FirstSeen: ctl.FirstSeen, Kind: kind{ctl.Tenant, ctl.TaskType, ctl.Signature},
		Newest: ctl.PayloadName(),
	}
	m.at(j.first())
	x := c.planned(s, t, ctl, j, r, notes, &m.Planned)
	if c.leads(ctl, dlqbridge.ActionRetry) != t.urn {
		s.aside.add(ctl.ID)
		m.Newest = lined(m.Planned.Action, ctl.PayloadName())
	}
	if twin := s.twin(ctl); x == nil {
		x = twin
	}
	if x == nil && t.missing {
		x = &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeTargetMissing, Detail: "destination " + t.urn + " does not exist"}
	}
	if x == nil {
		x = c.alone(ctl, t)
	}
	if x == nil {
		x = held(ctl, s.holds, t.urn, s.now)
	}
	if x == nil {
		x = c.mustWait(ctl.ID, r.Policy, s.now)
	}
	cancelled := c.cancels(ctl, x)
	if cancelled {
		x.Detail += ", so a run cancels it"
		t.late.Add(dlqbridge.Member{ID: ctl.ID, Version: ctl.Version})
	}
	if x != nil {
		t.excluded.Add(*x)
		if t.facts.Ordered && holdsUp(x.Reason) && !cancelled {
			m.Out = string(x.Reason)
			t.candidates.add(m)
		}
		return
	}
	t.going++
	t.candidates.add(m)
}

// at says where the arrival stands that a record began with.
func (m *candidate) at(a dlqbridge.Arrival) {
	m.Place, m.SentAt, m.Sequence, m.In = a.Place, a.SentAt, a.System["SequenceNumber"], place(a)
}

// alone says whether what is sent reaches the failed consumer and nobody else:
// others did their part already and would do it again (C45). A destination
// without any receiver would lose it.
func (c *Controller) alone(ctl dlqbridge.Control, t *target) *dlqbridge.Exclusion {
	receivers := t.facts.Receivers
	if receivers == nil || len(receivers) == 1 {
		return nil
	}
	if len(receivers) == 0 {
		return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeTargetMissing, Detail: t.urn + " has no subscription: what is sent there is lost"}
	}
	route, _ := c.o.Route(ctl.Route)
	fine := route.FanOut
	if route.besides(t.urn) {
		fine = route.FanOutAside
	}
	if fine {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(receivers), func(r string) bool { return r == cmp.Or(ctl.Source, route.Source) })
	return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeFanOut, Detail: strings.Join(others, ", ") +
		" would get a copy too; name a topic that one subscription reads, or accept the fan-out"}
}

func (c *Controller) planned(s *survey, t *target, ctl dlqbridge.Control, j Judgement, r Request, notes map[string]dlqbridge.Send, m *PlannedMember) *dlqbridge.Exclusion {
	note, noted := notes[ctl.ID]
	switch {
	case ctl.Claim != nil && noted && note.Outcome == dlqbridge.OutcomeInDoubt:
		t.claimed = true
		// Whether the mark has a place is seen at the gate, where the payload is.
		_, x := c.mayResend(ctl, note, j, t.facts, true)
		m.Resend, m.Authorized, m.Action = true, true, note.Action
		return x
	case ctl.Claim != nil:
		t.claimed = true
		if !noted {
			t.orphans = append(t.orphans, dlqbridge.Member{ID: ctl.ID, Version: ctl.Version})
		}
		return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeClaimed, Detail: holder(ctl)}
	case ctl.Authorized != nil:
		m.Authorized, m.Action = true, ctl.Authorized.Action
		if old := s.now.Sub(ctl.Authorized.At); old > c.o.AuthorizeTTL {
			return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeNotAuthorized, Detail: fmt.Sprintf("its authorisation is older than %s", c.o.AuthorizeTTL)}
		}
		if x := unsendable(ctl, j, s.now); x != nil {
			return x
		}
		if !stands(ctl, j) {
			return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeChanged, Detail: "the ground of the authorisation has changed"}
		}
		return nil
	}
	m.SecondPerson = NeedsSecondPerson(j.Policy)
	return MayAuthorize(ctl, j, Asking{Actor: r.Actor, Policy: r.Policy, Now: s.now})
}

// order says which of two candidates goes first: deadlines first, then the
// oldest. Where groups must keep their order, that of arrival goes before everything.
func (t *target) order(a, b candidate) int {
	if t.facts.Ordered {
		return byArrival(a, b)
	}
	if a.Deadline.IsZero() != b.Deadline.IsZero() {
		if a.Deadline.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Deadline.Compare(b.Deadline), a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.Planned.ID, b.Planned.ID))
}

// byArrival sorts by sequence number within one dead-letter queue. Numbers of
// two queues say nothing about each other; the queues then go one by one.
func byArrival(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.Place, b.Place),
		cmp.Compare(len(a.Sequence), len(b.Sequence)), cmp.Compare(a.Sequence, b.Sequence),
		a.SentAt.Compare(b.SentAt), a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.Planned.ID, b.Planned.ID),
	)
}
