package config_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/redrive"
)

var spans = cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })

func TestHoursAreRead(t *testing.T) {
	c, err := load(t, "redrive:\n  hours: {days: [sat, sun], from: 22:00, to: \"06:30\", timezone: America/New_York}\n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	want := &redrive.Hours{Days: []time.Weekday{time.Saturday, time.Sunday}, From: 22 * time.Hour, To: 6*time.Hour + 30*time.Minute, Zone: york}
	if diff := cmp.Diff(want, c.Redrive.Hours.Span(), spans); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHoursOfTheEnvironment(t *testing.T) {
	env := map[string]string{"DLQBRIDGE_REDRIVE_HOURS_FROM": "00:00", "DLQBRIDGE_REDRIVE_HOURS_TO": "24:00"}
	c, err := load(t, "", env, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &redrive.Hours{Days: []time.Weekday{1, 2, 3, 4, 5}, To: 24 * time.Hour, Zone: time.UTC}
	if diff := cmp.Diff(want, c.Redrive.Hours.Span(), spans); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What is shown can be read back, midnight too.
	again, err := load(t, string(c.YAML()), nil, nil)
	if err != nil || again.Redrive.Hours.From != "00:00" || !strings.Contains(string(c.YAML()), `from: "00:00" # environment DLQBRIDGE_REDRIVE_HOURS_FROM`) {
		t.Errorf("%+v, %v\n%s", again.Redrive.Hours, err, c.YAML())
	}
	text, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(text), `"hours":{"days":["mon","tue","wed","thu","fri"],"from":"00:00","timezone":"UTC","to":"24:00"}`) {
		t.Errorf("%s, %v", text, err)
	}
	env["DLQBRIDGE_REDRIVE_HOURS_TIMEZONE"] = "Asia/Tokyo"
	if c, err := load(t, "redrive: {hours: {from: 08:00, to: 18:00, timezone: Europe/Berlin}}", env, nil); err != nil || c.Redrive.Hours.Timezone != "Asia/Tokyo" || c.Redrive.Hours.To != "24:00" {
		t.Errorf("%+v, %v", c.Redrive.Hours, err)
	}
	if c, err := load(t, "redrive: {hours: }", nil, nil); err != nil || c.Redrive.Hours != nil || c.Redrive.Hours.Span() != nil {
		t.Errorf("none: %+v, %v", c.Redrive.Hours, err)
	}
	if strings.Contains(string(config.Default().YAML()), "hours") {
		t.Error("hours that nobody gave are shown")
	}
}

func TestWrongHours(t *testing.T) {
	for hours, want := range map[string]string{
		`{}`:                                         `redrive.hours.from: missing; write hours and minutes, such as "08:00"`,
		`{from: "08:00"}`:                            `redrive.hours.to: missing`,
		`{from: 8:00, to: "18:00"}`:                  `redrive.hours.from: "8:00" is no time of day; write hours and minutes, such as "08:00"`,
		`{from: "08:00", to: "24:01"}`:               `redrive.hours.to: "24:01" is no time of day`,
		`{from: "08:00", to: "18:60"}`:               `redrive.hours.to: "18:60" is no time of day`,
		`{from: "24:00", to: "06:00"}`:               `redrive.hours.from: 24:00 is the end of a day; write 00:00 for its beginning`,
		`{from: "08:00", to: "08:00"}`:               `redrive.hours.to: 08:00 is when they begin; for whole days write from 00:00 to 24:00`,
		`{from: 08:00, to: 18:00, days: []}`:         `redrive.hours.days: names no day`,
		`{from: 08:00, to: 18:00, days: [Mon]}`:      `redrive.hours.days[0]: "Mon" is not known; did you mean "mon"?`,
		`{from: 08:00, to: 18:00, days: mon}`:        `redrive.hours.days: here must be a list`,
		`{from: 08:00, to: 18:00, timezone: CEST}`:   `redrive.hours.timezone: "CEST" is no time zone; write its IANA name, such as Europe/Berlin, or UTC`,
		`{from: 08:00, to: 18:00, timezone: Local}`:  `redrive.hours.timezone: "Local" is no time zone`,
		`{from: 08:00, to: 18:00, timezone: "../x"}`: `redrive.hours.timezone: "../x" is no time zone`,
		`{from: 08:00, to: 18:00, timezone: ""}`:     `redrive.hours.timezone: "" is no time zone`,
		`{from: 08:00, until: 18:00}`:                `redrive.hours.until: unknown key`,
		`18:00`:                                      `redrive.hours: here must be keys with values`,
	} {
		_, err := load(t, "redrive:\n  hours: "+hours+"\n", nil, nil)
		if err == nil || !strings.Contains(err.Error(), "dlqbridge.yaml:2: "+want) {
			t.Errorf("%s: got %v, want %s", hours, err, want)
		}
	}
}
