package cli

import (
	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
)

func (s *session) tables() *cobra.Command {
	cmd := &cobra.Command{Use: "tables", Short: "Make the tables", RunE: group, Args: cobra.ArbitraryArgs}
	cmd.AddCommand(&cobra.Command{
		Use:   "create",
		Short: "Make the records, payloads and ledger tables and wait for them",
		Long: `Makes the tables that are missing, with time to live and point-in-time recovery,
and waits until they can be used. Tables that exist with the right keys are fine.
This is for local use and trials; in production make them with your own tool.`,
		Example: "  dlqbridge tables create",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := s.open(cmd.Context(), nil)
			if err != nil {
				return err
			}
			t := b.Config.Tables
			if err := awsdynamodb.CreateTables(cmd.Context(), b.DynamoDB, awsdynamodb.TableNames{Records: t.Records, Payloads: t.Payloads, Ledger: t.Ledger}); err != nil {
				return err
			}
			names := []string{t.Records, t.Payloads, t.Ledger}
			return s.print(map[string]any{"tables": names}, func(out *screen.Screen) {
				for _, n := range names {
					out.Printf("%s is ready\n", n)
				}
			})
		},
	})
	return cmd
}
