// Package triage carries out what a person decides about one record: it checks
// the move against the table, writes the note and whatever was judged anew,
// then moves the record in one conditional write. If somebody else moved first
// it reads again and decides again.
//
// What a crash leaves: a note or a context that no move names, which counts
// for nothing.
package triage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// Store is what a move reads and writes.
type Store interface {
	dlqbridge.CaseReader
	dlqbridge.EvidenceWriter
	dlqbridge.Controls
}

// Mover makes people's moves. It may be used concurrently.
type Mover struct {
	Store Store
	// Judge judges a record with a person's note as if it were on record.
	Judge func(ctx context.Context, c dlqbridge.Case, note *dlqbridge.Note) (enrich.Judgement, error)
	Now   func() time.Time
	// Compensates says whether a route names where compensations go; nil is none does.
	Compensates func(route string) bool
	// Bounds are what repairs are held against; other moves do without.
	Bounds Bounds
}

// Request is what the person wants, the same for each record it is about.
type Request struct {
	Verb             dlqbridge.Verb
	Actor            dlqbridge.Actor
	Reason, Evidence string
	// Owner belongs to assign, Cause to classify, Fix to fix, Until to snooze,
	// Sent to settle-send; Effect and either Step or AllSteps to settle-effect;
	// Repair to repair.
	Owner    string
	Cause    dlqbridge.Cause
	Fix      *dlqbridge.Fix
	Until    time.Time
	Sent     bool
	Effect   dlqbridge.Effect
	Step     string
	AllSteps bool
	// Correct belongs to settle-effect too: the word takes the place of earlier ones.
	Correct bool
	Repair  RepairRequest
}

// MissingError is a record that is not there.
type MissingError struct{ ID string }

// Error says so.
func (e *MissingError) Error() string { return "there is no record " + e.ID }

// Unwrap gives it its meaning.
func (e *MissingError) Unwrap() error { return dlqbridge.ErrNotFound }

// Done is the record after the move.
type Done struct {
	Control dlqbridge.Control
	// Note is a sentence for the person, where the status alone does not say it.
	Note string
	// Repaired is what a repair changed, nil for other moves.
	Repaired *Repaired
}

const (
	// How often a move is tried against others who move the same record: more
	// than a busy intake causes, and then the person should look.
	maxTries = 8
	// The most that is waited before the second try; it doubles.
	meanwhile = 20 * time.Millisecond
)

// Move moves one record. *dlqbridge.MoveError says why a move is refused and
// what would be possible.
func (m Mover) Move(ctx context.Context, id string, r Request) (Done, error) {
	var first *dlqbridge.Control // as it was when the person asked
	for try := 1; ; try++ {
		done, err := m.once(ctx, id, r, &first)
		if err == nil || !errors.Is(err, dlqbridge.ErrConflict) || try == maxTries {
			return done, err
		}
		// A random share, so that those who collided do not collide again.
		timer := time.NewTimer(rand.N(meanwhile << (try - 1))) //nolint:gosec // spreads callers, guards nothing
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return done, ctx.Err()
		}
	}
}

// plan is a move that has been thought through and not been written.
type plan struct {
	to       dlqbridge.Control
	context  *dlqbridge.Context
	note     dlqbridge.Note
	send     *dlqbridge.Send
	payload  *dlqbridge.StoredPayload
	repaired *Repaired
	sentence string
}

// think reads a record and thinks the move through.
func (m Mover) think(ctx context.Context, id string, r Request, now time.Time) (dlqbridge.Case, plan, error) {
	c, err := m.Store.Case(ctx, id)
	if err != nil {
		if wire.Absent(err) {
			return c, plan{}, &MissingError{ID: id}
		}
		return c, plan{}, err
	}
	from := c.Control
	rule, _ := r.Verb.Rule()
	b, err := m.beside(ctx, c, now)
	if err != nil {
		return c, plan{}, err
	}
	// Who authorises asks the stores again, which may know better than the record.
	asks := r.Verb == dlqbridge.VerbAuthorize && slices.Contains(rule.From, from.Status)
	if why := r.Verb.Hindered(c, b); why != "" && !asks {
		return c, plan{}, refuse(c, b, r.Verb, why)
	}
	p, err := m.plan(ctx, c, b, r)
	if err != nil {
		return c, plan{}, err
	}
	if !r.Verb.Allows(from.Status, p.to.Status) {
		return c, plan{}, refuse(c, b, r.Verb, fmt.Sprintf("it would lead to %s", p.to.Status))
	}
	return c, p, nil
}

// beside is what the moves of a record depend on and it does not say itself.
func (m Mover) beside(ctx context.Context, c dlqbridge.Case, now time.Time) (dlqbridge.Beside, error) {
	b := dlqbridge.Beside{Now: now, Compensates: m.Compensates != nil && m.Compensates(c.Control.Route)}
	var err error
	b.Newer, err = Newer(ctx, m.Store, c)
	return b, err
}

// Newer is the record that a later letter of a closed one's task opened; empty
// if there is none.
func Newer(ctx context.Context, store dlqbridge.Controls, c dlqbridge.Case) (string, error) {
	next := enrich.NextEpisode(c)
	if next == "" || !c.Control.Status.Closed() {
		return "", nil
	}
	newer, err := store.Read(ctx, []string{next})
	if err != nil {
		return "", err
	}
	if _, there := newer[next]; !there {
		return "", nil
	}
	return next, nil
}

// Preview says what a move would do. It writes nothing.
func (m Mover) Preview(ctx context.Context, id string, r Request) (Done, error) {
	_, p, err := m.think(ctx, id, r, m.Now().UTC().Truncate(time.Millisecond))
	return Done{Control: p.to, Note: p.sentence, Repaired: p.repaired}, err
}

func (m Mover) once(ctx context.Context, id string, r Request, first **dlqbridge.Control) (Done, error) {
	now := m.Now().UTC().Truncate(time.Millisecond)
	c, p, err := m.think(ctx, id, r, now)
	if err != nil {
		return Done{}, err
	}
	from := c.Control
	switch {
	case *first == nil:
		*first = &from
	case r.Verb == dlqbridge.VerbRepair && otherPayload(**first, from):
		return Done{}, &RefusedError{ID: id, Code: "changed", Why: fmt.Sprintf("somebody else changed what would be sent meanwhile (it is version %d now); look at it and decide again", from.PayloadVersion)}
	}
	p.to.Version = from.Version + 1
	job, n := p.to.Move.Job, p.to.Move.N
	p.to.Move = dlqbridge.Move{
		Version: p.to.Version, At: now, By: r.Actor.String(), Verb: r.Verb, From: from.Status, To: p.to.Status,
		Why: dlqbridge.CutText(r.Reason, maxWhy), Note: p.note.Name, Job: job, N: n,
	}
	evidence := []dlqbridge.Evidence{{Record: id, Item: p.note}}
	if p.context != nil {
		p.to.Move.Context = p.context.Name
		evidence = append(evidence, dlqbridge.Evidence{Record: id, Item: *p.context})
	}
	if p.send != nil {
		// "Sent" is the careful side: if the move fails after it, the message is
		// taken to be out, and nothing sends it again.
		evidence = append(evidence, dlqbridge.Evidence{Record: id, Item: *p.send})
	}
	if p.payload != nil {
		// Dying after it leaves a payload that nobody names; the old one is sent.
		evidence = append(evidence, dlqbridge.Evidence{Record: id, Item: *p.payload})
	}
	// Evidence first, then the move that names it.
	for _, err := range m.Store.Put(ctx, evidence) {
		if err != nil {
			return Done{}, fmt.Errorf("%s %s: %w", r.Verb, id, err)
		}
	}
	if err := m.Store.Move(ctx, []dlqbridge.Step{{From: from, To: p.to}})[0]; err != nil {
		return Done{}, fmt.Errorf("%s %s: %w", r.Verb, id, err)
	}
	return Done{Control: p.to, Note: p.sentence, Repaired: p.repaired}, nil
}

// maxWhy keeps the control item small; the whole reason is in the note.
const maxWhy = 120

// refuse says why a move is not made, and which are possible.
func refuse(c dlqbridge.Case, b dlqbridge.Beside, verb dlqbridge.Verb, why string) error {
	var others []string
	for _, v := range dlqbridge.Possible(c, b) {
		if v != verb {
			others = append(others, string(v))
		}
	}
	status := c.Control.Status
	switch {
	case len(others) > 0 && status == dlqbridge.StatusRedriving:
		why += "; it is being sent: its outcome moves it (`dlqbridge redrive observe`), a hold stops what is not sent yet; possible now: " + strings.Join(others, ", ")
	case len(others) > 0:
		why += "; possible now: " + strings.Join(others, ", ")
	case status.Closed():
		why += "; it is closed for good, a further letter of the task opens a new record"
	}
	return &dlqbridge.MoveError{ID: c.Control.ID, Verb: verb, Status: status, Why: why}
}

// plan thinks a move through. It writes nothing.
func (m Mover) plan(ctx context.Context, c dlqbridge.Case, b dlqbridge.Beside, r Request) (plan, error) {
	now := b.Now
	p := plan{to: c.Control, note: dlqbridge.Note{
		At: now, Actor: r.Actor, Verb: r.Verb, Reason: r.Reason, Evidence: r.Evidence, Cause: r.Cause, Owner: r.Owner, Fix: r.Fix,
	}}
	// A fresh name for each try: two people who say the same in the same
	// millisecond have made two moves, and one of them must see the other's.
	p.note.Name = dlqbridge.NewToken()
	//exhaustive:ignore
	switch r.Verb {
	case dlqbridge.VerbAssign:
		p.to.Owner = dlqbridge.Short(r.Owner)
	case dlqbridge.VerbSnooze:
		p.to.TriageBy = r.Until
	case dlqbridge.VerbClassify, dlqbridge.VerbInvestigate, dlqbridge.VerbFix, dlqbridge.VerbCloseIncident:
		return m.judged(ctx, c, p)
	case dlqbridge.VerbRepair:
		return m.repair(ctx, c, r, p)
	case dlqbridge.VerbSettleEffect:
		return m.settleEffect(ctx, c, r, p)
	case dlqbridge.VerbReopen:
		return m.reopen(ctx, c, b, r, p)
	case dlqbridge.VerbAuthorize:
		return m.authorize(ctx, c, b, r, p)
	case dlqbridge.VerbSettleSend:
		return settleSend(c, r, p), nil
	case dlqbridge.VerbOpenIncident:
		p.to.Status, p.to.Authorized = dlqbridge.StatusIncidentOpen, nil
	case dlqbridge.VerbCompleteManually:
		closing(&p.to, dlqbridge.StatusCompletedManually, now)
	case dlqbridge.VerbCompensated:
		closing(&p.to, dlqbridge.StatusCompensated, now)
	case dlqbridge.VerbReject:
		closing(&p.to, dlqbridge.StatusRejected, now)
	case dlqbridge.VerbCancelExpired:
		closing(&p.to, dlqbridge.StatusCancelledExpired, now)
	default:
		return p, refuse(c, b, r.Verb, "this version does not know the verb")
	}
	return p, nil
}

// closing closes a record. Nothing is left to do, and nobody is to look.
func closing(c *dlqbridge.Control, to dlqbridge.Status, now time.Time) {
	c.Status, c.Action, c.Authorized = to, dlqbridge.ActionNone, nil
	c.ClosedAt, c.RecheckAt, c.NotBefore = now, time.Time{}, time.Time{}
}

// judged reads the stores again with the note on record, and decides anew.
func (m Mover) judged(ctx context.Context, c dlqbridge.Case, p plan) (plan, error) {
	j, err := m.Judge(ctx, c, &p.note)
	if err != nil {
		return p, err
	}
	p.to, p.context = j.Apply(p.to), &j.Context
	p.sentence = j.Context.Reason
	if c.Control.Authorized != nil && p.to.Authorized == nil && !p.to.Status.Closed() {
		p.sentence += " Its authorisation was given on what was known before, so it has lapsed."
	}
	return p, nil
}

// authorize allows one send, or notes the first of two approvals.
func (m Mover) authorize(ctx context.Context, c dlqbridge.Case, b dlqbridge.Beside, r Request, p plan) (plan, error) {
	p.note.Approval = true
	j, err := m.Judge(ctx, c, &p.note)
	if err != nil {
		return p, err
	}
	seen := wire.ToRedrive(j, c)
	no := redrive.MayAuthorize(c.Control, seen, redrive.Asking{Actor: r.Actor, Single: true, Now: b.Now})
	switch {
	case no == nil:
		p.to, p.context = redrive.Grant(c.Control, seen, p.note, b.Now).To, &j.Context
		p.sentence = "may be sent once: " + string(j.Decision.Action)
	case no.Reason == dlqbridge.ExcludeNeedsSecondPerson && seen.Applied.Fix == "":
		// A fix ends what was approved before it, so this approval could never count.
		return p, refuse(c, b, r.Verb, dlqbridge.NoFix)
	case no.Reason == dlqbridge.ExcludeNeedsSecondPerson && r.Actor.Authenticated:
		// The approval is the move; the record stays where it waits.
		p.to.Authorized = nil
		p.sentence = "one approval noted; another authenticated person must authorise too"
	case no.Reason == dlqbridge.ExcludeNeedsSecondPerson:
		return p, refuse(c, b, r.Verb, "two authenticated people are needed, and the cloud does not say who you are")
	default:
		return p, refuse(c, b, r.Verb, fmt.Sprintf("%s: %s", no.Reason, no.Detail))
	}
	return p, nil
}

// reopen opens a closed record. What completed by hand may have had its
// effect, so a second person stands behind opening it.
func (m Mover) reopen(ctx context.Context, c dlqbridge.Case, b dlqbridge.Beside, r Request, p plan) (plan, error) {
	if c.Control.Status == dlqbridge.StatusCompletedManually {
		if !r.Actor.Authenticated {
			return p, refuse(c, b, r.Verb, "a manual completion is opened by two authenticated people, and the cloud does not say who you are")
		}
		p.note.Approval = true
		if !redrive.Approved(approvers(c), r.Actor) {
			p.sentence = "one approval noted; another authenticated person must reopen it too"
			return p, nil
		}
	}
	p.to.ClosedAt = time.Time{}
	return m.judged(ctx, c, p)
}

// approvers are the people who asked to reopen since the record was closed.
func approvers(c dlqbridge.Case) []string {
	var out []string
	for _, move := range c.History {
		if move.To.Closed() && !move.From.Closed() {
			out = nil
		}
		if move.Verb != dlqbridge.VerbReopen {
			continue
		}
		for _, n := range c.Notes {
			if n.Name == move.Note && n.Approval && n.Actor.Authenticated {
				out = append(out, n.Actor.Name)
			}
		}
	}
	return out
}

// settleSend ends a doubt about a send by a person's word.
func settleSend(c dlqbridge.Case, r Request, p plan) plan {
	claim := c.Control.Claim
	p.to.Move.Job, p.to.Move.N = claim.Job, claim.N
	if r.Sent {
		send := *c.Doubt()
		send.Outcome, send.Reason = dlqbridge.OutcomeSent, "settled by "+r.Actor.String()
		p.send = &send
		p.sentence = "sent; its outcome is observed"
		return p
	}
	// The note of the send is left as it is: its number is free again, and a
	// job that claims the record in the next moment writes its own.
	p.to = redrive.Unsend(c.Control, r.Verb, r.Actor.String(), r.Reason, p.note.Name, p.note.At).To
	p.sentence = "not sent; it may be sent again"
	return p
}
