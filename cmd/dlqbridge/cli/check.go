package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/check"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
)

func (s *session) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Ask queues, subscriptions and tables whether the configuration can work",
		Long: `Validates the configuration, then asks the providers: do queues, subscriptions,
topics and tables exist and fit together, does retention leave time, who else would
get what is sent back, what may this caller not do, and is there a route on which
nothing could ever be proven. It changes nothing.

Exit code 1 if there is an error, 0 if there are warnings only.`,
		Example: "  dlqbridge check\n  dlqbridge check -o json | jq '.findings[] | select(.level != \"ok\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			if err := s.credentials(cmd.Context()); err != nil {
				return err
			}
			r := check.Run(cmd.Context(), b)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if i := slices.IndexFunc(r.Findings, func(f check.Finding) bool { return f.Subject == "routes" }); i >= 0 && s.withoutFile() {
				r.Findings[i].Hint = noFileHint
			}
			if err := s.print(r, func(out *screen.Screen) { printReport(out, r) }); err != nil {
				return err
			}
			if !r.OK {
				return errSaid
			}
			return nil
		},
	}
}

func printReport(out *screen.Screen, r check.Report) {
	styles := map[check.Level]screen.Style{check.LevelError: screen.Red, check.LevelWarning: screen.Yellow, check.LevelOK: screen.Green}
	for _, f := range r.Findings {
		where := f.Subject
		if f.Route != "" {
			where = "route " + f.Route + ", " + f.Subject
		}
		out.Printf("%s  %s: %s\n", screen.Styled{Style: styles[f.Level], Text: string(f.Level)}, where, f.Text)
		if f.Hint != "" {
			out.Printf("         %s\n", f.Hint)
		}
	}
	out.Printf("%s, %s\n", plural(r.Errors, "error"), plural(r.Warnings, "warning"))
}
