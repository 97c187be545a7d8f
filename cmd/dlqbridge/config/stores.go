package config

import (
	"regexp"
	"strings"
)

var (
	_ text = (*Runtime)(nil)
	_ text = (*Input)(nil)
	_ text = (*Header)(nil)
	_ text = (*Template)(nil)
)

// Store is one place that holds agent context, by its kind. It has exactly one.
type Store struct {
	Powertools    *Powertools    `yaml:"powertools" doc:"The idempotency table of AWS Lambda Powertools. It can confirm effects and never says that nothing happened."`
	LangGraph     *LangGraph     `yaml:"langgraph" doc:"The checkpoints of LangGraph's DynamoDBSaver. It can confirm nodes and never says that nothing happened."`
	DynamoDBTable *DynamoDBTable `yaml:"dynamodb_table" doc:"A DynamoDB table of any other shape, which proves what is declared here."`
	OpenAIAgents  *OpenAIAgents  `yaml:"openai_agents" doc:"The run state of the OpenAI Agents SDK, kept in a DynamoDB row. It confirms tool calls; that one was not made it says only as declared."`
	StepFunctions *StepFunctions `yaml:"stepfunctions" doc:"The history of the task's execution in AWS Step Functions. Its worker must change nothing beside it."`
	Reconcile     *Reconcile     `yaml:"reconcile" doc:"The outside system itself, asked over HTTP."`
}

// storeKinds are the keys of which a store has exactly one.
var storeKinds = []string{"powertools", "langgraph", "dynamodb_table", "openai_agents", "stepfunctions", "reconcile"}

// Powertools are the settings of the workers' Powertools, by its own names.
type Powertools struct {
	Table                     string   `yaml:"table" doc:"The idempotency table, by name or ARN." required:"true"`
	Runtime                   Runtime  `yaml:"runtime" doc:"Whose Powertools wrote it: they make keys differently." required:"true"`
	Prefix                    string   `yaml:"prefix" doc:"What stands before # in a key: python FUNCTION.HANDLER, typescript FUNCTION or FUNCTION.NAME, or the key prefix." required:"true"`
	Input                     Input    `yaml:"input" doc:"What the worker made idempotent: one record of the SQS event (default), the event, or the body."`
	EventKeyJMESPath          string   `yaml:"event_key_jmespath" doc:"Selects the key from the input; required but for input body."`
	PayloadValidationJMESPath string   `yaml:"payload_validation_jmespath" doc:"Selects what must be the same for the same key."`
	HashFunction              string   `yaml:"hash_function" doc:"md5 (default), sha1, sha256, sha384 or sha512."`
	KeyAttr                   string   `yaml:"key_attr" doc:"The table's hash key; default id."`
	StatusAttr                string   `yaml:"status_attr" doc:"Default status."`
	ExpiryAttr                string   `yaml:"expiry_attr" doc:"Default expiration."`
	InProgressExpiryAttr      string   `yaml:"in_progress_expiry_attr" doc:"Default in_progress_expiration."`
	DataAttr                  string   `yaml:"data_attr" doc:"Default data."`
	ValidationKeyAttr         string   `yaml:"validation_key_attr" doc:"Default validation."`
	SortKeyAttr               string   `yaml:"sort_key_attr" doc:"The table's sort key, if it has one."`
	StaticPKValue             string   `yaml:"static_pk_value" doc:"The hash key's value where there is a sort key: idempotency#FUNCTION by default."`
	ReceiptJMESPath           string   `yaml:"receipt_jmespath" doc:"Selects the receipt from the stored response; default all of it."`
	Step                      string   `yaml:"step" doc:"The step that a record speaks for; default the whole task."`
	ExpiresAfter              Duration `yaml:"expires_after" doc:"How long records live (expires_after_seconds); default 1h."`
	MaxRun                    Duration `yaml:"max_run" doc:"How long one run may take; default 15m."`
}

// LangGraph says where checkpoints are.
type LangGraph struct {
	Table    string   `yaml:"table" doc:"The saver's table, by name or ARN." required:"true"`
	Thread   string   `yaml:"thread" doc:"A task's thread id, with {taskId}, {runId}, {idempotencyKey} or {tenant}; default {runId}."`
	Mutating []string `yaml:"mutating" doc:"The nodes that change something outside. Without it every node does; [] says that none does."`
}

// DynamoDBTable declares a table of any shape.
type DynamoDBTable struct {
	Table                 string      `yaml:"table" doc:"The table, by name or ARN." required:"true"`
	Hash                  TableKey    `yaml:"hash" doc:"The hash key and its value for a task." required:"true"`
	Range                 *TableKey   `yaml:"range" doc:"The range key, where a task's rows are fewer than the hash key has; a value that ends in * means all that begin so."`
	Fields                TableFields `yaml:"fields" doc:"Where in a row things are: attr:NAME, item:/JSON/POINTER or jmespath:EXPRESSION." required:"true"`
	Confirmed             []string    `yaml:"confirmed" doc:"The statuses that say that the effect happened."`
	ConfirmedNeedsReceipt bool        `yaml:"confirmed_needs_receipt" doc:"A confirmed row without a receipt is unknown."`
	Running               []string    `yaml:"running" doc:"The statuses that say that a run is going."`
	None                  *TableNone  `yaml:"none" doc:"The statuses that prove that nothing happened, and why. A missing row never does."`
	MaxRun                Duration    `yaml:"max_run" doc:"How long after its last time a running row is believed; default 15m."`
}

// TableKey is one key attribute and its value for a task.
type TableKey struct {
	Attribute string `yaml:"attribute" doc:"The key's attribute." required:"true"`
	Value     string `yaml:"value" doc:"Its value, with {taskId}, {runId}, {idempotencyKey} or {tenant}." required:"true"`
	Number    bool   `yaml:"number" doc:"The key is a number."`
}

// TableFields are selectors into a row.
type TableFields struct {
	Status  string `yaml:"status" doc:"The row's status." required:"true"`
	Receipt string `yaml:"receipt" doc:"The outside system's own reference."`
	Step    string `yaml:"step" doc:"The row's step; without it a row speaks for the whole task."`
	Run     string `yaml:"run" doc:"The run a row speaks of."`
	Started string `yaml:"started" doc:"When the work began."`
	Updated string `yaml:"updated" doc:"When the row was last written."`
	Code    string `yaml:"code" doc:"The failure's code."`
	Message string `yaml:"message" doc:"The failure's text."`
	Tool    string `yaml:"tool" doc:"The tool that failed."`
}

// TableNone declares which statuses prove that nothing happened.
type TableNone struct {
	Status  []string `yaml:"status" doc:"The statuses." required:"true"`
	Because string   `yaml:"because" doc:"Why this table is an authority on that, in a sentence for whoever relies on it." required:"true"`
	Proof   string   `yaml:"proof" doc:"not_started: the row is written before the call and would say otherwise; system_read: it notes a look at the outside world." required:"true"`
	Settled Duration `yaml:"settled" doc:"How long after the last work on a task such a look sees all of it."`
}

// OpenAIAgents says where a task's run state is.
type OpenAIAgents struct {
	Table               string    `yaml:"table" doc:"The table with the state, by name or ARN." required:"true"`
	Hash                TableKey  `yaml:"hash" doc:"The hash key and its value for a task." required:"true"`
	Range               *TableKey `yaml:"range" doc:"The range key and its value, where the table has one."`
	State               string    `yaml:"state" doc:"The attribute with the state: RunState.to_string() as text or bytes, or to_json() as a map." required:"true"`
	Updated             string    `yaml:"updated" doc:"The attribute with the time at which it was saved: RFC 3339, or seconds or milliseconds since 1970."`
	Mutating            []string  `yaml:"mutating" doc:"The tools that change something outside. Without it every tool does; [] says that none does."`
	SavedBeforeEachCall string    `yaml:"saved_before_each_call" doc:"Why a call that the state does not show was not begun, in a sentence for whoever relies on it: the state is saved after executed is set and before the tool's own code runs, each run goes on from it, and no tool runs at the model's provider."`
	MaxRun              Duration  `yaml:"max_run" doc:"How long after the save a run may be going; default 15m."`
}

// StepFunctions says which execution is a task's.
type StepFunctions struct {
	Execution string   `yaml:"execution" doc:"The ARN of a task's execution, with {taskId}, {runId}, {idempotencyKey} or {tenant}; default {runId}."`
	Mutating  []string `yaml:"mutating" doc:"The states that change something outside. Without it every Task state does; [] says that none does."`
	Recheck   Duration `yaml:"recheck" doc:"When a running execution is looked at again; default 15m."`
}

// Reconcile says how the outside system is asked.
type Reconcile struct {
	URL              Template          `yaml:"url" doc:"What is asked, with {idempotencyKey}, {taskId}, {runId} or {tenant} in path and query." required:"true"`
	Method           string            `yaml:"method" doc:"GET, or POST where there is a body. It must only read."`
	Body             string            `yaml:"body" doc:"JSON in whose texts the same placeholders may stand."`
	Headers          map[string]Header `yaml:"headers" doc:"Sent as they are; a secret is written env:NAME, or Bearer env:NAME."`
	Step             string            `yaml:"step" doc:"The step that it speaks for; default the whole task."`
	Done             []Match           `yaml:"done" doc:"Answers that say that it happened; any match counts."`
	NotDone          []Match           `yaml:"not_done" doc:"Answers that say that it did not happen."`
	Unknown          []Match           `yaml:"unknown" doc:"Answers that leave it open. They go first."`
	Receipt          string            `yaml:"receipt" doc:"JSON pointer to the system's own reference in an answer that is done."`
	Authoritative    bool              `yaml:"authoritative" doc:"What the system does not know did not happen. Without it not_done proves nothing."`
	ConsistencyDelay Duration          `yaml:"consistency_delay" doc:"How long after an attempt the system may still not show what it did; required with authoritative."`
	Timeout          Duration          `yaml:"timeout" doc:"The longest one call may take; default 3s, at most 4s."`
	CallsPerMinute   int               `yaml:"calls_per_minute" doc:"No 60 seconds see more calls than that; 0 is 600."`
	MaxAnswerBytes   int               `yaml:"max_answer_bytes" doc:"The longest answer that is read; 0 is 262144."`
	Parallel         int               `yaml:"parallel" doc:"Calls under way at once; 0 is 10."`
	AllowAddresses   []string          `yaml:"allow_addresses" doc:"Addresses that may be asked although they are not public, such as 10.1.0.0/16."`
}

// Match recognises an answer: its status is one of these and all of body hold.
type Match struct {
	Status []int       `yaml:"status" doc:"Status codes; without it any of 200 to 299."`
	Body   []Condition `yaml:"body" doc:"What must hold about the JSON body."`
}

// Condition is one thing that must hold about a JSON body.
type Condition struct {
	At     string   `yaml:"at" doc:"JSON pointer." required:"true"`
	Equals []string `yaml:"equals" doc:"It is one of these; a placeholder stands for the task's own value."`
	Exists *bool    `yaml:"exists" doc:"Something other than null is there, or not."`
	Empty  bool     `yaml:"empty" doc:"An empty list, object or text is there."`
}

// Runtime is the language whose Powertools wrote a table.
type Runtime string

func (Runtime) values() []string { return []string{"python", "typescript"} }

// UnmarshalText reads one of the closed set.
func (r *Runtime) UnmarshalText(b []byte) error { return choose(r, b) }

// MarshalText writes the word.
func (r Runtime) MarshalText() ([]byte, error) { return []byte(r), nil }

// Input is what a worker made idempotent.
type Input string

func (Input) values() []string { return []string{"record", "event", "body"} }

// UnmarshalText reads one of the closed set.
func (i *Input) UnmarshalText(b []byte) error { return choose(i, b) }

// MarshalText writes the word.
func (i Input) MarshalText() ([]byte, error) { return []byte(i), nil }

// Header is the value of an HTTP header. Only what cannot be a secret is shown.
type Header string

var (
	// A secret's place, after the word of its scheme at most: whatever else
	// stood before it could be a part of the secret.
	headerVariable = regexp.MustCompile(`^([A-Za-z-]{1,20}[ =])?env:[A-Za-z_][A-Za-z0-9_]*$`)
	headerHarmless = regexp.MustCompile(`^([a-z]+/[a-z0-9.+*-]+|[0-9]{4}-[0-9]{2}-[0-9]{2}|v?[0-9.]{1,8})$`)
	headerSecret   = regexp.MustCompile(`(?i)auth|cookie|token|secret|key|pass|sign|credential|session`)
)

// UnmarshalText reads any text; validation knows the header's name.
func (h *Header) UnmarshalText(b []byte) error {
	*h = Header(b)
	return nil
}

// MarshalText writes the name of a variable, a media type or a version, and
// hides anything else.
func (h Header) MarshalText() ([]byte, error) {
	if h == "" || headerVariable.MatchString(string(h)) || headerHarmless.MatchString(string(h)) {
		return []byte(h), nil
	}
	return []byte("hidden"), nil
}

// Template is a URL with placeholders.
type Template string

// UnmarshalText reads any text.
func (t *Template) UnmarshalText(b []byte) error {
	*t = Template(b)
	return nil
}

// MarshalText hides what the query says besides placeholders: it may be a key.
func (t Template) MarshalText() ([]byte, error) {
	before, query, has := strings.Cut(string(t), "?")
	if !has {
		return []byte(t), nil
	}
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, said := strings.Cut(pair, "=")
		if said && !onlyPlaceholder.MatchString(value) {
			pair = name + "=hidden"
		}
		out = append(out, pair)
	}
	return []byte(before + "?" + strings.Join(out, "&")), nil
}

var onlyPlaceholder = regexp.MustCompile(`^\{[A-Za-z]+\}$`)

// Kind is the key of the one kind that is set; empty if there is none.
func (s Store) Kind() string {
	if kinds := s.kinds(); len(kinds) == 1 {
		return kinds[0]
	}
	return ""
}

func (s Store) kinds() []string {
	var out []string
	for i, set := range []bool{s.Powertools != nil, s.LangGraph != nil, s.DynamoDBTable != nil, s.OpenAIAgents != nil, s.StepFunctions != nil, s.Reconcile != nil} {
		if set {
			out = append(out, storeKinds[i])
		}
	}
	return out
}

// ProvesNone says whether the store can ever prove that nothing happened.
func (s Store) ProvesNone() bool {
	switch {
	case s.DynamoDBTable != nil:
		return s.DynamoDBTable.None != nil && len(s.DynamoDBTable.None.Status) > 0
	case s.OpenAIAgents != nil:
		return s.OpenAIAgents.SavedBeforeEachCall != ""
	case s.Reconcile != nil:
		return s.Reconcile.Authoritative
	}
	return s.StepFunctions != nil
}

// Place says what is read, for people.
func (s Store) Place() string {
	switch {
	case s.Powertools != nil:
		return "table " + s.Powertools.Table
	case s.LangGraph != nil:
		return "table " + s.LangGraph.Table
	case s.DynamoDBTable != nil:
		return "table " + s.DynamoDBTable.Table
	case s.OpenAIAgents != nil:
		return "table " + s.OpenAIAgents.Table
	case s.StepFunctions != nil:
		return "execution " + orDefault(s.StepFunctions.Execution, "{runId}")
	case s.Reconcile != nil:
		before, _, _ := strings.Cut(string(s.Reconcile.URL), "?")
		return before
	}
	return ""
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
