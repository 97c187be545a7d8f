package dlqbridge

import "time"

// Mute keeps a known group of failures quiet for a while: nothing about it is
// overdue. It changes no decision and stops no send (a Hold does that), and at
// Until the group comes back by itself.
type Mute struct {
	ID        string `json:"id"`
	Signature string `json:"signature"`
	// Route narrows it to one route; empty is all.
	Route  string    `json:"route,omitempty"`
	Reason string    `json:"reason"`
	By     Actor     `json:"by"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until"`
}

// Quiets says whether the mute keeps a record quiet now. An open incident is
// never quiet, nor is a record without a signature: it is in no group.
func (m Mute) Quiets(c Control, now time.Time) bool {
	return c.Signature != "" && m.Signature == c.Signature && (m.Route == "" || m.Route == c.Route) &&
		c.Status != StatusIncidentOpen && now.Before(m.Until)
}

// Muted is the mute that keeps a record quiet the longest; ok is false if none does.
func Muted(mutes []Mute, c Control, now time.Time) (longest Mute, ok bool) {
	for _, m := range mutes {
		if m.Quiets(c, now) && m.Until.After(longest.Until) {
			longest, ok = m, true
		}
	}
	return longest, ok
}
