package main_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/cli"
)

// A shell is given the words of each closed list, and no names of files where
// none belongs.
func TestCompletion(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		for line, want := range map[string][]string{
			"records list --cause ti":              {"timeout"},
			"records list --cause timeout,cri":     {"timeout,critical"},
			"records list --status incident":       {"incident_open"},
			"records list --lane technical":        {"technical_dependency"},
			"records groups --effect un":           {"unknown"},
			"redrive plan --cause ti":              {"timeout"},
			"redrive plan --route =":               {"orders"},
			"redrive plan --action retry,re":       {"retry,retry", "retry,resume", "retry,repair"},
			"redrive run --action comp":            {"compensate"},
			"intake --until-empty --route =":       {"orders"},
			"triage settle-send r_x --to =":        {"sent", "not-sent"},
			"triage settle-effect r_x --to none":   {"none_confirmed"},
			"triage classify r_x --cause business": {"business_rule"},
			"triage fix r_x --fix dep":             {"deploy:"},
			"records list -o j":                    {"json"},
			"config --log-level w":                 {"warn"},
			"triage reject r_x --reason =":         nil,
			"records show =":                       nil,
		} {
			args := strings.Fields(line)
			if last := len(args) - 1; args[last] == "=" {
				args[last] = "" // nothing is typed yet
			}
			c := b.ok(append([]string{"__complete"}, args...)...)
			lines := strings.Split(strings.TrimSpace(c.stdout), "\n")
			directive := lines[len(lines)-1]
			if got := lines[:len(lines)-1]; !slices.Equal(got, want) || directive != ":4" && directive != ":6" {
				t.Errorf("%s: %q and %s, want %q without files", line, got, directive, want)
			}
		}
		c := b.ok("__complete", "redrive", "run", "--plan", "")
		if !strings.HasPrefix(c.stdout, ":0") {
			t.Errorf("--plan takes a file: %s", c.stdout)
		}
	})
}

// Records of a route that is configured no more can still be listed.
func TestListOfAFormerRoute(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.send("orders-dlq", "x", row{"v": 1, "task": "t-1", "cause": "timeout"})
		b.ok("intake", "--until-empty")
		b.config = b.file(strings.Replace(oneRoute, "name: orders", "name: renamed", 1))
		if c := b.ok("records", "list", "--route", "orders"); !strings.Contains(c.stdout, "t-1") {
			t.Errorf("the record is not listed:\n%s", c.stdout)
		}
		if c := b.want(2, "records", "list", "--route", "order"); !strings.Contains(c.stderr, `--route "order" is not configured`) {
			t.Errorf("got %s", c.stderr)
		}
	})
}

// Without credentials the check says so once, and asks nothing.
func TestCheckWithoutCredentials(t *testing.T) {
	var out, errs bytes.Buffer
	p := &cli.Program{
		Args: []string{"check", "-o", "json"}, Stdout: &out, Stderr: &errs, Env: func(string) (string, bool) { return "", false },
		AWS: func(context.Context) (aws.Config, error) {
			return aws.Config{Region: "us-east-1", Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{}, errors.New("nothing found")
			})}, nil
		},
	}
	code := p.Run(t.Context())
	if code != 1 || strings.Count(errs.String(), dlqbridge.ErrCredentials.Error()) != 1 || !strings.Contains(out.String(), `"code": "credentials"`) {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
}

// In a directory without a configuration, the hint says what is missing.
func TestNoConfigurationFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, line := range []string{"intake --until-empty", "serve", "redrive plan --cause timeout --route orders"} {
		var out, errs bytes.Buffer
		p := &cli.Program{
			Args: strings.Fields(line), Stdout: &out, Stderr: &errs, Env: func(string) (string, bool) { return "", false },
			AWS: func(context.Context) (aws.Config, error) { return aws.Config{Region: "us-east-1"}, nil },
		}
		if code := p.Run(t.Context()); code != 2 || !strings.Contains(errs.String(), "no ./dlqbridge.yaml here; give --config or DLQBRIDGE_CONFIG") {
			t.Errorf("%s: exit %d\n%s", line, code, errs.String())
		}
	}
}
