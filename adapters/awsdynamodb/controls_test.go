package awsdynamodb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

func TestARecordIsCreatedOnceAndTheOtherSeesIt(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	second := c
	second.Owner, second.Move.By = "other", "other"
	got := b.Create(t.Context(), []dlqbridge.Control{second, record(2)})
	if !errors.Is(got[0].Err, dlqbridge.ErrExists) || got[1].Err != nil {
		t.Fatalf("got %v, %v; want ErrExists, nil", got[0].Err, got[1].Err)
	}
	diff(t, "existing", &c, got[0].Existing)
	all, err := b.Read(t.Context(), []string{c.ID, "r_missing", c.ID, record(2).ID})
	must(t, err)
	diff(t, "read", map[string]dlqbridge.Control{c.ID: c, record(2).ID: record(2)}, all)
	for _, bad := range []dlqbridge.Control{{Version: 1}, {ID: "r_1", Version: 2}, {ID: "r#1", Version: 1}} {
		if got := b.Create(t.Context(), []dlqbridge.Control{bad}); !errors.Is(got[0].Err, dlqbridge.ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", bad, got[0].Err)
		}
	}
}

// C59.
func TestAWriteWhoseAnswerWasLostIsKnownAsOurs(t *testing.T) {
	for _, where := range []string{"sdk", "store"} {
		t.Run("tried again by the "+where, func(t *testing.T) {
			b := open(t)
			if where == "sdk" { // the SDK's own retries hide the lost answer
				b.client = dynamodb.NewFromConfig(b.cloud.AWSConfig())
				b.Store = b.another(t)
			}
			b.create(t, record(100))
			b.fault(t, localstack.Fault{Operation: "PutItem", Skip: 10, Times: 5, Do: localstack.DoDropAfter})
			var all []dlqbridge.Control
			for n := range 50 {
				all = append(all, record(n))
			}
			b.create(t, all...)
			b.cloud.ClearFaults()
			b.fault(t, localstack.Fault{Operation: "PutItem", Skip: 10, Times: 5, Do: localstack.DoDropAfter})
			var steps []dlqbridge.Step
			for _, c := range all {
				steps = append(steps, dlqbridge.Step{From: c, To: next(c, "alice")})
			}
			must(t, b.Move(t.Context(), steps)...)
			for _, s := range steps {
				got, err := b.Case(t.Context(), s.To.ID)
				must(t, err)
				diff(t, "history", []dlqbridge.Move{s.From.Move, s.To.Move}, got.History)
			}
		})
	}
}

func TestAMoveThatWasCarriedOutAndThenOvertakenIsNoConflict(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	second, third := next(c, "alice"), next(next(c, "alice"), "bob")
	// Alice's answer is lost; before she tries again, Bob has gone on.
	overtaking := b.another(t, func(o *awsdynamodb.Options) {
		o.Retry.Wait = nil
		o.Retry.Random = func() float64 {
			must(t, b.Move(t.Context(), step(second, third))...)
			return 0
		}
	})
	b.fault(t, localstack.Fault{Operation: "PutItem", Contains: "work_pk", Do: localstack.DoDropAfter})
	must(t, overtaking.Move(t.Context(), step(c, second))...)
	got, err := b.Case(t.Context(), c.ID)
	must(t, err)
	diff(t, "history", []dlqbridge.Move{c.Move, second.Move, third.Move}, got.History)

	// The same for the one who made the record.
	d := record(2)
	creating := b.another(t, func(o *awsdynamodb.Options) {
		o.Retry.Wait = nil
		o.Retry.Random = func() float64 {
			must(t, b.Move(t.Context(), step(d, next(d, "bob")))...)
			return 0
		}
	})
	b.fault(t, localstack.Fault{Operation: "PutItem", Contains: "work_pk", Do: localstack.DoDropAfter})
	must(t, creating.Create(t.Context(), []dlqbridge.Control{d})[0].Err)
}

func TestStepsThatAreNoneAreRefused(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	skipping, other := next(next(c, "a"), "b"), next(record(2), "a")
	errs := b.Move(t.Context(), []dlqbridge.Step{{From: c, To: c}, {From: c, To: skipping}, {From: c, To: other}, {From: record(3), To: next(record(3), "x")}})
	for i, want := range []error{dlqbridge.ErrInvalid, dlqbridge.ErrInvalid, dlqbridge.ErrInvalid, dlqbridge.ErrConflict} {
		if !errors.Is(errs[i], want) {
			t.Errorf("step %d: got %v, want %v", i, errs[i], want)
		}
	}
	if text := fmt.Sprint(errs[3]); !strings.Contains(text, "R#"+record(3).ID) || !strings.Contains(text, "records") {
		t.Errorf("%q names no key or table", text)
	}
}

// Whatever call a mover dies at, the record stays whole and can be moved on.
func TestNoStepOfAMoveCanLoseAnEntry(t *testing.T) {
	for _, operation := range []string{"PutItem", "BatchWriteItem"} { // the move, and what is written before
		for _, do := range []string{localstack.DoDropBefore, localstack.DoDropAfter, localstack.DoThrottle, localstack.DoError} {
			t.Run(operation+" "+do, func(t *testing.T) {
				b := open(t)
				c := record(1)
				c.Tenant = strings.Repeat("x", 128)
				c.TaskType, c.Owner, c.TaskID = c.Tenant, c.Tenant, c.Tenant // its texts stand apart: two writes before
				b.create(t, c)
				path := []dlqbridge.Move{c.Move}
				for n := range 4 {
					dying := b.another(t, func(o *awsdynamodb.Options) { o.Retry.Tries = 1 })
					if n > 0 {
						b.fault(t, localstack.Fault{Operation: operation, Do: do})
					}
					to := next(c, fmt.Sprint("mover ", n))
					_ = dying.Move(t.Context(), step(c, to))
					b.cloud.ClearFaults()
					// The next one reads, and decides from what is there.
					found, err := b.Read(t.Context(), []string{c.ID})
					must(t, err)
					if found[c.ID].Version == to.Version {
						path = append(path, to.Move)
					}
					c = found[c.ID]
					got, err := b.Case(t.Context(), c.ID)
					must(t, err)
					diff(t, "history", path, got.History)
				}
			})
		}
	}
}

func TestOfManyMoversOneWinsEachVersion(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	var mu sync.Mutex
	won := map[int]string{}
	var movers sync.WaitGroup
	for n := range 50 {
		movers.Go(func() {
			store := b.another(t)
			for range 3 {
				found, err := store.Read(t.Context(), []string{c.ID})
				if err != nil {
					t.Error(err)
					return
				}
				from := found[c.ID]
				to := next(from, fmt.Sprint("mover ", n))
				switch err := store.Move(t.Context(), step(from, to))[0]; {
				case err == nil:
					mu.Lock()
					if other, ok := won[to.Version]; ok {
						t.Errorf("version %d was won by %s and %s", to.Version, other, to.Owner)
					}
					won[to.Version] = to.Owner
					mu.Unlock()
				case !errors.Is(err, dlqbridge.ErrConflict):
					t.Error(err)
				}
			}
		})
	}
	movers.Wait()
	got, err := b.Case(t.Context(), c.ID)
	must(t, err)
	if got.Control.Version != len(won)+1 || len(got.History) != got.Control.Version {
		t.Fatalf("version %d, %d entries, %d winners", got.Control.Version, len(got.History), len(won))
	}
	for i, m := range got.History[1:] {
		if m.Version != i+2 || m.By != won[m.Version] {
			t.Errorf("entry %d is %+v, won by %s", i+1, m, won[i+2])
		}
	}
}

func TestOfManyCreatorsOneWins(t *testing.T) {
	b := open(t)
	results := make([]dlqbridge.Created, 20)
	var creators sync.WaitGroup
	for n := range results {
		creators.Go(func() { results[n] = b.another(t).Create(t.Context(), []dlqbridge.Control{record(1)})[0] })
	}
	creators.Wait()
	won := 0
	for _, r := range results {
		switch {
		case r.Err == nil:
			won++
		case !errors.Is(r.Err, dlqbridge.ErrExists) || r.Existing.ID != record(1).ID:
			t.Errorf("got %+v", r)
		}
	}
	if won != 1 {
		t.Errorf("%d won, though all wrote the same", won)
	}
}

func TestThrottledWritesAreAllCarriedOutOnce(t *testing.T) {
	b := open(t)
	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoThrottle, Times: 40})
	b.fault(t, localstack.Fault{Operation: "BatchWriteItem", Do: localstack.DoThrottle, Times: 3})
	var all []dlqbridge.Control
	for n := range 30 {
		all = append(all, record(n))
	}
	store := b.another(t, func(o *awsdynamodb.Options) { o.Retry.Tries = 100 })
	for _, a := range store.Create(t.Context(), all) {
		must(t, a.Err)
	}
	var steps []dlqbridge.Step
	for _, c := range all {
		steps = append(steps, dlqbridge.Step{From: c, To: next(c, "alice")})
	}
	must(t, store.Move(t.Context(), steps)...)
	if got := len(b.table(t, "records")); got != 30*2+1 {
		t.Errorf("got %d items, want a control item and an entry of each and the route", got)
	}
}

func TestARefusalForLackOfRightsNamesTheRight(t *testing.T) {
	b := open(t)
	b.create(t, record(1))
	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoError, Code: "AccessDeniedException", Times: -1})
	err := b.Create(t.Context(), []dlqbridge.Control{record(2)})[0].Err
	if !errors.Is(err, dlqbridge.ErrDenied) || !strings.Contains(err.Error(), "needs dynamodb:PutItem") || !strings.Contains(err.Error(), "table records") {
		t.Errorf("got %v", err)
	}
}

func TestWhereEveryAnswerIsLostALookTells(t *testing.T) {
	b := open(t)
	b.create(t, record(1))
	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoDropAfter, Times: -1})
	b.create(t, record(2))
}

func TestALostAnswerThatCannotBeSettledIsUnclear(t *testing.T) {
	b := open(t)
	b.create(t, record(1))
	b.fault(t, localstack.Fault{Operation: "PutItem", Do: localstack.DoDropBefore, Times: -1})
	b.fault(t, localstack.Fault{Operation: "GetItem", Do: localstack.DoDropBefore, Times: -1})
	if err := b.Move(t.Context(), step(record(1), next(record(1), "a")))[0]; !errors.Is(err, dlqbridge.ErrUnclear) {
		t.Errorf("got %v, want ErrUnclear", err)
	}
}

func TestHostileTextsAreStoredAndFound(t *testing.T) {
	b := open(t)
	nasty := []string{"", "=", "#", "a#b#c", "\x00\x01", "日本語", strings.Repeat("é", 5000), "\xff\xfe", `{"json":1}`, "<script>&amp;", "\u2028", "a\nb"}
	for n, s := range nasty {
		c := record(n)
		c.TaskID, c.Tenant, c.Owner, c.TaskType, c.Route = dlqbridge.Short(s), dlqbridge.Short(s), dlqbridge.Short(s), dlqbridge.Short(s), s
		c.Signature, c.Source, c.Move.By, c.Move.Why, c.Fix = s, s, s, s, s
		c.Move.Arrival, c.Newest, c.Move.Context, c.Context, c.Move.Note = s, s, s, s, s
		must(t, b.Put(t.Context(), []dlqbridge.Evidence{
			{Record: c.ID, Item: dlqbridge.StoredPayload{Arrival: s, Payload: dlqbridge.Payload{Body: []byte(s)}}},
			{Record: c.ID, Item: dlqbridge.Arrival{Key: s, MessageID: s}},
			{Record: c.ID, Item: dlqbridge.Context{Name: s}},
			{Record: c.ID, Item: dlqbridge.Note{Name: s}},
			{Record: c.ID, Item: dlqbridge.Send{N: 1, MessageID: s}},
		})...)
		b.create(t, c)
		must(t, b.Move(t.Context(), step(c, next(c, s)))...)
		got, err := b.Case(t.Context(), c.ID)
		must(t, err)
		want := strings.ToValidUTF8(s, "\uFFFD\uFFFD")
		if len(got.Arrivals) != 1 || len(got.Contexts) != 1 || len(got.Notes) != 1 || len(got.Sends) != 1 || len(got.History) != 2 || got.Control.Source != want {
			t.Errorf("%q: got %+v", s, got)
		}
		p, err := b.Payload(t.Context(), c.ID, s)
		must(t, err)
		if string(p.Body) != s {
			t.Errorf("%q: got payload %q", s, p.Body)
		}
		listed := collect(t, b.Store, dlqbridge.Filter{Routes: []string{s}, Signature: s})
		if s != "\xff\xfe" && len(listed) != 1 {
			t.Errorf("%q: listed %d records", s, len(listed))
		}
		byMessage, err := b.RecordsByMessage(t.Context(), []string{s})
		must(t, err)
		if s != "" && byMessage[s] != c.ID {
			t.Errorf("%q: found %v by message", s, byMessage)
		}
	}
	if got := len(collect(t, b.Store, dlqbridge.Filter{})); got != len(nasty) {
		t.Errorf("listed %d of %d", got, len(nasty))
	}
}

// A query is no snapshot: what sorts before the control item may be written
// after the query has passed its place.
func TestACaseHasWhatItsHistoryNames(t *testing.T) {
	b := open(t)
	c := record(1)
	must(t, b.Put(t.Context(), evidence(c.ID))...)
	b.create(t, c)
	b.Store = b.another(t, func(o *awsdynamodb.Options) {
		o.Client = tapped{Client: b.client, query: func(out *dynamodb.QueryOutput) {
			out.Items = slices.DeleteFunc(out.Items, func(it tableItem) bool {
				return strings.HasPrefix(textAt(it, "sk"), "arrival#") || strings.HasPrefix(textAt(it, "sk"), "context#")
			})
		}}
	})
	got, err := b.Case(t.Context(), c.ID)
	must(t, err)
	if len(got.Arrivals) != 1 || len(got.Contexts) != 1 {
		t.Errorf("got %d arrivals and %d contexts", len(got.Arrivals), len(got.Contexts))
	}
}

// Should an entry be missing all the same, its place says so.
func TestAHistoryWithAGapSaysSo(t *testing.T) {
	b := open(t)
	c := record(1)
	b.create(t, c)
	must(t, b.Move(t.Context(), step(c, next(c, "alice")))...)
	b.drop(t, "records", "R#"+c.ID, "event#00000001")
	got, err := b.Case(t.Context(), c.ID)
	must(t, err)
	diff(t, "history", []dlqbridge.Move{{Version: 1, Why: "this entry is missing from the table"}, next(c, "alice").Move}, got.History)
}
