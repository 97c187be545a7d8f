package enrich

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Apply returns the control item as this judgement leaves it. It sets all that
// follows from facts and decision, and nothing that is a move's own: Version,
// Move, Claim, Arrivals, Newest, Redrives, Recurrences and the times of letters
// are the caller's.
//
//   - A record with a claim stays redriving: only its outcome moves it. A
//     caller that ends a redrive clears Claim and Authorized first.
//   - An authorised record stays so while its ground stands (see Stands), unless
//     a letter was judged or a person's move: who authorised it did so on what was
//     known then, and for one payload.
//   - An incident stays open until a person closes it or corrects the cause.
//   - A late arrival is forgiven when a person has looked.
func (j Judgement) Apply(c dlqbridge.Control) dlqbridge.Control {
	stands := j.Stands(c) && !j.fresh && j.verb == ""
	before := c
	x := j.Context
	c.TaskType = dlqbridge.Short(x.Task.TaskType)
	c.Signed = j.signed(before)
	c.Signature, c.Cause = j.failedAs(before)
	c.Effect, c.Uncovered, c.RepeatSafe = x.Folded.State, x.Folded.Uncovered, x.RepeatSafe
	c.Action, c.Why, c.Context = j.Decision.Action, j.Decision.Why, x.Name
	c.Deadline, c.ValidUntil = x.Task.Deadline, x.Task.ValidUntil
	c.Conflict = j.Conflict
	c.Late = c.Late && !j.looked
	c.Fix = ""
	if j.Fix != nil {
		c.Fix = dlqbridge.CutText(j.Fix.String(), maxFix)
	}
	c.RecheckAt = j.RecheckAt
	c.Owner = j.owner(before)
	c.TriageBy = j.triageBy(before)
	c.NotBefore = j.notBefore(c)
	if c.Claim != nil {
		return c
	}
	c.Status = j.status(before.Status, stands)
	if c.Status != dlqbridge.StatusAuthorized {
		c.Authorized = nil
	}
	if c.Status.Closed() {
		c.ClosedAt, c.RecheckAt, c.Action = j.now, time.Time{}, dlqbridge.ActionNone
	}
	return c
}

// failedAs is how the record failed. That its work has completed says nothing
// about that, and the stores may have forgotten it since: it stays as it was,
// unless a letter or a person says otherwise now.
func (j Judgement) failedAs(before dlqbridge.Control) (signature string, cause dlqbridge.Cause) {
	f := j.Context.Failure
	if j.Context.CompletedBy != nil && before.Cause != "" && !byPerson(f.Rule) && (!j.fresh || f.Rule == ruleNone) {
		return before.Signature, before.Cause
	}
	return f.Signature, f.Cause
}

// signed notes with which versions a record first failed as it does now. A
// letter that failed in the same way changes nothing, nor does a store that can
// only now say more about the same failure.
func (j Judgement) signed(before dlqbridge.Control) dlqbridge.Signed {
	failed := j.Context.Task.Versions
	agent, workflow := dlqbridge.CutText(failed.Agent, dlqbridge.MaxSignedVersion), dlqbridge.CutText(failed.Workflow, dlqbridge.MaxSignedVersion)
	s := before.Signed
	if signature, _ := j.failedAs(before); j.fresh && before.Signature != signature {
		s = dlqbridge.Signed{Agent: agent, Workflow: workflow}
		if before.Signature != "" {
			s.Since = j.now
		}
	}
	s.Rule, s.Agent, s.Workflow = SignatureRule, cmp.Or(s.Agent, agent), cmp.Or(s.Workflow, workflow)
	return s
}

// maxFix is how much of a fix stands in the control item, in bytes.
const maxFix = 64

// Stands says whether an authorisation of this record would still stand on the
// ground it was given on: action, cause, fold, repeat-safety and fix as the
// control item has them, and no conflict. Somebody who authorised one thing has
// not authorised another.
func (j Judgement) Stands(c dlqbridge.Control) bool {
	fix := ""
	if j.Fix != nil {
		fix = dlqbridge.CutText(j.Fix.String(), maxFix)
	}
	x := j.Context
	return c.Action == j.Decision.Action && c.Cause == x.Failure.Cause &&
		c.Effect == x.Folded.State && c.Uncovered == x.Folded.Uncovered && c.RepeatSafe == x.RepeatSafe &&
		c.Fix == fix && !j.Conflict && x.RunningUntil.IsZero()
}

func (j Judgement) status(before dlqbridge.Status, stands bool) dlqbridge.Status {
	switch {
	case before == dlqbridge.StatusAuthorized && stands:
		return before
	case before == dlqbridge.StatusIncidentOpen && j.verb != dlqbridge.VerbClassify && j.verb != dlqbridge.VerbCloseIncident:
		return before
	case j.verb == dlqbridge.VerbCloseIncident || j.verb == dlqbridge.VerbReopen:
		return dlqbridge.StatusUnderInvestigation
	}
	return j.Decision.Status
}

// owner keeps whom a person assigned; a policy's owner follows the cause.
func (j Judgement) owner(before dlqbridge.Control) string {
	if before.Owner != "" && before.Cause == j.Context.Failure.Cause {
		return before.Owner
	}
	if j.Policy.Owner != "" && before.Owner == "" {
		return dlqbridge.Short(j.Policy.Owner)
	}
	return before.Owner
}

// triageBy starts anew with each failure. Otherwise it only ever comes nearer,
// and only with another cause, so that a person's snooze holds.
func (j Judgement) triageBy(before dlqbridge.Control) time.Time {
	due := j.now.Add(j.Policy.TriageWithin)
	switch {
	case j.fresh || before.TriageBy.IsZero():
		return due
	case before.Cause != j.Context.Failure.Cause && due.Before(before.TriageBy):
		return due
	}
	return before.TriageBy
}

// notBefore is when policy may authorise a retry at the earliest: the last
// failure plus a random share of the back-off. The share is drawn from record
// and number, so that judging again does not throw the dice again.
func (j Judgement) notBefore(c dlqbridge.Control) time.Time {
	if j.Decision.Action != dlqbridge.ActionRetry {
		return time.Time{}
	}
	from := c.LastSeen
	if from.IsZero() {
		from = j.now
	}
	n := c.Redrives + 1
	share := fraction(dlqbridge.Fingerprint("back-off", c.ID, time.Duration(n).String()))
	return from.Add(time.Duration(share * float64(j.Policy.BackoffCeiling(n)))).Truncate(time.Millisecond)
}

// fraction maps a fingerprint to [0, 1).
func fraction(fingerprint string) float64 {
	b, err := hex.DecodeString(fingerprint)
	if err != nil || len(b) < 8 {
		return 0
	}
	return float64(binary.BigEndian.Uint64(b)>>11) / (1 << 53)
}
