package cli

import "time"

// How a speed is measured.
const (
	// The time that a speed is measured over: a person wants to see
	// that it slows down, and not each batch.
	speedOver = 30 * time.Second
	// The least time that a speed is told of: over less, a burst at
	// the beginning looks like a pace.
	speedAfter = 2 * time.Second
	// How long nothing may be new before the speed sinks: a job
	// item is written each two seconds, and a viewer reads it each second.
	speedPatience = 4 * time.Second
)

// speed is how fast a number grows, measured from change to change: where it is
// looked at seldom, the looks say nothing about the time of a change that did
// not happen.
type speed struct {
	seen  bool
	n     int
	marks []speedMark
}

type speedMark struct {
	at time.Time
	n  int
}

// saw takes in what the number is now.
func (v *speed) saw(now time.Time, n int) {
	switch {
	case !v.seen: // nobody knows since when it is so
		v.seen, v.n = true, n
		return
	case n == v.n:
		return
	}
	v.n = n
	last := len(v.marks) - 1
	switch {
	case last >= 0 && now.Sub(v.marks[last].at) > speedOver: // it stood still meanwhile
		v.marks = append(v.marks[:0], speedMark{now, n})
	case last > 0 && now.Sub(v.marks[last-1].at) < speedAfter/4: // enough marks
		v.marks[last] = speedMark{now, n}
	default:
		v.marks = append(v.marks, speedMark{now, n})
	}
	for len(v.marks) > 2 && now.Sub(v.marks[1].at) >= speedOver {
		v.marks = v.marks[1:]
	}
}

// changed is when the number last grew; zero is not known.
func (v *speed) changed() time.Time {
	if len(v.marks) == 0 {
		return time.Time{}
	}
	return v.marks[len(v.marks)-1].at
}

// perSecond is the speed; false is not known yet.
func (v *speed) perSecond(now time.Time) (float64, bool) {
	if len(v.marks) < 2 {
		return 0, false
	}
	first, last := v.marks[0], v.marks[len(v.marks)-1]
	took := max(last.at.Sub(first.at), now.Sub(first.at)-speedPatience)
	if took < speedAfter || now.Sub(last.at) > speedOver {
		return 0, false
	}
	return float64(last.n-first.n) / took.Seconds(), true
}
