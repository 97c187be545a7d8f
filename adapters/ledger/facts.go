package ledger

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dlqbridge/dlqbridge"
)

// ContextAttribute is the one SQS attribute that carries all facts.
const ContextAttribute = "agent.ctx"

// maxAttributeValue is the most that a Pub/Sub attribute's value can have
// ("Pub/Sub quotas and limits", read 2026-11-30).
const maxAttributeValue = 1024

// Facts is what a message can say about its task: a producer sets what it knows
// when it sends, a worker adds the failure when it dead-letters a message
// itself. The fields are the keys of agent.ctx.
type Facts struct {
	V                int    `json:"v"`
	TaskID           string `json:"task,omitempty"`
	RunID            string `json:"run,omitempty"`
	Type             string `json:"type,omitempty"`
	Tenant           string `json:"tenant,omitempty"`
	IdempotencyKey   string `json:"idem,omitempty"`
	Effect           string `json:"effect,omitempty"`
	Cause            string `json:"cause,omitempty"`
	Code             string `json:"code,omitempty"`
	Message          string `json:"msg,omitempty"`
	Step             string `json:"step,omitempty"`
	Tool             string `json:"tool,omitempty"`
	Dependency       string `json:"dep,omitempty"`
	Attempt          int    `json:"n,omitempty"`
	MaxAttempts      int    `json:"max,omitempty"`
	Checkpoint       string `json:"ckpt,omitempty"`
	Deadline         string `json:"dl,omitempty"`
	ValidUntil       string `json:"vu,omitempty"`
	VersionsAgent    string `json:"av,omitempty"`
	VersionsModel    string `json:"mv,omitempty"`
	VersionsPrompt   string `json:"pv,omitempty"`
	VersionsWorkflow string `json:"wv,omitempty"`
	VersionsPolicy   string `json:"polv,omitempty"`
}

// Facts is what a producer can say about the task.
func (t Task) Facts() Facts {
	return Facts{
		V: 1, TaskID: t.ID, Type: t.Type, Tenant: t.Tenant, IdempotencyKey: t.IdempotencyKey, MaxAttempts: t.MaxAttempts,
		Deadline: dlqbridge.FormatTime(t.Deadline), ValidUntil: dlqbridge.FormatTime(t.ValidUntil),
		VersionsAgent: t.Versions.Agent, VersionsModel: t.Versions.Model, VersionsPrompt: t.Versions.Prompt,
		VersionsWorkflow: t.Versions.Workflow, VersionsPolicy: t.Versions.Policy,
	}
}

// Facts is what a worker can say when it dead-letters the message itself:
// task, run, failure, checkpoint and the effect of its own run.
func (r *Run) Facts(e LastError) Facts {
	f := r.task.Facts()
	f.RunID, f.Effect, f.Attempt, f.MaxAttempts = r.id, string(r.Effect()), r.attempt, r.kit.limit(r.task)
	if c := r.lastCheckpoint(); c != nil {
		f.Checkpoint = c.Ref
	}
	if dlqbridge.Cause(e.Class).Valid() {
		f.Cause = e.Class
	}
	f.Code, f.Message, f.Step, f.Tool, f.Dependency = e.Code, dlqbridge.CutText(e.Message, maxText), e.Step, e.Tool, e.Dependency
	return f
}

// Context is the value of the attribute agent.ctx, for SQS: compact JSON.
func (f Facts) Context() (string, error) {
	f.V = 1
	text, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", ContextAttribute, err)
	}
	return string(text), nil
}

// Attributes are the flat attributes agent.*, for Pub/Sub; empty facts have
// none. The error's message is cut to what an attribute can hold; ids never
// are, since a cut id is another id.
func (f Facts) Attributes() map[string]string {
	out := map[string]string{"agent.v": "1"}
	for name, value := range map[string]string{
		"agent.task.id": f.TaskID, "agent.run.id": f.RunID, "agent.task.type": f.Type, "agent.tenant": f.Tenant,
		"agent.idempotency_key": f.IdempotencyKey, "agent.effect": f.Effect, "agent.cause": f.Cause,
		"agent.error.code": f.Code, "agent.error.message": dlqbridge.CutText(f.Message, maxAttributeValue), "agent.step": f.Step, "agent.tool": f.Tool,
		"agent.dependency": f.Dependency, "agent.attempt": count(f.Attempt), "agent.attempt.max": count(f.MaxAttempts),
		"agent.checkpoint": f.Checkpoint, "agent.deadline": f.Deadline, "agent.valid_until": f.ValidUntil,
		"agent.versions.agent": f.VersionsAgent, "agent.versions.model": f.VersionsModel, "agent.versions.prompt": f.VersionsPrompt,
		"agent.versions.workflow": f.VersionsWorkflow, "agent.versions.policy": f.VersionsPolicy,
	} {
		if value != "" {
			out[name] = value
		}
	}
	return out
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
