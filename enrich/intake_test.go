package enrich_test

import (
	"testing"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

func TestIntakeMakesOneRecordPerTaskAndEmptiesThePlace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(task("a", `,"cause":"timeout"`), task("b", ""), task("a", `,"cause":"timeout"`), message{body: "plain text"})
		w.die()
		got := w.drain()
		if want := (enrich.Counts{Letters: 4, Records: 3, Arrivals: 4}); got != want {
			t.Errorf("counts: got %+v, want %+v", got, want)
		}
		if n := w.depth(w.dlq); n != 0 {
			t.Errorf("%d letters left", n)
		}
		cases := w.cases()
		wantVerbs(t, cases["a"], dlqbridge.VerbReceive, dlqbridge.VerbReceive)
		a := cases["a"].Control
		if a.Arrivals != 2 || a.Cause != dlqbridge.CauseTimeout || a.Status != dlqbridge.StatusUnderInvestigation || a.Why != dlqbridge.WhyEffectUnknown {
			t.Errorf("record of a: %+v", a)
		}
		t.Log(cases["a"].Contexts[0].Reason)
	})
}
