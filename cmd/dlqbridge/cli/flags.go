package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
)

// words checks that flags name members of a closed set.
func words[T ~string](flag string, given []string, known []T) ([]T, error) {
	names := texts(known)
	out := make([]T, 0, len(given))
	for _, g := range given {
		if !slices.Contains(names, g) {
			return nil, usagef(config.Suggestion(g, names), "%s %q is not known", flag, g)
		}
		out = append(out, T(g))
	}
	return out, nil
}

// word is words for a flag that is given at most once; empty stays empty.
func word[T ~string](flag, given string, known []T) (T, error) {
	if given == "" {
		return "", nil
	}
	out, err := words(flag, []string{given}, known)
	if err != nil {
		return "", err
	}
	return out[0], nil
}

func lanes() []dlqbridge.Lane {
	var out []dlqbridge.Lane
	for _, c := range dlqbridge.Causes() {
		if l := dlqbridge.DefaultCausePolicy(c).Lane; !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

var effects = []dlqbridge.Effect{dlqbridge.EffectNone, dlqbridge.EffectConfirmed, dlqbridge.EffectUnknown}

// span reads a flag that is a span of time; empty is 0.
func span(flag, given string) (time.Duration, error) {
	if given == "" {
		return 0, nil
	}
	d, err := config.ParseDuration(given)
	if err != nil {
		return 0, usagef("", "%s: %v", flag, err)
	}
	if d == 0 {
		return 0, usagef("", "%s: %q is no time at all", flag, given)
	}
	return d, nil
}

// moment reads a flag that is a time or a span from now; it must lie ahead.
func moment(flag, given string, now time.Time) (time.Time, error) {
	if d, err := config.ParseDuration(given); err == nil && d > 0 {
		return now.Add(d).UTC().Truncate(time.Millisecond), nil
	}
	t, err := dlqbridge.ParseTime(given)
	if err != nil || t.IsZero() {
		return time.Time{}, usagef("write a time such as 2026-12-24T18:00:00Z, or a span from now such as 4h", "%s %q is no time", flag, given)
	}
	if !t.After(now) {
		return time.Time{}, usagef("give a time ahead", "%s %s is past", flag, dlqbridge.FormatTime(t))
	}
	return t.Truncate(time.Millisecond), nil
}

// fixKinds names the kinds of a fix where a flag or a command explains itself.
var fixKinds = "KIND one of " + join(dlqbridge.FixKinds())

// fix reads KIND:TEXT.
func fix(given string) (*dlqbridge.Fix, error) {
	if given == "" {
		return nil, nil
	}
	kind, text, ok := strings.Cut(given, ":")
	kinds := texts(dlqbridge.FixKinds())
	if !ok || strings.TrimSpace(text) == "" {
		return nil, usagef("write KIND:TEXT, such as deploy:1.4.2; kinds are "+strings.Join(kinds, ", "), "--fix %q names no verifiable change", given)
	}
	if !slices.Contains(kinds, kind) {
		return nil, usagef(config.Suggestion(kind, kinds), "--fix: %q is no kind of change", kind)
	}
	if len(text) > dlqbridge.MaxReason {
		return nil, usagef("", "--fix is %d bytes long, at most %d are kept", len(text), dlqbridge.MaxReason)
	}
	return &dlqbridge.Fix{Kind: dlqbridge.FixKind(kind), Text: text}, nil
}

// said checks a text that a person must write.
func said(flag, text string, limit int, required bool, why string) error {
	switch {
	case required && strings.TrimSpace(text) == "":
		return usagef(fmt.Sprintf("add %s \"…\"", flag), "%s is missing: %s", flag, why)
	case len(text) > limit:
		return usagef("", "%s is %d bytes long, at most %d are kept", flag, len(text), limit)
	}
	return nil
}

// recordIDs checks the form of ids, so that a slip is told from a record that
// is gone.
func recordIDs(args []string) error {
	for _, id := range args {
		if !strings.HasPrefix(id, "r_") || len(id) != 28 {
			return usagef("a record id is r_ and 26 characters, as `dlqbridge records list` shows it", "%q is no record id", id)
		}
	}
	return nil
}
