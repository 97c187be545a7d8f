package config_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t *testing.T, text string, env, flags map[string]string) (config.Config, error) {
	t.Helper()
	return config.Load(config.Source{
		File:     "dlqbridge.yaml",
		Env:      func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Flags:    flags,
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil },
	})
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryProblemIsReportedAtOnceWithItsPlace(t *testing.T) {
	_, err := load(t, read(t, "wrong.yaml"), nil, nil)
	if !errors.Is(err, config.ErrConfig) {
		t.Fatalf("got %v, want ErrConfig", err)
	}
	golden(t, "wrong.golden", []byte(err.Error()+"\n"))
}

func TestSampleIsRead(t *testing.T) {
	c, err := load(t, read(t, "sample.yaml"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	orders, ok := c.Route("orders")
	if !ok || !orders.Kit || orders.Pollers == 0 || time.Duration(orders.MaxRun) != 15*time.Minute {
		t.Errorf("orders: %+v", orders)
	}
	invoices, _ := c.Route("invoices")
	if time.Duration(invoices.IdempotencyWindow) != 24*time.Hour || invoices.Outcome != config.OutcomeAbsence {
		t.Errorf("invoices: %+v", invoices)
	}
	want := dlqbridge.DefaultCausePolicy(dlqbridge.CauseDependencyUnavailable)
	want.Owner, want.TriageWithin, want.AutoAuthorize, want.RedriveBudget = "platform", 4*time.Hour, true, 5
	if diff := cmp.Diff(want, c.Policy(dlqbridge.CauseDependencyUnavailable)); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	for _, cause := range dlqbridge.Causes() {
		if cause == dlqbridge.CauseDependencyUnavailable {
			continue
		}
		if diff := cmp.Diff(dlqbridge.DefaultCausePolicy(cause), c.Policy(cause)); diff != "" {
			t.Errorf("%s was not named and must keep its default (-want +got):\n%s", cause, diff)
		}
	}
}

// What a sample asks for beyond this version is refused, and nothing else of it.
func TestSampleBeyondThisVersion(t *testing.T) {
	_, err := load(t, `
tables: {records: dlqbridge-records, payloads: dlqbridge-payloads, ledger: agent-ledger}
payloads: {vault: "s3://acme-vault?region=us-east-1", retention: 30d}
routes:
  - name: orders
    sqs: {dead_letter_queue: orders-dlq, source_queue: orders}
    effects: mutating
    kit: true
    stores: [message, ledger]
  - name: invoices
    pubsub: {project: acme, dead_letter_subscription: invoices-dead, source_topic: invoices}
causes:
  dependency_unavailable: {owner: platform, triage_within: 4h, auto_authorize: true, redrive_budget: 3}
classify:
  - {when: 'failure.code == "E_SCHEMA_17"', cause: invalid_input}
redrive: {rate: 20/s, max_in_flight: 100, canary: [1, 5, 25, 100], observe_for: 10m, pause_at_recurrence: 0.2}
`, nil, nil)
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Field)
		if !strings.Contains(p.Text, "not in this version") {
			t.Errorf("%s", p)
		}
	}
	if diff := cmp.Diff([]string{"payloads.vault"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	env := map[string]string{"DLQBRIDGE_REDRIVE_RATE": "7/s", "DLQBRIDGE_LISTEN": "127.0.0.1:1", "DLQBRIDGE_REDRIVE_CANARY": "1,5", "DLQBRIDGE_PORT": "tcp://10.0.0.1:80"}
	c, err := load(t, "listen: 127.0.0.1:2\nshards: 4\n", env, map[string]string{"redrive.rate": "9/s"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Redrive.Rate.Count != 9 || c.Listen != "127.0.0.1:1" || c.Shards != 4 || time.Duration(c.Skew) != 30*time.Second {
		t.Errorf("got rate %v, listen %s, shards %d, skew %s", c.Redrive.Rate, c.Listen, c.Shards, c.Skew)
	}
	if diff := cmp.Diff(config.Canary{1, 5}, c.Redrive.Canary); diff != "" {
		t.Error(diff)
	}
	shown := string(c.YAML())
	for _, want := range []string{
		"rate: 9/s # flag --rate", "listen: 127.0.0.1:1 # environment DLQBRIDGE_LISTEN", "shards: 4 # line 2", "skew: 30s # default",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
}

func TestProblemInTheEnvironmentNamesTheVariable(t *testing.T) {
	_, err := load(t, "", map[string]string{"DLQBRIDGE_REDRIVE_LEASE": "soon"}, map[string]string{"redrive.rate": "fast"})
	got := err.Error()
	for _, want := range []string{"redrive.lease: environment DLQBRIDGE_REDRIVE_LEASE: ", "redrive.rate: flag --rate: "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestShownConfigurationReadsBackTheSame(t *testing.T) {
	first, err := load(t, read(t, "sample.yaml"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "effective.golden", first.YAML())
	second, err := load(t, string(first.YAML()), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(first)
	b, _ := json.Marshal(second)
	if diff := cmp.Diff(string(a), string(b)); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func TestSecretsOfURLsAreHidden(t *testing.T) {
	c := config.Default()
	c.Tables.Ledger = "https://user:pa55@example.com/x?token=s3cret"
	text, _ := json.Marshal(c)
	for _, secret := range []string{"pa55", "s3cret"} {
		if strings.Contains(string(text)+string(c.YAML()), secret) {
			t.Errorf("%q is shown", secret)
		}
	}
}

func TestBrokenFilesAreNamed(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"tab":             {"a:\n\tb: 1\n", "dlqbridge.yaml:2: not YAML"},
		"two documents":   {"shards: 1\n---\nshards: 2\n", "a second document"},
		"a list":          {"- a\n", "dlqbridge.yaml:1: here must be keys with values"},
		"a word":          {"hello\n", "here must be keys with values"},
		"merge key":       {"x: &x {a: 1}\ntables:\n  <<: *x\n", "merge keys"},
		"alias to itself": {"routes: &a [*a]\n", "routes"},
		"unknown at root": {"route: []\n", `did you mean "routes"?`},
		"far from any":    {"qqqqqqqqqqq: 1\n", "known are tables, payloads"},
		"dashes":          {"redrive: {max-in-flight: 4}\n", `did you mean "max_in_flight"?`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, row.text, nil, nil)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q in it", err, row.want)
			}
		})
	}
}

func TestEmptyFilesAreFine(t *testing.T) {
	for _, text := range []string{"", "\n# nothing\n", "redrive:\n", "{}"} {
		if _, err := load(t, text, nil, nil); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "90s": 90 * time.Second, "4h": 4 * time.Hour, "1h30m": 90 * time.Minute, "0s": 0, "250ms": 250 * time.Millisecond,
	} {
		got, err := config.ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
		again, err := config.ParseDuration(config.Duration(got).String())
		if err != nil || again != want {
			t.Errorf("%s is written %s, which reads %v, %v", text, config.Duration(got), again, err)
		}
	}
	for _, text := range []string{"", "30", "-4h", "d", "1w", "99999999999999d", "1d-1h", "1.5d"} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	path := filepath.Join("..", "dlqbridge.schema.json")
	if *update {
		if err := os.WriteFile(path, config.Schema(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), string(config.Schema())); diff != "" {
		t.Errorf("write it anew with -update (-committed +current):\n%s", diff)
	}
}

func TestSchemaAgreesWithTheReader(t *testing.T) {
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(config.Schema())))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	effective, err := load(t, read(t, "sample.yaml"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"sample": read(t, "sample.yaml"), "effective": string(effective.YAML()), "nothing": "{}"} {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: the reader takes it, the schema does not: %v", name, err)
		}
	}
	for _, text := range []string{
		"x: 1", "routes: [{name: A, sqs: {dead_letter_queue: q}}]", "routes: [{name: a}]", "routes: [{name: a, sqs: {dead_letter_queue: q}, url: {dead_letter: \"mem://a\", target: \"mem://b\"}}]",
		"routes: [{name: a, pubsub: {project: acme, source_topic: jobs}}]", "routes: [{name: a, pubsub: {project: acme, dead_letter_subscription: dead, source_topic: jobs, fan_out: yes}}]",
		"routes: [{sqs: {dead_letter_queue: q}}]",
		"causes: {timeuot: {}}", "redrive: {rate: fast}", "redrive: {lease: soon}", "log: {format: xml}", "payloads: {vault: x}",
		"routes: [{name: a, sqs: {dead_letter_queue: q}, effects: some}]", "routes: [{name: a, sqs: {dead_letter_queue: q}, stores: [message, X]}]",
		"stores: {a: {}}", "stores: {a: {stepfunctions: {}, langgraph: {table: abc}}}", "stores: {a: {langgraph: {table: abc, threads: x}}}",
		"stores: {A: {stepfunctions: {}}}", "classify: [{when: \"true\", cause: x}]", "classify: [{cause: timeout}]",
	} {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		_, readErr := load(t, text, nil, nil)
		if schemaErr := schema.Validate(value); schemaErr == nil || readErr == nil {
			t.Errorf("%s: schema says %v, reader says %v, want two refusals", text, schemaErr, readErr)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("routes: [{name: a, sqs: {dead_letter_queue: q}}]\n")
	f.Add("redrive: {canary: [1], rate: 1/s}\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := load(t, text, nil, nil)
		if err == nil {
			if _, err := load(t, string(c.YAML()), nil, nil); err != nil {
				t.Errorf("what is shown does not read back: %v\n%s", err, c.YAML())
			}
		}
	})
}
