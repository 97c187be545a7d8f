package adaptertest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// changed makes an adapter that changes each letter on the way in.
func changed(change func(*dlqbridge.Letter)) func(*Setup) {
	return func(s *Setup) {
		inner := s.DeadLetters
		s.DeadLetters = letters{DeadLetters: inner, receive: func(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			got, err := inner.Receive(ctx, limit, wait)
			for i := range got {
				change(&got[i])
			}
			return got, err
		}}
	}
}

// receivingBy replaces Receive.
func receivingBy(receive func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error)) func(*Setup) {
	return func(s *Setup) {
		inner := s.DeadLetters
		s.DeadLetters = letters{DeadLetters: inner, receive: func(ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			return receive(inner, ctx, limit, wait)
		}}
	}
}

// deletingBy replaces Delete.
func deletingBy(del func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error) func(*Setup) {
	return func(s *Setup) {
		inner := s.DeadLetters
		s.DeadLetters = letters{DeadLetters: inner, delete: func(ctx context.Context, all []dlqbridge.Letter) []error {
			return del(inner, ctx, all)
		}}
	}
}

// hidingBy replaces Hide.
func hidingBy(hide func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter, d time.Duration) []error) func(*Setup) {
	return func(s *Setup) {
		inner := s.DeadLetters
		s.DeadLetters = letters{DeadLetters: inner, hide: func(ctx context.Context, all []dlqbridge.Letter, d time.Duration) []error {
			return hide(inner, ctx, all, d)
		}}
	}
}

// first lets the first failure speak for all.
func first(answers []error) []error {
	for _, err := range answers {
		if err != nil {
			return all(len(answers), err)
		}
	}
	return answers
}

// meaningless keeps that something failed and drops what it means.
func meaningless(err error) error {
	if err == nil {
		return nil
	}
	return errors.New("something went wrong")
}

func zero() *int { return new(int) }

func brokenDeadLetters() []broken {
	return slices.Concat([]broken{
		{"drops an attribute", changed(func(l *dlqbridge.Letter) {
			l.Payload.Attributes = l.Payload.Attributes[min(1, len(l.Payload.Attributes)):]
		}), "a letter keeps its exact bytes", none},
		{"makes bodies valid UTF-8", changed(func(l *dlqbridge.Letter) { l.Payload.Body = bytes.ToValidUTF8(l.Payload.Body, []byte("\uFFFD")) }), "a letter keeps its exact bytes", none},
		{"forgets type labels", changed(func(l *dlqbridge.Letter) {
			for i, a := range l.Payload.Attributes {
				name, _, _ := bytes.Cut([]byte(a.Type), []byte("."))
				l.Payload.Attributes[i].Type = string(name)
			}
		}), "a letter keeps its exact bytes", none},
		{"does not sort attributes", changed(func(l *dlqbridge.Letter) { slices.Reverse(l.Payload.Attributes) }), "a letter keeps its exact bytes", none},
		{"loses the trace header", changed(func(l *dlqbridge.Letter) { l.TraceHeader = "" }), "a letter keeps its trace header", none},
		{"loses the group", changed(func(l *dlqbridge.Letter) { l.Payload.GroupKey = "" }), "a letter keeps its group", none},
		{"does not say when it was received", changed(func(l *dlqbridge.Letter) { l.ReceivedAt = time.Time{} }), "a letter says what the provider knows", none},
		{"does not say when it is lost", changed(func(l *dlqbridge.Letter) { l.LostAt = time.Time{} }), "a letter says what the provider knows", none},
		{"names another place", changed(func(l *dlqbridge.Letter) { l.Place = "elsewhere" }), "a letter says what the provider knows", none},
		{"gives no message ids", changed(func(l *dlqbridge.Letter) { l.MessageID = "" }), "a letter says what the provider knows", none},
		{"counts unknown deliveries as 0", changed(func(l *dlqbridge.Letter) { l.Deliveries = zero() }), "a letter says what the provider knows", none},
		{"does not count up", changed(func(l *dlqbridge.Letter) { n := 1; l.Deliveries = &n }), "a count is unknown or includes this delivery", none},
		{"gives a new message id each time", changed(func(l *dlqbridge.Letter) { l.MessageID = l.Receipt }), "a letter that nobody deletes comes again", none},

		{"makes an error of no letters", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			got, err := inner.Receive(ctx, limit, wait)
			if err == nil && len(got) == 0 {
				err = dlqbridge.ErrNotFound
			}
			return got, err
		}), "no letters is a normal answer", none},
		{"does not look at the limit", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, _ int, wait time.Duration) ([]dlqbridge.Letter, error) {
			return inner.Receive(ctx, 10, wait)
		}), "an answer holds at most as many letters as asked for", none},
		{"does not wait", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, _ time.Duration) ([]dlqbridge.Letter, error) {
			return inner.Receive(ctx, limit, 0)
		}), "a letter ends the wait for it", none},
		{"waits for longer than asked", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			return inner.Receive(ctx, limit, 2*wait+20*time.Second)
		}), "waiting ends with the wait", none},
		{"does not look at the context", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			return inner.Receive(context.WithoutCancel(ctx), limit, wait)
		}), "the end of the context ends a wait at once", none},
		{"receives before it looks at the context", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			if ctx.Err() != nil {
				_, _ = inner.Receive(context.WithoutCancel(ctx), limit, 0)
			}
			return inner.Receive(ctx, limit, wait)
		}), "a receive that is not begun takes nothing", none},
		{"deletes what it hands over", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			got, err := inner.Receive(ctx, limit, wait)
			inner.Delete(ctx, got)
			return got, err
		}), "a letter that nobody deletes comes again", none},
		{"says that a lost answer was no receive", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			got, err := inner.Receive(ctx, limit, wait)
			if errors.Is(err, dlqbridge.ErrUnclear) {
				err = dlqbridge.ErrUnavailable
			}
			return got, err
		}), "letters of an answer that was lost come again", none},
		{"hands letters to two receivers", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			got, err := inner.Receive(ctx, limit, wait)
			inner.Hide(ctx, got, 0)
			return got, err
		}), "each letter is with one receiver at a time", none},
		{"takes a denied receive for an empty place", receivingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, limit int, wait time.Duration) ([]dlqbridge.Letter, error) {
			got, err := inner.Receive(ctx, limit, wait)
			if errors.Is(err, dlqbridge.ErrDenied) {
				err = nil
			}
			return got, err
		}), "a denied request is denied", none},
	}, brokenSettling())
}

func brokenSettling() []broken {
	return []broken{
		{"does not delete", deletingBy(func(_ dlqbridge.DeadLetters, _ context.Context, all []dlqbridge.Letter) []error {
			return fine(len(all))
		}), "what is deleted is gone", none},
		{"deletes the first ten", deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error {
			return append(inner.Delete(ctx, all[:min(10, len(all))]), fine(max(0, len(all)-10))...)
		}), "more letters than a batch are deleted", none},
		{"refuses more than ten", deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, letters []dlqbridge.Letter) []error {
			if len(letters) > 10 {
				return all(len(letters), dlqbridge.ErrInvalid)
			}
			return inner.Delete(ctx, letters)
		}), "more letters than a batch are deleted", none},
		{"complains of a second deletion", func(s *Setup) {
			gone := map[string]bool{}
			var mu sync.Mutex
			deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error {
				mu.Lock()
				defer mu.Unlock()
				answers := inner.Delete(ctx, all)
				for i, l := range all {
					if gone[l.Receipt] {
						answers[i] = dlqbridge.ErrNotFound
					}
					gone[l.Receipt] = answers[i] == nil
				}
				return answers
			})(s)
		}, "deleting twice is fine", none},
		{"makes a request for nothing", func(s *Setup) {
			requests, made := s.Requests, 0
			s.Requests = func(t tb, c Call) int { return requests(t, c) + made }
			deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error {
				if len(all) == 0 {
					made++
				}
				return inner.Delete(ctx, all)
			})(s)
		}, "deleting nothing is fine", none},
		{"lets the first failure of a deletion speak for all", deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error {
			return first(inner.Delete(ctx, all))
		}), "a bad letter does not speak for the others", none},
		{"stops at the first letter that cannot be deleted", deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, letters []dlqbridge.Letter) []error {
			for i := range letters {
				if err := inner.Delete(ctx, letters[i:i+1])[0]; err != nil {
					return append(fine(i), all(len(letters)-i, err)...)
				}
			}
			return fine(len(letters))
		}), "a letter whose receive is over aborts nothing", none},
		{"says of letters that are not its own that they are deleted", deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error {
			inner.Delete(ctx, all)
			return fine(len(all))
		}), "a bad letter does not speak for the others", none},
		{"never deletes again after a bad letter", func(s *Setup) {
			bad := false
			var mu sync.Mutex
			deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, letters []dlqbridge.Letter) []error {
				mu.Lock()
				defer mu.Unlock()
				if bad {
					return all(len(letters), dlqbridge.ErrUnavailable)
				}
				answers := inner.Delete(ctx, letters)
				bad = errors.Join(answers...) != nil
				return answers
			})(s)
		}, "the batch after a bad letter is as good as any", none},
		{"answers a deletion in reverse", deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error {
			answers := inner.Delete(ctx, all)
			slices.Reverse(answers)
			return answers
		}), "a letter whose receive is over aborts nothing", none},
		{"lets the first refusal of a deletion speak for what follows", deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error {
			answers := inner.Delete(ctx, all)
			for i := 1; i < len(answers); i++ {
				if errors.Is(answers[i-1], dlqbridge.ErrDenied) {
					answers[i] = answers[i-1]
				}
			}
			return answers
		}), "a refused entry of a deletion does not speak for the others", none},
		{"leaves throttled deletions to the caller", func(s *Setup) {
			throttle := s.Break
			s.Break = func(t tb, f Fault) {
				if f.Do == Throttled {
					f.Times = 10 // more often than the reference tries
				}
				throttle(t, f)
			}
		}, "a throttled entry of a deletion is tried again", none},
		{"does not hide", hidingBy(func(_ dlqbridge.DeadLetters, _ context.Context, all []dlqbridge.Letter, _ time.Duration) []error {
			return fine(len(all))
		}), "hiding hides for as long as asked", none},
		{"hides for longer", hidingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter, d time.Duration) []error {
			return inner.Hide(ctx, all, d+24*time.Hour)
		}), "hiding hides for as long as asked", none},
		{"does not give back", hidingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter, d time.Duration) []error {
			return inner.Hide(ctx, all, max(d, time.Minute))
		}), "hiding for nothing gives back at once", none},
		{"lets the first failure of hiding speak for all", hidingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter, d time.Duration) []error {
			return first(inner.Hide(ctx, all, d))
		}), "hiding answers by position", none},
		{"counts what is visible only", func(s *Setup) {
			inner := s.DeadLetters
			s.DeadLetters = letters{DeadLetters: inner, depth: func(ctx context.Context) (dlqbridge.Depth, error) {
				depth, err := inner.Depth(ctx)
				depth.InFlight = 0
				return depth, err
			}}
		}, "depth counts what is there", none},
		{"does not say that the place is missing", func(s *Setup) {
			inner := s.MissingPlace
			s.MissingPlace = func(ctx context.Context) error { return meaningless(inner(ctx)) }
		}, "a missing place is not found", none},
		{"does not say that it is denied", deletingBy(func(inner dlqbridge.DeadLetters, ctx context.Context, all []dlqbridge.Letter) []error {
			answers := inner.Delete(ctx, all)
			for i := range answers {
				answers[i] = meaningless(answers[i])
			}
			return answers
		}), "a denied request is denied", none},
	}
}
