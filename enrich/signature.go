package enrich

import (
	"regexp"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// SignatureRule is the version of the rules below. Whoever changes what a
// signature is made of raises it, and `records regroup` then moves the records
// that were signed by older rules. Holds and mutes name signatures, so the
// change must be said to those who have some.
const SignatureRule = 1

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
// the longest forms first.
var variable = regexp.MustCompile(strings.Join([]string{
	// Quoted texts; an apostrophe within a word opens none.
	`"[^"]*"`, `\B'[^']*'\B`, "`[^`]*`",
	// URLs, mail addresses.
	`\b[a-zA-Z][a-zA-Z0-9+.-]*://\S+`,
	`\b[\w.+%-]+@[\w-]+(?:\.[\w-]+)*`,
	// Paths: of at least two parts, or one from the root, or with an extension.
	`(?:\b[A-Za-z]:)?[\w.~-]*(?:[/\\][\w.@+%~-]+){2,}[/\\]?`,
	`\B[/\\][\w.@+%~-]+`,
	`\b[\w-]+[/\\][\w-]+\.\w{1,5}\b`,
	// Dates in words, then all that has digits in it: times, UUIDs, addresses,
	// versions, amounts, ids; and hashes that happen to have none.
	`\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:\d{1,2}[ -])?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[ -]\d{1,4}(?:,? \d{4})?(?:[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?)?(?: ?(?:GMT|UTC|Z|[+-]\d{4}))?`,
	`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?`,
	`\b[0-9a-fA-F]{0,3}\d[0-9a-fA-F]{0,3}(?::[0-9a-fA-F]{0,4}){2,7}`,
	`\b[0-9a-fA-F]{8,}\b`,
	`[-+]?\b[\w-]*\d(?:[\w-]|[.,:]\d)*%?`,
}, "|"))

// normalLength is how much of a normalised message is compared: messages are
// stored cut, and where the cut falls depends on the ids before it.
const normalLength = 240

// normalMessage is what stays the same of a message: its first words. 3-digit
// status codes go too: two services that differ in one have a code.
func normalMessage(s string) string {
	s = variable.ReplaceAllString(strings.TrimSuffix(s, ellipsis), "?")
	words := strings.Fields(strings.ToLower(s))
	n := 0
	for i, w := range words {
		if n += len(w) + 1; n > normalLength {
			words = words[:i]
			break
		}
	}
	return strings.Join(words, " ")
}
