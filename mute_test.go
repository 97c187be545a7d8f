package dlqbridge

import (
	"testing"
	"time"
)

func TestMuteQuietsItsGroupUntilItsEnd(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	m := Mute{Signature: "sg_1", Until: now.Add(time.Hour)}
	here := m
	here.Route = "orders"
	for name, c := range map[string]struct {
		mute   Mute
		record Control
		at     time.Time
		want   bool
	}{
		"the group":           {m, Control{Signature: "sg_1", Route: "bills"}, now, true},
		"another group":       {m, Control{Signature: "sg_2"}, now, false},
		"no group":            {Mute{Until: now.Add(time.Hour)}, Control{}, now, false},
		"its route":           {here, Control{Signature: "sg_1", Route: "orders"}, now, true},
		"another route":       {here, Control{Signature: "sg_1", Route: "bills"}, now, false},
		"an open incident":    {m, Control{Signature: "sg_1", Status: StatusIncidentOpen}, now, false},
		"just before its end": {m, Control{Signature: "sg_1"}, now.Add(time.Hour - 1), true},
		"at its end":          {m, Control{Signature: "sg_1"}, now.Add(time.Hour), false},
	} {
		if got := c.mute.Quiets(c.record, c.at); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	long := m
	long.ID, long.Until = "long", now.Add(2*time.Hour)
	for _, mutes := range [][]Mute{{m, long, here}, {long, m}} {
		if got, ok := Muted(mutes, Control{Signature: "sg_1"}, now); !ok || got.ID != "long" {
			t.Errorf("of %v: got %v, %v", mutes, got, ok)
		}
	}
	overdue := Filter{Overdue: true, Now: now, Mutes: []Mute{m}}
	for signature, want := range map[string]bool{"sg_1": false, "sg_2": true} {
		if got := overdue.Matches(Control{Signature: signature, TriageBy: now.Add(-time.Hour)}); got != want {
			t.Errorf("%s overdue: got %v, want %v", signature, got, want)
		}
	}
}
