// Package awsread is what the stores that are read on AWS share: how they ask
// ([Asking]), what an error means to the person who wonders why a store is
// silent ([Asking.Ask]), and DynamoDB values as plain ones ([Plain], [Text]).
// Like awserr it talks to nothing itself.
package awsread

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/adapters/retry"
)

// Defaults of Asking, each with its reason.
const (
	// DefaultParallel keeps one batch of ten letters in one round.
	DefaultParallel = 10
	// DefaultTimeout is long for a few reads and short for the thirty seconds
	// that a received letter is invisible by default.
	DefaultTimeout = 5 * time.Second
)

// Asking is how a store asks about many tasks at once.
type Asking struct {
	// Store is the name on each testimony.
	Store string
	// Place is what is read, in words: "table receipts". Needs is the right that
	// reading takes: "dynamodb:GetItem on table receipts".
	Place, Needs string
	// Refused says what to look at when the service takes the call for invalid.
	Refused string
	// Parallel is how many tasks are asked about at once; 0 means DefaultParallel.
	Parallel int
	// Timeout is how long one task's answer may take, retries included; 0 means
	// DefaultTimeout.
	Timeout time.Duration
}

// Ask calls read for each question, so many at once and each within its time,
// and answers by position. An error of read, which awserr.Wrap gave its
// meaning, becomes a testimony that is unavailable; the others are not touched.
func (a Asking) Ask(
	ctx context.Context, questions []dlqbridge.Question,
	read func(context.Context, dlqbridge.Question) (dlqbridge.Testimony, error),
) []dlqbridge.Testimony {
	if a.Parallel <= 0 {
		a.Parallel = DefaultParallel
	}
	if a.Timeout <= 0 {
		a.Timeout = DefaultTimeout
	}
	answers := make([]dlqbridge.Testimony, len(questions))
	slots := make(chan struct{}, a.Parallel)
	var wg sync.WaitGroup
	for i, q := range questions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			answers[i] = a.one(ctx, q, read)
		})
	}
	wg.Wait()
	return answers
}

// one asks about one task. A panic over what a worker or a sender wrote must
// not make the store silent about all the others.
func (a Asking) one(
	ctx context.Context, q dlqbridge.Question,
	read func(context.Context, dlqbridge.Question) (dlqbridge.Testimony, error),
) (t dlqbridge.Testimony) {
	defer func() {
		if p := recover(); p != nil {
			t = dlqbridge.Testimony{Unavailable: fmt.Sprintf("panic: %v", p)}
		}
		t.Store = a.Store
	}()
	bounded, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	t, err := read(bounded, q)
	switch {
	case err == nil:
		return t
	case ctx.Err() != nil:
		return dlqbridge.Testimony{Unavailable: "stopped before the store answered"}
	case bounded.Err() != nil:
		return dlqbridge.Testimony{Unavailable: fmt.Sprintf("no answer within %s", a.Timeout)}
	}
	return dlqbridge.Testimony{Unavailable: a.meaning(err)}
}

// UnavailableError is an error whose text is the reason to give.
type UnavailableError string

// Error implements error.
func (e UnavailableError) Error() string { return string(e) }

// meaning is a sentence for the person who wonders why the store is silent.
func (a Asking) meaning(err error) string {
	if said, ok := errors.AsType[UnavailableError](err); ok {
		return string(said)
	}
	switch {
	case errors.Is(err, dlqbridge.ErrThrottled):
		return "throttled"
	case errors.Is(err, dlqbridge.ErrDenied):
		return "denied: needs " + a.Needs
	case errors.Is(err, dlqbridge.ErrNotFound):
		return a.Place + " does not exist"
	case errors.Is(err, dlqbridge.ErrCredentials):
		return "credentials missing or expired"
	case errors.Is(err, dlqbridge.ErrInvalid):
		return fmt.Sprintf("%s does not take the call: %s", a.Place, a.Refused)
	}
	return "cannot be reached"
}

// Call makes one call that reads, and again where that helps.
func Call[T any](ctx context.Context, p retry.Policy, call func(context.Context) (T, error)) (T, error) {
	var out T
	p.Repeatable = true // a read
	err := retry.Do(ctx, p, func(ctx context.Context) error {
		var err error
		out, err = call(ctx)
		return awserr.Wrap(err)
	})
	return out, err
}

// TablePolicy is how calls of a DynamoDB client are tried again. Credentials
// that expire are asked for anew where the client says where it has them from.
func TablePolicy(client any) retry.Policy {
	c, ok := client.(interface{ Options() dynamodb.Options })
	if !ok {
		return retry.Policy{}
	}
	return Policy(c.Options().Credentials)
}

// Policy is how calls with credentials of this provider are tried again.
func Policy(provider aws.CredentialsProvider) retry.Policy {
	return retry.Policy{Renew: awserr.Renew(provider)}
}

// LastSign is what a doubt speaks for: the latest of the times seen that can be
// true; without one when the task was last worked on, and only if nobody knows
// that either, now. A doubt that spoke for each new now could never be ended by
// the word of somebody who looked before.
func LastSign(q dlqbridge.Question, seen ...time.Time) time.Time {
	var last time.Time
	for _, t := range seen {
		if t.After(last) && possible(q, t) {
			last = t
		}
	}
	switch {
	case !last.IsZero():
		return last
	case !q.LastActivity.IsZero() && possible(q, q.LastActivity):
		return q.LastActivity
	}
	return q.Now
}

// possible: no further in the future than clocks differ.
func possible(q dlqbridge.Question, t time.Time) bool {
	return !t.After(q.Now.Add(dlqbridge.DefaultSkew))
}
