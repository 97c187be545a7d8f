package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Checkpoint says that a later run can continue behind step from what is kept
// under ref. Write it after the step's state is durable under ref: if the
// process dies in between, the older checkpoint stands.
func (r *Run) Checkpoint(ctx context.Context, ref, step string) error {
	if ref == "" || step == "" {
		return fmt.Errorf("checkpoint: %w: ref and step are required", dlqbridge.ErrInvalid)
	}
	c := &dlqbridge.Checkpoint{
		Ref: ref, Step: step, Run: r.id, At: r.kit.now(),
		WorkflowVersion: r.task.Versions.Workflow, Lineage: r.lineage(step),
	}
	var lineage []types.AttributeValue
	for _, run := range c.Lineage {
		lineage = append(lineage, str(run))
	}
	_, n := send(r.task)
	err := r.write(ctx, item{"checkpoint": dict(item{
		"ref": str(c.Ref), "step_id": str(c.Step), "run_id": str(c.Run), "at": str(dlqbridge.FormatTime(c.At)),
		"workflow_version": some(c.WorkflowVersion), "lineage": &types.AttributeValueMemberL{Value: lineage},
		"redrive_n": num(n), "message_id": some(r.task.MessageID),
	})})
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", step, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = c
	return nil
}

// lastCheckpoint is the newest checkpoint of the task that this run knows.
func (r *Run) lastCheckpoint() *dlqbridge.Checkpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written != nil {
		return r.written
	}
	return r.resume
}

// lineage lists the runs that a checkpoint behind step stands on: this one, and
// each whose steps up to there are all settled or covered by the checkpoint
// that this run could continue from. A run with a step in doubt is never in
// it, or the checkpoint would cover that doubt.
func (r *Run) lineage(step string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []string{r.id}
	var doubtful []string
	for _, rows := range r.steps {
		for _, s := range rows {
			covered := r.resume.Covers(dlqbridge.Finding{Step: s.StepID, Run: s.RunID})
			switch {
			case s.StepID > step || s.RunID == "":
			case !covered && s.unknown():
				doubtful = append(doubtful, s.RunID)
			default:
				out = append(out, s.RunID)
			}
		}
	}
	if r.resume != nil {
		out = append(append(out, r.resume.Run), r.resume.Lineage...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(run string) bool {
		return run == "" || run != r.id && slices.Contains(doubtful, run)
	})
}

// PlannedStep is one step of a plan.
type PlannedStep struct {
	ID, Tool string
	Class    EffectClass
}

// Plan notes the steps that were chosen, so that people see what is pending.
// A step that has a row keeps it.
func (r *Run) Plan(ctx context.Context, steps ...PlannedStep) error {
	for _, s := range steps {
		if err := checkStepID(s.ID); err != nil {
			return fmt.Errorf("plan: %w: %w", dlqbridge.ErrInvalid, err)
		}
		if len(r.rowsOf(s.ID)) > 0 {
			continue
		}
		if err := r.alive(); err != nil {
			return fmt.Errorf("plan %s: %w", s.ID, err)
		}
		c := change{
			set: item{
				"run_id": str(r.id), "step_id": str(s.ID), "status": str(string(StepPlanned)),
				"tool": some(s.Tool), "effect_class": str(string(classOf(string(s.Class)))),
			},
			when: item{KeyEntry: nil}, markName: "intent", mark: newToken(),
		}
		row, err := r.kit.table.write(ctx, r.key, EntryStep+s.ID, c)
		switch {
		case errors.Is(err, errRefused):
			r.remember(row.step())
		case err != nil:
			return fmt.Errorf("plan %s: %w", s.ID, err)
		default:
			r.remember(c.after(EntryStep + s.ID))
		}
	}
	return nil
}

// rowsOf lists the rows about one step, of all runs.
func (r *Run) rowsOf(step string) []StepRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.steps[step])
}

// remember replaces what is known of a row.
func (r *Run) remember(s StepRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := r.steps[s.StepID]
	if i := slices.IndexFunc(rows, func(o StepRow) bool { return o.Entry == s.Entry }); i >= 0 {
		rows[i] = s
		return
	}
	r.steps[s.StepID] = append(rows, s)
}
