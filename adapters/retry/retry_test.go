package retry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// noted is a policy that notes its waits in place of waiting, without jitter.
func noted(waits *[]time.Duration) retry.Policy {
	return retry.Policy{
		Wait: func(_ context.Context, d time.Duration) error {
			*waits = append(*waits, d)
			return nil
		},
		Random: func() float64 { return 1 },
	}
}

func failing(err error, calls *int) func(context.Context) error {
	return func(context.Context) error {
		*calls++
		return err
	}
}

func TestRetryWaitsLongerEachTimeAndEnds(t *testing.T) {
	var waits []time.Duration
	calls := 0
	err := retry.Do(context.Background(), noted(&waits), failing(dlqbridge.ErrThrottled, &calls))
	const ms = time.Millisecond
	want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms}
	if diff := cmp.Diff(want, waits); diff != "" || calls != retry.DefaultTries || !errors.Is(err, dlqbridge.ErrThrottled) {
		t.Errorf("%d calls, error %v, waits (-want +got):\n%s", calls, err, diff)
	}
}

func TestRetryNeverRepeatsWhatMayHaveHappened(t *testing.T) {
	for _, err := range []error{dlqbridge.ErrUnclear, dlqbridge.ErrInvalid, dlqbridge.ErrDenied, dlqbridge.ErrNotFound, dlqbridge.ErrConflict} {
		var waits []time.Duration
		calls := 0
		if got := retry.Do(context.Background(), noted(&waits), failing(err, &calls)); !errors.Is(got, err) || calls != 1 {
			t.Errorf("%v: %d calls, error %v", err, calls, got)
		}
	}
	var waits []time.Duration
	calls := 0
	p := noted(&waits)
	p.Repeatable = true
	if err := retry.Do(context.Background(), p, failing(dlqbridge.ErrUnclear, &calls)); err == nil || calls != retry.DefaultTries {
		t.Errorf("repeatable call with a lost answer: %d calls", calls)
	}
}

func TestRetryJitterIsFull(t *testing.T) {
	var waits []time.Duration
	calls := 0
	p := noted(&waits)
	p.Random = func() float64 { return 0 }
	_ = retry.Do(context.Background(), p, failing(dlqbridge.ErrUnavailable, &calls))
	if slices.Max(waits) != 0 {
		t.Errorf("waits %v, want all zero at the lowest draw", waits)
	}
}

// C75: new keys come some seconds later; the wait is bounded, and the
// provider is told to forget the old ones before each try.
func TestC75RetryWaitsForCredentials(t *testing.T) {
	var waits []time.Duration
	calls, renewed := 0, 0
	p := noted(&waits)
	p.Renew = func() { renewed++ }
	err := retry.Do(context.Background(), p, failing(dlqbridge.ErrCredentials, &calls))
	var total time.Duration
	for _, w := range waits {
		total += w
	}
	if !errors.Is(err, dlqbridge.ErrCredentials) || total != retry.DefaultCredentialsFor || renewed != len(waits) || calls != len(waits)+1 {
		t.Errorf("%d calls, %d renewals, %v in all, error %v", calls, renewed, total, err)
	}
	calls = 0
	err = retry.Do(context.Background(), p, func(context.Context) error {
		if calls++; calls < 4 {
			return dlqbridge.ErrCredentials
		}
		return nil
	})
	if err != nil || calls != 4 {
		t.Errorf("new credentials after 3 tries: %d calls, error %v", calls, err)
	}
}

// C02: only the entries that failed for now are tried again.
func TestC02RetryEachTriesOnlyWhatFailedForNow(t *testing.T) {
	var waits []time.Duration
	var asked [][]int
	got := retry.Each(context.Background(), noted(&waits), 5, func(_ context.Context, positions []int) []error {
		asked = append(asked, slices.Clone(positions))
		answers := make([]error, len(positions))
		for i, position := range positions {
			switch {
			case position == 1:
				answers[i] = dlqbridge.ErrInvalid
			case position == 3 && len(asked) < 3, position == 4 && len(asked) < 2:
				answers[i] = dlqbridge.ErrThrottled
			}
		}
		return answers
	})
	if diff := cmp.Diff([][]int{{0, 1, 2, 3, 4}, {3, 4}, {3}}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	for i, err := range got {
		if (err != nil) != (i == 1) {
			t.Errorf("position %d: %v", i, err)
		}
	}
}

func TestRetryStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	err := retry.Do(ctx, retry.Policy{Random: func() float64 { cancel(); return 1 }, Base: time.Hour, Max: time.Hour},
		failing(dlqbridge.ErrThrottled, &calls))
	if calls != 1 || !errors.Is(err, dlqbridge.ErrThrottled) || !errors.Is(err, context.Canceled) {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

// Where credentials are not waited for, one call's do not keep another from
// being tried again.
func TestCredentialsThatAreNotWaitedFor(t *testing.T) {
	var waits []time.Duration
	p := noted(&waits)
	p.CredentialsFor = -1
	calls := map[int]int{}
	got := retry.Each(context.Background(), p, 2, func(_ context.Context, positions []int) []error {
		out := make([]error, len(positions))
		for i, at := range positions {
			calls[at]++
			out[i] = []error{dlqbridge.ErrCredentials, dlqbridge.ErrThrottled}[at]
		}
		return out
	})
	if calls[0] != 1 || calls[1] != retry.DefaultTries || !errors.Is(got[0], dlqbridge.ErrCredentials) || !errors.Is(got[1], dlqbridge.ErrThrottled) {
		t.Errorf("calls %v, %v", calls, got)
	}
}
