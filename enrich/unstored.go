package enrich

import (
	"sync"
	"time"
)

const (
	// UnstoredFirst doubles with each failure up to unstoredLast: a letter that
	// cannot be stored must not be received in a hot loop, and somebody who has
	// repaired the cause should not wait for long.
	unstoredFirst = 30 * time.Second
	unstoredLast  = 15 * time.Minute
	// MaxUnstored bounds what is remembered. Letters beyond it are counted and
	// backed off all the same, by their delivery count.
	maxUnstored = 10_000
)

// unstored remembers the letters of one place that cannot be stored.
type unstored struct {
	mu      sync.Mutex
	letters map[string]hiding
	beyond  int
}

// hiding is one letter that was hidden.
type hiding struct {
	tries int
	until time.Time
}

// add notes one more failure of a letter: for how long to hide it, and whether
// it is the first failure in this run.
func (u *unstored) add(key string, deliveries *int, now time.Time) (d time.Duration, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.letters == nil {
		u.letters = map[string]hiding{}
	}
	h, known := u.letters[key]
	h.tries++
	tries := h.tries
	if !known && deliveries != nil {
		tries = min(*deliveries, 4) // another process may have tried before
	}
	d = min(unstoredFirst<<min(tries-1, 10), unstoredLast)
	if tries < 1 {
		d = unstoredFirst
	}
	h.until = now.Add(d)
	if known || len(u.letters) < maxUnstored {
		u.letters[key] = h
	} else {
		u.beyond++
	}
	return d, !known
}

// knows says whether the letter has failed before.
func (u *unstored) knows(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.letters[key]
	return known
}

// forget drops a letter that could be stored after all.
func (u *unstored) forget(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.letters, key)
}

// hidden counts the letters that are hidden by us now.
func (u *unstored) hidden(now time.Time) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.beyond
	for _, h := range u.letters {
		if h.until.After(now) {
			n++
		}
	}
	return n
}

// distinct counts the letters that could not be stored.
func (u *unstored) distinct() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.letters) + u.beyond
}
