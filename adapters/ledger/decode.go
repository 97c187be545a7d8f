package ledger

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// Any language writes the ledger, so decoding tolerates what it can, field by
// field: a field of the wrong type is as if it were not there. Only where that
// would make a row prove more than it may is the row marked unreadable.

// Bounds of texts taken over from the table, in bytes; what is longer is cut.
const (
	maxText    = 1000
	maxReceipt = 2048
	maxName    = 2048
)

// item is one row as DynamoDB gives it.
type item map[string]types.AttributeValue

// rows is all that the ledger has about one task.
type rows struct {
	header *Header // nil: there is none
	raw    item    // the header as it is written
	steps  []StepRow
}

func decodeRows(items []map[string]types.AttributeValue) rows {
	var out rows
	for _, row := range items {
		it := item(row)
		if it.text(KeyEntry, maxName) == EntryHeader {
			h := it.header()
			out.header, out.raw = &h, it
			continue
		}
		out.steps = append(out.steps, it.step())
	}
	return out
}

func (it item) header() Header {
	h := Header{
		TaskType:         it.text("task_type", maxName),
		Tenant:           it.text("tenant", maxName),
		IdempotencyKey:   it.text("idempotency_key", maxName),
		Status:           it.text("status", maxName),
		RunID:            it.text("run_id", maxName),
		RedriveN:         it.number("redrive_n"),
		IntentBeforeCall: it.isTrue("intent_before_call"),
		Versions: dlqbridge.Versions{
			Agent:    it.text("agent_version", maxText),
			Model:    it.text("model_version", maxText),
			Prompt:   it.text("prompt_version", maxText),
			Workflow: it.text("workflow_version", maxText),
			Policy:   it.text("policy_version", maxText),
		},
		Deadline:        it.time("deadline"),
		ValidUntil:      it.time("valid_until"),
		CostUSD:         it.decimal("cost_usd"),
		OriginEvent:     it.text("origin_event", maxText),
		ExpectedResult:  it.text("expected_result", maxText),
		TraceID:         it.text("trace_id", maxText),
		LeaseUntil:      it.time("lease_until"),
		LeaseUnreadable: it.unreadableTime("lease_until"),
		UpdatedAt:       it.time("updated_at"),
		Attempts:        it.number("attempts"),
		MaxAttempts:     it.number("max_attempts"),
		Runs:            it.number("runs"),
		FirstRunAt:      it.time("first_run_at"),
		LeaseOwner:      it.text("lease_owner", maxText),
		RedriveRecord:   it.text("redrive_record", maxText),
		Token:           it.text("token", maxText),
	}
	if e := it.inner("last_error"); e != nil {
		h.LastError = &LastError{
			Class:      e.text("class", maxText),
			Code:       e.text("code", maxText),
			Message:    e.text("message", maxText),
			Step:       e.text("step", maxName),
			Tool:       e.text("tool", maxText),
			Dependency: e.text("dependency", maxText),
			Retryable:  e.boolean("retryable"),
			Phase:      e.text("phase", maxText),
		}
	}
	if c := it.inner("checkpoint"); c.text("ref", maxName) != "" {
		h.Checkpoint = &dlqbridge.Checkpoint{
			Ref: c.text("ref", maxName), Step: c.text("step_id", maxName), Run: c.text("run_id", maxName),
			At: c.time("at"), WorkflowVersion: c.text("workflow_version", maxText), Lineage: c.texts("lineage"),
		}
		h.CheckpointSend = Redrive{N: c.number("redrive_n"), MessageID: c.text("message_id", maxName)}
	}
	if list, ok := it["failures"].(*types.AttributeValueMemberL); ok {
		for _, v := range list.Value {
			if m, ok := v.(*types.AttributeValueMemberM); ok {
				f := item(m.Value)
				h.Failures = append(h.Failures, dlqbridge.Attempt{
					Run: f.text("run_id", maxName), At: f.time("at"), Code: f.text("code", maxText),
				})
			}
		}
	}
	for record, v := range it.inner("redrives") {
		if m, ok := v.(*types.AttributeValueMemberM); ok {
			if h.Redrives == nil {
				h.Redrives = map[string]Redrive{}
			}
			r := item(m.Value)
			h.Redrives[record] = Redrive{N: r.number("n"), MessageID: r.text("message_id", maxName)}
		}
	}
	return h
}

func (it item) step() StepRow {
	entry := it.text(KeyEntry, maxName)
	run, step, known := splitEntry(entry)
	s := StepRow{
		Entry:          entry,
		RunID:          run,
		StepID:         step,
		Status:         StepStatus(it.text("status", maxText)),
		Attempt:        it.number("attempt"),
		InputHash:      it.text("input_hash", maxText),
		Tool:           it.text("tool", maxText),
		Class:          classOf(it.text("effect_class", maxText)),
		NothingChanged: it.text("effect", maxText) == "none",
		IdempotencyKey: it.text("idempotency_key", maxName),
		InputRef:       it.text("input_ref", maxName),
		OutputRef:      it.text("output_ref", maxName),
		StartedAt:      it.time("started_at"),
		EndedAt:        it.time("ended_at"),
		TraceID:        it.text("trace_id", maxText),
		Intent:         it.text("intent", maxText),
		Doubtful:       it.isTrue("doubtful"),
	}
	s.Receipt, s.HasReceipt = it.receipt()
	if id := it.text("run_id", maxName); id != "" {
		// A run id with a # in it is cut short in the key; the field knows, and
		// then the rest of the key is the step.
		if rest, whole := strings.CutPrefix(entry, EntryRun+id+"#"); whole {
			s.StepID = rest
		}
		s.RunID = id
	}
	if !known {
		// A row that might be about a call is never passed over.
		s.StepID, s.Unreadable = entry, "the range key has no form that is known"
		if id := it.text("step_id", maxName); id != "" {
			s.StepID = id
		}
	}
	if _, there := it["status"]; there && s.Status == "" {
		s.Unreadable = "the status is not a string"
	}
	return s
}

// classOf reads effect_class; whatever is not understood is the most careful one.
func classOf(s string) EffectClass {
	switch c := EffectClass(s); c {
	case EffectFree, EffectIdempotent, EffectMutating:
		return c
	}
	return EffectMutating
}

// text reads a string, or a number as it is written.
func (it item) text(name string, limit int) string {
	switch v := it[name].(type) {
	case *types.AttributeValueMemberS:
		return dlqbridge.CutText(v.Value, limit)
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

// decimal reads an amount, written as a number or as a string.
func (it item) decimal(name string) string {
	s := it.text(name, 64)
	if f, err := strconv.ParseFloat(s, 64); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return s
}

// time reads RFC 3339; anything else is none.
func (it item) time(name string) time.Time {
	s, ok := it[name].(*types.AttributeValueMemberS)
	if !ok {
		return time.Time{}
	}
	t, err := dlqbridge.ParseTime(s.Value)
	if err != nil {
		return time.Time{}
	}
	return t
}

// unreadableTime says whether something is there that is no time.
func (it item) unreadableTime(name string) bool {
	switch v := it[name].(type) {
	case nil, *types.AttributeValueMemberNULL:
		return false
	case *types.AttributeValueMemberS:
		return v.Value != "" && it.time(name).IsZero()
	}
	return true
}

// number reads a count, written as a number or as a string.
func (it item) number(name string) int {
	n, err := strconv.Atoi(it.text(name, 32))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (it item) isTrue(name string) bool {
	b := it.boolean(name)
	return b != nil && *b
}

func (it item) boolean(name string) *bool {
	if b, ok := it[name].(*types.AttributeValueMemberBOOL); ok {
		return &b.Value
	}
	return nil
}

// inner reads a map; reading fields of one that is not there is fine.
func (it item) inner(name string) item {
	if m, ok := it[name].(*types.AttributeValueMemberM); ok {
		return m.Value
	}
	return nil
}

// texts reads a list or set of strings.
func (it item) texts(name string) []string {
	var out []string
	switch v := it[name].(type) {
	case *types.AttributeValueMemberSS:
		out = slices.Clone(v.Value)
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			if s, ok := e.(*types.AttributeValueMemberS); ok && s.Value != "" {
				out = append(out, s.Value)
			}
		}
	}
	return out
}

// receipt reads a receipt of whatever type. A receipt is a reference of the
// outside system, so an empty one, null and a bare boolean are none.
func (it item) receipt() (string, bool) {
	s := shown(it["receipt"])
	return dlqbridge.CutText(s, maxReceipt), s != ""
}

// shown is a value in words, empty if there is nothing in it.
func shown(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberB:
		return base64.StdEncoding.EncodeToString(v.Value)
	case *types.AttributeValueMemberSS:
		return strings.Join(v.Value, " ")
	case *types.AttributeValueMemberL:
		var parts []string
		for _, e := range v.Value {
			if s := shown(e); s != "" {
				parts = append(parts, s)
			}
		}
		return strings.Join(parts, " ")
	case *types.AttributeValueMemberM:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v.Value)) {
			if s := shown(v.Value[name]); s != "" {
				parts = append(parts, fmt.Sprintf("%s=%s", name, s))
			}
		}
		return strings.Join(parts, " ")
	}
	return ""
}
