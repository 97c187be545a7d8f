package enrich

import (
	"regexp"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Signature groups failures that have one cause: task type, step, dependency,
// error code (or, without one, what stays the same of its message) and workflow
// version.
func Signature(t dlqbridge.Task, f dlqbridge.Failure) string {
	what := "code:" + strings.ToLower(strings.TrimSpace(f.Code))
	// Lambda's 200 says that the function was called, not how it failed.
	if f.Code == "" || f.Code == "200" {
		what = "message:" + normalMessage(f.Message)
	}
	return "sg_" + dlqbridge.Fingerprint(t.TaskType, f.Step, f.Dependency, what, t.Versions.Workflow)
}

// variable matches what differs from one failure to the next of the same kind,
// the longest forms first: quoted texts, URLs, paths, times, UUIDs, hashes,
// ids with digits in them, numbers.
var variable = regexp.MustCompile(strings.Join([]string{
	`"[^"]*"`, `'[^']*'`, "`[^`]*`",
	`\b[a-zA-Z][a-zA-Z0-9+.-]*://\S+`,
	`(?:[A-Za-z]:)?(?:[/\\][\w.@+-]+){2,}`,
	`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?`,
	`\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b`,
	`\b0x[0-9a-fA-F]+\b`,
	`\b[0-9a-fA-F]{12,}\b`,
	`\b[\w-]*\d[\w-]*\b`,
}, "|"))

// normalMessage is what stays the same of a message: its words. 3-digit status
// codes go too: two services that differ in one have a code.
func normalMessage(s string) string {
	s = variable.ReplaceAllString(s, "?")
	return strings.Join(strings.Fields(strings.ToLower(s)), " ")
}
