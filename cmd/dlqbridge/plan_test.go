package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file writes a plan to a file as a shell would.
func (b *bench) file(text string) string {
	b.t.Helper()
	name := filepath.Join(filepath.Dir(b.config), "plan.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return name
}

func TestAPlanIsRunAsItStands(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2", "t-3")
		plan := b.file(b.ok("redrive", "plan", "--cause", "timeout", "--fix", "deploy:1.4.2", "--rate", "7/s", "-o", "json").stdout)
		// Since then one was assigned and one more has come.
		b.triage(0, "assign", ids["t-2"], "--owner", "payments", "--reason", "theirs")
		b.tasks(intent, nil, "t-4")
		run := document[runDoc](b, 3, "redrive", "run", "--plan", plan, "--reason", "read and agreed")
		if run.Sent != 2 || run.Selected != 2 || len(run.Excluded) != 1 || run.Excluded[0].ID != ids["t-2"] || run.Excluded[0].Reason != "changed" {
			t.Errorf("%+v", run)
		}
		if job := document[struct{ Rate string }](b, 0, "redrive", "status", run.Job); job.Rate != "7/s" {
			t.Errorf("rate %s", job.Rate)
		}
		// Once more: everything has changed, nothing is sent.
		if again := document[runDoc](b, 3, "redrive", "run", "--plan", plan, "--reason", "again"); again.Sent != 0 || len(again.Excluded) != 3 {
			t.Errorf("%+v", again)
		}
	})
}

func TestWrongPlansMoveNothing(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		ids := b.tasks(intent, nil, "t-1", "t-2")
		plan := b.ok("redrive", "plan", "--cause", "timeout", "--fix", "deploy:1.4.2", "--max", "1", "-o", "json").stdout
		var doc map[string]any
		if err := json.Unmarshal([]byte(plan), &doc); err != nil {
			t.Fatal(err)
		}
		if job, there := doc["job"]; !there || job != nil || doc["sent"] != 0.0 || doc["state"] != "planned" || doc["outcomes"] == nil {
			t.Errorf("a plan is not read like a run: %s", plan)
		}
		for name, row := range map[string]struct {
			text string
			args []string
			code int
			want string
		}{
			"another record":    {strings.Replace(plan, `"id": "r_`, `"id": "r_x`, 1), nil, 2, "changed after it was made"},
			"a faster rate":     {strings.Replace(plan, `"20/s"`, `"2000/s"`, 1), nil, 2, "changed after it was made"},
			"no rate":           {strings.Replace(plan, `"20/s"`, `"0/s"`, 1), nil, 2, "above 0"},
			"one that was sent": {strings.Replace(plan, `"sent": 0`, `"sent": 5`, 1), nil, 2, "changed after it was made"},
			"an unknown field":  {strings.Replace(plan, `"cause"`, `"reasons"`, 1), nil, 2, "reasons"},
			"half of it":        {plan[:len(plan)/2], nil, 2, "plan file"},
			"two of them":       {plan + plan, nil, 2, "behind the plan"},
			"nothing":           {"", nil, 2, "plan file"},
			"more selection":    {plan, []string{"--tenant", "acme"}, 2, "contradicts --plan"},
			"a dry run":         {plan, []string{"--dry-run"}, 2, "contradicts --plan"},
			"another pace":      {plan, []string{"--rate", "1000/s"}, 2, "contradicts --plan"},
		} {
			c := b.run(append([]string{"redrive", "run", "--plan", b.file(row.text), "--reason", "x"}, row.args...)...)
			if c.code != row.code || !strings.Contains(c.stderr, row.want) {
				t.Errorf("%s: exit %d\n%s", name, c.code, c.stderr)
			}
		}
		if c := b.run("redrive", "run", "--plan", b.file(plan)); c.code != 2 || !strings.Contains(c.stderr, "--reason") {
			t.Errorf("without a reason: exit %d\n%s", c.code, c.stderr)
		}
		// The same file against other tables, and against a route that leads elsewhere.
		b.env["DLQBRIDGE_TABLES_RECORDS"] = "other-records"
		b.ok("tables", "create")
		if c := b.run("redrive", "run", "--plan", b.file(plan), "--reason", "x"); c.code != 1 || !strings.Contains(c.stderr, "it was made for") {
			t.Errorf("other tables: exit %d\n%s", c.code, c.stderr)
		}
		delete(b.env, "DLQBRIDGE_TABLES_RECORDS")
		b.pair("elsewhere")
		if err := os.WriteFile(b.config, []byte(strings.ReplaceAll(oneRoute, "source_queue: orders", "source_queue: elsewhere")), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := b.run("redrive", "run", "--plan", b.file(plan), "--reason", "x"); c.code != 1 || !strings.Contains(c.stderr, "leads to") {
			t.Errorf("another route: exit %d\n%s", c.code, c.stderr)
		}
		for _, id := range ids {
			if v := b.show(id).Version; v != 1 {
				t.Errorf("%s was moved to version %d", id, v)
			}
		}
	})
}
