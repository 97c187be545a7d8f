package dlqbridge

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is how many messages may be sent per span of time.
type Rate struct {
	Count float64       `json:"count"`
	Per   time.Duration `json:"per"`
}

// maxRate is far above what one destination takes; more is a slip of the pen.
const maxRate = 100_000

// ParseRate reads "20/s", "600/m" or "1000/h"; fractions are fine.
func ParseRate(s string) (Rate, error) {
	count, unit, ok := strings.Cut(s, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(count, 64)
	r := Rate{n, per}
	if !ok || per == 0 || err != nil || !(n > 0) || r.PerSecond() > maxRate {
		return Rate{}, fmt.Errorf("rate %q: write a number above 0 and a unit, such as 20/s, 600/m or 1000/h (at most %d/s)", s, maxRate)
	}
	return r, nil
}

// PerSecond is the rate as messages per second.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return r.Count / r.Per.Seconds()
}

// Interval is the time between two messages at this rate.
func (r Rate) Interval() time.Duration { return time.Duration(float64(r.Per) / r.Count) }

// String writes the rate as ParseRate reads it.
func (r Rate) String() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]
	return strconv.FormatFloat(r.Count, 'f', -1, 64) + "/" + unit
}

// DefaultBurst is a tenth of a second's worth, at least 10 (one full SQS batch).
func (r Rate) DefaultBurst() int { return max(10, int(r.PerSecond()/10)) }
