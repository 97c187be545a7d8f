package main_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
)

// matrixFile has what the test prints.
const matrixFile = "../../redrive/KILLS.md"

// act is one action of the matrix: how its tasks die, what is done about them,
// and what the world outside must have seen at the end.
type act struct {
	name string
	// settings are the route's.
	settings string
	cause    dlqbridge.Cause
	// breaks is the step at which the first life fails; what is before it is
	// kept, under a checkpoint where checkpoint says so.
	breaks     string
	checkpoint bool
	// prepare is what people do before the run.
	prepare func(a *agents, ids map[string]string)
	// effects is what must have happened to each task, each once.
	effects []string
	// repeats: a send in doubt is repeated under its number, since the workers
	// refuse the second run.
	repeats bool
	// rest is further configuration.
	rest string
}

// acts are the actions: each is one entry.
var acts = []act{
	{name: "retry, nothing declared", cause: dlqbridge.CauseTimeout, breaks: "0001#charge", effects: []string{"0001#charge", "0002#mail"}},
	{name: "retry, workers use the kit", settings: ", kit: true", repeats: true, cause: dlqbridge.CauseTimeout, breaks: "0001#charge", effects: []string{"0001#charge", "0002#mail"}},
	{name: "repair, workers use the kit", settings: ", kit: true", repeats: true, cause: dlqbridge.CauseInvalidInput, breaks: "0001#charge", effects: []string{"0001#charge", "0002#mail"}},
}

// command is what a process of the matrix runs when it is killed.
type command int

const (
	running   command = iota // redrive run
	takenOver                // the next redrive run, after one that died when it had sent
	sentAgain                // the same, where what is in doubt is sent again
	observing                // redrive observe
)

// deadly is a stage at which a process is killed: at the first call that is its
// own, before the call or when it has been carried out.
type deadly struct {
	stage string
	in    command
	call  func(c wireCall) bool
	// short: also looked at in the short form.
	short bool
}

// doubt says whether nobody can know any more, when a process died there,
// whether what it journalled went out.
func (d deadly) doubt(after bool) bool {
	switch d.in {
	case running:
		return d.stage == "send" && after || d.stage == "note" && !after
	case takenOver, sentAgain:
		return true // the first one died when it had sent
	case observing:
	}
	return false
}

var (
	controlItem = `"sk":{"S":"control"}`
	journalling = on("UpdateItem", `"#token"`, `\"batches\":{`)
	sending     = either(on("SendMessageBatch"), on("Publish"))
	noting      = written(`"S":"send#`)
)

// stages are the stages in their order, each by the call that makes it.
var stages = []deadly{
	{"select: read the index", running, on("Scan", `"IndexName":"work"`), false},
	{"lease: take it", running, on("PutItem", `"sk":{"S":"lease"}`), false},
	{"authorise: its evidence", running, written(`"S":"note#`), false},
	{"authorise: the move", running, on("PutItem", controlItem, `#authorized#`), false},
	{"job: its members", running, written(`"S":"members#`), false},
	{"job: the job", running, on("PutItem", `"sk":{"S":"job"}`, `\"state\":\"running\"`), false},
	{"gate: look", running, on("BatchGetItem", `"HOLDS"`), false},
	{"claim: history before it", running, written(`"S":"event#`, `\"vb\":\"authorize\"`), false},
	{"claim: the move", running, on("PutItem", controlItem, `#redriving#`), true},
	{"journal", running, journalling, true},
	{"send", running, sending, true},
	{"note", running, noting, true},
	{"end: the job is done", running, on("PutItem", `"sk":{"S":"job"}`, `\"state\":\"done\"`), false},
	{"lease: give it back", running, without(`":until"`, on("UpdateItem", `"#token"`)), false},
	{"adopt: take the lease over", takenOver, on("PutItem", `"sk":{"S":"lease"}`), false},
	{"adopt: note the doubt", takenOver, noting, true},
	{"adopt: close the batch", takenOver, without(`\"batches\":{`, on("UpdateItem", `"#token"`)), false},
	{"send again: the move", sentAgain, on("PutItem", controlItem, `#redriving#`), false},
	{"send again: journal", sentAgain, journalling, false},
	{"send again: send", sentAgain, sending, true},
	{"send again: note", sentAgain, without(`\"in_doubt\"`, noting), false},
	{"observe: read the index", observing, on("Scan", `"IndexName":"work"`), false},
	{"observe: its evidence", observing, written(`"S":"context#`), false},
	{"observe: the outcome", observing, on("PutItem", controlItem, `"closed#`), false},
}

// damage is what a kill did, over the tasks of its round.
type damage struct {
	// lost never came to its end, unmarked and marked are copies of a message
	// that arrived besides the first one, asked are records about which a person
	// was asked.
	lost, unmarked, marked, asked int
	// effects are those that did not happen exactly once.
	effects []string
	// none: it never comes to this stage.
	none bool
}

// String is a cell of the table: nothing happened, or what did.
func (d damage) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{d.lost, "LOST"}, {d.unmarked, "UNMARKED"}, {len(d.effects), "EFFECTS"}, {d.marked, "marked"}, {d.asked, "asked"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	switch {
	case d.none:
		return ""
	case len(parts) == 0:
		return "-"
	}
	return strings.Join(parts, ", ")
}

func (d *damage) add(more damage) {
	d.lost, d.unmarked, d.marked, d.asked = d.lost+more.lost, d.unmarked+more.unmarked, d.marked+more.marked, d.asked+more.asked
	d.effects = append(d.effects, more.effects...)
}

// killedTasks are the tasks of each round: one batch where there is no order, one
// after the other where there is.
var killedTasks = []string{"t-1", "t-2", "t-3"}

// round is one kill: the tasks die, a process that redrives them is killed, and
// others bring it to its end.
func (a *agents) round(w act, d deadly, after bool) damage {
	a.t.Helper()
	tasks := killedTasks
	healed := false
	a.work = func(ctx context.Context, r *ledger.Run, task string) error {
		for _, id := range []string{"0001#charge", "0002#mail"} {
			var broken error
			if id == w.breaks && !healed {
				broken = because(w.cause)
			}
			if err := a.step(ctx, r, task, id, broken); err != nil {
				return err
			}
			if w.checkpoint && id == "0001#charge" {
				if err := r.Checkpoint(ctx, "state of "+task, id); err != nil {
					return err
				}
			}
		}
		return nil
	}
	a.give(tasks...)
	a.live()
	a.ok("intake", "--until-empty")
	ids := a.byTask()
	if w.prepare != nil {
		w.prepare(a, ids)
	}
	healed = true
	run := []string{"redrive", "run", "--cause", string(w.cause), "--fix", "deploy:1.4.2", "--reason", "fixed"}

	reached := true
	var out damage
	switch d.in {
	case running:
		reached = a.dies(d.call, after, run...)
	case takenOver, sentAgain:
		reached = a.dies(sending, true, run...)
		time.Sleep(time.Minute)
		reached = a.dies(d.call, after, run...) && reached
	case observing:
		a.want(0, run...)
		a.live()
		reached = a.dies(d.call, after, "redrive", "observe")
	}
	if !reached {
		a.t.Errorf("%s, %s: it never came to: %s", w.name, a.place.name, d.stage)
	}
	// Others take over when the dead one's lease has ended. The agents are slow
	// to begin, so that no evidence of theirs helps.
	asked := map[string]bool{}
	for range 6 {
		time.Sleep(time.Minute)
		done := true
		c := a.run(append(run, "-o", "json")...)
		var res runDoc
		if err := json.Unmarshal([]byte(c.stdout), &res); err != nil || c.code != 0 && c.code != 3 {
			a.t.Fatalf("%s, %s, %s: exit %d: %s", w.name, a.place.name, d.stage, c.code, c.stderr)
		}
		for _, x := range res.Excluded {
			if x.Reason == string(dlqbridge.ExcludeInDoubt) { // somebody looks at the broker
				done, asked[x.ID] = false, true
				to := "not-sent"
				if a.sent(x.ID) > 0 {
					to = "sent"
				}
				a.triage(0, "settle-send", x.ID, append([]string{"--to", to}, said...)...)
			}
		}
		if done && res.Sent == 0 {
			break
		}
	}
	out.asked = len(asked)
	a.live()
	time.Sleep(time.Minute)
	a.ok("redrive", "observe")
	for _, task := range tasks {
		sent := a.copies[task][1:] // the first one is that of its first life
		if status := a.show(ids[task]).Status; status != "completed" {
			a.t.Errorf("%s, %s, %s, after %v: %s is %s", w.name, a.place.name, d.stage, after, task, status)
			out.lost++
		}
		if len(sent) == 0 {
			out.lost++
		}
		for k, mark := range sent {
			switch {
			case k == 0:
			case mark == "" || mark != sent[0]:
				out.unmarked++
			default:
				out.marked++
			}
		}
		for _, e := range w.effects {
			if n := a.book[task+" "+e]; n != 1 {
				out.effects = append(out.effects, fmt.Sprintf("%s of %s happened %d times", e, task, n))
			}
		}
	}
	return out
}

// A process is killed before and after each stage, for each action, on each
// kind of place; others take over. What it prints stands in redrive/KILLS.md,
// which says what may be there and why. The whole takes a minute or more, so
// without being asked for by name (-run KillMatrix, or make soak) it looks only at
// the stages between which a message goes out.
func TestKillMatrix(t *testing.T) {
	whole := os.Getenv("DLQBRIDGE_SOAK") != "" || strings.Contains(flag.Lookup("test.run").Value.String(), "KillMatrix")
	got := make([][][]damage, len(acts)) // by act, place, and stage before and after
	t.Run("kills", func(t *testing.T) {
		for i, w := range acts {
			got[i] = make([][]damage, len(places))
			for k, p := range places {
				got[i][k] = make([]damage, 2*len(stages))
				t.Run(w.name+" on "+p.name, func(t *testing.T) {
					t.Parallel()
					for n := range got[i][k] {
						d, after := stages[n/2], n%2 == 1
						switch {
						case !whole && !d.short:
							continue
						case d.in == sentAgain && !w.repeats && !p.drops():
							got[i][k][n].none = true
							continue
						}
						inPlace(t, p, w.settings, w.rest, func(a *agents) { got[i][k][n] = a.round(w, d, after) })
						w.judge(t, p, d, after, got[i][k][n])
					}
				})
			}
		}
	})
	text := printed(got)
	t.Log("\n" + text)
	if whole && allOfIt() && !t.Failed() {
		standsIn(t, matrixFile, "TestKillMatrix", text)
	}
}

// allOfIt: no part of a test was asked for by its name.
func allOfIt() bool { return !strings.Contains(flag.Lookup("test.run").Value.String(), "/") }

// judge says what a kill may have done: nothing lost, nothing twice unmarked, no
// effect twice or never; and a second copy only where nobody else can know.
func (w act) judge(t *testing.T, p place, d deadly, after bool, got damage) {
	t.Helper()
	where := fmt.Sprintf("%s, %s, killed at %q, after %v", w.name, p.name, d.stage, after)
	if got.lost > 0 || got.unmarked > 0 || len(got.effects) > 0 {
		t.Errorf("%s: %d lost, %d unmarked copies, %v", where, got.lost, got.unmarked, got.effects)
	}
	// The broker forces a copy where it has the message, the process died before
	// it could note that, and the broker itself drops no second one.
	if got.marked > 0 && (!w.repeats || p.drops() || !d.doubt(after)) {
		t.Errorf("%s: %d marked copies that nothing forces", where, got.marked)
	}
	if got.asked > 0 && (w.repeats || p.drops()) {
		t.Errorf("%s: a person was asked about %d although it can be sent again", where, got.asked)
	}
}

// printed is the tables of the matrix.
func printed(got [][][]damage) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		for _, c := range cells[:len(cells)-1] {
			fmt.Fprintf(table, "%v\t", c)
		}
		fmt.Fprintf(table, "%v\n", cells[len(cells)-1])
	}
	row("action", "place", "kills", "lost", "unmarked duplicates", "marked duplicates", "effects not once", "a person was asked")
	for i, w := range acts {
		for k, p := range places {
			var sum damage
			kills := 0
			for _, d := range got[i][k] {
				sum.add(d)
				if !d.none {
					kills++
				}
			}
			row(w.name, p.name, kills, sum.lost, sum.unmarked, sum.marked, len(sum.effects), sum.asked)
		}
	}
	_ = table.Flush()
	for i, w := range acts {
		fmt.Fprintf(&text, "\n%s: what each kill left of %d tasks\n\n", w.name, len(killedTasks))
		cells := []any{"killed"}
		for _, p := range places {
			cells = append(cells, p.name)
		}
		row(cells...)
		for n := range 2 * len(stages) {
			cells := []any{[]string{"before ", "after  "}[n%2] + stages[n/2].stage}
			for k := range places {
				cells = append(cells, got[i][k][n])
			}
			row(cells...)
		}
		_ = table.Flush()
	}
	return text.String()
}

// standsIn compares a text with what a document says that a test prints.
// DLQBRIDGE_UPDATE writes it there.
func standsIn(t *testing.T, file, test, text string) {
	t.Helper()
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	start, end := "<!-- "+test+" prints: -->\n\n```text\n", "```\n"
	before, rest, ok := strings.Cut(string(have), start)
	printed, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for what %s prints", file, test)
	}
	if printed == text {
		return
	}
	if os.Getenv("DLQBRIDGE_UPDATE") == "" {
		t.Fatalf("%s says something else; look at it, and run with DLQBRIDGE_UPDATE=1 if that is right", file)
	}
	if err := os.WriteFile(file, []byte(before+start+text+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
