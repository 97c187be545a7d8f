package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Answer is what the outside system says about a call in doubt. The zero value
// says nothing: the doubt stays.
type Answer struct {
	done, notDone bool
	receipt       string
}

// Done is the answer that the call took effect, with the system's own reference.
func Done(receipt string) Answer { return Answer{done: true, receipt: receipt} }

// NotDone is the answer that it did not, and that no request under way can still
// make it so. It counts only StepSpec.Settled after the call began. "I do not
// know this key" is NotDone only of a system that keeps every key.
func NotDone() Answer { return Answer{notDone: true} }

var errSettled = errors.New("option Settled is required with Reconcile: how long after a call began does the outside system surely know of it?")

// reconcile asks the outside system about a call in doubt, where the step knows
// how, and writes down what it says. It returns the row as it is then, and in
// words why it still is in doubt, if there is more to say than that.
//
// If the process dies before the answer is durable, the doubt stands and the
// next run asks again.
func (r *Run) reconcile(ctx context.Context, w work, row StepRow) (now StepRow, why string) {
	if w.Reconcile == nil || row.Entry != EntryStep+w.ID || !row.unknown() || row.Unreadable != "" {
		return row, ""
	}
	ctx, cancel := r.lived(ctx)
	defer cancel()
	settled := r.settledAt(w, row)
	for waited := false; ; waited = true {
		asked := r.kit.now()
		if err := r.alive(); err != nil {
			return row, ""
		}
		answer, err := w.Reconcile(ctx, Call{IdempotencyKey: row.IdempotencyKey, InputHash: row.InputHash, Attempt: row.Attempt})
		switch {
		case err != nil:
			return row, "asking the outside system failed: " + err.Error()
		case answer.done && answer.notDone || !answer.done && !answer.notDone:
			return row, "the outside system does not know"
		case answer.done, !asked.Before(settled):
			return r.settle(ctx, row, answer)
		}
		early := "the outside system says not done, and is not believed before " + dlqbridge.FormatTime(settled)
		left := settled.Sub(asked)
		if waited || left > r.kit.o.Backoff.Max || r.wait(ctx, left) != nil {
			return row, early
		}
	}
}

// settledAt is from when on the outside system shows what the row's call did.
// Whoever wrote the row may have another clock.
func (r *Run) settledAt(w work, row StepRow) time.Time {
	began := row.StartedAt
	if began.IsZero() {
		began = row.EndedAt
	}
	if began.IsZero() {
		began = r.kit.now() // nobody knows when
	}
	if row.RunID != r.id {
		began = began.Add(dlqbridge.DefaultSkew)
	}
	return began.Add(w.Settled)
}

// settle ends a doubt by what the outside system said. The row must still be as
// it was asked about: a call that began meanwhile is another one.
func (r *Run) settle(ctx context.Context, row StepRow, answer Answer) (StepRow, string) {
	at := r.kit.now()
	set := item{"ended_at": str(dlqbridge.FormatTime(at))}
	status := StepAlreadyExists
	remove := []string{"effect", "doubtful"}
	if answer.done {
		set["receipt"] = some(dlqbridge.CutText(answer.receipt, maxReceipt))
	} else {
		status, remove = StepFailedTransient, []string{"doubtful"}
		set["effect"] = str("none")
	}
	set["status"] = str(string(status))
	c := change{
		set: set, remove: remove,
		when:     item{"intent": some(row.Intent), "status": some(string(row.Status)), "run_id": some(row.RunID), "receipt": nil},
		markName: "intent", mark: newToken(),
		done: func(now item) bool { return now.text("status", maxText) == string(status) },
	}
	bounded, cancel := r.finishing(ctx)
	defer cancel()
	switch now, err := r.kit.table.write(bounded, r.key, row.Entry, c); {
	case errors.Is(err, errRefused):
		if now != nil {
			row = now.step()
			r.remember(row)
		}
		return row, "the row has moved on meanwhile"
	case err != nil:
		return row, fmt.Sprintf("what the outside system said could not be written down: %v", err)
	}
	row.Intent, row.Status, row.EndedAt, row.Doubtful = c.mark, status, at, false
	row.NothingChanged = answer.notDone
	row.Receipt, row.HasReceipt = "", false
	if answer.done {
		row.Receipt = dlqbridge.CutText(answer.receipt, maxReceipt)
		row.HasReceipt = row.Receipt != ""
	}
	r.remember(row)
	return row, ""
}

// outcome is what a row says that shows the effect.
func (s StepRow) outcome() Result {
	return Result{Receipt: s.Receipt, OutputRef: s.OutputRef, Exists: s.Status == StepAlreadyExists, Reused: true}
}
