package redrive

import (
	"context"
	"fmt"
	"iter"

	"github.com/dlqbridge/dlqbridge"
)

// readChunk is how many records are read and judged together: what DynamoDB
// returns for one batch read (BatchGetItem, 100 keys, read 2026-11).
const readChunk = 100

// chunks cuts a sequence into slices of at most n. An error ends it.
func chunks[T any](seq iter.Seq2[T, error], n int) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var out []T
		for v, err := range seq {
			if err != nil {
				yield(nil, err)
				return
			}
			if out = append(out, v); len(out) == n {
				if !yield(out, nil) {
					return
				}
				out = nil
			}
		}
		if len(out) > 0 {
			yield(out, nil)
		}
	}
}

func idsOf(members []dlqbridge.Member) []string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	return ids
}

// each is a slice as a sequence that never fails.
func each[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// candidates yields the named records, or those that the index lists where none
// is named.
func (c *Controller) candidates(ctx context.Context, named []string, filter dlqbridge.Filter) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range named {
			if !yield(id, nil) {
				return
			}
		}
		if len(named) > 0 {
			return
		}
		for l, err := range c.o.Index.List(ctx, filter) {
			if err != nil {
				yield("", fmt.Errorf("list records: %w", err))
				return
			}
			if !yield(l.Control.ID, nil) {
				return
			}
		}
	}
}
