package main_test

import (
	"strings"
	"sync/atomic"
	"testing"
)

type standingDoc struct {
	Outcomes      map[string]int
	SuccessRate   *float64
	TimeToOutcome *struct {
		MedianSeconds, P95Seconds float64
		Of                        int
	}
	EstimatedEnd *string
	Steps        []struct {
		Step       *int
		Size, Sent int
		Outcomes   map[string]int
	}
	Signatures []struct {
		Signature   *string
		Size        int
		SuccessRate *float64
	}
}

// `redrive status` tells sent from worked, by step and by group of failures.
func TestStatusTellsThePartsOfAJob(t *testing.T) {
	inBubble(t, oneRoute, []string{"orders"}, func(b *bench) {
		b.tasks(intent, nil, names(4)...)
		b.tasks(intent, row{"code": "E_OTHER"}, "other-1", "other-2")
		stop := b.outside(new(atomic.Bool))
		run := document[runDoc](b, 0, append([]string{"redrive", "run", "--cause", "timeout", "--canary", "2", "--wait"}, fixed...)...)
		stop()
		d := document[standingDoc](b, 0, "redrive", "status", run.Job)
		if run.Sent != 6 || d.Outcomes["completed"] != 6 || d.SuccessRate == nil || *d.SuccessRate != 1 || d.EstimatedEnd != nil {
			t.Errorf("%+v", d)
		}
		if d.TimeToOutcome == nil || d.TimeToOutcome.Of != 6 || d.TimeToOutcome.MedianSeconds <= 0 || d.TimeToOutcome.P95Seconds < d.TimeToOutcome.MedianSeconds {
			t.Errorf("took %+v", d.TimeToOutcome)
		}
		if len(d.Steps) != 2 || d.Steps[0].Step == nil || *d.Steps[0].Step != 1 || d.Steps[0].Sent != 2 || d.Steps[1].Step != nil || d.Steps[1].Size != 4 {
			t.Errorf("steps %+v", d.Steps)
		}
		if len(d.Signatures) != 2 || d.Signatures[0].Size != 4 || d.Signatures[1].Size != 2 || *d.Signatures[1].SuccessRate != 1 {
			t.Errorf("groups %+v", d.Signatures)
		}
		text := b.ok("redrive", "status", run.Job).stdout
		for _, want := range []string{"100% success of 6 with an outcome", "100% success of 2 with an outcome", "outcome after ", "STEP", "rest", "sg_", "completed 2"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not said in\n%s", want, text)
			}
		}
	})
}
