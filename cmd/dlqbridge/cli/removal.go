package cli

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

// removal is the command that ends what somebody set up before its time, such
// as a hold. What is removed leaves a line in the log: who, and why.
func (s *session) removal(what kind, short, example string, remover func(*wire.Bridge) func(context.Context, string) error) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "remove ID…",
		Short:   short,
		Example: example,
		Args:    what.some,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := said("--reason", reason, dlqbridge.MaxReason, true, "it goes into the log"); err != nil {
				return err
			}
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			actor, err := s.actor(cmd.Context())
			if err != nil {
				return err
			}
			// A person at a terminal would read it twice, and nobody keeps what stands there.
			level := slog.LevelInfo
			if s.p.StdoutTerminal && s.p.StderrTerminal && !s.json() {
				level = slog.LevelDebug
			}
			remove, removed := remover(b), []string{}
			for _, id := range ids {
				switch err := remove(cmd.Context(), id); {
				case wire.Absent(err):
					return what.missing(id)
				case err != nil:
					return fmt.Errorf("remove %s %s: %w", what.word, id, err)
				}
				b.Log.LogAttrs(cmd.Context(), level, "removed before its time", slog.String("kind", what.word), slog.String("id", id), slog.String("by", actor.String()), slog.String("reason", reason))
				removed = append(removed, id)
			}
			return s.print(map[string]any{"removed": removed}, func(out *screen.Screen) {
				for _, id := range removed {
					out.Printf("%s removed by %s: %s\n", id, actor.String(), reason)
				}
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why (required; it goes into the log)")
	return cmd
}
