package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// complete gives shells the words of every closed list, on all commands that
// have a flag of that name. Names of files are completed for flags that take
// one and for nothing else.
func (s *session) complete(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		s.complete(child)
	}
	// Flags that all commands have stand in the root's persistent ones only.
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, has := cmd.GetFlagCompletionFunc(f.Name); has || takesFile[f.Name] || f.Value.Type() == "bool" {
			return
		}
		// It fails only for a flag that is not there, and this one is.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, s.completion(cmd, f))
	})
	if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// completes: a shell asks for words. Only then are flags given theirs, since cobra
// keeps what a flag is given for as long as the process lives, with all that
// hangs on it.
func (p *Program) completes() bool {
	return slices.Contains(p.Args, cobra.ShellCompRequestCmd) || slices.Contains(p.Args, cobra.ShellCompNoDescRequestCmd)
}

// takesFile are the flags whose value is a file.
var takesFile = map[string]bool{"config": true, "plan": true, "patch": true, "fixture": true}

func (s *session) completion(cmd *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		known, directive := s.closedList(cmd.Name(), f.Name), cobra.ShellCompDirectiveNoFileComp
		if f.Name == "fix" { // KIND:TEXT, so the text follows without a space
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		before := ""
		if i := strings.LastIndex(typed, ","); i >= 0 && f.Value.Type() == "stringSlice" {
			before = typed[:i+1] // a list: the last of its words is being typed
		}
		var out []cobra.Completion
		for _, word := range known {
			if word = before + word; strings.HasPrefix(word, typed) {
				out = append(out, word)
			}
		}
		return out, directive
	}
}

// closedList are the words that a flag knows; none for free text.
func (s *session) closedList(verb, flag string) []string {
	switch flag {
	case "cause":
		return texts(dlqbridge.Causes())
	case "action":
		return texts(redrive.SendActions())
	case "status":
		return texts(dlqbridge.Statuses())
	case "lane":
		return texts(lanes())
	case "effect":
		return texts(effects)
	case "to":
		if verb == string(dlqbridge.VerbSettleSend) {
			return sendStates
		}
		return texts(settledEffects)
	case "fix":
		var out []string
		for _, kind := range dlqbridge.FixKinds() {
			out = append(out, string(kind)+":")
		}
		return out
	case "output":
		return outputs
	case "log-format":
		return logFormats
	case "log-level":
		return logLevels
	case "canary":
		return []string{"none"}
	case "observe-for":
		return []string{"auto"}
	case "route":
		c, err := s.config(nil)
		if err != nil {
			return nil // a wrong configuration is told by commands, not by a key press
		}
		var out []string
		for _, r := range c.Routes {
			out = append(out, r.Name)
		}
		slices.Sort(out)
		return out
	}
	return nil
}

// The closed lists that only the command line has.
var (
	outputs        = []string{"text", "json"}
	logFormats     = []string{"text", "json"}
	logLevels      = []string{"debug", "info", "warn", "error"}
	sendStates     = []string{"sent", "not-sent"}
	settledEffects = []dlqbridge.Effect{dlqbridge.EffectNone, dlqbridge.EffectConfirmed}
)

func texts[T ~string](words []T) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}
