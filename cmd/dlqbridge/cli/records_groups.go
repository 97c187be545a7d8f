package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// groupDoc is one group of failures of one signature and cause. What differs
// in risk inside the group is counted, never hidden.
type groupDoc struct {
	Signature string                   `json:"signature"`
	Cause     dlqbridge.Cause          `json:"cause"`
	Lane      dlqbridge.Lane           `json:"lane"`
	Count     int                      `json:"count"`
	Effects   map[dlqbridge.Effect]int `json:"effects"`
	Actions   map[dlqbridge.Action]int `json:"actions"`
	Statuses  map[dlqbridge.Status]int `json:"statuses"`
	TaskTypes map[string]int           `json:"taskTypes"`
	Routes    map[string]int           `json:"routes"`
	Tenants   map[string]int           `json:"tenants"`
	Versions  versionsDoc              `json:"versions"`
	// FirstSeen is when the first of the records failed so, FirstVersion the
	// versions that it failed with; null if it named none.
	FirstSeen    string      `json:"firstSeen"`
	LastSeen     string      `json:"lastSeen"`
	FirstVersion *versionDoc `json:"firstVersion"`
	// Deadline is the nearest one of the group; null if no task has one.
	// Recurrences counts how often its records came back after a redrive.
	Deadline    *string `json:"deadline"`
	Recurrences int     `json:"recurrences"`
	Example     string  `json:"example"`
	// Failure is what failed in the example; null if its context is gone. All of
	// a group have its step, dependency and code, but for the message.
	Failure *failureDoc `json:"failure"`
	// Muted counts the records that a mute keeps quiet, MutedUntil is when the
	// first of them is not any more.
	Muted      int     `json:"muted"`
	MutedUntil *string `json:"mutedUntil"`
	// Fixes is what was changed about the group and what came of it, the first
	// one first; null unless it was asked for.
	Fixes []*enrich.FixResult `json:"fixes"`

	fixes enrich.Fixes
	// context names what the example's decision stands on.
	context string
}

// failureDoc is what failed, as far as somebody said so; null is nobody did.
type failureDoc struct {
	Step       *string `json:"step"`
	Tool       *string `json:"tool"`
	Dependency *string `json:"dependency"`
	Code       *string `json:"code"`
	Message    *string `json:"message"`
}

func newFailure(f dlqbridge.Failure) *failureDoc {
	return &failureDoc{orNull(f.Step), orNull(f.Tool), orNull(f.Dependency), orNull(f.Code), orNull(f.Message)}
}

// maxShownMessage is how much of an error's text a line of a table holds, in bytes.
const maxShownMessage = 60

// String is the failure as a table shows it.
func (f *failureDoc) String() string {
	if f == nil {
		return ""
	}
	var out []string
	for _, part := range []*string{f.Step, f.Tool, f.Dependency, f.Code} {
		if part != nil && !slices.Contains(out, *part) {
			out = append(out, *part)
		}
	}
	if m := f.Message; m != nil {
		short := dlqbridge.CutText(*m, maxShownMessage)
		if short != *m {
			short += "…"
		}
		out = append(out, strconv.Quote(short))
	}
	return strings.Join(out, " ")
}

// versionsDoc counts the records of a group by the versions that first failed
// so, those cut that are longer than forty bytes.
type versionsDoc struct {
	Agent    map[string]int `json:"agent"`
	Workflow map[string]int `json:"workflow"`
}

type versionDoc struct {
	Agent    *string `json:"agent"`
	Workflow *string `json:"workflow"`
}

// String is the version as a table shows it.
func (v *versionDoc) String() string {
	var out []string
	if v != nil && v.Agent != nil {
		out = append(out, *v.Agent)
	}
	if v != nil && v.Workflow != nil {
		out = append(out, "workflow "+*v.Workflow)
	}
	return dash(strings.Join(out, ", "))
}

func newGroup(c dlqbridge.Control) *groupDoc {
	return &groupDoc{
		Signature: c.Signature, Cause: c.Cause, Lane: dlqbridge.DefaultCausePolicy(c.Cause).Lane, Example: c.ID, context: c.Context,
		Effects: map[dlqbridge.Effect]int{}, Actions: map[dlqbridge.Action]int{}, Statuses: map[dlqbridge.Status]int{},
		TaskTypes: map[string]int{}, Routes: map[string]int{}, Tenants: map[string]int{},
		Versions: versionsDoc{Agent: map[string]int{}, Workflow: map[string]int{}},
	}
}

func (g *groupDoc) add(c dlqbridge.Control, f dlqbridge.Filter) {
	g.Count++
	if until := mutedUntil(c, f); until != nil {
		g.Muted++
		if g.MutedUntil == nil || *until < *g.MutedUntil {
			g.MutedUntil = until
		}
	}
	g.Effects[c.Effect]++
	g.Actions[c.Action]++
	g.Statuses[c.Status]++
	g.Routes[c.Route]++
	count(g.TaskTypes, c.TaskType)
	count(g.Tenants, c.Tenant)
	count(g.Versions.Agent, c.Signed.Agent)
	count(g.Versions.Workflow, c.Signed.Workflow)
	g.Recurrences += c.Recurrences
	if due := dlqbridge.FormatTime(c.Deadline); due != "" && (g.Deadline == nil || due < *g.Deadline) {
		g.Deadline = &due
	}
	first, last := dlqbridge.FormatTime(c.FailedSoSince()), dlqbridge.FormatTime(c.LastSeen)
	if g.FirstSeen == "" || first < g.FirstSeen { // fixed width: the order of the texts is that of the times
		g.FirstSeen, g.FirstVersion = first, nil
		if c.Signed.Agent != "" || c.Signed.Workflow != "" {
			g.FirstVersion = &versionDoc{orNull(c.Signed.Agent), orNull(c.Signed.Workflow)}
		}
	}
	g.LastSeen = max(g.LastSeen, last)
}

// count counts what is known.
func count(counts map[string]int, value string) {
	if value != "" {
		counts[value]++
	}
}

func (s *session) recordsGroups() *cobra.Command {
	var f listFlags
	var fixes bool
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Group records by what failed",
		Long: `Groups open records by signature (process, step, dependency, error code, workflow
version) and cause, the largest group first. One fix often frees a whole group,
but a group may hold records of different risk: the columns count them. WHAT
FAILED is the example's task type, step, tool, dependency and code, with the
message of the example alone. FIRST VERSION is the version of agent and workflow
with which the first record that is listed failed so; --all looks at closed
records too.

With --fixes the history of each record is read: which fixes were recorded for a
group, how many of its failures came before and after each, and how the redrives
ended that were made under it. What a fix brought to an end is closed, so only --all
says what it was worth; that reads the whole table, and without it the answer says
that closed records are not counted (closedCounted in the JSON).`,
		Example: "  dlqbridge records groups\n  dlqbridge records groups --route orders -o json\n  dlqbridge records groups --signature sg_… --all --fixes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, filter, err := s.listing(cmd.Context(), f)
			if err != nil {
				return err
			}
			var histories dlqbridge.CountedReader
			if fixes {
				histories = b.Store
			}
			groups, err := grouped(cmd.Context(), b.Store, histories, filter)
			if err != nil {
				return err
			}
			if err := failures(cmd.Context(), b.Store, groups); err != nil {
				return err
			}
			doc := groupsDoc{Groups: groups, ClosedCounted: filter.Closed}
			return s.print(doc, func(out *screen.Screen) { printGroups(out, doc, fixes, s.p.Now()) })
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&fixes, "fixes", false, "read histories: failures before and after each fix")
	return cmd
}

// historiesAtOnce is how many records' histories or contexts are read together; it bounds
// the memory that they take.
const historiesAtOnce = 100

// grouped reads the records that the filter selects, the largest group first.
// With histories they are read too, some records at a time.
func grouped(ctx context.Context, index dlqbridge.WorkIndex, histories dlqbridge.CountedReader, f dlqbridge.Filter) ([]*groupDoc, error) {
	type key struct {
		signature string
		cause     dlqbridge.Cause
	}
	byKey := map[key]*groupDoc{}
	groups := []*groupDoc{}
	var waiting []dlqbridge.Control
	read := func() error {
		cases, err := histories.Counted(ctx, waiting)
		if err != nil {
			return err
		}
		for _, c := range waiting {
			byKey[key{c.Signature, c.Cause}].fixes.Add(cases[c.ID])
		}
		waiting = waiting[:0]
		return nil
	}
	for l, err := range index.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		c := l.Control
		k := key{c.Signature, c.Cause}
		g, ok := byKey[k]
		if !ok {
			g = newGroup(c)
			byKey[k] = g
			groups = append(groups, g)
		}
		g.add(c, f)
		if histories == nil {
			continue
		}
		if waiting = append(waiting, c); len(waiting) == historiesAtOnce {
			if err := read(); err != nil {
				return nil, err
			}
		}
	}
	if len(waiting) > 0 {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if histories != nil {
		for _, g := range groups {
			g.Fixes = g.fixes.Results()
		}
	}
	slices.SortStableFunc(groups, func(a, b *groupDoc) int { return b.Count - a.Count })
	return groups, nil
}

// failures reads what failed in the example of each group.
func failures(ctx context.Context, contexts dlqbridge.ContextReader, groups []*groupDoc) error {
	for chunk := range slices.Chunk(groups, historiesAtOnce) {
		names := make(map[string]string, len(chunk))
		for _, g := range chunk {
			if g.context != "" {
				names[g.Example] = g.context
			}
		}
		found, err := contexts.Contexts(ctx, names)
		if err != nil {
			return err
		}
		for _, g := range chunk {
			if c, ok := found[g.Example]; ok {
				g.Failure = newFailure(c.Failure)
			}
		}
	}
	return nil
}

// groupsDoc is the answer for machines.
type groupsDoc struct {
	Groups []*groupDoc `json:"groups"`
	// ClosedCounted: closed records count too, in the groups and for their fixes.
	ClosedCounted bool `json:"closedCounted"`
}

// openOnly is said where what a fix was worth was asked of open records only.
const openOnly = "closed records are not counted, so what a fix brought to an end is missing here: --all says what it was worth\n"

func printGroups(out *screen.Screen, d groupsDoc, fixes bool, now time.Time) {
	groups := d.Groups
	if fixes && !d.ClosedCounted {
		defer out.Printf(openOnly)
	}
	if len(groups) == 0 {
		out.Printf("no records\n")
		return
	}
	table := out.NewTable("SIGNATURE", "CAUSE", "RECORDS", "EFFECT UNKNOWN", "CONFIRMED", "NONE", "TENANTS", "CAME BACK", "FIRST", "LAST", "FIRST VERSION", "DUE", "MUTED", "EXAMPLE", "WHAT FAILED")
	for _, g := range groups {
		due := ""
		if g.Deadline != nil {
			due = *g.Deadline
		}
		muted := "-"
		if g.MutedUntil != nil {
			muted = fmt.Sprintf("%d until %s", g.Muted, *g.MutedUntil)
		}
		table.Row(dash(g.Signature), string(g.Cause), itoa(g.Count), itoa(g.Effects[dlqbridge.EffectUnknown]), itoa(g.Effects[dlqbridge.EffectConfirmed]),
			itoa(g.Effects[dlqbridge.EffectNone]), itoa(len(g.Tenants)), itoa(g.Recurrences), ageOf(g.FirstSeen, now), ageOf(g.LastSeen, now), g.FirstVersion.String(),
			dash(due), muted, g.Example, dash(strings.TrimSpace(strings.Join(slices.Sorted(maps.Keys(g.TaskTypes)), ",")+" "+g.Failure.String())))
	}
	table.Flush()
	for _, g := range groups {
		for _, r := range g.Fixes {
			completed := ""
			if d.ClosedCounted {
				completed = fmt.Sprintf("%d completed, ", r.Completed)
			}
			out.Printf("%s %s, fix %s of %s: %s before it, %d after it; %s under it: %s%d came back, %d unconfirmed\n",
				dash(g.Signature), string(g.Cause), r.Fix, r.At, plural(r.FailuresBefore, "failure"), r.FailuresAfter, plural(r.Redrives, "redrive"), completed, r.Recurred, r.Unconfirmed)
		}
	}
}

func ageOf(stamp string, now time.Time) string {
	t, err := dlqbridge.ParseTime(stamp)
	if err != nil {
		return "-"
	}
	return age(t, now)
}
