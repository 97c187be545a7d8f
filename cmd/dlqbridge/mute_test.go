package main_test

import (
	"strings"
	"testing"
	"time"
)

type mutedPage struct {
	Records []struct{ ID, Signature, MutedUntil string }
}

// A muted group is not overdue until its end; then it is again by itself. What
// is decided and what may be sent is as before.
func TestMutedGroupIsNotOverdueUntilItsEnd(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "a", "b")
		b.tasks(intent, row{"code": "E_OTHER"}, "c")
		time.Sleep(25 * time.Hour) // virtual: past the triage deadline
		overdue := func() int {
			t.Helper()
			return len(document[mutedPage](b, 0, "records", "list", "--overdue").Records)
		}
		if got := overdue(); got != 3 {
			t.Fatalf("%d are overdue before anything is muted", got)
		}
		before := b.show(b.byTask()["a"])
		signature := ""
		for _, r := range document[mutedPage](b, 0, "records", "list").Records {
			if r.ID == b.byTask()["a"] {
				signature = r.Signature
			}
		}
		m := document[struct {
			ID, Signature, By, Until string
			Active                   bool
		}](b, 0, "mute", "add", "--signature", signature, "--until", "4h", "--reason", "known")
		if !strings.HasPrefix(m.ID, "m_") || m.Signature != signature || !m.Active || !strings.HasSuffix(m.By, "ann") {
			t.Errorf("got %+v", m)
		}
		if got := overdue(); got != 1 {
			t.Errorf("%d are overdue, want the one that is not muted", got)
		}
		quiet := 0
		for _, r := range document[mutedPage](b, 0, "records", "list").Records {
			if r.MutedUntil != "" {
				quiet++
			}
		}
		if quiet != 2 {
			t.Errorf("%d of 2 are shown as muted", quiet)
		}
		groups := document[struct {
			Groups []struct {
				Signature, MutedUntil string
				Count, Muted          int
			}
		}](b, 0, "records", "groups").Groups
		if len(groups) != 2 || groups[0].Muted != 2 || groups[0].MutedUntil != m.Until || groups[1].Muted != 0 || groups[1].MutedUntil != "" {
			t.Errorf("got %+v", groups)
		}
		for _, args := range [][]string{{"records", "list"}, {"records", "groups"}, {"mute", "list"}, {"records", "explain", b.byTask()["a"]}} {
			if c := b.ok(args...); !strings.Contains(c.stdout, "muted") && !strings.Contains(c.stdout, "MUTE") {
				t.Errorf("%v says nothing of it:\n%s", args, c.stdout)
			}
		}
		if after := b.show(b.byTask()["a"]); after.Version != before.Version || after.Decision.Action != before.Decision.Action {
			t.Errorf("a mute has changed the record: %+v, was %+v", after, before)
		}
		if c := b.ok(append([]string{"redrive", "plan", "--cause", "timeout"}, fixed...)...); strings.Contains(c.stdout, "held") {
			t.Errorf("a mute stops sends:\n%s", c.stdout)
		}

		// An incident is never quiet.
		b.triage(0, "open-incident", b.byTask()["b"], "--reason", "x")
		if got := overdue(); got != 2 {
			t.Errorf("%d are overdue with an open incident, want 2", got)
		}
		b.triage(0, "close-incident", b.byTask()["b"], "--reason", "x", "--evidence", "y")

		time.Sleep(4 * time.Hour) // virtual: its end
		if got := overdue(); got != 3 {
			t.Errorf("%d are overdue after the mute's end, want 3", got)
		}
		if c := b.ok("mute", "list"); !strings.Contains(c.stdout, "(past)") {
			t.Errorf("got:\n%s", c.stdout)
		}
		b.ok("mute", "add", "--signature", signature, "--route", "orders", "--until", "4h", "--reason", "still known")
		if got := overdue(); got != 1 {
			t.Errorf("%d are overdue when muted again, want 1", got)
		}
		list := document[struct{ Mutes []struct{ ID string } }](b, 0, "mute", "list").Mutes
		b.ok("mute", "remove", list[1].ID, "--reason", "it matters after all")
		if got := overdue(); got != 3 {
			t.Errorf("%d are overdue without the mute, want 3", got)
		}
	})
}

func TestMuteSaysWhatIsMissing(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		for line, want := range map[string]string{
			"mute add --until 1h --reason x":                               "--signature is missing",
			"mute add --signature x --until 1h --reason x":                 "is none",
			"mute add --signature sg_x --reason x":                         "a mute needs an end",
			"mute add --signature sg_x --until 1h":                         "--reason is missing",
			"mute add --signature sg_x --until 2020-01-01 --reason x":      "--until",
			"mute add --signature sg_x --until 1h --reason x --route oder": "not configured",
			"mute remove m_x": "--reason is missing",
			"mute silence":    "unknown command",
		} {
			if c := b.want(2, strings.Fields(line)...); !strings.Contains(c.stderr, want) {
				t.Errorf("%s: %q is not in\n%s", line, want, c.stderr)
			}
		}
		if r := document[refused](b, 1, "mute", "remove", "m_x", "--reason", "x"); r.Error.Code != "not_found" {
			t.Errorf("got %+v", r)
		}
	})
}

// What is removed leaves its line in the log, and a person at a terminal reads
// it once.
func TestWhatIsRemovedIsToldOnce(t *testing.T) {
	inBubble(t, oneRoute, nil, func(b *bench) {
		add := func() string {
			return document[struct{ ID string }](b, 0, "hold", "add", "--route", "orders", "--reason", "x").ID
		}
		c := b.ok("hold", "remove", add(), "--reason", "the outage is over")
		if !strings.Contains(c.stderr, "the outage is over") || !strings.Contains(c.stderr, "level=INFO") {
			t.Errorf("the log says %q", c.stderr)
		}
		b.stdout, b.stderr = true, true
		id := add()
		c = b.ok("hold", "remove", id, "--reason", "the outage is over")
		if c.stderr != "" || !strings.Contains(c.stdout, id+" removed by ") || !strings.Contains(c.stdout, "the outage is over") {
			t.Errorf("%q, and the log says %q", c.stdout, c.stderr)
		}
		b.stdout = false // the result goes elsewhere
		if c = b.ok("hold", "remove", add(), "--reason", "over"); !strings.Contains(c.stderr, "reason=over") {
			t.Errorf("the log says %q", c.stderr)
		}
	})
}
