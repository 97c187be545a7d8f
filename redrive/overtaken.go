package redrive

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Where groups keep their order, a newer member of a group may have completed
// while an older one was held, refused or skipped: the older one is overtaken.
// Sending it now would bring back what the newer one has replaced, so it is left
// out unless a person asks for it.
//
// What is known is what this program saw complete itself: the newest member of
// each group is kept when its outcome is written. A message that never died is
// not known to it, because no store is asked by group.
//
// Crash before it is kept: the outcome is not written either, and both are done
// again. After it and before the outcome: it is true already, since the evidence
// of the completion was seen.

// place says where in its group a record stands, as a text that grows: by
// sequence number, else by time. Numbers of two places say nothing about each
// other, so the place is part of the group's key.
func place(a dlqbridge.Arrival) string {
	sequence := a.System["SequenceNumber"]
	return fmt.Sprintf("%04d%s#%s", len(sequence), sequence, dlqbridge.FormatTime(a.SentAt))
}

// first is the arrival that a judged record began with.
func (j Judgement) first() dlqbridge.Arrival {
	if j.First.Key != "" {
		return j.First
	}
	return j.Arrival
}

// newest reads the newest members of groups that are known to have completed.
func (c *Controller) newest(ctx context.Context, keys []dlqbridge.GroupKey) (map[dlqbridge.GroupKey]dlqbridge.GroupDone, error) {
	if c.o.Groups == nil || len(keys) == 0 {
		return nil, nil
	}
	var out map[dlqbridge.GroupKey]dlqbridge.GroupDone
	err := c.again(ctx, func() (err error) {
		out, err = c.o.Groups.GroupsDone(ctx, keys)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what completed of %d groups: %w", len(keys), err)
	}
	return out, nil
}

// overtaken says that a newer one of the record's group completed; nil if not.
func overtaken(id, order string, done dlqbridge.GroupDone) *dlqbridge.Exclusion {
	if done.Record == "" || done.Record == id || done.Order <= order {
		return nil
	}
	return &dlqbridge.Exclusion{
		ID: id, Reason: dlqbridge.ExcludeOvertaken,
		Detail: fmt.Sprintf("%s, a newer one of its group, completed at %s", done.Record, dlqbridge.FormatTime(done.At)),
	}
}

// passed keeps that a record's group has come as far as this record, where the
// destination keeps order.
func (c *Controller) passed(ctx context.Context, ctl dlqbridge.Control, j Judgement, destination string, at time.Time) error {
	if c.o.Groups == nil {
		return nil
	}
	payloads, err := c.payloads(ctx, []Ask{{Control: ctl}})
	if err != nil {
		return err
	}
	first := j.first()
	group := payloads[ctl.ID].GroupKey
	if group == "" {
		return nil
	}
	done := dlqbridge.GroupDone{
		GroupKey: dlqbridge.GroupKey{Destination: destination, Place: first.Place, Group: group}, Record: ctl.ID, Order: place(first), At: at,
	}
	if err := c.again(ctx, func() error { return c.o.Groups.NoteDone(ctx, done) }); err != nil {
		return fmt.Errorf("keep how far the group of %s is: %w", ctl.ID, err)
	}
	return nil
}

// overtaken says which of the records at the gate are overtaken by now.
func (r *runner) overtaken(ctx context.Context, judgements []Judgement, asks []Ask, payloads map[string]dlqbridge.Payload) (map[string]*dlqbridge.Exclusion, error) {
	if !r.facts.Ordered || r.job.SendOvertaken {
		return nil, nil
	}
	keys := map[string]dlqbridge.GroupKey{}
	for i, j := range judgements {
		id := asks[i].Control.ID
		if group := payloads[id].GroupKey; group != "" && j.Err == nil {
			keys[id] = dlqbridge.GroupKey{Destination: r.job.Destination, Place: j.first().Place, Group: group}
		}
	}
	done, err := r.newest(ctx, slices.Collect(maps.Values(keys)))
	if err != nil {
		return nil, err
	}
	out := map[string]*dlqbridge.Exclusion{}
	for i, j := range judgements {
		id := asks[i].Control.ID
		if key, ok := keys[id]; ok {
			out[id] = overtaken(id, place(j.first()), done[key])
		}
	}
	return out, nil
}
