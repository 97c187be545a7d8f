package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/enrich"
)

func (s *session) recordsExport() *cobra.Command {
	var unscrubbed bool
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Write a record as a fixture, so that a case becomes a test",
		Long: `Writes one JSON document with all that a record's last decision stood on: the
letter with its attributes, what was read from it, what stores and people said,
the times, and what was decided. ` + "`dlqbridge policy test --fixture FILE`" + ` decides once
more from it, without any cloud, and holds the answer to its expect: what was
decided, or what you change that to.

What looks like a secret is replaced (a JSON body stays JSON), and bytes that are no text are left out;
--unscrubbed keeps them. Look at a fixture before you give it away: a name or an
address does not look like a secret.`,
		Example: "  dlqbridge records export r_… > testdata/payments-outage.json\n  dlqbridge policy test --fixture testdata/payments-outage.json",
		Args:    oneRecord,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.record(cmd, args[0])
			if err != nil {
				return err
			}
			var payload *dlqbridge.Payload
			p, err := s.bridge.Store.Payload(cmd.Context(), args[0], c.Control.Newest)
			switch {
			case err == nil:
				payload = &p
			case !wire.Absent(err):
				return fmt.Errorf("payload of %s: %w", args[0], err)
			}
			f, ok := enrich.Export(c, payload, unscrubbed)
			if !ok {
				return hinted(fmt.Errorf("%w: record %s does not say any more what it was decided on", dlqbridge.ErrNotFound, args[0]), "`dlqbridge triage investigate` decides it anew")
			}
			text, err := f.Encode()
			if err != nil {
				return err
			}
			_, err = s.stdout.Write(text)
			return err
		},
	}
	cmd.Flags().Bool("fixture", true, "as a fixture for policy test, which is the only form")
	cmd.Flags().BoolVar(&unscrubbed, "unscrubbed", false, "keep what looks like a secret, and bytes that are no text")
	return cmd
}
