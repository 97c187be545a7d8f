package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
)

func (s *session) intake() *cobra.Command {
	var untilEmpty bool
	var routes []string
	cmd := &cobra.Command{
		Use:   "intake --until-empty",
		Short: "Turn the letters of dead-letter queues and subscriptions into records",
		Long: `Takes letters in until every dead-letter place is empty: three empty polls of one
second in a row, and a queue's own counters at zero. Pub/Sub has no counters: there
it takes eleven seconds of silence. A letter is deleted only when its payload and
its record are durable; it can be stopped at any moment.

It ends with exit code 3 when only letters are left that cannot be stored; they
stay where they are. For intake all the time use ` + "`dlqbridge serve`" + `.`,
		Example: `  dlqbridge intake --until-empty
  dlqbridge intake --until-empty --route orders -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !untilEmpty {
				return usagef("add --until-empty, or use `dlqbridge serve` for intake all the time", "intake without an end is what serve does")
			}
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			if err := s.knownRoutes("--route", routes...); err != nil {
				return err
			}
			chosen, err := s.someRoutes(routes)
			if err != nil {
				return err
			}
			counts, runErr := s.takeIn(cmd.Context(), b, chosen)
			if counts == nil {
				return runErr // nothing was begun
			}
			if err := s.print(counts, func(out *screen.Screen) {
				out.Printf("%s: %s made, %s stored, %d seen before, %d left that cannot be stored\n",
					plural(counts.Letters, "letter"), plural(counts.Records, "record"), plural(counts.Arrivals, "arrival"), counts.Duplicates, counts.Unstored)
			}); err != nil {
				return err
			}
			switch {
			case runErr != nil:
				return runErr
			case counts.Unstored > 0:
				return errPartial
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&untilEmpty, "until-empty", false, "end when the places are empty")
	cmd.Flags().StringSliceVar(&routes, "route", nil, "only these routes")
	return cmd
}

// someRoutes are the named routes, or all.
func (s *session) someRoutes(names []string) ([]config.Route, error) {
	if len(s.cfg.Routes) == 0 {
		hint := "add a route: - {name: orders, sqs: {dead_letter_queue: orders-dlq, source_queue: orders}}"
		if s.withoutFile() {
			hint = noFileHint
		}
		return nil, config.Problems{{File: s.cfg.File, Field: "routes", Text: "there is none", Hint: hint}}
	}
	if len(names) == 0 {
		return s.cfg.Routes, nil
	}
	var out []config.Route
	for _, r := range s.cfg.Routes {
		if slices.Contains(names, r.Name) {
			out = append(out, r)
		}
	}
	return out, nil
}

// takeIn empties the dead-letter queues of routes at the same time. The tables
// are asked and all queues are opened before the first letter is received, so
// that a missing one is told before there are letters. Nil counts: nothing was
// begun.
func (s *session) takeIn(ctx context.Context, b *wire.Bridge, routes []config.Route) (*enrich.Counts, error) {
	if err := b.Store.Ready(ctx); err != nil {
		return nil, err
	}
	tally := &tally{meter: s.meter}
	intakes := make([]*enrich.Intake, len(routes))
	opening, openCtx := errgroup.WithContext(ctx)
	for i, r := range routes {
		opening.Go(func() (err error) {
			intakes[i], _, err = b.Intake(openCtx, r, tally)
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var total enrich.Counts
	running, runCtx := errgroup.WithContext(ctx)
	for _, in := range intakes {
		running.Go(func() error {
			c, err := in.UntilEmpty(runCtx)
			mu.Lock()
			defer mu.Unlock()
			total.Letters += c.Letters
			total.Records += c.Records
			total.Arrivals += c.Arrivals
			total.Unstored += c.Unstored
			total.Duplicates += c.Duplicates
			return err
		})
	}
	err := running.Wait()
	return &total, err
}

// tally shows progress from what intake tells.
type tally struct {
	meter *meter

	mu             sync.Mutex
	letters, fresh int
}

// Observe implements enrich.Observer.
func (t *tally) Observe(e enrich.Event) {
	if t.meter == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	//exhaustive:ignore
	switch e.Kind {
	case enrich.EventReceived:
		t.letters += e.N
	case enrich.EventRecord:
		t.fresh += max(1, e.N)
	default:
		return
	}
	t.meter.show(fmt.Sprintf("%d letters received, %d new records", t.letters, t.fresh))
}
