package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// Controller makes the controller of redrive jobs.
func (b *Bridge) Controller() *redrive.Controller {
	c := b.Config.Redrive
	return redrive.New(redrive.Options{
		Index: b.Store, Controls: b.Store, Cases: b.Store, Evidence: b.Store, Leases: b.Store, Jobs: b.Store, Holds: b.Store, Gate: b.Store, Approvals: b.Store, Groups: b.Store,
		Payloads: b.Store, Counted: b.Store, Judge: judge{b}, Glance: judge{b},
		Destination: b.openDestination, Route: b.redriveRoute,
		Probe:       b.probe,
		Environment: fmt.Sprintf("dynamodb:%s:%s", b.DynamoDB.Options().Region, b.Config.Tables.Records),
		Now:         b.Now, Log: b.Log, Holder: b.holder, Progress: b.progress,
		Lease: time.Duration(c.Lease), SendDeadline: time.Duration(c.SendDeadline), AuthorizeTTL: time.Duration(c.AuthorizeTTL), Skew: time.Duration(b.Config.Skew),
		Rate: dlqbridge.Rate(c.Rate), Burst: c.Burst, MaxInFlight: c.MaxInFlight,
		SecondPersonFrom: c.SecondPersonFrom,
		Hours:            c.Hours.Span(),
		Canary:           c.Canary, PauseAtRecurrence: c.PauseAtRecurrence, PauseAtFailure: c.PauseAtFailure,
	})
}

// ResolveSources asks for the URN of each route's configured source, which a
// job compares with the records' own. A source that cannot be found keeps the
// URN that it would have: what leads there is then excluded as without target,
// and the rest goes on.
func (b *Bridge) ResolveSources(ctx context.Context) error {
	for _, r := range b.Config.Routes {
		if _, err := b.Source(ctx, r); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.Log.LogAttrs(ctx, slog.LevelWarn, "source cannot be opened", slog.String("route", r.Name), slog.String("error", err.Error()))
			// Without the right to ask, nobody can say which source the route has,
			// and every record would seem to come from another one.
			if unknown := b.assumeSource(ctx, r); errors.Is(unknown, dlqbridge.ErrDenied) || errors.Is(unknown, dlqbridge.ErrCredentials) {
				return unknown
			}
		}
		if err := b.ResolveAsides(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// assumeSource notes the source that a route would have if it were there. A
// queue stands beside its dead-letter queue, which SQS demands to be in the same
// account and region.
func (b *Bridge) assumeSource(ctx context.Context, r config.Route) error {
	if r.SQS == nil {
		assumed := source{urn: r.Target()}
		if r.PubSub != nil {
			assumed = assumedSources(*r.PubSub)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sources[r.Name] = assumed
		return nil
	}
	urn := r.SQS.SourceQueue
	if !strings.HasPrefix(urn, "arn:") {
		var err error
		if urn, err = b.besideDead(ctx, r, urn); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sources[r.Name] = source{urn: urn}
	return nil
}

func (b *Bridge) redriveRoute(name string) (redrive.Route, bool) {
	r, ok := b.Config.Route(name)
	if !ok {
		return redrive.Route{}, false
	}
	b.mu.Lock()
	from, resolved := b.sources[name]
	b.mu.Unlock()
	if !resolved && r.SQS != nil {
		from.urn = r.SQS.SourceQueue
	}
	out := redrive.Route{
		Name: name, Source: from.urn, Kit: r.Kit, Absence: r.Outcome == config.OutcomeAbsence, CancelExpired: r.AutoCancelExpired, ObserveFor: time.Duration(b.Config.Redrive.ObserveFor),
	}
	out.ResumeTo, out.CompensateTo, out.CompensateIdempotent = b.aside(name, r.ResumeTo), b.aside(name, r.CompensateTo), r.CompensateAgain
	if r.PubSub != nil {
		out.FanOutAside = r.PubSub.FanOut == config.FanOutAccept
		out.Target, out.Sources = r.Target(), from.all
		// Whoever names a topic for what goes back has chosen who reads it.
		out.FanOut = r.PubSub.FanOut == config.FanOutAccept || r.PubSub.RedriveTopic != ""
	}
	return out, true
}

// beside is the ARN of a queue, by name or URL, in the account and region of
// another one.
func beside(arn, queue string) string {
	name := queue[strings.LastIndexByte(queue, '/')+1:] // of a URL, or all of a name
	return arn[:strings.LastIndexByte(arn, ':')+1] + name
}

// openDestination opens where a job sends to, and refuses an observation that
// would end before the source itself gives a message up.
func (b *Bridge) openDestination(ctx context.Context, route, urn string) (dlqbridge.Destination, error) {
	d, err := b.destinationOf(ctx, route, urn)
	if err != nil {
		return nil, err
	}
	if err := b.fits(ctx, d, urn); err != nil {
		return nil, err
	}
	return d, nil
}

// CheckWindow says whether the observation window fits a destination: nil, or
// a *WindowError among others.
func (b *Bridge) CheckWindow(ctx context.Context, route, urn string) error {
	_, err := b.openDestination(ctx, route, urn)
	return err
}

func (b *Bridge) fits(ctx context.Context, d dlqbridge.Destination, urn string) error {
	window := time.Duration(b.Config.Redrive.ObserveFor)
	if window == 0 {
		return nil
	}
	facts, err := d.Facts(ctx)
	if err != nil {
		return err
	}
	if auto := Auto(facts); window < auto {
		return &WindowError{Destination: urn, Window: window, Auto: auto, Facts: facts}
	}
	return nil
}

// WindowError is an observation window that would end before the source itself
// gives a message up.
type WindowError struct {
	Destination  string
	Window, Auto time.Duration
	Facts        dlqbridge.DestinationFacts
}

// Error says the number that would be right.
func (e *WindowError) Error() string {
	return fmt.Sprintf("observe_for %s is shorter than the %s that %s needs (the larger of %s and maxReceiveCount %d x visibility timeout %s)",
		config.Duration(e.Window), config.Duration(e.Auto), e.Destination, config.Duration(config.MinObserve), e.Facts.MaxReceives, config.Duration(e.Facts.Visibility))
}

// Unwrap gives it a meaning.
func (e *WindowError) Unwrap() error { return dlqbridge.ErrInvalid }
