package redrive

import (
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// A FIFO queue drops a second message with the same deduplication id for five
// minutes (SQS developer guide, "Exactly-once processing", read 2026-11). The
// minute less covers skew and the time a request takes.
const (
	fifoWindow = 5 * time.Minute
	fifoMargin = time.Minute
)

// resendFIFO is why a send in doubt may be repeated inside the window.
const resendFIFO = "the queue still knows its deduplication id"

// fifoOpen says whether a message journalled first at that time can be sent
// again without any risk of a second copy.
func fifoOpen(facts dlqbridge.DestinationFacts, first, now time.Time) bool {
	return facts.FIFO && !first.IsZero() && now.Before(first.Add(fifoWindow-fifoMargin))
}

// seen says whether a store has seen a run that carried number n, which proves
// that the send of n went out. It is the sentence for the note, empty if not.
func seen(j Judgement, n int) string {
	switch {
	case n > 0 && j.SeenRedriveN >= n:
		return fmt.Sprintf("settled: run %s carried redrive %d", j.SeenRun, j.SeenRedriveN)
	case n > 0 && j.Context.CompletedBy != nil && j.Context.CompletedBy.RedriveN >= n:
		return fmt.Sprintf("settled: run %s completed redrive %d", j.Context.CompletedBy.Run, n)
	}
	return ""
}

// mayResend says why a send in doubt may be repeated under its number, or why not:
//
//   - inside a FIFO queue's window the queue itself drops the second copy;
//   - where the route's contract makes repeating safe, a second copy does no
//     harm, and the mark lets people see that it is one: a message without room
//     for the mark is never sent twice on a guess;
//   - where workers use the kit, they refuse a second run of the same number,
//     which they read from the mark.
//
// Everything else waits for evidence or for a person, and so does what another
// run may have done meanwhile: the message itself may not have gone out, and then
// this is its first send (see leftByOthers).
func (c *Controller) mayResend(ctl dlqbridge.Control, note dlqbridge.Send, j Judgement, facts dlqbridge.DestinationFacts, canMark bool) (string, *dlqbridge.Exclusion) {
	no := func(r dlqbridge.ExcludeReason, detail string) (string, *dlqbridge.Exclusion) {
		return "", &dlqbridge.Exclusion{ID: ctl.ID, Reason: r, Detail: detail}
	}
	if note.Action == dlqbridge.ActionCompensate {
		return c.mayCompensateAgain(ctl, note, j, canMark)
	}
	now := c.clock()
	route, _ := c.o.Route(ctl.Route)
	switch {
	case seen(j, note.N) != "":
		return no(dlqbridge.ExcludeClaimed, fmt.Sprintf("redrive %d went out; its outcome is open", note.N))
	case j.Decision.Status == dlqbridge.StatusCompleted:
		return no(dlqbridge.ExcludeClosed, "a store shows that the task completed")
	case j.Applied.Conflict || j.Applied.Late:
		return no(dlqbridge.ExcludeConflict, "another letter arrived meanwhile")
	case j.Context.RunningUntil.After(now):
		return no(dlqbridge.ExcludeStillRunning, "a run may be going until "+dlqbridge.FormatTime(j.Context.RunningUntil))
	case !ctl.ValidUntil.IsZero() && now.After(ctl.ValidUntil):
		return no(dlqbridge.ExcludeExpired, "past valid_until")
	}
	why := ""
	switch {
	case fifoOpen(facts, note.At, now):
		why = resendFIFO
	case j.Context.RepeatSafe && canMark:
		why = "repeating is declared safe"
	case route.Kit && canMark:
		why = "its workers refuse a second run of the same number"
	default:
		return no(dlqbridge.ExcludeInDoubt, fmt.Sprintf("nobody knows whether redrive %d went out; settle-send decides", note.N))
	}
	if x := leftByOthers(ctl, note, j); x != nil {
		return "", x
	}
	return why, nil
}

// leftByOthers says why what others than the send in doubt leave forbids to repeat it.
// The send itself makes the effect unknown, by definition, and that alone is no
// reason: nobody runs its number twice. But a run without that number, one before
// or beside it, is stopped by neither the queue nor the workers. So the effect is
// looked at as if the send had not gone out, and must be what its first send
// needed (I5). A compensation has a rule of its own.
func leftByOthers(ctl dlqbridge.Control, note dlqbridge.Send, j Judgement) *dlqbridge.Exclusion {
	effect := j.Unsent.State
	if note.Action == dlqbridge.ActionResume {
		if ctl.Authorized == nil || ctl.Authorized.Of != subject(note.Action, ctl, j) {
			return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeInDoubt, Detail: fmt.Sprintf(
				"nobody knows whether redrive %d went out, and its checkpoint is another one now; settle-send decides", note.N)}
		}
		effect = j.Unsent.Uncovered
	}
	switch {
	case effect == dlqbridge.EffectNone, j.Context.RepeatSafe:
		return nil
	case effect == dlqbridge.EffectConfirmed:
		return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeNeedsCompensation, Detail: fmt.Sprintf(
			"another run than that of redrive %d had an effect meanwhile, so sending it would repeat it; settle-send decides what became of the send", note.N)}
	}
	return &dlqbridge.Exclusion{ID: ctl.ID, Reason: dlqbridge.ExcludeEffectUnknown, Detail: fmt.Sprintf(
		"another run than that of redrive %d may have had an effect meanwhile, or a store cannot be asked; it waits for evidence, or settle-send decides", note.N)}
}
