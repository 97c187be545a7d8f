package dlqbridge

import (
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for text, perSecond := range map[string]float64{"20/s": 20, "600/m": 10, "3600/h": 1, "0.5/s": 0.5} {
		r, err := ParseRate(text)
		if err != nil || r.PerSecond() != perSecond || r.String() != text {
			t.Errorf("%s: %v (%v), %v", text, r, r.PerSecond(), err)
		}
	}
	for _, text := range []string{"", "20", "0/s", "-1/s", "1/d", "x/s", "NaN/s", "Inf/s", "1000000/s", "1/s/s"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q passes as %v", text, r)
		}
	}
	if got := (Rate{1000, time.Second}).DefaultBurst(); got != 100 {
		t.Errorf("burst %d", got)
	}
	if got := (Rate{1, time.Second}).DefaultBurst(); got != 10 {
		t.Errorf("burst %d", got)
	}
}

func TestHoldStops(t *testing.T) {
	c := Control{ID: "r_1", Route: "orders", Tenant: "acme", Signature: "sg_1"}
	now := t0
	for _, tt := range []struct {
		name string
		hold Hold
		want bool
	}{
		{"its route", Hold{Route: "orders"}, true},
		{"another route", Hold{Route: "mail"}, false},
		{"route and tenant", Hold{Route: "orders", Tenant: "acme"}, true},
		{"route and another tenant", Hold{Route: "orders", Tenant: "other"}, false},
		{"destination", Hold{Destination: "arn:q"}, true},
		{"record", Hold{Record: "r_1"}, true},
		{"all", Hold{All: true}, true},
		{"nothing named", Hold{}, false},
		{"past its end", Hold{All: true, Until: now}, false},
		{"before its end", Hold{All: true, Until: now.Add(1)}, true},
	} {
		if got := tt.hold.Stops(c, "arn:q", now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestFormatTimeSortsAsTime(t *testing.T) {
	zone := time.FixedZone("", 2*60*60)
	times := []time.Time{
		time.Date(2026, 1, 2, 12, 0, 28, 991e6, time.UTC), time.Date(2026, 1, 2, 14, 0, 29, 0, zone),
		time.Date(2026, 1, 2, 12, 0, 29, 17e6, time.UTC), time.Date(2026, 1, 2, 12, 0, 29, 100e6, time.UTC),
	}
	for i := 1; i < len(times); i++ {
		a, b := FormatTime(times[i-1]), FormatTime(times[i])
		if a >= b || len(a) != len(b) {
			t.Errorf("%s, %s", a, b)
		}
		if back, err := ParseTime(b); err != nil || !back.Equal(times[i]) {
			t.Errorf("%s read back as %v, %v", b, back, err)
		}
	}
	if FormatTime(time.Time{}) != "" {
		t.Error("the zero time is not empty")
	}
}
