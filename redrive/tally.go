package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// MaxTally bounds how many members of a job are counted: some thousand reads,
// and a few seconds of a person's patience.
const MaxTally = 10_000

// Tally is what became of a job's members, counted from the records themselves
// and not from what the job last wrote about itself.
type Tally struct {
	// Counted is how many members were looked at, from the first.
	Counted int
	// Sent went out for sure, whatever came after; InDoubt may have.
	Sent, InDoubt int
	// Outcomes counts the sends of this job as `redrive run` does: sent still
	// waits for its outcome.
	Outcomes map[dlqbridge.SendOutcome]int
	// Doubts are the ids of those in doubt.
	Doubts []string
}

// Tally counts what became of a job's first members, at most limit of them. It
// changes nothing and needs no lease, so it is true of a job whose process died.
func (c *Controller) Tally(ctx context.Context, job string, limit int) (Tally, error) {
	t := Tally{Outcomes: map[dlqbridge.SendOutcome]int{}}
	err := c.became(ctx, job, limit, t.add)
	return t, err
}

// fate is what became of one member of a job.
type fate struct {
	id        string
	position  int
	signature string
	outcome   dlqbridge.SendOutcome
	// took is how long the outcome took from the claim on; 0 is unknown.
	took time.Duration
}

// became tells what became of a job's first members, in no order within a chunk.
func (c *Controller) became(ctx context.Context, job string, limit int, tell func(fate)) error {
	first := 0
	for chunk, err := range chunks(c.o.Jobs.Members(ctx, job, 0), readChunk) {
		if err != nil {
			return fmt.Errorf("members of job %s: %w", job, err)
		}
		if chunk = chunk[:min(len(chunk), limit-first)]; len(chunk) == 0 {
			break
		}
		fates, err := c.fates(ctx, job, idsOf(chunk))
		if err != nil {
			return err
		}
		for i, m := range chunk {
			f := fates[m.ID]
			f.id, f.position = m.ID, first+i
			tell(f)
		}
		first += len(chunk)
	}
	return nil
}

func (c *Controller) fates(ctx context.Context, job string, ids []string) (map[string]fate, error) {
	out := make(map[string]fate, len(ids))
	controls, err := c.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	// Most records tell by themselves; only of those that went on since, or were
	// sent by other jobs, is the history read.
	open := map[string]int{}
	var later []dlqbridge.Control
	for _, ctl := range controls {
		f := fate{signature: ctl.Signature}
		switch {
		case ctl.Claim != nil && (ctl.Claim.Job == job || ctl.Move.Job == job):
			open[ctl.ID] = ctl.Claim.N
		case ctl.Move.Job == job:
			if f.outcome = ending(ctl.Move); f.outcome != "" && !ctl.LastSend.IsZero() {
				f.took = ctl.Move.At.Sub(ctl.LastSend)
			}
		case ctl.Redrives > 0 || ctl.Claim != nil:
			later = append(later, ctl)
		}
		out[ctl.ID] = f
	}
	cases, err := c.counted(ctx, later)
	if err != nil {
		return nil, err
	}
	for _, ctl := range later {
		n, outcome, took := sentBy(job, cases[ctl.ID].History)
		if outcome == "" && n > 0 && ctl.Claim != nil && ctl.Claim.N == n {
			open[ctl.ID] = n
			continue
		}
		out[ctl.ID] = fate{signature: ctl.Signature, outcome: outcome, took: took}
	}
	notes, err := c.notes(ctx, controls, open)
	if err != nil {
		return nil, err
	}
	for id := range open {
		f := out[id]
		f.outcome = notes[id].Outcome // none: it is on its way out, or its job died before it was
		out[id] = f
	}
	return out, nil
}

func (t *Tally) add(f fate) {
	t.Counted++
	switch f.outcome {
	case "":
		return
	case dlqbridge.OutcomeInDoubt:
		t.InDoubt++
		t.Doubts = append(t.Doubts, f.id)
	case dlqbridge.OutcomeRefused, dlqbridge.OutcomeNotSent:
	case dlqbridge.OutcomeSent, dlqbridge.OutcomeCompleted, dlqbridge.OutcomeRecurred, dlqbridge.OutcomeUnconfirmed:
		t.Sent++
	}
	t.Outcomes[f.outcome]++
}

// ending is the outcome that a move gives the redrive that it names; empty if
// it leaves it open, or takes it back.
func ending(m dlqbridge.Move) dlqbridge.SendOutcome {
	switch m.Verb { //nolint:exhaustive // the others end no redrive
	case dlqbridge.VerbRecur, dlqbridge.VerbReceive:
		return dlqbridge.OutcomeRecurred
	case dlqbridge.VerbComplete:
		return dlqbridge.OutcomeCompleted
	case dlqbridge.VerbUnconfirmed:
		if m.To.Closed() {
			return dlqbridge.OutcomeCompleted
		}
		return dlqbridge.OutcomeUnconfirmed
	case dlqbridge.VerbRelease:
		if m.To != dlqbridge.StatusAuthorized {
			return dlqbridge.OutcomeRefused
		}
	case dlqbridge.VerbSettleSend:
		if m.To == dlqbridge.StatusAuthorized {
			return dlqbridge.OutcomeNotSent
		}
	}
	return ""
}

// sentBy finds the last redrive number that a job sent a record under, how it
// ended, and how long that took; the number is 0 where the job never claimed it
// or gave it back.
func sentBy(job string, history []dlqbridge.Move) (n int, outcome dlqbridge.SendOutcome, took time.Duration) {
	var since time.Time
	for _, m := range history {
		switch {
		case m.Job == job && m.N > 0 && m.To == dlqbridge.StatusRedriving && (m.Verb == dlqbridge.VerbClaim || m.Verb == dlqbridge.VerbSettleSend):
			n, outcome, took, since = m.N, "", 0, m.At
		case m.Job == job && m.Verb == dlqbridge.VerbReceive && m.N > 0: // it went out, whatever was settled
			n, outcome = m.N, ending(m)
		case n == 0 || m.N != n:
		case m.Verb == dlqbridge.VerbRelease, m.Verb == dlqbridge.VerbSettleSend && m.To == dlqbridge.StatusAuthorized:
			n, outcome = 0, ending(m)
		default: // what nobody saw an outcome of may come back later
			if o := ending(m); o != "" {
				outcome, took = o, m.At.Sub(since)
			}
		}
	}
	return n, outcome, took
}

// counted reads histories, tried again where that may help.
func (c *Controller) counted(ctx context.Context, controls []dlqbridge.Control) (out map[string]dlqbridge.Case, err error) {
	if len(controls) == 0 {
		return nil, nil
	}
	if c.o.Counted == nil {
		return c.oneByOne(ctx, controls)
	}
	err = c.again(ctx, func() (err error) {
		out, err = c.o.Counted.Counted(ctx, controls)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read histories of %d records: %w", len(controls), err)
	}
	return out, nil
}

func (c *Controller) oneByOne(ctx context.Context, controls []dlqbridge.Control) (map[string]dlqbridge.Case, error) {
	out := map[string]dlqbridge.Case{}
	for _, ctl := range controls {
		err := c.again(ctx, func() (err error) {
			out[ctl.ID], err = c.o.Cases.Case(ctx, ctl.ID)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read record %s: %w", ctl.ID, err)
		}
	}
	return out, nil
}
