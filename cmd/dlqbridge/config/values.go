package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// The texts of the file become these types. Each knows how it is written, so
// that file, environment, flags, the schema and `dlqbridge config` agree.

// text is a value that is written as one scalar.
type text interface {
	UnmarshalText([]byte) error
	MarshalText() ([]byte, error)
}

// closed is a text out of a closed set.
type closed interface{ values() []string }

// patterned is a text with a form that a schema can say.
type patterned interface{ pattern() string }

var (
	_ text = (*Duration)(nil)
	_ text = (*Rate)(nil)
	_ text = (*Observe)(nil)
	_ text = (*Effects)(nil)
	_ text = (*Outcome)(nil)
	_ text = (*FanOut)(nil)
	_ text = (*Weekday)(nil)
	_ text = (*Clock)(nil)
	_ text = (*Timezone)(nil)
	_ text = (*LogFormat)(nil)
	_ text = (*LogLevel)(nil)
)

// Duration is a span of time: Go's form, and days as in 30d or 1d12h.
type Duration time.Duration

const day = 24 * time.Hour

// ParseDuration reads a Duration.
func ParseDuration(s string) (time.Duration, error) {
	rest := s
	var days time.Duration
	if number, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(number, 10, 16) // at most 179 years
		if err != nil {
			return 0, errDuration(s)
		}
		days, rest = time.Duration(n)*day, after
		if rest == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return 0, errDuration(s)
	}
	return days + d, nil
}

func errDuration(s string) error {
	return fmt.Errorf("%q is no span of time: write a number with its unit, such as 30s, 10m, 4h or 30d", s)
}

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// MarshalText writes the shortest form: 30d, 4h, 1h30m.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String is the text form.
func (d Duration) String() string {
	rest := time.Duration(d)
	if rest != 0 && rest%day == 0 {
		return strconv.FormatInt(int64(rest/day), 10) + "d"
	}
	s := rest.String()
	s = strings.TrimSuffix(s, "m0s") + map[bool]string{true: "m"}[strings.HasSuffix(s, "m0s")]
	s = strings.TrimSuffix(s, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(s, "h0m")]
	return s
}

func (Duration) pattern() string { return `^([0-9]+d)?([0-9.]+(ns|us|ms|s|m|h))*$` }

// Rate is a pace, such as 20/s.
type Rate dlqbridge.Rate

// UnmarshalText reads 20/s, 600/m or 1000/h.
func (r *Rate) UnmarshalText(b []byte) error {
	v, err := dlqbridge.ParseRate(string(b))
	*r = Rate(v)
	return err
}

// MarshalText writes the form that is read.
func (r Rate) MarshalText() ([]byte, error) { return []byte(dlqbridge.Rate(r).String()), nil }

func (Rate) pattern() string { return `^[0-9.]+/[smh]$` }

// Observe is how long outcomes are waited for; 0 is auto.
type Observe time.Duration

// UnmarshalText reads auto or a span of time.
func (o *Observe) UnmarshalText(b []byte) error {
	if string(b) == "auto" {
		*o = 0
		return nil
	}
	d, err := ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%w, or auto", err)
	}
	if d < MinObserve {
		return fmt.Errorf("%q is shorter than the %s that auto takes at least: outcomes would be called unconfirmed that are still under way", b, Duration(MinObserve))
	}
	*o = Observe(d)
	return nil
}

// MinObserve is what observe_for auto takes at least.
const MinObserve = 10 * time.Minute

// MarshalText writes auto or the span.
func (o Observe) MarshalText() ([]byte, error) {
	if o == 0 {
		return []byte("auto"), nil
	}
	return Duration(o).MarshalText()
}

func (Observe) pattern() string { return `^(auto|([0-9]+d)?([0-9.]+(ns|us|ms|s|m|h))*)$` }

// Effects is what a route declares about its tasks.
type Effects dlqbridge.Effects

func (Effects) values() []string {
	return []string{string(dlqbridge.EffectsMutating), string(dlqbridge.EffectsIdempotent), string(dlqbridge.EffectsNone)}
}

// UnmarshalText reads one of the closed set.
func (e *Effects) UnmarshalText(b []byte) error { return choose(e, b) }

// MarshalText writes the word.
func (e Effects) MarshalText() ([]byte, error) { return []byte(e), nil }

// Outcome is what completes a redrive.
type Outcome string

// The outcomes: only evidence completes, or also the absence of a recurrence.
const (
	OutcomeEvidence Outcome = "evidence"
	OutcomeAbsence  Outcome = "absence"
)

func (Outcome) values() []string { return []string{string(OutcomeEvidence), string(OutcomeAbsence)} }

// UnmarshalText reads one of the closed set.
func (o *Outcome) UnmarshalText(b []byte) error { return choose(o, b) }

// MarshalText writes the word.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o), nil }

// LogFormat is text or json.
type LogFormat string

func (LogFormat) values() []string { return []string{"text", "json"} }

// UnmarshalText reads one of the closed set.
func (f *LogFormat) UnmarshalText(b []byte) error { return choose(f, b) }

// MarshalText writes the word.
func (f LogFormat) MarshalText() ([]byte, error) { return []byte(f), nil }

// LogLevel is the least level that is logged.
type LogLevel string

func (LogLevel) values() []string { return []string{"debug", "info", "warn", "error"} }

// UnmarshalText reads one of the closed set.
func (l *LogLevel) UnmarshalText(b []byte) error { return choose(l, b) }

// MarshalText writes the word.
func (l LogLevel) MarshalText() ([]byte, error) { return []byte(l), nil }

// Slog is the level as slog has it.
func (l LogLevel) Slog() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l)) // the closed set is slog's own
	return level
}

// choose takes a word of T's closed set.
func choose[T interface {
	~string
	closed
}](out *T, b []byte) error {
	known := (*out).values()
	if !slices.Contains(known, string(b)) {
		hint := Suggestion(string(b), known)
		if !strings.HasPrefix(hint, "known") {
			hint += " (known are " + strings.Join(known, ", ") + ")"
		}
		return &refusal{text: fmt.Sprintf("%q is not known", b), hint: hint}
	}
	*out = T(b)
	return nil
}

// refusal is an error that carries its hint.
type refusal struct{ text, hint string }

func (r *refusal) Error() string { return r.text }

// Canary is the sizes of a job's first steps; none is nil.
type Canary []int
