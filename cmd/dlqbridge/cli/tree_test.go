package cli

import (
	"io"
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
)

// tree is the program's tree of commands, with nothing behind it.
func tree(t *testing.T) *cobra.Command {
	t.Helper()
	p := &Program{Stdout: io.Discard, Stderr: io.Discard, Env: func(string) (string, bool) { return "", false }}
	p.defaults()
	out := &counter{w: io.Discard}
	s := &session{p: p, stdout: out, screen: &screen.Screen{Out: out}, errors: &screen.Screen{Out: io.Discard}}
	return s.root()
}

func everyCommand(at *cobra.Command, do func(*cobra.Command)) {
	do(at)
	for _, c := range at.Commands() {
		everyCommand(c, do)
	}
}

// Text between backquotes is taken for the name of a flag's value, so that a
// command named there would stand in its place.
func TestFlagsHaveAWordForTheirValue(t *testing.T) {
	word := regexp.MustCompile(`^([a-zA-Z]*|[A-Z]+(-[A-Z]+)*)$`)
	seen := 0
	everyCommand(tree(t), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			seen++
			name, _ := pflag.UnquoteUsage(f)
			if !word.MatchString(name) {
				t.Errorf("%s --%s: the help calls its value %q", cmd.CommandPath(), f.Name, name)
			}
			if f.Usage == "" {
				t.Errorf("%s --%s explains nothing", cmd.CommandPath(), f.Name)
			}
		})
	})
	if seen < 100 {
		t.Errorf("saw only %d flags", seen)
	}
}
