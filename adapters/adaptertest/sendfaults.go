package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// threeAtMost is a batch of three, or of what the destination takes.
func threeAtMost(t testing.TB, s *Setup) []dlqbridge.Outgoing {
	t.Helper()
	return numbered(min(3, facts(t, s).BatchCount))
}

// all is n times the same wish.
func all(n int, err error) []error {
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}

func lostAnswerIsUnclear(t testing.TB, h Harness) {
	s := h.New(t, false)
	batch := threeAtMost(t, s)
	s.Break(t, Fault{Call: Send, Do: LostAnswer, Times: 1})
	errs := send(t.Context(), t, h, s, batch)
	wantErrors(t, "send", errs, all(len(batch), dlqbridge.ErrUnclear)...)
	for _, err := range errs {
		if dlqbridge.Retryable(err) {
			t.Errorf("got %v: that would say that surely nothing was sent", err)
		}
	}
	// Minutes later nothing has been sent again either.
	if h.Differences.RealTime == "" {
		pause(t, 10*time.Minute)
	}
	if n := s.Requests(t, Send); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	sameMessages(t, "arrived", s.Arrived(t), batch)
}

func lostAnswerOrdered(t testing.TB, h Harness) {
	differs(t, h.Differences.NoGroups)
	s := h.New(t, true)
	batch := threeAtMost(t, s)
	for i := range batch {
		batch[i].Payload.GroupKey, batch[i].DedupID = "group", fmt.Sprintf("dedup-%d", i)
	}
	s.Break(t, Fault{Call: Send, Do: LostAnswer, Times: 1})
	errs := send(t.Context(), t, h, s, batch)
	for i, err := range errs {
		// A provider that swallows repeats may be asked again.
		if err != nil && (!errors.Is(err, dlqbridge.ErrUnclear) || dlqbridge.Retryable(err)) {
			t.Errorf("message %d: got %v, want nil or ErrUnclear", i, err)
		}
	}
	sameMessages(t, "arrived", s.Arrived(t), batch)
}

func throttledIsNotSent(t testing.TB, h Harness) {
	s := h.New(t, false)
	batch := threeAtMost(t, s)
	s.Break(t, Fault{Call: Send, Do: Throttled, Times: 1})
	errs := send(t.Context(), t, h, s, batch)
	want := dlqbridge.ErrThrottled
	if h.Differences.BlindSend != "" {
		want = dlqbridge.ErrUnclear
	}
	wantErrors(t, "send", errs, all(len(batch), want)...)
	for _, err := range errs {
		if h.Differences.BlindSend == "" && errors.Is(err, dlqbridge.ErrUnclear) {
			t.Errorf("got %v: it is known that nothing was sent", err)
		}
	}
	if n := s.Requests(t, Send); n != 1 {
		t.Errorf("%d requests, want 1: the pace is the caller's", n)
	}
	sameMessages(t, "arrived", s.Arrived(t), nil)
}

func deniedSend(t testing.TB, h Harness) {
	s := h.New(t, false)
	batch := threeAtMost(t, s)
	s.Break(t, Fault{Call: Send, Do: Denied})
	wantErrors(t, "send", send(t.Context(), t, h, s, batch), all(len(batch), dlqbridge.ErrDenied)...)
	sameMessages(t, "arrived", s.Arrived(t), nil)
}

func missingDestination(t testing.TB, h Harness) {
	differs(t, h.Differences.NoMissing)
	if err := h.New(t, false).MissingDestination(t.Context()); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func notBegunIsNotSent(t testing.TB, h Harness) {
	s := h.New(t, false)
	batch := threeAtMost(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, err := range send(ctx, t, h, s, batch) {
		if !dlqbridge.Retryable(err) || errors.Is(err, dlqbridge.ErrUnclear) {
			t.Errorf("message %d: got %v, want ErrUnavailable: it is known that nothing was sent", i, err)
		}
	}
	if n := s.Requests(t, Send); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
	sameMessages(t, "arrived", s.Arrived(t), nil)
}

func contextEndsASend(t testing.TB, h Harness) {
	s := h.New(t, false)
	batch := threeAtMost(t, s)
	s.Break(t, Fault{Call: Send, Do: Silence, Times: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := now()
	errs := send(ctx, t, h, s, batch)
	wantErrors(t, "send", errs, all(len(batch), dlqbridge.ErrUnclear)...)
	for _, err := range errs {
		if dlqbridge.Retryable(err) {
			t.Errorf("got %v: that would say that surely nothing was sent", err)
		}
	}
	if took := now().Sub(began); took > 5*time.Second {
		t.Errorf("gave up after %v, want when the context ends", took)
	}
	if n := s.Requests(t, Send); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
