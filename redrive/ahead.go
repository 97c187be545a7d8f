package redrive

import (
	"context"
	"iter"
	"sync"
)

// chunksAtOnce is how many chunks of records are read and judged at the same
// time: enough that a plan is not a queue of round trips, few enough that a
// table which was just made takes them. Chunks that are authorised are smaller:
// each of their records is a write of its own.
const (
	chunksAtOnce = 16
	grantChunk   = 48
)

// ahead does something with each value, up to width of them at once, and
// yields the results in the order of the values. An error ends it. What it
// started has ended when it returns.
func ahead[T, R any](ctx context.Context, values iter.Seq2[T, error], width int, do func(context.Context, T) (R, error)) iter.Seq2[R, error] {
	type result struct {
		r   R
		err error
	}
	return func(yield func(R, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		coming := make(chan chan result, width-1) // and one that waits to be put in
		var started sync.WaitGroup
		defer started.Wait()
		defer cancel()
		started.Go(func() {
			defer close(coming)
			for v, err := range values {
				one := make(chan result, 1)
				select {
				case coming <- one:
				case <-ctx.Done():
					return
				}
				if err != nil {
					one <- result{err: err}
					return
				}
				started.Go(func() {
					r, err := do(ctx, v)
					one <- result{r, err}
				})
			}
		})
		for one := range coming {
			res := <-one
			if !yield(res.r, res.err) || res.err != nil {
				return
			}
		}
	}
}
