package enrich_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/enrich"
	"github.com/dlqbridge/dlqbridge/localstack"
)

// told is a record of one letter, and what people did to it since.
type told struct {
	dlqbridge.Case
	e *enrich.Enricher
}

func tell(t *testing.T, more string, policies map[dlqbridge.Cause]dlqbridge.CausePolicy) *told {
	t.Helper()
	e := enricher(t, enrich.Route{
		Name: "orders", Place: arn("orders-dlq"), Source: arn("orders"), Effects: dlqbridge.EffectsNone, Policies: policies,
	})
	a := e.Extract(sqsLetter("x", text("agent.ctx", `{"task":"t"`+more+`}`)))
	return &told{e: e, Case: dlqbridge.Case{
		Control:  dlqbridge.Control{ID: "r_1", Version: 1, Status: dlqbridge.StatusClassified},
		Arrivals: []dlqbridge.Arrival{a},
		History:  []dlqbridge.Move{{Version: 1, Verb: dlqbridge.VerbReceive, Arrival: a.Key}},
	}}
}

// then adds a person's move.
func (c *told) then(verb dlqbridge.Verb, n dlqbridge.Note) {
	n.Name, n.Verb, n.Reason = string(verb)+n.Actor.Name+n.Owner, verb, "because"
	c.Notes = append(c.Notes, n)
	c.Control.Version++
	c.History = append(c.History, dlqbridge.Move{Version: c.Control.Version, Verb: verb, Note: n.Name})
}

func (c *told) judged(t *testing.T) enrich.Judgement {
	t.Helper()
	return c.e.Judge(t.Context(), start.Add(time.Hour), []enrich.Subject{{Case: c.Case}})[0]
}

// Nothing is sent while an incident is open that a person opened, whatever the
// fix and the approvals; closing it leads back to the decision.
func TestAnOpenIncidentStopsEverything(t *testing.T) {
	c := tell(t, `,"cause":"timeout"`, nil)
	if d := c.judged(t).Decision; d.Action != dlqbridge.ActionRetry {
		t.Fatalf("%+v", d)
	}
	c.then(dlqbridge.VerbOpenIncident, dlqbridge.Note{})
	c.then(dlqbridge.VerbFix, dlqbridge.Note{Fix: &dlqbridge.Fix{Kind: "deploy", Text: "1"}})
	if d := c.judged(t).Decision; d != decided(dlqbridge.ActionHumanReview, dlqbridge.StatusIncidentOpen, enrich.WhyIncident) {
		t.Errorf("with an open incident: %+v", d)
	}
	c.then(dlqbridge.VerbCloseIncident, dlqbridge.Note{})
	if d := c.judged(t).Decision; d.Action != dlqbridge.ActionRetry {
		t.Errorf("after it was closed: %+v", d)
	}
}

// A critical record whose incident was closed does not open another one by
// being looked at; it still needs two people.
func TestACriticalRecordAfterItsIncident(t *testing.T) {
	c := tell(t, `,"cause":"critical"`, nil)
	c.then(dlqbridge.VerbCloseIncident, dlqbridge.Note{})
	c.then(dlqbridge.VerbFix, dlqbridge.Note{Fix: &dlqbridge.Fix{Kind: "deploy", Text: "1"}})
	if d := c.judged(t).Decision; d != decided(dlqbridge.ActionHumanReview, dlqbridge.StatusUnderInvestigation, dlqbridge.WhyCritical) {
		t.Errorf("%+v", d)
	}
	for _, who := range []string{"alice", "bob"} {
		c.then(dlqbridge.VerbAuthorize, dlqbridge.Note{Approval: true, Actor: dlqbridge.Actor{Name: who, Authenticated: true}})
	}
	if d := c.judged(t).Decision; d.Action != dlqbridge.ActionRepair {
		t.Errorf("with two approvals and a fix: %+v", d)
	}
}

// Who approved one fix has not approved another, on whatever way it came.
func TestAnotherFixEndsApprovals(t *testing.T) {
	second := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
	second.SecondPerson = true
	c := tell(t, `,"cause":"timeout"`, map[dlqbridge.Cause]dlqbridge.CausePolicy{dlqbridge.CauseTimeout: second})
	approve := func(who, fix string) {
		c.then(dlqbridge.VerbAuthorize, dlqbridge.Note{
			Approval: true, Actor: dlqbridge.Actor{Name: who, Authenticated: true}, Fix: &dlqbridge.Fix{Kind: "deploy", Text: fix}, Owner: fix,
		})
	}
	approve("alice", "1")
	approve("bob", "2")
	if got := c.judged(t).Approvers; len(got) != 1 || got[0] != "bob" {
		t.Errorf("approvers of fix 2: %v", got)
	}
	approve("alice", "2")
	if got := c.judged(t).Approvers; len(got) != 2 {
		t.Errorf("approvers of fix 2: %v", got)
	}
}

// One person's correction of the cause does not do away with the second person.
func TestACorrectionKeepsTheSecondPerson(t *testing.T) {
	c := tell(t, `,"cause":"critical"`, nil)
	c.then(dlqbridge.VerbClassify, dlqbridge.Note{Cause: dlqbridge.CauseTimeout})
	if j := c.judged(t); j.Context.Failure.Cause != dlqbridge.CauseTimeout || !j.Policy.SecondPerson {
		t.Errorf("cause %s, second person %v", j.Context.Failure.Cause, j.Policy.SecondPerson)
	}
}

// Without the right to delete, stored letters would come again for ever: the
// run ends and names it.
func TestIntakeEndsWithoutTheRightToDelete(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.send(task("t-1", ""), task("t-2", ""))
		w.die()
		_, err := w.AddFault(localstack.Fault{Service: "sqs", Operation: "DeleteMessageBatch", Do: "error", Code: "AccessDenied", Message: "no", Status: 403, Times: -1})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		in, err := enrich.NewIntake(w.options(w.ports()))
		must(t, err)
		if _, err = in.UntilEmpty(ctx); !errors.Is(err, dlqbridge.ErrDenied) {
			t.Errorf("got %v", err)
		}
		if n := len(w.cases()); n != 2 {
			t.Errorf("%d records", n)
		}
	})
}
