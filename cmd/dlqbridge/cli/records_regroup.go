package cli

import (
	"cmp"
	"context"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/triage"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// regroupedDoc is what regrouping did, or would do.
type regroupedDoc struct {
	Rule      int                 `json:"rule"`
	DryRun    bool                `json:"dryRun"`
	Looked    int                 `json:"looked"`
	Regrouped []triage.Regrouping `json:"regrouped"`
	Excluded  []triage.Regrouping `json:"excluded"`
}

func (s *session) recordsRegroup() *cobra.Command {
	var routes []string
	var dry bool
	cmd := &cobra.Command{
		Use:   "regroup",
		Short: "Give open records the signatures that newer rules make",
		Long: `A version of dlqbridge may make signatures by other rules than the one that stored
a record. New letters get the new signatures; this command gives them to the open
records that older rules signed, so that groups are whole again. Nothing but the
signature changes, and each change is in the record's history. A record that is
being sent, or that a hold stops by its old signature, is left as it is and named
(exit code 3). A plan that was made before is refused for records that moved.`,
		Example: "  dlqbridge records regroup --dry-run\n  dlqbridge records regroup --route orders",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := regroupedDoc{Rule: enrich.SignatureRule, DryRun: dry, Regrouped: []triage.Regrouping{}, Excluded: []triage.Regrouping{}}
			if err := s.regroup(cmd.Context(), routes, &d); err != nil {
				return err
			}
			if err := s.print(d, func(out *screen.Screen) { printRegrouped(out, d) }); err != nil {
				return err
			}
			if len(d.Excluded) > 0 {
				return errPartial
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&routes, "route", nil, "only these routes")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would change")
	return cmd
}

// regroupedAtOnce bounds the records that are read and moved at the same time.
const regroupedAtOnce = 8

func (s *session) regroup(ctx context.Context, routes []string, d *regroupedDoc) error {
	b, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	filter := dlqbridge.Filter{Routes: routes, Now: s.p.Now()}
	if err := s.listRoutes(ctx, b.Store, filter); err != nil {
		return err
	}
	holds, err := b.Store.ListHolds(ctx)
	if err != nil {
		return err
	}
	var actor dlqbridge.Actor
	if !d.DryRun {
		if actor, err = s.actor(ctx); err != nil {
			return err
		}
	}
	mover := triage.Mover{Store: b.Store, Judge: b.JudgeCase, Now: b.Now}
	var mu sync.Mutex
	work, workCtx := errgroup.WithContext(ctx)
	work.SetLimit(regroupedAtOnce)
	for l, err := range b.Store.List(workCtx, filter) {
		if err != nil {
			return cmp.Or(work.Wait(), err) // work that failed stops the list
		}
		if l.Control.Signed.Rule == enrich.SignatureRule {
			continue
		}
		d.Looked++
		work.Go(func() error {
			r, err := mover.Regroup(workCtx, l.Control.ID, actor, holds, d.DryRun)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Left != "":
				d.Excluded = append(d.Excluded, r)
			case r.Moves():
				d.Regrouped = append(d.Regrouped, r)
			}
			return nil
		})
	}
	return work.Wait()
}

func printRegrouped(out *screen.Screen, d regroupedDoc) {
	verb := "regrouped"
	if d.DryRun {
		verb = "would be regrouped"
	}
	for _, r := range d.Regrouped {
		out.Printf("%s  %s -> %s\n", r.ID, dash(r.From), r.To)
	}
	for _, r := range d.Excluded {
		out.Printf("%s  left in %s: %s, %s\n", r.ID, dash(r.From), string(r.Left), r.Why)
	}
	out.Printf("%s signed by other rules than %d: %d %s, %d left\n", plural(d.Looked, "record"), d.Rule, len(d.Regrouped), verb, len(d.Excluded))
}
