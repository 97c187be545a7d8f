package main_test

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// lines are those that were shown on one line of a terminal, one after the other,
// without what stays above it.
func lines(shown string) []string {
	var out []string
	for line := range strings.SplitSeq(shown, "\r\x1b[K") {
		if line != "" && !strings.HasSuffix(line, "\n") {
			out = append(out, line)
		}
	}
	return out
}

var (
	sentOf = regexp.MustCompile(`(\d+) of \d+ sent`)
	pace   = regexp.MustCompile(`, ([\d.]+)/s`)
	toSend = regexp.MustCompile(`, (\w+) to send`)
)

// sent is how many a line says were sent.
func sent(t *testing.T, line string) int {
	t.Helper()
	m := sentOf.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("%q says nothing of what was sent", line)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// behind starts a command beside the test and waits for it at the end.
func (b *bench) behind(args ...string) (wait func() call) {
	done := make(chan call, 1)
	go func() { done <- b.run(args...) }()
	synctest.Wait()
	return func() call { return <-done }
}

func (b *bench) onlyJob() string {
	b.t.Helper()
	return document[struct{ Jobs []struct{ ID string } }](b, 0, "redrive", "list").Jobs[0].ID
}

// slow is a run of all at one a second.
var slow = append([]string{"redrive", "run", "--cause", "timeout", "--rate", "1/s", "--burst", "1"}, fixed...)

// Whoever follows a job sees what was sent within two seconds, at its true
// pace, and an end that does not move away; also after a pause.
func TestAFollowedJobTellsTheTruth(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		const n = 60
		b.tasks(intent, nil, names(n)...)
		follow := func(job string) {
			t.Helper()
			eyes := *b
			eyes.stderr = true
			before := -1
			var end time.Duration
			for i, line := range lines(eyes.ok("redrive", "status", job, "-f", "-o", "json").stderr) {
				got := sent(t, line)
				if before < 0 {
					before = got
				}
				if late := before + i - got; late > 3 || late < -3 {
					t.Errorf("after %d s it says %q, and began with %d", i, line, before)
				}
				if utf8.RuneCountInString(line) > 79 {
					t.Errorf("%q wraps", line)
				}
				if m := pace.FindStringSubmatch(line); m != nil {
					if rate, _ := strconv.ParseFloat(m[1], 64); rate < 0.8 || rate > 1.2 {
						t.Errorf("at 1/s: %q", line)
					}
				} else if i > 8 {
					t.Errorf("no pace after %d s: %q", i, line)
				}
				if m := toSend.FindStringSubmatch(line); m != nil {
					left, err := time.ParseDuration(m[1])
					if err != nil || end > 0 && left > end+time.Second {
						t.Errorf("%q after %s to send", line, end)
					}
					if want := time.Duration(n-before-i) * time.Second; left < want-5*time.Second || left > want+5*time.Second {
						t.Errorf("%q, and it takes %s", line, want)
					}
					end = left
				}
			}
		}
		run := b.behind(slow...)
		time.Sleep(3500 * time.Millisecond)
		job := b.onlyJob()
		eyes := b.behind("redrive", "status", job, "-f")
		time.Sleep(15 * time.Second)
		b.ok("redrive", "pause", job, "--reason", "lunch")
		run()
		eyes()
		time.Sleep(time.Hour)
		run = b.behind("redrive", "continue", job, "--reason", "back")
		time.Sleep(2500 * time.Millisecond)
		follow(job)
		if c := run(); c.code != 0 {
			t.Errorf("continue: exit %d\n%s%s", c.code, c.stdout, c.stderr)
		}
	})
}

// What a continued job had sent before stands in its first line, and the last
// line is away before the result.
func TestAContinuedJobBeginsWhereItWas(t *testing.T) {
	for name, more := range map[string][]string{"plain": nil, "canary": {"--canary", "3,5"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
				b.tasks(intent, nil, names(20)...)
				run := b.behind(append(slow, more...)...)
				time.Sleep(8 * time.Second)
				job := b.onlyJob()
				b.ok("redrive", "pause", job, "--reason", "lunch")
				run()
				was := document[struct{ Sent int }](b, 0, "redrive", "status", job).Sent
				if was < 3 {
					t.Fatalf("%d were sent", was)
				}
				b.terminal = &bytes.Buffer{}
				c := b.run("redrive", "continue", job, "--reason", "back")
				shown := lines(c.stderr)
				if first := sent(t, shown[0]); first < was || first > was+1 {
					t.Errorf("%d were sent before, and it begins with %q", was, shown[0])
				}
				for _, line := range shown {
					if utf8.RuneCountInString(line) > 79 || strings.Contains(line, "\n") {
						t.Errorf("%q", line)
					}
				}
				if last := shown[len(shown)-1]; sent(t, last) < 19 { // nobody reads what stands there for a blink
					t.Errorf("it ends with %q", last)
				}
				if !strings.Contains(b.terminal.String(), "\r\x1b[K"+c.stdout) {
					t.Errorf("the result stands beside the progress: %q", b.terminal)
				}
			})
		})
	}
}

// A viewer who looks away stops nothing, and is told so.
func TestAViewerStopsAndTheJobGoesOn(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, names(20)...)
		run := b.behind(slow...)
		job := b.onlyJob()
		for _, more := range [][]string{nil, {"-o", "json"}} {
			ctx, stop := context.WithCancel(b.t.Context())
			time.AfterFunc(4500*time.Millisecond, stop)
			c := b.runCtx(ctx, append([]string{"redrive", "status", job, "-f"}, more...)...)
			if c.code != 0 || c.stderr != "" || !strings.Contains(c.stdout, job) {
				t.Errorf("%v: exit %d\n%s%s", more, c.code, c.stdout, c.stderr)
			}
			if want := map[bool]string{true: job + " goes on", false: `"state": "running"`}[more == nil]; !strings.Contains(c.stdout, want) {
				t.Errorf("%v: it says\n%s", more, c.stdout)
			}
		}
		if c := run(); c.code != 0 || !strings.Contains(c.stdout, "20 of 20 sent") {
			t.Errorf("the job: exit %d\n%s%s", c.code, c.stdout, c.stderr)
		}
	})
}
