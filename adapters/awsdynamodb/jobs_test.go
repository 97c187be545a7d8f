package awsdynamodb_test

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func job(n int) dlqbridge.Job {
	return dlqbridge.Job{
		ID: fmt.Sprint("job", n), Version: 1, State: dlqbridge.JobRunning, Cause: dlqbridge.CauseTimeout, Destination: destination, Route: "orders",
		Fix: &dlqbridge.Fix{Kind: "deploy", Text: "1.4.2"}, By: dlqbridge.Actor{Name: "me"}, Why: "fixed", Rate: dlqbridge.Rate{Count: 20, Per: time.Second}, Burst: 10, MaxInFlight: 100,
		Created: start.Add(time.Duration(n) * time.Minute), Selected: 3,
	}
}

// seq is a selection as it is read.
func seq(list []dlqbridge.Member) iter.Seq2[dlqbridge.Member, error] {
	return func(yield func(dlqbridge.Member, error) bool) {
		for _, m := range list {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func members(n int) []dlqbridge.Member {
	all := make([]dlqbridge.Member, n)
	for i := range all {
		all[i] = dlqbridge.Member{ID: record(i).ID, Version: i}
	}
	return all
}

func TestAJobIsFrozenMovedAndListed(t *testing.T) {
	b := open(t)
	for n := range 5 {
		must(t, b.CreateJob(t.Context(), job(n), seq(members(3))))
	}
	must(t, b.CreateJob(t.Context(), job(1), seq(members(3)))) // the same again: its answer may have been lost
	other := job(1)
	other.Why = "another"
	if err := b.CreateJob(t.Context(), other, seq(members(9))); !errors.Is(err, dlqbridge.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	var got []dlqbridge.Member
	for m, err := range b.Members(t.Context(), "job1", 0) {
		must(t, err)
		got = append(got, m)
	}
	diff(t, "members", members(3), got)

	moved := job(1)
	moved.Version, moved.State, moved.Ended = 2, dlqbridge.JobDone, start.Add(time.Hour)
	must(t, b.MoveJob(t.Context(), moved))
	if err := b.MoveJob(t.Context(), moved); !errors.Is(err, dlqbridge.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	found, err := b.Job(t.Context(), "job1")
	must(t, err)
	diff(t, "job", moved, found)
	if _, err := b.Job(t.Context(), "job9"); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	for limit, want := range map[int][]dlqbridge.Job{0: {job(4), job(3), job(2), moved, job(0)}, 2: {job(4), job(3)}, 9: {job(4), job(3), job(2), moved, job(0)}} {
		list, err := b.ListJobs(t.Context(), limit)
		must(t, err)
		diff(t, fmt.Sprint("the newest ", limit), want, list)
	}
}

func TestAJobWhoseCreatorDiedIsNone(t *testing.T) {
	b := open(t)
	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoError, Code: "ValidationException"})
	if err := b.CreateJob(t.Context(), job(1), seq(members(3))); err == nil {
		t.Fatal("created")
	}
	must(t, b.CreateJob(t.Context(), job(0), seq(nil)))
	list, err := b.ListJobs(t.Context(), 1)
	must(t, err)
	diff(t, "jobs", []dlqbridge.Job{job(0)}, list)
	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoDropAfter})
	must(t, b.CreateJob(t.Context(), job(2), seq(members(1))))
}

func TestMembersAreReadFromAnyPosition(t *testing.T) {
	b := open(t)
	all := members(2500)
	must(t, b.CreateJob(t.Context(), job(1), seq(all)))
	for _, from := range []int{-1, 0, 1, 999, 1000, 1001, 2499, 2500, 9999} {
		var got []dlqbridge.Member
		for m, err := range b.Members(t.Context(), "job1", from) {
			must(t, err)
			got = append(got, m)
		}
		diff(t, fmt.Sprint("from ", from), all[min(max(from, 0), len(all)):], got)
	}
	for m, err := range b.Members(t.Context(), "job1", 0) { // leaving early is fine
		must(t, err)
		diff(t, "first", all[0], m)
		break
	}
}

// A selection is written while it is read, page by page; one that breaks off
// makes no job, and the same job can be made again.
func TestASelectionIsWrittenAsItIsRead(t *testing.T) {
	b := open(t)
	all := members(2*25*1000 + 3)
	broken := errors.New("the disk is gone")
	err := b.CreateJob(t.Context(), job(1), func(yield func(dlqbridge.Member, error) bool) {
		for i, m := range all {
			if i == 30_000 {
				yield(dlqbridge.Member{}, broken)
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := b.Job(t.Context(), "job1"); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if list, err := b.ListJobs(t.Context(), 0); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	must(t, b.CreateJob(t.Context(), job(1), seq(all)))
	i := 0
	for m, err := range b.Members(t.Context(), "job1", 0) {
		must(t, err)
		if m != all[i] {
			t.Fatalf("member %d is %v", i, m)
		}
		i++
	}
	if i != len(all) {
		t.Errorf("%d of %d members", i, len(all))
	}
}

func TestHoldsOfManyPeopleAllStand(t *testing.T) {
	b := open(t)
	var people sync.WaitGroup
	for n := range 20 {
		people.Go(func() {
			must := b.another(t)
			if err := must.AddHold(t.Context(), dlqbridge.Hold{ID: fmt.Sprint("h", n), All: true, Reason: "stop", By: dlqbridge.Actor{Name: "me"}, At: start, Until: start.Add(time.Hour)}); err != nil {
				t.Error(err)
			}
		})
	}
	people.Wait()
	holds, err := b.ListHolds(t.Context())
	must(t, err)
	if len(holds) != 20 {
		t.Errorf("%d holds of 20 stand", len(holds))
	}
	must(t, b.AddHold(t.Context(), dlqbridge.Hold{ID: "h3", Tenant: "acme", At: start})) // again: replaces it
	must(t, b.RemoveHold(t.Context(), "h4"))
	if err := b.RemoveHold(t.Context(), "h4"); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if err := b.AddHold(t.Context(), dlqbridge.Hold{}); !errors.Is(err, dlqbridge.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	if holds, err = b.ListHolds(t.Context()); err != nil || len(holds) != 19 {
		t.Errorf("%d holds, %v", len(holds), err)
	}
}

func TestALostAnswerAboutAHoldIsSettled(t *testing.T) {
	b := open(t)
	for _, do := range []string{localstack.DoDropAfter, localstack.DoDropBefore} {
		b.fault(t, localstack.Fault{Operation: "PutItem", Do: do})
		must(t, b.AddHold(t.Context(), dlqbridge.Hold{ID: do, All: true}))
	}
	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoDropAfter})
	must(t, b.RemoveHold(t.Context(), localstack.DoDropAfter)) // not "there is no such hold"
	holds, err := b.ListHolds(t.Context())
	must(t, err)
	if len(holds) != 1 {
		t.Errorf("got %+v", holds)
	}
}

func TestTheGateSeesEverythingInOneCall(t *testing.T) {
	b := open(t)
	must(t, b.CreateJob(t.Context(), job(1), seq(nil)), b.AddHold(t.Context(), dlqbridge.Hold{ID: "h", All: true, At: start}))
	var all []dlqbridge.Control
	var ids []string
	want := map[string]dlqbridge.Control{}
	for n := range 120 {
		all, ids = append(all, record(n)), append(ids, record(n).ID)
		want[record(n).ID] = record(n)
	}
	b.create(t, all...)
	b.cloud.ForgetRequests()
	view, err := b.Look(t.Context(), append(ids[:10:10], "r_none"), "job1")
	must(t, err)
	diff(t, "calls", map[string]int64{"BatchGetItem": 1}, b.cloud.Counters().Calls["dynamodb"])
	if len(view.Controls) != 10 || view.Job.ID != "job1" || len(view.Holds) != 1 {
		t.Errorf("got %+v", view)
	}
	view, err = b.Look(t.Context(), ids, "")
	must(t, err)
	diff(t, "view", dlqbridge.View{Controls: want, Holds: []dlqbridge.Hold{{ID: "h", All: true, At: start}}}, view)
	if _, err := b.Look(t.Context(), ids, "job9"); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	b.fault(t, localstack.Fault{Operation: "BatchGetItem", Do: localstack.DoUnprocessed, Count: 3, Times: 2})
	if view, err = b.Look(t.Context(), ids[:5], "job1"); err != nil || len(view.Controls) != 5 || view.Job.ID == "" || len(view.Holds) != 1 {
		t.Errorf("got %+v, %v", view, err)
	}
}

func TestMutesStandUntilLongAfterTheirEnd(t *testing.T) {
	b := open(t)
	mute := func(id string, until time.Time) dlqbridge.Mute {
		return dlqbridge.Mute{ID: id, Signature: "sg_1", Reason: "known", By: dlqbridge.Actor{Name: "me"}, At: start, Until: until}
	}
	first := mute("m1", start.Add(time.Hour))
	must(t, b.AddMute(t.Context(), first), b.AddMute(t.Context(), mute("m2", start.Add(24*time.Hour))))
	b.cloud.Clock().Advance(30 * 24 * time.Hour)
	must(t, b.AddMute(t.Context(), mute("m3", b.at().Add(time.Hour))))
	mutes, err := b.ListMutes(t.Context())
	must(t, err)
	if len(mutes) != 3 {
		t.Fatalf("%d mutes of 3 stand", len(mutes))
	}
	diff(t, "as it was added", mutes[0], first)
	b.cloud.Clock().Advance(2 * time.Hour) // m1 ended more than 30 days ago
	must(t, b.AddMute(t.Context(), mute("m4", b.at().Add(time.Hour))), b.RemoveMute(t.Context(), "m2"))
	if mutes, err = b.ListMutes(t.Context()); err != nil || len(mutes) != 2 || mutes[0].ID != "m3" {
		t.Errorf("got %+v, %v", mutes, err)
	}
	if err := b.RemoveMute(t.Context(), "m2"); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	for _, m := range []dlqbridge.Mute{{ID: "m5", Signature: "sg_1"}, {ID: "m6", Until: start}, {Signature: "sg_1", Until: start}} {
		if err := b.AddMute(t.Context(), m); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", m, err)
		}
	}
}
