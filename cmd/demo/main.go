// Command demo tells the whole idea in one run, on an embedded local cloud: a
// fleet of agent workers fails in many ways, SQS and Pub/Sub move the tasks to
// their dead-letter places, dlqbridge keeps a record of each with evidence and a
// decision, people triage, the safe ones go home by cause, and the doubtful
// ones stay held. The accounts at the end are computed from the simulated
// outside world's own book, not from dlqbridge's records.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"golang.org/x/term"
)

const help = `demo runs the main job on an embedded local cloud and tells it step by step.

  go run ./cmd/demo            the story, for a person
  go run ./cmd/demo -o json    only the accounts, as one JSON document
  go run ./cmd/demo --keep     leave the cloud running at the end, to look around

It needs nothing but Go, listens on 127.0.0.1 only, and ends within a minute.

Flags:
`

// limit bounds a run that hangs; a minute is promised.
const limit = 55 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	if os.Getenv(envRole) == "worker" {
		code = workerMain(ctx)
	} else {
		code = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	os.Exit(code)
}

func workerMain(ctx context.Context) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go waitForEnd(cancel)
	cfg, err := config.LoadDefaultConfig(ctx)
	if err == nil {
		var w *worker
		if w, err = newWorker(ctx, cfg); err == nil {
			err = w.run(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo worker:", err)
		return 1
	}
	return 0
}

// run tells the story. Exit codes: 0 every account is right, 1 not, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	output := flags.String("o", "text", "`format` of the output: text or json")
	keep := flags.Bool("keep", false, "leave everything running at the end, until Ctrl-C")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), help)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case *output != "text" && *output != "json" || flags.NArg() > 0:
		fmt.Fprintln(stderr, "demo: -o takes text or json, and there are no arguments")
		return 2
	}

	t := &teller{out: stdout, terminal: isTerminal(stdout), quiet: *output == "json", problems: stderr}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := newStage(bounded, t)
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	defer s.close()
	accounts, err := s.play(bounded)
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	if t.quiet {
		if err := json.NewEncoder(stdout).Encode(accounts); err != nil {
			fmt.Fprintln(stderr, "demo:", err)
			return 1
		}
	}
	if *keep {
		s.keep(ctx)
	}
	if accounts.Lost != 0 || accounts.EffectsRepeated != 0 {
		return 1
	}
	return 0
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
