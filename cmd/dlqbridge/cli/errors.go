package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/triage"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// usageError is a wrong command line: exit code 2.
type usageError struct{ text, hint string }

func (e *usageError) Error() string { return e.text }

func usagef(hint, format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...), hint}
}

// hintedError is an error with what the person can do about it.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

func hinted(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hintedError{err, hint}
}

// missingError is a thing that a person named and that is not there.
type missingError struct{ what, id string }

func (e *missingError) Error() string { return "there is no " + e.what + " " + e.id }

// Unwrap gives it its meaning.
func (e *missingError) Unwrap() error { return dlqbridge.ErrNotFound }

// errPartial ends a command whose result has been printed and says itself what
// was excluded, refused or failed: exit code 3.
var errPartial = errors.New("some were excluded, refused or failed")

// errSaid ends a command that failed and whose result has been printed.
var errSaid = errors.New("failed")

// codes are the machine's names for the meanings of errors, the first that fits.
var codes = []struct {
	err  error
	code string
	hint string
}{
	{config.ErrConfig, "config", ""},
	{dlqbridge.ErrNotFound, "not_found", "is its name right, and is this the right account and region? `dlqbridge check` asks for all that the configuration names"},
	{dlqbridge.ErrDenied, "denied", "ask for the right that is named, or run `dlqbridge check` to see all that are missing"},
	{dlqbridge.ErrCredentials, "credentials", "log in anew, or set AWS_PROFILE or the AWS_ACCESS_KEY_ID family"},
	{dlqbridge.ErrConflict, "conflict", "read it again and decide again"},
	{dlqbridge.ErrExists, "exists", ""},
	{dlqbridge.ErrThrottled, "throttled", "try again later"},
	{dlqbridge.ErrUnavailable, "unavailable", "is the endpoint right (AWS_REGION, AWS_ENDPOINT_URL), and reachable from here?"},
	{dlqbridge.ErrUnclear, "unclear", "the answer was lost: look before you repeat it"},
	{dlqbridge.ErrTooLarge, "too_large", ""},
	{dlqbridge.ErrInvalid, "invalid", "`dlqbridge check` compares the configuration with queues and tables"},
	{context.DeadlineExceeded, "timeout", "try again later"},
	{context.Canceled, "stopped", "what it had done is kept"},
}

// tablesHint is what to do where a table is not there.
const tablesHint = "make the tables (`dlqbridge tables create` for trials), or correct `tables` in the configuration; is this the right account and region?"

// failure is what machines read about an error.
type failure struct {
	Code     string           `json:"code"`
	Message  string           `json:"message"`
	Hint     string           `json:"hint,omitempty"`
	Problems []config.Problem `json:"problems,omitempty"`
}

// describe puts an error into words for machines and people.
func describe(err error) (f failure, exit int) {
	f, exit = failure{Code: "failed", Message: err.Error()}, ExitFailed
	if problems, ok := errors.AsType[config.Problems](err); ok {
		return failure{Code: "config", Message: err.Error(), Problems: problems}, ExitUsage
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		return failure{Code: "usage", Message: usage.text, Hint: usage.hint}, ExitUsage
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			f.Code, f.Hint = c.code, c.hint
			break
		}
	}
	if f.Code == "stopped" {
		f.Message = "stopped before the end"
	}
	if f.Code == "not_found" && wire.MissingTable(err) {
		f.Hint = tablesHint
	}
	if right := wire.Right(err); right != "" && f.Code == "denied" {
		f.Hint = "the caller needs the right " + right + "; `dlqbridge check` shows all that are missing"
	}
	if _, ok := errors.AsType[*dlqbridge.MoveError](err); ok {
		f.Code, f.Hint = "move_refused", ""
	}
	if refused, ok := errors.AsType[*triage.RefusedError](err); ok {
		f.Code, f.Hint = refused.Code, ""
	}
	if held, ok := errors.AsType[*dlqbridge.LeaseHeldError](err); ok {
		f.Code, f.Hint = "lease_held", "wait, or stop that job with `dlqbridge redrive pause`"
		if held.State != "" {
			f.Hint = "run it again after that time: the job's process gives the destination back sooner unless it has died, and later only while sends are under way"
		}
	}
	if state, ok := errors.AsType[*redrive.JobStateError](err); ok {
		f.Hint = "`dlqbridge redrive status " + state.Job + "` says what came of it; `dlqbridge redrive plan --cause CAUSE` shows what a new run would send"
		if state.State == dlqbridge.JobPaused {
			f.Hint = "`dlqbridge redrive continue " + state.Job + " --reason …` goes on"
		}
	}
	if needs, ok := errors.AsType[*redrive.SecondPersonError](err); ok {
		f.Code, f.Hint = "needs_second_person", "another authenticated person reads the plan (dlqbridge redrive plan --plan FILE) and approves it: dlqbridge redrive approve --plan FILE"
		if needs.Plan == "" {
			f.Hint = "dlqbridge redrive plan … -o json > plan.json; another person: dlqbridge redrive approve --plan plan.json; then: dlqbridge redrive run --plan plan.json"
		}
	}
	if h, ok := errors.AsType[*hintedError](err); ok {
		f.Hint = h.hint
	}
	return f, exit
}

// report says an error and returns the exit code.
func (s *session) report(err error) int {
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, errPartial):
		return ExitPartial
	case errors.Is(err, errSaid):
		return ExitFailed
	}
	f, exit := describe(err)
	if _, named := errors.AsType[*missingError](err); f.Code == "not_found" && !named && s.withoutFile() {
		f.Hint = noFileHint + "; " + f.Hint // a table of the defaults is not there
	}
	for line := range strings.Lines(f.Message) { // problems of a configuration have a line each
		s.errors.Printf("%s %s\n", screen.Styled{Style: screen.Red, Text: "dlqbridge:"}, strings.TrimSuffix(line, "\n"))
	}
	if f.Hint != "" {
		s.errors.Printf("  hint: %s\n", f.Hint)
	}
	if s.json() && s.stdout.n == 0 {
		// A failed write here has nobody left to tell.
		_ = screen.WriteJSON(s.stdout, map[string]failure{"error": f})
	}
	return exit
}

func itoa(n int) string { return strconv.Itoa(n) }
