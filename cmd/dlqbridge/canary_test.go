package main_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// outside is a worker of the orders queue with an intake behind it. While it is
// broken each message fails and comes back as a letter; otherwise the ledger
// says that its task completed. Calling stop ends it.
func (b *bench) outside(broken *atomic.Bool) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(10 * time.Second):
			}
			if broken.Load() {
				b.die("orders")
				b.ok("intake", "--until-empty")
				continue
			}
			for m := b.receive("orders"); m != nil; m = b.receive("orders") {
				var task struct{ Task string }
				var mark struct{ N int }
				_ = json.Unmarshal([]byte(aws.ToString(m.Body)), &task)
				_ = json.Unmarshal([]byte(aws.ToString(m.MessageAttributes["agent.redrive"].StringValue)), &mark)
				b.ledger(task.Task, "task", with(intent, row{"status": "completed", "redrive_n": mark.N, "updated_at": time.Now(), "run_id": "run-2"}))
			}
		}
	}()
	return func() { close(quit); <-done; synctest.Wait() }
}

// The whole program against the local cloud: a fix that does not hold stops
// itself after a few, and after a real one the same command completes all.
func TestACanaryOnTheLocalCloud(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		const n = 200
		b.tasks(intent, nil, names(n)...)
		command := append([]string{"redrive", "run", "--cause", "timeout", "--canary", "1,5,25", "--rate", "100/s"}, fixed...)
		var broken atomic.Bool
		broken.Store(true)
		stop := b.outside(&broken)
		run := document[runDoc](b, 3, command...)
		if run.Sent < 1 || run.Sent > 6 || run.State != "paused" || run.Selected != n {
			t.Fatalf("%+v", run)
		}
		status := document[struct {
			State, Reason string
			Canary        []int
		}](b, 0, "redrive", "status", run.Job)
		if status.State != "paused" || !strings.Contains(status.Reason, "came back") || len(status.Canary) != 3 {
			t.Errorf("status %+v", status)
		}
		if text := b.ok("redrive", "status", run.Job).stdout; !strings.Contains(text, "canary 1,5,25, 0 of 3 steps passed") || !strings.Contains(text, "came back") {
			t.Errorf("status says\n%s", text)
		}
		if open := document[struct{ Records []struct{ ID string } }](b, 0, "records", "list", "--status", "authorized", "--limit", "0"); len(open.Records) > 0 {
			t.Errorf("%d records are still authorised", len(open.Records))
		}
		if trail := b.ok("redrive", "status", run.Job, "--history").stdout; !strings.Contains(trail, "started with 200 records") || !strings.Contains(trail, "paused by itself: canary step") {
			t.Errorf("the trail says\n%s", trail)
		}
		broken.Store(false)
		run = document[runDoc](b, 0, append(command, "--wait")...)
		if run.Sent != n || run.State != "done" || run.Outcomes["completed"] != n {
			t.Fatalf("%+v", run)
		}
		stop()
		if open := document[struct{ Records []struct{ ID string } }](b, 0, "records", "list"); len(open.Records) > 0 {
			t.Errorf("%d records are still open", len(open.Records))
		}
	})
}

// Somebody else follows a job until it ends: a bar where that is a terminal.
func TestAJobIsFollowed(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, names(60)...)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.ok(append([]string{"redrive", "run", "--cause", "timeout", "--canary", "1,5", "--rate", "1/s"}, fixed...)...)
		}()
		time.Sleep(time.Minute) // the first step is being observed
		listed := document[struct {
			Jobs []struct {
				ID       string
				Sent     int
				Outcomes map[string]int
			}
		}](b, 0, "redrive", "list").Jobs[0]
		job := listed.ID
		if listed.Sent != 1 || listed.Outcomes["sent"] != 1 {
			t.Errorf("listed as %+v", listed)
		}
		eyes := *b
		eyes.stderr = true
		seen := eyes.ok("redrive", "status", job, "--follow", "-o", "json")
		<-done
		for _, want := range []string{"canary step 1 of 1,5, observing", "[#", "1 of 60 sent"} {
			if !strings.Contains(seen.stderr, want) {
				t.Errorf("%q was never shown", want)
			}
		}
		if !strings.Contains(seen.stdout, `"state": "done"`) {
			t.Errorf("it ended with\n%s", seen.stdout)
		}
	})
}
