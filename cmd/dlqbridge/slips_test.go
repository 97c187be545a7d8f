package main_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

func TestVersionIsAFlagToo(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		if flag, command := b.ok("--version"), b.ok("version"); flag != command || !strings.HasPrefix(flag.stdout, "dlqbridge test") {
			t.Errorf("%+v, %+v", flag, command)
		}
		if d := document[map[string]string](b, 0, "--version"); d["version"] != "test" {
			t.Error(d)
		}
	})
}

// A flag that nobody knows is an error on commands that only have commands too.
func TestUnknownFlagsAreUsageErrors(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		for _, line := range []string{"--bogus", "records --bogus", "redrive --cause timeout", "triage --bogus x", "--bogus records list", "records --version"} {
			if c := b.run(strings.Fields(line)...); c.code != 2 || !strings.Contains(c.stderr, "unknown flag: --") || !strings.Contains(c.stderr, "--help`") || c.stdout != "" {
				t.Errorf("%s: exit %d\n%s%s", line, c.code, c.stdout, c.stderr)
			}
		}
		if c := b.want(2, "triage", "rejekt", "r_x", "--bogus"); !strings.Contains(c.stderr, `did you mean "reject"?`) {
			t.Errorf("a wrong verb with a flag: %s", c.stderr)
		}
	})
}

// A group that no record is in is a slip: what was meant would go on being loud
// or, worse, being sent.
func TestUnknownGroupsAreNeitherMutedNorHeld(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.send("orders-dlq", "x", row{"v": 1, "task": "t-1", "cause": "timeout"})
		b.ok("intake", "--until-empty")
		groups := document[struct {
			Groups []struct{ Signature, Example string }
		}](b, 0, "records", "groups").Groups
		known := groups[0].Signature
		lines := [][]string{{"mute", "add", "--until", "7d"}, {"hold", "add"}}
		for _, line := range lines {
			c := b.want(1, append(line, "--signature", "sg_0000000000000000", "--reason", "x")...)
			for _, want := range []string{"there is no group sg_0000000000000000", known + " (1 record)", "records groups"} {
				if !strings.Contains(c.stderr, want) {
					t.Errorf("%v: %q is not in %s", line, want, c.stderr)
				}
			}
		}
		b.ok("triage", "reject", groups[0].Example, "--reason", "x")
		for _, line := range lines { // a group may be known from closed records alone
			b.ok(append(line, "--signature", known, "--reason", "x")...)
		}
	})
}

func TestObserveKnowsItsJob(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		if c := b.want(1, "redrive", "observe", "--job", "j_x"); !strings.Contains(c.stderr, "there is no job j_x") || !strings.Contains(c.stderr, "redrive list") {
			t.Error(c.stderr)
		}
	})
}

func TestARepairOfNothingSaysSo(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		c := b.ok("triage", "repair", "--signature", "sg_0000000000000000", "--patch", b.patchFile(`{"a":1}`), "--dry-run")
		if !strings.Contains(c.stdout, "no record matches the selection") {
			t.Error(c.stdout)
		}
	})
}

// Whoever reads a list that was cut must know it, also behind a pipe.
func TestCutListsSaySo(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		for _, task := range []string{"t-1", "t-2", "t-3"} {
			b.send("orders-dlq", "x", row{"v": 1, "task": task, "cause": "timeout"})
		}
		b.ok("intake", "--until-empty")
		for _, output := range []string{"text", "json"} {
			c := b.ok("records", "list", "--limit", "2", "-o", output)
			if !strings.Contains(c.stderr, "shown 2, there are more: --limit 0 lists all, --after ") {
				t.Errorf("%s: %s", output, c.stderr)
			}
			for _, all := range []string{"0", "3"} {
				if c := b.ok("records", "list", "--limit", all, "-o", output); c.stderr != "" {
					t.Errorf("%s --limit %s: %s", output, all, c.stderr)
				}
			}
		}
	})
}

var commandRow = regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}\S`)

// leaves are the commands that have none below them.
func (b *bench) leaves(path ...string) []string {
	b.t.Helper()
	help := b.ok(append(slices.Clone(path), "--help")...).stdout
	_, below, has := strings.Cut(help, "Available Commands:\n")
	if !has {
		return []string{strings.Join(path, " ")}
	}
	below, _, _ = strings.Cut(below, "\n\n")
	var out []string
	for _, m := range commandRow.FindAllStringSubmatch(below, -1) {
		out = append(out, b.leaves(append(slices.Clone(path), m[1])...)...)
	}
	return out
}

// Where the tables are not there, each command says how they come.
func TestMissingTablesAreSaidAlike(t *testing.T) {
	const id = "r_aaaaaaaaaaaaaaaaaaaaaaaaaa"
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		for _, table := range []string{"dlqbridge-records", "dlqbridge-payloads", "agent-ledger"} {
			if _, err := b.tables.DeleteTable(b.t.Context(), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
				t.Fatal(err)
			}
		}
		withID := []string{"show", "history", "payload", "explain", "export"}
		extra := map[string]string{
			"intake": "--until-empty", "redrive run": "--cause timeout --reason x", "redrive plan": "--cause timeout", "redrive approve": "--plan " + b.file("{}") + " --reason x",
			"records export": "--fixture", "redrive status": "j_x", "redrive pause": "j_x --reason x", "redrive continue": "j_x --reason x", "redrive cancel": "j_x --reason x",
			"hold add": "--route orders --reason x", "hold remove": "h_x --reason x", "mute add": "--signature sg_x --until 1h --reason x", "mute remove": "m_x --reason x",
			"policy test": "--since 7d", "triage repair": id + " --patch " + b.patchFile(`{"a":1}`) + " --reason x",
			"triage classify": "--cause timeout", "triage assign": "--owner x", "triage fix": "--fix deploy:1", "triage settle-effect": "--to confirmed --all-steps",
			"triage settle-send": "--to sent", "triage snooze": "--until 1h",
		}
		// These ask no table, say it in their own way (check), or do not end (serve).
		other := []string{"check", "serve", "tables create", "config", "version", "triage moves", "help"}
		n := 0
		for _, leaf := range b.leaves() {
			if slices.Contains(other, leaf) || strings.HasPrefix(leaf, "completion") || leaf == "redrive approve" {
				continue
			}
			n++
			args := append(strings.Fields(leaf), strings.Fields(extra[leaf])...)
			area, verb, _ := strings.Cut(leaf, " ")
			if area == "triage" && verb != "repair" {
				args = append(args, id, "--reason", "x", "--evidence", "x")
			}
			if slices.Contains(withID, verb) {
				args = append(args, id)
			}
			c := b.run(args...)
			if c.code != 1 || !strings.Contains(c.stderr, "dlqbridge tables create") {
				t.Errorf("dlqbridge %s: exit %d\n%s%s", strings.Join(args, " "), c.code, c.stdout, c.stderr)
			}
		}
		if n < 30 {
			t.Errorf("asked only %d commands", n)
		}
	})
}
