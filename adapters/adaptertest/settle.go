package adaptertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// wantErrors compares answers by position; a nil wish is success.
func wantErrors(t testing.TB, what string, got []error, want ...error) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d answers for %d entries", what, len(got), len(want))
		return
	}
	for i, wish := range want {
		if err := got[i]; (err == nil) != (wish == nil) || !errors.Is(err, wish) {
			t.Errorf("%s, position %d: got %v, want %v", what, i, err, wish)
		}
	}
}

// fine is n successes.
func fine(n int) []error { return make([]error, n) }

func undeletedComesAgain(t testing.TB, h Harness) {
	s := h.New(t, false)
	want := numbered(2)
	s.Put(t, want...)
	first := take(t, s, 2)
	pause(t, h.Visibility/2)
	nothing(t, s, "half of the timeout has passed")
	pause(t, h.Visibility/2+slack)
	again := take(t, s, 2)
	sameMessages(t, "letters that came again", messagesOf(again), want)
	ids := func(letters []dlqbridge.Letter) []string {
		var out []string
		for _, l := range letters {
			out = append(out, l.MessageID)
		}
		slices.Sort(out)
		return out
	}
	if !slices.Equal(ids(first), ids(again)) {
		t.Errorf("message ids %q, then %q: a letter keeps its id", ids(first), ids(again))
	}
}

func deletedIsGone(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, numbered(3)...)
	letters := take(t, s, 3)
	wantErrors(t, "delete", s.DeadLetters.Delete(t.Context(), letters[:2]), fine(2)...)
	pause(t, h.Visibility+slack)
	sameMessages(t, "what was not deleted", messagesOf(take(t, s, 1)), messagesOf(letters[2:]))
	nothing(t, s, "the others are deleted")
}

func deletingTwice(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, numbered(2)...)
	letters := take(t, s, 2)
	wantErrors(t, "first", s.DeadLetters.Delete(t.Context(), letters), fine(2)...)
	wantErrors(t, "second", s.DeadLetters.Delete(t.Context(), letters), fine(2)...)
	wantErrors(t, "twice in one batch", s.DeadLetters.Delete(t.Context(), append(letters, letters...)), fine(4)...)
}

func settlingNothing(t testing.TB, h Harness) {
	s := h.New(t, false)
	wantErrors(t, "delete", s.DeadLetters.Delete(t.Context(), nil))
	wantErrors(t, "hide", s.DeadLetters.Hide(t.Context(), nil, time.Second))
	if n := s.Requests(t, Delete) + s.Requests(t, Hide); n != 0 {
		t.Errorf("%d requests for nothing", n)
	}
}

func deletingMany(t testing.TB, h Harness) {
	const n = 25
	s := h.New(t, false)
	for batch := range slices.Chunk(numbered(n), 10) {
		s.Put(t, batch...)
	}
	letters := take(t, s, n)
	wantErrors(t, "delete", s.DeadLetters.Delete(t.Context(), letters), fine(n)...)
	if h.Differences.UnknownDepth != "" {
		return
	}
	if depth, err := s.DeadLetters.Depth(t.Context()); err != nil || depth.Total() != 0 {
		t.Errorf("depth %+v and %v, want an empty place", depth, err)
	}
}

// foreign makes a letter's receipt one that no adapter has given.
func foreign(l dlqbridge.Letter) dlqbridge.Letter {
	l.Receipt = "not a receipt"
	return l
}

func badLetterAmongMany(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, numbered(7)...)
	letters := take(t, s, 7)
	batch := slices.Clone(letters)
	batch[3] = foreign(batch[3])
	answers := s.DeadLetters.Delete(t.Context(), batch)
	if len(answers) != 7 {
		t.Fatalf("%d answers for 7 letters", len(answers))
	}
	if answers[3] == nil {
		t.Error("a letter without a receipt was deleted, it says")
	}
	answers[3] = nil
	wantErrors(t, "the others", answers, fine(7)...)
	pause(t, h.Visibility+slack)
	sameMessages(t, "what is left", messagesOf(take(t, s, 1)), messagesOf(letters[3:4]))
}

func overAbortsNothing(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, message("over"))
	old := take(t, s, 1)[0]
	pause(t, h.Visibility+slack)
	take(t, s, 1) // it is with somebody else now
	s.Put(t, numbered(3)...)
	fresh := take(t, s, 3)
	answers := s.DeadLetters.Delete(t.Context(), []dlqbridge.Letter{fresh[0], old, fresh[1], fresh[2]})
	if len(answers) != 4 {
		t.Fatalf("%d answers for 4 letters", len(answers))
	}
	over := answers[1]
	answers[1] = nil
	wantErrors(t, "delete of the others", answers, fine(4)...)
	// Whether the provider takes the old handle is its own affair, as long as
	// the answer is true.
	pause(t, h.Visibility+slack)
	switch {
	case over == nil:
		letters, err := s.DeadLetters.Receive(t.Context(), 10, time.Second)
		if err != nil || len(letters) > 1 || len(letters) == 1 && string(letters[0].Payload.Body) != "over" {
			t.Errorf("came again: %q (%v)", bodies(messagesOf(letters)), err)
		}
	case !errors.Is(over, dlqbridge.ErrNotFound):
		t.Errorf("a receive that is over: got %v, want nil or ErrNotFound", over)
	default:
		sameMessages(t, "what comes again", messagesOf(take(t, s, 1)), []dlqbridge.Outgoing{message("over")})
	}
}

func batchAfterABadLetter(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, numbered(4)...)
	letters := take(t, s, 4)
	for _, err := range s.DeadLetters.Delete(t.Context(), []dlqbridge.Letter{foreign(letters[0])}) {
		if err == nil {
			t.Error("a letter without a receipt was deleted, it says")
		}
	}
	wantErrors(t, "delete", s.DeadLetters.Delete(t.Context(), letters), fine(4)...)
}

func refusedEntryOfADeletion(t testing.TB, h Harness) {
	differs(t, h.Differences.BlindSettle, h.Differences.NoEntryFaults)
	s := h.New(t, false)
	s.Put(t, numbered(4)...)
	letters := take(t, s, 4)
	s.Break(t, Fault{Call: Delete, Do: Denied, OneEntry: true, Entry: 2, Times: 1})
	wantErrors(t, "delete", s.DeadLetters.Delete(t.Context(), letters), nil, nil, dlqbridge.ErrDenied, nil)
	wantErrors(t, "again", s.DeadLetters.Delete(t.Context(), letters), fine(4)...)
}

func throttledEntryIsTriedAgain(t testing.TB, h Harness) {
	differs(t, h.Differences.BlindSettle, h.Differences.NoEntryFaults)
	s := h.New(t, false)
	s.Put(t, numbered(4)...)
	letters := take(t, s, 4)
	s.Break(t, Fault{Call: Delete, Do: Throttled, OneEntry: true, Entry: 2, Times: 1})
	wantErrors(t, "delete", s.DeadLetters.Delete(t.Context(), letters), fine(4)...)
}

func hidingHides(t testing.TB, h Harness) {
	differs(t, h.Differences.NoExtension)
	s := h.New(t, false)
	s.Put(t, numbered(2)...)
	letters := take(t, s, 2)
	// Twice, because a hide counts from now and not from the receive.
	for range 2 {
		wantErrors(t, "hide", s.DeadLetters.Hide(t.Context(), letters, 2*h.Visibility), fine(2)...)
		pause(t, 3*h.Visibility/2)
		nothing(t, s, "the letters are hidden for twice the timeout")
	}
	pause(t, h.Visibility/2+slack)
	again := take(t, s, 2)
	sameMessages(t, "after the time", messagesOf(again), numbered(2))
}

func hidingForNothing(t testing.TB, h Harness) {
	differs(t, h.Differences.NoGiveBack)
	s := h.New(t, false)
	s.Put(t, numbered(3)...)
	letters := take(t, s, 3)
	wantErrors(t, "hide", s.DeadLetters.Hide(t.Context(), letters[1:], 0), fine(2)...)
	began := now()
	again := take(t, s, 2)
	sameMessages(t, "what was given back", messagesOf(again), messagesOf(letters[1:]))
	if took := now().Sub(began); took > 5*time.Second {
		t.Errorf("they came after %v, want at once", took)
	}
	nothing(t, s, "the first letter is still hidden")
}

func hidingByPosition(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, numbered(3)...)
	letters := take(t, s, 3)
	letters[1] = foreign(letters[1])
	for _, d := range []time.Duration{h.Visibility, 0} {
		reason := h.Differences.NoExtension
		if d == 0 {
			reason = h.Differences.NoGiveBack
		}
		answers := s.DeadLetters.Hide(t.Context(), letters, d)
		if len(answers) != 3 || answers[1] == nil {
			t.Fatalf("hide for %v: %v, want an error for the second of three", d, answers)
		}
		answers[1] = nil
		if reason != "" {
			wantErrors(t, "hide", answers, dlqbridge.ErrInvalid, nil, dlqbridge.ErrInvalid)
			continue
		}
		wantErrors(t, "hide of the others", answers, fine(3)...)
	}
}

func depthCounts(t testing.TB, h Harness) {
	s := h.New(t, false)
	read := func(what string, want int64) {
		t.Helper()
		depth, err := s.DeadLetters.Depth(t.Context())
		if h.Differences.UnknownDepth != "" {
			if err == nil && !depth.Unknown {
				t.Errorf("depth %+v where it is unknown (%s): want Unknown or an error, since zero says empty", depth, h.Differences.UnknownDepth)
			}
			return
		}
		if err != nil || depth.Total() != want {
			t.Errorf("%s: depth %+v and %v, want %d in all", what, depth, err, want)
		}
	}
	read("empty", 0)
	s.Put(t, numbered(5)...)
	read("five put", 5)
	letters := take(t, s, 5)
	read("five received", 5)
	s.DeadLetters.Delete(t.Context(), letters[:2])
	read("two deleted", 3)
}

func missingPlace(t testing.TB, h Harness) {
	differs(t, h.Differences.NoMissing)
	if err := h.New(t, false).MissingPlace(t.Context()); !errors.Is(err, dlqbridge.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func deniedPlace(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, numbered(2)...)
	letters := take(t, s, 2)
	for _, c := range []struct {
		call Call
		skip string
		do   func(context.Context) error
	}{
		{Delete, h.Differences.BlindSettle, func(ctx context.Context) error { return errors.Join(s.DeadLetters.Delete(ctx, letters)...) }},
		{Hide, h.Differences.BlindSettle, func(ctx context.Context) error {
			return errors.Join(s.DeadLetters.Hide(ctx, letters, time.Second)...)
		}},
		{Depth, h.Differences.UnknownDepth, func(ctx context.Context) error { _, err := s.DeadLetters.Depth(ctx); return err }},
		{Receive, "", func(ctx context.Context) (err error) {
			// A receive may still be answered out of a request made before.
			for i := 0; i < 3 && err == nil; i++ {
				_, err = s.DeadLetters.Receive(ctx, 10, time.Second)
			}
			return err
		}},
	} {
		if c.skip != "" {
			t.Logf("%s is not tried: %s", c.call, c.skip)
			continue
		}
		s.Break(t, Fault{Call: c.call, Do: Denied})
		if err := c.do(t.Context()); !errors.Is(err, dlqbridge.ErrDenied) || dlqbridge.Retryable(err) {
			t.Errorf("%s: got %v, want ErrDenied", c.call, err)
		}
	}
}
