package adaptertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

const (
	// The patience is how long letters that must come may take, above all
	// timeouts: some providers say "nothing" when they mean "not now".
	patience = 20 * time.Second
	// The slack is added to a timeout before its end is relied on.
	slack = 2 * time.Second
	// Bounded by attempts are the receives for letters that must come, for an adapter
	// that does not wait.
	attempts = 50
)

// take receives exactly n letters, in as many calls as that needs.
func take(t testing.TB, s *Setup, n int) []dlqbridge.Letter {
	t.Helper()
	var all []dlqbridge.Letter
	for range attempts {
		letters, err := s.DeadLetters.Receive(t.Context(), 10, patience)
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		all = append(all, letters...)
		if len(all) >= n {
			break
		}
	}
	if len(all) != n {
		t.Fatalf("received %d letters, want %d: %q", len(all), n, bodies(messagesOf(all)))
	}
	return all
}

// nothing says that no letter is to be had now.
func nothing(t testing.TB, s *Setup, why string) {
	t.Helper()
	letters, err := s.DeadLetters.Receive(t.Context(), 10, 0)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	if len(letters) > 0 {
		t.Errorf("%s, but these letters came: %q", why, bodies(messagesOf(letters)))
	}
}

func lettersKeepTheirBytes(t testing.TB, h Harness) {
	s := h.New(t, false)
	want := carried(h.Differences)
	s.Put(t, want...)
	letters := take(t, s, len(want))
	sameMessages(t, "letters", messagesOf(letters), want)
	for _, l := range letters {
		for i, a := range l.Payload.Attributes[min(1, len(l.Payload.Attributes)):] {
			if before := l.Payload.Attributes[i].Name; before >= a.Name {
				t.Errorf("attribute %s comes after %s: want them sorted by name", a.Name, before)
			}
		}
	}
}

func lettersKeepTheirTrace(t testing.TB, h Harness) {
	differs(t, h.Differences.NoTrace)
	s := h.New(t, false)
	m := message("traced")
	m.TraceHeader = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"
	s.Put(t, m)
	sameMessages(t, "letters", messagesOf(take(t, s, 1)), []dlqbridge.Outgoing{m})
}

func lettersKeepTheirGroup(t testing.TB, h Harness) {
	differs(t, h.Differences.NoGroups)
	s := h.New(t, false)
	messages := numbered(3)
	messages[0].Payload.GroupKey = "tenant-17"
	messages[1].Payload.GroupKey = "tenant_4!"
	s.Put(t, messages...)
	sameMessages(t, "letters", messagesOf(take(t, s, 3)), messages)
}

func lettersSayWhatIsKnown(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, numbered(2)...)
	letters := take(t, s, 2)
	if letters[0].MessageID == letters[1].MessageID {
		t.Errorf("two letters have the same message id %q", letters[0].MessageID)
	}
	if letters[0].Receipt == letters[1].Receipt {
		t.Errorf("two letters have the same receipt %q", letters[0].Receipt)
	}
	for _, l := range letters {
		if l.Provider == "" || l.MessageID == "" || l.Receipt == "" {
			t.Errorf("provider %q, message id %q, receipt %q: want none of them empty", l.Provider, l.MessageID, l.Receipt)
		}
		if l.Place == "" || l.Place != s.DeadLetters.Place() {
			t.Errorf("place %q, want that of the adapter, %q", l.Place, s.DeadLetters.Place())
		}
		if l.ReceivedAt.IsZero() {
			t.Error("the letter does not say when it was received")
		}
		if l.Deliveries != nil && *l.Deliveries < 1 {
			t.Errorf("%d deliveries: a letter in hand was delivered, and unknown is nil", *l.Deliveries)
		}
		if h.Differences.UnknownSystem == "" && len(l.System) == 0 {
			t.Error("none of the provider's own attributes is there")
		}
		switch known := h.Differences.UnknownTimes == ""; {
		case known && (l.SentAt.IsZero() || l.SentAt.After(l.ReceivedAt)):
			t.Errorf("sent %v, received %v", l.SentAt, l.ReceivedAt)
		case known && !l.LostAt.After(l.ReceivedAt):
			t.Errorf("received %v, lost %v", l.ReceivedAt, l.LostAt)
		case !known && (!l.SentAt.IsZero() || !l.LostAt.IsZero()):
			t.Errorf("sent %v, lost %v: want zero times for what is unknown", l.SentAt, l.LostAt)
		}
	}
}

func countsIncludeThisDelivery(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, message("again"))
	first := take(t, s, 1)[0]
	if h.Differences.UnknownDeliveries != "" {
		if first.Deliveries != nil {
			t.Errorf("%d deliveries where the provider does not say (%s): want nil", *first.Deliveries, h.Differences.UnknownDeliveries)
		}
		return
	}
	pause(t, h.Visibility+slack)
	again := take(t, s, 1)[0]
	if first.Deliveries == nil || again.Deliveries == nil || *again.Deliveries != *first.Deliveries+1 {
		t.Errorf("deliveries %s, then %s: want one more", count(first), count(again))
	}
}

func count(l dlqbridge.Letter) string {
	if l.Deliveries == nil {
		return "unknown"
	}
	return strconv.Itoa(*l.Deliveries)
}

func noLettersIsNormal(t testing.TB, h Harness) {
	s := h.New(t, false)
	for _, wait := range []time.Duration{0, time.Second} {
		letters, err := s.DeadLetters.Receive(t.Context(), 10, wait)
		if err != nil || len(letters) != 0 {
			t.Errorf("an empty place gives %d letters and %v, want nothing and no error", len(letters), err)
		}
	}
}

func limitsHold(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, numbered(12)...)
	got := 0
	for _, limit := range []int{1, 2, 3, 10, 10, 10, 10, 10} {
		letters, err := s.DeadLetters.Receive(t.Context(), limit, time.Second)
		if err != nil || len(letters) > limit {
			t.Fatalf("limit %d: got %d letters and %v", limit, len(letters), err)
		}
		got += len(letters)
	}
	if got != 12 {
		t.Errorf("received %d letters in all, want 12", got)
	}
}

// receiving is a receive under way.
type receiving struct {
	letters []dlqbridge.Letter
	err     error
	took    time.Duration
}

func receive(ctx context.Context, s *Setup, wait time.Duration) <-chan receiving {
	done := make(chan receiving, 1)
	go func() {
		began := now()
		letters, err := s.DeadLetters.Receive(ctx, 10, wait)
		done <- receiving{letters, err, now().Sub(began)}
	}()
	return done
}

func lettersEndTheWait(t testing.TB, h Harness) {
	s := h.New(t, false)
	done := receive(t.Context(), s, 20*time.Second)
	pause(t, 3*time.Millisecond)
	s.Put(t, message("late"))
	got := <-done
	if got.err != nil || len(got.letters) != 1 || got.took > 5*time.Second {
		t.Errorf("got %d letters and %v after %v, want the letter as soon as it is there", len(got.letters), got.err, got.took)
	}
}

func waitingEnds(t testing.TB, h Harness) {
	s := h.New(t, false)
	got := <-receive(t.Context(), s, 5*time.Second)
	if got.err != nil || len(got.letters) != 0 || got.took > 6*time.Second {
		t.Errorf("got %d letters and %v after %v, want nothing after at most 5s", len(got.letters), got.err, got.took)
	}
}

func contextEndsTheWait(t testing.TB, h Harness) {
	s := h.New(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := receive(ctx, s, 20*time.Second)
	pause(t, 3*time.Millisecond)
	cancel()
	got := <-done
	if !errors.Is(got.err, context.Canceled) || got.took > time.Second {
		t.Errorf("got %v after %v, want the context's error at once", got.err, got.took)
	}
	s.Put(t, message("after"))
	take(t, s, 1) // the place is as good as before
}

func endedContextTakesNothing(t testing.TB, h Harness) {
	s := h.New(t, false)
	s.Put(t, message("untouched"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if letters, err := s.DeadLetters.Receive(ctx, 10, 0); err == nil || len(letters) != 0 {
		t.Errorf("got %d letters and %v, want the context's error", len(letters), err)
	}
	letters, err := s.DeadLetters.Receive(t.Context(), 10, time.Second)
	if err != nil || len(letters) != 1 {
		t.Errorf("then got %d letters and %v, want the one that is there", len(letters), err)
	}
}

func lostLettersComeAgain(t testing.TB, h Harness) {
	differs(t, h.Differences.BlindReceive)
	s := h.New(t, false)
	want := numbered(3)
	s.Put(t, want...)
	s.Break(t, Fault{Call: Receive, Do: LostAnswer, Times: 1})
	letters, err := s.DeadLetters.Receive(t.Context(), 10, time.Second)
	if errors.Is(err, dlqbridge.ErrThrottled) || errors.Is(err, dlqbridge.ErrUnavailable) {
		t.Errorf("got %v: that would say that surely nothing was received", err)
	}
	pause(t, h.Visibility+slack)
	sameMessages(t, "after the timeout", messagesOf(append(letters, take(t, s, 3-len(letters))...)), want)
}

func oneReceiverAtATime(t testing.TB, h Harness) {
	const letters, receivers = 60, 6
	s := h.New(t, false)
	want := numbered(letters)
	for batch := range slices.Chunk(want, 10) {
		s.Put(t, batch...)
	}
	var mu sync.Mutex
	var got []dlqbridge.Letter
	var failed []error
	var wg sync.WaitGroup
	for range receivers {
		wg.Go(func() {
			// Nobody deletes yet, so that what is handed out twice is seen.
			for range letters {
				batch, err := s.DeadLetters.Receive(t.Context(), 7, time.Second)
				mu.Lock()
				got = append(got, batch...)
				done := len(got) >= letters
				if err != nil {
					failed = append(failed, err)
				}
				mu.Unlock()
				if done || err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Error(err)
	}
	sameMessages(t, "what the receivers got", messagesOf(got), want)
	shares := slices.Collect(slices.Chunk(got, letters/receivers))
	answers := make([][]error, len(shares))
	for i, share := range shares {
		wg.Go(func() { answers[i] = s.DeadLetters.Delete(t.Context(), share) })
	}
	wg.Wait()
	wantErrors(t, "deleted at once", slices.Concat(answers...), fine(len(got))...)
}
