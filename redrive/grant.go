package redrive

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// noteFor is the note of a run's authorisation of one record. Its name follows
// from its content, so that a run that is started again writes the same.
func noteFor(c dlqbridge.Control, r Request, now time.Time) dlqbridge.Note {
	fix := ""
	if r.Fix != nil {
		fix = r.Fix.String()
	}
	parts := []string{"authorize", c.ID, strconv.Itoa(c.Version), r.Actor.String(), r.Actor.Note, r.Reason, fix, dlqbridge.FormatTime(now)}
	if r.second != nil {
		parts = append(parts, r.second.Plan, r.second.By.String(), dlqbridge.FormatTime(r.second.At))
	}
	return dlqbridge.Note{
		Name: dlqbridge.Fingerprint(parts...),
		At:   now, Actor: r.Actor, Verb: dlqbridge.VerbAuthorize,
		Reason: dlqbridge.CutText(r.Reason, dlqbridge.MaxReason), Fix: r.Fix, Approval: !r.Policy, Second: r.second,
	}
}

// grant authorises, in the caller's name and with the caller's fix, those
// planned members that nobody has authorised yet, and freezes the selection.
//
// Crash before a grant: the record is as it was; note and context are named by
// nobody. After it and before the job is made: the record is authorised and
// the next run picks it up as such.
func (c *Controller) grant(ctx context.Context, r Request, planned List[PlannedMember]) (members List[dlqbridge.Member], left List[dlqbridge.Exclusion], err error) {
	grant := func(ctx context.Context, chunk []PlannedMember) (grants, error) { return c.grantChunk(ctx, r, chunk) }
	for g, err := range ahead(ctx, chunks(planned.All(), grantChunk), chunksAtOnce, grant) {
		if err != nil {
			return members, left, err
		}
		for _, x := range g.left {
			left.Add(x)
		}
		for _, m := range g.members { // in the plan's order
			members.Add(m)
		}
	}
	return members, left, ctx.Err()
}

// grants is a chunk of the selection: the members at the version that they
// have now, and who is left out.
type grants struct {
	members []dlqbridge.Member
	left    []dlqbridge.Exclusion
}

// grantChunk authorises a chunk.
func (c *Controller) grantChunk(ctx context.Context, r Request, chunk []PlannedMember) (grants, error) {
	versions := map[string]int{}
	var ids []string
	for _, m := range chunk {
		if m.Authorized {
			versions[m.ID] = m.Version
		} else {
			ids = append(ids, m.ID)
		}
	}
	var left []dlqbridge.Exclusion
	if len(ids) > 0 {
		var err error
		if left, err = c.authorize(ctx, r, chunk, ids, versions); err != nil {
			return grants{}, err
		}
	}
	g := grants{left: left}
	for _, m := range chunk {
		if v, ok := versions[m.ID]; ok {
			g.members = append(g.members, dlqbridge.Member{ID: m.ID, Version: v})
		}
	}
	return g, nil
}

// authorize authorises those of a chunk that nobody has, notes the versions
// they have then, and says who is left out.
func (c *Controller) authorize(ctx context.Context, r Request, chunk []PlannedMember, ids []string, versions map[string]int) ([]dlqbridge.Exclusion, error) {
	controls, err := c.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	var left []dlqbridge.Exclusion
	var asks []Ask
	actions := map[string]dlqbridge.Action{}
	now := c.clock()
	for _, m := range chunk {
		actions[m.ID] = m.Action
		ctl, ok := controls[m.ID]
		switch {
		case m.Authorized:
		case !ok || ctl.Version != m.Version:
			left = append(left, dlqbridge.Exclusion{ID: m.ID, Reason: dlqbridge.ExcludeChanged, Detail: "it was moved after it was planned"})
		default:
			n := noteFor(ctl, r, now)
			asks = append(asks, Ask{Control: ctl, Note: &n})
		}
	}
	var evidence []dlqbridge.Evidence
	var steps []dlqbridge.Step
	for i, j := range c.judge(ctx, asks) {
		ctl, note := asks[i].Control, *asks[i].Note
		if j.Err != nil {
			return nil, fmt.Errorf("judge %s: %w", ctl.ID, j.Err)
		}
		if to := c.leads(ctl, j.Decision.Action); r.destination != "" && to != r.destination || differ(actions[ctl.ID], j.Decision.Action) || !r.wants(j.Decision.Action) {
			left = append(left, dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeChanged, Detail: fmt.Sprintf("it is decided %s now", j.Decision.Action)})
			continue
		}
		if x := MayAuthorize(ctl, j, Asking{Actor: r.Actor, Policy: r.Policy, Now: now}); x != nil {
			left = append(left, *x)
			continue
		}
		if x := c.mustWait(ctl.ID, r.Policy, now); x != nil {
			left = append(left, *x)
			continue
		}
		evidence = append(evidence, dlqbridge.Evidence{Record: ctl.ID, Item: j.Context}, dlqbridge.Evidence{Record: ctl.ID, Item: note})
		steps = append(steps, Grant(ctl, j, note, now))
	}
	// Evidence first, then the move that names it.
	for i, err := range c.put(ctx, evidence) {
		if err != nil {
			return nil, fmt.Errorf("keep why %s is authorised: %w", evidence[i].Record, err)
		}
	}
	for i, err := range c.move(ctx, steps) {
		switch id := steps[i].From.ID; {
		case err == nil:
			versions[id] = steps[i].To.Version
		case errors.Is(err, dlqbridge.ErrConflict):
			left = append(left, dlqbridge.Exclusion{ID: id, Reason: dlqbridge.ExcludeClaimed, Detail: "somebody else moved it first"})
		default:
			return nil, fmt.Errorf("authorise %s: %w", id, err)
		}
	}
	return left, nil
}
