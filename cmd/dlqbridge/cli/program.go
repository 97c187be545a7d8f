// Package cli is the command line: what a person or a script types, and what
// they get back.
//
// Every command prints its result on standard output, for people as lines and
// tables or with -o json as exactly one JSON document. Logs, errors, the names
// of jobs as they begin and progress (only if it is a terminal) go to standard
// error. An error is a sentence and, where there is one, a hint; with -o json
// and nothing printed yet, standard output gets
// {"error":{"code","message","hint"}} too, so that a script finds one document
// in either case.
//
// Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 done, but
// records were excluded, refused or failed.
package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge/adapters/gcppubsub"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
)

// The exit codes.
const (
	ExitDone    = 0
	ExitFailed  = 1
	ExitUsage   = 2
	ExitPartial = 3
)

// Program is one call of dlqbridge with everything that it touches outside.
// Only Args is required; the rest defaults to the process's own.
type Program struct {
	Args           []string // without the program's name
	Stdout, Stderr io.Writer
	// StdoutTerminal and StderrTerminal allow colours and progress.
	StdoutTerminal, StderrTerminal bool
	// Columns is the width of the terminal that standard error is; nil or 0 is
	// not known.
	Columns func() int
	// Env looks up the environment, as os.LookupEnv.
	Env func(string) (string, bool)
	// AWS makes the SDK's configuration; nil is the SDK's own chain over
	// environment, shared files and instance roles.
	AWS func(ctx context.Context) (aws.Config, error)
	// PubSub connects to Google Pub/Sub when a route needs it; nil is by the
	// default credentials, or PUBSUB_EMULATOR_HOST.
	PubSub func(ctx context.Context) (*gcppubsub.Client, error)
	// Now is the clock.
	Now func() time.Time
	// User names the OS user, who is the actor where the cloud knows none.
	User func() string
	// Version is what `dlqbridge version` prints.
	Version string
	// Listening is told the address of serve's doors; nil is fine.
	Listening func(net.Addr)

	session *session
}

// Run carries the command out and returns the exit code. When ctx ends, long
// commands stop in order and keep what they have done.
func (p *Program) Run(ctx context.Context) int {
	p.defaults()
	line := p.newMeter()
	out, errs := &counter{w: line.above(p.Stdout)}, line.above(p.Stderr)
	p.session = &session{
		p: p, stdout: out, stderr: errs, meter: line,
		screen: &screen.Screen{Out: out, Color: p.StdoutTerminal && !p.has("NO_COLOR"), ASCII: p.ascii()},
		errors: &screen.Screen{Out: errs, Color: p.StderrTerminal && !p.has("NO_COLOR"), ASCII: p.ascii()},
	}
	root := p.session.root() //nolint:contextcheck // each command takes its context from cobra when it runs
	root.SetArgs(p.Args)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err != nil && wantsJSON(p.Args) {
		p.session.output = "json" // a flag before -o may have stopped the reading
	}
	if err == nil && out.err != nil {
		err = out.err
	}
	p.session.close()
	line.clear()
	return p.session.report(err)
}

func (p *Program) defaults() {
	if p.Stdout == nil {
		p.Stdout = os.Stdout
	}
	if p.Stderr == nil {
		p.Stderr = os.Stderr
	}
	if p.Env == nil {
		p.Env = os.LookupEnv
	}
	if p.Columns == nil {
		p.Columns = func() int { return 0 }
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.User == nil {
		p.User = osUser
	}
	if p.Version == "" {
		p.Version = "development"
	}
}

// wantsJSON says whether the arguments ask for JSON, for errors that come
// before all flags were read.
func wantsJSON(args []string) bool {
	for i, a := range args {
		switch {
		case a == "--":
			return false
		case a == "-o=json", a == "-ojson", a == "--output=json":
			return true
		case (a == "-o" || a == "--output") && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}

func (p *Program) has(variable string) bool {
	v, ok := p.Env(variable)
	return ok && v != ""
}

// ascii: the locale names a character set that is not UTF-8.
func (p *Program) ascii() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v, ok := p.Env(name); ok && v != "" {
			_, charset, named := strings.Cut(strings.ToLower(v), ".")
			return named && !strings.HasPrefix(charset, "utf-8") && !strings.HasPrefix(charset, "utf8")
		}
	}
	return false
}

func osUser() string {
	u, err := user.Current()
	if err != nil {
		return "uid-" + itoa(os.Getuid())
	}
	return u.Username
}

// counter knows whether anything was printed, and keeps the first error: a
// full disk must not look like success.
type counter struct {
	w   io.Writer
	n   int64
	err error
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	if err != nil && c.err == nil {
		c.err = err
	}
	return n, err
}

// root builds the tree of commands.
func (s *session) root() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "dlqbridge",
		Short: "Turn dead letters into records with evidence, and send back what is safe",
		Long: `dlqbridge takes letters from dead-letter queues, finds out what their tasks had
already done, keeps one record per unit of work, and sends work back to its
source only where repeating it is demonstrably safe.

Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 done, but
records were excluded, refused or failed.`,
		Example: `  dlqbridge check                         # is everything in place?
  dlqbridge intake --until-empty          # letters become records
  dlqbridge records list                  # what waits, most urgent first
  dlqbridge records explain r_…           # why it waits, and what would change that
  dlqbridge redrive plan --cause timeout  # what would be sent, and what not
  dlqbridge redrive run --cause timeout --fix deploy:1.4.2 --reason "fixed in 1.4.2"`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version && len(args) == 0 {
				return s.printVersion()
			}
			return group(cmd, args)
		},
		Args: cobra.ArbitraryArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return s.checkOutput()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version, as the command version does")
	flags := root.PersistentFlags()
	flags.StringVar(&s.configFile, "config", "", "configuration file (default: "+config.FileVariable+", else ./"+defaultFile+" if it is there)")
	flags.StringVarP(&s.output, "output", "o", "text", "output: text or json (one document)")
	flags.StringVar(&s.logFormat, "log-format", "", "logs on standard error: text or json (default text)")
	flags.StringVar(&s.logLevel, "log-level", "", "least level that is logged: debug, info, warn or error (default info)")
	flags.StringVar(&s.actorNote, "actor", "", "a note on who you are, kept beside your authenticated name")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return unknownCommand(cmd, words[0]) // an unknown verb is told as one, not by the first flag that came with it
		}
		return usagef("see `"+cmd.CommandPath()+" --help`", "%s", err.Error())
	})
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND]", Short: "Show the help of a command", ValidArgsFunction: subcommands, RunE: func(cmd *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return unknownCommand(root, strings.Join(args, " "))
		}
		return found.Help()
	}})
	root.AddCommand(s.commands()...)
	root.SetOut(s.stdout) // before the next line, which keeps it
	root.InitDefaultCompletionCmd()
	if scripts, _, err := root.Find([]string{"completion"}); err == nil && scripts != root {
		scripts.Short = "Print a script that completes commands and flags in your shell"
		scripts.RunE, scripts.Args = group, cobra.ArbitraryArgs // a shell that nobody knows is an error
	}
	if s.p.completes() {
		s.complete(root)
	}
	tidy(root)
	return root
}

// subcommands completes the words of a path of commands.
func subcommands(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	if at, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
		for _, c := range at.Commands() {
			if c.IsAvailableCommand() {
				out = append(out, cobra.CompletionWithDesc(c.Name(), c.Short))
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// tidy makes every command behave alike: wrong arguments are usage errors, and
// -o is checked before anything happens.
func tidy(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		tidy(child)
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				if _, ok := errors.AsType[*usageError](err); ok {
					return err
				}
				return usagef("see `"+cmd.CommandPath()+" --help`", "%s", err.Error())
			}
			return nil
		}
	}
}

// group is the body of a command that only has sub-commands: alone it helps, a
// wrong word is an error.
func group(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	if o := cmd.Flag("output"); o != nil && o.Value.String() == "json" {
		// Whoever reads documents gets one, not a page of help.
		return usagef("see `"+cmd.CommandPath()+" --help`", "`%s` needs a command", cmd.CommandPath())
	}
	return cmd.Help()
}

// elsewhere says where that is done what people look for under another name. The
// known word that looks most like it does something else.
var elsewhere = map[string]string{
	"triage compensate": "`dlqbridge redrive run --action compensate` sends compensations; `dlqbridge triage compensated` says that an effect has been undone already, and closes the record",
}

func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint, ok := elsewhere[cmd.Name()+" "+word]
	if !ok {
		hint = config.Suggestion(word, names)
	}
	return usagef(hint, "unknown command %q of `%s`", word, cmd.CommandPath())
}
