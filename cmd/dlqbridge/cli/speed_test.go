package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A speed is measured from change to change: neither the burst at the beginning
// nor a number that is told late looks like a pace.
func TestSpeed(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	check := func(name string, v *speed, now, low, high float64) {
		t.Helper()
		switch got, known := v.perSecond(at(now)); {
		case known != (high > 0):
			t.Errorf("%s: known %v", name, known)
		case known && (got < low || got > high):
			t.Errorf("%s: %.2f/s, want %.2f to %.2f", name, got, low, high)
		}
	}
	var burst speed
	burst.saw(at(0), 0)
	burst.saw(at(0.004), 10)
	check("only a burst", &burst, 0.004, 0, 0)
	burst.saw(at(1), 11)
	check("a second", &burst, 1, 0, 0)
	for i := 2; i < 10; i++ {
		burst.saw(at(float64(i)), 10+i)
	}
	check("after a burst", &burst, 9, 0.99, 1.01)
	check("a lull", &burst, 25, 0.2, 0.5)
	check("long still", &burst, 60, 0, 0)
	burst.saw(at(60), 20)
	burst.saw(at(61), 22)
	burst.saw(at(62), 24)
	check("after standing still", &burst, 62, 1.99, 2.01)

	var late speed // written each two seconds, read each second
	for i := range 20 {
		late.saw(at(float64(i)), i/2*2)
		if i > 6 {
			check("late", &late, float64(i), 0.99, 1.01)
		}
	}
	var many speed
	for i := range 100_000 {
		many.saw(at(float64(i)/1000), i)
	}
	check("many", &many, 100, 995, 1005)
	if n := len(many.marks); n > 200 {
		t.Errorf("%d marks are kept", n)
	}
}

// The line of progress stays within the terminal, and what is written goes above it.
func TestTheMeterKeepsToItsLine(t *testing.T) {
	var out bytes.Buffer
	now, width := time.Unix(1000, 0), 20
	m := &meter{w: &out, now: func() time.Time { return now }, columns: func() int { return width }}
	m.show("12 of 50 sent, 1.0/s, to a queue")
	if got := out.String(); got != "\r\x1b[K12 of 50 sent, 1.0…" {
		t.Errorf("%q", got)
	}
	out.Reset()
	_, _ = m.above(&out).Write([]byte("a log line\n"))
	m.show("13 of 50 sent")
	if got := out.String(); got != "\r\x1b[Ka log line\n\r\x1b[K13 of 50 sent" {
		t.Errorf("%q", got)
	}
	out.Reset()
	width = 0
	m.clear()
	m.clear()
	m.show(strings.Repeat("x", 100))
	if got := out.String(); got != "\r\x1b[K\r\x1b[K"+strings.Repeat("x", 78)+"…" {
		t.Errorf("%q", got)
	}
}
