package ledger

import (
	"context"
	"fmt"
)

// DeadLetter ends the run as failed and dead-letters the message at once, with
// what no broker knows about it, where no further delivery can help: the
// receive limit would only repeat the failure.
//
// Send puts the message into the dead-letter place, its body and attributes as
// they are (the mark agent.redrive among them) together with the facts: on SQS
// Facts.Context as attribute agent.ctx, on Pub/Sub Facts.Attributes over the
// message's own. It returns nil once the place has it; only then may the
// message be deleted or acknowledged. If the process dies before that, the
// message comes again: its receipts stand, and a second letter is one arrival
// more of the same record.
//
// A run that has lost its lease dead-letters nothing: somebody else works on
// the task.
func (r *Run) DeadLetter(ctx context.Context, e LastError, send func(context.Context, Facts) error) error {
	facts := r.Facts(e)
	if err := r.Fail(ctx, e); err != nil {
		return err
	}
	if err := send(ctx, facts); err != nil {
		return fmt.Errorf("dead-letter %s: %w", r.task.ID, err)
	}
	return nil
}
