package awsdynamodb_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awsdynamodb"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const day = 24 * time.Hour

// keepExpired lets expired items stay in the tables, as the service may for days.
func (b *bench) keepExpired(tb testing.TB) {
	tb.Helper()
	for _, name := range []string{"records", "payloads"} {
		_, err := b.client.UpdateTimeToLive(tb.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName:               aws.String(name),
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires_at"), Enabled: aws.Bool(false)},
		})
		must(tb, err)
	}
}

// closedCase makes a record with all kinds of evidence, its texts apart, and closes it.
func (b *bench) closedCase(tb testing.TB) dlqbridge.Control {
	tb.Helper()
	c := record(1)
	c.Tenant = strings.Repeat("x", 128)
	c.TaskType, c.Owner, c.TaskID = c.Tenant, c.Tenant, c.Tenant
	must(tb, b.Put(tb.Context(), evidence(c.ID))...)
	b.create(tb, c)
	to := closed(c, dlqbridge.StatusRejected)
	must(tb, b.Move(tb.Context(), step(c, to))...)
	return to
}

// C69.
func TestAClosedRecordExpiresInTurn(t *testing.T) {
	b := open(t)
	c := b.closedCase(t)
	control := b.item(t, "records", "R#"+c.ID, "control")
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	if got, want := numberAt(control, "expires_at"), seconds(c.ClosedAt.Add(401*day)); got != want || len(got) != 10 {
		t.Errorf("the control item expires at %s, want %s", got, want)
	}
	if _, indexed := control["sig_pk"]; indexed || !strings.HasPrefix(textAt(control, "work_pk"), "closed#") {
		t.Errorf("a closed record stands in the indexes: %v", control)
	}
	n, err := b.Sweep(t.Context(), 0)
	must(t, err)
	if n != 1 {
		t.Errorf("swept %d", n)
	}
	if n, err = b.Sweep(t.Context(), 0); err != nil || n != 0 {
		t.Errorf("swept %d again, %v", n, err)
	}
	for _, name := range []string{"records", "payloads"} {
		for _, it := range b.table(t, name) {
			sk := textAt(it, "sk")
			want := seconds(c.ClosedAt.Add(400 * day))
			switch {
			case !strings.HasPrefix(textAt(it, "pk"), "R#") && name == "records":
				continue
			case name == "payloads":
				want = seconds(c.ClosedAt.Add(30 * day))
			case sk == "control" || strings.HasPrefix(sk, "wide#"):
				want = seconds(c.ClosedAt.Add(401 * day))
			}
			if got := numberAt(it, "expires_at"); sk != "" && got != want {
				t.Errorf("%s expires at %s, want %s", sk, got, want)
			}
			if _, ok := it["work_pk"]; ok {
				t.Errorf("%s stands in the work index", sk)
			}
		}
	}

	b.keepExpired(t)
	b.cloud.Clock().Advance(30*day + time.Hour)
	if _, err := b.Payload(t.Context(), c.ID, "aaaabbbbccccddddeeeeffff"); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("the payload: got %v, want ErrNotFound", err)
	}
	got, err := b.Case(t.Context(), c.ID)
	must(t, err)
	if len(got.History) != 2 || len(got.Arrivals) != 1 || got.Control.Tenant != c.Tenant {
		t.Errorf("got %+v", got)
	}
	b.cloud.Clock().Advance(370 * day)
	if got, err = b.Case(t.Context(), c.ID); err != nil || len(got.History) != 1 || len(got.Arrivals) != 0 {
		t.Errorf("got %+v, %v; want the control item alone", got, err)
	}
	b.cloud.Clock().Advance(day)
	if _, err = b.Case(t.Context(), c.ID); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if all := collect(t, b.Store, dlqbridge.Filter{Closed: true}); len(all) != 0 {
		t.Errorf("an expired record is listed: %+v", all)
	}
	if err := b.Move(t.Context(), step(c, next(c, "late")))[0]; !errors.Is(err, dlqbridge.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	// A letter of the same task after all this makes a new record.
	b.create(t, record(1))
	if got, err = b.Case(t.Context(), c.ID); err != nil || len(got.History) != 1 || got.Control.Status.Closed() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAClosedRecordOutlivesEveryLetterOfIt(t *testing.T) {
	b := open(t, func(o *awsdynamodb.Options) { o.RecordRetention, o.PayloadRetention = day, day })
	c := b.closedCase(t)
	got, _ := strconv.ParseInt(numberAt(b.item(t, "records", "R#"+c.ID, "control"), "expires_at"), 10, 64)
	if least := c.ClosedAt.Add(28 * day); time.Unix(got, 0).Before(least) {
		t.Errorf("it expires at %v, and letters may come until %v", time.Unix(got, 0), least)
	}
}

func reopened(c dlqbridge.Control) dlqbridge.Control {
	to := next(c, "opener")
	to.Status, to.Move.To, to.Move.Verb = dlqbridge.StatusUnderInvestigation, dlqbridge.StatusUnderInvestigation, dlqbridge.VerbReopen
	to.ClosedAt = time.Time{}
	return to
}

func (b *bench) expiring(tb testing.TB, id string) []string {
	tb.Helper()
	var list []string
	for _, name := range []string{"records", "payloads"} {
		for _, it := range b.table(tb, name) {
			if _, ok := it["expires_at"]; ok && strings.HasSuffix(textAt(it, "pk"), id) {
				list = append(list, textAt(it, "sk"))
			}
		}
	}
	return list
}

func TestAReopenedRecordKeepsEverything(t *testing.T) {
	b := open(t)
	c := b.closedCase(t)
	_, err := b.Sweep(t.Context(), 0)
	must(t, err)
	open := reopened(c)
	must(t, b.Move(t.Context(), step(c, open))...)
	if left := b.expiring(t, c.ID); len(left) > 0 {
		t.Errorf("still expiring: %v", left)
	}
	if _, err := b.Payload(t.Context(), c.ID, c.Newest); err != nil {
		t.Error(err)
	}
	got, err := b.Case(t.Context(), c.ID)
	must(t, err)
	if len(got.History) != 3 {
		t.Errorf("history has %d entries", len(got.History))
	}
	if got := collect(t, b.Store, dlqbridge.Filter{}); len(got) != 1 {
		t.Errorf("listed %d", len(got))
	}
}

// Whatever a sweep dies at, and whenever a reopening passes, an open record
// keeps all its items.
func TestSweepAndReopeningExcludeEachOther(t *testing.T) {
	for died := range 12 {
		t.Run(fmt.Sprint("the sweep dies at update ", died), func(t *testing.T) {
			b := open(t)
			c := b.closedCase(t)
			b.fault(t, localstack.Fault{Operation: "UpdateItem", Skip: died, Times: 1, Do: localstack.DoError, Code: "ValidationException"})
			_, swept := b.Sweep(t.Context(), 0)
			b.cloud.ClearFaults()
			open := reopened(c)
			err := b.Move(t.Context(), step(c, open))[0]
			if swept != nil && died > 0 {
				if !errors.Is(err, dlqbridge.ErrConflict) {
					t.Fatalf("got %v, want ErrConflict while the sweep may be going on", err)
				}
				b.cloud.Clock().Advance(2*time.Minute + time.Second)
				err = b.Move(t.Context(), step(c, open))[0]
			}
			must(t, err)
			if left := b.expiring(t, c.ID); len(left) > 0 {
				t.Errorf("still expiring: %v", left)
			}
			if n, err := b.Sweep(t.Context(), 0); n != 0 || err != nil {
				t.Errorf("swept %d open records, %v", n, err)
			}
		})
	}
}

func TestASweepThatPassesWhileReopeningIsUndone(t *testing.T) {
	b := open(t)
	c := b.closedCase(t)
	other := b.another(t)
	passed := false
	// The reopening has taken the expiry away; before its move, a sweep passes.
	b.Store = b.another(t, func(o *awsdynamodb.Options) {
		o.Retry.Wait = nil
		o.Retry.Random = func() float64 {
			if !passed {
				passed = true
				_, err := other.Sweep(t.Context(), 0)
				must(t, err)
			}
			return 0
		}
	})
	b.fault(t, localstack.Fault{Operation: "PutItem", Contains: `"work_pk"`, Do: localstack.DoThrottle})
	must(t, b.Move(t.Context(), step(c, reopened(c)))...)
	if !passed {
		t.Fatal("no sweep passed")
	}
	if left := b.expiring(t, c.ID); len(left) > 0 {
		t.Errorf("still expiring: %v", left)
	}
}

func TestASweepIsBoundedAndGoesOn(t *testing.T) {
	b := open(t)
	for n := range 10 {
		c := record(n)
		b.create(t, c)
		must(t, b.Move(t.Context(), step(c, closed(c, dlqbridge.StatusRejected)))...)
	}
	total := 0
	for range 4 {
		n, err := b.Sweep(t.Context(), 3)
		must(t, err)
		if n > 3 {
			t.Errorf("swept %d at once", n)
		}
		total += n
	}
	if total != 10 {
		t.Errorf("swept %d of 10", total)
	}
}
