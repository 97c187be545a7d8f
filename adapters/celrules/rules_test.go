package celrules

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
)

var (
	task = dlqbridge.Task{
		TaskID: "t-7", TaskType: "bill", Tenant: "acme", Attempts: new(3),
		Versions: dlqbridge.Versions{Agent: "a1", Model: "m1", Prompt: "p1", Workflow: "w1", Policy: "po1"},
	}
	failure = dlqbridge.Failure{
		Code: "E_SCHEMA_17", Message: "Field amount: expected number, got text", Step: "0003#charge", Tool: "charge_card", Dependency: "payments",
		Phase: "before_call", Cause: dlqbridge.CauseTimeout,
	}
	attributes = map[string]string{"x-shop": "berlin", "agent.task.id": "t-7", "empty": ""}
)

func one(t *testing.T, when string) *Rules {
	t.Helper()
	r, err := Compile([]Rule{{when, dlqbridge.CauseInvalidInput}})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	return r
}

func TestPredicates(t *testing.T) {
	fired, not := Count{Fired: 1}, Count{}
	missing, costly, failed := Count{Missing: 1}, Count{Costly: 1}, Count{Failed: 1}
	for when, want := range map[string]Count{
		`failure.code == "E_SCHEMA_17"`:                                             fired,
		`failure.code == "E_SCHEMA_18"`:                                             not,
		`failure.code.startsWith("E_SCHEMA") && failure.tool == "charge_card"`:      fired,
		`failure.message.matches("(?i)AMOUNT: expected")`:                           fired,
		`failure.message.contains("got text") || failure.message.contains("other")`: fired,
		`failure.step in ["0003#charge", "0004#mail"]`:                              fired,
		`failure.dependency == "payments" && failure.phase != "during_call"`:        fired,
		`failure.cause == "timeout"`:                                                fired,
		`task.type == "bill" && task.tenant == "acme" && task.id == "t-7"`:          fired,
		`task.attempts >= 3`:                                                        fired,
		`task.attempts > 3`:                                                         not,
		`versions.agent + versions.model + versions.prompt + versions.workflow + versions.policy == "a1m1p1w1po1"`: fired,
		`route == "orders"`:                                               fired,
		`!(route in ["orders", "other"])`:                                 not,
		`attributes["x-shop"] == "berlin"`:                                fired,
		`attributes["agent.task.id"] == task.id`:                          fired,
		`"x-shop" in attributes`:                                          fired,
		`"x-none" in attributes && attributes["x-none"] == ""`:            not,
		`attributes.exists(k, k.startsWith("x-") && attributes[k] != "")`: fired,
		`size(attributes) == 3`:                                           fired,
		`true`:                                                            fired,
		"failure.code == \n  'E_SCHEMA_17' // as of the release in May":   fired,
		// What a failure does not have makes a rule silent, not wrong.
		`attributes["x-none"] == "berlin"`:                      missing,
		`task.maxAttempts > 3`:                                  missing,
		`task.maxAttempts > 3 || failure.code == "E_SCHEMA_17"`: fired,
		`task.maxAttempts > 3 && failure.code == "other"`:       not,
		`int(failure.code) > 3`:                                 failed,
		`1 / (task.attempts - 3) > 0`:                           failed,
		// More work than allowed.
		`attributes.exists(a, attributes.exists(b, failure.message.matches("` + strings.Repeat("(a|b)*", 250) + `ZZ")))`: costly,
	} {
		r := one(t, when)
		cause, rule, ok := r.Classify("orders", task, failure, attributes)
		if diff := cmp.Diff([]Count{want}, r.Counts()); diff != "" {
			t.Errorf("%.80s: %s", when, diff)
		}
		if ok != (want.Fired == 1) || rule != 0 || ok && cause != dlqbridge.CauseInvalidInput {
			t.Errorf("%.80s: got %q, %d, %v", when, cause, rule, ok)
		}
	}
}

func TestTheFirstRuleThatIsTrueDecides(t *testing.T) {
	r, err := Compile([]Rule{
		{`attributes["nope"] == "x"`, dlqbridge.CauseCritical},
		{`failure.code == "other"`, dlqbridge.CauseTimeout},
		{`failure.code.startsWith("E_")`, dlqbridge.CauseOutputContract},
		{`true`, dlqbridge.CauseBusinessRule},
	})
	if err != nil {
		t.Fatal(err)
	}
	cause, rule, ok := r.Classify("orders", task, failure, attributes)
	if cause != dlqbridge.CauseOutputContract || rule != 2 || !ok {
		t.Errorf("got %q, %d, %v", cause, rule, ok)
	}
	if got, want := r.Describe(rule), `rule 3: failure.code.startsWith("E_")`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := r.Describe(4) + r.Describe(-1); got != "" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([]Count{{Missing: 1}, {}, {Fired: 1}, {}}, r.Counts()); diff != "" {
		t.Error(diff)
	}
	none, err := Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := none.Classify("orders", task, failure, attributes); ok {
		t.Error("no rules classify something")
	}
}

func TestAttributesThatAreNotAtHand(t *testing.T) {
	for when, uses := range map[string]bool{
		`attributes["a"] == "b"`: true, `size(attributes) == 0`: true, `failure.code == "attributes"`: false, `[1].exists(x, x > 0)`: false,
	} {
		r := one(t, when)
		if r.UsesAttributes() != uses {
			t.Errorf("%s: UsesAttributes is %v", when, r.UsesAttributes())
		}
		_, _, ok := r.Classify("orders", task, failure, nil)
		if uses && (ok || r.Counts()[0].Missing != 1) {
			t.Errorf("%s: fired without attributes: %+v", when, r.Counts())
		}
	}
}

// Each rule that cannot work is an error at the start that says where and what
// to do.
func TestWrongRules(t *testing.T) {
	for when, want := range map[string]string{
		``:                                      "rule 1: when is empty",
		` `:                                     "rule 1: when is empty",
		"\xff":                                  "not valid UTF-8",
		strings.Repeat("a", maxRule+1):          "longer than 4096 characters",
		`failure.code == `:                      "rule 1: line 1:17: Syntax error",
		`failure.code = "x"`:                    "line 1:14: Syntax error: token recognition error at: '= '; compare with ==",
		`failure.code == "x" and true`:          "join predicates with &&",
		`failure.code == "x" & true`:            "join predicates with &&",
		`failure.code == "x" or true`:           "join predicates with ||",
		`not failure.code == "x"`:               "line 1:",
		`failure.code == "x`:                    "a text has no end",
		"true &&\n  failure.cod == 'x'":         "line 2:10: undeclared reference to 'failure.cod' (did you mean 'failure.code'?)",
		`failure.Code == "x"`:                   "(did you mean 'failure.code'?)",
		`code == "x"`:                           "did you mean failure.code?",
		`task.tool == "x"`:                      "did you mean 'task.type'?",
		`nonsense == "x"`:                       "the names are failure.code failure.message",
		`failure.code == 429`:                   "line 1:14: found no matching overload for '_==_' applied to '(string, int)'; a text and a number never compare",
		`task.attempts == "3"`:                  "a text and a number never compare",
		`failure.code.foo()`:                    "line 1:17: undeclared reference to 'foo'; the usual functions are startsWith",
		`has(failure.code)`:                     `compare it with ""`,
		`failure.code`:                          "line 1:1: the expression is string and not true or false",
		`[true]`:                                "the expression is list(bool) and not true or false",
		`failure.code.matches("(")`:             "patterns are RE2",
		`failure.code.matches("(?=a)")`:         "patterns are RE2",
		`failure.code.matches(failure.message)`: "line 1:29: the pattern of matches is computed",
		`failure.code.matches("a" + attributes["p"])`:                "the pattern of matches is computed",
		`timestamp("yesterday") > timestamp("2026-01-01T00:00:00Z")`: "line 1:11: invalid timestamp argument",
		`[1].exists(a, [1].exists(b, [1].exists(c, a + b + c > 0)))`: "line 1:",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200): "line 1:",
	} {
		_, err := Compile([]Rule{{when, dlqbridge.CauseTimeout}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q", when, err, want)
		}
	}
	_, err := Compile([]Rule{{"true", dlqbridge.CauseTimeout}, {"nope(", dlqbridge.CauseTimeout}, {"true", "nonsense"}})
	for _, want := range []string{"rule 2: line 1:6", `rule 3: cause "nonsense" is none; the causes are timeout `} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Compile(make([]Rule, maxRules+1)); err == nil {
		t.Error("too many rules are compiled")
	}
}

// Texts that senders write may be anything; a rule never takes the intake down.
func TestHostileFailures(t *testing.T) {
	r, err := Compile([]Rule{
		{`failure.message.matches("^(a+)+$")`, dlqbridge.CauseTimeout},
		{`attributes.all(k, attributes.exists(j, attributes[j].contains(attributes[k]) && failure.message.contains(k + j)))`, dlqbridge.CauseTimeout},
	})
	if err != nil {
		t.Fatal(err)
	}
	many := map[string]string{}
	for i := range 2000 {
		many[strings.Repeat("k", i)] = strings.Repeat("v", 100)
	}
	_, rule, ok := r.Classify("orders", task, dlqbridge.Failure{Message: strings.Repeat("a", 1<<20) + "\xff!"}, many)
	if ok {
		t.Errorf("rule %d fired", rule)
	}
	for i, c := range r.Counts() {
		if c.Costly != 1 {
			t.Errorf("rule %d was not stopped: %+v", i+1, c)
		}
	}
}

func TestTheClockStopsLoops(t *testing.T) {
	r := one(t, `attributes.all(k, attributes[k] == "v")`)
	r.timeLimit = -time.Second // is over before it begins
	many := map[string]string{}
	for i := range 500 {
		many[strings.Repeat("k", i)] = "v"
	}
	if _, _, ok := r.Classify("orders", task, failure, many); ok || r.Counts()[0].Costly != 1 {
		t.Errorf("fired %v, %+v", ok, r.Counts())
	}
}

func TestConcurrentUse(t *testing.T) {
	r := one(t, `failure.message.contains("amount") && attributes.exists(k, k == "x-shop")`)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				if _, _, ok := r.Classify("orders", task, failure, attributes); !ok {
					t.Error("did not fire")
				}
			}
		})
	}
	wait.Wait()
	if got := r.Counts()[0].Fired; got != 800 {
		t.Errorf("fired %d times", got)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`failure.code == "E17" && attributes["a"].matches("b+")`, "c", "m")
	f.Add(`attributes.exists(k, k.size() > task.attempts)`, "", "\xff")
	f.Add(`[1,2,3].map(x, x * 2).all(y, y > 0) ? true : has(attributes.a)`, "a", "b")
	f.Add(`duration("1s") > duration("1ms") && b'abc' != b"" && 1u < 2u`, "a", "b")
	f.Fuzz(func(t *testing.T, when, code, message string) {
		r, err := Compile([]Rule{{when, dlqbridge.CauseTimeout}})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "rule 1: ") {
				t.Errorf("%q does not name the rule", err)
			}
			return
		}
		_, _, first := r.Classify("orders", task, dlqbridge.Failure{Code: code, Message: message}, map[string]string{code: message})
		_, _, again := r.Classify("orders", task, dlqbridge.Failure{Code: code, Message: message}, map[string]string{code: message})
		if c := r.Counts()[0]; first != again && c.Costly == 0 {
			t.Errorf("%q answers %v and then %v", when, first, again)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	r, err := Compile([]Rule{
		{`failure.code == "E_SCHEMA_99"`, dlqbridge.CauseInvalidInput},
		{`failure.message.matches("quota .* exceeded")`, dlqbridge.CausePolicyLimit},
		{`task.tenant == "other" && failure.tool == "mail"`, dlqbridge.CauseBusinessRule},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Classify("orders", task, failure, nil)
	}
}
