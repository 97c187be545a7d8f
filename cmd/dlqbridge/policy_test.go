package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

type verdict struct{ Cause, Lane, Action, Rule, CauseRule string }

type policyTestDoc struct {
	Since           *string
	Tested, Changed int
	Changes         []struct {
		ID, Route string
		File      *string
		From, To  verdict
	}
	Summary []struct {
		From, To verdict
		Count    int
	}
	Skipped map[string]int
}

// withRules writes a configuration beside the bench's and returns its name.
func (b *bench) withRules(name, text string) string {
	b.t.Helper()
	file := filepath.Join(filepath.Dir(b.config), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

const schemaRule = `
classify:
  - {when: 'failure.code == "E_SCHEMA_17"', cause: invalid_input}
  - {when: '"team" in attributes && attributes["team"] == "bills"', cause: business_rule}
`

func TestPolicyTestSaysWhatNewRulesWouldChange(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, row{"cause": "", "code": "E_OLD"}, "long-ago")
		time.Sleep(8 * 24 * time.Hour) // virtual
		ids := b.tasks(intent, row{"cause": "", "code": "E_SCHEMA_17"}, "open", "closed", "corrected")
		b.tasks(intent, nil, "other", "again")
		b.triage(0, "reject", ids["closed"], "--reason", "x")
		b.triage(0, "classify", ids["corrected"], "--cause", "permission", "--reason", "x")
		if _, err := b.sqs.SendMessage(b.t.Context(), &sqs.SendMessageInput{QueueUrl: b.url("orders-dlq"), MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
			"team": {DataType: aws.String("String"), StringValue: aws.String("bills")}, "agent.task.id": {DataType: aws.String("String"), StringValue: aws.String("by-attribute")},
		}}); err != nil {
			t.Fatal(err)
		}
		b.ok("intake", "--until-empty")
		// One was sent and died again: its number of redrives counts from then.
		run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		if run.Sent != 2 {
			t.Fatalf("got %+v", run)
		}
		b.die("orders")
		b.ok("intake", "--until-empty")
		ids = b.byTask()

		if same := document[policyTestDoc](b, 0, "policy", "test", "--since", "7d"); same.Tested != 6 || same.Changed != 0 || same.Since == nil || same.Changes == nil || same.Summary == nil {
			t.Errorf("by the same rules: got %+v", same)
		}
		version := b.show(ids["open"]).Version
		b.cloud.ForgetRequests()
		file := b.withRules("new.yaml", oneRoute+schemaRule)
		got := document[policyTestDoc](b, 0, "--config", file, "policy", "test", "--since", "7d")
		if got.Tested != 6 || got.Changed != 3 || len(got.Changes) != 3 || len(got.Summary) != 2 {
			t.Fatalf("got %+v", got)
		}
		to := map[string]verdict{}
		for _, c := range got.Changes {
			to[c.ID] = c.To
			if c.From.Cause != "unclassified" {
				t.Errorf("from: got %+v", c)
			}
		}
		for task, want := range map[string]verdict{
			"open":         {"invalid_input", "source_correctable", "repair", "fixable", `classify:rule 1: failure.code == "E_SCHEMA_17"`},
			"closed":       {"invalid_input", "source_correctable", "repair", "fixable", `classify:rule 1: failure.code == "E_SCHEMA_17"`},
			"by-attribute": {"business_rule", "operational_rule", "human_review", "effect_unknown", ""},
		} {
			have := to[ids[task]]
			if want.CauseRule == "" {
				have.CauseRule = ""
			}
			if have != want {
				t.Errorf("%s: got %+v, want %+v", task, have, want)
			}
		}
		for _, r := range b.cloud.Requests("", 0) {
			if strings.Contains(r.Operation, "Put") || strings.Contains(r.Operation, "Update") || strings.Contains(r.Operation, "Write") || strings.Contains(r.Operation, "Delete") {
				t.Errorf("it writes: %s", r.Operation)
			}
		}
		if after := b.show(ids["open"]); after.Version != version || after.Failure.Cause != "unclassified" {
			t.Errorf("it has changed a record: %+v", after)
		}
		if open := document[policyTestDoc](b, 0, "--config", file, "policy", "test", "--since", "7d", "--open", "--route", "orders"); open.Changed != 2 {
			t.Errorf("of open ones: got %+v", open)
		}
		if c := b.ok("--config", file, "policy", "test", "--since", "7d"); !strings.Contains(c.stdout, ids["open"]+"  orders  unclassified") || !strings.Contains(c.stdout, "6 records tested, 3 would be decided otherwise") {
			t.Errorf("got\n%s", c.stdout)
		}
		other := b.withRules("other.yaml", strings.ReplaceAll(oneRoute, "name: orders", "name: elsewhere"))
		if d := document[policyTestDoc](b, 3, "--config", other, "policy", "test", "--since", "7d"); d.Tested != 0 || d.Skipped["route_not_configured"] != 6 {
			t.Errorf("of another route: got %+v", d)
		}
		for _, line := range []string{"policy test", "policy test --since 7d --fixture x", "policy test --since soon", "policy test --since 7d --route oders", "policy test --fixture /nowhere.json", "policy test --fixture " + file} {
			if r := document[refused](b, 2, strings.Fields(line)...); r.Error.Code != "usage" {
				t.Errorf("%s: got %+v", line, r)
			}
		}
	})
}

// A rule of the route and one of all routes are told apart, each by its place in
// the configuration.
func TestRulesAreNamedAsTheConfigurationHasThem(t *testing.T) {
	config := strings.Replace(oneRoute, "stores: [message, ledger]", "classify: [{when: 'failure.code == \"E_OWN\"', cause: permission}]", 1) +
		"classify: [{when: 'failure.code == \"E_NONE\"', cause: timeout}, {when: 'failure.code == \"E_ALL\"', cause: invalid_input}]\n"
	inBubble(t, config, []string{"orders"}, func(b *bench) {
		own := b.tasks(intent, row{"cause": "", "code": "E_OWN"}, "own")["own"]
		all := b.tasks(intent, row{"cause": "", "code": "E_ALL"}, "all")["all"]
		for id, want := range map[string]string{
			own: `by the route's own rule 1: failure.code == "E_OWN"`, all: `by rule 2: failure.code == "E_ALL", which the configuration has for all routes`,
		} {
			if text := b.ok("records", "explain", id).stdout; !strings.Contains(text, want) {
				t.Errorf("got\n%s\nwant %s", text, want)
			}
		}
		got := document[policyTestDoc](b, 0, "--config", b.withRules("plain.yaml", oneRoute), "policy", "test", "--since", "1h")
		rules := map[string]string{}
		for _, c := range got.Changes {
			rules[c.ID] = c.From.CauseRule
		}
		if rules[own] != `route:rule 1: failure.code == "E_OWN"` || rules[all] != `classify:rule 2: failure.code == "E_ALL"` {
			t.Errorf("got %v", rules)
		}
	})
}

// A case becomes a test: what was exported is decided again without a cloud.
func TestExportedCaseIsATest(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		secret := "AKIAIOSFODNN7EXAMPLE"
		text, err := json.Marshal(row{"v": 1, "task": "t-1", "type": "bill", "code": "E_SCHEMA_17", "msg": "refused with password=hunter2222"})
		if err != nil {
			t.Fatal(err)
		}
		attributes := contextAttribute(string(text))
		attributes["blob"] = types.MessageAttributeValue{DataType: aws.String("Binary"), BinaryValue: []byte{0xff, 0, 1}}
		if _, err := b.sqs.SendMessage(b.t.Context(), &sqs.SendMessageInput{QueueUrl: b.url("orders-dlq"), MessageBody: aws.String(`{"aws":"` + secret + `"}`), MessageAttributes: attributes}); err != nil {
			t.Fatal(err)
		}
		b.ledger("t-1", "task", intent)
		b.ok("intake", "--until-empty")
		id := b.byTask()["t-1"]
		b.triage(0, "assign", id, "--owner", "ops", "--reason", "with token=abcdefghijklmnopqrstuvwxyz123456")

		scrubbed := b.ok("records", "export", id, "--fixture").stdout
		for _, leaked := range []string{secret, "hunter2222", "abcdefghijklmnopqrstuvwxyz123456"} {
			if strings.Contains(scrubbed, leaked) {
				t.Errorf("%s is in the fixture", leaked)
			}
		}
		if !strings.Contains(scrubbed, `"withheld": 3`) {
			t.Errorf("bytes that are no text are in it:\n%s", scrubbed)
		}
		whole := b.ok("records", "export", id, "--fixture", "--unscrubbed").stdout
		if !strings.Contains(whole, secret) || !strings.Contains(whole, `"base64": "/wAB"`) {
			t.Errorf("not whole:\n%s", whole)
		}
		if b.ok("records", "export", id).stdout != scrubbed {
			t.Error("without --fixture it is another text")
		}

		dir := filepath.Dir(b.config)
		var files []string
		for name, text := range map[string]string{"scrubbed.json": scrubbed, "whole.json": whole} {
			files = append(files, b.withRules(name, text))
		}
		b.cloud.ForgetRequests()
		if d := document[policyTestDoc](b, 0, "policy", "test", "--fixture", strings.Join(files, ",")); d.Tested != 2 || d.Changed != 0 {
			t.Errorf("got %+v", d)
		}
		changed := document[policyTestDoc](b, 1, "--config", b.withRules("new.yaml", oneRoute+schemaRule), "policy", "test", "--fixture", filepath.Join(dir, "scrubbed.json"))
		if len(changed.Changes) != 1 || changed.Changes[0].To.Cause != "invalid_input" || changed.Changes[0].File == nil {
			t.Errorf("got %+v", changed)
		}
		if n := len(b.cloud.Requests("", 0)); n != 0 {
			t.Errorf("%d calls to the cloud", n)
		}
		// Several files, as a shell's glob gives them, and what a person wants of one.
		if d := document[policyTestDoc](b, 0, append([]string{"policy", "test", "--fixture"}, files...)...); d.Tested != 2 || d.Changed != 0 {
			t.Errorf("several files: got %+v", d)
		}
		if c := b.want(2, "policy", "test", "--since", "7d", files[0]); !strings.Contains(c.stderr, "say what to test") {
			t.Errorf("both: %s", c.stderr)
		}
		var wish map[string]any
		if err := json.Unmarshal([]byte(scrubbed), &wish); err != nil {
			t.Fatal(err)
		}
		for _, w := range []struct {
			code   int
			expect row
		}{{0, row{"cause": "invalid_input"}}, {0, row{"action": "repair"}}, {1, row{"cause": "invalid_input", "action": "retry"}}, {2, row{}}} {
			wish["expect"] = w.expect
			text, err := json.Marshal(wish)
			if err != nil {
				t.Fatal(err)
			}
			b.want(w.code, "--config", filepath.Join(dir, "new.yaml"), "policy", "test", b.withRules("wish.json", string(text)))
		}
		b.withRules("broken.json", `{"form":"dlqbridge/fixture@9"}`)
		if c := b.want(2, "policy", "test", "--fixture", filepath.Join(dir, "broken.json")); !strings.Contains(c.stderr, "its form is") {
			t.Errorf("got %s", c.stderr)
		}
	})
}
