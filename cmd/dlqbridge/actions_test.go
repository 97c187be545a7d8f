package main_test

import (
	"strconv"
	"strings"
	"testing"
)

type countedDoc struct {
	Selected int
	Sent     int
	Excluded []struct{ ID, Reason string }
	Hash     string
	Actions  []string
	ByAction []struct {
		Action, Destination string
		Records             int
	}
}

// counts says what goes where, such as "2 retry orders".
func (d countedDoc) counts() string {
	var out []string
	for _, c := range d.ByAction {
		out = append(out, strings.Join([]string{strconv.Itoa(c.Records), c.Action, c.Destination[strings.LastIndex(c.Destination, ":")+1:]}, " "))
	}
	return strings.Join(out, ", ")
}

// A run says what it sent where by which action, and can be told to compensate
// nothing.
func TestARunIsNarrowedToActions(t *testing.T) {
	inBubble(t, compensateRoutes, []string{"orders", "undo"}, func(b *bench) {
		undone := b.charged("orders", "t-0")
		b.tasks(intent, nil, "t-1", "t-2")
		plan := append([]string{"redrive", "plan", "--cause", "timeout"}, fixed...)
		all := document[countedDoc](b, 0, plan...)
		if all.counts() != "2 retry orders, 1 compensate undo" || all.Actions != nil {
			t.Errorf("plan %+v", all)
		}
		if text := b.ok(plan...).stdout; !strings.Contains(text, "2 retry → ") || !strings.Contains(text, "1 compensate → ") {
			t.Error(text)
		}
		narrow := document[countedDoc](b, 0, append(plan, "--action", "retry,resume,repair")...)
		if narrow.counts() != "2 retry orders" || len(narrow.Excluded) != 0 || narrow.Hash == all.Hash || strings.Join(narrow.Actions, ",") != "retry,resume,repair" {
			t.Errorf("narrowed %+v", narrow)
		}
		// Who names the record is told why it is not in it.
		if named := document[countedDoc](b, 0, append(plan, "--action", "retry", "--record", undone)...); named.Selected != 0 || len(named.Excluded) != 1 || named.Excluded[0].Reason != "changed" {
			t.Errorf("named %+v", named)
		}
		for _, word := range []string{"human_review", "redo"} {
			if c := b.run(append(plan, "--action", word)...); c.code != 2 || !strings.Contains(c.stderr, "--action") {
				t.Errorf("exit %d: %s", c.code, c.stderr)
			}
		}
		// Neither the narrowing nor the counts of a plan file can be changed.
		text := b.ok(append(plan, "--action", "retry", "-o", "json")...).stdout
		for from, to := range map[string]string{`"actions": [
    "retry"`: `"actions": [
    "compensate"`, `"records": 2`: `"records": 1`} {
			if !strings.Contains(text, from) {
				t.Fatalf("%s is not in %s", from, text)
			}
			if c := b.run("redrive", "run", "--plan", b.file(strings.Replace(text, from, to, 1)), "--reason", "x"); c.code != 2 || !strings.Contains(c.stderr, "changed after it was made") {
				t.Errorf("exit %d: %s", c.code, c.stderr)
			}
		}
		if c := b.run("redrive", "run", "--plan", b.file(text), "--action", "retry", "--reason", "x"); c.code != 2 || !strings.Contains(c.stderr, "--action contradicts --plan") {
			t.Errorf("exit %d: %s", c.code, c.stderr)
		}
		if got := document[countedDoc](b, 0, "redrive", "run", "--plan", b.file(text), "--reason", "read"); got.Sent != 2 || got.counts() != "2 retry orders" {
			t.Errorf("run %+v", got)
		}
		if b.receive("undo") != nil {
			t.Error("a compensation went out")
		}
		// The everyday form sends whatever each record needs, and says so.
		run := append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)
		if c := b.run(run...); !strings.Contains(c.stdout, "1 compensate → ") || strings.Contains(c.stdout, "retry → ") {
			t.Error(c.stdout)
		}
		if b.receive("undo") == nil {
			t.Error("no compensation went out")
		}
	})
}
