package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

func (s *session) mute() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mute",
		Short: "Keep a known group of failures quiet until a time",
		Long: `A mute keeps a group of failures (a signature) quiet: its records are not overdue,
neither in lists nor in metrics, until its end; then they are again, by
themselves. It changes no decision and stops no send (that is a hold), an open
incident is never muted, and lists go on showing the records, marked as muted.`,
		RunE: group,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(s.muteAdd(), s.muteList(), s.muteRemove())
	return cmd
}

// muteDoc is a mute for machines.
type muteDoc struct {
	ID        string  `json:"id"`
	Signature string  `json:"signature"`
	Route     *string `json:"route"`
	Reason    string  `json:"reason"`
	By        string  `json:"by"`
	At        string  `json:"at"`
	Until     string  `json:"until"`
	// Active: it keeps its group quiet now.
	Active bool `json:"active"`
}

func muteDocument(m dlqbridge.Mute, now time.Time) muteDoc {
	return muteDoc{
		ID: m.ID, Signature: m.Signature, Route: orNull(m.Route), Reason: m.Reason, By: m.By.String(),
		At: dlqbridge.FormatTime(m.At), Until: dlqbridge.FormatTime(m.Until), Active: now.Before(m.Until),
	}
}

// what is what a mute keeps quiet, in words.
func (m muteDoc) what() string {
	if m.Route == nil {
		return m.Signature
	}
	return m.Signature + " on route " + *m.Route
}

func (s *session) muteAdd() *cobra.Command {
	var m dlqbridge.Mute
	var until string
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Mute a group",
		Long:  "Mutes a group of failures until a time. It needs an end: what is quiet for ever is forgotten.",
		Example: `  dlqbridge mute add --signature sg_… --until 7d --reason "fixed in 1.4.2, which goes out on Monday"
  dlqbridge mute add --signature sg_… --route orders --until 2026-12-24T18:00:00Z --reason "INC-31"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			now := s.p.Now().UTC().Truncate(time.Millisecond)
			if err := checkMute(&m, until, now); err != nil {
				return err
			}
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			if err := s.knownRoutes("--route", m.Route); err != nil {
				return err
			}
			if err := s.knownGroup(cmd.Context(), b.Store, m.Signature); err != nil {
				return err
			}
			if m.By, err = s.actor(cmd.Context()); err != nil {
				return err
			}
			m.ID, m.At = "m_"+dlqbridge.NewToken(), now
			if err := b.Store.AddMute(cmd.Context(), m); err != nil {
				return err
			}
			d := muteDocument(m, now)
			return s.print(d, func(out *screen.Screen) { out.Printf("%s mutes %s until %s\n", d.ID, d.what(), d.Until) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&m.Signature, "signature", "", "the group of failures (sg_…, required)")
	flags.StringVar(&m.Route, "route", "", "only on this route")
	flags.StringVar(&until, "until", "", "until this time, or for this span (required)")
	flags.StringVar(&m.Reason, "reason", "", "why (required)")
	return cmd
}

func checkMute(m *dlqbridge.Mute, until string, now time.Time) (err error) {
	const groups = "as `dlqbridge records groups` shows them"
	switch {
	case m.Signature == "":
		return usagef("name a group, "+groups, "--signature is missing")
	case signature(m.Signature) != nil:
		return signature(m.Signature)
	case until == "":
		return usagef("write a time or a span, such as 7d", "--until is missing: a mute needs an end")
	}
	if err := said("--reason", m.Reason, dlqbridge.MaxReason, true, "whoever wonders at the silence must know why"); err != nil {
		return err
	}
	m.Until, err = moment("--until", until, now)
	return err
}

// maxNamedGroups bounds the groups that a wrong signature is answered with.
const maxNamedGroups = 3

// knownGroup refuses a group that no record is in, which is most likely a slip:
// one that was meant would stay loud. Open records are asked first, and only
// for one that is not among them the whole table.
func (s *session) knownGroup(ctx context.Context, index dlqbridge.WorkIndex, signature string) error {
	find := func(f dlqbridge.Filter) (bool, error) {
		f.Now = s.p.Now()
		for _, err := range index.List(ctx, f) {
			return err == nil, err
		}
		return false, nil
	}
	found, err := find(dlqbridge.Filter{Signature: signature})
	if err != nil || found {
		return err
	}
	found, err = find(dlqbridge.Filter{Signature: signature, Closed: true})
	if errors.Is(err, dlqbridge.ErrDenied) {
		s.errors.Printf("no open record is in %s, and closed ones may not be read: whether there is such a group is unknown\n", signature)
		return nil
	}
	if err != nil || found {
		return err
	}
	groups, err := grouped(ctx, index, nil, dlqbridge.Filter{Now: s.p.Now()})
	if err != nil {
		return err
	}
	hint := "`dlqbridge records groups --all` shows them"
	if len(groups) > 0 {
		var names []string
		for _, g := range groups[:min(len(groups), maxNamedGroups)] {
			names = append(names, dash(g.Signature)+" ("+plural(g.Count, "record")+")")
		}
		hint = "the largest are " + strings.Join(names, ", ") + "; `dlqbridge records groups --all` shows all"
	}
	return hinted(&missingError{"group", signature}, hint)
}

func (s *session) muteList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List mutes, those that ended lately too",
		Example: "  dlqbridge mute list\n  dlqbridge mute list -o json | jq '.mutes[] | select(.active)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			mutes, err := b.Store.ListMutes(cmd.Context())
			if err != nil {
				return err
			}
			docs := []muteDoc{}
			for _, m := range mutes {
				docs = append(docs, muteDocument(m, s.p.Now()))
			}
			return s.print(map[string]any{"mutes": docs}, func(out *screen.Screen) {
				if len(docs) == 0 {
					out.Printf("no mutes\n")
					return
				}
				table := out.NewTable("ID", "MUTES", "UNTIL", "SINCE", "BY", "REASON")
				for _, d := range docs {
					until := d.Until
					if !d.Active {
						until += " (past)"
					}
					table.Row(d.ID, d.what(), until, d.At, d.By, d.Reason)
				}
				table.Flush()
			})
		},
	}
}

func (s *session) muteRemove() *cobra.Command {
	return s.removal(kind{"mute", "m_…", "dlqbridge mute list"}, "End mutes before their time", `  dlqbridge mute remove m_… --reason "it is back in 1.4.3"`,
		func(b *wire.Bridge) func(context.Context, string) error { return b.Store.RemoveMute })
}

// mutedUntil is when a record is not quiet any more; null if it is not now.
func mutedUntil(c dlqbridge.Control, f dlqbridge.Filter) *string {
	m, ok := dlqbridge.Muted(f.Mutes, c, f.Now)
	if !ok {
		return nil
	}
	return at(m.Until)
}
