package redrive

import (
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
