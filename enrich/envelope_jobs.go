package enrich

import (
	"strings"
)

// openShoryuken reads the attribute by which Shoryuken names the worker class.
// For ActiveJob that is a wrapper's, and the job's own class is in the body.
func openShoryuken(x *extraction) bool {
	class := x.own("shoryuken_class")
	if class != "" && !strings.Contains(class, "ActiveJob") {
		x.tell("taskType", "attr:shoryuken_class", found{class, class})
	}
	return class != ""
}

// openActiveJob reads a job of Rails (activejob's core and the adapter of
// Shoryuken, read 2026-11-30). Shoryuken overwrites executions from the receive
// count, so there it is the broker's count and not the agent's.
func openActiveJob(x *extraction, l *layer) ([]byte, bool) {
	if !x.tellAt("taskId", l, "job_id") || !x.tellAt("taskType", l, "job_class") {
		return nil, false
	}
	x.factAt("activejob.queue", l.doc, "queue_name")
	x.factAt("activejob.executions", l.doc, "executions")
	x.factAt("activejob.enqueuedAt", l.doc, "enqueued_at")
	if !x.has("shoryuken_class") {
		x.tellAt("attempts", l, "executions")
	}
	// A continuable job carries which of its steps are done.
	if current := l.doc.members([]string{"continuation", "current"}); len(current) > 0 {
		x.factAt("activejob.step", l.doc, "continuation", "current", "0")
		x.tellAt("step", l, "continuation", "current", "0")
	}
	return nil, true
}

// openLaravel reads a job of Laravel's queue. The command is serialised by PHP,
// and perhaps encrypted, so only what stands beside it is read (laravel's
// Queue, SqsQueue and ContextServiceProvider, read 2026-11-30).
func openLaravel(x *extraction, l *layer) ([]byte, bool) {
	if _, ok := l.doc.value([]string{"job"}); !ok || l.doc.raw([]string{"data"})[0] != '{' {
		return nil, false
	}
	x.tellAt("taskId", l, "uuid")
	x.tellAt("taskType", l, "displayName")
	x.tellAt("maxAttempts", l, "maxTries")
	x.factAt("laravel.batch", l.doc, "data", "batchId")
	x.factAt("laravel.retryUntil", l.doc, "retryUntil")
	// The context that Laravel sends along: each value is serialised by PHP.
	for _, f := range []struct{ field, key string }{
		{"tenant", "tenant"}, {"tenant", "tenant_id"}, {"idempotencyKey", "idempotency_key"}, {"runId", "run_id"}, {"trace", "traceparent"},
	} {
		path := []string{"illuminate:log:context", "data", f.key}
		if v, ok := l.doc.value(path); ok {
			if s, ok := phpString(v.text); ok {
				x.tell(f.field, l.path+"body:/"+strings.Join(path, "/"), found{s, v.raw})
			}
		}
	}
	return nil, true
}

// phpString reads a text as PHP serialises it (s:4:"acme";).
func phpString(s string) (string, bool) {
	rest, ok := strings.CutPrefix(s, "s:")
	if !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(rest, `:"`)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, `";`)
}
