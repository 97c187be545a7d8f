package main_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// intakeStages are the stages of intake in their order, each by the call that
// makes it.
var intakeStages = []struct {
	stage string
	call  func(wireCall) bool
	// again: only letters of what was sent before come to it.
	again bool
}{
	{"receive", either(on("ReceiveMessage"), on("Pull")), false},
	{"enrich: ask the ledger", on("Query", `"agent-ledger"`, `"t-`), false},
	{"evidence: payload and arrival", written(`"S":"P#`), false},
	{"find the record of the mark", without(`r_ready`, on("BatchGetItem", controlItem)), true},
	{"evidence: what the stores said", written(`"S":"context#`), true},
	{"history before the move", written(`"S":"event#`), true},
	{"record: the control item", on("PutItem", controlItem), false},
	{"delete, acknowledge", either(on("DeleteMessageBatch"), on("Acknowledge")), false},
}

// intakeDamage is what a kill of intake did.
type intakeDamage struct {
	// lost are tasks without record, doubled are further records of a task,
	// further arrivals of a letter, and recurrences that were counted twice.
	lost, doubled int
	none          bool
}

// String is a cell of the table.
func (d intakeDamage) String() string {
	switch {
	case d.none:
		return ""
	case d.lost > 0 || d.doubled > 0:
		return fmt.Sprintf("%d LOST, %d TWICE", d.lost, d.doubled)
	}
	return "-"
}

// intakeRound is one kill: an intake is killed, and another one goes on. With
// again the letters are those of tasks that were sent back and failed again.
func (a *agents) intakeRound(stage string, call func(wireCall) bool, after, again bool) (out intakeDamage) {
	a.t.Helper()
	a.work = func(ctx context.Context, r *ledger.Run, d delivery) error {
		return a.step(ctx, r, d.task(), "0001#charge", because(dlqbridge.CauseTimeout))
	}
	a.give(killedTasks...)
	a.live()
	letters, recurrences := 1, 0
	if again {
		a.ok("intake", "--until-empty")
		a.ok(append([]string{"redrive", "run", "--cause", "timeout"}, fixed...)...)
		a.live()
		letters, recurrences = 2, 1
	}
	if !a.dies(call, after, "intake", "--until-empty") {
		a.t.Errorf("%s: it never came to: %s", a.place.name, stage)
	}
	time.Sleep(2 * time.Minute) // what the dead one had in hand comes again
	a.ok("intake", "--until-empty")
	if left := document[intakeCounts](a.bench, 0, "intake", "--until-empty"); left.Letters != 0 {
		a.t.Errorf("%s, %s: %d letters were left", a.place.name, stage, left.Letters)
	}
	records := map[string][]string{}
	for _, r := range document[struct {
		Records []struct{ ID, TaskID string }
	}](a.bench, 0, "records", "list", "--all").Records {
		records[r.TaskID] = append(records[r.TaskID], r.ID)
	}
	for _, task := range killedTasks {
		if len(records[task]) == 0 {
			out.lost++
			continue
		}
		out.doubled += len(records[task]) - 1
		r := document[struct {
			Arrivals    []struct{}
			Recurrences int
		}](a.bench, 0, "records", "show", records[task][0])
		out.lost += max(0, letters-len(r.Arrivals)) + max(0, recurrences-r.Recurrences)
		out.doubled += max(0, len(r.Arrivals)-letters) + max(0, r.Recurrences-recurrences)
	}
	return out
}

// Intake is killed before and after each of its stages, on each kind of place,
// with first letters and with those of tasks that were sent back and failed
// again. What it prints stands in redrive/KILLS.md.
func TestKillMatrixOfIntake(t *testing.T) {
	whole := wanted("KillMatrixOfIntake")
	kinds := []string{"first letters", "letters of what was sent back"}
	got := make([][][]intakeDamage, len(kinds)) // by kind, stage before and after, and place
	t.Run("kills", func(t *testing.T) {
		for i, kind := range kinds {
			got[i] = make([][]intakeDamage, 2*len(intakeStages))
			for n := range got[i] {
				got[i][n] = make([]intakeDamage, len(places))
			}
			for k, p := range places {
				if !whole && k%2 == 1 { // a standard queue and a plain topic: the others differ in how letters die
					continue
				}
				t.Run(kind+" on "+p.name, func(t *testing.T) {
					t.Parallel()
					for n := range got[i] {
						s := intakeStages[n/2]
						if s.again && i == 0 {
							got[i][n][k].none = true
							continue
						}
						inPlace(t, p, "", "", func(a *agents) { got[i][n][k] = a.intakeRound(s.stage, s.call, n%2 == 1, i == 1) })
						if d := got[i][n][k]; d.lost > 0 || d.doubled > 0 {
							t.Errorf("%s, %s, killed at %q, after %v: %s", kind, p.name, s.stage, n%2 == 1, d)
						}
					}
				})
			}
		}
	})
	var text strings.Builder
	for i, kind := range kinds {
		fmt.Fprintf(&text, "%s: what each kill left of %d\n\n", kind, len(killedTasks))
		table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }
		cells := []string{"killed"}
		for _, p := range places {
			cells = append(cells, p.name)
		}
		row(cells...)
		for n, line := range got[i] {
			cells := []string{[]string{"before ", "after  "}[n%2] + intakeStages[n/2].stage}
			for _, d := range line {
				cells = append(cells, d.String())
			}
			if !line[0].none {
				row(cells...)
			}
		}
		_ = table.Flush()
		if i == 0 {
			fmt.Fprintln(&text)
		}
	}
	t.Log("\n" + text.String())
	if whole && allOfIt() && !t.Failed() {
		standsIn(t, matrixFile, "TestKillMatrixOfIntake", text.String())
	}
}
