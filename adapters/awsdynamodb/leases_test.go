package awsdynamodb_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const destination = "arn:aws:sqs:us-east-1:123456789012:orders"

func lease(token string, until time.Time) dlqbridge.Lease {
	return dlqbridge.Lease{Destination: destination, Job: "j_" + token, Holder: "host-" + token, Token: token, Until: until, SendDeadline: 10 * time.Second}
}

func TestALeaseHasOneHolderAtATime(t *testing.T) {
	b := open(t)
	l, err := b.Lease(t.Context(), destination)
	must(t, err)
	diff(t, "never taken", dlqbridge.Lease{}, l)

	a := lease("a", b.at().Add(30*time.Second))
	previous, err := b.Take(t.Context(), a)
	must(t, err)
	diff(t, "before the first", dlqbridge.Lease{}, previous)
	_, err = b.Take(t.Context(), lease("b", b.at().Add(time.Minute)))
	held, ok := errors.AsType[*dlqbridge.LeaseHeldError](err)
	if !ok {
		t.Fatalf("got %v, want *LeaseHeldError", err)
	}
	diff(t, "held", &dlqbridge.LeaseHeldError{Destination: destination, Job: "j_a", Holder: "host-a", Until: a.Until}, held)

	a.Batches = map[string]dlqbridge.Batch{"b1": {At: b.at(), Members: []dlqbridge.BatchMember{{ID: "r_1", N: 2}}}}
	a.NextFree = b.at().Add(1234567 * time.Nanosecond)
	must(t, b.Keep(t.Context(), a))
	l, err = b.Lease(t.Context(), destination)
	must(t, err)
	diff(t, "kept", a, l)

	b.cloud.Clock().Advance(30*time.Second - time.Millisecond)
	if _, err = b.Take(t.Context(), lease("b", b.at().Add(time.Minute))); err == nil {
		t.Fatal("taken before its end")
	}
	b.cloud.Clock().Advance(time.Millisecond)
	previous, err = b.Take(t.Context(), lease("b", b.at().Add(time.Minute)))
	must(t, err)
	diff(t, "taken over", a, previous)
	if err := b.Keep(t.Context(), a); !errors.Is(err, dlqbridge.ErrConflict) {
		t.Errorf("the old holder: got %v, want ErrConflict", err)
	}
	must(t, b.Release(t.Context(), a)) // no error, and no effect
	l, err = b.Lease(t.Context(), destination)
	must(t, err)
	if l.Token != "b" || len(l.Batches) != 1 || !l.NextFree.Equal(a.NextFree) {
		t.Errorf("got %+v; want b's, with what a left", l)
	}
}

func TestAReleasedLeaseKeepsPaceAndOpenBatches(t *testing.T) {
	b := open(t)
	a := lease("a", b.at().Add(time.Hour))
	_, err := b.Take(t.Context(), a)
	must(t, err)
	a.Batches = map[string]dlqbridge.Batch{"b1": {At: b.at(), Members: []dlqbridge.BatchMember{{ID: "r_1", N: 1}}}}
	a.NextFree = b.at().Add(time.Second)
	must(t, b.Keep(t.Context(), a))
	must(t, b.Release(t.Context(), dlqbridge.Lease{Destination: destination, Token: "a"}))
	must(t, b.Release(t.Context(), a))
	if err := b.Keep(t.Context(), a); !errors.Is(err, dlqbridge.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	want := a
	want.Token, want.Until = "", time.Time{}
	got, err := b.Lease(t.Context(), destination)
	must(t, err)
	diff(t, "released", want, got)
	previous, err := b.Take(t.Context(), lease("c", b.at().Add(time.Hour)))
	must(t, err)
	diff(t, "taken again", want, previous)
}

func TestLostAnswersAboutALeaseAreSettled(t *testing.T) {
	b := open(t)
	a := lease("a", b.at().Add(time.Hour))
	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoDropAfter})
	_, err := b.Take(t.Context(), a)
	must(t, err)
	for _, do := range []string{localstack.DoDropAfter, localstack.DoDropBefore, localstack.DoThrottle} {
		b.fault(t, localstack.Fault{Operation: "UpdateItem", Do: do})
		a.NextFree = a.NextFree.Add(time.Second)
		must(t, b.Keep(t.Context(), a))
	}
	b.fault(t, localstack.Fault{Operation: "UpdateItem", Do: localstack.DoDropAfter})
	must(t, b.Release(t.Context(), a))
}

func TestOfManyTakersOneWins(t *testing.T) {
	b := open(t)
	var mu sync.Mutex
	var takers sync.WaitGroup
	won := 0
	for n := range 20 {
		takers.Go(func() {
			_, err := b.another(t).Take(t.Context(), lease(strconv.Itoa(n), b.at().Add(time.Hour)))
			_, held := errors.AsType[*dlqbridge.LeaseHeldError](err)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !held {
				t.Error(err)
			}
		})
	}
	takers.Wait()
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

func TestALeaseWithoutNameOrTokenIsRefused(t *testing.T) {
	b := open(t)
	for _, l := range []dlqbridge.Lease{{Token: "a"}, {Destination: destination}} {
		if _, err := b.Take(t.Context(), l); !errors.Is(err, dlqbridge.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
	}
	if err := b.Keep(t.Context(), dlqbridge.Lease{Destination: destination}); !errors.Is(err, dlqbridge.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	must(t, b.Release(t.Context(), dlqbridge.Lease{Destination: destination}))
}

func TestALeaseKeptFromTwoStoresOfOneHolderHasTheLastWord(t *testing.T) {
	b := open(t)
	other := b.another(t)
	a := lease("a", b.at().Add(time.Hour))
	_, err := b.Take(t.Context(), a)
	must(t, err)
	for n := range 6 {
		a.NextFree = b.at().Add(time.Duration(n) * time.Second)
		if n == 3 || n == 5 {
			must(t, other.Keep(t.Context(), a))
		} else {
			must(t, b.Keep(t.Context(), a))
		}
		got, err := b.Lease(t.Context(), destination)
		must(t, err)
		diff(t, "kept", a, got)
	}
}

func TestAWriteThatWasDelayedOnItsWayDoesNotUndoALaterOne(t *testing.T) {
	b := open(t)
	var sent []*dynamodb.UpdateItemInput
	b.Store = b.another(t, func(o *awsdynamodb.Options) {
		o.Client = tapped{Client: b.client, update: func(in *dynamodb.UpdateItemInput) { sent = append(sent, in) }}
	})
	a := lease("a", b.at().Add(time.Hour))
	_, err := b.Take(t.Context(), a)
	must(t, err)
	must(t, b.Keep(t.Context(), a))
	a.Batches = map[string]dlqbridge.Batch{"b1": {At: b.at()}}
	must(t, b.Keep(t.Context(), a))
	if _, err := b.client.UpdateItem(t.Context(), sent[0]); err == nil {
		t.Error("the first write was carried out after the second")
	}
	got, err := b.Lease(t.Context(), destination)
	must(t, err)
	diff(t, "kept", a, got)
}

// What the lease item can carry: sixteen open batches of ten are far below the
// 400 KB of an item, and their write takes nine of the 1,000 units that an item
// takes in a second. DESIGN.md reckons with these numbers.
func TestAFullJournalIsSmall(t *testing.T) {
	b := open(t)
	l := dlqbridge.Lease{Destination: destination, Job: "j_" + dlqbridge.NewToken(), Holder: "someone@a-rather-long-host-name", Token: dlqbridge.NewToken(), Until: start.Add(time.Hour), SendDeadline: 10 * time.Second, NextFree: start}
	_, err := b.Take(t.Context(), l)
	must(t, err)
	units := func(batches int) float64 {
		t.Helper()
		l.Batches = map[string]dlqbridge.Batch{}
		for range batches {
			one := dlqbridge.Batch{At: start}
			for i := range 10 {
				one.Members = append(one.Members, dlqbridge.BatchMember{ID: dlqbridge.RecordID(dlqbridge.IdentityTask, "", "", strconv.Itoa(i), 0), N: 1})
			}
			l.Batches[dlqbridge.NewToken()] = one
		}
		must(t, b.Keep(t.Context(), l)) // an update counts the larger of before and after
		b.cloud.ForgetRequests()
		must(t, b.Keep(t.Context(), l))
		return b.cloud.Counters().Units.Write
	}
	got := []float64{units(0), units(1), units(5), units(9), units(dlqbridge.MaxOpenBatches)}
	diff(t, "write units with 0, 1, 5, 9 and 16 batches", []float64{1, 1, 3, 5, 9}, got)
}
