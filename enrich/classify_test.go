package enrich

import (
	"testing"

	"github.com/dlqbridge/dlqbridge"
)

func TestKnownNamesMeanOneThing(t *testing.T) {
	seen := map[string]dlqbridge.Cause{}
	for cause, names := range knownCodes {
		if !cause.Valid() {
			t.Errorf("%q is not a cause", cause)
		}
		for _, n := range names {
			key := squash(n)
			if other, ok := seen[key]; ok && other != cause {
				t.Errorf("%s means %s and %s", n, cause, other)
			}
			seen[key] = cause
			if got := causeOfCode(n); got != cause {
				t.Errorf("%s: got %s, want %s", n, got, cause)
			}
		}
	}
}

func TestCauseOfCode(t *testing.T) {
	for code, want := range map[string]dlqbridge.Cause{
		// Status codes in the forms people write them.
		"503": dlqbridge.CauseDependencyUnavailable, "HTTP 503": dlqbridge.CauseDependencyUnavailable, "http_503": dlqbridge.CauseDependencyUnavailable,
		"status=429": dlqbridge.CauseDependencyUnavailable, "HTTP/1.1 500": dlqbridge.CauseDependencyUnavailable, "599": dlqbridge.CauseDependencyUnavailable,
		"503 Service Unavailable": dlqbridge.CauseDependencyUnavailable, "504": dlqbridge.CauseTimeout, "408": dlqbridge.CauseTimeout,
		"401": dlqbridge.CausePermission, "403": dlqbridge.CausePermission, "400": dlqbridge.CauseInvalidInput, "404": dlqbridge.CauseInvalidInput,
		"422": dlqbridge.CauseInvalidInput, "409": dlqbridge.CauseBusinessRule, "412": dlqbridge.CauseBusinessRule,
		"200": "", "302": "", "418": "", "600": "", "1404": "",
		// gRPC by name and number.
		"UNAVAILABLE": dlqbridge.CauseDependencyUnavailable, "Unavailable": dlqbridge.CauseDependencyUnavailable, "14": dlqbridge.CauseDependencyUnavailable,
		"DeadlineExceeded": dlqbridge.CauseTimeout, "DEADLINE_EXCEEDED": dlqbridge.CauseTimeout, "4": dlqbridge.CauseTimeout,
		"PERMISSION_DENIED": dlqbridge.CausePermission, "7": dlqbridge.CausePermission, "16": dlqbridge.CausePermission,
		"INVALID_ARGUMENT": dlqbridge.CauseInvalidInput, "3": dlqbridge.CauseInvalidInput, "RESOURCE_EXHAUSTED": dlqbridge.CauseDependencyUnavailable,
		"1": "", "2": "", "12": "", "0": "",
		// Package names, shapes and suffixes.
		"com.amazonaws.dynamodb.v20120810#ThrottlingException": dlqbridge.CauseDependencyUnavailable,
		"botocore.errorfactory.ExpiredTokenException":          dlqbridge.CausePermission,
		"openai.RateLimitError":                                dlqbridge.CauseDependencyUnavailable,
		"requests.exceptions.ConnectTimeout":                   dlqbridge.CauseTimeout,
		"java.net.ConnectException":                            dlqbridge.CauseDependencyUnavailable,
		"agents.exceptions.MaxTurnsExceeded":                   dlqbridge.CausePolicyLimit,
		"ThrottlingException: Rate exceeded":                   dlqbridge.CauseDependencyUnavailable,
		"econnreset":                                           dlqbridge.CauseDependencyUnavailable,
		"States.Timeout":                                       dlqbridge.CauseTimeout,
		// Nothing known.
		"E_SCHEMA_17": "", "Error": "", "": "", "KeyError": "", "NO_RESOURCE": "",
	} {
		if got := causeOfCode(code); got != want {
			t.Errorf("%q: got %q, want %q", code, got, want)
		}
	}
}

func TestCauseOfMessage(t *testing.T) {
	for message, want := range map[string]dlqbridge.Cause{
		"Task timed out after 3.00 seconds":                                   dlqbridge.CauseTimeout,
		"GraphRecursionError: Recursion limit of 25 reached":                  dlqbridge.CausePolicyLimit,
		"Recursion limit of 25 reached without hitting a stop":                dlqbridge.CausePolicyLimit,
		"dial tcp 10.0.0.1:443: connect: connection refused":                  dlqbridge.CauseDependencyUnavailable,
		"Request failed with status code 503":                                 dlqbridge.CauseDependencyUnavailable,
		"Request failed with status code 404":                                 dlqbridge.CauseInvalidInput,
		"User: x is not authorized to perform: sqs:SendMessage":               dlqbridge.CausePermission,
		"rpc error: code = DeadlineExceeded desc = context deadline exceeded": dlqbridge.CauseTimeout,
		"AI_NoSuchToolError: no tool refund":                                  dlqbridge.CauseOutputContract,
		"order 503 could not be found":                                        "",
		"something broke":                                                     "",
		"":                                                                    "",
	} {
		if got, _ := causeOfMessage(message); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
}

func TestSignatureGroupsWhatIsTheSame(t *testing.T) {
	task := dlqbridge.Task{TaskType: "charge", Versions: dlqbridge.Versions{Workflow: "3"}}
	of := func(code, message string) string {
		return Signature(task, dlqbridge.Failure{Step: "0003#charge", Dependency: "payments", Code: code, Message: message})
	}
	same := [][2]string{
		{"order 17 not found", "order 18 not found"},
		{"order 4bf92f35-77b3-4da6-a3ce-929d0e0e4736 failed at 2026-11-30T12:00:00Z", "order 00000000-77b3-4da6-a3ce-929d0e0e4736 failed at 2026-11-30T12:00:01.5+01:00"},
		{`file "a.pdf" unreadable`, `file "b.pdf" unreadable`},
		{"open /tmp/a/b.txt: no such file", "open /var/x/c.txt: no such file"},
		{"GET https://a/b failed", "GET https://a/c failed"},
		{"hash deadbeefdeadbeef is wrong", "hash 0123456789abcdef is wrong"},
		{"ORDER ord-17 failed", "order ord-18  failed"},
	}
	for _, m := range same {
		if of("", m[0]) != of("", m[1]) {
			t.Errorf("%q and %q differ: %q, %q", m[0], m[1], normalMessage(m[0]), normalMessage(m[1]))
		}
	}
	if of("E1", "a") != of(" e1", "b") {
		t.Error("with a code the message does not matter")
	}
	distinct := []string{of("E1", ""), of("E2", ""), of("", "order not found"), of("", "order not paid"), of("", "e1")}
	other := task
	other.Versions.Workflow = "4"
	distinct = append(distinct, Signature(other, dlqbridge.Failure{Step: "0003#charge", Dependency: "payments", Code: "E1"}),
		Signature(task, dlqbridge.Failure{Step: "0004#mail", Dependency: "payments", Code: "E1"}))
	seen := map[string]bool{}
	for _, s := range distinct {
		if seen[s] {
			t.Errorf("%s stands for two kinds of failure", s)
		}
		seen[s] = true
	}
}

// What the frameworks and clouds that agents run on call a failure.
func TestBuiltInKnowledge(t *testing.T) {
	for cause, codes := range map[dlqbridge.Cause][]string{
		dlqbridge.CausePolicyLimit: {
			"agents.exceptions.MaxTurnsExceeded", "langgraph.errors.GraphRecursionError", "GRAPH_RECURSION_LIMIT", "finish_reason_length", "insufficient_quota",
		},
		dlqbridge.CauseOutputContract: {
			"ModelBehaviorError", "OutputGuardrailTripwireTriggered", "AI_NoSuchToolError", "AI_InvalidToolInputError", "AI_TypeValidationError",
			"AI_NoObjectGeneratedError", "OUTPUT_PARSING_FAILURE", "ToolOutputGuardrailTripwireTriggered",
		},
		dlqbridge.CauseInvalidInput: {
			"InputGuardrailTripwireTriggered", "AI_InvalidPromptError", "context_length_exceeded", "ValidationException", "INVALID_ARGUMENT", "NoSuchKey",
			"request_too_large", "INVALID_JSON",
		},
		dlqbridge.CauseTimeout: {
			"TIMEOUT_TYPE_START_TO_CLOSE", "States.Timeout", "Sandbox.Timedout", "DEADLINE_EXCEEDED", "openai.APITimeoutError", "504",
		},
		dlqbridge.CauseDependencyUnavailable: {
			"overloaded_error", "rate_limit_error", "ThrottlingException", "ModelNotReadyException", "EventAgeExceeded", "CONNECTION_FAILURE", "UNAVAILABLE",
			"RATE_LIMIT_EXCEEDED", "429", "503",
		},
		dlqbridge.CausePermission: {
			"NO_PERMISSIONS", "AccessDeniedException", "IAM_PERMISSION_DENIED", "SERVICE_DISABLED", "API_KEY_INVALID", "AI_LoadAPIKeyError", "ExpiredToken", "401",
		},
		dlqbridge.CauseBusinessRule: {"ConditionalCheckFailedException", "FAILED_PRECONDITION", "card_declined", "409"},
		// They say too little: somebody must look.
		"": {"UserError", "AI_APICallError", "NO_RESOURCE", "SDK_CLIENT_ERROR", "States.TaskFailed", "Runtime.ExitError", "WorkerLostError", "Unhandled"},
	} {
		for _, code := range codes {
			if got := causeOfCode(code); got != cause {
				t.Errorf("%s: got %q, want %q", code, got, cause)
			}
		}
	}
}
