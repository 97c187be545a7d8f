package enrich_test

import (
	"context"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// blind is a place without counters that gives nothing at first.
type blind struct {
	dlqbridge.DeadLetters
	after time.Time
	now   func() time.Time
}

func (d blind) Receive(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
	if d.now().Before(d.after) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return nil, nil
	}
	return d.DeadLetters.Receive(ctx, limit, wait)
}

func (blind) Depth(context.Context) (dlqbridge.Depth, error) {
	return dlqbridge.Depth{Unknown: true}, nil
}

// C50: a place that cannot say how much it holds is empty only after a longer
// silence, and its zeros are told to nobody.
func TestC50NoCountersNeedALongerSilence(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(tasks(3)...)
		w.die()
		p := w.ports()
		p.letters = blind{p.letters, w.Clock().Now().Add(7 * time.Second), w.Clock().Now}
		seen := &watch{}
		o := w.options(p)
		o.Observer = seen
		began := time.Now()
		counts, err := w.intake(o)
		must(t, err)
		if want := (enrich.Counts{Letters: 3, Records: 3, Arrivals: 3}); counts != want {
			t.Errorf("counts: got %+v, want %+v", counts, want)
		}
		if n := seen.count(enrich.EventDepth); n != 0 {
			t.Errorf("%d depths were told", n)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %s to be sure", took)
		}
	})
}
