package enrich

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Around is what an explanation needs and no record says; zero is not known.
type Around struct {
	Now time.Time
	// Window is how long an outcome of this record is waited for. Absence: what
	// was not seen until then counts as completed.
	Window  time.Duration
	Absence bool
	// Compensates: the route names where compensations go.
	Compensates bool
	// AuthorizeTTL is how old an authorisation may become.
	AuthorizeTTL time.Duration
	// Newer is the record that a later letter of the same task opened.
	Newer string
	// Destination is where the record would be sent, Holds all that there are.
	Destination string
	Holds       []dlqbridge.Hold
	Mutes       []dlqbridge.Mute
}

func (a Around) beside() dlqbridge.Beside {
	return dlqbridge.Beside{Now: a.Now, Compensates: a.Compensates, Newer: a.Newer}
}

// standing says where the record is on its way: sent and not settled, sent once
// before, or closed and how.
func standing(c dlqbridge.Case, a Around) []string {
	k := c.Control
	switch {
	case k.Status.Closed():
		return closedLines(c)
	case k.Claim != nil:
		return sentLines(c, a)
	}
	return slices.Concat(lastLines(c), approvalLines(c, a), muteLines(k, a))
}

// muteLines say until when the record is quiet.
func muteLines(k dlqbridge.Control, a Around) []string {
	m, ok := dlqbridge.Muted(a.Mutes, k, a.Now)
	if !ok {
		return nil
	}
	return []string{fmt.Sprintf("Its group is muted until %s by %s (%s), so it is not overdue until then: %s.", dlqbridge.FormatTime(m.Until), m.By, m.ID, m.Reason)}
}

func closedLines(c dlqbridge.Case) []string {
	for _, m := range slices.Backward(c.History) {
		if !m.To.Closed() || m.From.Closed() {
			continue
		}
		line := fmt.Sprintf("Closed as %s by %s (%s) at %s", c.Control.Status, m.Verb, m.By, dlqbridge.FormatTime(m.At))
		why := m.Why
		i := slices.IndexFunc(c.Notes, func(n dlqbridge.Note) bool { return m.Note != "" && n.Name == m.Note })
		if i >= 0 && c.Notes[i].Reason != "" {
			why = c.Notes[i].Reason
		}
		if why != "" {
			line += ": " + why
		}
		out := []string{line + "."}
		if i >= 0 && c.Notes[i].Evidence != "" {
			out = append(out, "Evidence: "+c.Notes[i].Evidence+".")
		}
		return out
	}
	return []string{fmt.Sprintf("Closed as %s.", c.Control.Status)}
}

func sentLines(c dlqbridge.Case, a Around) []string {
	claim, s := c.Control.Claim, c.Claimed()
	switch {
	case s == nil:
		return []string{
			fmt.Sprintf("Job %s claimed it for redrive %d at %s, and nothing is noted of a send yet.", claim.Job, claim.N, dlqbridge.FormatTime(c.Control.LastSend)),
			"The job is sending it, or its process died; the next job to this destination finds out which (redrive continue, or redrive run).",
		}
	case s.Outcome == dlqbridge.OutcomeInDoubt:
		line := fmt.Sprintf("Redrive %d by job %s at %s is in doubt: nobody knows whether the message went out", s.N, s.Job, dlqbridge.FormatTime(s.At))
		if s.Reason != "" {
			line += " (" + s.Reason + ")"
		}
		return []string{
			line + ".", "Nothing sends it again on a guess: a run that carries this number settles it, or a person who looked (triage settle-send).",
		}
	}
	line := fmt.Sprintf("Sent as redrive %d by job %s at %s", s.N, s.Job, dlqbridge.FormatTime(s.At))
	_, settled := fateOf(c, *s)
	undoes := s.Action == dlqbridge.ActionCompensate
	if undoes {
		line = "Its compensation was s" + line[1:]
	}
	if s.MessageID != "" {
		line += ", message " + s.MessageID
	}
	wait := "It waits for its outcome: a store that shows the task as completed, or the task coming back to the dead-letter queue"
	if undoes {
		wait = "It waits for its outcome: a completion message for it, or the compensation coming back to a dead-letter queue that is read"
	}
	end, then := s.At.Add(a.Window), "a person looks (unconfirmed)"
	if a.Absence {
		then = "it counts as completed, as this route declares"
	}
	switch {
	case a.Window <= 0:
		wait += ". How long is not known here; after that " + then
	case !a.Now.IsZero() && !a.Now.Before(end):
		wait += fmt.Sprintf(". The observation ended at %s: the next look (serve, or redrive observe) settles it; if nothing was seen, %s", dlqbridge.FormatTime(end), then)
	default:
		wait += fmt.Sprintf(". The observation ends at %s; if nothing was seen by then, %s", dlqbridge.FormatTime(end), then)
	}
	if by := settledBy(c, settled); by != nil {
		line += ". Nobody knew whether it went out; " + by.String()
	}
	return []string{line + ".", wait + "."}
}

// lastLines say how the last redrive ended, where that matters for the next.
func lastLines(c dlqbridge.Case) []string {
	for _, m := range slices.Backward(c.History) {
		var ended string
		//exhaustive:ignore
		switch m.Verb {
		case dlqbridge.VerbUnconfirmed:
			ended = "nobody saw an outcome of it. The task may have run and changed something: look before it is sent once more"
		case dlqbridge.VerbRecur, dlqbridge.VerbReceive:
			ended = "the task died again"
		case dlqbridge.VerbSettleSend:
			if by := settledBy(c, &m); m.To == dlqbridge.StatusAuthorized {
				return []string{fmt.Sprintf("Nobody knew whether redrive %d by job %s went out; %s. Its number is free again.", m.N, m.Job, by)}
			}
		}
		if m.N == 0 || ended == "" {
			continue
		}
		line := fmt.Sprintf("It was already sent once, as redrive %d by job %s", m.N, m.Job)
		if i := slices.IndexFunc(c.Sends, func(s dlqbridge.Send) bool { return s.N == m.N }); i >= 0 {
			line += " at " + dlqbridge.FormatTime(c.Sends[i].At)
			if c.Sends[i].Action == dlqbridge.ActionCompensate {
				line = strings.Replace(line, "It was", "A compensation was", 1)
				ended = "it died (" + m.Why + ")"
				if m.Verb == dlqbridge.VerbUnconfirmed {
					ended = "nobody saw an outcome of it. The effect may have been undone: look before it is sent once more"
				}
			}
		}
		return []string{fmt.Sprintf("%s, and %s.", line, ended)}
	}
	return nil
}

// holdLines name the holds that stop the record now.
func holdLines(k dlqbridge.Control, a Around) []string {
	var out []string
	for _, h := range a.Holds {
		if k.Status.Closed() || !h.Stops(k, a.Destination, a.Now) {
			continue
		}
		until := "until it is removed (hold remove " + h.ID + ")"
		if !h.Until.IsZero() {
			until = "until " + dlqbridge.FormatTime(h.Until)
		}
		out = append(out, fmt.Sprintf("Held by %s of %s, %s: %s.", h.ID, h.By, until, h.Reason))
	}
	return out
}
