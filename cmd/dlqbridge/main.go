// Command dlqbridge turns dead letters into records with evidence, and sends
// back what is safe. See `dlqbridge --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/cli"
)

// version is set by the release build (-ldflags "-X main.version=…").
var version string

func main() {
	// The first signal asks for an orderly stop; a second one kills, because
	// stop() gives the signals back.
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup: the terminal may go
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	code := (&cli.Program{
		Args:           os.Args[1:],
		StdoutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		StderrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Columns:        columns,
		Version:        builtAs(),
	}).Run(ctx)
	stop()
	os.Exit(code)
}

// columns is the width of the terminal that progress is shown on; 0 is not known.
func columns() int {
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// builtAs is the version of the release build, else what Go noted down.
func builtAs() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return ""
}
