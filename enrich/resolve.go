package enrich

import (
	"context"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
)

// fullAttributes is how many attributes an SQS message can carry; one with as
// many goes back without our mark.
const fullAttributes = 10

// resolve finds letters that are returns of what we sent: by the mark, and by
// the provider's message id for those that could not carry one. Both cost a
// read, so only letters are looked up that can need it: those that have a mark,
// and those without task id that have no room for one. (A letter with a task id
// finds its record by that.)
func (r *reading) resolve(ctx context.Context, open []*parcel) {
	r.resolveMarks(ctx, open)
	var ids []string
	for _, p := range open {
		if !p.resolved && p.err == nil && unmarkable(p) {
			ids = append(ids, p.letter.MessageID)
		}
	}
	var found map[string]string
	if len(ids) > 0 {
		var err error
		if found, err = r.in.o.Messages.RecordsByMessage(ctx, ids); err != nil {
			for _, p := range open {
				if !p.resolved && unmarkable(p) {
					p.err = fmt.Errorf("look up the message id: %w", err)
				}
			}
		}
	}
	for _, p := range open {
		if p.err != nil || p.resolved {
			continue
		}
		p.resolved = true
		if id := found[p.letter.MessageID]; id != "" && unmarkable(p) {
			if c, err := r.in.o.Cases.Case(ctx, id); err == nil {
				if back := returnOf(p, c); back != nil && r.same(p, c.Control) {
					p.record, p.returned = id, back
				}
			} else if passing(err) {
				p.resolved, p.err = false, err
			}
		}
	}
}

func unmarkable(p *parcel) bool {
	return !p.bare && p.arrival.Mark == nil && p.arrival.Task.TaskID == "" && p.letter.Provider == dlqbridge.SQS &&
		len(p.letter.Payload.Attributes) >= fullAttributes
}

// resolveMarks believes a mark only if the record that it names has that job
// and number, in its claim or in a noted send, and is of the same work.
func (r *reading) resolveMarks(ctx context.Context, open []*parcel) {
	var ids []string
	for _, p := range open {
		if p.arrival.Mark != nil && !p.resolved {
			ids = append(ids, p.arrival.Mark.Record)
		}
	}
	if len(ids) == 0 {
		return
	}
	controls, err := r.in.o.Controls.Read(ctx, unique(ids))
	for _, p := range open {
		m := p.arrival.Mark
		if m == nil || p.resolved {
			continue
		}
		if err != nil {
			p.err = fmt.Errorf("look up the record of a mark: %w", err)
			continue
		}
		c, ok := controls[m.Record]
		if !ok || !r.same(p, c) {
			p.resolved = true
			continue
		}
		if c.Claim != nil && c.Claim.Job == m.Job && c.Claim.N == m.N {
			p.resolved, p.record, p.returned = true, m.Record, &returned{m.Job, m.N}
			continue
		}
		sends, err := r.in.o.Cases.Sends(ctx, map[string]int{m.Record: m.N})
		if err != nil {
			p.err = fmt.Errorf("look up the send of a mark: %w", err)
			continue
		}
		p.resolved = true
		if s, ok := sends[m.Record]; ok && s.Job == m.Job && s.N == m.N {
			p.record, p.returned = m.Record, &returned{m.Job, m.N}
		}
	}
}

// same says whether a letter can be of a record's work: same source, tenant and
// task. A mark or a message id may not move a letter to somebody else's record.
// A worker that dead-letters by itself may leave the tenant out; that names
// nobody else, and as a record of its own it would be sent beside this one.
func (r *reading) same(p *parcel, c dlqbridge.Control) bool {
	source := c.Source == p.unit.source || c.Route == r.route && r.enricher.resumed(p.letter.Source)
	tenant := dlqbridge.Short(p.arrival.Task.Tenant)
	return source && c.TaskID == dlqbridge.Short(p.arrival.Task.TaskID) && (tenant == "" || tenant == c.Tenant)
}

func unique(ids []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}
