package redrive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

var (
	carol  = dlqbridge.Actor{Name: "arn:aws:iam::000000000000:user/carol", Authenticated: true}
	nobody = dlqbridge.Actor{Name: "bob", Note: "bob, really"} // an OS user and --actor
)

// twoPeople makes a record's cause ask for two people.
func (w *world) twoPeople(ids ...string) {
	p := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
	p.SecondPerson = true
	for _, id := range ids {
		w.knows[id] = knowledge{policy: &p}
	}
}

// touch moves a record as a person would who gives it to somebody.
func (w *world) touch(id string) {
	c := w.controls[id]
	c.Version++
	c.Move = dlqbridge.Move{Version: c.Version, At: time.Now(), By: "bob", Verb: dlqbridge.VerbAssign, From: c.Status, To: c.Status}
	w.controls[id] = c
	w.history[id] = append(w.history[id], c.Move)
}

// planned is a request to run a plan.
func planned(p redrive.Plan, who dlqbridge.Actor) redrive.Request {
	return redrive.Request{Plan: &p, Reason: "read and agreed", Actor: who}
}

func forApproval() redrive.Request {
	r := request()
	r.ForApproval = true
	return r
}

func needsSecond(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*redrive.SecondPersonError](err); !ok {
		t.Errorf("got %v, want that a second person is needed", err)
	}
}

// One person approves the plan and another one runs it: that is two, for the
// members as they were planned and for nothing else.
func TestASecondPersonApprovesAPlan(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		ids := w.addMany(4)
		w.twoPeople(ids...)
		p, c := w.start(t, nil)
		plan, err := c.Plan(ctx, request())
		if err != nil || plan.Selected != 0 || reasons(plan.Excluded)[ids[0]] != dlqbridge.ExcludeNeedsSecondPerson {
			t.Fatalf("an everyday plan: %+v, %v", plan, err)
		}
		if plan, err = c.Plan(ctx, forApproval()); err != nil || plan.Selected != 4 || !whole(plan.Jobs[0].Members)[0].SecondPerson {
			t.Fatalf("%+v, %v", plan, err)
		}
		if p.counted("put")+p.counted("move") > 0 {
			t.Error("planning has written something")
		}
		_, err = c.Run(ctx, planned(plan, alice))
		needsSecond(t, err)
		_, err = c.Approve(ctx, plan, nobody, "me too")
		needsSecond(t, err)
		if _, err = c.Approve(ctx, plan, alice, "mine"); err != nil {
			t.Fatal(err)
		}
		_, err = c.Run(ctx, planned(plan, alice)) // alone twice is not two
		needsSecond(t, err)
		a, err := c.Approve(ctx, plan, bob, "read")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if again, err := c.Approve(ctx, plan, bob, "read again"); err != nil || !again.At.Equal(a.At) || len(w.approved) != 2 {
			t.Errorf("approved anew: %+v, %v", again, err)
		}
		_, err = c.Run(ctx, planned(plan, nobody))
		needsSecond(t, err)
		if len(w.queues[orders].all()) > 0 || w.count(dlqbridge.StatusAuthorized) > 0 {
			t.Fatal("something has moved")
		}
		// One has changed since and one has come.
		w.touch(ids[2])
		w.add("r_new", nil)
		w.twoPeople("r_new")
		res, err := c.Run(ctx, planned(plan, alice))
		if err != nil || res.Sent != 3 || res.Excluded.Len() != 1 || reasons(res.Excluded)[ids[2]] != dlqbridge.ExcludeChanged {
			t.Fatalf("%+v, %v", res, err)
		}
		job := w.jobs[res.Job]
		if job.Approval == nil || job.Approval.By != bob || job.Approval.Plan != plan.Hash {
			t.Errorf("the job has %+v", job.Approval)
		}
		for _, m := range w.history[ids[0]] {
			if m.Verb != dlqbridge.VerbAuthorize {
				continue
			}
			note, _ := w.evidence[ids[0]]["note#"+m.Note].(dlqbridge.Note)
			if note.Actor != alice || note.Second == nil || note.Second.By != bob || note.Second.Plan != plan.Hash {
				t.Errorf("authorised by %+v", note)
			}
		}
	})
}

// An approval is for one plan, and lapses.
func TestAnApprovalIsBoundAndLapses(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		ids := w.addMany(2)
		w.twoPeople(ids...)
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.Environment = "here" })
		plan, err := c.Plan(ctx, forApproval())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Approve(ctx, plan, bob, "read"); err != nil {
			t.Fatal(err)
		}
		r := forApproval()
		r.Rate = dlqbridge.Rate{Count: 7, Per: time.Second}
		other, err := c.Plan(ctx, r)
		if err != nil || other.Hash == plan.Hash {
			t.Fatal(err)
		}
		_, err = c.Run(ctx, planned(other, alice))
		needsSecond(t, err)
		changed := plan
		changed.Rate = other.Rate
		if _, err := c.Approve(ctx, changed, carol, "read"); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("a changed plan: %v", err)
		}
		_, there := w.start(t, func(_ *process, o *redrive.Options) { o.Environment = "there" })
		if _, err := there.Approve(ctx, plan, carol, "read"); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("another environment: %v", err)
		}
		time.Sleep(redrive.DefaultAuthorizeTTL + time.Second)
		_, err = c.Run(ctx, planned(plan, alice))
		needsSecond(t, err)
		if _, err := c.Approve(ctx, plan, bob, "still right"); err != nil || len(w.approved) != 2 {
			t.Errorf("approved anew: %v", err)
		}
		if res, err := c.Run(ctx, planned(plan, alice)); err != nil || res.Sent != 2 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// Where policy asks, a run of many needs an approved plan, whoever may
// authorise each single record of it.
func TestLargeRunsWantASecondPerson(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		w.addMany(5)
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.SecondPersonFrom = 3 })
		_, err := c.Run(ctx, request())
		needsSecond(t, err)
		r := request()
		r.Policy = true
		p := dlqbridge.DefaultCausePolicy(dlqbridge.CauseTimeout)
		p.AutoAuthorize = true
		for id := range w.controls {
			w.knows[id] = knowledge{policy: &p}
		}
		time.Sleep(2 * time.Hour)
		_, err = c.Run(ctx, r)
		needsSecond(t, err)
		if w.count(dlqbridge.StatusClassified) != 5 {
			t.Error("a refused run has moved something")
		}
		few := request()
		few.Max = 2
		if res, err := c.Run(ctx, few); err != nil || res.Sent != 2 {
			t.Fatalf("a small run: %+v, %v", res, err)
		}
		plan, err := c.Plan(ctx, request())
		if err != nil || plan.Selected != 3 {
			t.Fatalf("%+v, %v", plan, err)
		}
		_, err = c.Run(ctx, planned(plan, alice))
		needsSecond(t, err)
		if _, err := c.Approve(ctx, plan, bob, "read"); err != nil {
			t.Fatal(err)
		}
		if res, err := c.Run(ctx, planned(plan, alice)); err != nil || res.Sent != 3 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A job that paused by itself has lost its ground, and its approval with it.
func TestAnApprovalEndsWithTheGround(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, w *world) {
		ids := w.addMany(8)
		w.twoPeople(ids...)
		_, c := w.start(t, func(_ *process, o *redrive.Options) { o.Canary = []int{2} })
		w.queues[orders].fault = func(dlqbridge.Outgoing) error { return dlqbridge.ErrInvalid }
		plan, err := c.Plan(ctx, forApproval())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Approve(ctx, plan, bob, "read"); err != nil {
			t.Fatal(err)
		}
		res, err := c.Run(ctx, planned(plan, alice))
		if err != nil || res.State != dlqbridge.JobPaused || w.count(dlqbridge.StatusAuthorized) > 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		w.queues[orders].fault = nil
		_, err = c.Continue(ctx, res.Job, alice, "mended")
		needsSecond(t, err)
		if n := len(w.queues[orders].all()); n > 0 {
			t.Errorf("%d were sent", n)
		}
	})
}
