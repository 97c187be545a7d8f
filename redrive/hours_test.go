package redrive_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, wherever they run

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

var workdays = []time.Weekday{time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday}

var everyDay = append([]time.Weekday{time.Saturday, time.Sunday}, workdays...)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// hours from "08:00-18:00"; 24:00 is the end of the day.
func hours(t testing.TB, days []time.Weekday, span, where string) redrive.Hours {
	t.Helper()
	from, to, _ := strings.Cut(span, "-")
	clock := func(s string) time.Duration {
		h, m, _ := strings.Cut(s, ":")
		d, err := time.ParseDuration(h + "h" + m + "m")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return redrive.Hours{Days: days, From: clock(from), To: clock(to), Zone: zone(t, where)}
}

func TestHours(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, span, zone string
		days             []time.Weekday
		// at is asked; next is empty where the hours are open.
		at, next string
	}{
		{"before they begin", "08:00-18:00", "Europe/Berlin", workdays, "2026-12-01T07:59:59+01:00", "2026-12-01T08:00:00+01:00"},
		{"the first moment", "08:00-18:00", "Europe/Berlin", workdays, "2026-12-01T08:00:00+01:00", ""},
		{"the last second", "08:00-18:00", "Europe/Berlin", workdays, "2026-12-01T17:59:59+01:00", ""},
		{"their end", "08:00-18:00", "Europe/Berlin", workdays, "2026-12-01T18:00:00+01:00", "2026-12-02T08:00:00+01:00"},
		{"Friday evening", "08:00-18:00", "Europe/Berlin", workdays, "2026-12-04T18:00:00+01:00", "2026-12-07T08:00:00+01:00"},
		{"Sunday", "08:00-18:00", "Europe/Berlin", workdays, "2026-12-06T12:00:00+01:00", "2026-12-07T08:00:00+01:00"},
		{"asked in another zone", "08:00-18:00", "Europe/Berlin", workdays, "2026-12-01T07:30:00Z", ""},
		{"Monday there, Sunday here", "08:00-18:00", "Asia/Tokyo", workdays, "2026-12-06T23:30:00Z", ""},
		{"Friday here, Saturday there", "08:00-18:00", "Asia/Tokyo", workdays, "2026-12-04T23:30:00Z", "2026-12-07T08:00:00+09:00"},
		{"half an hour off", "08:00-18:00", "Asia/Kathmandu", workdays, "2026-12-01T02:14:00Z", "2026-12-01T08:00:00+05:45"},

		{"until the end of the day", "08:00-24:00", "UTC", workdays, "2026-12-01T23:59:59Z", ""},
		{"the end of the day", "08:00-24:00", "UTC", workdays, "2026-12-02T00:00:00Z", "2026-12-02T08:00:00Z"},
		{"whole days", "00:00-24:00", "UTC", workdays, "2026-12-02T00:00:00Z", ""},
		{"whole days, not on Saturday", "00:00-24:00", "UTC", workdays, "2026-12-05T00:00:00Z", "2026-12-07T00:00:00Z"},
		{"over midnight, before it", "22:00-06:00", "UTC", workdays, "2026-12-04T23:00:00Z", ""},
		{"over midnight, into Saturday", "22:00-06:00", "UTC", workdays, "2026-12-05T05:59:59Z", ""},
		{"over midnight, its end", "22:00-06:00", "UTC", workdays, "2026-12-05T06:00:00Z", "2026-12-07T22:00:00Z"},
		{"over midnight, not from Sunday", "22:00-06:00", "UTC", workdays, "2026-12-07T03:00:00Z", "2026-12-07T22:00:00Z"},
		{"to midnight", "18:00-00:00", "UTC", workdays, "2026-12-01T23:59:00Z", ""},
		{"past midnight", "18:00-00:00", "UTC", workdays, "2026-12-02T00:00:00Z", "2026-12-02T18:00:00Z"},

		// Berlin leaves out 02:00 to 03:00 on 29 March 2026, and has it twice on 25 October.
		{"summer has begun", "08:00-18:00", "Europe/Berlin", everyDay, "2026-03-29T05:59:59Z", "2026-03-29T08:00:00+02:00"},
		{"the evening before was winter", "08:00-18:00", "Europe/Berlin", everyDay, "2026-03-28T18:00:00+01:00", "2026-03-29T08:00:00+02:00"},
		{"from a time that is left out", "02:30-18:00", "Europe/Berlin", everyDay, "2026-03-29T01:59:59+01:00", "2026-03-29T03:00:00+02:00"},
		{"until a time that is left out", "01:00-02:30", "Europe/Berlin", everyDay, "2026-03-29T03:00:00+02:00", "2026-03-30T01:00:00+02:00"},
		{"just before that", "01:00-02:30", "Europe/Berlin", everyDay, "2026-03-29T01:59:59+01:00", ""},
		{"all of it is left out", "02:10-02:50", "Europe/Berlin", everyDay, "2026-03-29T03:00:00+02:00", "2026-03-30T02:10:00+02:00"},
		{"all of it is left out, Sundays only", "02:10-02:50", "Europe/Berlin", []time.Weekday{time.Sunday}, "2026-03-23T00:00:00+01:00", "2026-04-05T02:10:00+02:00"},
		{"from a time that comes twice, the first", "02:30-18:00", "Europe/Berlin", everyDay, "2026-10-25T02:30:00+02:00", ""},
		{"and it stays open", "02:30-18:00", "Europe/Berlin", everyDay, "2026-10-25T02:10:00+01:00", ""},
		{"until a time that comes twice", "22:00-02:30", "Europe/Berlin", everyDay, "2026-10-25T02:29:59+02:00", ""},
		{"and it stays closed", "22:00-02:30", "Europe/Berlin", everyDay, "2026-10-25T02:10:00+01:00", "2026-10-25T22:00:00+01:00"},
		{"over the longer night", "22:00-06:00", "Europe/Berlin", everyDay, "2026-10-25T05:59:59+01:00", ""},
		{"winter has begun", "08:00-18:00", "Europe/Berlin", everyDay, "2026-10-25T07:30:00+01:00", "2026-10-25T08:00:00+01:00"},
		// A midnight that is left out, one that comes twice, and a day that is left out.
		{"no midnight", "00:00-06:00", "Africa/Cairo", everyDay, "2026-04-23T23:59:59+02:00", "2026-04-24T01:00:00+03:00"},
		{"two midnights", "08:00-24:00", "America/Havana", everyDay, "2026-11-01T00:30:00-04:00", "2026-11-01T08:00:00-05:00"},
		{"back over midnight", "08:00-24:00", "America/Sao_Paulo", everyDay, "2018-02-17T23:30:00-03:00", ""},
		{"no Friday", "08:00-18:00", "Pacific/Apia", []time.Weekday{time.Friday}, "2011-12-29T18:00:00-10:00", "2012-01-06T08:00:00+14:00"},
		{"no days", "08:00-18:00", "UTC", nil, "2026-12-01T12:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := hours(t, tt.days, tt.span, tt.zone)
			at, err := time.Parse(time.RFC3339, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.next
			if want == "" {
				want = at.In(h.Zone).Format(time.RFC3339)
			}
			if got := h.Open(at); got != (tt.next == "") {
				t.Errorf("open is %t", got)
			}
			if got := h.Next(at).Format(time.RFC3339); got != want {
				t.Errorf("next is %s, want %s", got, want)
			}
		})
	}
}

// Whatever the zone and the hours: the next moment is open and not before the
// one that was asked about, nothing before it is open, and far from any change
// of the clocks the hours are what the clock on the wall says.
func FuzzHours(f *testing.F) {
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "America/Havana", "America/Sao_Paulo", "America/St_Johns", "Africa/Cairo", "Africa/Casablanca", "Asia/Kathmandu",
		"Asia/Tehran", "Asia/Gaza", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Chatham", "Antarctica/Troll",
	}
	f.Add(int64(1774746000), uint8(1), uint16(480), uint16(1080), uint8(0b0111110)) // Berlin, when the clocks change
	f.Add(int64(1793062800), uint8(1), uint16(1320), uint16(150), uint8(0b1111111))
	f.Add(int64(1325152800), uint8(12), uint16(0), uint16(1440), uint8(0b0100000)) // Apia, before the day that was left out
	f.Add(int64(1162090800), uint8(5), uint16(1), uint16(1440), uint8(0b1111111))  // St. John's, back over midnight
	f.Fuzz(func(t *testing.T, seconds int64, where uint8, from, to uint16, days uint8) {
		// From 1970 to 2100, hours of any length, on any days.
		at := time.Unix(((seconds%4_102_444_800)+4_102_444_800)%4_102_444_800, 0)
		h := redrive.Hours{
			From: time.Duration(from%1440) * time.Minute, To: time.Duration(to%1441) * time.Minute,
			Zone: zone(t, zones[int(where)%len(zones)]),
		}
		for d := range 7 {
			if days&(1<<d) != 0 {
				h.Days = append(h.Days, time.Weekday(d))
			}
		}
		next := h.Next(at)
		if len(h.Days) == 0 {
			if !next.IsZero() || h.Open(at) {
				t.Fatalf("without days: open %t, next %s", h.Open(at), next)
			}
			return
		}
		if next.Before(at) || !h.Open(next) {
			t.Fatalf("%+v: next of %s is %s, open %t", h, at, next, h.Open(next))
		}
		if h.Open(at) != next.Equal(at) {
			t.Fatalf("%+v: %s is open: %t, next is %s", h, at, h.Open(at), next)
		}
		if !next.Equal(at) && h.Open(next.Add(-time.Nanosecond)) {
			t.Fatalf("%+v: open right before %s", h, next)
		}
		for u := at; u.Before(next); u = u.Add(max(7*time.Minute, next.Sub(at)/97)) {
			if h.Open(u) {
				t.Fatalf("%+v: next of %s is %s, but %s is open", h, at, next, u)
			}
		}
		local := at.In(h.Zone)
		start, end := local.ZoneBounds()
		if !start.IsZero() && at.Sub(start) < 72*time.Hour || !end.IsZero() && end.Sub(at) < 72*time.Hour {
			return
		}
		clock := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second
		today, yesterday := slices.Contains(h.Days, local.Weekday()), slices.Contains(h.Days, local.AddDate(0, 0, -1).Weekday())
		want := today && clock >= h.From && (clock < h.To || h.To <= h.From) || yesterday && h.To <= h.From && clock < h.To
		if h.Open(at) != want {
			t.Fatalf("%+v: at %s open is %t", h, local, h.Open(at))
		}
	})
}

// nightly lets policy authorise timeouts at any age.
func nightly(w *world, ids ...string) {
	p := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
	p.AutoAuthorize, p.BackoffBase, p.BackoffMax = true, time.Second, time.Second
	for _, id := range ids {
		w.knows[id] = knowledge{policy: &p}
	}
}

// shut are hours that end so long after now; the bubble begins on a Saturday.
func shut(after time.Duration) func(*process, *redrive.Options) {
	return func(p *process, o *redrive.Options) {
		slowly(p, o)
		now := time.Now().UTC()
		o.Hours = &redrive.Hours{Days: []time.Weekday{now.Weekday()}, From: 0, To: now.Add(after).Sub(now.Truncate(24 * time.Hour)), Zone: time.UTC}
	}
}

var byPolicy = redrive.Request{Cause: dlqbridge.CauseTimeout, Policy: true}

// What a person authorised stays so when the hours end, what policy authorised
// itself does not; either way a person sends the rest in the night.
func TestPolicyStopsWhenItsHoursEnd(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		ids := w.addMany(200)
		nightly(w, ids...)
		time.Sleep(time.Minute)
		byHand := ids[190]
		_, c := w.start(t, shut(2*time.Second))
		w.mu.Lock()
		one := w.controls[byHand]
		one.Status, one.Authorized = dlqbridge.StatusAuthorized, &dlqbridge.Authorization{By: alice.String(), At: time.Now(), Action: dlqbridge.ActionRetry}
		w.controls[byHand] = one
		w.mu.Unlock()

		began := time.Now()
		res, err := c.Run(ctx, byPolicy)
		if err != nil {
			t.Fatal(err)
		}
		if res.State != dlqbridge.JobDone || res.Sent < 50 || res.Sent > 150 || res.Sent+res.Excluded.Len() != 200 {
			t.Errorf("%s, %d sent, %d excluded", res.State, res.Sent, res.Excluded.Len())
		}
		for _, x := range whole(res.Excluded) {
			if x.Reason != dlqbridge.ExcludeNotBefore || x.Detail != "outside business hours; they begin 2000-01-08T00:00:00Z" {
				t.Fatalf("%+v", x)
			}
		}
		for _, a := range w.queues[orders].all() {
			if a.at.Sub(began) > 3*time.Second {
				t.Errorf("sent %s after the start", a.at.Sub(began))
			}
		}
		if n := w.count(dlqbridge.StatusAuthorized); n != 1 || w.control(byHand).Authorized == nil {
			t.Errorf("%d are authorised", n)
		}
		if n := w.count(dlqbridge.StatusRedriving); n != res.Sent {
			t.Errorf("%d are claimed, %d sent", n, res.Sent)
		}

		if res, err := c.Run(ctx, byPolicy); err != nil || res.Job != "" || res.Selected != 0 || !res.Clean() || !strings.HasPrefix(res.Reason, "outside business hours") {
			t.Errorf("policy: %+v, %v", res, err)
		}
		p, err := c.Plan(ctx, byPolicy)
		if err != nil || p.Selected != 0 || reasons(p.Excluded)[byHand] != dlqbridge.ExcludeNotBefore {
			t.Errorf("plan of policy: %+v, %v", p, err)
		}
		if again, err := c.Run(ctx, request()); err != nil || again.Sent+res.Sent != 200 {
			t.Errorf("a person: %d, %v", again.Sent, err)
		}
	})
}

// Whoever continues a job of policy in the night has looked at it.
func TestAPersonContinuesAJobOfPolicyAtAnyTime(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		nightly(w, w.addMany(200)...)
		time.Sleep(time.Minute)
		_, c := w.start(t, shut(2*time.Second))
		stopped, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		res, err := c.Run(stopped, byPolicy)
		if err != nil || res.State != dlqbridge.JobPaused || res.Sent == 200 {
			t.Fatalf("%s, %d sent, %v", res.State, res.Sent, err)
		}
		time.Sleep(time.Hour)
		again, err := c.Continue(ctx, res.Job, bob, "the day's work must be through")
		if err != nil || again.Sent != 200 || again.State != dlqbridge.JobDone {
			t.Errorf("%s, %d sent, %v", again.State, again.Sent, err)
		}
		for body, n := range w.queues[orders].bodies() {
			if n != 1 {
				t.Errorf("%s: %d", body, n)
			}
		}
	})
}

// A plan of policy that was made by day is no order for the night.
func TestAPlanOfPolicyKeepsTheHours(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		nightly(w, w.addMany(5)...)
		time.Sleep(time.Minute)
		_, c := w.start(t, shut(time.Hour))
		p, err := c.Plan(ctx, byPolicy)
		if err != nil || p.Selected != 5 {
			t.Fatalf("%+v, %v", p, err)
		}
		time.Sleep(time.Hour)
		if res, err := c.Run(ctx, redrive.Request{Plan: &p, Actor: alice}); err != nil || res.Job != "" || len(w.queues[orders].all()) != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if n := w.count(dlqbridge.StatusAuthorized); n != 0 {
			t.Errorf("%d are authorised", n)
		}
	})
}

// The hours may end while a run looks and authorises.
func TestHoursThatEndBeforeTheFirstClaim(t *testing.T) {
	for _, op := range []string{"list", "judge", "take", "put", "move", "create-job", "look"} {
		t.Run(op, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				nightly(w, w.addMany(5)...)
				time.Sleep(time.Minute)
				ended := false
				_, c := w.start(t, func(p *process, o *redrive.Options) {
					shut(10*time.Second)(p, o)
					p.late = func(have string) error {
						if have == op && !ended {
							ended = true
							time.Sleep(11 * time.Second)
						}
						return nil
					}
				})
				res, err := c.Run(ctx, byPolicy)
				if err != nil || res.Sent != 0 || !ended || res.Excluded.Len() != 5 {
					t.Fatalf("ended %t, %d sent, %d excluded, %v", ended, res.Sent, res.Excluded.Len(), err)
				}
				for id, reason := range reasons(res.Excluded) {
					if reason != dlqbridge.ExcludeNotBefore {
						t.Errorf("%s: %s", id, reason)
					}
				}
				if n, m := w.count(dlqbridge.StatusAuthorized), w.count(dlqbridge.StatusRedriving); n+m != 0 {
					t.Errorf("%d are authorised, %d claimed", n, m)
				}
			})
		})
	}
}

// Where groups keep their order, those behind one that must wait do so too, and
// the next day brings all of them, in order.
func TestOrderedGroupsGoOnTheNextDay(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.groups(40, "a", "b")
		for id := range w.controls {
			nightly(w, id)
		}
		time.Sleep(time.Minute)
		_, c := w.start(t, shut(500*time.Millisecond))
		res, err := c.Run(ctx, byPolicy)
		if err != nil || res.State != dlqbridge.JobDone || res.Sent == 0 || res.Sent == 80 || res.Sent+res.Excluded.Len() != 80 {
			t.Fatalf("%s, %d sent, %d excluded, %v", res.State, res.Sent, res.Excluded.Len(), err)
		}
		for id, reason := range reasons(res.Excluded) {
			if reason != dlqbridge.ExcludeNotBefore && reason != dlqbridge.ExcludeOrderBlocked {
				t.Errorf("%s: %s", id, reason)
			}
		}
		if n := w.count(dlqbridge.StatusAuthorized); n != 0 {
			t.Errorf("%d are authorised", n)
		}
		_, c = w.start(t, func(p *process, o *redrive.Options) {
			time.Sleep(62 * time.Hour)
			shut(time.Hour)(p, o)
		})
		if next, err := c.Run(ctx, byPolicy); err != nil || res.Sent+next.Sent != 80 {
			t.Errorf("%d and %d sent, %v", res.Sent, next.Sent, err)
		}
		want := map[string][]string{}
		for k := range 40 {
			for _, g := range []string{"a", "b"} {
				want[g] = append(want[g], fmt.Sprintf("%s%d", g, k+1))
			}
		}
		if diff := cmp.Diff(want, w.queues[orders].byGroup()); diff != "" {
			t.Error(diff)
		}
	})
}
