package celrules

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/dlqbridge/dlqbridge"
)

const attributesName = "attributes"

// variable is one name that rules know.
type variable struct {
	name string
	kind *cel.Type
	// of returns its value; false is unknown.
	of func(v *view) (any, bool)
}

func text(of func(v *view) string) func(v *view) (any, bool) {
	return func(v *view) (any, bool) { return types.String(of(v)), true }
}

func number(of func(v *view) *int) func(v *view) (any, bool) {
	return func(v *view) (any, bool) {
		n := of(v)
		if n == nil {
			return nil, false
		}
		return types.Int(*n), true
	}
}

var variables = []variable{
	{"failure.code", cel.StringType, text(func(v *view) string { return v.failure.Code })},
	{"failure.message", cel.StringType, text(func(v *view) string { return v.failure.Message })},
	{"failure.step", cel.StringType, text(func(v *view) string { return v.failure.Step })},
	{"failure.tool", cel.StringType, text(func(v *view) string { return v.failure.Tool })},
	{"failure.dependency", cel.StringType, text(func(v *view) string { return v.failure.Dependency })},
	{"failure.phase", cel.StringType, text(func(v *view) string { return v.failure.Phase })},
	{"failure.cause", cel.StringType, text(func(v *view) string { return string(v.failure.Cause) })},
	{"task.id", cel.StringType, text(func(v *view) string { return v.task.TaskID })},
	{"task.type", cel.StringType, text(func(v *view) string { return v.task.TaskType })},
	{"task.tenant", cel.StringType, text(func(v *view) string { return v.task.Tenant })},
	{"task.attempts", cel.IntType, number(func(v *view) *int { return v.task.Attempts })},
	{"task.maxAttempts", cel.IntType, number(func(v *view) *int { return v.task.MaxAttempts })},
	{"versions.agent", cel.StringType, text(func(v *view) string { return v.task.Versions.Agent })},
	{"versions.model", cel.StringType, text(func(v *view) string { return v.task.Versions.Model })},
	{"versions.prompt", cel.StringType, text(func(v *view) string { return v.task.Versions.Prompt })},
	{"versions.workflow", cel.StringType, text(func(v *view) string { return v.task.Versions.Workflow })},
	{"versions.policy", cel.StringType, text(func(v *view) string { return v.task.Versions.Policy })},
	{attributesName, cel.MapType(cel.StringType, cel.StringType), func(v *view) (any, bool) { return v.attributes, v.attributes != nil }},
	{"route", cel.StringType, text(func(v *view) string { return v.route })},
}

var variableByName = func() map[string]variable {
	out := make(map[string]variable, len(variables))
	for _, v := range variables {
		out[v.name] = v
	}
	return out
}()

// view is what one evaluation sees. It answers by name instead of filling a map
// for each letter.
type view struct {
	route      string
	task       dlqbridge.Task
	failure    dlqbridge.Failure
	attributes map[string]string
}

// ResolveName implements interpreter.Activation.
func (v *view) ResolveName(name string) (any, bool) {
	known, ok := variableByName[name]
	if !ok {
		return nil, false
	}
	return known.of(v)
}

// Parent implements interpreter.Activation.
func (*view) Parent() interpreter.Activation { return nil }
