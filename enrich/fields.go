package enrich

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// kind is how a field's text is read.
type kind int

const (
	kindName    kind = iota // a short text for people
	kindID                  // an id that must stay distinct
	kindMessage             // an error text
	kindTime
	kindCount
	kindEffect
	kindCause
)

// field is one canonical fact with the places where it is found without any
// configuration, in order: key of agent.ctx, flat attribute agent.<attr>, agent
// object in the body, then the well-known spellings.
type field struct {
	name  string
	kind  kind
	key   string
	attr  string
	known []string // selectors
}

// fields is the table of canonical names with the well-known spellings of the
// frameworks people use; what only an envelope of theirs can hold is told by
// its file. What names a delivery or an enqueue (SQS message id,
// deduplication id, receive count, Celery's id after a manual retry) is not an
// idempotency key or an agent attempt and stands nowhere in those rows.
var fields = []field{
	{name: "taskId", kind: kindID, key: "task", attr: "task.id", known: []string{
		"attr:agent_task_id", "attr:taskId", "attr:task_id", "attr:x-task-id", "attr:ce-id",
		"body:/taskId", "body:/task_id", "body:/task/id", "body:/job_id", "body:/uuid", selectorCloudEvent, "body:/jid",
	}},
	{name: "runId", kind: kindID, key: "run", attr: "run.id", known: []string{
		"attr:runId", "attr:run_id",
		"body:/runId", "body:/run_id", "body:/configurable/thread_id", "body:/thread_id", "body:/workflow_id",
		"body:/executionArn", "body:/conversation_id",
	}},
	{name: "taskType", kind: kindName, key: "type", attr: "task.type", known: []string{
		"attr:task_type", "attr:ce-type",
		"body:/taskType", "body:/type", "body:/job_class", "body:/displayName", "body:/detail-type",
	}},
	{name: "tenant", kind: kindID, key: "tenant", attr: "tenant", known: []string{
		"attr:tenant", "attr:tenant_id", selectorFairGroup, "body:/tenantId", "body:/tenant_id", selectorAccount,
	}},
	{name: "idempotencyKey", kind: kindID, key: "idem", attr: "idempotency_key", known: []string{
		"attr:idempotency-key", "attr:Idempotency-Key",
		"body:/idempotencyKey", "body:/idempotency_key", "body:/input/idempotency_key",
	}},
	{name: "attempts", kind: kindCount, key: "n", attr: "attempt", known: []string{
		"body:/attempt",
	}},
	{name: "maxAttempts", kind: kindCount, key: "max", attr: "attempt.max"},
	{name: "deadline", kind: kindTime, key: "dl", attr: "deadline"},
	{name: "validUntil", kind: kindTime, key: "vu", attr: "valid_until"},
	{name: "effect", kind: kindEffect, key: "effect", attr: "effect"},
	{name: "checkpoint", kind: kindID, key: "ckpt", attr: "checkpoint"},
	{name: "cause", kind: kindCause, key: "cause", attr: "cause"},
	{name: "code", kind: kindName, key: "code", attr: "error.code", known: []string{
		"attr:agent.error.type", "attr:ERROR_CODE",
		"body:/error/code", "body:/error/type", "body:/errorCode", "body:/responsePayload/errorType", "body:/exception",
	}},
	{name: "message", kind: kindMessage, key: "msg", attr: "error.message", known: []string{
		"attr:ErrorMessage", "attr:ERROR_MESSAGE", "attr:CloudPubSubDeadLetterSourceDeliveryErrorMessage",
		"body:/error/message", "body:/errorMessage", "body:/responsePayload/errorMessage",
	}},
	{name: "step", kind: kindName, key: "step", attr: "step"},
	{name: "tool", kind: kindName, key: "tool", attr: "tool"},
	{name: "dependency", kind: kindName, key: "dep", attr: "dependency"},
	{name: "versions.agent", kind: kindName, key: "av", attr: "versions.agent"},
	{name: "versions.model", kind: kindName, key: "mv", attr: "versions.model"},
	{name: "versions.prompt", kind: kindName, key: "pv", attr: "versions.prompt"},
	{name: "versions.workflow", kind: kindName, key: "wv", attr: "versions.workflow"},
	{name: "versions.policy", kind: kindName, key: "polv", attr: "versions.policy"},
	{name: "trace", kind: kindName, known: []string{
		"attr:traceparent", "attr:googclient_traceparent", "sys:googclient_traceparent", selectorDatadog, "sys:AWSTraceHeader", "body:/traceparent", "body:/trace",
	}},
}

// FieldNames lists the fields that Route.Fields may name.
func FieldNames() []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return out
}

// Some built-in selectors look at more than their text says.
const (
	// SelectorCloudEvent is /id, but only of a body that is a CloudEvent: any
	// other "id" may name anything.
	selectorCloudEvent = "body:/id"
	// SelectorFairGroup is the group id of a standard queue, where the fair
	// queues' documentation defines it as the tenant. On FIFO it is an order.
	selectorFairGroup = "sys:MessageGroupId"
	// SelectorAccount is usually the tenant's, and may be another one.
	selectorAccount = "body:/account_id"
	// SelectorDatadog is a JSON text in one attribute.
	selectorDatadog = "attr:_datadog"
)

// place is where a selector looks.
type place int

const (
	placeContext place = iota // a key of the attribute agent.ctx
	placeAgent                // the agent object of the body
	placeAttr
	placeSystem
	placeBody
	placeCloudEvent
	placeFairGroup
	placeDatadog
	placeTold       // what an envelope holds
	placeExpression // an expression over the body
)

// selector is one place with its name as it is stored in provenance.
type selector struct {
	text  string
	place place
	name  string     // attribute or system attribute
	path  []string   // key of agent.ctx
	paths [][]string // body pointers; the first that has a value
	// search is the compiled expression.
	search func(json []byte) (string, bool)
}

// fieldSelectors is a field with its selectors in order.
type fieldSelectors struct {
	field
	selectors []selector
}

// compileFields puts a route's selectors before the built-in ones.
func compileFields(own map[string][]string, compile CompileExpression) ([]fieldSelectors, error) {
	for name := range own {
		if !slices.Contains(FieldNames(), name) {
			return nil, fmt.Errorf("fields: %q is not a field; the fields are %s", name, strings.Join(FieldNames(), ", "))
		}
	}
	out := make([]fieldSelectors, 0, len(fields))
	for _, f := range fields {
		fs := fieldSelectors{field: f}
		for _, text := range own[f.name] {
			s, err := parseSelector(text, compile)
			if err != nil {
				return nil, fmt.Errorf("fields: %s: %w", f.name, err)
			}
			fs.selectors = append(fs.selectors, s)
		}
		fs.selectors = append(fs.selectors, f.builtIn()...)
		out = append(out, fs)
	}
	return out, nil
}

// selectorForms are what a selector may look like.
const selectorForms = "write attr:NAME, sys:NAME, body:/json/pointer or jmespath:EXPRESSION"

// parseSelector reads one selector; body pointers are those of RFC 6901.
func parseSelector(text string, compile CompileExpression) (selector, error) {
	form, arg, ok := strings.Cut(text, ":")
	if !ok || arg == "" {
		return selector{}, fmt.Errorf("selector %q: %s", text, selectorForms)
	}
	switch form {
	case "attr":
		return selector{text: text, place: placeAttr, name: arg}, nil
	case "sys":
		return selector{text: text, place: placeSystem, name: arg}, nil
	case "body":
		path, err := pointer(arg)
		if err != nil {
			return selector{}, fmt.Errorf("selector %q: %w", text, err)
		}
		return selector{text: text, place: placeBody, paths: [][]string{path}}, nil
	case "jmespath":
		if compile == nil {
			return selector{}, fmt.Errorf("selector %q: JMESPath is not available here; body:/json/pointer finds most values", text)
		}
		search, err := compile(arg)
		if err != nil {
			return selector{}, fmt.Errorf("selector %q: %w", text, err)
		}
		return selector{text: text, place: placeExpression, search: search}, nil
	}
	return selector{}, fmt.Errorf("selector %q: %q is not a form; %s", text, form, selectorForms)
}

// maxPointer bounds a pointer's depth: each level is read once more.
const maxPointer = 32

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

func pointer(s string) ([]string, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, errors.New("a JSON pointer starts with /")
	}
	path := strings.Split(s[1:], "/")
	if len(path) > maxPointer {
		return nil, fmt.Errorf("deeper than %d levels", maxPointer)
	}
	for i, p := range path {
		path[i] = pointerEscapes.Replace(p)
	}
	return path, nil
}

// builtIn compiles the selectors of the table.
func (f field) builtIn() []selector {
	var out []selector
	if f.key != "" {
		out = append(out, selector{text: "attr:" + contextAttribute, place: placeContext, path: []string{f.key}})
	}
	if f.attr != "" {
		out = append(out,
			selector{text: "attr:agent." + f.attr, place: placeAttr, name: "agent." + f.attr},
			selector{text: "body:/agent/" + f.key, place: placeAgent, paths: [][]string{
				{"agent", f.key}, {"agent", f.attr}, append([]string{"agent"}, strings.Split(f.attr, ".")...),
			}})
	}
	out = append(out, selector{place: placeTold})
	for _, text := range f.known {
		s, err := parseSelector(text, nil)
		if err != nil { // the table above is wrong: a programmer's mistake
			panic(err)
		}
		switch text {
		case selectorCloudEvent:
			s.place = placeCloudEvent
		case selectorFairGroup:
			s.place = placeFairGroup
		case selectorDatadog:
			s.place = placeDatadog
		}
		out = append(out, s)
	}
	return out
}
