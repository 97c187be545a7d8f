package cli

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
)

func (s *session) configCommand() *cobra.Command {
	var schema bool
	var names strings.Builder
	for _, v := range config.Variables() {
		fmt.Fprintf(&names, "\n  %-34s %s", v[0], v[1])
	}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, secrets hidden",
		Long: `Prints the configuration as it is in effect, and behind each value where it came
from: a flag, the environment, a line of the file, or the default. The output can
be used as a file.

Environment variables that are read, with the keys they set:
` + names.String(),
		Example: `  dlqbridge config
  dlqbridge config --schema > dlqbridge.schema.json   # for your editor`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if schema {
				_, err := s.stdout.Write(config.Schema())
				return err
			}
			c, err := s.config(nil)
			if err != nil {
				return err
			}
			if s.json() {
				return screen.WriteJSON(s.stdout, c)
			}
			file := c.File
			if file == "" {
				file = "no file"
			}
			s.screen.Printf("# %s\n", file)
			_, err = s.stdout.Write(c.YAML())
			return err
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of the file")
	return cmd
}

func (s *session) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return s.printVersion() },
	}
}

func (s *session) printVersion() error {
	d := map[string]string{"version": s.p.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	return s.print(d, func(out *screen.Screen) { out.Printf("dlqbridge %s (%s, %s)\n", d["version"], d["go"], d["platform"]) })
}

// commands lists all commands in the order of a first day.
func (s *session) commands() []*cobra.Command {
	return []*cobra.Command{
		s.check(), s.intake(), s.records(), s.triage(), s.hold(), s.mute(), s.policy(), s.redrive(), s.serve(), s.tables(), s.configCommand(), s.version(),
	}
}
