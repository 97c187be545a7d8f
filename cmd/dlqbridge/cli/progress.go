package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// meterEvery is how often the line of progress changes at most: a person reads
// no faster.
const meterEvery = 200 * time.Millisecond

// meter is one line on standard error that tells how far long work is, written
// only where standard error is a terminal.
type meter struct {
	w   io.Writer
	now func() time.Time

	mu   sync.Mutex
	last time.Time
	used bool
}

// show replaces the line.
func (m *meter) show(format string, args ...any) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if m.used && now.Sub(m.last) < meterEvery {
		return
	}
	m.last, m.used = now, true
	_, _ = io.WriteString(m.w, "\r\x1b[K"+screen.Safe(fmt.Sprintf(format, args...))) // progress is worth no error
}

// clear takes the line away before something else is written.
func (m *meter) clear() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used {
		_, _ = io.WriteString(m.w, "\r\x1b[K")
	}
}

// meter is nil where progress is not to be shown.
func (s *session) meter() *meter {
	if !s.p.StderrTerminal {
		return nil
	}
	m := &meter{w: s.p.Stderr, now: s.p.Now}
	s.ended = append(s.ended, m.clear)
	return m
}

// progress shows how far a job is.
func (s *session) progress() func(redrive.Progress) {
	m := s.meter()
	if m == nil {
		return nil
	}
	return func(p redrive.Progress) {
		doing := ""
		if p.Doing != "" {
			doing = ", " + p.Doing
		}
		m.show("%s to %s: %d of %d sent, %d excluded, %d in doubt, %.1f/s%s", p.Job, p.Destination, p.Sent, p.Selected, p.Excluded, p.InDoubt, p.PerSecond, doing)
	}
}
