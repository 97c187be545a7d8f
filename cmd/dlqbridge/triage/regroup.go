package triage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// Regrouping is what regrouping one record did, or would do.
type Regrouping struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
	// Left says why the record stays where it is, Why in words; empty if it moved.
	Left LeftReason `json:"reason,omitempty"`
	Why  string     `json:"detail,omitempty"`
}

// LeftReason is why a record is left in its group.
type LeftReason string

// The reasons.
const (
	LeftHeld     LeftReason = "held"
	LeftClaimed  LeftReason = "claimed"
	LeftUnknown  LeftReason = "context_missing"
	LeftChanged  LeftReason = "changed"
	LeftNotFound LeftReason = "gone"
)

// Moves says whether the record belongs into another group.
func (r Regrouping) Moves() bool { return r.From != r.To }

// Regroup gives a record the signature that today's rules make of its failure,
// in one conditional write; with dry it writes nothing. A record that a hold
// stops by its old signature keeps it: a stop sign must not vanish because a
// rule has changed. One that is being sent keeps it until that is over.
func (m Mover) Regroup(ctx context.Context, id string, actor dlqbridge.Actor, holds []dlqbridge.Hold, dry bool) (Regrouping, error) {
	out := Regrouping{ID: id}
	c, err := m.Store.Case(ctx, id)
	if wire.Absent(err) {
		out.Left, out.Why = LeftNotFound, "it expired meanwhile"
		return out, nil
	}
	if err != nil {
		return out, err
	}
	now := m.Now().UTC().Truncate(time.Millisecond)
	from := c.Control
	to, known := enrich.Regrouped(c)
	out.From, out.To = from.Signature, to.Signature
	switch {
	case !known:
		out.Left, out.Why = LeftUnknown, "what it was decided on is not stored any more; triage investigate finds it out anew"
		return out, nil
	case !out.Moves():
		return out, nil
	case !dlqbridge.VerbRegroup.Allows(from.Status, from.Status):
		out.Left, out.Why = LeftClaimed, "it is "+string(from.Status)
		return out, nil
	}
	stop := slices.IndexFunc(holds, func(h dlqbridge.Hold) bool {
		return h.Signature != "" && h.Signature == from.Signature && (h.Until.IsZero() || now.Before(h.Until))
	})
	if stop >= 0 {
		out.Left, out.Why = LeftHeld, fmt.Sprintf("%s stops its signature; add a hold for %s, remove that one and regroup again", holds[stop].ID, to.Signature)
		return out, nil
	}
	if dry {
		return out, nil
	}
	to.Version = from.Version + 1
	to.Move = dlqbridge.Move{
		Version: to.Version, At: now, By: actor.String(), Verb: dlqbridge.VerbRegroup, From: from.Status, To: from.Status,
		Why: fmt.Sprintf("signature rules %d instead of %d; it was %s", enrich.SignatureRule, from.Signed.Rule, from.Signature),
	}
	err = m.Store.Move(ctx, []dlqbridge.Step{{From: from, To: to}})[0]
	switch {
	case errors.Is(err, dlqbridge.ErrConflict):
		out.Left, out.Why = LeftChanged, "somebody moved it meanwhile; regroup again"
	case err != nil:
		return out, fmt.Errorf("regroup %s: %w", id, err)
	}
	return out, nil
}
