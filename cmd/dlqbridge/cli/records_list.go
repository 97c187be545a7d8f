package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// listItem is one record in a list: the public item, and what helps to choose.
type listItem struct {
	enrich.ListItem
	Version    int                `json:"version"`
	Uncovered  dlqbridge.Effect   `json:"uncovered"`
	RepeatSafe bool               `json:"repeatSafe"`
	Why        dlqbridge.Why      `json:"why"`
	TaskType   *string            `json:"taskType"`
	Source     string             `json:"source"`
	Identity   dlqbridge.Identity `json:"identity"`
	Previous   *string            `json:"previous"`
	TriageBy   *string            `json:"triageBy"`
	LostAt     *string            `json:"lostAt"`
	Arrivals   int                `json:"arrivals"`
	Redrives   int                `json:"redrives"`
	Conflict   bool               `json:"conflict"`
	Late       bool               `json:"late"`
	// MutedUntil is set while a mute keeps its group quiet.
	MutedUntil *string `json:"mutedUntil"`
}

func item(c dlqbridge.Control, f dlqbridge.Filter) listItem {
	return listItem{
		ListItem: enrich.List(c), Version: c.Version, Uncovered: c.Uncovered, RepeatSafe: c.RepeatSafe, Why: c.Why,
		TaskType: orNull(c.TaskType), Source: c.Source, Identity: c.Identity, Previous: orNull(c.Previous),
		TriageBy: at(c.TriageBy), LostAt: at(c.LostAt), Arrivals: c.Arrivals, Redrives: c.Redrives, Conflict: c.Conflict, Late: c.Late, MutedUntil: mutedUntil(c, f),
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// at is a time as it is shown; null for "none".
func at(t time.Time) *string { return orNull(dlqbridge.FormatTime(t)) }

// listFlags are the filters of `records list`.
type listFlags struct {
	routes, causes, status                                  []string
	lane, signature, tenant, taskType, effect, owner, after string
	nearDeadline                                            string
	overdue, all                                            bool
	limit                                                   int
}

func (f *listFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.routes, "route", nil, "only these routes")
	flags.StringSliceVar(&f.causes, "cause", nil, "only these causes")
	flags.StringSliceVar(&f.status, "status", nil, "only these statuses")
	flags.StringVar(&f.lane, "lane", "", "only this lane")
	flags.StringVar(&f.signature, "signature", "", "only this group of failures (sg_…)")
	flags.StringVar(&f.tenant, "tenant", "", "only this tenant")
	flags.StringVar(&f.taskType, "task-type", "", "only this type of task")
	flags.StringVar(&f.effect, "effect", "", "only this effect: none_confirmed, confirmed or unknown")
	flags.StringVar(&f.owner, "owner", "", "only what this owner has")
	flags.BoolVar(&f.overdue, "overdue", false, "only records past their triage deadline, and not muted")
	flags.StringVar(&f.nearDeadline, "near-deadline", "", "only tasks whose own deadline is nearer than this, such as 2h")
	flags.BoolVar(&f.all, "all", false, "closed records too (reads the whole table; order by id)")
}

func (f *listFlags) filter(now time.Time) (dlqbridge.Filter, error) {
	out := dlqbridge.Filter{
		Closed: f.all, Routes: f.routes, Signature: f.signature, Tenant: f.tenant, TaskType: f.taskType,
		Owner: f.owner, Overdue: f.overdue, Now: now, After: f.after,
	}
	err := signature(f.signature)
	if err != nil {
		return out, err
	}
	if out.Causes, err = words("--cause", f.causes, dlqbridge.Causes()); err != nil {
		return out, err
	}
	if out.Status, err = words("--status", f.status, dlqbridge.Statuses()); err != nil {
		return out, err
	}
	for _, s := range out.Status {
		if s.Closed() {
			out.Closed = true // whoever asks for a closing status wants closed records
		}
	}
	if out.Lane, err = word("--lane", f.lane, lanes()); err != nil {
		return out, err
	}
	if out.Effect, err = word("--effect", f.effect, effects); err != nil {
		return out, err
	}
	out.NearDeadline, err = span("--near-deadline", f.nearDeadline)
	return out, err
}

func (s *session) recordsList() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List records, most urgent first",
		Long: `Lists open records in the order in which they should be looked at: those whose
task has a deadline first, the nearest deadline on top, then the oldest.

The list comes from an index that lags a little behind the records. With -o json
it is {"records":[…],"next":"…"}; pass next to --after to go on.`,
		Example: `  dlqbridge records list --overdue
  dlqbridge records list --cause timeout --effect none_confirmed
  dlqbridge records list --status under_investigation --route orders -o json
  dlqbridge records list --limit 0 -o json | jq -r '.records[].id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.limit < 0 {
				return usagef("0 lists all", "--limit cannot be negative")
			}
			b, filter, err := s.listing(cmd.Context(), f)
			if err != nil {
				return err
			}
			if s.json() {
				return s.listJSON(cmd.Context(), b.Store, filter, f.limit)
			}
			return s.listText(cmd.Context(), b.Store, filter, f.limit)
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&f.limit, "limit", 50, "at most this many; 0 lists all")
	cmd.Flags().StringVar(&f.after, "after", "", "go on behind this position (next of an earlier list)")
	return cmd
}

// listing opens the store for a list by these flags, with the mutes that it goes by.
func (s *session) listing(ctx context.Context, f listFlags) (*wire.Bridge, dlqbridge.Filter, error) {
	filter, err := f.filter(s.p.Now())
	if err != nil {
		return nil, filter, err
	}
	b, err := s.open(ctx, nil)
	if err != nil {
		return nil, filter, err
	}
	if err := s.listRoutes(ctx, b.Store, filter); err != nil {
		return nil, filter, err
	}
	if filter.Mutes, err = b.Store.ListMutes(ctx); err != nil {
		return nil, filter, fmt.Errorf("what is muted: %w", err)
	}
	return b, filter, nil
}

// listRoutes refuses a route that is not configured, as intake does, unless
// there are records of it from a time when it was.
func (s *session) listRoutes(ctx context.Context, index dlqbridge.WorkIndex, f dlqbridge.Filter) error {
	for _, name := range f.Routes {
		unknown := s.knownRoutes("--route", name)
		if unknown == nil {
			continue
		}
		found := false
		for _, err := range index.List(ctx, dlqbridge.Filter{Routes: []string{name}, Closed: f.Closed, Now: f.Now}) {
			if err != nil {
				return err
			}
			found = true
			break
		}
		if !found {
			return unknown
		}
	}
	return nil
}

// listed calls each for at most limit records and returns the position behind
// the last one if there is more. An --after that is no position of such a list is
// refused before anything is listed: a person wrote it, so it is no fault of the
// configuration.
func listed(ctx context.Context, index dlqbridge.WorkIndex, f dlqbridge.Filter, limit int, each func(dlqbridge.Control) error) (next string, err error) {
	n, last := 0, ""
	for l, err := range index.List(ctx, f) {
		switch {
		case err != nil && n == 0 && f.After != "" && errors.Is(err, dlqbridge.ErrInvalid):
			return "", usagef("give next of an earlier list (-o json), and the same --all and --status as for that one", "--after: %v", err)
		case err != nil:
			return last, err
		}
		if limit > 0 && n == limit {
			return last, nil
		}
		if err := each(l.Control); err != nil {
			return last, err
		}
		n++
		last = l.Next
	}
	return "", nil
}

// listJSON writes the document as it comes, so that a list of any length needs
// no memory. If the list breaks off, the document is still closed: with the
// position to go on from, and the error.
func (s *session) listJSON(ctx context.Context, index dlqbridge.WorkIndex, f dlqbridge.Filter, limit int) error {
	first, n := true, 0
	open := func() error {
		_, err := s.stdout.Write([]byte(`{"records":[`))
		first = false
		return err
	}
	next, err := listed(ctx, index, f, limit, func(c dlqbridge.Control) error {
		text, err := screen.CompactJSON(item(c, f))
		if err != nil {
			return err
		}
		if first {
			err = open()
		} else {
			_, err = s.stdout.Write([]byte(","))
		}
		if err != nil {
			return err
		}
		n++
		_, err = s.stdout.Write(append([]byte("\n"), text...))
		return err
	})
	if err != nil && first {
		return err // nothing is printed yet, so the error can be the document
	}
	if first {
		if err := open(); err != nil {
			return err
		}
	}
	if err == nil && next != "" {
		s.cut(n, next) // a pipe may read no further than the records
	}
	tail := struct {
		Next  *string  `json:"next"`
		Error *failure `json:"error,omitempty"`
	}{Next: orNull(next)}
	if err != nil {
		said, _ := describe(err)
		tail.Error = &said
	}
	text, encodeErr := screen.CompactJSON(tail)
	if encodeErr != nil {
		return encodeErr
	}
	if _, writeErr := s.stdout.Write(append([]byte("\n],"), append(text[1:], '\n')...)); writeErr != nil {
		return writeErr
	}
	return err
}

func (s *session) listText(ctx context.Context, index dlqbridge.WorkIndex, f dlqbridge.Filter, limit int) error {
	table := s.screen.NewTable("ID", "STATUS", "CAUSE", "EFFECT", "ACTION", "ROUTE", "TASK", "TENANT", "OWNER", "AGE", "DEADLINE")
	now, n := s.p.Now(), 0
	next, err := listed(ctx, index, f, limit, func(c dlqbridge.Control) error {
		n++
		status := statusCell(c.Status)
		if mutedUntil(c, f) != nil {
			status.Text += " (muted)"
		}
		table.Row(c.ID, status, string(c.Cause), effectCell(c.Effect), string(c.Action), c.Route,
			dash(c.TaskID), dash(c.Tenant), dash(c.Owner), age(c.FirstSeen, now), deadlineCell(c.Deadline, now))
		return s.stdout.err
	})
	table.Flush()
	if err != nil {
		return err
	}
	switch {
	case n == 0:
		s.screen.Printf("no records\n")
	case next != "":
		s.cut(n, next)
	}
	return nil
}

// cut says that a list was cut, and how to get the rest.
func (s *session) cut(shown int, next string) {
	s.errors.Printf("shown %d, there are more: --limit 0 lists all, --after %s goes on\n", shown, next)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func statusCell(st dlqbridge.Status) screen.Styled {
	style := screen.Style("")
	//exhaustive:ignore
	switch st {
	case dlqbridge.StatusIncidentOpen:
		style = screen.Red
	case dlqbridge.StatusUnderInvestigation:
		style = screen.Yellow
	case dlqbridge.StatusAuthorized, dlqbridge.StatusRedriving, dlqbridge.StatusFixValidated, dlqbridge.StatusCompleted:
		style = screen.Green
	default:
	}
	return screen.Styled{Style: style, Text: string(st)}
}

func effectCell(e dlqbridge.Effect) screen.Styled {
	style := map[dlqbridge.Effect]screen.Style{dlqbridge.EffectUnknown: screen.Yellow, dlqbridge.EffectConfirmed: screen.Red, dlqbridge.EffectNone: screen.Green}[e]
	return screen.Styled{Style: style, Text: string(e)}
}

func deadlineCell(t, now time.Time) screen.Styled {
	switch {
	case t.IsZero():
		return screen.Styled{Text: "-"}
	case !t.After(now):
		return screen.Styled{Style: screen.Red, Text: age(t, now) + " ago"}
	}
	return screen.Styled{Text: "in " + age(now, t)}
}

// age is how long ago a time was, in the one unit that matters.
func age(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d >= 48*time.Hour:
		return itoa(int(d.Hours()/24)) + "d"
	case d >= time.Hour:
		return itoa(int(d.Hours())) + "h"
	case d >= time.Minute:
		return itoa(int(d.Minutes())) + "m"
	}
	return itoa(max(0, int(d.Seconds()))) + "s"
}

// plural counts things in words: 1 record, 2 records.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return itoa(n) + " " + thing + "s"
}
