package cli

import (
	"fmt"
	"io"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// meterEvery is how often the line of progress changes at most: a person reads
// no faster.
const meterEvery = 200 * time.Millisecond

// plainColumns is the width of a terminal that does not tell its own.
const plainColumns = 80

// meter is one line on standard error that tells how far long work is, written
// only where standard error is a terminal. A call of the program has one.
type meter struct {
	w       io.Writer
	now     func() time.Time
	columns func() int
	ascii   bool

	mu   sync.Mutex
	last time.Time
	used bool
}

// show replaces the line.
func (m *meter) show(line string) {
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
	_, _ = io.WriteString(m.w, "\r\x1b[K"+m.fit(line)) // progress is worth no error
}

// fit makes a line fit into one of the terminal's: what wraps cannot be replaced.
func (m *meter) fit(line string) string {
	line = screen.Safe(line)
	width := m.columns()
	if width <= 0 {
		width = plainColumns
	}
	width-- // some terminals wrap after the last column
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	end := "…"
	if m.ascii {
		end = "~"
	}
	return string([]rune(line)[:max(0, width-1)]) + end
}

// clear takes the line away before something else is written.
func (m *meter) clear() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wipe()
}

func (m *meter) wipe() {
	if m.used {
		m.used = false
		_, _ = io.WriteString(m.w, "\r\x1b[K")
	}
}

// above is a writer whose texts take the place of the line of progress, which
// comes back under them.
func (m *meter) above(w io.Writer) io.Writer {
	if m == nil {
		return w
	}
	return aboveMeter{m, w}
}

type aboveMeter struct {
	meter *meter
	w     io.Writer
}

// Write implements io.Writer.
func (a aboveMeter) Write(b []byte) (int, error) {
	a.meter.mu.Lock()
	defer a.meter.mu.Unlock()
	a.meter.wipe()
	return a.w.Write(b)
}

// newMeter is nil where progress is not to be shown.
func (p *Program) newMeter() *meter {
	if !p.StderrTerminal {
		return nil
	}
	return &meter{w: p.Stderr, now: p.Now, columns: p.Columns, ascii: p.ascii()}
}

// progress names each job as soon as it exists and until when its canary steps
// are observed, and on a terminal shows how far it is.
func (s *session) progress() func(redrive.Progress) {
	job, pace := "", speed{}
	var until time.Time
	return func(p redrive.Progress) {
		if p.Job != job { // the next destination's
			job, pace = p.Job, speed{}
			s.announce(p)
		}
		if p.Until != until {
			if until = p.Until; !until.IsZero() {
				s.errors.Printf("%s: %s\n", p.Job, p.Doing)
			}
		}
		if s.meter == nil {
			return
		}
		now := s.p.Now()
		pace.saw(now, p.Sent)
		parts := []string{fmt.Sprintf("%s %d of %d sent", p.Job, p.Sent, p.Selected)}
		if rate, known := pace.perSecond(now); known {
			parts = append(parts, fmt.Sprintf("%.1f/s", rate))
		}
		parts = append(parts, p.Doing, someOf(p.Excluded, "excluded"), someOf(p.InDoubt, "in doubt"), "to "+p.Destination)
		s.meter.show(sentence(parts))
	}
}

// announce says what to type about a job before it sends anything: who has lost
// the terminal, or wants to stop it, finds it there.
func (s *session) announce(p redrive.Progress) {
	// Whoever stops reading standard error, as with `2>&1 | head`, ends no job in
	// the middle: the write fails, and nothing else.
	signal.Ignore(syscall.SIGPIPE)
	does := "sends " + plural(p.Selected, "record")
	if p.Sent > 0 { // it is continued, and repeats none of them
		does = fmt.Sprintf("goes on after %d of %s", p.Sent, plural(p.Selected, "record"))
	}
	s.errors.Printf("job %s %s to %s; from any terminal:\n", p.Job, does, p.Destination)
	for _, line := range []struct{ command, does string }{
		{"status " + p.Job + " --follow", "watches it"},
		{"pause " + p.Job + " --reason …", "stops it after the batches under way; continue goes on"},
		{"cancel " + p.Job + " --reason …", "ends it; what was not sent can be selected again"},
	} {
		s.errors.Printf("  dlqbridge redrive %-38s  # %s\n", line.command, line.does)
	}
}

// someOf is a number with its word; empty where it is none.
func someOf(n int, word string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, word)
}

// sentence joins the parts that say something.
func sentence(parts []string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}
