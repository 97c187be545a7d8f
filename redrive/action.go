package redrive

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dlqbridge/dlqbridge"
)

// What an action sends is a matter of its message, which the gate makes, and of
// its place. A retry and a repair go back to the source; a resume too, unless
// its route names another place for it; a compensation never does.

// aside is the place besides the source that an action's messages go to; empty
// yet differs from none.
func (r Route) aside(a dlqbridge.Action) string {
	switch a { //nolint:exhaustive // the others go back to the source
	case dlqbridge.ActionResume:
		return r.ResumeTo
	case dlqbridge.ActionCompensate:
		return r.CompensateTo
	}
	return ""
}

// leads is the URN of where an action of a record sends; empty if neither
// letter nor route says.
func (r Route) leads(c dlqbridge.Control, a dlqbridge.Action) string {
	return cmp.Or(r.aside(a), r.Target, c.Source, r.Source)
}

// besides says whether a place is one that some action's messages go to instead
// of back.
func (r Route) besides(urn string) bool {
	return urn != "" && (urn == r.ResumeTo || urn == r.CompensateTo)
}

// reader is the subscription that a message of this job is for: the failed
// consumer's, or the only one of a place that others read. Of several nobody
// knows, and then it is empty.
func (r *runner) reader(c dlqbridge.Control) string {
	if route, _ := r.o.Route(c.Route); !route.besides(r.job.Destination) {
		return c.Source
	}
	if len(r.facts.Receivers) == 1 {
		return r.facts.Receivers[0]
	}
	return ""
}

// differ says whether two actions send different messages. Where none was
// planned any will do.
func differ(planned, now dlqbridge.Action) bool {
	return planned != "" && messageOf(planned) != messageOf(now)
}

// messageOf is the action whose message an action sends.
func messageOf(a dlqbridge.Action) dlqbridge.Action {
	if a == dlqbridge.ActionRepair {
		return dlqbridge.ActionRetry
	}
	return a
}

// leads is Route.leads by the record's own route.
func (c *Controller) leads(ctl dlqbridge.Control, a dlqbridge.Action) string {
	route, _ := c.o.Route(ctl.Route)
	return route.leads(ctl, a)
}

// SendsTo is the URN of where a record's work is sent by the action that it is
// authorised for, or that was decided.
func (c *Controller) SendsTo(ctl dlqbridge.Control) string { return c.leads(ctl, actionOf(ctl)) }

// actionOf is the action that a record was authorised for, or else the one that
// was decided.
func actionOf(c dlqbridge.Control) dlqbridge.Action {
	if c.Authorized != nil {
		return c.Authorized.Action
	}
	return c.Action
}

// coming is the action by which a judged record would be sent now.
func coming(c dlqbridge.Control, j Judgement) dlqbridge.Action {
	c.Action = j.Decision.Action
	return actionOf(c)
}

// subject is what exactly an authorisation of this action is given on, beyond
// what the control item shows: the checkpoint that a resume goes on from, the
// effects that a compensation undoes. Somebody who authorised one has not
// authorised another.
func subject(a dlqbridge.Action, c dlqbridge.Control, j Judgement) string {
	switch a { //nolint:exhaustive // the others stand on what the control item shows
	case dlqbridge.ActionResume:
		return dlqbridge.Fingerprint("resume", checkpoint(j))
	case dlqbridge.ActionCompensate:
		return undoneKey(undone(c, j))
	}
	return ""
}

// checkpoint is the reference that a resume goes on from; empty is none.
func checkpoint(j Judgement) string {
	if j.Context.Checkpoint == nil {
		return ""
	}
	return j.Context.Checkpoint.Ref
}

// stands says whether an authorisation is still that of what would be sent.
func stands(c dlqbridge.Control, j Judgement) bool {
	return j.Stands && j.Decision.Action == c.Authorized.Action && c.Authorized.Of == subject(c.Authorized.Action, c, j)
}

// wants says whether a request selects what is sent by an action.
func (r Request) wants(a dlqbridge.Action) bool {
	return len(r.Actions) == 0 || slices.Contains(r.Actions, a)
}

// knownActions refuses to narrow a selection to what no job sends.
func knownActions(actions []dlqbridge.Action) error {
	for _, a := range actions {
		if !a.Sends() {
			return fmt.Errorf("action %q: %w: no job sends it", a, dlqbridge.ErrInvalid)
		}
	}
	return nil
}

// wouldSend is the action by which a judged record would be sent; a send in
// doubt is repeated as what it was.
func wouldSend(c dlqbridge.Control, j Judgement, notes map[string]dlqbridge.Send) dlqbridge.Action {
	if note, ok := notes[c.ID]; ok && c.Claim != nil && note.Action != "" {
		return note.Action
	}
	return coming(c, j)
}
