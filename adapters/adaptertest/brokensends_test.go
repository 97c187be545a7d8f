package adaptertest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

type tb = testing.TB

// sendingBy replaces Send.
func sendingBy(send func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult) func(*Setup) {
	return func(s *Setup) {
		inner := s.Destination
		s.Destination = destination{Destination: inner, send: func(ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			return send(inner, ctx, batch)
		}}
	}
}

// altered makes an adapter that alters each message on the way out.
func altered(alter func(*dlqbridge.Outgoing)) func(*Setup) {
	return sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
		batch = slices.Clone(batch)
		for i := range batch {
			batch[i].Payload.Attributes = slices.Clone(batch[i].Payload.Attributes)
			alter(&batch[i])
		}
		return inner.Send(ctx, batch)
	})
}

// answering makes an adapter that changes each answer.
func answering(change func(*dlqbridge.SendResult)) func(*Setup) {
	return sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
		results := inner.Send(ctx, batch)
		for i := range results {
			change(&results[i])
		}
		return results
	})
}

// insteadOf gives one meaning where another was meant.
func insteadOf(meant, said error) func(*Setup) {
	return answering(func(r *dlqbridge.SendResult) {
		if errors.Is(r.Err, meant) {
			r.Err = said
		}
	})
}

// repeating sends again what failed with that meaning.
func repeating(meaning error) func(*Setup) {
	return sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
		results := inner.Send(ctx, batch)
		if slices.ContainsFunc(results, func(r dlqbridge.SendResult) bool { return errors.Is(r.Err, meaning) }) {
			return inner.Send(ctx, batch)
		}
		return results
	})
}

func everyOne(n int, err error) []dlqbridge.SendResult {
	results := make([]dlqbridge.SendResult, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

func brokenDestinations() []broken {
	return slices.Concat(brokenBytes(), brokenBatches(), brokenAnswers(), brokenFacts())
}

func brokenBytes() []broken {
	const exact = "a message arrives with its exact bytes"
	text := Differences{TextOnly: "it claims so"}
	return []broken{
		{"drops an attribute", altered(func(o *dlqbridge.Outgoing) {
			o.Payload.Attributes = o.Payload.Attributes[min(1, len(o.Payload.Attributes)):]
		}), exact, none},
		{"makes bodies valid UTF-8", altered(func(o *dlqbridge.Outgoing) { o.Payload.Body = bytes.ToValidUTF8(o.Payload.Body, []byte("\uFFFD")) }), exact, none},
		{"types everything String", altered(func(o *dlqbridge.Outgoing) {
			for i := range o.Payload.Attributes {
				o.Payload.Attributes[i].Type = "String"
			}
		}), exact, none},
		{"leaves empty values out", altered(func(o *dlqbridge.Outgoing) {
			o.Payload.Attributes = slices.DeleteFunc(o.Payload.Attributes, func(a dlqbridge.Attribute) bool { return len(a.Value) == 0 })
		}), exact, none},
		{"strips the mark", altered(func(o *dlqbridge.Outgoing) { o.Payload = o.Payload.Without(dlqbridge.MarkName) }), "a mark and a trace header arrive", none},
		{"strips the trace header", altered(func(o *dlqbridge.Outgoing) { o.TraceHeader = "" }), "a mark and a trace header arrive", none},
		{"strips the group", altered(func(o *dlqbridge.Outgoing) {
			if o.Payload.GroupKey != "" {
				o.Payload.GroupKey = "one for all"
			}
		}), "groups keep their order and their key", none},
		{"strips the group of what is not ordered", altered(func(o *dlqbridge.Outgoing) {
			if o.DedupID == "" {
				o.Payload.GroupKey = ""
			}
		}), "a group arrives where nothing is ordered", none},
		{"drops the attribute over the limit", altered(func(o *dlqbridge.Outgoing) {
			o.Payload.Attributes = o.Payload.Attributes[:min(10, len(o.Payload.Attributes))]
		}), "as many attributes as allowed go and one more does not", none},
		{"cuts what is too large", altered(func(o *dlqbridge.Outgoing) {
			o.Payload.Body = o.Payload.Body[:min(len(o.Payload.Body), 256<<10-200)]
		}), "a message of the size limit goes and one byte more does not", none},
		{"sends what it should refuse", altered(func(*dlqbridge.Outgoing) {}), "what would change on the way is refused", text},
		{"makes valid UTF-8 of what it should refuse", altered(func(o *dlqbridge.Outgoing) { o.Payload.Body = bytes.ToValidUTF8(o.Payload.Body, nil) }), "what would change on the way is refused", text},
		{"sorts the caller's attributes", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			for i := range batch {
				batch[i].Payload.Normalize()
			}
			return inner.Send(ctx, batch)
		}), "arguments are neither changed nor kept", none},
		{"keeps the caller's memory", func(s *Setup) {
			var kept []dlqbridge.Outgoing
			var mu sync.Mutex
			s.Arrived = func(testing.TB) []dlqbridge.Outgoing { return kept }
			sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, batch...)
				return inner.Send(ctx, batch)
			})(s)
		}, "arguments are neither changed nor kept", none},
	}
}

func brokenBatches() []broken {
	return []broken{
		{"makes a request for each message", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			var results []dlqbridge.SendResult
			for _, o := range batch {
				results = append(results, inner.Send(ctx, []dlqbridge.Outgoing{o})...)
			}
			return results
		}), "a batch is one request", none},
		{"reorders a group", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			turned := slices.Clone(batch)
			slices.Reverse(turned)
			results := inner.Send(ctx, turned)
			slices.Reverse(results)
			return results
		}), "groups keep their order and their key", none},
		{"refuses the batch of a bad message", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			for _, o := range batch {
				if o.Size() > 256<<10 {
					return everyOne(len(batch), dlqbridge.ErrTooLarge)
				}
			}
			return inner.Send(ctx, batch)
		}), "a bad message does not speak for the others", none},
		{"lets the first failure speak for all", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			results := inner.Send(ctx, batch)
			for _, r := range results {
				if r.Err != nil {
					return everyOne(len(results), r.Err)
				}
			}
			return results
		}), "a refused entry does not speak for the others", none},
		{"answers in reverse", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			results := inner.Send(ctx, batch)
			slices.Reverse(results)
			return results
		}), "a refused entry does not speak for the others", none},
		{"never sends again after a bad message", func(s *Setup) {
			bad := false
			var mu sync.Mutex
			sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
				mu.Lock()
				defer mu.Unlock()
				if bad {
					return everyOne(len(batch), dlqbridge.ErrUnavailable)
				}
				results := inner.Send(ctx, batch)
				bad = results[0].Err != nil
				return results
			})(s)
		}, "the batch after a bad message is as good as any", none},
		{"is in doubt over a batch that is too long", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			if len(batch) > 10 {
				return everyOne(len(batch), dlqbridge.ErrUnclear)
			}
			return inner.Send(ctx, batch)
		}), "a batch over the limit sends nothing in doubt", none},
		{"makes a request for nothing", func(s *Setup) {
			requests, made := s.Requests, 0
			s.Requests = func(t tb, c Call) int { return requests(t, c) + made }
			sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
				if len(batch) == 0 {
					made++
				}
				return inner.Send(ctx, batch)
			})(s)
		}, "an empty batch is no request", none},
		{"sends every message twice", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			inner.Send(ctx, batch)
			return inner.Send(ctx, batch)
		}), "concurrent sends arrive once each", none},
	}
}

func brokenAnswers() []broken {
	const lost = "a lost answer is unclear and nothing is sent again"
	return []broken{
		{"sends again after a lost answer", repeating(dlqbridge.ErrUnclear), lost, none},
		{"sends again what was throttled", repeating(dlqbridge.ErrThrottled), "a throttled send is surely not sent", none},
		{"says that a lost answer is no send", insteadOf(dlqbridge.ErrUnclear, dlqbridge.ErrUnavailable), lost, none},
		{"says that a lost answer is a send", insteadOf(dlqbridge.ErrUnclear, nil), lost, none},
		{"says unclear and throttled at once", answering(func(r *dlqbridge.SendResult) {
			if errors.Is(r.Err, dlqbridge.ErrUnclear) {
				r.Err = errors.Join(r.Err, dlqbridge.ErrThrottled)
			}
		}), lost, none},
		{"is in doubt over what was throttled", insteadOf(dlqbridge.ErrThrottled, dlqbridge.ErrUnclear), "a throttled send is surely not sent", none},
		{"is in doubt over what was not begun", insteadOf(dlqbridge.ErrUnavailable, dlqbridge.ErrUnclear), "a send that is not begun is surely not sent", none},
		{"sends although the context has ended", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
			defer cancel()
			return inner.Send(ctx, batch)
		}), "the end of the context ends a send that is not answered", none},
		{"doubles an ordered send", sendingBy(func(inner dlqbridge.Destination, ctx context.Context, batch []dlqbridge.Outgoing) []dlqbridge.SendResult {
			results := inner.Send(ctx, batch)
			if results != nil && errors.Is(results[0].Err, dlqbridge.ErrUnclear) {
				batch = slices.Clone(batch)
				for i := range batch {
					batch[i].DedupID = strings.Repeat("again", i+1)
				}
				return inner.Send(ctx, batch)
			}
			return results
		}), "a lost answer of an ordered send doubles nothing", none},
		{"gives no ids", answering(func(r *dlqbridge.SendResult) { r.MessageID = "" }), "a batch is one request", none},
		{"gives ids for what was not sent", answering(func(r *dlqbridge.SendResult) { r.MessageID = "1" }), "a throttled send is surely not sent", none},
		{"does not say that it is denied", answering(func(r *dlqbridge.SendResult) { r.Err = meaningless(r.Err) }), "a denied send is denied", none},
		{"does not say that the destination is missing", func(s *Setup) {
			inner := s.MissingDestination
			s.MissingDestination = func(ctx context.Context) error { return meaningless(inner(ctx)) }
		}, "a missing destination is not found", none},
	}
}

func brokenFacts() []broken {
	facts := func(change func(*dlqbridge.DestinationFacts)) func(*Setup) {
		return func(s *Setup) {
			inner := s.Destination
			s.Destination = destination{Destination: inner, facts: func(ctx context.Context) (dlqbridge.DestinationFacts, error) {
				f, err := inner.Facts(ctx)
				change(&f)
				return f, err
			}}
		}
	}
	return []broken{
		{"states no limits", facts(func(f *dlqbridge.DestinationFacts) { f.MaxBytes, f.MaxAttributes = 0, 0 }), "the facts are there", none},
		{"states the limit of another queue", facts(func(f *dlqbridge.DestinationFacts) { f.MaxBytes = 1 << 20 }), "a message of the size limit goes and one byte more does not", none},
		{"states too few bytes for a batch", facts(func(f *dlqbridge.DestinationFacts) { f.BatchBytes = 1000 }), "the facts are there", none},
	}
}
