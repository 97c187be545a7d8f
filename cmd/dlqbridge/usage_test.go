package main_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/cli"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func TestWrongWordsAreUsageErrors(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		for line, want := range map[string]string{
			"recrods list":                       `did you mean "records"?`,
			"records lst":                        `did you mean "list"?`,
			"triage rejekt x":                    `did you mean "reject"?`,
			"records list --foo":                 "unknown flag: --foo",
			"records list --limit -1":            "--limit cannot be negative",
			"records list --limit many":          "invalid argument",
			"records list extra":                 "unknown command",
			"records list --cause tmout":         `did you mean "timeout"?`,
			"records list --status open":         "known are received",
			"records list -o yaml":               `"yaml" is no output`,
			"records show":                       "name one record",
			"records show order-7":               "is no record id",
			"intake":                             "--until-empty",
			"intake --until-empty --route oders": `did you mean "orders"?`,
			"redrive status":                     "`dlqbridge redrive list` shows them",
			"config --log-level loud":            "known are debug, info, warn, error",
			"help nothing":                       "unknown command",
			"records list --route oders":         `did you mean "orders"?`,
			"records groups --route oders":       `did you mean "orders"?`,
			"records list --signature bogus":     `--signature "bogus" is none`,
			"records groups --signature bogus":   "signatures begin with sg_",
			"records list --after zzz":           "give next of an earlier list",
			"records list --all --after w.eA":    "give next of an earlier list",
			"completion tcsh":                    `unknown command "tcsh"`,
			"redrive pause j_1 j_2":              "name one job, not 2",
			"redrive continue":                   "name one job",
			"hold remove":                        "`dlqbridge hold list` shows them",
			"mute remove":                        "give its id (m_…)",
			"triage reject":                      "`dlqbridge records list` shows them",

			"redrive plan --cause timeout --signature bogus":                     "signatures begin with sg_",
			"redrive run --cause timeout --dry-run --signature bogus":            "signatures begin with sg_",
			"triage repair --signature bogus --reason x --version 1":             "signatures begin with sg_",
			"triage repair r_aaaaaaaaaaaaaaaaaaaaaaaaaa --version 0 --reason x":  "--version 0 is none",
			"triage repair r_aaaaaaaaaaaaaaaaaaaaaaaaaa --version -1 --reason x": "--version -1 is none",
			"records payload r_aaaaaaaaaaaaaaaaaaaaaaaaaa --version 0":           "--version 0 is none",
			"records payload r_aaaaaaaaaaaaaaaaaaaaaaaaaa --version -1":          "--version -1 is none",
		} {
			c := b.run(strings.Fields(line)...)
			if c.code != 2 || !strings.Contains(c.stderr, want) || c.stdout != "" {
				t.Errorf("%s: exit %d, want 2 with %q\n%s%s", line, c.code, want, c.stdout, c.stderr)
			}
		}
	})
}

func TestStoppedIntakeKeepsWhatItHasDone(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.send("orders-dlq", "x", row{"v": 1, "task": "t-1", "cause": "timeout"})
		ctx, stop := context.WithTimeout(b.t.Context(), 1500*time.Millisecond) // virtual: in the second empty poll
		defer stop()
		inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		context.AfterFunc(ctx, cancel)
		c := b.runCtx(inner, "intake", "--until-empty", "-o", "json")
		if c.code != 1 || !strings.Contains(c.stderr, "stopped before the end") || !strings.Contains(c.stdout, `"records": 1`) {
			t.Errorf("exit %d\n%s%s", c.code, c.stdout, c.stderr)
		}
	})
}

func TestHelpFindsCommands(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		if c := b.ok("help", "records", "list"); !strings.Contains(c.stdout, "--near-deadline") {
			t.Error(c.stdout)
		}
	})
}

func TestUsageErrorsAreDocumentsToo(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		for _, line := range []string{"records list --foo", "records lst", "redrive run", "triage reject r_x --reason x", "hold add"} {
			if r := document[refused](b, 2, strings.Fields(line)...); r.Error.Code != "usage" || r.Error.Message == "" {
				t.Errorf("%s: %+v", line, r)
			}
		}
	})
}

func TestEachCommandTeaches(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		for _, line := range []string{
			"", "serve", "intake", "records", "records list", "records show", "records history", "records payload", "records explain", "records groups", "records regroup", "records export", "policy", "policy test",
			"triage", "triage repair", "hold", "hold add", "hold list", "hold remove", "mute", "mute add", "mute list", "mute remove", "redrive", "redrive plan", "redrive run", "redrive status", "redrive list", "redrive observe",
			"redrive pause", "redrive continue", "redrive cancel", "check", "tables", "tables create", "config", "version", "completion",
		} {
			c := b.run(append(strings.Fields(line), "--help")...)
			if c.code != 0 || !strings.Contains(c.stdout, "Usage:") || c.stderr != "" {
				t.Errorf("%s --help: exit %d\n%s%s", line, c.code, c.stdout, c.stderr)
			}
		}
	})
}

func TestWrongConfigurationNamesEveryPlace(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		if err := os.WriteFile(b.config, []byte("tabels: {}\nroutes:\n  - {name: Orders, sqs: {dead_letter_queue: a}}\nredrive: {rate: fast}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := b.want(2, "records", "list")
		for _, want := range []string{":1: tabels: unknown key", ":3: routes[0].name: ", ":4: redrive.rate: "} {
			if !strings.Contains(c.stderr, want) {
				t.Errorf("%q is not in\n%s", want, c.stderr)
			}
		}
		var doc struct {
			Error struct {
				Code     string
				Problems []struct {
					File, Field, Text, Hint string
					Line                    int
				}
			}
		}
		if err := json.Unmarshal([]byte(b.want(2, "config", "-o", "json").stdout), &doc); err != nil {
			t.Fatal(err)
		}
		if len(doc.Error.Problems) != 3 || doc.Error.Problems[2].Line != 4 || doc.Error.Problems[2].Field != "redrive.rate" {
			t.Errorf("got %+v", doc)
		}
		if c := b.run("--config", "/nowhere/x.yaml", "config"); c.code != 2 || !strings.Contains(c.stderr, "/nowhere/x.yaml") {
			t.Errorf("a file that is not there: exit %d\n%s", c.code, c.stderr)
		}
	})
}

func TestMissingRegionIsSaid(t *testing.T) {
	var out, errs strings.Builder
	p := &cli.Program{
		Args: []string{"records", "list"}, Stdout: &out, Stderr: &errs, Env: func(string) (string, bool) { return "", false },
		AWS: func(context.Context) (aws.Config, error) { return aws.Config{}, nil },
	}
	if code := p.Run(t.Context()); code != 2 || !strings.Contains(errs.String(), "set AWS_REGION") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

func TestIntakeNamesWhatIsMissing(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		r := document[refused](b, 1, "intake", "--until-empty")
		if r.Error.Code != "not_found" || !strings.Contains(r.Error.Message, "orders-dlq") {
			t.Errorf("got %+v", r)
		}
		b.pair("orders")
		if _, err := b.cloud.AddFault(localstack.Fault{Service: "sqs", Operation: "ReceiveMessage", Times: -1, Do: "error", Code: "AccessDenied", Status: 403}); err != nil {
			t.Fatal(err)
		}
		c := b.want(1, "intake", "--until-empty")
		if !strings.Contains(c.stderr, "sqs:ReceiveMessage") {
			t.Errorf("the right is not named: %s", c.stderr)
		}
	})
}

func TestIntakeSaysWhatCannotBeStored(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		poison := strings.Repeat("poison", 8)
		b.send("orders", poison, row{"v": 1, "task": "poison"})
		b.send("orders", "fine", row{"v": 1, "task": "fine"})
		b.die("orders")
		// Nothing that holds this letter's bytes is ever accepted, however they
		// fall into base64.
		for shift := range 3 {
			spelled := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + poison))[4:20]
			for _, op := range []string{"BatchWriteItem", "PutItem"} {
				if _, err := b.cloud.AddFault(localstack.Fault{Service: "dynamodb", Operation: op, Contains: spelled, Times: -1, Do: "error", Code: "ValidationException", Status: 400}); err != nil {
					t.Fatal(err)
				}
			}
		}
		counts := document[struct{ Letters, Records, Arrivals, Unstored int }](b, 3, "intake", "--until-empty")
		if counts.Unstored != 1 || counts.Records != 1 {
			t.Errorf("got %+v", counts)
		}
	})
}

func TestProgressOnlyOnATerminal(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1")
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if c := b.ok(append(run, "--dry-run")...); strings.Contains(c.stderr, "\r") || strings.Contains(c.stdout, "\x1b") {
			t.Errorf("progress or colour without a terminal: %q %q", c.stdout, c.stderr)
		}
		b.stdout, b.stderr = true, true
		if c := b.ok("records", "list"); !strings.Contains(c.stdout, "\x1b[1mID") {
			t.Errorf("no colour on a terminal: %q", c.stdout)
		}
		b.env["NO_COLOR"] = "1"
		if c := b.ok("records", "list"); strings.Contains(c.stdout, "\x1b") {
			t.Errorf("colour in spite of NO_COLOR: %q", c.stdout)
		}
	})
}

func TestConfigAndVersion(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		b.env["DLQBRIDGE_REDRIVE_RATE"] = "7/s"
		if c := b.ok("config"); !strings.Contains(c.stdout, "rate: 7/s # environment DLQBRIDGE_REDRIVE_RATE") {
			t.Error(c.stdout)
		}
		d := document[struct{ Redrive struct{ Rate string } }](b, 0, "config")
		if d.Redrive.Rate != "7/s" {
			t.Errorf("got %+v", d)
		}
		var schema map[string]any
		if err := json.Unmarshal([]byte(b.ok("config", "--schema").stdout), &schema); err != nil || schema["$schema"] == nil {
			t.Errorf("schema: %v", err)
		}
		if v := document[struct{ Version string }](b, 0, "version"); v.Version != "test" {
			t.Errorf("version %q", v.Version)
		}
	})
}

// A missing table is told before there are letters, and a mistyped verb by its
// own name; whoever asks for documents gets one.
func TestToldAtOnce(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		if _, err := b.tables.DeleteTable(b.t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("dlqbridge-payloads")}); err != nil {
			t.Fatal(err)
		}
		if r := document[refused](b, 1, "intake", "--until-empty"); r.Error.Code != "not_found" || !strings.Contains(r.Error.Message, "dlqbridge-payloads") {
			t.Errorf("a missing table: %+v", r)
		}
		if r := document[refused](b, 2, "triage", "explode", "r_1", "--reason", "x"); !strings.Contains(r.Error.Message, `"explode"`) {
			t.Errorf("an unknown verb: %+v", r)
		}
		for _, args := range [][]string{{}, {"records"}, {"triage"}, {"tables"}} {
			if r := document[refused](b, 2, args...); r.Error.Code != "usage" {
				t.Errorf("%v: %+v", args, r)
			}
		}
	})
}
