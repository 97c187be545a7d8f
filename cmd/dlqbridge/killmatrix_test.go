package main_test

import (
	"bytes"
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
	name   string
	action dlqbridge.Action
	// settings are the route's, rest is further configuration.
	settings string
	rest     func(p place) string
	cause    dlqbridge.Cause
	// breaks is the step at which the first life fails; what is before it is
	// kept, under a checkpoint where checkpoint says so.
	breaks     string
	checkpoint bool
	// patch corrects the bodies before the run; without what it adds the agents
	// fail again.
	patch string
	// repeats: a send in doubt is repeated under its number, since the workers
	// refuse the second run. alone: not even a FIFO queue's memory is enough
	// without that.
	repeats, alone bool
	// effects is what must have happened to each task, each once.
	effects []string
	closes  dlqbridge.Status
}

// acts are the actions: each is one entry.
var acts = []act{
	{
		name: "retry, nothing declared", action: dlqbridge.ActionRetry, cause: dlqbridge.CauseTimeout,
		breaks: "0001#charge", effects: []string{"0001#charge", "0002#mail"}, closes: dlqbridge.StatusCompleted,
	},
	{
		name: "retry, workers use the kit", action: dlqbridge.ActionRetry, settings: ", kit: true", repeats: true, cause: dlqbridge.CauseTimeout,
		breaks: "0001#charge", effects: []string{"0001#charge", "0002#mail"}, closes: dlqbridge.StatusCompleted,
	},
	{
		name: "resume, workers use the kit", action: dlqbridge.ActionResume, settings: ", kit: true, resume: true", repeats: true, cause: dlqbridge.CauseTimeout,
		breaks: "0002#mail", checkpoint: true, effects: []string{"0001#charge", "0002#mail"}, closes: dlqbridge.StatusCompleted,
	},
	{
		name: "repair by a patch, workers use the kit", action: dlqbridge.ActionRepair, settings: ", kit: true", repeats: true, cause: dlqbridge.CauseInvalidInput, patch: `{"amount":12}`,
		breaks: "0001#charge", effects: []string{"0001#charge", "0002#mail"}, closes: dlqbridge.StatusCompleted,
	},
	{
		name: "compensate, idempotent", action: dlqbridge.ActionCompensate, settings: ", compensate_to: undo, compensate_idempotent: true, outcome: absence", repeats: true, cause: dlqbridge.CauseTimeout,
		rest: func(p place) string { return p.route("undo", "") }, breaks: "0002#mail", effects: []string{"0001#charge", "0001#refund"}, closes: dlqbridge.StatusCompensated,
	},
	{
		name: "compensate, nothing declared", action: dlqbridge.ActionCompensate, settings: ", compensate_to: undo, outcome: absence", alone: true, cause: dlqbridge.CauseTimeout,
		rest: func(p place) string { return p.route("undo", "") }, breaks: "0002#mail", effects: []string{"0001#charge", "0001#refund"}, closes: dlqbridge.StatusCompensated,
	},
}

// again says whether a send in doubt is sent again there.
func (w act) again(p place) bool { return w.repeats || p.drops() && !w.alone }

// window is when an outcome can be seen: at once in the ledger, and by absence
// when an observation has ended.
func (w act) window() time.Duration {
	if strings.Contains(w.settings, "absence") {
		return time.Hour
	}
	return time.Minute
}

// command is what a process of the matrix runs when it is killed.
type command int

const (
	running   command = iota // redrive run
	takenOver                // the next redrive run, after one that died when it had sent
	sentAgain                // the same, where what is in doubt is sent again
	observing                // redrive observe
	repairing                // triage repair
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
	case observing, repairing:
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
	{"repair: the new payload", repairing, written(`"S":"P#`), false},
	{"repair: its note", repairing, written(`"S":"note#`), false},
	{"repair: the move", repairing, on("PutItem", controlItem), false},
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
	a.work = func(ctx context.Context, r *ledger.Run, d delivery) error {
		for _, id := range []string{"0001#charge", "0002#mail"} {
			var broken error
			if id == w.breaks && (!healed || w.patch != "" && !bytes.Contains(d.body, []byte(`"amount"`))) {
				broken = because(w.cause)
			}
			if err := a.step(ctx, r, d.task(), id, broken); err != nil {
				return err
			}
			if w.checkpoint && id == "0001#charge" {
				if err := r.Checkpoint(ctx, "state of "+d.task(), id); err != nil {
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
	healed = true
	run := []string{"redrive", "run", "--cause", string(w.cause), "--reason", "fixed"}
	reached := true
	if w.patch == "" {
		run = append(run, "--fix", "deploy:1.4.2")
	} else {
		repair := []string{"triage", "repair", "--cause", string(w.cause), "--patch", a.patchFile(w.patch), "--reason", "it was missing"}
		if d.in == repairing {
			reached = a.dies(d.call, after, repair...)
		}
		a.run(repair...) // what is repaired already is left as it is, and said
	}
	for _, task := range tasks {
		if r := a.show(ids[task]); r.Decision.Action != string(w.action) {
			a.t.Errorf("%s, %s: %s is decided %s", w.name, a.place.name, task, r.Decision.Action)
		}
	}
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
		time.Sleep(w.window())
		reached = a.dies(d.call, after, "redrive", "observe")
	case repairing:
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
	time.Sleep(w.window())
	a.ok("redrive", "observe")
	for _, task := range tasks {
		sent := a.copies[task][1:] // the first one is that of its first life
		if status := a.show(ids[task]).Status; status != string(w.closes) {
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
	whole := wanted("KillMatrix")
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
						case d.in == sentAgain && !w.again(p), d.in == repairing && w.patch == "":
							got[i][k][n].none = true
							continue
						}
						rest := ""
						if w.rest != nil {
							rest = w.rest(p)
						}
						inPlace(t, p, strings.ReplaceAll(w.settings, "undo", p.queue("undo")), rest, func(a *agents) { got[i][k][n] = a.round(w, d, after) })
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
	if got.asked > 0 && w.again(p) {
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
			ever := false
			for k := range places {
				cells = append(cells, got[i][k][n])
				ever = ever || !got[i][k][n].none
			}
			if ever {
				row(cells...)
			}
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
