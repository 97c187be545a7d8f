package awsdynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func collect(tb testing.TB, s *awsdynamodb.Store, f dlqbridge.Filter) []dlqbridge.Control {
	tb.Helper()
	var all []dlqbridge.Control
	for l, err := range s.List(tb.Context(), f) {
		must(tb, err)
		all = append(all, l.Control)
	}
	return all
}

// mixed makes n open records of many routes, causes and statuses, some with
// deadlines, many of them equal (C71), and returns them in work order.
func (b *bench) mixed(tb testing.TB, n int) []dlqbridge.Control {
	tb.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	all := make([]dlqbridge.Control, n)
	for i := range all {
		c := record(i)
		c.Route = fmt.Sprint("route-", r.IntN(3))
		c.Cause = dlqbridge.Causes()[r.IntN(10)]
		c.Status = dlqbridge.OpenStatuses()[r.IntN(10)]
		c.Move.To = c.Status
		c.FirstSeen = start.Add(time.Duration(r.IntN(5)) * time.Hour)
		if r.IntN(2) == 0 {
			c.Deadline = start.Add(time.Duration(r.IntN(5)) * time.Hour)
		}
		all[i] = c
	}
	b.create(tb, all...)
	slices.SortFunc(all, func(x, y dlqbridge.Control) int {
		if x.Deadline.IsZero() != y.Deadline.IsZero() {
			if y.Deadline.IsZero() {
				return -1
			}
			return 1
		}
		at := x.Deadline.Compare(y.Deadline)
		if x.Deadline.IsZero() {
			at = x.FirstSeen.Compare(y.FirstSeen)
		}
		if at != 0 {
			return at
		}
		return compare(x.ID, y.ID)
	})
	return all
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestListsFollowTheWorkOrderWhateverTheFilter(t *testing.T) {
	b := open(t)
	all := b.mixed(t, 120)
	for _, f := range []dlqbridge.Filter{
		{},
		{Routes: []string{"route-1"}},
		{Causes: []dlqbridge.Cause{dlqbridge.CauseTimeout}},
		{Routes: []string{"route-0", "route-2", "route-0"}, Causes: []dlqbridge.Cause{dlqbridge.CauseCritical, dlqbridge.CauseTimeout}},
		{Status: []dlqbridge.Status{dlqbridge.StatusAuthorized}, Routes: []string{"route-0"}},
		{Lane: dlqbridge.LaneCriticalRisk},
		{Signature: all[0].Signature},
		{Signature: "sg_none"},
		{Signature: all[0].Signature, Routes: []string{"route-1"}},
		{NearDeadline: 2 * time.Hour, Now: start},
		{NearDeadline: 2 * time.Hour, Now: start, Routes: []string{"route-1"}},
		{NearDeadline: 2 * time.Hour, Now: start, Signature: all[0].Signature},
		{Overdue: true, Now: start.Add(4*time.Hour + time.Minute)},
		{Tenant: "acme"},
		{Tenant: "other"},
		{Routes: []string{"unknown"}},
		{Status: []dlqbridge.Status{dlqbridge.StatusRejected}},
	} {
		var want []string
		for _, c := range all {
			if f.Matches(c) {
				want = append(want, c.ID)
			}
		}
		var got []string
		for _, c := range collect(t, b.Store, f) {
			got = append(got, c.ID)
		}
		diff(t, fmt.Sprintf("%+v", f), want, got)

		// The same, three at a time from positions.
		got = nil
		for more := true; more; {
			more = false
			for l, err := range b.List(t.Context(), f) {
				must(t, err)
				got = append(got, l.Control.ID)
				f.After, more = l.Next, true
				if len(got)%3 == 0 {
					break
				}
			}
		}
		diff(t, fmt.Sprintf("in pages: %+v", f), want, got)
	}
}

func TestAListOfManyRecordsIsReadPageByPage(t *testing.T) {
	b := open(t)
	var all []dlqbridge.Control
	for n := range 3000 {
		c := record(n)
		c.Route = fmt.Sprint("route-", n%2)
		all = append(all, c)
	}
	b.create(t, all...)
	b.cloud.ForgetRequests()
	got := collect(t, b.Store, dlqbridge.Filter{})
	if len(got) != len(all) || !slices.IsSortedFunc(got, func(x, y dlqbridge.Control) int { return x.FirstSeen.Compare(y.FirstSeen) }) {
		t.Fatalf("listed %d of %d, or not in order", len(got), len(all))
	}
	// One cause and status of one route: eight partitions, and only their first pages.
	b.cloud.ForgetRequests()
	for l, err := range b.List(t.Context(), dlqbridge.Filter{Routes: []string{"route-1"}, Causes: []dlqbridge.Cause{dlqbridge.CauseAmbiguousEffect}, Status: []dlqbridge.Status{dlqbridge.StatusUnderInvestigation}}) {
		must(t, err)
		_ = l
		break
	}
	if calls := b.calls("Query"); calls != 1+awsdynamodb.DefaultShards {
		t.Errorf("the first record took %d queries", calls)
	}
}

func TestASmallTableIsListedInTwoCalls(t *testing.T) {
	b := open(t)
	b.mixed(t, 50)
	b.cloud.ForgetRequests()
	if got := len(collect(t, b.Store, dlqbridge.Filter{})); got != 50 {
		t.Fatalf("listed %d", got)
	}
	diff(t, "calls", map[string]int64{"Query": 1, "Scan": 1}, b.cloud.Counters().Calls["dynamodb"])
}

func TestPositionsOfOtherListsAndMadeUpOnesAreRefused(t *testing.T) {
	b := open(t)
	b.mixed(t, 5)
	position := func(f dlqbridge.Filter) string {
		for l, err := range b.List(t.Context(), f) {
			must(t, err)
			return l.Next
		}
		return ""
	}
	for _, f := range []dlqbridge.Filter{
		{After: "x"}, {After: "w."}, {After: "w.eA"}, {After: position(dlqbridge.Filter{Closed: true})}, {Closed: true, After: position(dlqbridge.Filter{})},
	} {
		for _, err := range b.List(t.Context(), f) {
			if !errors.Is(err, dlqbridge.ErrInvalid) {
				t.Errorf("%+v: got %v, want ErrInvalid", f, err)
			}
		}
	}
}

func TestAListWithClosedRecordsIsInOrderOfIDs(t *testing.T) {
	b := open(t)
	all := b.mixed(t, 40)
	for i, c := range all[:10] {
		to := closed(c, dlqbridge.StatusRejected)
		must(t, b.Move(t.Context(), step(c, to))...)
		all[i] = to
	}
	slices.SortFunc(all, func(x, y dlqbridge.Control) int { return compare(x.ID, y.ID) })
	diff(t, "all", all, collect(t, b.Store, dlqbridge.Filter{Closed: true}))
	if got := len(collect(t, b.Store, dlqbridge.Filter{})); got != 30 {
		t.Errorf("listed %d open ones, want 30", got)
	}
	var got []dlqbridge.Control
	f := dlqbridge.Filter{Closed: true, Status: []dlqbridge.Status{dlqbridge.StatusRejected}}
	for len(got) < 10 {
		for l, err := range b.List(t.Context(), f) {
			must(t, err)
			got = append(got, l.Control)
			f.After = l.Next
			break
		}
	}
	diff(t, "closed ones, one at a time", slices.DeleteFunc(slices.Clone(all), func(c dlqbridge.Control) bool { return !c.Status.Closed() }), got)
}

// C65.
func TestAnIndexThatLagsOffersCandidatesOnly(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	f := dlqbridge.Filter{Routes: []string{"orders"}, Causes: []dlqbridge.Cause{c.Cause}, Status: []dlqbridge.Status{c.Status}}
	first := collect(t, b.Store, f)
	must(t, b.Move(t.Context(), step(first[0], next(first[0], "alice")))...)
	b.fault(t, localstack.Fault{Operation: "Query", Do: localstack.DoStale, Times: -1})
	again := collect(t, b.Store, f)
	if len(again) != 1 || again[0].Version != 1 {
		t.Fatalf("the index did not lag: %+v", again)
	}
	if err := b.Move(t.Context(), step(again[0], next(again[0], "bob")))[0]; !errors.Is(err, dlqbridge.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
}

// C72.
func TestOneBurstIsSpreadOverAllShards(t *testing.T) {
	b := open(t)
	var all []dlqbridge.Control
	for n := range 400 {
		all = append(all, record(n))
	}
	b.create(t, all...)
	work, signature := map[string]int{}, map[string]int{}
	for _, it := range b.table(t, "records") {
		if textAt(it, "sk") == "control" {
			work[textAt(it, "work_pk")]++
			signature[textAt(it, "sig_pk")]++
		}
	}
	if len(work) != awsdynamodb.DefaultShards || len(signature) != awsdynamodb.DefaultShards {
		t.Errorf("spread over %d and %d partitions", len(work), len(signature))
	}
	for pk, n := range work {
		if n > 400/awsdynamodb.DefaultShards*2 {
			t.Errorf("%s has %d of 400", pk, n)
		}
	}
}

func TestRecordsOfMoreShardsAndOfUnknownRoutesAreListed(t *testing.T) {
	b := open(t, func(o *awsdynamodb.Options) { o.Shards = 32 })
	all := b.mixed(t, 100)
	fewer := b.another(t, func(o *awsdynamodb.Options) { o.Shards = 1 })
	b.Store = fewer
	b.create(t, record(1000)) // of a route that is new, with one shard
	b.Store = b.another(t, func(o *awsdynamodb.Options) { o.Shards = 64 })
	b.create(t, controlsOf(1001, 50)...) // of the same route
	for _, f := range []dlqbridge.Filter{{}, {Signature: all[0].Signature}, {Routes: []string{"orders"}, Causes: []dlqbridge.Cause{record(0).Cause}, Status: []dlqbridge.Status{record(0).Status}}} {
		want := 151
		if f.Routes != nil {
			want = 51
		}
		if got := len(collect(t, fewer, f)); got != want {
			t.Errorf("%+v: listed %d of %d", f, got, want)
		}
	}
}

func TestAListStopsAtTheFirstError(t *testing.T) {
	b := open(t)
	b.mixed(t, 5)
	b.fault(t, localstack.Fault{Operation: "Scan", Do: localstack.DoError, Code: "AccessDeniedException", Times: -1})
	n := 0
	for _, err := range b.List(t.Context(), dlqbridge.Filter{}) {
		n++
		if !errors.Is(err, dlqbridge.ErrDenied) {
			t.Errorf("got %v, want ErrDenied", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range b.List(ctx, dlqbridge.Filter{}) {
		n++
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	}
	if n != 2 {
		t.Errorf("%d answers, want one error each", n)
	}
}

func closed(c dlqbridge.Control, status dlqbridge.Status) dlqbridge.Control {
	to := next(c, "closer")
	to.Status, to.Move.To, to.Move.Verb = status, status, dlqbridge.VerbReject
	to.ClosedAt = to.Move.At
	return to
}
