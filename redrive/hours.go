package redrive

import (
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// Hours are the business hours of what policy sends alone: on each of Days the
// span of time from From to To on the clocks of Zone.
//
// A span is one piece even where the clocks are changed. It begins when they
// first show From, or have jumped over it, and ends when they first show To: an
// hour that comes twice neither closes it in between nor lengthens it past its
// first end, and a span that lies in an hour that is left out is empty.
type Hours struct {
	Days []time.Weekday
	// From and To are times of day, counted from 00:00 on the clock. To may be
	// 24 hours; one that is not after From is on the next day.
	From, To time.Duration
	Zone     *time.Location
}

// Open says whether a moment is within the hours.
func (h Hours) Open(t time.Time) bool {
	// A span of yesterday may last until today, and clocks that are set back
	// over midnight show yesterday's date within a span of today.
	for ahead := -2; ahead <= 1; ahead++ {
		if from, to := h.span(t, ahead); !t.Before(from) && t.Before(to) {
			return true
		}
	}
	return false
}

// Next is the first moment within the hours that is not before t; the zero time
// if there is none, because there are no days.
func (h Hours) Next(t time.Time) time.Time {
	if h.Open(t) {
		return t.In(h.Zone)
	}
	// A week has each day, and a second one those that a change of the clocks
	// has emptied; the rest is for zones that left out a whole day.
	for ahead := -2; ahead <= 30; ahead++ {
		if from, to := h.span(t, ahead); from.Before(to) && t.Before(from) {
			return from
		}
	}
	return time.Time{}
}

// span is the part of the hours that begins so many days after that of t; it is
// empty on a day that is none of theirs.
func (h Hours) span(t time.Time, ahead int) (from, to time.Time) {
	year, month, day := t.In(h.Zone).Date()
	date := time.Date(year, month, day+ahead, 0, 0, 0, 0, time.UTC)
	if !slices.Contains(h.Days, date.Weekday()) {
		return time.Time{}, time.Time{}
	}
	end := date.Add(h.To)
	if h.To <= h.From {
		end = date.AddDate(0, 0, 1).Add(h.To)
	}
	return shows(h.Zone, date.Add(h.From)), shows(h.Zone, end)
}

// shows is the first moment at which the clocks of a zone show at least a time,
// which is given as if it were UTC. (time.Date does not say which of two moments
// it takes, nor which side of a gap.)
func shows(zone *time.Location, clock time.Time) time.Time {
	at := clock.Add(-26 * time.Hour).In(zone) // surely before: no zone is so far from UTC
	for {
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		if t := clock.Add(-time.Duration(offset) * time.Second).In(zone); end.IsZero() || t.Before(end) {
			return later(at, t)
		}
		at = end
	}
}

// outside says why policy sends nothing now; empty is that it may.
func (c *Controller) outside(now time.Time) string {
	if c.o.Hours == nil || c.o.Hours.Open(now) {
		return ""
	}
	return "outside business hours; they begin " + c.o.Hours.Next(now).Format(time.RFC3339)
}

// mustWait is the exclusion of a record that policy would send, but not now.
func (c *Controller) mustWait(id string, policy bool, now time.Time) *dlqbridge.Exclusion {
	if !policy {
		return nil // who decides in the night has looked
	}
	if why := c.outside(now); why != "" {
		return &dlqbridge.Exclusion{ID: id, Reason: dlqbridge.ExcludeNotBefore, Detail: why}
	}
	return nil
}
