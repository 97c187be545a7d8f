package enrich_test

import (
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/celrules"
	"github.com/dlqbridge/dlqbridge/adapters/jmespathsel"
	"github.com/dlqbridge/dlqbridge/enrich"
)

var _ enrich.Rules = (*celrules.Rules)(nil)

// The order: critical whatever else is said, the route's own rules, what was
// stated, what codes mean.
func TestOwnRulesGoBetweenCriticalAndStated(t *testing.T) {
	rules, err := celrules.Compile([]celrules.Rule{
		{When: `failure.code == "E17"`, Cause: dlqbridge.CauseBusinessRule},
		{When: `attributes["x-shop"] == "test"`, Cause: dlqbridge.CauseInvalidInput},
	})
	must(t, err)
	e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Rules: rules})
	for _, c := range []struct {
		ctx, shop string
		cause     dlqbridge.Cause
		rule      string
	}{
		{`{"task":"t","cause":"critical","code":"E17"}`, "", dlqbridge.CauseCritical, "critical:message"},
		{`{"task":"t","cause":"timeout","code":"E17"}`, "", dlqbridge.CauseBusinessRule, `route:rule 1: failure.code == "E17"`},
		{`{"task":"t","cause":"timeout"}`, "test", dlqbridge.CauseInvalidInput, "route:rule 2"},
		{`{"task":"t","cause":"timeout"}`, "", dlqbridge.CauseTimeout, "stated:message"},
		{`{"task":"t","code":"503"}`, "", dlqbridge.CauseDependencyUnavailable, "code:503"},
	} {
		l := sqsLetter("x", text("agent.ctx", c.ctx))
		if c.shop != "" {
			l.Payload = l.Payload.With(text("x-shop", c.shop))
		}
		a := e.Extract(l)
		j := e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a, Payload: &l.Payload}})[0]
		if f := j.Context.Failure; f.Cause != c.cause || !strings.HasPrefix(f.Rule, c.rule) {
			t.Errorf("%s: got %s by %q, want %s by %q", c.ctx, f.Cause, f.Rule, c.cause, c.rule)
		}
	}
	if !e.NeedsPayload() || plain(t).NeedsPayload() {
		t.Error("rules about attributes need the payload, and nothing else does")
	}
}

// A wrong selector is an error at the start, with position; a right one keeps
// the digits of big ids.
func TestJMESPathSelectors(t *testing.T) {
	compile := func(expression string) (func([]byte) (string, bool), error) {
		s, err := jmespathsel.Compile(expression)
		if err != nil {
			return nil, err
		}
		return s.Select, nil
	}
	route := enrich.Route{Name: "orders", Place: arn("orders-dlq"), JMESPath: compile, Fields: map[string][]string{"taskId": {"jmespath:orders[?main].id | [0]"}}}
	a := enricher(t, route).Extract(sqsLetter(`{"orders":[{"id":1},{"id":616581622363398142,"main":true}]}`))
	if a.Task.TaskID != "616581622363398142" {
		t.Errorf("got %q", a.Task.TaskID)
	}
	route.Fields = map[string][]string{"taskId": {"jmespath:orders["}}
	if _, err := enrich.New(route); err == nil || !strings.Contains(err.Error(), "taskId") {
		t.Errorf("got %v", err)
	}
}

// Whoever saw it fail may say that the same again cannot work.
func TestNonRetryableIsNotRetried(t *testing.T) {
	e := enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Effects: dlqbridge.EffectsNone})
	for body, want := range map[string]dlqbridge.Action{
		`{"taskId":"t","failure":{"message":"m","timeoutFailureInfo":{"timeoutType":"TIMEOUT_TYPE_HEARTBEAT"}}}`:                                                     dlqbridge.ActionRetry,
		`{"taskId":"t","failure":{"message":"m","timeoutFailureInfo":{"timeoutType":"TIMEOUT_TYPE_HEARTBEAT"},"cause":{"serverFailureInfo":{"nonRetryable":true}}}}`: dlqbridge.ActionRepair,
	} {
		a := e.Extract(sqsLetter(body))
		j := e.Judge(t.Context(), start, []enrich.Subject{{Arrival: &a}})[0]
		if j.Decision.Action != want || j.Context.Failure.Cause != dlqbridge.CauseTimeout {
			t.Errorf("%s: got %s for %s", body, j.Decision.Action, j.Context.Failure.Cause)
		}
	}
}
