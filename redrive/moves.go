package redrive

import (
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// step fills in what every move has: the next version and its history entry.
func step(from, to dlqbridge.Control, m dlqbridge.Move) dlqbridge.Step {
	to.Version = from.Version + 1
	m.Version, m.From, m.To = to.Version, from.Status, to.Status
	m.Why = dlqbridge.CutText(m.Why, maxWhy)
	to.Move = m
	return dlqbridge.Step{From: from, To: to}
}

// maxWhy keeps the control item under its kilobyte; whole texts are in notes.
const maxWhy = 120

// Grant is the move that authorises a record as judged. Context and note must
// be durable before it is written.
func Grant(c dlqbridge.Control, j Judgement, note dlqbridge.Note, now time.Time) dlqbridge.Step {
	to := j.Applied
	to.Status = dlqbridge.StatusAuthorized
	to.Authorized = &dlqbridge.Authorization{By: note.Actor.String(), At: now, Action: j.Decision.Action, Of: subject(j.Decision.Action, c, j)}
	to.RecheckAt = time.Time{}
	return step(c, to, dlqbridge.Move{
		At: now, By: note.Actor.String(), Verb: dlqbridge.VerbAuthorize, Why: note.Reason,
		Context: j.Context.Name, Note: note.Name,
	})
}

// claim is the move that gives an authorised record to a job. LastSend is set
// here, a moment before the send, so that no negative from before it can speak
// for the span that the send opens.
func claim(c dlqbridge.Control, job dlqbridge.Job, until, now time.Time) dlqbridge.Step {
	to := c
	to.Status = dlqbridge.StatusRedriving
	to.Redrives = c.Redrives + 1
	to.Claim = &dlqbridge.Claim{Job: job.ID, N: to.Redrives, Until: until, Before: c.LastSend}
	to.LastSend = now
	if undoing(to) {
		to.Compensations++
	}
	return step(c, to, dlqbridge.Move{At: now, By: job.By.String(), Verb: dlqbridge.VerbClaim, Job: job.ID, N: to.Redrives})
}

// reclaim is the move before a send in doubt is repeated under its number. The
// claim stays the first job's, because the mark names that job; a person who
// settles the send at the same moment conflicts with this move.
func reclaim(c dlqbridge.Control, job dlqbridge.Job, why string, until, now time.Time) dlqbridge.Step {
	to := c
	held := *c.Claim
	held.Until = until
	to.Claim = &held
	return step(c, to, dlqbridge.Move{At: now, By: job.By.String(), Verb: dlqbridge.VerbSettleSend, Why: "sent again: " + why, Job: job.ID, N: held.N})
}

// Unsend is the move that takes back a claim whose message was surely not sent:
// the record is authorised again and its redrive number is free again. Verb is
// release for the machine and settle-send for a person, whose note it names.
func Unsend(c dlqbridge.Control, verb dlqbridge.Verb, by, why, note string, now time.Time) dlqbridge.Step {
	to := c
	job, n := "", c.Redrives
	if c.Claim != nil {
		job, n = c.Claim.Job, c.Claim.N
		to.LastSend = c.Claim.Before
	}
	if undoing(c) {
		to.Compensations--
	}
	to.Claim = nil
	to.Redrives = n - 1
	to.Status = dlqbridge.StatusAuthorized
	return step(c, to, dlqbridge.Move{At: now, By: by, Verb: verb, Why: why, Note: note, Job: job, N: n})
}

// refuse is Unsend for a message that the destination will never take: trying
// it again by itself would refuse it for ever, so a person looks first.
func refuse(c dlqbridge.Control, by, why string, now time.Time) dlqbridge.Step {
	s := Unsend(c, dlqbridge.VerbRelease, by, why, "", now)
	s.To.Status, s.To.Move.To = dlqbridge.StatusAwaitingTechnicalOwner, dlqbridge.StatusAwaitingTechnicalOwner
	s.To.Authorized = nil
	return s
}

// Lapse is the move that takes an authorisation back when it is too old or its
// job was cancelled: the record waits where its cause puts it. What was known
// stays as it is.
func Lapse(c dlqbridge.Control, by, why string, now time.Time) dlqbridge.Step {
	to := c
	to.Authorized = nil
	to.Status = dlqbridge.DefaultCausePolicy(c.Cause).Arrival
	if c.Fix != "" && to.Status != dlqbridge.StatusIncidentOpen {
		to.Status = dlqbridge.StatusFixValidated
	}
	return step(c, to, dlqbridge.Move{At: now, By: by, Verb: dlqbridge.VerbLapse, Why: why})
}

// lapseJudged is Lapse where the ground has changed: the new judgement becomes
// the record's. Its context must be durable before.
func lapseJudged(c dlqbridge.Control, j Judgement, by, why string, now time.Time) dlqbridge.Step {
	to := j.Applied
	to.Authorized = nil
	if to.Status == dlqbridge.StatusAuthorized {
		to.Status = j.Decision.Status
	}
	return step(c, to, dlqbridge.Move{At: now, By: by, Verb: dlqbridge.VerbLapse, Why: why, Context: j.Context.Name})
}

// complete is the move that closes a record on somebody's word, or "by absence":
// as completed, or as compensated where that is what was sent. The judgement's
// context must be durable before.
func complete(c dlqbridge.Control, j Judgement, verb dlqbridge.Verb, by, why string, now time.Time) dlqbridge.Step {
	to := c
	to.Context = j.Context.Name
	to.Effect, to.Uncovered = j.Context.Folded.State, j.Context.Folded.Uncovered
	to.Status, to.Action, to.Why = dlqbridge.StatusCompleted, dlqbridge.ActionNone, dlqbridge.WhyCompleted
	if undoing(c) {
		to.Status, to.Why = dlqbridge.StatusCompensated, dlqbridge.WhyCompensated
	}
	to.ClosedAt, to.RecheckAt = now, time.Time{}
	m := dlqbridge.Move{At: now, By: by, Verb: verb, Why: why, Context: j.Context.Name}
	if c.Claim != nil {
		m.Job, m.N = c.Claim.Job, c.Claim.N
	}
	to.Claim, to.Authorized = nil, nil
	return step(c, to, m)
}

// unconfirmed is the move that ends an observation in which nothing was seen: a
// person looks. The judgement must be of the record without its claim.
func unconfirmed(c dlqbridge.Control, j Judgement, by, why string, now time.Time) dlqbridge.Step {
	to := j.Applied
	to.Status = dlqbridge.StatusAwaitingOperationalDecision
	to.Claim, to.Authorized, to.ClosedAt = nil, nil, time.Time{}
	m := dlqbridge.Move{At: now, By: by, Verb: dlqbridge.VerbUnconfirmed, Why: why, Context: j.Context.Name}
	if c.Claim != nil {
		m.Job, m.N = c.Claim.Job, c.Claim.N
	}
	return step(c, to, m)
}

// freed is a redriving record without its claim and authorisation, which is how
// it is judged when its redrive ends without an outcome.
func freed(c dlqbridge.Control) dlqbridge.Control {
	c.Claim, c.Authorized = nil, nil
	return c
}
