package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
)

// The table's keys, and the forms of the range key.
const (
	// KeyTask is the hash key, a string: the route's prefix and the task id.
	KeyTask = "task_id"
	// KeyEntry is the range key, a string.
	KeyEntry = "entry"
	// EntryHeader is the range key of the header, one per task.
	EntryHeader = "task"
	// EntryStep starts the range key of a row per step, over all runs.
	EntryStep = "step#"
	// EntryRun starts the range key of a row per run and step: run#RUN#STEP.
	EntryRun = "run#"
)

// Bounds of DynamoDB's keys, in bytes ("Quotas and limits in Amazon DynamoDB",
// read 2026-11-30).
const (
	maxHashKey  = 2048
	maxRangeKey = 1024
)

// Status of a header.
const (
	TaskRunning   = "running"
	TaskCompleted = "completed"
	TaskFailed    = "failed"
)

// StepStatus is how far a step has come.
type StepStatus string

// The statuses of a step. Any other text is read as "nobody knows".
const (
	// StepPlanned: chosen, not begun.
	StepPlanned StepStatus = "planned"
	// StepStarted is written durably before the call.
	StepStarted         StepStatus = "started"
	StepSucceeded       StepStatus = "succeeded"
	StepAlreadyExists   StepStatus = "already_exists"
	StepFailedTransient StepStatus = "failed_transient"
	StepFailedPermanent StepStatus = "failed_permanent"
	// StepAmbiguous: begun, and nobody knows how it ended.
	StepAmbiguous StepStatus = "ambiguous"
)

// EffectClass says what a tool may do to the outside world.
type EffectClass string

// The classes. The zero value is read as mutating.
const (
	// EffectFree changes nothing outside.
	EffectFree EffectClass = "none"
	// EffectIdempotent changes something, once per idempotency key.
	EffectIdempotent EffectClass = "idempotent"
	// EffectMutating changes something at each call.
	EffectMutating EffectClass = "mutating"
)

// Header is what the row with entry "task" says. Its fields are the table's
// attributes; times are RFC 3339 in UTC, and one that cannot be read is zero.
type Header struct {
	TaskType       string // task_type
	Tenant         string // tenant
	IdempotencyKey string // idempotency_key: the business key
	Status         string // status: running, completed or failed
	RunID          string // run_id: of the latest run
	RedriveN       int    // redrive_n: the number that the latest run carried
	// IntentBeforeCall (intent_before_call, BOOL) is the promise that lets "no
	// row" prove anything: whoever runs this task writes `started` before each
	// call. Nothing but a boolean true is read as that promise.
	IntentBeforeCall bool
	Versions         dlqbridge.Versions    // agent_version, model_version, prompt_version, workflow_version, policy_version
	Deadline         time.Time             // deadline
	ValidUntil       time.Time             // valid_until
	CostUSD          string                // cost_usd: number or string
	OriginEvent      string                // origin_event
	ExpectedResult   string                // expected_result
	TraceID          string                // trace_id
	LastError        *LastError            // last_error, map: of the latest run
	Checkpoint       *dlqbridge.Checkpoint // checkpoint, map: ref, step_id, run_id, workflow_version, at, lineage
	CheckpointSend   Redrive               // checkpoint: redrive_n and message_id of the send whose run wrote it
	LeaseUntil       time.Time             // lease_until: until when the latest run may be going
	LeaseUnreadable  bool                  // lease_until is there and is no time: a run may be going, nobody can tell until when
	UpdatedAt        time.Time             // updated_at: the last sign of life

	// What the kit adds.

	Attempts    int                 // attempts: runs begun for the latest send
	MaxAttempts int                 // max_attempts
	Runs        int                 // runs: runs begun in all
	FirstRunAt  time.Time           // first_run_at
	LeaseOwner  string              // lease_owner: which process holds the lease
	Failures    []dlqbridge.Attempt // failures, list of maps run_id, at, code: of earlier runs, the newest last
	// RedriveRecord (redrive_record) is the record whose redrive the latest run
	// carried; numbers count per record.
	RedriveRecord string
	// Redrives (redrives, map of maps n, message_id) is the newest send of each
	// record that a run was begun for.
	Redrives map[string]Redrive
	// Token (token) changes with each write, so that every write can be made
	// conditional on what its writer has seen.
	Token string
}

// LastError is the map last_error.
type LastError struct {
	Class      string // class: a cause of the domain; anything else is detail
	Code       string // code
	Message    string // message
	Step       string // step
	Tool       string // tool
	Dependency string // dependency
	Retryable  *bool  // retryable, BOOL
	Phase      string // phase: before_call, during_call, after_call
}

// The phases of a failure.
const (
	PhaseBefore = "before_call"
	PhaseDuring = "during_call"
	PhaseAfter  = "after_call"
)

// Redrive is one send of a record's redrives, as the kit notes it.
type Redrive struct {
	N         int    // n
	MessageID string // message_id: the broker's, of the copy that was run
}

// StepRow is what a row with entry "step#STEP" or "run#RUN#STEP" says.
type StepRow struct {
	Entry          string      // entry
	RunID          string      // run_id: of the run that moved the row last
	StepID         string      // step_id: ids sort in order, as in 0003#charge
	Status         StepStatus  // status
	Attempt        int         // attempt: calls made under this row
	InputHash      string      // input_hash
	Receipt        string      // receipt: the outside system's own reference
	HasReceipt     bool        // whether there is a receipt of any type
	Tool           string      // tool
	Class          EffectClass // effect_class
	NothingChanged bool        // effect = "none": the tool itself asserts that nothing changed
	IdempotencyKey string      // idempotency_key: what the tool was given
	InputRef       string      // input_ref
	OutputRef      string      // output_ref
	StartedAt      time.Time   // started_at
	EndedAt        time.Time   // ended_at
	TraceID        string      // trace_id

	// What the kit adds.

	Intent string // intent: names one call, from `started` to its end
	// Doubtful (doubtful, BOOL): an earlier call under this row ended without
	// an answer. What a later call asserts about itself does not speak for it.
	Doubtful bool

	// Unreadable says what of the row could not be understood, if that matters
	// to what the row proves.
	Unreadable string
}

// TableSchema describes the ledger's table, on demand, to be created.
func TableSchema(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   aws.String(name),
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(KeyTask), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(KeyEntry), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(KeyTask), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(KeyEntry), KeyType: types.KeyTypeRange},
		},
	}
}

// checkTaskKey says why a task's key cannot be one, nil if it can.
func checkTaskKey(key string) error {
	switch {
	case key == "":
		return errors.New("the task id is empty")
	case len(key) > maxHashKey:
		return fmt.Errorf("the task id has %d bytes with its prefix, at most %d are possible", len(key), maxHashKey)
	}
	return nil
}

// splitEntry finds run and step in a range key. Step ids may contain #, run
// ids of plain writers had better not: the first # ends them.
func splitEntry(entry string) (run, step string, ok bool) {
	if s, found := strings.CutPrefix(entry, EntryStep); found {
		return "", s, s != ""
	}
	if rest, found := strings.CutPrefix(entry, EntryRun); found {
		run, step, found = strings.Cut(rest, "#")
		return run, step, found && step != ""
	}
	return "", "", false
}
