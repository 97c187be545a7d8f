package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

func (s *session) hold() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold",
		Short: "Stop sends by route, destination, tenant, signature or record",
		Long: `A hold is a stop sign: what it matches is not sent, from within the next batch
of a running job on, until the hold is removed or its time is over. Nothing is
forgotten: held records are excluded with the reason "held".`,
		RunE: group,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(s.holdAdd(), s.holdList(), s.holdRemove())
	return cmd
}

// holdDoc is a hold for machines.
type holdDoc struct {
	ID          string  `json:"id"`
	Route       *string `json:"route"`
	Destination *string `json:"destination"`
	Tenant      *string `json:"tenant"`
	Signature   *string `json:"signature"`
	Record      *string `json:"record"`
	All         bool    `json:"all"`
	Reason      string  `json:"reason"`
	By          string  `json:"by"`
	At          string  `json:"at"`
	Until       *string `json:"until"`
	// Active: it stops sends now.
	Active bool `json:"active"`
}

func holdDocument(h dlqbridge.Hold, now time.Time) holdDoc {
	return holdDoc{
		ID: h.ID, Route: orNull(h.Route), Destination: orNull(h.Destination), Tenant: orNull(h.Tenant), Signature: orNull(h.Signature), Record: orNull(h.Record),
		All: h.All, Reason: h.Reason, By: h.By.String(), At: dlqbridge.FormatTime(h.At), Until: at(h.Until), Active: h.Until.IsZero() || now.Before(h.Until),
	}
}

// what is what a hold stops, in words.
func (h holdDoc) what() string {
	if h.All {
		return "everything"
	}
	var out []string
	for _, one := range []struct {
		name  string
		value *string
	}{{"route", h.Route}, {"destination", h.Destination}, {"tenant", h.Tenant}, {"signature", h.Signature}, {"record", h.Record}} {
		if one.value != nil {
			out = append(out, one.name+" "+*one.value)
		}
	}
	return strings.Join(out, " and ")
}

func (s *session) holdAdd() *cobra.Command {
	var h dlqbridge.Hold
	var until string
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Add a hold",
		Long:  "Adds a hold. Selectors that are given together must all match; --all stops every send.",
		Example: `  dlqbridge hold add --route orders --until 2h --reason "payments has an outage"
  dlqbridge hold add --tenant acme --signature sg_… --reason "they are looking at it"
  dlqbridge hold add --all --reason "INC-31"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := said("--reason", h.Reason, dlqbridge.MaxReason, true, "whoever is stopped must know why"); err != nil {
				return err
			}
			now := s.p.Now().UTC().Truncate(time.Millisecond)
			if err := s.checkHold(&h, until, now); err != nil {
				return err
			}
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			if err := s.holdNames(h); err != nil {
				return err
			}
			if h.Signature != "" {
				if err := s.knownGroup(cmd.Context(), b.Store, h.Signature); err != nil {
					return err
				}
			}
			if h.By, err = s.actor(cmd.Context()); err != nil {
				return err
			}
			h.ID, h.At = "h_"+dlqbridge.NewToken(), now
			if err := b.Store.AddHold(cmd.Context(), h); err != nil {
				return fmt.Errorf("add the hold: %w", err)
			}
			d := holdDocument(h, now)
			return s.print(d, func(out *screen.Screen) { out.Printf("%s holds %s\n", d.ID, d.what()) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&h.Route, "route", "", "stop this route")
	flags.StringVar(&h.Destination, "destination", "", "stop sends to this destination (ARN)")
	flags.StringVar(&h.Tenant, "tenant", "", "stop this tenant")
	flags.StringVar(&h.Signature, "signature", "", "stop this group of failures (sg_…)")
	flags.StringVar(&h.Record, "record", "", "stop this record (r_…)")
	flags.BoolVar(&h.All, "all", false, "stop everything")
	flags.StringVar(&h.Reason, "reason", "", "why (required)")
	flags.StringVar(&until, "until", "", "until this time, or for this span; without it until removed")
	return cmd
}

func (s *session) checkHold(h *dlqbridge.Hold, until string, now time.Time) (err error) {
	selected := h.Route + h.Destination + h.Tenant + h.Signature + h.Record
	switch {
	case selected == "" && !h.All:
		return usagef("name a --route, --destination, --tenant, --signature or --record, or --all", "a hold without a selector stops nothing")
	case selected != "" && h.All:
		return usagef("--all stops everything by itself", "--all and other selectors contradict each other")
	case h.Destination != "" && !strings.HasPrefix(h.Destination, "arn:"):
		return usagef("write the queue's ARN, as `dlqbridge redrive plan` shows it", "--destination %q is no ARN", h.Destination)
	case signature(h.Signature) != nil:
		return signature(h.Signature)
	}
	if h.Record != "" {
		if err := recordIDs([]string{h.Record}); err != nil {
			return err
		}
	}
	if until != "" {
		h.Until, err = moment("--until", until, now)
	}
	return err
}

// holdNames refuses a route that is not configured: a slip of the pen must not
// look like a stop sign.
func (s *session) holdNames(h dlqbridge.Hold) error {
	return s.knownRoutes("--route", h.Route)
}

func (s *session) knownRoutes(flag string, names ...string) error {
	var known []string
	for _, r := range s.cfg.Routes {
		known = append(known, r.Name)
	}
	for _, name := range names {
		if _, ok := s.cfg.Route(name); !ok && name != "" {
			hint := config.Suggestion(name, known)
			if s.withoutFile() {
				hint = noFileHint
			}
			return usagef(hint, "%s %q is not configured", flag, name)
		}
	}
	return nil
}

func (s *session) holdList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List holds, those past their time too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			holds, err := b.Store.ListHolds(cmd.Context())
			if err != nil {
				return fmt.Errorf("list holds: %w", err)
			}
			docs := []holdDoc{}
			for _, h := range holds {
				docs = append(docs, holdDocument(h, s.p.Now()))
			}
			return s.print(map[string]any{"holds": docs}, func(out *screen.Screen) {
				if len(docs) == 0 {
					out.Printf("no holds\n")
					return
				}
				table := out.NewTable("ID", "STOPS", "UNTIL", "SINCE", "BY", "REASON")
				for _, d := range docs {
					until := "it is removed"
					if d.Until != nil {
						until = *d.Until
					}
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

func (s *session) holdRemove() *cobra.Command {
	return s.removal(kind{"hold", "h_…", "dlqbridge hold list"}, "Remove holds", `  dlqbridge hold remove h_… --reason "the outage is over"`,
		func(b *wire.Bridge) func(context.Context, string) error { return b.Store.RemoveHold })
}
