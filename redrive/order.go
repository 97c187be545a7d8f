package redrive

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// Where groups keep their order, nothing of a group goes before an earlier one
// that is open and does not go: it would overtake it. That holds for records
// that this run leaves out for whatever reason, and for those that it was not
// asked for, such as another cause's. A person may say that such records are
// skipped; then the others go, and what was skipped may have been overtaken.
//
// Here the order is kept among what is planned; lineup.go keeps it among what
// is sent. Nothing is written, so a crash changes nothing.

// inLine is one record of a destination that keeps order, in the order of its
// group.
type inLine struct {
	id string
	// newest names the payload that would be sent, which says the group.
	newest string
	// out says why it does not go; empty goes, if nothing stands before it.
	out string
	// from is the dead-letter place of the arrival that it began with, at where
	// in the group that stands.
	from, at string
}

// line walks along the records of one destination.
type line struct {
	c *Controller
	// skip: what does not go holds up nobody.
	skip bool
	// destination is where they go, if those that are overtaken do not.
	destination string
	// culprits are the first of each group that does not go.
	culprits map[string]inLine
}

func (c *Controller) line(skip bool) *line {
	return &line{c: c, skip: skip, culprits: map[string]inLine{}}
}

// holds says of each of the next records why it must wait; nil where it may go,
// or does not go anyway.
func (l *line) holds(ctx context.Context, next []inLine) ([]*dlqbridge.Exclusion, error) {
	out := make([]*dlqbridge.Exclusion, len(next))
	if l.skip && l.destination == "" {
		return out, nil
	}
	groups, err := l.c.groupsOf(ctx, next)
	if err != nil {
		return nil, err
	}
	done, err := l.done(ctx, next, groups)
	if err != nil {
		return nil, err
	}
	for i, at := range next {
		group := groups[at.id]
		if group == "" {
			continue
		}
		if at.out == "" {
			if out[i] = overtaken(at.id, at.at, done[l.key(at, group)]); out[i] != nil {
				continue
			}
		}
		culprit, blocked := l.culprits[group]
		switch {
		case l.skip:
		case at.out != "" && !blocked:
			l.culprits[group] = at
		case at.out == "" && blocked:
			out[i] = &dlqbridge.Exclusion{ID: at.id, Reason: dlqbridge.ExcludeOrderBlocked, Detail: fmt.Sprintf("waits for %s of its group: %s", culprit.id, culprit.out)}
		}
	}
	return out, nil
}

func (l *line) key(at inLine, group string) dlqbridge.GroupKey {
	return dlqbridge.GroupKey{Destination: l.destination, Place: at.from, Group: group}
}

// done reads how far the groups of those that may go have come.
func (l *line) done(ctx context.Context, next []inLine, groups map[string]string) (map[dlqbridge.GroupKey]dlqbridge.GroupDone, error) {
	if l.destination == "" {
		return nil, nil
	}
	var keys []dlqbridge.GroupKey
	for _, at := range next {
		if at.out == "" && groups[at.id] != "" {
			keys = append(keys, l.key(at, groups[at.id]))
		}
	}
	return l.c.newest(ctx, keys)
}

// lined is the arrival by which a message stands in line; none for a
// compensation, which is in nobody's group but its own.
func lined(a dlqbridge.Action, newest string) string {
	if a == dlqbridge.ActionCompensate {
		return ""
	}
	return newest
}

// groupsOf finds the groups of records from their payloads. A record whose
// payload is gone has none.
func (c *Controller) groupsOf(ctx context.Context, list []inLine) (map[string]string, error) {
	var asks []Ask
	for _, at := range list {
		if at.newest != "" {
			asks = append(asks, Ask{Control: dlqbridge.Control{ID: at.id, Newest: at.newest}})
		}
	}
	payloads, err := c.payloads(ctx, asks)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(payloads))
	for id, p := range payloads {
		out[id] = p.GroupKey
	}
	return out, nil
}

// holdsUp says whether a record that is left out for this reason holds up its
// group: not if it is sent already, or never will be.
func holdsUp(r dlqbridge.ExcludeReason) bool {
	return r != dlqbridge.ExcludeClosed && r != dlqbridge.ExcludeClaimed
}

// keepOrder takes those out of a survey's candidates for a destination that
// would overtake somebody, and yields the others.
func (c *Controller) keepOrder(ctx context.Context, r Request, s *survey, t *target) iter.Seq2[PlannedMember, error] {
	return func(yield func(PlannedMember, error) bool) {
		if t.going == 0 {
			return
		}
		if !r.SkipUndeliverable {
			if err := c.others(ctx, s, t); err != nil {
				yield(PlannedMember{}, err)
				return
			}
		}
		l := c.line(r.SkipUndeliverable)
		if !r.SendOvertaken {
			l.destination = t.urn
		}
		for chunk, err := range chunks(t.candidates.all(), readChunk) {
			if err != nil {
				yield(PlannedMember{}, err)
				return
			}
			next := make([]inLine, len(chunk))
			for i, one := range chunk {
				next[i] = inLine{one.Planned.ID, one.Newest, one.Out, one.Place, one.In}
			}
			waits, err := l.holds(ctx, next)
			if err != nil {
				yield(PlannedMember{}, err)
				return
			}
			for i, one := range chunk {
				switch {
				case waits[i] != nil:
					t.excluded.Add(*waits[i])
				case one.Out == "" && !yield(one.Planned, nil):
					return
				}
			}
		}
	}
}

// others puts the open records that a survey was not asked for into the line of
// a destination: they do not go, and stand before others of their group.
func (c *Controller) others(ctx context.Context, s *survey, t *target) error {
	filter := dlqbridge.Filter{Routes: slices.Sorted(maps.Keys(t.routes)), Now: s.now}
	for chunk, err := range chunks(c.candidates(ctx, nil, filter), readChunk) {
		if err != nil {
			return err
		}
		ids := slices.DeleteFunc(chunk, func(id string) bool { return s.seen.has(id) && !s.aside.has(id) })
		if len(ids) == 0 {
			continue
		}
		controls, err := c.read(ctx, ids)
		if err != nil {
			return err
		}
		maps.DeleteFunc(controls, func(_ string, ctl dlqbridge.Control) bool {
			return ctl.Status.Closed() || c.leads(ctl, dlqbridge.ActionRetry) != t.urn && (s.aside.has(ctl.ID) || c.SendsTo(ctl) != t.urn)
		})
		notes, err := c.claimNotes(ctx, controls)
		if err != nil {
			return err
		}
		maps.DeleteFunc(controls, func(id string, ctl dlqbridge.Control) bool { // what is sent holds up nobody
			return ctl.Claim != nil && notes[id].Outcome != dlqbridge.OutcomeInDoubt
		})
		cases, err := c.counted(ctx, slices.Collect(maps.Values(controls)))
		if err != nil {
			return err
		}
		for id, ctl := range controls {
			s.seen.add(id)
			one := candidate{Planned: PlannedMember{ID: id}, FirstSeen: ctl.FirstSeen, Newest: ctl.PayloadName()}
			if c.leads(ctl, dlqbridge.ActionRetry) != t.urn {
				one.Newest = lined(actionOf(ctl), ctl.PayloadName())
			}
			one.Out = fmt.Sprintf("cause %s, %s, not selected", ctl.Cause, ctl.Status)
			if s.aside.has(id) {
				one.Out = "it goes to another place and was not sent yet"
			}
			if ctl.Claim != nil {
				one.Out = "its send is in doubt"
			}
			if first := cases[id].First(); first != nil {
				one.at(*first)
			}
			t.candidates.add(one)
		}
	}
	return ctx.Err()
}

// behind takes those out of a selection that would overtake a planned member
// that has been left out meanwhile. All has the members in their order.
func (c *Controller) behind(ctx context.Context, all iter.Seq2[PlannedMember, error], gone map[string]dlqbridge.Exclusion) ([]dlqbridge.Exclusion, error) {
	var out []dlqbridge.Exclusion
	if !slices.ContainsFunc(slices.Collect(maps.Values(gone)), func(x dlqbridge.Exclusion) bool { return holdsUp(x.Reason) }) {
		return nil, nil
	}
	l := c.line(false)
	for chunk, err := range chunks(all, readChunk) {
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(chunk))
		for i, m := range chunk {
			ids[i] = m.ID
		}
		controls, err := c.read(ctx, ids)
		if err != nil {
			return nil, err
		}
		next := make([]inLine, len(chunk))
		for i, id := range ids {
			next[i] = inLine{id: id, newest: lined(chunk[i].Action, controls[id].PayloadName())}
			if x, ok := gone[id]; ok && holdsUp(x.Reason) {
				next[i].out = string(x.Reason)
			}
		}
		waits, err := l.holds(ctx, next)
		if err != nil {
			return nil, err
		}
		for i, id := range ids {
			if _, ok := gone[id]; !ok && waits[i] != nil {
				out = append(out, *waits[i])
			}
		}
	}
	return out, nil
}
