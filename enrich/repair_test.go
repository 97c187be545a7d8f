package enrich_test

import (
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
)

// repairOf is a person's note of a repair from one body to another.
func repairOf(from, to dlqbridge.Payload, version int, chosen bool) *dlqbridge.Note {
	n := person(dlqbridge.VerbRepair, "ann")
	n.Repair = &dlqbridge.Repair{Version: version, Payload: "v", SHA256: to.Hash(), BaseSHA256: from.Hash(), Chosen: chosen}
	n.Fix = &dlqbridge.Fix{Kind: "data", Text: "payload version"}
	return n
}

// Which letters are in conflict with a repair, before and after it was sent,
// and what ends that.
func TestConflictsAroundARepair(t *testing.T) {
	nothing := dlqbridge.Testimony{Findings: []dlqbridge.Finding{notStarted}}
	original, repaired, other := letterOf("x").Payload, letterOf("y").Payload, letterOf("z").Payload
	began := func(t *testing.T) *caseOf {
		b := newCase(t, nothing)
		b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
		j := b.move(dlqbridge.VerbRepair, enrich.Subject{Note: repairOf(original, repaired, 2, false)}, nil)
		if j.Decision.Action != dlqbridge.ActionRepair || j.Conflict {
			t.Fatalf("repaired: %+v", j.Decision)
		}
		return b
	}
	for _, tt := range []struct {
		name string
		do   func(*caseOf) enrich.Judgement
		want bool
	}{
		{"a copy of what was repaired", func(b *caseOf) enrich.Judgement {
			return b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("x")), nil)
		}, false},
		{"another one", func(b *caseOf) enrich.Judgement {
			return b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("z")), nil)
		}, true},
		{"it comes back", func(b *caseOf) enrich.Judgement { b.send(); return b.recur("m-2", letterOf("y")) }, false},
		{"the original after the send", func(b *caseOf) enrich.Judgement { b.send(); return b.recur("m-2", letterOf("x")) }, true},
		{"the original after a send that was taken back", func(b *caseOf) enrich.Judgement {
			b.send()
			b.move(dlqbridge.VerbRelease, enrich.Subject{}, func(c *dlqbridge.Control) { c.Claim = nil })
			return b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("x")), nil)
		}, false},
		{"a person says which is right", func(b *caseOf) enrich.Judgement {
			b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("z")), nil)
			return b.move(dlqbridge.VerbRepair, enrich.Subject{Note: repairOf(other, other, 3, true)}, nil)
		}, false},
		{"a repair that does not say it", func(b *caseOf) enrich.Judgement {
			b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("z")), nil)
			return b.move(dlqbridge.VerbRepair, enrich.Subject{Note: repairOf(repaired, letterOf("w").Payload, 3, false)}, nil)
		}, true},
		{"a further letter after that word", func(b *caseOf) enrich.Judgement {
			b.move(dlqbridge.VerbReceive, b.letter("m-2", letterOf("z")), nil)
			b.move(dlqbridge.VerbRepair, enrich.Subject{Note: repairOf(other, other, 3, true)}, nil)
			return b.move(dlqbridge.VerbReceive, b.letter("m-3", letterOf("x")), nil)
		}, true},
		{"another key is settled by no payload", func(b *caseOf) enrich.Judgement {
			l := sqsLetter("x", text("agent.ctx", `{"task":"t","idem":"other","cause":"timeout"}`))
			b.move(dlqbridge.VerbReceive, b.letter("m-2", l), nil)
			return b.move(dlqbridge.VerbRepair, enrich.Subject{Note: repairOf(other, other, 3, true)}, nil)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if j := tt.do(began(t)); j.Conflict != tt.want {
				t.Errorf("conflict %v, want %v: %+v", j.Conflict, tt.want, j.Decision)
			}
		})
	}
}

// One patch for many is no look at each: what waits for a person's look goes on
// waiting, and approvals of before are void.
func TestARepairIsNoLook(t *testing.T) {
	b := newCase(t, dlqbridge.Testimony{Findings: []dlqbridge.Finding{notStarted}})
	b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), func(c *dlqbridge.Control) { c.Late = true })
	n := person(dlqbridge.VerbAuthorize, "bob")
	n.Approval = true
	b.move(dlqbridge.VerbAuthorize, enrich.Subject{Note: n}, nil)
	j := b.move(dlqbridge.VerbRepair, enrich.Subject{Note: repairOf(letterOf("x").Payload, letterOf("y").Payload, 2, false)}, nil)
	if j.Decision.Why != enrich.WhyLate || len(j.Approvers) != 0 {
		t.Errorf("%+v, approved by %v", j.Decision, j.Approvers)
	}
}

// A checkpoint was made from another payload.
func TestARepairedTaskIsNotResumed(t *testing.T) {
	b := &caseOf{t: t, e: enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Resume: true, Stores: asked(dlqbridge.Testimony{
		Findings: []dlqbridge.Finding{notStarted}, Checkpoint: &dlqbridge.Checkpoint{Ref: "c", Step: "0002#validate", Run: "run-1", At: start},
	})})}
	if j := b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil); j.Decision.Action != dlqbridge.ActionResume {
		t.Fatalf("%+v", j.Decision)
	}
	j := b.move(dlqbridge.VerbRepair, enrich.Subject{Note: repairOf(letterOf("x").Payload, letterOf("y").Payload, 2, false)}, nil)
	if j.Decision.Action != dlqbridge.ActionRepair {
		t.Errorf("%+v", j.Decision)
	}
}

// A store that makes its key from the message is asked with what ran. Where
// more than one payload did, no key speaks for all, and it is not asked with one.
func TestStoresByPayloadAndRepairs(t *testing.T) {
	store := &keyed{}
	b := &caseOf{t: t, e: enricher(t, enrich.Route{Name: "orders", Place: arn("orders-dlq"), Stores: []dlqbridge.Store{store}})}
	ask := func() bool {
		p := letterOf("x").Payload
		b.e.Judge(t.Context(), start.Add(3*time.Hour), []enrich.Subject{{Case: b.c, Payload: &p}})
		return store.questions[len(store.questions)-1].Payload != nil
	}
	b.move(dlqbridge.VerbReceive, b.letter("m-1", letterOf("x")), nil)
	b.move(dlqbridge.VerbRepair, enrich.Subject{Note: repairOf(letterOf("x").Payload, letterOf("y").Payload, 2, false)}, nil)
	if !ask() {
		t.Error("before the send only the original ran")
	}
	b.send()
	if !ask() {
		t.Error("its outcome is looked for under what was sent")
	}
	b.recur("m-2", letterOf("y"))
	if ask() {
		t.Error("two payloads ran, and one key was taken for both")
	}
}
