package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // the names of time zones are known in an image that has no files

	"github.com/dlqbridge/dlqbridge/redrive"
)

// Hours are the business hours of what policy sends alone.
type Hours struct {
	Days     []Weekday `yaml:"days" doc:"Days on which they begin; mon to fri if left out."`
	From     Clock     `yaml:"from" doc:"When they begin, on the clock of the time zone, such as 08:00." required:"true"`
	To       Clock     `yaml:"to" doc:"When they end, such as 18:00 or 24:00; before from is on the next day." required:"true"`
	Timezone Timezone  `yaml:"timezone" doc:"Time zone by its IANA name, such as Europe/Berlin."`
}

// defaultHours say nothing of when they begin and end.
func defaultHours() Hours {
	return Hours{Days: []Weekday{"mon", "tue", "wed", "thu", "fri"}, Timezone: "UTC"}
}

// Span is the hours as redrive has them; nil is any time.
func (h *Hours) Span() *redrive.Hours {
	if h == nil {
		return nil
	}
	out := &redrive.Hours{From: h.From.sinceMidnight(), To: h.To.sinceMidnight(), Zone: time.UTC}
	if zone, err := time.LoadLocation(string(h.Timezone)); err == nil { // it was loaded when it was read
		out.Zone = zone
	}
	for _, day := range h.Days {
		out.Days = append(out.Days, time.Weekday(slices.Index(day.values(), string(day))))
	}
	return out
}

func validateHours(d *decoder, h *Hours) {
	if h == nil {
		return
	}
	const path = "redrive.hours"
	if len(h.Days) == 0 {
		d.reportAt(path+".days", "names no day", "name some, such as [mon, tue], or leave it out for mon to fri; without hours any time is right")
	}
	for i, day := range h.Days {
		if slices.Contains(h.Days[:i], day) {
			d.reportAt(fmt.Sprintf("%s.days[%d]", path, i), fmt.Sprintf("%q is listed twice", day), "keep one of them")
		}
	}
	for _, one := range []struct {
		key   string
		value Clock
	}{{".from", h.From}, {".to", h.To}} {
		if one.value == "" {
			d.reportAt(path+one.key, "missing", clockForm)
		}
	}
	switch {
	case h.From == endOfDay:
		d.reportAt(path+".from", "24:00 is the end of a day", "write 00:00 for its beginning")
	case h.From != "" && h.From == h.To:
		d.reportAt(path+".to", fmt.Sprintf("%s is when they begin", h.To), "for whole days write from 00:00 to 24:00")
	}
}

// Weekday is a day of the week.
type Weekday string

// The order is that of time.Weekday.
func (Weekday) values() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// UnmarshalText reads one of the closed set.
func (w *Weekday) UnmarshalText(b []byte) error { return choose(w, b) }

// MarshalText writes the word.
func (w Weekday) MarshalText() ([]byte, error) { return []byte(w), nil }

// Clock is a time of day, such as 08:00; 24:00 is the end of the day.
type Clock string

const endOfDay Clock = "24:00"

const clockForm = `write hours and minutes, such as "08:00"`

func (Clock) pattern() string { return `^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$` }

var clockPattern = regexp.MustCompile(Clock("").pattern())

// UnmarshalText reads hours and minutes.
func (c *Clock) UnmarshalText(b []byte) error {
	if !clockPattern.Match(b) {
		return &refusal{text: fmt.Sprintf("%q is no time of day", b), hint: clockForm}
	}
	*c = Clock(b)
	return nil
}

// MarshalText writes what was read.
func (c Clock) MarshalText() ([]byte, error) { return []byte(c), nil }

func (c Clock) sinceMidnight() time.Duration {
	if !clockPattern.MatchString(string(c)) {
		return 0
	}
	hours, _ := strconv.Atoi(string(c[:2])) // two digits, by the pattern
	minutes, _ := strconv.Atoi(string(c[3:]))
	return time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
}

// Timezone is the IANA name of a time zone.
type Timezone string

// UnmarshalText reads a name that is known. "Local" is none: it would be another
// zone on each machine.
func (z *Timezone) UnmarshalText(b []byte) error {
	name := string(b)
	if _, err := time.LoadLocation(name); err != nil || name == "" || name == "Local" {
		return &refusal{text: fmt.Sprintf("%q is no time zone", name), hint: "write its IANA name, such as Europe/Berlin, or UTC"}
	}
	*z = Timezone(name)
	return nil
}

// MarshalText writes the name.
func (z Timezone) MarshalText() ([]byte, error) { return []byte(z), nil }
