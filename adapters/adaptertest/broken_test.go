package adaptertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// broken is the reference with one fault.
type broken struct {
	name string
	// harm puts the fault into a setup.
	harm func(*Setup)
	// caughtBy names a sub-test that must notice, whoever else does.
	caughtBy string
	// differences are those that the adapter claims.
	differences Differences
}

// Each broken adapter is noticed, and each sub-test notices at least one: a
// sub-test that nothing can fail promises nothing. With -v the test prints who
// noticed what.
func TestTheSuiteCatches(t *testing.T) {
	for family, f := range map[string]struct {
		tests    []test
		variants []broken
	}{
		"DeadLetters": {deadLettersTests(), brokenDeadLetters()},
		"Destination": {destinationTests(), brokenDestinations()},
	} {
		t.Run(family, func(t *testing.T) {
			noticed := map[string]bool{}
			for _, v := range f.variants {
				t.Run(v.name, func(t *testing.T) {
					var by []string
					for _, c := range f.tests {
						if said := failures(t, c, harmed(v)); len(said) > 0 {
							by = append(by, c.name)
							noticed[c.name] = true
						}
					}
					t.Logf("noticed by: %s", strings.Join(by, "; "))
					if !slices.Contains(by, v.caughtBy) {
						t.Errorf("%q did not notice", v.caughtBy)
					}
				})
			}
			for _, c := range f.tests {
				if !noticed[c.name] {
					t.Errorf("%q notices none of the broken adapters", c.name)
				}
			}
		})
	}
}

// The recorder itself reports no failure where there is none.
func TestTheRecorderIsNeutral(t *testing.T) {
	for _, c := range slices.Concat(deadLettersTests(), destinationTests()) {
		if said := failures(t, c, reference); len(said) > 0 {
			t.Errorf("%s: %s", c.name, strings.Join(said, "\n"))
		}
	}
}

// none: the adapter claims no difference.
var none Differences

func harmed(v broken) Harness {
	h := reference
	h.Differences = v.differences
	h.New = func(t testing.TB, ordered bool) *Setup {
		s := newReference(t, ordered)
		v.harm(s)
		return s
	}
	return h
}

// failures runs a sub-test and returns what it complained of.
func failures(t *testing.T, c test, h Harness) []string {
	t.Helper()
	var said []string
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() { // of its own, since Fatal ends the goroutine
			defer close(done)
			defer func() {
				if cause := recover(); cause != nil {
					r.say(fmt.Sprint("panic: ", cause))
				}
			}()
			c.run(r, h)
		}()
		<-done
		said = r.said
	})
	return said
}

// recorder is a testing.TB that keeps failures to itself. The embedded one
// lends it its context and its clean-up.
type recorder struct {
	testing.TB

	mu   sync.Mutex
	said []string
}

func (r *recorder) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, text)
}

func (r *recorder) Error(args ...any)                 { r.say(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.say(fmt.Sprintf(format, args...)) }

func (r *recorder) Fatal(args ...any) {
	r.say(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.say(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Skip(...any)          { runtime.Goexit() }
func (r *recorder) Skipf(string, ...any) { runtime.Goexit() }
func (r *recorder) Log(...any)           {}
func (r *recorder) Logf(string, ...any)  {}

// letters is a DeadLetters of which single methods are replaced.
type letters struct {
	dlqbridge.DeadLetters

	place   func() string
	receive func(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error)
	delete  func(context.Context, []dlqbridge.Letter) []error
	hide    func(context.Context, []dlqbridge.Letter, time.Duration) []error
	depth   func(context.Context) (dlqbridge.Depth, error)
}

func (l letters) Place() string {
	if l.place == nil {
		return l.DeadLetters.Place()
	}
	return l.place()
}

func (l letters) Receive(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
	if l.receive == nil {
		return l.DeadLetters.Receive(ctx, limit, wait)
	}
	return l.receive(ctx, limit, wait)
}

func (l letters) Delete(ctx context.Context, letters []dlqbridge.Letter) []error {
	if l.delete == nil {
		return l.DeadLetters.Delete(ctx, letters)
	}
	return l.delete(ctx, letters)
}

func (l letters) Hide(ctx context.Context, letters []dlqbridge.Letter, d time.Duration) []error {
	if l.hide == nil {
		return l.DeadLetters.Hide(ctx, letters, d)
	}
	return l.hide(ctx, letters, d)
}

func (l letters) Depth(ctx context.Context) (dlqbridge.Depth, error) {
	if l.depth == nil {
		return l.DeadLetters.Depth(ctx)
	}
	return l.depth(ctx)
}

// destination is a Destination of which single methods are replaced.
type destination struct {
	dlqbridge.Destination

	facts func(context.Context) (dlqbridge.DestinationFacts, error)
	send  func(context.Context, []dlqbridge.Outgoing) []dlqbridge.SendResult
}

func (d destination) Facts(ctx context.Context) (dlqbridge.DestinationFacts, error) {
	if d.facts == nil {
		return d.Destination.Facts(ctx)
	}
	return d.facts(ctx)
}

func (d destination) Send(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
	if d.send == nil {
		return d.Destination.Send(ctx, batch)
	}
	return d.send(ctx, batch)
}
