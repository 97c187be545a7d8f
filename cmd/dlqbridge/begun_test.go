package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A job is named with what to type about it, beside one document on standard
// output; so is one that goes on, and the time until which a canary step is observed.
func TestAJobIsNamedAsItBegins(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, "t-1", "t-2", "t-3")
		step := regexp.MustCompile(`(?m)^(j_\w+): canary step 1 of 1, observing until (\d\d:\d\d:\d\dZ) at the latest$`)
		run := b.behind(append([]string{"redrive", "run", "--cause", "timeout", "--canary", "1", "-o", "json"}, fixed...)...)
		time.Sleep(time.Minute)
		began := time.Now()
		job := b.onlyJob()
		if text := b.ok("redrive", "status", job).stdout; !strings.Contains(text, "canary step 1 of 1, observing until ") {
			t.Error(text)
		}
		b.ok("redrive", "pause", job, "--reason", "lunch")
		for name, c := range map[string]call{"run": run(), "continue": b.run("redrive", "continue", job, "--reason", "back", "-o", "json")} {
			for _, verb := range []string{"status " + job + " --follow", "pause " + job + " --reason …", "cancel " + job + " --reason …"} {
				if !strings.Contains(c.stderr, "  dlqbridge redrive "+verb+" ") {
					t.Errorf("%s names no %q:\n%s", name, verb, c.stderr)
				}
			}
			does := map[string]string{"run": " sends 3 records to arn:", "continue": " goes on after 1 of 3 records to arn:"}[name]
			if !strings.HasPrefix(c.stderr, "job "+job+does) || strings.Count(c.stderr, "3 records") != 1 {
				t.Errorf("%s says\n%s", name, c.stderr)
			}
			if !json.Valid([]byte(c.stdout)) {
				t.Errorf("%s prints\n%s", name, c.stdout)
			}
			m := step.FindStringSubmatch(c.stderr)
			if m == nil || m[1] != job {
				t.Fatalf("%s says\n%s", name, c.stderr)
			}
			// Ten minutes after the send, and the last look.
			until, err := time.Parse("15:04:05Z", m[2])
			if early := until.Sub(time.Date(0, 1, 1, began.UTC().Hour(), began.UTC().Minute(), began.UTC().Second(), 0, time.UTC)); err != nil || early < 9*time.Minute || early > 12*time.Minute {
				t.Errorf("%s: until %s, a minute after the start it was %s", name, m[2], began.UTC())
			}
		}
		// Where there is nothing to send there is no job.
		if c := b.run(append([]string{"redrive", "run", "--cause", "permission"}, fixed...)...); c.stderr != "" {
			t.Error(c.stderr)
		}
	})
}

// Whoever stops reading standard error ends no job, and whoever loses the terminal
// leaves a paused one that can be continued, and none that only looks as if it ran.
func TestALostTerminalPausesTheJob(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("a hangup is ignored here (nohup)")
	}
	w := newWorld(t, twoRoutes)
	w.queues("orders", false)
	w.queues("jobs", true)
	w.run(0, "tables", "create")
	w.send("orders", 0, 10, false)
	w.die("orders")
	w.run(0, "intake", "--until-empty")
	cmd := w.command("redrive", "run", "--cause", "timeout", "--fix", "deploy:1.4.2", "--reason", "back up", "--canary", "1", "-o", "json")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // where the test has failed before its end
	write.Close()
	line, err := bufio.NewReader(read).ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) < 2 || words[0] != "job" {
		t.Fatalf("it begins with %q, %v", line, err)
	}
	read.Close()
	job := words[1]
	type status struct {
		State, Reason, Doing string
		Sent                 int
	}
	// It is seen as observing only after that was said to nobody.
	for deadline := time.Now().Add(20 * time.Second); ; {
		s := runJSON[status](w, 0, "redrive", "status", job)
		if strings.Contains(s.Doing, "observing until") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 3 || !json.Valid(out.Bytes()) {
		t.Errorf("%s\n%s", cmd.ProcessState, out.String())
	}
	if s := runJSON[status](w, 0, "redrive", "status", job); s.State != "paused" || s.Sent != 1 || !strings.Contains(s.Reason, "interrupted") {
		t.Errorf("%+v", s)
	}
}
