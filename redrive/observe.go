package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Observer is the name under which outcomes are written into history.
const Observer = "observe"

// ObserveRequest narrows what is observed; zero is everything.
type ObserveRequest struct {
	Route string
	Job   string
	// IDs names single records; they are read consistently, not from the index.
	IDs []string
}

// Observed counts what one look at the outcomes settled. Its JSON form is public.
type Observed struct {
	// Outcomes counts the records moved by outcome, and those settled as sent.
	Outcomes map[dlqbridge.SendOutcome]int `json:"outcomes"`
	// Waiting are still being redriven, InDoubt of them with a send in doubt.
	Waiting int `json:"waiting"`
	InDoubt int `json:"inDoubt"`
	// Lapsed counts authorisations that ran out.
	Lapsed int `json:"lapsed"`
	// Completions counts the completion messages that were read; absent where no
	// route names a place of them.
	Completions *Confirmations `json:"completions,omitempty"`
}

// Observe looks once at all records being redriven: it settles sends in doubt
// by evidence, closes what completed, ends what nobody saw an outcome of, and
// lets old authorisations lapse. Any number of processes may do it at once.
//
// Crash at any point: what was settled is settled, the rest is looked at again.
func (c *Controller) Observe(ctx context.Context, r ObserveRequest) (Observed, error) {
	o := observation{Controller: c, windows: map[string]time.Duration{}, ordered: map[string]bool{}, seen: Observed{Outcomes: map[dlqbridge.SendOutcome]int{}}}
	filter := dlqbridge.Filter{Status: []dlqbridge.Status{dlqbridge.StatusRedriving, dlqbridge.StatusAuthorized}, Now: c.clock()}
	if r.Route != "" {
		filter.Routes = []string{r.Route}
	}
	ids := c.candidates(ctx, r.IDs, filter)
	for chunk, err := range chunks(ids, readChunk) {
		if err != nil {
			return o.seen, err
		}
		if err := o.look(ctx, chunk, r.Job); err != nil {
			return o.seen, err
		}
	}
	return o.seen, nil
}

// observation is one look.
type observation struct {
	*Controller
	windows map[string]time.Duration // by route and destination
	ordered map[string]bool          // the same
	seen    Observed
	// over are the redrives of a chunk whose outcome is known, silent those that
	// nobody saw one of until the end of their window.
	over   []settlement
	silent []silence
}

// settlement is the move that says how a redrive ended, and the context it names.
type settlement struct {
	outcome   dlqbridge.SendOutcome
	judgement Judgement
	step      dlqbridge.Step
}

// silence is a redrive without an outcome.
type silence struct {
	control dlqbridge.Control
	window  time.Duration
}

func (o *observation) look(ctx context.Context, ids []string, job string) error {
	controls, err := o.read(ctx, ids)
	if err != nil {
		return err
	}
	var asks []Ask
	ns := map[string]int{}
	now := o.clock()
	for _, id := range ids {
		c, ok := controls[id]
		switch {
		case !ok:
		case c.Status == dlqbridge.StatusAuthorized && c.Authorized != nil:
			if now.Sub(c.Authorized.At) > o.o.AuthorizeTTL {
				o.lapse(ctx, Lapse(c, Observer, "authorised "+dlqbridge.FormatTime(c.Authorized.At)+", which is too long ago", now))
				o.seen.Lapsed++
			}
		case c.Claim != nil && (job == "" || c.Claim.Job == job):
			ns[id] = c.Claim.N
			asks = append(asks, Ask{Control: c})
		}
	}
	notes, err := o.notes(ctx, controls, ns)
	if err != nil {
		return err
	}
	asks, err = o.glance(ctx, asks, notes)
	if err != nil {
		return err
	}
	o.undoings(ctx, asks, notes)
	var failed []error
	for i, j := range o.judge(ctx, asks) {
		c := asks[i].Control
		note, noted := notes[c.ID]
		switch {
		case !noted: // on its way out, or an adopter's business
			o.seen.Waiting++
		case j.Err != nil:
			o.unjudged(ctx, c, j.Err)
		default:
			failed = append(failed, o.settle(ctx, c, note, j))
		}
	}
	o.unconfirmed(ctx)
	return errors.Join(append(failed, o.finish(ctx))...)
}

// glance settles what the stores can say without being asked in full, and
// returns the others. Of a message that went out, and whose window is open, only
// whether it completed counts; the redrive number is the proof of it. Where groups
// keep their order, the arrival is needed too, to say how far the group has come.
func (o *observation) glance(ctx context.Context, asks []Ask, notes map[string]dlqbridge.Send) ([]Ask, error) {
	if o.o.Glance == nil {
		return asks, nil
	}
	var sent, rest []Ask
	for _, a := range asks {
		note := notes[a.Control.ID]
		quick := note.Outcome == dlqbridge.OutcomeSent && note.Action != dlqbridge.ActionCompensate && !undoing(a.Control)
		if quick && o.o.Groups != nil {
			ordered, err := o.keepsOrder(ctx, a.Control)
			if err != nil {
				return nil, err
			}
			quick = !ordered
		}
		if quick {
			sent = append(sent, a)
		} else {
			rest = append(rest, a)
		}
	}
	if len(sent) == 0 {
		return asks, nil
	}
	now := o.clock()
	for i, g := range o.o.Glance.Glance(ctx, sent) {
		c := sent[i].Control
		note := notes[c.ID]
		window, err := o.window(ctx, c)
		if err != nil {
			return nil, err
		}
		switch {
		case g.Known && g.Completed == nil && now.Before(note.At.Add(window)):
			o.seen.Waiting++
		case g.Known && g.Completed != nil && g.Completed.RedriveN == note.N:
			j := glanced(c, *g.Completed, now)
			o.end(dlqbridge.OutcomeCompleted, j, complete(c, j, dlqbridge.VerbComplete, Observer, o.completed(note, j), now))
		default:
			rest = append(rest, sent[i])
		}
	}
	return rest, nil
}

// undoings adds to the asks what stores say of compensations: each is a unit of
// work of its own, under its key, and a run of it that carries the redrive number
// is the proof that this one was done.
func (o *observation) undoings(ctx context.Context, asks []Ask, notes map[string]dlqbridge.Send) {
	if o.o.Glance == nil {
		return
	}
	var units []Ask
	var owners []int
	for i, a := range asks {
		if note, noted := notes[a.Control.ID]; noted && note.Action == dlqbridge.ActionCompensate && a.Control.Authorized != nil && a.Control.Authorized.Of != "" {
			unit := a.Control
			unit.TaskID = a.Control.Authorized.Of
			units, owners = append(units, Ask{Control: unit}), append(owners, i)
		}
	}
	if len(units) == 0 {
		return
	}
	for k, g := range o.o.Glance.Glance(ctx, units) {
		i := owners[k]
		if g.Completed != nil && g.Completed.RedriveN == notes[asks[i].Control.ID].N {
			asks[i].Completed, asks[i].Undone = g.Completed, true
		}
	}
}

// glanced is what a glance shows: the completion, and what was known before it.
func glanced(c dlqbridge.Control, by dlqbridge.Completion, now time.Time) Judgement {
	reason := fmt.Sprintf("%s: run %s completed redrive %d; nothing else was asked", by.Store, by.Run, by.RedriveN)
	return Judgement{Context: dlqbridge.Context{
		Name: dlqbridge.Fingerprint("glance", c.ID, c.Context, by.Store, by.Run, strconv.Itoa(by.RedriveN), dlqbridge.FormatTime(by.At), dlqbridge.FormatTime(now)),
		At:   now, Task: dlqbridge.Task{TaskID: c.TaskID, TaskType: c.TaskType, Tenant: c.Tenant}, Failure: dlqbridge.Failure{Cause: c.Cause, Signature: c.Signature},
		Findings: []dlqbridge.Finding{}, Folded: dlqbridge.Folded{State: c.Effect, Uncovered: c.Uncovered}, RepeatSafe: c.RepeatSafe,
		Reason: reason, CompletedBy: &by,
	}}
}

// settle deals with one record that is being redriven.
func (o *observation) settle(ctx context.Context, c dlqbridge.Control, note dlqbridge.Send, j Judgement) error {
	if note.Outcome == dlqbridge.OutcomeInDoubt {
		why := seen(j, note.N)
		if why == "" && o.completed(note, j) == "" {
			o.seen.Waiting++
			o.seen.InDoubt++
			return nil
		}
		if why != "" {
			note.Outcome, note.Reason = dlqbridge.OutcomeSent, why
			if err := o.putOne(ctx, c.ID, note); err != nil {
				return err
			}
			o.seen.Outcomes[dlqbridge.OutcomeSent]++
		}
	}
	if why := o.completed(note, j); why != "" {
		o.end(dlqbridge.OutcomeCompleted, j, complete(c, j, dlqbridge.VerbComplete, Observer, why, o.clock()))
		return nil
	}
	window, err := o.window(ctx, c)
	if err != nil {
		return err
	}
	route, _ := o.o.Route(c.Route)
	switch now := o.clock(); {
	// A run that is visibly going will have an outcome; cutting it off would
	// only make a person look at work in progress.
	case now.Before(note.At.Add(window)) || j.Context.RunningUntil.After(now):
		o.seen.Waiting++
	case j.Context.CompletedBy != nil && !undoing(c):
		o.end(dlqbridge.OutcomeCompleted, j, complete(c, j, dlqbridge.VerbComplete, Observer, completedWhy(j)+", before this redrive", now))
	case route.Absence:
		o.end(dlqbridge.OutcomeCompleted, j, complete(c, j, dlqbridge.VerbUnconfirmed, Observer, "by absence: nothing came back within "+window.String(), now))
	default:
		o.silent = append(o.silent, silence{c, window})
	}
	return nil
}

// completed says how a store shows that the task completed after this send;
// empty if none does. The redrive number is the strong form; a time that is
// later than the send by more than clocks differ is the weak one, and said so.
// That the task completed later says nothing about its compensation.
func (o *observation) completed(note dlqbridge.Send, j Judgement) string {
	by := j.Context.CompletedBy
	switch {
	case by == nil:
		return ""
	case by.RedriveN == note.N:
		return fmt.Sprintf("%s: run %s completed redrive %d", by.Store, by.Run, note.N)
	case note.Action != dlqbridge.ActionCompensate && by.At.After(note.At.Add(o.o.Skew)):
		return fmt.Sprintf("%s: run %s completed after the send, without its number", by.Store, by.Run)
	}
	return ""
}

// completedWhy is the sentence for a task that a store shows as completed.
func completedWhy(j Judgement) string {
	by := j.Context.CompletedBy
	if by == nil {
		return "a store shows that the task completed"
	}
	return fmt.Sprintf("%s: run %s completed the task", by.Store, by.Run)
}

// unconfirmed ends the observations without outcome. The records are judged
// without their claims, so that what they wait with is right for a person.
func (o *observation) unconfirmed(ctx context.Context) {
	asks := make([]Ask, len(o.silent))
	for i, s := range o.silent {
		asks[i] = Ask{Control: freed(s.control)}
	}
	for i, j := range o.judge(ctx, asks) {
		c := o.silent[i].control
		if j.Err != nil { // it waits, and is looked at again
			o.unjudged(ctx, c, j.Err)
			continue
		}
		o.end(dlqbridge.OutcomeUnconfirmed, j, unconfirmed(c, j, Observer, "no outcome within "+o.silent[i].window.String(), o.clock()))
	}
	o.silent = nil
}

func (o *observation) unjudged(ctx context.Context, c dlqbridge.Control, err error) {
	o.seen.Waiting++
	o.o.Log.WarnContext(ctx, "an outcome could not be judged", slog.String("record", c.ID), slog.Any("error", err))
}

func (o *observation) end(outcome dlqbridge.SendOutcome, j Judgement, s dlqbridge.Step) {
	o.over = append(o.over, settlement{outcome, j, s})
}

// finish writes the outcomes of a chunk together: the contexts first, then the
// moves that name them.
func (o *observation) finish(ctx context.Context) error {
	over := o.over
	o.over = nil
	evidence := make([]dlqbridge.Evidence, len(over))
	for i, e := range over {
		evidence[i] = dlqbridge.Evidence{Record: e.step.From.ID, Item: e.judgement.Context}
	}
	var failed []error
	var ready []settlement
	var steps []dlqbridge.Step
	for i, err := range o.put(ctx, evidence) {
		if err != nil {
			failed = append(failed, fmt.Errorf("keep what was found about %s: %w", evidence[i].Record, err))
			continue
		}
		if over[i].outcome == dlqbridge.OutcomeCompleted {
			if err := o.came(ctx, over[i].step.From, over[i].judgement); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		ready, steps = append(ready, over[i]), append(steps, over[i].step)
	}
	for i, err := range o.move(ctx, steps) {
		switch {
		case err == nil:
			o.seen.Outcomes[ready[i].outcome]++
		case errors.Is(err, dlqbridge.ErrConflict): // intake or another observer was first
		default:
			failed = append(failed, fmt.Errorf("write the outcome of %s: %w", steps[i].From.ID, err))
		}
	}
	return errors.Join(failed...)
}

// came keeps how far the record's group has come, where its destination keeps order.
func (o *observation) came(ctx context.Context, c dlqbridge.Control, j Judgement) error {
	if o.o.Groups == nil {
		return nil
	}
	ordered, err := o.keepsOrder(ctx, c)
	if err != nil || !ordered {
		return err
	}
	return o.passed(ctx, c, j, o.SendsTo(c), o.clock())
}

// keepsOrder says whether a record's destination keeps the order of groups.
func (o *observation) keepsOrder(ctx context.Context, c dlqbridge.Control) (bool, error) {
	urn := o.SendsTo(c)
	key := c.Route + "\x00" + urn
	ordered, known := o.ordered[key]
	if !known {
		dest, err := o.o.Destination(ctx, c.Route, urn)
		if err == nil {
			var f dlqbridge.DestinationFacts
			f, err = dest.Facts(ctx)
			ordered = f.Ordered
		}
		if err != nil && !errors.Is(err, dlqbridge.ErrNotFound) {
			return false, fmt.Errorf("does %s keep order: %w", urn, err)
		}
		o.ordered[key] = ordered
	}
	return ordered, nil
}

// window is how long an outcome of a record is waited for.
func (o *observation) window(ctx context.Context, c dlqbridge.Control) (time.Duration, error) {
	route, _ := o.o.Route(c.Route)
	if route.ObserveFor > 0 {
		return route.ObserveFor, nil
	}
	urn := o.SendsTo(c)
	key := c.Route + "\x00" + urn
	if w, ok := o.windows[key]; ok {
		return w, nil
	}
	w := DefaultObserveFor
	dest, err := o.o.Destination(ctx, c.Route, urn)
	if err == nil {
		var f dlqbridge.DestinationFacts
		if f, err = dest.Facts(ctx); err == nil {
			w = AutoWindow(f)
		}
	}
	// A destination that is gone brings no outcome: the shortest window will do.
	if err != nil && !errors.Is(err, dlqbridge.ErrNotFound) {
		return 0, fmt.Errorf("observation window of %s: %w", urn, err)
	}
	o.windows[key] = w
	return w, nil
}

// ObserveFor is how long an outcome of a record is waited for, and whether what
// nobody saw by then counts as completed.
func (c *Controller) ObserveFor(ctx context.Context, ctl dlqbridge.Control) (window time.Duration, absence bool, err error) {
	o := observation{Controller: c, windows: map[string]time.Duration{}, ordered: map[string]bool{}}
	window, err = o.window(ctx, ctl)
	route, _ := c.o.Route(ctl.Route)
	return window, route.Absence, err
}

// AutoWindow is how long `auto` observes: 10 m, or as long as the source itself
// may try a message, if that is longer. Worked: 5 receives with a visibility
// timeout of 15 m give 75 m.
func AutoWindow(f dlqbridge.DestinationFacts) time.Duration {
	return max(DefaultObserveFor, time.Duration(f.MaxReceives)*f.Visibility)
}

// waitedFor is how many records are observed together: all of their ids stand
// in memory. What comes after them goes on meanwhile and is looked at later.
const waitedFor = 10_000

// Wait observes until none of the records is being redriven, or ctx ends. It
// returns how each ended: its outcome, or in_doubt or sent if it is still open.
// It does not wait for sends in doubt, which may need a person.
func (c *Controller) Wait(ctx context.Context, records List[string]) (map[dlqbridge.SendOutcome]int, error) {
	for chunk, err := range chunks(records.All(), waitedFor) {
		if err != nil {
			return nil, err
		}
		if err := c.wait(ctx, chunk); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		finish, cancel := c.finishing(ctx)
		defer cancel()
		ctx = finish
	}
	return c.outcomes(ctx, records)
}

func (c *Controller) wait(ctx context.Context, records []string) error {
	for d := time.Second; ; d = min(2*d, maxBackoff) {
		seen, err := c.Observe(ctx, ObserveRequest{IDs: records})
		if err != nil && !dlqbridge.Retryable(err) {
			return err
		}
		if err == nil && seen.Waiting == seen.InDoubt || !pause(ctx, d) {
			return nil
		}
	}
}

// outcomes counts how the last redrives of records stand.
func (c *Controller) outcomes(ctx context.Context, records List[string]) (map[dlqbridge.SendOutcome]int, error) {
	out := map[dlqbridge.SendOutcome]int{}
	for known, err := range ahead(ctx, chunks(records.All(), readChunk), chunksAtOnce, c.outcomesOf) {
		if err != nil {
			return out, err
		}
		for _, o := range known {
			out[o]++
		}
	}
	return out, ctx.Err()
}

// outcomesOf is how the last redrives of some records stand, of those that are there.
func (c *Controller) outcomesOf(ctx context.Context, ids []string) (map[string]dlqbridge.SendOutcome, error) {
	controls, err := c.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	notes, err := c.claimNotes(ctx, controls)
	if err != nil {
		return nil, err
	}
	out := make(map[string]dlqbridge.SendOutcome, len(controls))
	for id, ctl := range controls {
		out[id] = outcome(ctl, notes[id])
	}
	return out, nil
}

func outcome(c dlqbridge.Control, note dlqbridge.Send) dlqbridge.SendOutcome {
	switch {
	case c.Claim != nil && note.Outcome == dlqbridge.OutcomeInDoubt:
		return dlqbridge.OutcomeInDoubt
	case c.Claim != nil:
		return dlqbridge.OutcomeSent
	case c.Status == dlqbridge.StatusCompleted, c.Status == dlqbridge.StatusCompensated:
		return dlqbridge.OutcomeCompleted
	case c.Move.Verb == dlqbridge.VerbUnconfirmed:
		return dlqbridge.OutcomeUnconfirmed
	case c.Status == dlqbridge.StatusAuthorized && c.Move.Verb != dlqbridge.VerbAuthorize:
		return dlqbridge.OutcomeRefused
	}
	return dlqbridge.OutcomeRecurred
}
